"""The map of a cluster's devices: nodes, their GPUs, and whose claims hold them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from labkit.widgets.picture import ACCENTS, INK, Picture, box, drawing, shortened, text

Json = dict[str, Any]

COLUMNS = 4
CELL_WIDTH, CELL_HEIGHT, GAP = 168, 62, 10
MARGIN, HEAD = 16, 34


def gpu_map(*, nodes: Sequence[Json], slices: Sequence[Json], claims: Sequence[Json]) -> Picture:
    """Draw nodes with their devices, and which pod or claim holds each.

    Args:
        nodes: Nodes; one without devices is drawn empty.
        slices: ResourceSlices; of a pool only its newest generation counts.
        claims: ResourceClaims of all namespaces.
    """
    devices = _devices(slices)
    holders = _holders(claims)
    colours = {
        holder: ACCENTS[index % len(ACCENTS)]
        for index, holder in enumerate(sorted(set(holders.values())))
    }
    parts, lines, y = [], [], MARGIN
    names = [node["metadata"]["name"] for node in nodes]
    for name in sorted({*names, *devices}):
        here = devices.get(name, [])
        rows = max(1, -(-len(here) // COLUMNS))
        height = HEAD + rows * (CELL_HEIGHT + GAP) + GAP
        width = COLUMNS * (CELL_WIDTH + GAP) + GAP
        parts += [
            box(MARGIN, y, width, height),
            text(MARGIN + 12, y + 22, f"node {name}", size=14, weight=600),
        ]
        lines.append(f"node {name}")
        if not here:
            parts.append(text(MARGIN + 12, y + HEAD + 24, "no devices published"))
            lines.append("  no devices published")
        for index, (pool, device) in enumerate(here):
            holder = holders.get((pool, device["name"]), "")
            x = MARGIN + GAP + (index % COLUMNS) * (CELL_WIDTH + GAP)
            top = y + HEAD + (index // COLUMNS) * (CELL_HEIGHT + GAP)
            parts += _cell(x, top, device, holder, colours.get(holder, INK))
            lines.append(f"  {device['name']}  {_product(device)}  {holder or 'free'}")
        y += height + GAP
    width = 2 * MARGIN + COLUMNS * (CELL_WIDTH + GAP) + GAP
    title = f"{sum(map(len, devices.values()))} devices, {len(holders)} of them allocated"
    svg = drawing(parts, width=width, height=y - GAP + MARGIN, title=title)
    return Picture(svg=svg, text="\n".join([title, *lines]))


def _cell(x: float, y: float, device: Json, holder: str, colour: str) -> list[str]:
    name, product, memory = device["name"], _product(device), _memory(device)
    return [
        box(
            x, y, CELL_WIDTH, CELL_HEIGHT,
            stroke=colour, fill=colour, opacity=0.16 if holder else 0, dashed=not holder,
        ),
        text(x + 10, y + 19, name, size=13, weight=600, fill=colour),
        text(x + CELL_WIDTH - 10, y + 19, memory, size=11, anchor="end"),
        text(x + 10, y + 36, shortened(product, 26), size=11),
        text(x + 10, y + 53, shortened(holder, 27) or "free", size=11, fill=colour,
             weight=600 if holder else 400),
    ]  # fmt: skip


def _devices(slices: Sequence[Json]) -> dict[str, list[tuple[str, Json]]]:
    newest: dict[tuple[str, str], int] = {}
    for slice_ in slices:
        key = (slice_["spec"]["driver"], slice_["spec"]["pool"]["name"])
        newest[key] = max(newest.get(key, 0), slice_["spec"]["pool"]["generation"])
    found: dict[str, list[tuple[str, Json]]] = defaultdict(list)
    for slice_ in slices:
        spec = slice_["spec"]
        pool = spec["pool"]["name"]
        if spec["pool"]["generation"] == newest[spec["driver"], pool]:
            where = spec.get("nodeName") or f"(pool {pool})"
            found[where] += [(pool, device) for device in spec.get("devices") or []]
    return dict(found)


def _holders(claims: Sequence[Json]) -> dict[tuple[str, str], str]:
    """Who holds a device, by pool and name: the pods of its claim, or else the claim."""
    holders = {}
    for claim in claims:
        status = claim.get("status") or {}
        pods = [entry["name"] for entry in status.get("reservedFor") or []]
        who = f"pod {', '.join(pods)}" if pods else f"claim {claim['metadata']['name']}"
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
        for result in results:
            holders[result["pool"], result["device"]] = who
    return holders


def _product(device: Json) -> str:
    name = (device.get("attributes") or {}).get("productName") or {}
    return str(name.get("string", "")).removeprefix("NVIDIA ")


def _memory(device: Json) -> str:
    return str(((device.get("capacity") or {}).get("memory") or {}).get("value", ""))
