"""A cluster as an object: bring it up, use it, take it away."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from labkit.cluster import local, making, overview
from labkit.cluster.layout import Layout
from labkit.cluster.lease import Lease
from labkit.cluster.local import Outcome
from labkit.cluster.processes import Process
from labkit.cluster.spec import DEFAULT_NAME, ClusterSpec, NodeSpec, checked_name
from labkit.cluster.status import Status
from labkit.errors import BadInput, ClusterError
from labkit.progress import Progress, Silent

if TYPE_CHECKING:
    from labkit.kube import Client

KUBECTL_S = 120.0
"""Deadline of one kubectl command unless the caller names another, in seconds."""


class Cluster:
    """One cluster; get it from `local` or `attach`.

    As a context manager it is up inside the ``with`` block. Leaving the block takes it down
    if entering it brought it up, unless it was asked to stay; a cluster that was there
    before is left as it was.

    Attributes:
        name: its name.
        folder: everything of it lies here.
        kubeconfig: the administrator's kubeconfig; the user's own is never touched.
    """

    def __init__(
        self, layout: Layout, spec: ClusterSpec, *, lease: Lease, progress: Progress
    ) -> None:
        self.name = layout.name
        self.folder = layout.folder
        self.kubeconfig: Path = layout.kubeconfig
        self._layout = layout
        self._spec = spec
        self._lease = lease
        self._progress = progress
        self._made_here = False

    @classmethod
    def local(
        cls,
        name: str | None = None,
        *,
        nodes: int | Sequence[NodeSpec] = 1,
        gpus: str | None = None,
        kubernetes_version: str | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        stay: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """An embedded cluster, not up yet; it ends when this process does, unless it stays.

        Args:
            name: its name; one that nobody else has when None.
            nodes: how many nodes, all alike, or one `NodeSpec` for each.
            gpus: the machine that each node is, by name or file, or ``none``; None for the
                default machine. Only for nodes given by number.
            kubernetes_version: e.g. ``1.37.2``; None for the default.
            feature_gates: gates that shall differ from their defaults.
            stay: leave it running when this process ends.
            progress: shows what happens; nothing by default.

        Raises:
            BadInput: a value cannot be.
        """
        from labkit.gpus.machines import DEFAULT_MACHINE
        from labkit.tools import KUBERNETES_VERSION

        spec = ClusterSpec.make(
            name=name if name is not None else f"{DEFAULT_NAME}-{secrets.token_hex(3)}",
            nodes=nodes,
            gpus=DEFAULT_MACHINE if gpus is None else gpus,
            kubernetes_version=kubernetes_version or KUBERNETES_VERSION,
            feature_gates=feature_gates or {},
        )
        lease = lease_of(stay=stay)
        return cls(Layout.of(spec.name), spec, lease=lease, progress=progress or Silent())

    @classmethod
    def attach(cls, name: str = DEFAULT_NAME) -> Self:
        """A cluster that exists already, as it was made.

        Raises:
            ClusterError: there is none of that name.
        """
        layout = Layout.of(checked_name(name))
        known = making.read_cluster(layout)
        if known is None:
            raise ClusterError(
                f"there is no cluster {name!r}", hint=f"labkit up{_option(name)}", see="labkit list"
            )
        return cls(layout, known[0], lease=Lease.read(layout), progress=Silent())

    @property
    def spec(self) -> ClusterSpec:
        """What it was asked to be."""
        return self._spec

    def up(self) -> Outcome:
        """Bring it up, repair it, or join it when it is there; see `labkit.cluster.local.up`."""
        outcome = local.up(self._spec, self._lease, self._progress)
        self._made_here = outcome == "created" or self._made_here
        return outcome

    def down(self) -> bool:
        """End it and remove everything of it; False when it was not there."""
        self._made_here = False
        return local.end(self._layout)

    def status(self) -> Status:
        """How it is doing."""
        return overview.status(self._layout)

    def client(self) -> Client:
        """A client with the administrator's rights; close it or use it in ``with``."""
        from labkit.kube import Client

        return Client.from_kubeconfig(self.kubeconfig)

    def kubectl(
        self,
        *args: str | Path,
        input: str | None = None,  # noqa: A002 - subprocess.run calls it so
        check: bool = True,
        timeout_s: float = KUBECTL_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl on this cluster and give its output.

        Raises:
            ClusterError: it failed (unless `check` is False) or did not end in time.
        """
        argv, env = self.kubectl_command(*args)
        shown = f"kubectl {' '.join(map(str, args))}"
        try:
            done = subprocess.run(
                argv,
                env={**env, "KUBERC": "off"},
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as exc:
            raise ClusterError(f"{shown} did not end within {timeout_s:.0f} s") from exc
        if check and done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise ClusterError(f"{shown} failed with exit code {done.returncode}: {said}")
        return done

    def kubectl_command(self, *args: str | Path) -> tuple[list[str], dict[str, str]]:
        """The command line and the environment of kubectl for this cluster."""
        known = making.read_cluster(self._layout)
        if known is None:
            raise ClusterError(
                f"there is no cluster {self.name!r}", hint=f"labkit up{_option(self.name)}"
            )
        argv = [known[1].binaries["kubectl"], *map(str, args)]
        # kubectl keeps what it learnt about a server in the user's home otherwise.
        cache = str(self.folder / "kubectl-cache")
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": cache}
        return argv, env

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._made_here and not self._lease.stay:
            self.down()

    def __repr__(self) -> str:
        return f"Cluster({self.name!r})"


def lease_of(*, stay: bool = False, pid: int = 0, ttl_s: float = 0.0) -> Lease:
    """A lease for a process, ourselves unless `pid` names another.

    Args:
        stay: whether the cluster stays without an owner.
        pid: the owner.
        ttl_s: seconds after which it ends in any case; 0 for never.

    Raises:
        BadInput: there is no such process.
    """
    owner = Process.at(pid or os.getpid())
    if owner is None:
        raise BadInput(f"there is no process {pid}")
    until = time() + ttl_s if ttl_s else 0.0
    return Lease(owners=() if stay else (owner,), stay=stay, until=until)


def _option(name: str) -> str:
    return "" if name == DEFAULT_NAME else f" --name {name}"
