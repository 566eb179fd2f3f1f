"""Resident memory and idle CPU of a one-node cluster, process by process.

    python bench/memory.py [--settle 20] [--measure 30]

Resident memory counts each process's own and shared pages, as `ps` does; the column "unique"
counts only what would be free if the process ended. CPU is the share of one core that all
processes of the cluster used while nothing was asked of it.
"""

from __future__ import annotations

import argparse
import os
import threading
from itertools import pairwise

import psutil

from labkit import Cluster

LIMIT_MB = 800
LIMIT_CPU_PERCENT = 3.0
MB = 1024 * 1024


def main() -> None:
    options = arguments()
    with Cluster.local(name=f"bench-memory-{os.getpid()}", nodes=1) as cluster:
        pause(options.settle)
        processes = list(processes_of(str(cluster.folder)))
        before = {p.pid: cpu_seconds(p) for p in processes}
        pause(options.measure)
        rows = [(label(p), p.memory_full_info(), cpu_seconds(p) - before[p.pid]) for p in processes]
    rows.sort(key=lambda row: -row[1].rss)
    print(f"{'process':28} {'resident MB':>12} {'unique MB':>10} {'cpu %':>6}")
    for name, memory, cpu in rows:
        share = 100 * cpu / options.measure
        print(f"{name:28} {memory.rss / MB:12.1f} {memory.uss / MB:10.1f} {share:6.2f}")
    rss = sum(memory.rss for _, memory, _ in rows) / MB
    uss = sum(memory.uss for _, memory, _ in rows) / MB
    cpu_share = 100 * sum(cpu for _, _, cpu in rows) / options.measure
    print(f"{'all':28} {rss:12.1f} {uss:10.1f} {cpu_share:6.2f}")
    print(f"resident: {rss / LIMIT_MB:.2f} of the limit of {LIMIT_MB} MB")
    print(f"idle CPU: {cpu_share / LIMIT_CPU_PERCENT:.2f} of the limit of {LIMIT_CPU_PERCENT} %")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settle", type=float, default=20, help="seconds before measuring")
    parser.add_argument("--measure", type=float, default=30, help="seconds of measuring CPU")
    return parser.parse_args()


def pause(seconds: float) -> None:
    """Let the cluster idle; there is no condition to wait for."""
    threading.Event().wait(seconds)


def processes_of(folder: str) -> list[psutil.Process]:
    """Every process that belongs to the cluster: found by its folder, then by descent."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            env = process.environ()
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if process.pid != os.getpid() and (
            any(folder in word for word in words) or folder in env.get("LABKIT_CLUSTER_DIR", "")
        ):
            found[process.pid] = process
            found |= {child.pid: child for child in process.children(recursive=True)}
    return list(found.values())


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def label(process: psutil.Process) -> str:
    words = process.cmdline()
    module = next((b for a, b in pairwise(words) if a == "-m"), "")
    return (module or process.name())[:28]


if __name__ == "__main__":
    main()
