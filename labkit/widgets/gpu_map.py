"""The map of a cluster's devices: nodes, their GPUs, and whose claims hold them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit.widgets import reading
from labkit.widgets.picture import ACCENTS, Picture, box, drawing, shortened, text
from labkit.widgets.reading import Device, Json, Key

COLUMNS = 4
CELL_WIDTH, CELL_HEIGHT, GAP = 172, 62, 10
MARGIN, HEAD = 2, 34
NODE_WIDTH = COLUMNS * (CELL_WIDTH + GAP) + GAP
WIDTH = NODE_WIDTH + 2 * MARGIN
PRODUCT_CHARS, HOLDER_CHARS = 26, 24

NO_NODE = "(reachable from several nodes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holder:
    words: str
    colour: str


def gpu_map(*, nodes: Sequence[Json], slices: Sequence[Json], claims: Sequence[Json]) -> Picture:
    """Draw nodes with their devices, and which pod or claim holds each.

    Args:
        nodes: Nodes; one without devices is drawn empty.
        slices: ResourceSlices; of a pool only its newest generation counts.
        claims: ResourceClaims of all namespaces.
    """
    holders = _holders(claims)
    by_node: dict[str, list[Device]] = defaultdict(list)
    for device in reading.devices(slices):
        by_node[device.node or NO_NODE].append(device)
    names = sorted({node["metadata"]["name"] for node in nodes} | by_node.keys())
    parts, lines, y = [], [], MARGIN
    for name in names:
        drawn, height = _node(name, by_node[name], holders, y)
        parts += drawn
        lines += _told(name, by_node[name], holders)
        y += height + GAP
    known = {device.key for found in by_node.values() for device in found}
    title = f"{len(known)} devices, {len(known & holders.keys())} of them allocated"
    words = "\n".join([title, *lines])
    svg = drawing(parts, width=WIDTH, height=max(y - GAP, 0) + MARGIN, title=title, words=words)
    return Picture(svg=svg, text=words)


def _node(
    name: str, devices: Sequence[Device], holders: Mapping[Key, _Holder], y: int
) -> tuple[list[str], int]:
    rows = max(1, -(-len(devices) // COLUMNS))
    height = HEAD + rows * (CELL_HEIGHT + GAP)
    free = sum(device.key not in holders for device in devices)
    parts = [
        box(MARGIN, y, NODE_WIDTH, height, faint=True),
        text(MARGIN + 14, y + 22, f"node {name}", size=14, weight=600),
        text(
            MARGIN + NODE_WIDTH - 14, y + 22, f"{free} of {len(devices)} free",
            anchor="end", quiet=True,
        ),
    ]  # fmt: skip
    if not devices:
        parts.append(text(MARGIN + 14, y + HEAD + 24, "no devices published", quiet=True))
    for index, device in enumerate(devices):
        x = MARGIN + GAP + (index % COLUMNS) * (CELL_WIDTH + GAP)
        top = y + HEAD + (index // COLUMNS) * (CELL_HEIGHT + GAP)
        parts += _cell(x, top, device, holders.get(device.key))
    return parts, height


def _cell(x: int, y: int, device: Device, holder: _Holder | None) -> list[str]:
    frame = (
        box(x, y, CELL_WIDTH, CELL_HEIGHT, colour=holder.colour, filled=0.2)
        if holder
        else box(x, y, CELL_WIDTH, CELL_HEIGHT, dashed=True, faint=True)
    )
    state = shortened(holder.words, HOLDER_CHARS) if holder else "free"
    return [
        frame,
        text(x + 10, y + 19, device.key.device, size=13, weight=600),
        text(x + CELL_WIDTH - 10, y + 19, device.memory, size=11, anchor="end", quiet=True),
        text(x + 10, y + 36, shortened(device.product, PRODUCT_CHARS), size=11, quiet=True),
        text(x + 10, y + 53, state, weight=600 if holder else 400, quiet=not holder),
    ]


def _told(name: str, devices: Sequence[Device], holders: Mapping[Key, _Holder]) -> list[str]:
    lines = [f"node {name}"] + ([] if devices else ["  no devices published"])
    for device in devices:
        holder = holders.get(device.key)
        what = "  ".join(part for part in (device.product, device.memory) if part)
        lines.append(f"  {device.key.device}  {what}  {holder.words if holder else 'free'}")
    return lines


def _holders(claims: Sequence[Json]) -> dict[Key, _Holder]:
    """Who holds a device: the pods of its claims, or else the claims themselves.

    Monitors look at devices with admin access; they hold nothing.
    """
    held: dict[Key, set[str]] = defaultdict(set)
    places = {claim["metadata"].get("namespace", "") for claim in claims if reading.results(claim)}
    for claim in claims:
        who = _who(claim, with_place=len(places) > 1)
        for result in reading.results(claim):
            if not result.get("adminAccess"):
                held[reading.key(result)].add(who)
    words = {device: ", ".join(sorted(who)) for device, who in held.items()}
    order = sorted(set(words.values()))
    return {
        device: _Holder(words=said, colour=ACCENTS[order.index(said) % len(ACCENTS)])
        for device, said in words.items()
    }


def _who(claim: Json, *, with_place: bool) -> str:
    metadata = claim["metadata"]
    place = f"{metadata.get('namespace')}/" if with_place else ""
    pods = [entry["name"] for entry in (claim.get("status") or {}).get("reservedFor") or []]
    if pods:
        return f"pod {', '.join(place + pod for pod in sorted(pods))}"
    return f"claim {place}{metadata['name']}"
