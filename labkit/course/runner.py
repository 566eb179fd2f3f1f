"""Runs labs as tests: one process each, and a verdict from what was recorded.

A lab has passed when its process ended well, every code cell was executed without an error,
and every exercise was seen to fail before its solution and to pass after it. Anything else,
a killed kernel, a hung cell or a ``sys.exit(0)`` included, is a failure that says what is
missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from labkit.course import events, notebooks
from labkit.course.events import EVENTS_ENV, Event
from labkit.course.opening import CLUSTER_ENV
from labkit.progress import Progress, Silent, Step
from labkit.waiting import NotYet, Seen, wait_until

CELL_TIMEOUT_S = 120
"""How long one cell may take unless it says otherwise, in seconds."""

LAB_TIMEOUT_S = 1800.0
"""How long one lab may take, in seconds."""

LOOK_S = 0.1
"""Longest pause between two looks at a run, in seconds."""

STOP_S = 10.0
"""How long a run that is told to end may take, in seconds."""

TAIL = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one lab.

    Attributes:
        lab: the notebook's name without its ending.
        problems: what is wrong, one statement each; empty when it passed.
        cells: code cells that were executed without an error.
        total: code cells that there are.
        exercises: exercises that were seen to fail before their solution and pass after it.
        seconds: how long it took.
        notebook: the executed notebook, if it came to that.
    """

    lab: str
    problems: tuple[str, ...]
    cells: int
    total: int
    exercises: tuple[str, ...]
    seconds: float
    notebook: Path | None

    @property
    def passed(self) -> bool:
        """The verdict."""
        return not self.problems


class _Failed(Exception):
    """Carries a result out of its progress step, so that the step is shown as failed."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


def run(
    source: Path,
    *,
    cluster: str,
    kubeconfig: Path,
    output_dir: Path,
    cell_timeout_s: int = CELL_TIMEOUT_S,
    timeout_s: float = LAB_TIMEOUT_S,
    progress: Progress | None = None,
) -> Result:
    """Run one notebook on a cluster.

    Args:
        source: the notebook; it is not changed.
        cluster: the cluster's name.
        kubeconfig: the cluster's kubeconfig; the run sees no other.
        output_dir: where the executed notebook goes.
        cell_timeout_s: how long one cell may take unless it says otherwise, in seconds.
        timeout_s: how long all of it may take, in seconds.
        progress: shows the cells go by.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    (output_dir / source.name).unlink(missing_ok=True)
    try:
        with (
            (progress or Silent()).step(f"lab {source.stem}") as step,
            tempfile.TemporaryDirectory(prefix="labkit-run-") as folder,
        ):
            started = time.monotonic()
            work = Path(folder).resolve()
            environment = _environment(work, cluster, kubeconfig)
            arguments = [str(source.resolve()), str(work / source.name), str(cell_timeout_s)]
            status, said = _execute(arguments, environment, work, step, timeout_s)
            result = _judged(
                events.read(_log(work)),
                lab=source.stem,
                status=status,
                said=said,
                seconds=time.monotonic() - started,
                notebook=_kept(work / source.name, output_dir / source.name),
            )
            _fail_step(result)
    except _Failed as failed:
        return failed.result
    return result


def _fail_step(result: Result) -> None:
    if not result.passed:
        raise _Failed(result)


def _log(work: Path) -> Path:
    return work / "events.jsonl"


def _environment(work: Path, cluster: str, kubeconfig: Path) -> dict[str, str]:
    return {
        **os.environ,
        EVENTS_ENV: str(_log(work)),
        CLUSTER_ENV: cluster,
        "KUBECONFIG": str(kubeconfig),
        # Nobody's startup files, history or kernels of the same name: what the lab does is
        # to depend on nothing but this installation.
        "IPYTHONDIR": str(work / "ipython"),
        "JUPYTER_CONFIG_DIR": str(work / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(work / "runtime"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def _execute(
    arguments: list[str], environment: dict[str, str], work: Path, step: Step, timeout_s: float
) -> tuple[int | None, str]:
    """Run a worker to its end; its exit status is None when it had to be ended."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
        subprocess.Popen(
            [sys.executable, "-m", "labkit.course.worker", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as child,
    ):
        status: int | None = None
        try:
            status = _followed(child, _log(work), step, timeout_s)
        finally:
            if child.poll() is None:
                _end(child)
        output.seek(0)
        return status, output.read()[-TAIL:]


def _followed(
    child: subprocess.Popen[bytes], log: Path, step: Step, timeout_s: float
) -> int | None:
    deadline = time.monotonic() + timeout_s

    def look() -> Seen[int | None] | NotYet:
        told = events.read(log)
        total = next((e.detail["cells"] for e in told if e.kind == events.STARTED), None)
        step.update(sum(e.kind == events.CELL_DONE for e in told), total, unit="cells")
        status = child.poll()
        if status is not None:
            return Seen(status)
        return Seen(None) if time.monotonic() > deadline else NotYet("running")

    return wait_until(look, what="the run", timeout_s=timeout_s + STOP_S, interval_s=LOOK_S)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a worker; its kernel is ended by it, or else notices that its parent is gone."""
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(STOP_S)


def _kept(executed: Path, target: Path) -> Path | None:
    """Put the executed notebook in its place, as far as there is one."""
    import nbformat

    try:
        notebook = nbformat.read(executed, as_version=nbformat.NO_CONVERT)
    except (FileNotFoundError, ValueError):  # never begun, or killed while it was written
        return None
    notebooks.without_traces(notebook)
    nbformat.write(notebook, target)
    return target


def _judged(
    told: list[Event],
    *,
    lab: str,
    status: int | None,
    said: str,
    seconds: float,
    notebook: Path | None,
) -> Result:
    started = next((event for event in told if event.kind == events.STARTED), None)
    total = started.detail["cells"] if started else 0
    expected = started.detail["exercises"] if started else []
    executed = sum(
        event.kind == events.CELL_DONE and event.detail["status"] == "ok" for event in told
    )
    proven = tuple(name for name in expected if _proven(name, told))
    # What was not reached is no news when something failed before.
    problems = _problems(told, status, said, executed=executed, total=total) or [
        f"exercise {name!r} was not seen to fail before its solution and to pass after it"
        for name in expected
        if name not in proven
    ]
    return Result(
        lab=lab,
        problems=tuple(problems),
        cells=executed,
        total=total,
        exercises=proven,
        seconds=seconds,
        notebook=notebook,
    )


def _proven(exercise: str, told: list[Event]) -> bool:
    kinds = [event.kind for event in told if event.detail.get("exercise") == exercise]
    return events.UNSOLVED in kinds and kinds[-1] == events.SOLVED


def _problems(
    told: list[Event], status: int | None, said: str, *, executed: int, total: int
) -> list[str]:
    problems = []
    if status is None:
        problems.append("it did not end in time and was ended")
    elif status < 0:
        problems.append(f"its process was killed by signal {-status}")
    failed = [event.detail["error"] for event in told if event.kind == events.FAILED]
    problems += failed
    if status and status > 0 and not failed:
        last = said.strip().splitlines()[-1:] or ["it said nothing"]
        problems.append(f"its process failed with exit code {status}: {last[0]}")
    if executed < total or not total:
        begun = [event.detail["source"] for event in told if event.kind == events.CELL_STARTED]
        where = f"; the last one begun: {begun[-1]}" if begun else ""
        problems.append(f"{executed} of {total} code cells ran without an error{where}")
    if not problems and events.FINISHED not in {event.kind for event in told}:
        problems.append("it ended without finishing")
    return problems
