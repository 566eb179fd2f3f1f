"""The runner with small notebooks, one trait each: it must never call a failure a success."""

import os
import signal
from threading import Thread

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from labkit.course import report, runner
from labkit.progress import Silent
from labkit.waiting import NotYet, Seen, wait_until

SPEC = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
EXERCISE = {"tags": ["exercise"], "labkit": {"exercise": "pair"}}

HANG = "import threading; threading.Event().wait()"
NOTE = "import os; open('{}', 'w').write(f'{{os.getppid()}} {{os.getpid()}}')"
"""Writes down the processes of worker and kernel."""

FAKE_LAB = """
from labkit.course import events
from labkit.course.exercises import Exercise
from labkit.course.lab import Lab
from labkit.errors import LabFailed

done = []

def check(lab):
    if not done:
        raise LabFailed("not done")
    return "Well."

lab = Lab.__new__(Lab)
lab._exercises = {"pair": Exercise(name="pair", check=check, hints=())}
"""


@pytest.fixture
def run(tmp_path):
    def go(*cells, name="99-small.ipynb", **options):
        made = [cell if not isinstance(cell, str) else new_code_cell(cell) for cell in cells]
        notebook = new_notebook(cells=[new_markdown_cell("# Small"), *made], metadata=SPEC)
        source = tmp_path / "a folder" / name
        source.parent.mkdir(exist_ok=True)
        write(notebook, source)
        return runner.run(
            source,
            cluster="none",
            kubeconfig=tmp_path / "kubeconfig",
            output_dir=tmp_path / "reports",
            **options,
        )

    return go


def test_a_notebook_that_runs_to_its_end_passes(run):
    result = run("x = 1", "assert x == 1", "")
    assert result.passed, result.problems
    assert (result.cells, result.total) == (2, 2)
    assert result.notebook.is_file()


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; sys.exit(0)", "0 of 2 code cells ran without an error"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "Kernel died"),
        ("import os; os._exit(0)", "Kernel died"),
        ("def broken(:", "SyntaxError"),
        ("from labkit.errors import LabFailed\nraise LabFailed('no good')", "no good"),
    ],
)
def test_every_kind_of_failure_is_one(run, cell, told):
    result = run(cell, "print('after')")
    assert not result.passed
    assert told in "\n".join(result.problems)


def test_a_cell_that_hangs_is_ended(run):
    result = run(HANG, cell_timeout_s=2)
    assert not result.passed
    assert "imeout" in "\n".join(result.problems)


def test_a_run_that_takes_too_long_is_ended_with_its_kernel(run, tmp_path):
    result = run(NOTE.format(tmp_path / "pid"), HANG, timeout_s=25)
    assert not result.passed
    assert "did not end in time" in result.problems[0]
    gone(int((tmp_path / "pid").read_text().split()[1]))


def test_a_killed_worker_is_a_failure(run, tmp_path):
    pid = tmp_path / "pid"

    def kill():
        text = wait_until(
            lambda: Seen(t) if pid.exists() and (t := pid.read_text()) else NotYet("-"),
            what="the kernel",
            timeout_s=60,
        )
        os.kill(int(text.split()[0]), signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    result = run(NOTE.format(pid), HANG)
    killer.join(60)
    assert not result.passed
    assert "killed by signal 9" in result.problems[0]
    gone(int(pid.read_text().split()[1]))


def gone(pid):
    def look():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return Seen(True)
        return NotYet("alive")

    wait_until(look, what=f"process {pid} to end", timeout_s=20)


@pytest.fixture
def solved(monkeypatch, tmp_path):
    """Solutions of the small notebook's exercise; the worker finds them in its own process."""

    def put(source):
        folder = tmp_path / "data" / "notebooks" / "solutions" / "99"
        folder.mkdir(parents=True)
        (folder / "pair.txt").write_text(source)
        site = tmp_path / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(
            "import pathlib, labkit.paths\n"
            f"data = pathlib.Path({str(tmp_path / 'data')!r})\n"
            "labkit.paths.data_dir = lambda name: data / name\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)

    return put


CHECK = 'lab.check("pair")'


def test_an_exercise_is_proven_by_its_check_before_and_after(run, solved):
    solved("done.append(1)")
    result = run(FAKE_LAB, new_code_cell("# yours", metadata=EXERCISE), CHECK)
    assert result.passed, result.problems
    assert result.exercises == ("pair",)


def test_a_solution_that_does_not_solve_is_a_failure(run, solved):
    solved("pass")
    result = run(FAKE_LAB, new_code_cell("# yours", metadata=EXERCISE), CHECK)
    assert not result.passed
    assert "not done" in "\n".join(result.problems)


def test_a_check_that_always_passes_is_a_failure(run, solved):
    solved("pass")
    lab = FAKE_LAB + "\ndone.append('from the start')"
    result = run(lab, new_code_cell("# yours", metadata=EXERCISE), CHECK)
    assert not result.passed
    assert "passes before anything was done" in "\n".join(result.problems)


def test_an_exercise_whose_check_is_missing_is_a_failure(run, solved):
    solved("done.append(1)")
    result = run(FAKE_LAB, new_code_cell("# yours", metadata=EXERCISE))
    assert not result.passed
    assert "exercise 'pair' was not seen" in "\n".join(result.problems)


def test_reports_say_the_same_to_people_and_machines(run, tmp_path):
    results = [run("1 / 0")]
    report.write_junit(results, tmp_path / "junit.xml")
    text = (tmp_path / "junit.xml").read_text()
    assert 'failures="1"' in text
    assert "ZeroDivisionError" in text
    assert report.as_json(results)[0]["passed"] is False
    page = report.write_html(results[0].notebook)
    assert page
    assert "ZeroDivisionError" in page.read_text()


def test_progress_tells_the_cells(run):
    seen = []

    class Watching(Silent):
        def step(self, title):
            seen.append(title)
            return super().step(title)

    assert run("1", progress=Watching()).passed
    assert seen == ["lab 99-small"]
