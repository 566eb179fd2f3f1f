"""What a container uses, read from /proc: there are no cgroups to ask."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a tree of processes uses now.

    Attributes:
        at: when this was read, nanoseconds since 1970.
        cpu_ns: processor time of those alive, in nanoseconds.
        memory: resident bytes.
        processes: how many there are.
    """

    at: int
    cpu_ns: int
    memory: int
    processes: int


def of(pid: int) -> Figures:
    """The figures of a process and all its descendants."""
    cpu = memory = count = 0
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            fields = (_PROC / str(one) / "stat").read_bytes().rpartition(b")")[2].split()
            children = (_PROC / str(one) / "task" / str(one) / "children").read_text()
        except OSError:
            continue  # it has ended meanwhile
        cpu += sum(map(int, fields[11:15]))
        memory += int(fields[21]) * _PAGE
        count += 1
        waiting += map(int, children.split())
    return Figures(at=time.time_ns(), cpu_ns=cpu * _TICK_NS, memory=memory, processes=count)
