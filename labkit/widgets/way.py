"""The object's way: from what a pod asks for to the device in its container, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.widgets import reading
from labkit.widgets.picture import ACCENTS, Picture, box, drawing, shortened, text
from labkit.widgets.reading import Json

WHO_WIDTH, BOX_WIDTH, HEIGHT, GAP, MARGIN = 150, 590, 52, 22, 2
WIDTH = WHO_WIDTH + BOX_WIDTH + MARGIN
DETAIL_CHARS = 88

DONE = ACCENTS[6]
NOT_YET = "not yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    who: str
    what: str
    detail: str
    done: bool


def object_way(*, pod: Json, claims: Sequence[Json], slices: Sequence[Json]) -> Picture:
    """Draw how far a pod has come: template, claim, allocation, device, preparation, container.

    Each step is read from the objects; what has not happened is drawn as not done.

    Args:
        pod: the Pod.
        claims: the ResourceClaims that it uses.
        slices: ResourceSlices, to say what was allocated.
    """
    steps = [
        _asked(pod, claims),
        _claimed(pod, claims),
        _allocated(pod, claims),
        _published(claims, slices),
        _prepared(pod, claims),
        _running(pod),
    ]
    parts: list[str] = []
    for index, step in enumerate(steps):
        parts += _drawn(step, MARGIN + index * (HEIGHT + GAP), first=not index)
    lines = [
        f"{'✓' if step.done else '·'} {step.what} ({step.who})\n    {step.detail}" for step in steps
    ]
    title = f"The way of pod {pod['metadata']['name']}"
    words = "\n".join([title, *lines])
    height = 2 * MARGIN + len(steps) * (HEIGHT + GAP) - GAP
    svg = drawing(parts, width=WIDTH, height=height, title=title, words=words)
    return Picture(svg=svg, text=words)


def _drawn(step: _Step, y: int, *, first: bool) -> list[str]:
    frame = (
        box(WHO_WIDTH, y, BOX_WIDTH, HEIGHT, colour=DONE, filled=0.14)
        if step.done
        else box(WHO_WIDTH, y, BOX_WIDTH, HEIGHT, dashed=True, faint=True)
    )
    return [
        *([] if first else [_arrow(WHO_WIDTH + 34, y - GAP, y, done=step.done)]),
        frame,
        text(WHO_WIDTH - 12, y + 31, step.who, anchor="end", quiet=True),
        text(WHO_WIDTH + 14, y + 21, step.what, size=13, weight=600),
        text(WHO_WIDTH + 14, y + 40, shortened(step.detail, DETAIL_CHARS), quiet=True),
    ]


def _asked(pod: Json, claims: Sequence[Json]) -> _Step:
    entries = pod["spec"].get("resourceClaims") or []
    templates = [entry.get("resourceClaimTemplateName") for entry in entries]
    named = [name for name in templates if name]
    asked = ", ".join(_request(request) for claim in claims for request in _requests(claim))
    if named:
        what = f"ResourceClaimTemplate {', '.join(named)}"
        return _Step(who="you", what=what, detail=f"asks for {asked or '…'}", done=True)
    what = "The pod names its claim" if entries else "The pod asks for no devices"
    return _Step(who="you", what=what, detail=f"asks for {asked or 'nothing'}", done=bool(entries))


def _requests(claim: Json) -> list[Json]:
    found: list[Json] = claim["spec"]["devices"].get("requests") or []
    return found


def _request(request: Json) -> str:
    options = request.get("firstAvailable") or [request.get("exactly") or {}]
    return " or else ".join(_wanted(option) for option in options)


def _wanted(option: Json) -> str:
    amount = "all" if option.get("allocationMode") == "All" else option.get("count", 1)
    return f"{amount} of class {option.get('deviceClassName', '?')}"


def _claimed(pod: Json, claims: Sequence[Json]) -> _Step:
    names = ", ".join(claim["metadata"]["name"] for claim in claims)
    owned = any(
        owner["kind"] == "Pod"
        for claim in claims
        for owner in claim["metadata"].get("ownerReferences") or []
    )
    made = f"made for pod {pod['metadata']['name']} alone" if owned else "there before the pod"
    return _Step(
        who="controller manager" if owned or not claims else "you",
        what=f"ResourceClaim {names}".rstrip(),
        detail=made if claims else NOT_YET,
        done=bool(claims),
    )


def _allocated(pod: Json, claims: Sequence[Json]) -> _Step:
    found = [result for claim in claims for result in reading.results(claim)]
    names = ", ".join(f"{result['device']} of pool {result['pool']}" for result in found)
    node = pod["spec"].get("nodeName", "")
    return _Step(
        who="scheduler",
        what="Allocation, in the claim's status",
        detail=f"{names or NOT_YET}" + (f"; pod goes to node {node}" if node else ""),
        done=bool(found),
    )


def _published(claims: Sequence[Json], slices: Sequence[Json]) -> _Step:
    known = {device.key: device for device in reading.devices(slices)}
    keys = [reading.key(result) for claim in claims for result in reading.results(claim)]
    found = [known[key] for key in keys if key in known]
    slice_names = ", ".join(sorted({device.slice_name for device in found}))
    details = ", ".join(
        f"{device.key.device} is {device.product or 'a device'} {device.memory}".rstrip()
        for device in found
    )
    missing = "no slice publishes it any more" if keys else NOT_YET
    return _Step(
        who="driver, long before",
        what=f"ResourceSlice {slice_names}".rstrip(),
        detail=details or missing,
        done=bool(found),
    )


def _prepared(pod: Json, claims: Sequence[Json]) -> _Step:
    # The kubelet makes a pod's sandbox only after the drivers have prepared all its claims.
    conditions = (pod.get("status") or {}).get("conditions") or []
    sandbox = any(
        condition["type"] == "PodReadyToStartContainers" and condition["status"] == "True"
        for condition in conditions
    )
    done = bool(claims) and (sandbox or _started(pod))
    names = ", ".join(_cdi_names(pod))
    return _Step(
        who="kubelet and driver",
        what="Prepared on the node",
        detail=(names or "the runtime was told CDI names for it") if done else NOT_YET,
        done=done,
    )


def _cdi_names(pod: Json) -> list[str]:
    found = [
        resource["resourceID"]
        for container in (pod.get("status") or {}).get("containerStatuses") or []
        for allocated in container.get("allocatedResourcesStatus") or []
        if allocated["name"].startswith("claim:")
        for resource in allocated.get("resources") or []
    ]
    return list(dict.fromkeys(found))


def _running(pod: Json) -> _Step:
    status = pod.get("status") or {}
    states = [
        f"container {entry['name']} {next(iter(entry.get('state') or {'unknown': None}))}"
        for entry in status.get("containerStatuses") or []
    ]
    return _Step(
        who="kubelet and runtime",
        what=f"Pod {pod['metadata']['name']} is {status.get('phase', 'unknown')}",
        detail=", ".join(states) or NOT_YET,
        done=_started(pod),
    )


def _started(pod: Json) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return bool(statuses) and not any("waiting" in (entry.get("state") or {}) for entry in statuses)


def _arrow(x: int, top: int, bottom: int, *, done: bool) -> str:
    tip = bottom - 3
    head = f"M{x - 4} {tip - 6}L{x} {tip}L{x + 4} {tip - 6}"
    colour = DONE if done else "currentColor"
    return f'<path d="M{x} {top}V{tip}{head}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
