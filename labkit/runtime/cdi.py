"""CDI: from a device's name to what a container is given for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import LabError
from labkit.runtime.ocispec import Bind

Json = dict[str, Any]

ANNOTATION_PREFIX = "cdi.k8s.io/"
"""Annotations with this prefix name devices too, for kubelets older than the CRI field."""

_STAGES = (
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
)  # fmt: skip
"""The stages of hooks, which CDI and OCI call alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What devices bring into a container.

    Attributes:
        env: variables.
        binds: files and folders of the node, device nodes among them.
        hooks: OCI hooks by stage.
        skipped: what this host could not give, one sentence each.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[Bind, ...] = ()
    hooks: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


def names(devices: Iterable[str], annotations: Mapping[str, str]) -> list[str]:
    """The devices that a container asks for, each once."""
    listed = [
        name.strip()
        for key, value in annotations.items()
        if key.startswith(ANNOTATION_PREFIX)
        for name in value.split(",")
    ]
    return list(dict.fromkeys([*devices, *filter(None, listed)]))


def resolve(wanted: Sequence[str], folders: Sequence[Path]) -> Edits:
    """The edits of all devices together.

    Args:
        wanted: fully qualified names, ``vendor/class=device``.
        folders: where specifications lie; a later one wins over an earlier one.

    Raises:
        LabError: a device that no specification has, or a specification that is broken.
    """
    if not wanted:
        return Edits()
    found, broken = _read(folders)
    edits: list[Json] = []
    for name in wanted:
        kind, _, device = name.partition("=")
        if (kind, device) not in found:
            raise LabError(
                f"CDI device {name!r} is in no specification in "
                f"{', '.join(map(str, folders))}" + "".join(f"; {why}" for why in broken),
                hint="see whether its driver has prepared it",
            )
        for part in found[kind, device]:
            if part not in edits:  # what a specification says once for all its devices
                edits.append(part)
    return _merged(edits)


def _read(folders: Sequence[Path]) -> tuple[dict[tuple[str, str], list[Json]], list[str]]:
    found: dict[tuple[str, str], list[Json]] = {}
    broken: list[str] = []
    for folder in folders:
        for path in sorted(folder.glob("*")) if folder.is_dir() else []:
            if path.suffix not in (".json", ".yaml", ".yml"):
                continue
            try:
                spec = _parsed(path)
                shared = spec.get("containerEdits") or {}
                for device in spec["devices"]:
                    parts = [shared, device.get("containerEdits") or {}]
                    found[spec["kind"], device["name"]] = [part for part in parts if part]
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
                broken.append(f"{path} is broken: {type(exc).__name__} {exc}")
    return found, broken


def _parsed(path: Path) -> Json:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        spec = json.loads(text)
    else:
        import yaml

        try:
            spec = yaml.safe_load(text)
        except yaml.YAMLError as exc:
            raise ValueError(str(exc)) from exc
    if not isinstance(spec, dict):
        raise TypeError("expected an object")
    return spec


def _merged(edits: Sequence[Json]) -> Edits:
    env: dict[str, str] = {}
    binds: list[Bind] = []
    hooks: dict[str, list[Json]] = {}
    skipped: list[str] = []
    for part in edits:
        for entry in part.get("env") or []:
            name, _, value = entry.partition("=")
            env[name] = value
        binds += [_bind(entry) for entry in part.get("mounts") or []]
        for node in part.get("deviceNodes") or []:
            # An ordinary user makes no device nodes, but may be given the host's.
            source = node.get("hostPath") or node["path"]
            if Path(source).exists():
                binds.append(Bind(source=source, target=node["path"]))
            else:
                skipped.append(f"this host has no device node {source}")
        for hook in part.get("hooks") or []:
            stage = hook["hookName"]
            if stage in _STAGES:
                keys = ("path", "args", "env", "timeout")
                hooks.setdefault(stage, []).append({k: hook[k] for k in keys if k in hook})
        if part.get("additionalGids"):
            skipped.append("there is only one group in this node's user namespace")
    return Edits(env=env, binds=tuple(binds), hooks=hooks, skipped=tuple(skipped))


def _bind(entry: Json) -> Bind:
    options = [option for option in entry.get("options") or [] if option not in _OURS]
    return Bind(
        source=entry["hostPath"],
        target=entry["containerPath"],
        readonly="ro" in (entry.get("options") or []),
        options=tuple(options),
    )


_OURS = ("ro", "rw", "bind", "rbind", "private", "rprivate", "slave", "rslave", "shared", "rshared")
"""Mount options that a bind says in its own way."""
