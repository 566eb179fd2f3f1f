"""What the supervisor keeps running, said without a word of Kubernetes.

The supervisor is small and long-lived; everything that needs thought is done before,
by the process that brings the cluster up, and handed over as this plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from labkit.cluster.layout import Layout, read_json
from labkit.files import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One process to keep running.

    Attributes:
        name: its name, unique in the cluster; also that of its log file.
        argv: its command line.
        env: variables on top of the supervisor's own.
        node: the node whose namespaces it runs in; empty for the host's.
        waits_for: what has to be there before it starts; see `labkit.cluster.gates`.
        hopes_for: what it is better to wait for, but only for `keeper.PATIENCE_S` seconds.
        ports: loopback ports that it will listen on; they are kept free for it.
        on_restart: a command to run once it has been started again after a death.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    waits_for: tuple[str, ...] = ()
    hopes_for: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    on_restart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """The namespaces of one node.

    Attributes:
        name: the node's name.
        var: the folder that is /var inside.
        keeps: folders below the host's /var that stay visible inside.
    """

    name: str
    var: str
    keeps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All processes of a cluster, in the order in which they start; they end in reverse."""

    components: tuple[Component, ...]
    nodes: tuple[NodePlan, ...] = ()

    @classmethod
    def read(cls, layout: Layout) -> Plan | None:
        """The plan of a cluster; None when there is none yet."""
        data = read_json(layout.plan_file)
        if not isinstance(data, dict):
            return None
        return cls(
            components=tuple(_component(each) for each in data["components"]),
            nodes=tuple(
                NodePlan(name=each["name"], var=each["var"], keeps=tuple(each["keeps"]))
                for each in data["nodes"]
            ),
        )

    def write(self, layout: Layout) -> None:
        """Put the plan where the supervisor finds it."""
        write_atomically(layout.plan_file, json.dumps(asdict(self), indent=1))


def _component(data: Mapping[str, Any]) -> Component:
    lists = ("argv", "waits_for", "hopes_for", "ports", "on_restart")
    return Component(**{**data, **{key: tuple(data[key]) for key in lists}})
