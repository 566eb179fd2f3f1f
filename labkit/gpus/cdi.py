"""What a container is given of its devices, as a CDI specification per claim.

NVIDIA's names: kind ``k8s.gpu.nvidia.com/claim``, one device ``<claim uid>-<device>`` for
each allocated one. There is no kernel driver behind a simulated GPU, so in place of
``/dev/nvidia0`` a container gets a description of the device and a program that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from labkit.gpus.inventory import Gpu
from labkit.gpus.slices import DRIVER, semver

KIND = f"k8s.{DRIVER}/claim"
"""The CDI kind of claims' devices."""

VERSION = "0.6.0"
"""The CDI version of what we write; nothing newer is used."""

CONTAINER_DEVICES = "/run/labkit/gpus"
"""Where a container finds the descriptions of its devices, one JSON file each."""

CONTAINER_SMI = "/usr/bin/nvidia-smi"
"""Where a container finds `labkit.gpus.smi`."""

Json = dict[str, Any]


def device_id(claim_uid: str, device: str) -> str:
    """The fully qualified CDI name of a claim's device."""
    return f"{KIND}={claim_uid}-{device}"


def claim_spec(claim_uid: str, gpus: Iterable[Gpu], *, descriptions: Path, smi: Path) -> Json:
    """The CDI specification of a claim.

    Args:
        claim_uid: the claim.
        gpus: the devices that it was given.
        descriptions: the node's folder with one ``<uuid>.json`` per GPU.
        smi: the program on the node that is to be the container's ``nvidia-smi``.
    """
    return {
        "cdiVersion": VERSION,
        "kind": KIND,
        "devices": [
            {
                "name": f"{claim_uid}-{gpu.device_name}",
                "containerEdits": {
                    "mounts": [
                        _mount(
                            descriptions / f"{gpu.uuid}.json",
                            f"{CONTAINER_DEVICES}/{gpu.uuid}.json",
                        ),
                    ],
                },
            }
            for gpu in gpus
        ],
        # "void" keeps the older NVIDIA runtime, where there is one, from adding GPUs itself.
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "mounts": [_mount(smi, CONTAINER_SMI)],
        },
    }


def description(gpu: Gpu) -> Json:
    """What `labkit.gpus.smi` needs to know of a device, as plain JSON."""
    return {
        "uuid": gpu.uuid,
        "minor": gpu.minor,
        "name": gpu.card.product_name,
        "pciBusID": gpu.pci_bus_id,
        "pciDeviceID": gpu.card.pci_device_id,
        "memoryMiB": gpu.card.memory_mib,
        "multiprocessors": gpu.card.multiprocessors,
        "architecture": gpu.card.architecture,
        "brand": gpu.card.brand,
        "computeCapability": ".".join(semver(gpu.card.cuda_compute_capability).split(".")[:2]),
        "addressingMode": gpu.card.addressing_mode,
        "migCapable": gpu.card.mig_capable,
        "driverVersion": gpu.driver_version,
        "cudaVersion": gpu.cuda_version,
    }


def _mount(host: Path, container: str) -> Json:
    options = ["ro", "nosuid", "nodev", "bind"]
    return {"hostPath": str(host), "containerPath": container, "options": options}
