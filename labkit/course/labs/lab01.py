"""Exercises of lab 01, what Kubernetes knows about a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from labkit.course.exercises import Finding, exercise
from labkit.course.lab import Lab
from labkit.errors import LabError, WaitTimedOut
from labkit.kube import PODS, RESOURCE_CLAIM_TEMPLATES, wait

DEVICES_ON_A_NODE = PAIR = 2

RUNNING_S = 10.0
"""How long the check waits for the pod to run, in seconds."""

PRINTED_S = 5.0
"""How long the check waits for the pod's output, in seconds."""


@exercise(
    "pair",
    "What did the first template say about how many? `%kubectl explain "
    "resourceclaimtemplate.spec.spec.devices.requests.exactly` lists what else it can say.",
    "A request has a `count`, beside its `deviceClassName`. A pod refers to its template in "
    "`spec.resourceClaims`, and its container to that in `resources.claims`.",
    "The template's request is `exactly: {deviceClassName: gpu.nvidia.com, count: 2}`. The pod "
    "is the one from above, named `pair`, with `resourceClaimTemplateName: pair`.",
)
def pair(lab: Lab) -> Iterator[Finding]:
    """A pod `pair` runs with one claim that holds two GPUs."""
    template = lab.client.find(RESOURCE_CLAIM_TEMPLATES, "pair", namespace=lab.namespace)
    yield Finding(
        what="there is a ResourceClaimTemplate 'pair'",
        holds=template is not None,
        instead=lab.names(RESOURCE_CLAIM_TEMPLATES),
    )
    pod = lab.client.find(PODS, "pair", namespace=lab.namespace) or {"spec": {}}
    yield Finding(what="there is a Pod 'pair'", holds="metadata" in pod, instead=lab.names(PODS))
    used = [
        entry.get("resourceClaimTemplateName") or f"claim {entry.get('resourceClaimName')}"
        for entry in pod["spec"].get("resourceClaims") or []
    ]
    yield Finding(
        what="the pod has one claim, made from the template",
        holds=used == ["pair"],
        instead=", ".join(used) or "the pod has no claims",
    )
    yield _runs(lab)
    devices = [device["device"] for device in lab.devices_of("pair")]
    yield Finding(
        what="the claim holds two GPUs",
        holds=len(devices) == PAIR,
        instead=f"{len(devices)}: {', '.join(devices)}",
    )
    yield _printed(lab)


def _runs(lab: Lab) -> Finding:
    what = "the pod is running"
    try:
        wait.wait_for_pod_running(lab.client, "pair", namespace=lab.namespace, timeout_s=RUNNING_S)
    except WaitTimedOut as error:
        return Finding(what=what, holds=False, instead=error.last_state)
    except LabError as error:
        return Finding(what=what, holds=False, instead=error.message)
    return Finding(what=what, holds=True)


def _printed(lab: Lab) -> Finding:
    what = "its container sees both: nvidia-smi -L prints two UUIDs"
    with suppress(WaitTimedOut):
        lab.wait_logs("pair", "(UUID: GPU-", count=PAIR, timeout_s=PRINTED_S)
    printed = lab.logs("pair")
    return Finding(
        what=what,
        holds=printed.count("(UUID: GPU-") == PAIR,
        instead=f"it printed: {printed.strip() or 'nothing'}",
    )
