"""The object's way: from a pod's request to the device in its container, object by object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.widgets.picture import INK, STRONG, Picture, box, drawing, shortened, text

Json = dict[str, Any]

WIDTH, HEIGHT, GAP, MARGIN = 640, 58, 26, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    who: str
    what: str
    detail: str
    done: bool


def object_way(*, pod: Json, claims: Sequence[Json], slices: Sequence[Json]) -> Picture:
    """Draw how far a pod has come: template, claim, allocation, device, container.

    Args:
        pod: the Pod.
        claims: the ResourceClaims that it uses.
        slices: ResourceSlices, to say what was allocated.
    """
    steps = [
        _asks(pod),
        _claims(claims),
        _scheduled(pod),
        _allocated(claims, slices),
        _runs(pod),
    ]
    parts, lines = [], []
    for index, step in enumerate(steps):
        y = MARGIN + index * (HEIGHT + GAP)
        colour = STRONG if step.done else INK
        parts += [
            box(MARGIN, y, WIDTH, HEIGHT, stroke=colour, fill=colour,
                opacity=0.1 if step.done else 0, dashed=not step.done),
            text(MARGIN + 14, y + 23, step.what, size=14, weight=600, fill=colour),
            text(MARGIN + WIDTH - 14, y + 23, step.who, size=11, anchor="end"),
            text(MARGIN + 14, y + 44, shortened(step.detail, 92), size=12),
        ]  # fmt: skip
        if index:
            parts.append(_arrow(MARGIN + 40, y - GAP, y, colour))
        mark = "✓" if step.done else "·"
        lines.append(f"{mark} {step.what} ({step.who})\n    {step.detail}")
    title = f"The way of pod {pod['metadata']['name']}"
    height = 2 * MARGIN + len(steps) * (HEIGHT + GAP) - GAP
    svg = drawing(parts, width=WIDTH + 2 * MARGIN, height=height, title=title)
    return Picture(svg=svg, text="\n".join([title, *lines]))


def _asks(pod: Json) -> _Step:
    asked = [
        entry.get("resourceClaimTemplateName") or entry.get("resourceClaimName") or "?"
        for entry in pod["spec"].get("resourceClaims") or []
    ]
    return _Step(
        who="you, by kubectl",
        what=f"Pod {pod['metadata']['name']} asks",
        detail=f"resourceClaims: {', '.join(asked) or 'none'}",
        done=bool(asked),
    )


def _claims(claims: Sequence[Json]) -> _Step:
    names = [claim["metadata"]["name"] for claim in claims]
    classes = [
        request.get("exactly", {}).get("deviceClassName", "a prioritized list")
        for claim in claims
        for request in claim["spec"]["devices"].get("requests") or []
    ]
    return _Step(
        who="the controller manager, from a template, or you",
        what="ResourceClaim is there",
        detail=f"{', '.join(names) or 'not yet'}"
        + (f", of class {', '.join(classes)}" if classes else ""),
        done=bool(claims),
    )


def _scheduled(pod: Json) -> _Step:
    node = pod["spec"].get("nodeName", "")
    return _Step(
        who="the scheduler",
        what="A node is chosen together with the devices",
        detail=f"nodeName: {node}" if node else "not yet",
        done=bool(node),
    )


def _allocated(claims: Sequence[Json], slices: Sequence[Json]) -> _Step:
    results = [
        result
        for claim in claims
        for result in (
            ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
        ).get("results")
        or []
    ]
    products = _products(slices)
    devices = [
        f"{result['device']} of pool {result['pool']}"
        + (f" ({products[result['pool'], result['device']]})"
           if (result["pool"], result["device"]) in products else "")
        for result in results
    ]  # fmt: skip
    return _Step(
        who="the scheduler, from the ResourceSlices",
        what="status.allocation names the devices",
        detail=", ".join(devices) or "not yet",
        done=bool(devices),
    )


def _runs(pod: Json) -> _Step:
    status = pod.get("status") or {}
    states = [
        next(iter(entry.get("state") or {"unknown": None}))
        for entry in status.get("containerStatuses") or []
    ]
    started = bool(states) and "waiting" not in states
    return _Step(
        who="the kubelet, the driver, the runtime",
        what="The devices are prepared, the container starts",
        detail=f"pod is {status.get('phase', 'unknown')}, "
        f"containers: {', '.join(states) or 'none'}",
        done=started,
    )


def _products(slices: Sequence[Json]) -> dict[tuple[str, str], str]:
    return {
        (slice_["spec"]["pool"]["name"], device["name"]): device["attributes"]["productName"][
            "string"
        ]
        for slice_ in slices
        for device in slice_["spec"].get("devices") or []
        if "productName" in (device.get("attributes") or {})
    }


def _arrow(x: float, top: float, bottom: float, colour: str) -> str:
    tip = bottom - 3
    head = f"M{x - 4:g} {tip - 6:g}L{x:g} {tip:g}L{x + 4:g} {tip - 6:g}"
    return (
        f'<path d="M{x:g} {top:g}V{tip:g}{head}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    )
