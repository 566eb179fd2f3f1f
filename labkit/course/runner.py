"""Runs labs as tests: one process each, a verdict from what was recorded, and reports.

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

from labkit.course import events
from labkit.course.events import EVENTS_ENV, Event
from labkit.course.opening import CLUSTER_ENV
from labkit.progress import Progress, Silent, Step
from labkit.waiting import NotYet, Seen, wait_until

CELL_TIMEOUT_S = 120
"""How long one cell may take, in seconds."""

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
        passed: the verdict.
        problems: why not, one sentence each; empty when passed.
        cells: code cells that were executed without an error.
        total: code cells that there are.
        exercises: exercises that were seen to fail before their solution and pass after it.
        seconds: how long it took.
        notebook: the executed notebook.
    """

    lab: str
    passed: bool
    problems: tuple[str, ...]
    cells: int
    total: int
    exercises: tuple[str, ...]
    seconds: float
    notebook: Path


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
        cell_timeout_s: how long one cell may take, in seconds.
        timeout_s: how long all of it may take, in seconds.
        progress: shows the cells go by.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    target = (output_dir / source.name).resolve()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="labkit-run-") as folder:
        log = Path(folder) / "events.jsonl"
        environment = {
            **os.environ,
            EVENTS_ENV: str(log),
            CLUSTER_ENV: cluster,
            "KUBECONFIG": str(kubeconfig),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "JUPYTER_PLATFORM_DIRS": "1",
        }
        arguments = [str(source.resolve()), str(target), str(cell_timeout_s)]
        with (progress or Silent()).step(f"lab {source.stem}") as step:
            status, said = _execute(arguments, environment, log, step, timeout_s)
        told = events.read(log)
    return _judged(
        source, target, told, status=status, said=said, seconds=time.monotonic() - started
    )


def _execute(
    arguments: list[str], environment: dict[str, str], log: Path, step: Step, timeout_s: float
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
            status = _followed(child, log, step, timeout_s)
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
    """End a worker; its kernel notices that its parent is gone and ends as well."""
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(STOP_S)


def _judged(
    source: Path, target: Path, told: list[Event], *, status: int | None, said: str, seconds: float
) -> Result:
    started = next((event for event in told if event.kind == events.STARTED), None)
    total = started.detail["cells"] if started else 0
    expected = started.detail["exercises"] if started else []
    executed = sum(
        event.kind == events.CELL_DONE and event.detail["status"] == "ok" for event in told
    )
    proven = tuple(name for name in expected if _proven(name, told))
    problems = [*_problems(told, status, said, executed=executed, total=total)]
    problems += [
        f"exercise {name!r} was not seen to fail before its solution and to pass after it"
        for name in expected
        if name not in proven
    ]
    return Result(
        lab=source.stem,
        passed=not problems,
        problems=tuple(problems),
        cells=executed,
        total=total,
        exercises=proven,
        seconds=seconds,
        notebook=target,
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
        problems.append(f"its process failed: {said.strip().splitlines()[-1:] or 'no word'}")
    if executed < total or not total:
        last = [event.detail["source"] for event in told if event.kind == events.CELL_STARTED]
        where = f"; the last one begun: {last[-1]}" if last else ""
        problems.append(f"{executed} of {total} code cells ran without an error{where}")
    kinds = {event.kind for event in told}
    if not problems and events.FINISHED not in kinds:
        problems.append("it ended without finishing")
    return problems
