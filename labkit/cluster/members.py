"""Finding every process of a cluster, containers included, and ending them all."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from labkit.cluster import processes
from labkit.cluster.nodespace import user_namespace
from labkit.cluster.processes import PROC, Process

_NS_GET_PARENT = 0xB702
"""ioctl of Linux's nsfs: the namespace that a user namespace was made in."""

ROUNDS = 5
"""Looks for survivors: a process may fork between our look and its death."""


def of_cluster(folder: Path) -> list[Process]:
    """Every process of a cluster.

    Those that carry its folder in their environment, and those in a user namespace of one of
    these or below it: a container's processes have an environment of their own, but their
    namespaces descend from their node's, which no process can change.
    """
    marked = processes.of_cluster(folder)
    ours = {inode for p in marked if (inode := user_namespace(p.pid))}
    ours -= {user_namespace(os.getpid())}
    found = {p.pid: p for p in marked}
    marks = _marks(folder)
    for pid in processes.pids():
        if pid in found or pid == os.getpid():
            continue
        if _descends(pid, ours) or _mounts_of(pid, marks):
            process = Process.at(pid)
            if process:
                found[pid] = process
    return list(found.values())


def end_all(folder: Path) -> list[Process]:
    """Kill every process of a cluster; gives those that would not die (none, usually)."""
    for _ in range(ROUNDS):
        left = of_cluster(folder)
        if not left:
            return []
        processes.end(left, grace_s=0)
    return of_cluster(folder)


def _descends(pid: int, ours: set[int]) -> bool:
    if not ours:
        return False
    try:
        handle = os.open(PROC / str(pid) / "ns/user", os.O_RDONLY)
    except OSError:
        return False
    while True:
        if os.fstat(handle).st_ino in ours:
            os.close(handle)
            return True
        try:
            parent = fcntl.ioctl(handle, _NS_GET_PARENT)
        except OSError:  # the first of all namespaces, or out of our sight
            return False
        finally:
            os.close(handle)
        handle = parent


def _mounts_of(pid: int, marks: tuple[str, str]) -> bool:
    """Whether a process in another mount namespace sees mounts of the cluster's nodes."""
    device, inside = marks
    try:
        if _mount_namespace(pid) == _mount_namespace(os.getpid()):
            return False
        table = (PROC / str(pid) / "mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    rows = (line.split(" ", 4) for line in table.splitlines())
    return any(row[2] == device and inside in f"{row[3]}/" for row in rows if row[3:])


def _marks(folder: Path) -> tuple[str, str]:
    """The device of the cluster's folder, and how a mount from its nodes names its root."""
    above = next(p for p in (folder, *folder.parents) if p == Path("/") or os.path.ismount(p))
    number = above.stat().st_dev
    # The kernel writes blanks, tabs, newlines and backslashes of a path in octal.
    inside = "".join(rf"\{ord(c):03o}" if c in " \t\n\\" else c for c in str(folder / "nodes"))
    start = len(str(above).rstrip("/"))
    return f"{os.major(number)}:{os.minor(number)}", f"{inside[start:]}/"


def _mount_namespace(pid: int) -> int:
    return (PROC / str(pid) / "ns/mnt").stat().st_ino
