"""From started processes to a cluster that can be used.

Ready means: the API server says so, the default service account is there (a pod made before
is refused), every node is Ready with an address and without its first taint, and every node
with GPUs has published all of them, which its driver does once the kubelet knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from labkit import paths
from labkit.cluster import records, welcome
from labkit.cluster.gates import Gates
from labkit.cluster.layout import Layout
from labkit.cluster.spec import ClusterSpec
from labkit.errors import ApiError, ClusterError, WaitTimedOut
from labkit.kube import NODES, RESOURCE_SLICES, SERVICE_ACCOUNTS, Client, Json
from labkit.waiting import NotYet, Seen, wait_until

START_S = 120.0
"""How long each stage of coming up may take, in seconds; a slow machine needs ten."""

LOOK_S = 0.05
"""Longest pause between two looks while a cluster comes up, in seconds."""

REGISTERED = "registered with the kubelet"
"""What a driver logs once its kubelet knows it."""

REGISTER_S = 10.0
ALL_LINES = 1000

HOPELESS = 4
"""A component that died so often in a row while the cluster comes up will not get better."""


def bring_to_ready(layout: Layout, spec: ClusterSpec, port: int) -> None:
    """Wait until the cluster can be used, doing what is to be done on the way.

    Raises:
        ClusterError: a component keeps dying; with the last lines of its log.
        WaitTimedOut: with the last state seen.
    """
    gates, door = Gates(), f"serves:{port}"
    _wait(layout, lambda: _seen(gates.is_open(door)), "the API server to answer")
    with Client.from_kubeconfig(layout.kubeconfig) as client:
        _wait(layout, lambda: _applied(client), "the driver's manifests to be accepted")
        _wait(layout, lambda: _seen(client.readyz()), "the API server to be healthy")
        layout.healthy_file.touch(mode=0o600)
        _wait(layout, lambda: _welcomed(client, spec), "the nodes to register")
        _wait(layout, lambda: look(client, spec), "the cluster to be ready")
    # A pod that comes before its driver is registered is tried again only ten seconds later.
    with suppress(WaitTimedOut):
        _wait(layout, lambda: _registered(layout, spec), "the drivers", timeout_s=REGISTER_S)


def look(client: Client, spec: ClusterSpec) -> Seen[None] | NotYet:
    """One look at everything that makes a cluster ready; says the first thing that is missing."""
    try:
        missing = next(_missing(client, spec), "")
    except ApiError as error:
        return NotYet(error.message)
    return NotYet(missing) if missing else Seen(None)


def _missing(client: Client, spec: ClusterSpec) -> Iterator[str]:
    """What is missing, what comes last first: each look costs the server time that it needs."""
    if client.find(SERVICE_ACCOUNTS, "default", namespace="default") is None:
        yield "there is no default service account"
    nodes = {node["metadata"]["name"]: node for node in client.list(NODES).items}
    for wanted in spec.nodes:
        if trouble := node_trouble(nodes.get(wanted.name)):
            yield f"node {wanted.name} {trouble}"
    published = complete_pools(client.list(RESOURCE_SLICES).items)
    for wanted in spec.nodes:
        if wanted.gpus and wanted.name not in published:
            yield f"node {wanted.name} has not published its GPUs"
    if not client.readyz():
        yield "the API server is not ready"


def node_trouble(node: Json | None) -> str:
    """Why a node cannot take pods; empty when it can."""
    if node is None:
        return "is not registered"
    conditions = {c["type"]: c for c in node.get("status", {}).get("conditions") or []}
    ready = conditions.get("Ready", {})
    if ready.get("status") != "True":
        return f"is not Ready ({ready.get('message') or 'no word from its kubelet'})"
    return "" if welcome.is_welcome(node) else "has no address yet"


def complete_pools(slices: list[Json]) -> set[str]:
    """The nodes that have published every slice of each of their pools."""
    pools: dict[tuple[str, str, int], int] = {}
    wanted: dict[tuple[str, str, int], int] = {}
    for each in slices:
        pool = each["spec"]["pool"]
        key = (each["spec"].get("nodeName", ""), pool["name"], pool["generation"])
        pools[key] = pools.get(key, 0) + 1
        wanted[key] = pool["resourceSliceCount"]
    return {key[0] for key, seen in pools.items() if seen >= wanted[key]}


def _seen(there: bool) -> Seen[None] | NotYet:
    return Seen(None) if there else NotYet("no answer")


def _applied(client: Client) -> Seen[None] | NotYet:
    folder = paths.data_dir("clusters") / "driver"
    try:
        for path in sorted(folder.glob("*.yaml")):
            client.apply_yaml(path.read_text(encoding="utf-8"))
    except ApiError as error:
        if error.status in {400, 422}:  # it will not get better
            raise
        return NotYet(error.message)
    return Seen(None)


def _welcomed(client: Client, spec: ClusterSpec) -> Seen[None] | NotYet:
    for wanted in spec.nodes:
        try:
            node = client.find(NODES, wanted.name)
            if node is None:
                return NotYet(f"node {wanted.name} is not registered")
            welcome.welcome(client, node)
        except ApiError as error:
            return NotYet(error.message)
    return Seen(None)


def _registered(layout: Layout, spec: ClusterSpec) -> Seen[None] | NotYet:
    """Whether the kubelets know their drivers; only the drivers' logs tell."""
    for node in spec.nodes:
        log = records.tail(layout, f"driver-{node.name}", ALL_LINES)
        if node.gpus and not any(REGISTERED in line for line in log):
            return NotYet(f"the driver of {node.name} is not registered")
    return Seen(None)


def _wait(
    layout: Layout,
    probe: Callable[[], Seen[None] | NotYet],
    what: str,
    *,
    timeout_s: float = START_S,
) -> None:
    def look_again() -> Seen[None] | NotYet:
        _give_up_when_hopeless(layout)
        return probe()

    wait_until(
        look_again,
        what=what,
        timeout_s=timeout_s,
        interval_s=LOOK_S,
        see=_logs(layout) if layout.ready_file.exists() else "",
    )


def _give_up_when_hopeless(layout: Layout) -> None:
    if layout.wanted_file.exists() or not layout.folder.exists():
        raise ClusterError(f"cluster {layout.name!r} was taken down while it came up")
    for record in records.read_all(layout):
        if record.deaths >= HOPELESS:
            reason = records.last_words(layout, record.name)
            raise ClusterError(
                f"{record.name} does not run ({record.last_exit}): {reason}",
                hint=_hint(reason),
                # Of a cluster that never was up nothing stays, its logs included.
                see=_logs(layout, record.name) if layout.ready_file.exists() else "",
            )


def _logs(layout: Layout, component: str = "") -> str:
    return f"labkit logs --name {layout.name} {component}".rstrip()


def _hint(reason: str) -> str:
    if "feature gate" in reason.lower():
        return "name only gates that this Kubernetes version has"
    if "depends on features that are disabled" in reason:
        return "set the gates that it depends on as well"
    if "address already in use" in reason:
        return "end the program that took the port, then run labkit up again"
    if "no space left" in reason.lower():
        return "make room on the disk of labkit's state folder"
    return ""
