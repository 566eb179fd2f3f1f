import pickle

import pytest

from labkit import errors
from labkit.errors import ApiError, LabError, WaitTimedOut


def all_errors() -> list[type[LabError]]:
    return [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, LabError)]


def test_an_error_says_what_to_do_and_where_to_look() -> None:
    error = LabError("node lab-0 is gone", hint="bring it back", see="labkit status")
    assert str(error).splitlines() == [
        "node lab-0 is gone",
        "  do:  bring it back",
        "  see: labkit status",
    ]


def test_a_notebook_shows_the_message_and_no_frames() -> None:
    assert LabError("it broke", hint="mend it")._render_traceback_() == [
        "LabError: it broke\n  do:  mend it"
    ]


def test_a_vain_wait_tells_what_was_seen_last() -> None:
    error = WaitTimedOut("pod p to run", waited_s=3.21, last_state="Pending: no device")
    assert str(error) == "waited 3.2 s for pod p to run; last seen: Pending: no device"


@pytest.mark.parametrize("kind", all_errors())
def test_every_error_has_an_exit_code_that_is_a_failure(kind: type[LabError]) -> None:
    assert 0 < kind.exit_code < 126


@pytest.mark.parametrize(
    "error",
    [
        WaitTimedOut("x", waited_s=1.0, last_state="y", hint="h"),
        ApiError("refused", status=422, reason="Invalid", hint="h"),
    ],
)
def test_errors_survive_a_process_boundary_whole(error: LabError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
