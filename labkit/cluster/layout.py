"""Where the things of one cluster lie in its folder.

::

    cluster.json   what was asked for and what was chosen (ports, uid, binaries)
    plan.json      the processes to keep running, in order
    lease.json     who the cluster belongs to and until when
    wanted         "absent" once the cluster shall end
    ready          there since everything worked for the first time
    control        a pipe; a byte in it makes the supervisor look at the files above
    kubeconfig     the administrator's way in, 0600
    pki/ logs/ run/ etcd/ nodes/<node>/var
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import paths


def clusters_dir() -> Path:
    """The folder that holds one folder per cluster; it need not exist."""
    return paths.state_dir() / "clusters"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths inside one cluster's folder.

    Attributes:
        folder: the cluster's folder, absolute; its name is the cluster's.
    """

    folder: Path

    @classmethod
    def of(cls, name: str) -> Layout:
        """The layout of the cluster called `name`, existing or not."""
        return cls(clusters_dir() / name)

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.folder.name

    @property
    def cluster_file(self) -> Path:
        """What was asked for and what was chosen."""
        return self.folder / "cluster.json"

    @property
    def plan_file(self) -> Path:
        """The processes to keep running."""
        return self.folder / "plan.json"

    @property
    def lease_file(self) -> Path:
        """Who the cluster belongs to and until when."""
        return self.folder / "lease.json"

    @property
    def wanted_file(self) -> Path:
        """There when the cluster shall end."""
        return self.folder / "wanted"

    @property
    def ready_file(self) -> Path:
        """There since everything worked for the first time."""
        return self.folder / "ready"

    @property
    def healthy_file(self) -> Path:
        """There since the API server was healthy for the first time."""
        return self.run / "healthy"

    @property
    def control(self) -> Path:
        """The pipe that wakes the supervisor."""
        return self.folder / "control"

    @property
    def creator_lock(self) -> Path:
        """Held by the process that brings the cluster up or removes it."""
        return self.folder / "up.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor in charge."""
        return self.folder / "supervisor.lock"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.folder / "pki"

    @property
    def logs(self) -> Path:
        """One log file per component."""
        return self.folder / "logs"

    @property
    def run(self) -> Path:
        """One record per process."""
        return self.folder / "run"

    @property
    def etcd(self) -> Path:
        """The cluster's data."""
        return self.folder / "etcd"

    def log(self, component: str) -> Path:
        """The log file of a component."""
        return self.logs / f"{component}.log"

    def record(self, component: str) -> Path:
        """The record of a component's process."""
        return self.run / f"{component}.json"

    def node(self, node: str) -> Path:
        """The folder of a node."""
        return self.folder / "nodes" / node

    def var(self, node: str) -> Path:
        """What a node sees as /var."""
        return self.node(node) / "var"


def read_json(path: Path) -> Any:
    """A file's content, or None when it is absent or not (yet) whole."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
