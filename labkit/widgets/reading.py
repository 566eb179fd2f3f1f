"""Reading what pictures need from plain Kubernetes objects, some of it not there yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What names a device in a cluster, as in an allocation's result."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A published device.

    Attributes:
        key: its name.
        node: its node; "" when it is reachable from several.
        slice_name: the ResourceSlice that publishes it.
        product: e.g. ``H100 80GB HBM3``.
        memory: e.g. ``81559Mi``.
    """

    key: Key
    node: str
    slice_name: str
    product: str
    memory: str


def devices(slices: Sequence[Json]) -> list[Device]:
    """The devices of all pools, in order; of a pool only its newest generation counts."""
    newest: dict[tuple[str, str], int] = defaultdict(int)
    for slice_ in slices:
        place, generation = _place(slice_)
        newest[place] = max(newest[place], generation)
    return [
        _device(slice_, device)
        for slice_ in slices
        if _place(slice_)[1] == newest[_place(slice_)[0]]
        for device in slice_["spec"].get("devices") or []
    ]


def results(claim: Json) -> list[Json]:
    """What a claim was allocated; nothing while it is not."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    found: list[Json] = (allocation.get("devices") or {}).get("results") or []
    return found


def key(result: Json) -> Key:
    """The device of an allocation's result."""
    return Key(driver=result["driver"], pool=result["pool"], device=result["device"])


def _place(slice_: Json) -> tuple[tuple[str, str], int]:
    spec = slice_["spec"]
    return (spec["driver"], spec["pool"]["name"]), spec["pool"]["generation"]


def _device(slice_: Json, device: Json) -> Device:
    spec = slice_["spec"]
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    product = str((attributes.get("productName") or {}).get("string", ""))
    return Device(
        key=Key(driver=spec["driver"], pool=spec["pool"]["name"], device=device["name"]),
        node=spec.get("nodeName") or device.get("nodeName") or "",
        slice_name=slice_["metadata"]["name"],
        product=product.removeprefix("NVIDIA "),
        memory=str((capacity.get("memory") or {}).get("value", "")),
    )
