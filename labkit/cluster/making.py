"""Everything that lies in a cluster's folder before its first process starts."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labkit.cluster import controlplane, kubeconfig, nodes, nodespace, ports
from labkit.cluster.controlplane import APISERVER, Choices
from labkit.cluster.layout import Layout, read_json
from labkit.cluster.plan import NodePlan, Plan
from labkit.cluster.spec import ClusterSpec
from labkit.errors import ClusterError
from labkit.files import write_atomically

ROOM_MB = 300
"""Free space that a cluster wants: etcd's logs, the components' logs, a few pods."""


def check_room(folder: Path) -> None:
    """Refuse to start what a full disk would break half-way.

    Raises:
        ClusterError: too little space is left where the cluster's folder lies.
    """
    free_mb = shutil.disk_usage(folder).free // 1_000_000
    if free_mb < ROOM_MB:
        raise ClusterError(
            f"{free_mb} MB are free at {folder}, and a cluster wants {ROOM_MB}",
            hint="make room, or set LABKIT_STATE_DIR to a folder on another disk",
        )


def choose(spec: ClusterSpec, binaries: Mapping[str, Path], held: list[socket.socket]) -> Choices:
    """An identity, free ports, and the binaries for a new cluster.

    Args:
        spec: what was asked for.
        binaries: where the binaries are.
        held: takes the sockets that keep the ports until the supervisor keeps them.
    """
    return Choices(
        uid=str(uuid.uuid4()),
        ports=choose_ports(spec, held),
        binaries={name: str(path) for name, path in binaries.items()},
    )


def choose_ports(spec: ClusterSpec, held: list[socket.socket]) -> dict[str, int]:
    """A free port for the API server and for each kubelet, kept by sockets in `held`."""
    chosen = {}
    for user in (APISERVER, *(node.name for node in spec.nodes)):
        holder = ports.reserve()
        held.append(holder)
        chosen[user] = ports.port_of(holder)
    return chosen


def lay_out(layout: Layout, spec: ClusterSpec, choices: Choices) -> None:
    """Write a new cluster's folder: certificates, settings, and the plan."""
    from labkit.cluster import pki

    for folder in (layout.logs, layout.run, layout.pki, layout.etcd):
        folder.mkdir(mode=0o700, exist_ok=True)
    for node in spec.nodes:
        nodespace.make_folders(layout.var(node.name))
    names = [node.name for node in spec.nodes]
    pki.write(layout.pki, pki.parties(names, controlplane.SERVICE_ADDRESS))
    write_settings(layout, spec, choices)


def write_settings(layout: Layout, spec: ClusterSpec, choices: Choices) -> None:
    """Write, or write anew, whatever depends on ports and on where binaries are."""
    port = choices.ports[APISERVER]
    for party in ("controller-manager", "scheduler"):
        path = controlplane.kubeconfig_of(layout, party)
        kubeconfig.write(path, layout, party=party, user=party, port=port)
    for node in spec.nodes:
        for party in (f"kubelet-{node.name}", f"driver-{node.name}"):
            path = controlplane.kubeconfig_of(layout, party)
            kubeconfig.write(path, layout, party=party, user=party, port=port)
        nodes.write_kubelet_config(layout, spec, node.name, port=choices.ports[node.name])
    kubeconfig.write(layout.kubeconfig, layout, party="admin", user="labkit-admin", port=port)
    make_plan(layout, spec, choices).write(layout)
    if not layout.control.is_fifo():
        os.mkfifo(layout.control, 0o600)
    write_cluster(layout, spec, choices)


def make_plan(layout: Layout, spec: ClusterSpec, choices: Choices) -> Plan:
    """What the supervisor shall run."""
    plane = controlplane.components(
        layout, choices, version=spec.kubernetes_version, asked=spec.feature_gates
    )
    return Plan(
        components=(*plane, *nodes.components(layout, spec, choices)),
        nodes=tuple(
            NodePlan(
                name=node.name,
                var=str(layout.var(node.name)),
                keeps=nodespace.below_var(_needed(layout, choices, node.gpus)),
            )
            for node in spec.nodes
        ),
    )


def _needed(layout: Layout, choices: Choices, machine: str) -> Iterable[Path]:
    """What a node's processes read, wherever it lies."""
    yield layout.folder
    yield Path(__file__).resolve().parents[2]
    yield from (Path(prefix) for prefix in {sys.prefix, sys.base_prefix})
    yield from {Path(binary).parent for binary in choices.binaries.values()}
    if "/" in machine:
        yield Path(machine).parent


def write_cluster(layout: Layout, spec: ClusterSpec, choices: Choices) -> None:
    """Record what was asked for and chosen."""
    data = {
        "provider": "local",
        "spec": spec.to_json(),
        "uid": choices.uid,
        "ports": dict(choices.ports),
        "binaries": dict(choices.binaries),
    }
    write_atomically(layout.cluster_file, json.dumps(data, indent=1))


def read_cluster(layout: Layout) -> tuple[ClusterSpec, Choices] | None:
    """What `write_cluster` recorded; None when there is no (whole) record."""
    data: Any = read_json(layout.cluster_file)
    try:
        spec = ClusterSpec.from_json(data["spec"])
        choices = Choices(uid=data["uid"], ports=data["ports"], binaries=data["binaries"])
    except (KeyError, TypeError):
        return None
    return spec, choices
