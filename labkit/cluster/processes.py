"""Whether a process is still the one that was started, and how to end it.

A process is named by its pid, its start time and the boot it lives in: pids are
reused, and start times count from the boot.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic

PROC = Path("/proc")

CLUSTER_ENV = "LABKIT_CLUSTER_DIR"
"""Set in every process of a cluster to the cluster's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process, now and for ever distinguishable from its successors.

    Attributes:
        pid: its process id.
        start: its start time in clock ticks since the boot.
        boot: the boot it lives in.
    """

    pid: int
    start: int
    boot: str

    @classmethod
    def at(cls, pid: int) -> Process | None:
        """The process that has this pid now; None when there is none (a zombie is none)."""
        start = start_time(pid)
        return None if start is None else cls(pid=pid, start=start, boot=boot_id())

    @classmethod
    def from_json(cls, record: object) -> Process | None:
        """The process that a JSON record names; None when the record names none."""
        if not isinstance(record, dict):
            return None
        try:
            return cls(pid=int(record["pid"]), start=int(record["start"]), boot=str(record["boot"]))
        except (KeyError, TypeError, ValueError):
            return None

    def to_json(self) -> dict[str, object]:
        """A JSON record of it."""
        return {"pid": self.pid, "start": self.start, "boot": self.boot}

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.boot == boot_id() and start_time(self.pid) == self.start

    def open(self) -> int | None:
        """A pidfd on it, readable once it has ended; None when it has ended already."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return None
        # Only now is it sure that the pid was not reused between the record and here.
        if self.is_alive():
            return handle
        os.close(handle)
        return None

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal; nothing happens when it has ended."""
        handle = self.open()
        if handle is None:
            return
        try:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


@cache
def boot_id() -> str:
    """What this boot of the machine is called."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None for no process or a zombie."""
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The command name in parentheses may hold anything, blanks and parentheses included.
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in b"ZX" else int(fields[19])


def resident_bytes(pid: int) -> int:
    """Resident memory of a process in bytes; 0 when it has ended."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def pids() -> Iterator[int]:
    """All pids of the machine that we can see."""
    return (int(entry) for entry in os.listdir(PROC) if entry.isdigit())  # noqa: PTH208 - no Path per pid


def of_cluster(folder: Path) -> list[Process]:
    """Every process that carries the cluster's folder in its environment, except ourselves."""
    wanted = f"{CLUSTER_ENV}={folder}".encode()
    found = []
    for pid in pids():
        try:
            environment = (PROC / str(pid) / "environ").read_bytes()
        except OSError:  # gone, or another user's
            continue
        if pid != os.getpid() and wanted in environment.split(b"\0"):
            process = Process.at(pid)
            if process:
                found.append(process)
    return found


def end(processes: Iterable[Process], *, grace_s: float) -> None:
    """Ask processes to end, and kill those that have not within `grace_s` seconds.

    All of them have ended when this returns, unless the kernel keeps one in an
    uninterruptible wait.
    """
    handles = {p: h for p in processes if (h := p.open()) is not None}
    try:
        if grace_s > 0:
            for handle in handles.values():
                _send(handle, signal.SIGTERM)
            _wait(handles.values(), grace_s)
        for handle in handles.values():
            _send(handle, signal.SIGKILL)
        _wait(handles.values(), KILL_S)
    finally:
        for handle in handles.values():
            os.close(handle)


KILL_S = 5.0
"""How long a killed process may take to vanish, in seconds; only a stuck kernel needs it."""


def _send(handle: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(handle, number)


def _wait(handles: Iterable[int], timeout_s: float) -> None:
    deadline = monotonic() + timeout_s
    poll = select.poll()
    left = 0
    for handle in handles:
        poll.register(handle, select.POLLIN)
        left += 1
    while left and (remaining := deadline - monotonic()) > 0:
        for handle, _ in poll.poll(remaining * 1000):
            poll.unregister(handle)
            left -= 1
