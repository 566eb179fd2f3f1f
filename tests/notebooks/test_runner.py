"""The runner with small notebooks, one trait each: it must never call a failure a success."""

import asyncio
import io
import os
import re
import signal
from threading import Thread

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from labkit.course import report, runner
from labkit.progress import PlainLines
from labkit.waiting import NotYet, Seen, wait_until

pytestmark = pytest.mark.notebook

SPEC = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
EXERCISE = {"tags": ["exercise"], "labkit": {"exercise": "pair"}}

HANG = "import threading; threading.Event().wait()"
NOTE = "import os; open('{}', 'w').write(f'{{os.getppid()}} {{os.getpid()}}')"
"""Writes down the processes of worker and kernel."""

FAKE_LAB = """
from labkit.course.exercises import Exercise, Finding
from labkit.course.lab import Lab

done = []

def check(lab):
    yield Finding(what="it is done", holds=bool(done), instead="nothing")

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
    result = run(NOTE.format(tmp_path / "pid"), HANG, timeout_s=15)
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
def solved(tmp_path):
    def put(source):
        folder = tmp_path / "a folder" / "solutions" / "99"
        folder.mkdir(parents=True)
        (folder / "pair.py").write_text(source)

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
    assert "not yet: it is done" in "\n".join(result.problems)


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


def test_an_exercise_without_a_solution_is_a_failure(run):
    result = run(FAKE_LAB, new_code_cell("# yours", metadata=EXERCISE), CHECK)
    assert not result.passed
    assert "no solution" in "\n".join(result.problems)
    assert result.notebook is None


def test_a_cell_may_ask_for_more_time(run):
    patient = {"labkit": {"timeout_s": 60}}
    cell = new_code_cell("import threading; threading.Event().wait(3)", metadata=patient)
    assert run(cell, cell_timeout_s=1).passed


def test_a_file_that_is_no_notebook_is_a_failure(tmp_path):
    source = tmp_path / "99-broken.ipynb"
    source.write_text("{")
    result = runner.run(
        source, cluster="none", kubeconfig=tmp_path / "kubeconfig", output_dir=tmp_path / "reports"
    )
    assert not result.passed
    assert result.notebook is None


def test_the_executed_notebook_tells_nothing_of_the_machine(run, tmp_path):
    result = run("x = 1\nprint(x)")
    text = result.notebook.read_text()
    assert '"1\\n"' in text
    for trace in (str(tmp_path), "labkit-run-", "papermill", "iopub"):
        assert trace not in text


def test_the_users_own_startup_files_do_not_matter(run, tmp_path, monkeypatch):
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-mine.py").write_text("x = 1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    assert "NameError" in "\n".join(run("x").problems)


def test_an_older_report_of_the_same_lab_does_not_survive_a_run_that_made_none(run, solved):
    assert run("1").passed
    result = run(new_code_cell("# yours", metadata=EXERCISE))
    assert not result.passed
    assert result.notebook is None


def test_reports_say_the_same_to_people_and_machines(run, tmp_path):
    result = run("1 / 0")
    reports = report.write([result], tmp_path / "reports")
    junit = reports.junit.read_text()
    assert 'failures="1"' in junit
    told = report.as_text(result, reports)
    page = reports.pages[result.lab]
    assert str(page) in told
    assert "FAILED" in told
    for text in (junit, told, page.read_text()):
        assert "ZeroDivisionError" in text
    (entry,) = report.as_json([result], reports)
    assert entry["passed"] is False
    assert entry["notebook"] == str(result.notebook)


def test_a_page_fetches_nothing_from_elsewhere(run, tmp_path):
    reports = report.write([run("1")], tmp_path / "reports")
    (page,) = reports.pages.values()
    assert not re.search(r"(?:src|import)[ (=]*[\"']https?://", page.read_text())


def test_a_run_inside_a_running_event_loop_is_a_run_too(run):
    async def inside():
        return run("1")

    assert asyncio.run(inside()).passed


def test_progress_shows_a_failed_lab_as_failed(run):
    out = io.StringIO()
    assert run("1", progress=PlainLines(out)).passed
    assert not run("1 / 0", progress=PlainLines(out)).passed
    # A slow machine also has lines of how far it is.
    lines = out.getvalue().splitlines()
    done, failed = (line for line in lines if line.split()[0] in ("done", "failed"))
    assert done.split()[:3] == ["done", "lab", "99-small"]
    assert failed.split()[:3] == ["failed", "lab", "99-small"]
