"""How a cluster is doing, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

State = Literal["absent", "creating", "broken", "ready"]
"""Absent: there is none. Creating: somebody is bringing it up. Broken: `up` would repair it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentStatus:
    """One component.

    Attributes:
        name: its name, e.g. ``kubelet-lab-0``.
        pid: its process; 0 while it is down.
        restarts: how often it was started again.
        resident_bytes: its resident memory.
        last_exit: how it ended last; empty when it never did.
    """

    name: str
    pid: int
    restarts: int
    resident_bytes: int
    last_exit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node.

    Attributes:
        name: its name.
        machine: the machine it is; empty without GPUs.
        ready: whether it takes pods.
        trouble: why it does not.
        devices: how many devices its driver has published.
    """

    name: str
    machine: str
    ready: bool
    trouble: str
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A cluster at a glance.

    Attributes:
        name: the cluster's name.
        provider: what kind of cluster it is.
        state: see `State`.
        trouble: what keeps it from being ready, one line each.
        kubernetes_version: its version; empty when absent.
        lease: in words, until when it stays.
        folder: where everything of it lies.
        kubeconfig: the administrator's kubeconfig.
        components: its processes.
        nodes: its nodes; empty while the API server does not answer.
    """

    name: str
    provider: str = "local"
    state: State
    trouble: tuple[str, ...] = ()
    kubernetes_version: str = ""
    lease: str = ""
    folder: Path
    kubeconfig: Path
    components: tuple[ComponentStatus, ...] = ()
    nodes: tuple[NodeStatus, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The same as JSON."""
        data = asdict(self)
        data["folder"], data["kubeconfig"] = str(self.folder), str(self.kubeconfig)
        return data
