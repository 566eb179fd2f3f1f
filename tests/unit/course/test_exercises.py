import pytest

from labkit.course import exercises
from labkit.course.exercises import Exercise, Finding
from labkit.errors import ApiError, BadInput

YES = Finding(what="there is a pod", holds=True, instead="never told")
NO = Finding(what="it runs", holds=False, instead="Pending")


def examined(*findings, error=None):
    asked = []

    def check(lab):
        for finding in findings:
            asked.append(finding)
            yield finding
        if error:
            raise error

    verdict = exercises.examine(Exercise(name="x", check=check, hints=()), None)
    return verdict, asked


def test_an_exercise_is_done_when_all_findings_hold():
    verdict, _ = examined(YES, YES)
    assert verdict.done
    assert str(verdict) == "✓ there is a pod\n✓ there is a pod"


def test_nothing_is_looked_at_after_the_first_that_does_not_hold():
    verdict, asked = examined(YES, NO, YES)
    assert not verdict.done
    assert asked == [YES, NO]
    assert str(verdict) == "✓ there is a pod\n✗ not yet: it runs\n  found: Pending"


def test_a_check_that_looks_at_nothing_passes_nobody():
    verdict, _ = examined()
    assert not verdict.done


def test_a_cluster_that_does_not_answer_is_a_finding():
    verdict, _ = examined(YES, error=ApiError("no answer"))
    assert not verdict.done
    assert "no answer" in str(verdict)


def test_a_fault_in_a_check_is_not_taken_for_a_wrong_answer():
    with pytest.raises(ZeroDivisionError):
        examined(YES, error=ZeroDivisionError())


def test_the_exercises_of_a_lab_are_found_by_name():
    assert set(exercises.of_lab("01")) == {"pair"}
    with pytest.raises(BadInput, match="no lab '99'"):
        exercises.of_lab("99")
