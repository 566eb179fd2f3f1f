"""Exercises of lab 01, what Kubernetes knows about a GPU."""

from __future__ import annotations

from labkit.course.exercises import exercise
from labkit.course.lab import Lab
from labkit.errors import LabFailed
from labkit.kube import PODS, RESOURCE_CLAIM_TEMPLATES

PAIR = 2


@exercise(
    "pair",
    "A request has a count. Look at `spec.devices.requests` of the template you applied above.",
    "In the template: `exactly: {deviceClassName: gpu.nvidia.com, count: 2}`. The pod is the one "
    "from above with another name, and with `resourceClaimTemplateName: pair`.",
)
def pair(lab: Lab) -> str:
    """A pod `pair` runs with one claim that holds two GPUs."""
    template = lab.client.find(RESOURCE_CLAIM_TEMPLATES, "pair", namespace=lab.namespace)
    if template is None:
        raise LabFailed("there is no ResourceClaimTemplate 'pair' in this lab's namespace")
    if lab.client.find(PODS, "pair", namespace=lab.namespace) is None:
        raise LabFailed("the template is there; now a Pod 'pair' that uses it is missing")
    lab.wait_running("pair")
    devices = lab.devices_of("pair")
    if len(devices) != PAIR:
        names = ", ".join(device["device"] for device in devices) or "none"
        raise LabFailed(f"pod 'pair' has {len(devices)} device(s): {names}; two are wanted")
    printed = lab.logs("pair").count("(UUID: GPU-")
    if printed != PAIR:
        raise LabFailed(f"nvidia-smi -L in pod 'pair' shows {printed} GPU(s), not two")
    return "Pod pair holds " + " and ".join(device["device"] for device in devices)
