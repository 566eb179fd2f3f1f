"""Operating systems and processors, in Go's words, which are those of every release."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass

from labkit.errors import Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What binaries are made for.

    Attributes:
        system: ``linux`` or ``darwin``.
        machine: ``amd64`` or ``arm64``.
    """

    system: str
    machine: str

    def __str__(self) -> str:
        return f"{self.system}-{self.machine}"


def here() -> Platform:
    """The platform that we run on.

    Raises:
        Unsupported: Kubernetes' binaries do not exist for it.
    """
    machines = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
    machine = machines.get(platform.machine().lower())
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    if not machine or not system:
        raise Unsupported(
            f"labkit has no binaries for {sys.platform} on {platform.machine()}",
            hint="use Linux or macOS on amd64 or arm64, or Windows' WSL",
        )
    return Platform(system=system, machine=machine)


def jobs() -> int:
    """How many compilers may run at once: the processors that we may really use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
