"""What one node has: a machine's cards, each now a single GPU with an identity."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from labkit.gpus.machines import Card, Machine

_NAMESPACE = uuid.UUID("6f5c3d8e-2b1a-5c4d-9e8f-7a6b5c4d3e2f")
"""Keeps our UUIDs apart from anybody else's made from the same words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One whole GPU of a node.

    Attributes:
        minor: the driver's device minor, the number in ``/dev/nvidia<minor>``.
        uuid: ``GPU-`` and a UUID.
        card: its product.
        pci_bus_id: e.g. ``0000:1b:00.0``.
        numa_node: None where the node shows none.
        pcie_root: None where the node shows none.
        driver_version: NVIDIA's kernel driver on the node.
        cuda_version: the CUDA version that driver supports.
    """

    minor: int
    uuid: str
    card: Card
    pci_bus_id: str
    numa_node: int | None
    pcie_root: str | None
    driver_version: str
    cuda_version: str

    @property
    def device_name(self) -> str:
        """The name of its device in a ResourceSlice."""
        return f"gpu-{self.minor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All GPUs of one node, by minor.

    Attributes:
        node: the node's name in the cluster.
        gpus: its GPUs.
    """

    node: str
    gpus: tuple[Gpu, ...]


def build(machine: Machine, *, node: str, seed: str) -> Inventory:
    """The GPUs of a node that is such a machine.

    Args:
        machine: its hardware.
        node: the node's name.
        seed: makes UUIDs unique to one cluster, and the same after every restart; the
            cluster's uid.
    """
    return Inventory(
        node=node,
        gpus=tuple(
            Gpu(
                minor=minor,
                uuid=f"GPU-{uuid.uuid5(_NAMESPACE, f'{seed}/{node}/{minor}')}",
                card=slot.card,
                pci_bus_id=slot.pci_bus_id,
                numa_node=slot.numa_node,
                pcie_root=slot.pcie_root,
                driver_version=machine.driver_version,
                cuda_version=machine.cuda_version,
            )
            for minor, slot in enumerate(machine.slots)
        ),
    )
