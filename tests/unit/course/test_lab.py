"""The lab object and its magics, with everything outside of them scripted."""

from types import SimpleNamespace

import pytest

from labkit.course import events, magics
from labkit.course.exercises import Exercise, Finding
from labkit.course.lab import Lab
from labkit.errors import ApiError, BadInput, LabFailed

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


class FakeCluster:
    name = "fake"

    def __init__(self):
        self.asked = []
        self.stderr = ""
        self.applied = []

    def client(self):
        return self

    def kubectl(self, *args):
        self.asked.append(list(args))
        return SimpleNamespace(stdout="NAME\na\n", stderr=self.stderr)

    def apply(self, obj, *, namespace):
        self.applied.append((obj["metadata"]["name"], namespace))
        if obj["metadata"]["name"] == "bad":
            raise ApiError('Pod "bad" is invalid: metadata.name: no (422 Invalid, PATCH /x)')
        return SimpleNamespace(object=obj, verdict="created")


@pytest.fixture
def lab(monkeypatch):
    monkeypatch.delenv(events.EVENTS_ENV, raising=False)
    lab = Lab("01", FakeCluster())
    done = []
    check = Exercise(
        name="pair",
        check=lambda _: iter([Finding(what="it is done", holds=bool(done), instead="no")]),
        hints=("gentle", "plain"),
    )
    lab._exercises = {"pair": check}
    lab.done = done
    return lab


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("get pods", True),
        ("get pods -A", False),
        ("get pods --all-namespaces", False),
        ("get pods -n other", False),
        ("get pods -nother", False),
        ("get pods --namespace=other", False),
        ("exec a -- grep -n x", True),
    ],
)
def test_kubectl_works_in_the_labs_namespace_unless_told_otherwise(lab, line, own, capsys):
    magics.kubectl(lab, line)
    (asked,) = lab.cluster.asked
    assert (asked[:2] == ["--namespace", "lab-01"]) is own
    assert asked[-2:] == line.split()[-2:]
    assert capsys.readouterr().out == "NAME\na\n"


def test_what_kubectl_warns_of_is_shown_too(lab, capsys):
    lab.cluster.stderr = "Warning: old\n"
    magics.kubectl(lab, "get pods")
    assert "Warning: old" in capsys.readouterr().out


def test_an_open_quote_is_told(lab):
    with pytest.raises(BadInput, match="closing quotation"):
        magics.kubectl(lab, "get 'pods")


def test_a_manifest_is_applied_object_by_object_and_says_how(lab, capsys):
    magics.manifest(lab, "", POD + "---\n" + POD.replace(": a", ": b"))
    assert lab.cluster.applied == [("a", "lab-01"), ("b", "lab-01")]
    assert capsys.readouterr().out == "Pod a created\nPod b created\n"


def test_what_came_before_a_refused_object_is_told(lab, capsys):
    with pytest.raises(ApiError, match=r"Pod is refused: line 8, metadata\.name: no"):
        magics.manifest(lab, "", POD + "---\n" + POD.replace(": a", ": bad"))
    assert capsys.readouterr().out == "Pod a created\n"


def test_lines_are_counted_as_an_editor_counts_them_with_the_magic_first(lab):
    with pytest.raises(BadInput, match="line 3: not YAML"):
        magics.manifest(lab, "", "a: 1\n b: 2\n")
    assert lab.cluster.applied == []


def test_an_empty_manifest_does_nothing_and_says_so(lab, capsys):
    magics.manifest(lab, "", "# Yours.\n")
    assert capsys.readouterr().out == "nothing to apply yet\n"


def test_a_manifest_can_be_kept_as_a_file_for_kubectl(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    magics.manifest(lab, " pod.yaml ", POD)
    assert (tmp_path / "pod.yaml").read_text() == POD


@pytest.mark.parametrize("name", ["../pod.yaml", "/tmp/pod.yaml", "pod.txt", "two names.txt"])
def test_only_into_this_folder_and_only_as_yaml(lab, name):
    with pytest.raises(BadInput, match="name of a YAML file"):
        magics.manifest(lab, name, POD)


def test_a_check_tells_a_learner_what_is_missing_and_fails_a_test_run(
    lab, capsys, monkeypatch, tmp_path
):
    lab.check("pair")
    assert capsys.readouterr().out == "✗ not yet: it is done\n  found: no\n"
    monkeypatch.setenv(events.EVENTS_ENV, str(tmp_path / "events"))
    with pytest.raises(LabFailed, match="exercise 'pair': ✗ not yet: it is done"):
        lab.check("pair")
    assert events.read(tmp_path / "events") == []


def test_only_a_check_that_passes_counts_as_solved(lab, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv(events.EVENTS_ENV, str(tmp_path / "events"))
    lab.expect_unsolved("pair")
    lab.done.append(1)
    lab.check("pair")
    kinds = [event.kind for event in events.read(tmp_path / "events")]
    assert kinds == [events.UNSOLVED, events.SOLVED]
    assert "Exercise 'pair' is done." in capsys.readouterr().out
    with pytest.raises(LabFailed, match="before anything was done"):
        lab.expect_unsolved("pair")


def test_each_hint_says_more_and_the_last_one_stays(lab, capsys):
    for _ in range(3):
        lab.hint("pair")
    lab.hint("pair", 1)
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "Hint 1 of 2: gentle",
        "Hint 2 of 2: plain",
        "Hint 2 of 2: plain",
        "Hint 1 of 2: gentle",
    ]


def test_a_statement_that_does_not_hold_stops_the_lesson_with_what_was_seen(lab, capsys):
    lab.expect([1], "there is one")
    assert capsys.readouterr().out == "✓ there is one\n"
    with pytest.raises(LabFailed, match=r"says otherwise: there is one\n  saw: \[\]"):
        lab.expect([], "there is one", saw=[])


def test_an_exercise_that_is_not_there_is_told_with_those_that_are(lab):
    for act in (lab.check, lab.hint, lab.expect_unsolved):
        with pytest.raises(BadInput, match="no exercise 'x'; it has: pair"):
            act("x")
