"""The process that keeps a cluster running: ``python -m labkit.cluster.supervisor FOLDER``.

Start it through `argv`: a lock of the kernel's makes sure that one supervisor is in charge.
A second one waits for the lock inside `flock`, which takes a megabyte, and takes over when
the first is killed. That is also how a cluster gets its standby.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

from labkit.cluster import records
from labkit.cluster.keeper import (
    STANDBY,
    SUPERVISOR,
    Keeper,
    record_process,
    say,
    should_end,
)
from labkit.cluster.layout import Layout
from labkit.cluster.lease import Lease
from labkit.cluster.plan import Plan
from labkit.cluster.processes import CLUSTER_ENV, Process
from labkit.cluster.removal import remove
from labkit.errors import ClusterError, WaitTimedOut
from labkit.waiting import NotYet, Seen, wait_until

START_S = 20.0
"""How long a supervisor may take to start, in seconds; a tenth of one is usual."""


def argv(layout: Layout) -> tuple[str, ...]:
    """The command line of a supervisor that waits until it is in charge."""
    module = [sys.executable, "-P", "-m", "labkit.cluster.supervisor", str(layout.folder)]
    return ("flock", "--no-fork", str(layout.supervisor_lock), *module)


def environment(layout: Layout) -> dict[str, str]:
    """The environment of a supervisor, and so of everything that it starts."""
    # However labkit was found (installed, a checkout, a path of the caller's), it is found
    # again from another working directory.
    package = str(Path(__file__).resolve().parents[2])
    rest = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([package, rest] if rest else [package])
    return {**os.environ, CLUSTER_ENV: str(layout.folder), "PYTHONPATH": path}


def start(layout: Layout) -> None:
    """Start a supervisor, apart from our terminal and our life, and wait until it is in charge.

    Raises:
        ClusterError: it ended at once.
    """
    log = os.open(layout.log(SUPERVISOR), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        # Forked off and left to the system: as our child it would stay a zombie after its end.
        subprocess.run(
            ["setsid", "--fork", *argv(layout)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=layout.folder,
            env=environment(layout),
            check=True,
            timeout=START_S,
        )
    finally:
        os.close(log)
    try:
        wait_until(
            lambda: Seen(None) if _has_begun(layout) else NotYet("it has not begun"),
            what="the supervisor to start",
            timeout_s=START_S,
            interval_s=0.02,
        )
    except WaitTimedOut as exc:
        raise ClusterError(
            f"the supervisor does not start: {records.last_words(layout, SUPERVISOR)}"
        ) from exc


def _has_begun(layout: Layout) -> bool:
    # One that finds the lease over has removed everything before we look.
    return _lives(layout, SUPERVISOR) or not layout.folder.exists()


def is_there(layout: Layout) -> bool:
    """Whether a supervisor looks after the cluster or is about to."""
    return _lives(layout, SUPERVISOR) or _lives(layout, STANDBY)


def _lives(layout: Layout, name: str) -> bool:
    record = records.read(layout, name)
    return record is not None and record.is_alive


class _Owners:
    """Descriptors that become readable when an owner of the cluster has ended."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._handles: list[int] = []

    def watch(self, lease: Lease) -> None:
        """Watch these owners, and no others any more."""
        for handle in self._handles:
            self._keeper.forget(handle)
            os.close(handle)
        alive = [] if lease.stay else [owner.open() for owner in lease.owners]
        self._handles = [handle for handle in alive if handle is not None]
        self._keeper.listen(*self._handles)


def run(layout: Layout, plan: Plan) -> None:
    """Keep the plan running until the cluster shall end (its folder goes) or SIGTERM (it stays)."""
    stopped: list[int] = []
    wake = _signal_descriptor(stopped)
    # Kept open for reading and writing, so that it never reads as closed.
    control = os.open(layout.control, os.O_RDWR | os.O_NONBLOCK)
    keeper = Keeper(layout, plan, standby=argv(layout))
    keeper.listen(wake, control)
    keeper.adopt()
    owners = _Owners(keeper)
    gc.freeze()
    lease = Lease.read(layout)
    owners.watch(lease)
    while not should_end(layout, lease) and not stopped:
        if keeper.turn(lease.until):
            _drain(control)
            _drain(wake)
            lease = Lease.read(layout)
            owners.watch(lease)
    say("told to stop" if stopped else "the cluster ends")
    keeper.end()
    if not stopped:
        remove(layout.folder)


def _signal_descriptor(stopped: list[int]) -> int:
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    return readable


def _drain(handle: int) -> None:
    try:
        while os.read(handle, 4096):
            pass
    except BlockingIOError:
        pass


def main() -> None:
    """Run the supervisor of the cluster whose folder is the one argument."""
    layout = Layout(Path(sys.argv[1]))
    plan = Plan.read(layout)
    if plan is None or not layout.control.exists():
        # The cluster was removed while this standby waited for its turn.
        raise SystemExit(0)
    own = Process.at(os.getpid())
    assert own is not None
    record_process(layout, SUPERVISOR, {"name": SUPERVISOR, **own.to_json()})
    say(f"supervisor {own.pid} is in charge")
    run(layout, plan)


if __name__ == "__main__":
    main()
