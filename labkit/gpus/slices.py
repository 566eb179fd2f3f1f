"""An inventory as ResourceSlices, in the shape of NVIDIA's driver 0.5.0 with DynamicMIG off.

One pool per node, named after it, in one slice. Attribute names, their types and what is left
out when the hardware does not show it are the driver's; so is that devices have neither an
index nor a memory attribute (memory is a capacity).
"""

from __future__ import annotations

from typing import Any

from labkit.gpus.inventory import Gpu, Inventory

DRIVER = "gpu.nvidia.com"
"""The driver's name, and the domain of its attributes."""

Json = dict[str, Any]

_STANDARD = "resource.kubernetes.io"


def resource_slices(
    inventory: Inventory, *, generation: int = 1, owner: Json | None = None
) -> list[Json]:
    """The ResourceSlices that publish an inventory.

    Args:
        inventory: a node's GPUs.
        generation: the pool's generation; higher after each change.
        owner: the Node object, so that the slices go when it goes.
    """
    metadata: Json = {"generateName": f"00000-{DRIVER}-{inventory.node}-"}
    if owner:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    pool = {"name": inventory.node, "generation": generation, "resourceSliceCount": 1}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": metadata,
            "spec": {
                "driver": DRIVER,
                "nodeName": inventory.node,
                "pool": pool,
                "devices": [device(gpu) for gpu in inventory.gpus],
            },
        }
    ]


def device(gpu: Gpu) -> Json:
    """One whole GPU as a device of a slice."""
    attributes: Json = {
        "type": {"string": "gpu"},
        "uuid": {"string": gpu.uuid},
        "productName": {"string": gpu.card.product_name},
        "brand": {"string": gpu.card.brand},
        "architecture": {"string": gpu.card.architecture},
        "cudaComputeCapability": {"version": semver(gpu.card.cuda_compute_capability)},
        "driverVersion": {"version": semver(gpu.driver_version)},
        "cudaDriverVersion": {"version": semver(gpu.cuda_version)},
        "addressingMode": {"string": gpu.card.addressing_mode},
        f"{_STANDARD}/pciBusID": {"string": gpu.pci_bus_id},
    }
    if gpu.pcie_root is not None:
        attributes[f"{_STANDARD}/pcieRoot"] = {"string": gpu.pcie_root}
    if gpu.numa_node is not None:
        attributes[f"{_STANDARD}/numaNode"] = {"int": gpu.numa_node}
    return {
        "name": gpu.device_name,
        "attributes": attributes,
        "capacity": {"memory": {"value": mebibytes(gpu.card.memory_mib)}},
    }


def semver(version: str) -> str:
    """A version as the API wants it: three numbers without leading zeros.

    NVIDIA's ``580.126.09`` is no semantic version; the driver publishes ``580.126.9``.
    """
    numbers = [str(int(part)) for part in version.split(".")]
    return ".".join([*numbers, "0", "0"][:3])


def mebibytes(amount: int) -> str:
    """An amount of MiB in the form that the API server stores: ``40Gi`` and not ``40960Mi``."""
    return f"{amount // 1024}Gi" if amount % 1024 == 0 else f"{amount}Mi"
