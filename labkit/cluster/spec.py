"""What a cluster shall be: nodes with machines, a version, feature gates.

A description is a value. It is checked when it is made, kept with the cluster, and
compared when somebody asks for the same cluster again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import BadInput

DEFAULT_NAME = "lab"
"""The cluster that the command line means when none is named."""

MAX_NAME = 40
"""Longest cluster name; node and host names grow out of it and are DNS labels themselves."""

MAX_NODES = 50
"""More kubelets than this on one machine is a slip of the keyboard."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_VERSION = re.compile(r"v?(1\.[0-9]{1,3}\.[0-9]{1,3})")
_GATE = re.compile(r"[A-Z][A-Za-z0-9]*")
NONE = "none"
"""The machine of a node without GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node: its name and the machine that it is.

    Attributes:
        name: the node's name; empty means the cluster's name and a number.
        gpus: the name or the file of a machine description; empty or ``none`` for no GPUs.
    """

    name: str = ""
    gpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """One cluster, completely described.

    Attributes:
        name: the cluster's name.
        nodes: its nodes, each with a name.
        kubernetes_version: without a leading v, e.g. ``1.37.2``.
        feature_gates: gates that differ from their defaults, set on all components.
    """

    name: str
    nodes: tuple[NodeSpec, ...]
    kubernetes_version: str
    feature_gates: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        *,
        name: str,
        nodes: int | Sequence[NodeSpec],
        gpus: str,
        kubernetes_version: str,
        feature_gates: Mapping[str, bool],
    ) -> ClusterSpec:
        """Check what was asked for and fill in names.

        Raises:
            BadInput: naming the value that cannot be.
        """
        if isinstance(nodes, int):
            nodes = [NodeSpec(gpus=gpus)] * nodes
        version = _VERSION.fullmatch(kubernetes_version)
        if version is None:
            raise BadInput(
                f"{kubernetes_version!r} is not a Kubernetes version",
                hint="write it as in 1.37.2",
            )
        return cls(
            name=checked_name(name),
            nodes=_named(name, nodes),
            kubernetes_version=version[1],
            feature_gates=dict(sorted(_checked_gates(feature_gates).items())),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClusterSpec:
        """The description that `to_json` gave."""
        return cls(
            name=data["name"],
            nodes=tuple(NodeSpec(**node) for node in data["nodes"]),
            kubernetes_version=data["kubernetes_version"],
            feature_gates=dict(data["feature_gates"]),
        )

    def to_json(self) -> dict[str, Any]:
        """The description as JSON."""
        return {
            "name": self.name,
            "nodes": [{"name": node.name, "gpus": node.gpus} for node in self.nodes],
            "kubernetes_version": self.kubernetes_version,
            "feature_gates": dict(self.feature_gates),
        }

    def differences(self, asked: ClusterSpec) -> list[str]:
        """What `asked` wants otherwise, one readable line each; empty when they agree."""
        found = []
        if self.kubernetes_version != asked.kubernetes_version:
            found.append(f"Kubernetes {self.kubernetes_version}, not {asked.kubernetes_version}")
        if self.nodes != asked.nodes:
            found.append(f"nodes {_shown(self.nodes)}, not {_shown(asked.nodes)}")
        if self.feature_gates != asked.feature_gates:
            found.append(
                f"feature gates {_gates_shown(self.feature_gates)}, "
                f"not {_gates_shown(asked.feature_gates)}"
            )
        return found


def checked_name(name: str) -> str:
    """The name, if a cluster may be called so.

    Raises:
        BadInput: it is not a DNS label of at most `MAX_NAME` characters.
    """
    if len(name) > MAX_NAME or not _LABEL.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot be the name of a cluster",
            hint=f"use up to {MAX_NAME} lower-case letters, digits and dashes, as in lab-2",
        )
    return name


