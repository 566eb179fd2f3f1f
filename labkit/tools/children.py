"""Programs that work for us, and end when we do."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from labkit.tools.sources import Unavailable

Command = Sequence[str | Path]

GRACE_S = 3.0
"""Time for a program to clean up behind itself when it is told to end, in seconds."""

TAIL_LINES = 15
"""How much of what a failed program said is told."""


@contextmanager
def running(
    command: Command, *, env: Mapping[str, str], timeout_s: float, cwd: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A child, output and errors together on its stdout, in a process group of its own.

    However this is left, by Ctrl-C too, the whole group is gone: ``go build`` starts
    compilers that would otherwise work on for nobody.

    Raises:
        Unavailable: it took longer than `timeout_s` seconds.
    """
    child = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = threading.Event()

    def give_up() -> None:
        late.set()
        _signal(child, signal.SIGKILL)

    watch = threading.Timer(timeout_s, give_up)
    watch.daemon = True
    try:
        watch.start()
        with child:
            try:
                yield child
            except BaseException:
                _end(child)
                raise
    except Unavailable as exc:
        if late.is_set():
            name = Path(command[0]).name
            raise Unavailable(f"{name} did not end within {timeout_s / 60:.0f} minutes") from exc
        raise
    finally:
        watch.cancel()
        _signal(child, signal.SIGKILL)


def lines_of(child: subprocess.Popen[str]) -> Iterator[str]:
    """What a child says, line by line, until it ends."""
    assert child.stdout is not None
    yield from child.stdout


def tail(lines: Sequence[str]) -> str:
    """The end of what was said, for an error message."""
    return "".join(lines[-TAIL_LINES:]).strip()


def _end(child: subprocess.Popen[str]) -> None:
    # pip removes its temporary folder when it is interrupted.
    try:
        _signal(child, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
    finally:
        _signal(child, signal.SIGKILL)


def _signal(child: subprocess.Popen[str], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(child.pid, number)
