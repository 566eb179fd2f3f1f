"""Looking at clusters from outside: one, all of them, and those that nobody needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from time import time

from labkit.cluster import creator, making, processes, records, supervisor
from labkit.cluster.keeper import SUPERVISOR
from labkit.cluster.layout import Layout, clusters_dir
from labkit.cluster.lease import Lease
from labkit.cluster.spec import ClusterSpec
from labkit.cluster.status import ComponentStatus, NodeStatus, State, Status
from labkit.errors import LabError


def status(layout: Layout) -> Status:
    """How a cluster is doing; never raises for a cluster that is absent or broken."""
    if not layout.folder.exists():
        return _bare(layout, "absent")
    busy = creator.is_busy(layout)
    known = making.read_cluster(layout)
    if known is None:
        return _bare(layout, "creating" if busy else "broken")
    spec, _ = known
    trouble = list(_process_trouble(layout))
    nodes: tuple[NodeStatus, ...] = ()
    try:
        nodes = _nodes(layout, spec)
    except LabError as error:
        trouble.append(error.message)
    trouble += [f"node {node.name} {node.trouble}" for node in nodes if node.trouble]
    if not layout.ready_file.exists():
        trouble.append("it is not up yet" if busy else "it was never up")
    bad: State = "creating" if busy else "broken"
    return Status(
        name=layout.name,
        state=bad if trouble else "ready",
        trouble=tuple(trouble),
        kubernetes_version=spec.kubernetes_version,
        lease=_lease_in_words(Lease.read(layout)),
        folder=layout.folder,
        kubeconfig=layout.kubeconfig,
        components=tuple(_component(record) for record in records.read_all(layout)),
        nodes=nodes,
    )


def names() -> list[str]:
    """The names of all clusters that have a folder."""
    try:
        return sorted(path.name for path in clusters_dir().iterdir() if path.is_dir())
    except OSError:
        return []


def abandoned() -> Iterator[tuple[Layout, str]]:
    """Clusters that nobody needs, each with the reason; never one that works or comes up."""
    for name in names():
        layout = Layout.of(name)
        reason = "" if creator.is_busy(layout) else _why_abandoned(layout)
        if reason:
            yield layout, reason


def _why_abandoned(layout: Layout) -> str:
    if making.read_cluster(layout) is None or not layout.ready_file.exists():
        return "it was never up"
    if Lease.read(layout).is_over():
        return "its owner is gone"
    if layout.wanted_file.exists():
        return "it was not taken down completely"
    if not supervisor.is_there(layout):
        return "nothing keeps it running"
    return ""


def _bare(layout: Layout, state: State) -> Status:
    trouble = ("an unfinished folder is left of it",) if state == "broken" else ()
    return Status(
        name=layout.name,
        state=state,
        trouble=trouble,
        folder=layout.folder,
        kubeconfig=layout.kubeconfig,
    )


def _process_trouble(layout: Layout) -> Iterator[str]:
    known = {record.name: record for record in records.read_all(layout)}
    if SUPERVISOR not in known:
        yield "nothing keeps it running"
    for record in known.values():
        if not record.is_alive:
            last = f" ({record.last_exit})" if record.last_exit else ""
            yield f"{record.name} is down{last}"


def _nodes(layout: Layout, spec: ClusterSpec) -> tuple[NodeStatus, ...]:
    from labkit.cluster import readiness
    from labkit.kube import NODES, RESOURCE_SLICES, Client

    with Client.from_kubeconfig(layout.kubeconfig, timeout_s=3) as client:
        found = {node["metadata"]["name"]: node for node in client.list(NODES).items}
        slices = client.list(RESOURCE_SLICES).items
    published = readiness.complete_pools(slices)
    devices: Counter[str] = Counter()
    for each in slices:
        devices[each["spec"].get("nodeName", "")] += len(each["spec"].get("devices") or [])
    result = []
    for node in spec.nodes:
        trouble = readiness.node_trouble(found.get(node.name))
        if not trouble and node.gpus and node.name not in published:
            trouble = "has not published its GPUs"
        result.append(
            NodeStatus(
                name=node.name,
                machine=node.gpus,
                ready=not trouble,
                trouble=trouble,
                devices=devices[node.name],
            )
        )
    return tuple(result)


def _component(record: records.Record) -> ComponentStatus:
    pid = record.process.pid if record.process and record.is_alive else 0
    return ComponentStatus(
        name=record.name,
        pid=pid,
        restarts=record.restarts,
        resident_bytes=processes.resident_bytes(pid) if pid else 0,
        last_exit=record.last_exit,
    )


def _lease_in_words(lease: Lease) -> str:
    parts = []
    if lease.stay:
        parts.append("stays until labkit down")
    else:
        alive = [str(owner.pid) for owner in lease.owners if owner.is_alive()]
        parts.append(f"ends with process {', '.join(alive)}" if alive else "its owner is gone")
    if lease.until:
        parts.append(f"ends in {max(0, round((lease.until - time()) / 60))} min at the latest")
    return ", ".join(parts)