def parse_gates(texts: Iterable[str]) -> dict[str, bool]:
    """Feature gates from texts such as ``A=true,B=false``.

    Raises:
        BadInput: a text is not of that form.
    """
    gates: dict[str, bool] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        gate, equals, value = part.partition("=")
        if not equals or value.lower() not in {"true", "false"}:
            raise BadInput(
                f"{part!r} is not a feature gate setting",
                hint="write it as in DRADeviceTaints=true",
            )
        gates[gate] = value.lower() == "true"
    return gates


def read_nodes(path: Path) -> list[NodeSpec]:
    """Nodes from a YAML file: a list of ``{name, gpus}``, or a mapping with it as ``nodes``.

    An entry may say ``count`` to stand for several nodes alike.

    Raises:
        BadInput: the file cannot be read or an entry is wrong.
    """
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise BadInput(f"{path} cannot be read: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise BadInput(f"{path} is not YAML: {exc}") from exc
    if isinstance(data, dict):
        if set(data) != {"nodes"}:
            raise BadInput(
                f"{path}: expected the key 'nodes' alone, found {sorted(map(str, data))}"
            )
        data = data["nodes"]
    if not isinstance(data, list):
        raise BadInput(f"{path}: expected a list of nodes, as in: - gpus: dgx-h100")
    return [node for number, entry in enumerate(data) for node in _entry(path, number, entry)]


def _entry(path: Path, number: int, entry: object) -> list[NodeSpec]:
    where = f"{path}: node {number}"
    if not isinstance(entry, dict) or not set(entry) <= {"name", "gpus", "count"}:
        raise BadInput(f"{where} may say name, gpus and count, and nothing else: {entry!r}")
    name, gpus, count = entry.get("name") or "", entry.get("gpus") or "", entry.get("count", 1)
    if not isinstance(name, str) or not isinstance(gpus, str):
        raise BadInput(f"{where}: name and gpus are texts: {entry!r}")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BadInput(f"{where}: count is a number from 1 on, not {count!r}")
    if name and count > 1:
        raise BadInput(f"{where}: a node with a name cannot be there {count} times")
    # A machine's file is looked for beside the file that names it.
    beside = path.absolute().parent / gpus
    return [NodeSpec(name=name, gpus=str(beside) if _is_file_name(gpus) else gpus)] * count


def _is_file_name(gpus: str) -> bool:
    return gpus.endswith((".yaml", ".yml"))


def _named(cluster: str, nodes: Sequence[NodeSpec]) -> tuple[NodeSpec, ...]:
    if not 0 < len(nodes) <= MAX_NODES:
        raise BadInput(f"a cluster has 1 to {MAX_NODES} nodes, not {len(nodes)}")
    named = tuple(
        NodeSpec(name=node.name or f"{cluster}-{number}", gpus=_machine(node.gpus))
        for number, node in enumerate(nodes)
    )
    names = [node.name for node in named]
    for name in names:
        if len(name) > MAX_NAME + 3 or not _LABEL.fullmatch(name):
            raise BadInput(f"{name!r} cannot be the name of a node")
        if names.count(name) > 1:
            raise BadInput(f"two nodes are called {name!r}")
    return named


def _machine(gpus: str) -> str:
    if gpus in {"", NONE}:
        return ""
    return str(Path(gpus).absolute()) if _is_file_name(gpus) else gpus


def _checked_gates(gates: Mapping[str, bool]) -> Mapping[str, bool]:
    for gate, value in gates.items():
        if not _GATE.fullmatch(gate) or not isinstance(value, bool):
            raise BadInput(f"{gate}={value} is not a feature gate setting")
    return gates


def _shown(nodes: Sequence[NodeSpec]) -> str:
    return ", ".join(f"{node.name} ({node.gpus or 'no GPUs'})" for node in nodes)


def _gates_shown(gates: Mapping[str, bool]) -> str:
    return ",".join(f"{gate}={str(on).lower()}" for gate, on in gates.items()) or "as by default"
