import itertools
import threading
import time

import pytest

from labkit.errors import WaitTimedOut
from labkit.waiting import NotYet, Seen, wait_until


def test_the_value_that_was_seen_is_returned() -> None:
    looks = iter([NotYet("a"), NotYet("b"), Seen(7)])
    assert wait_until(lambda: next(looks), what="seven", timeout_s=5) == 7


def test_a_falsy_value_counts_as_seen() -> None:
    assert wait_until(lambda: Seen(0), what="zero", timeout_s=0) == 0


def test_giving_up_carries_the_last_state() -> None:
    states = map(str, itertools.count())
    with pytest.raises(WaitTimedOut) as caught:
        wait_until(lambda: NotYet(next(states)), what="the end", timeout_s=0.05)
    assert int(caught.value.last_state) > 0
    assert caught.value.what == "the end"


def test_without_time_there_is_still_one_look() -> None:
    assert wait_until(lambda: Seen("now"), what="now", timeout_s=0) == "now"


def test_a_failing_probe_ends_the_wait() -> None:
    def probe() -> NotYet:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wait_until(probe, what="never", timeout_s=5)


def test_a_wait_can_be_called_off_from_elsewhere() -> None:
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    started = time.monotonic()
    with pytest.raises(WaitTimedOut):
        wait_until(lambda: NotYet("-"), what="x", timeout_s=60, interval_s=60, stop=stop)
    assert time.monotonic() - started < 30
