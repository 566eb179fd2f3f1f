from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from labkit.driver.preparer import Preparer
from labkit.gpus import build, machines

NODE = "node-1"


def claim(name: str, *devices: str, pool: str = NODE, **result: Any) -> dict[str, Any]:
    results = [
        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": pool, "device": device, **result}
        for device in devices
    ]
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
        "status": {"allocation": {"devices": {"results": results}}},
    }


class Node:
    """A driver's surroundings: the folders of a node, and the claims that the API has."""

    def __init__(self, root: Path, *, fresh: bool = True) -> None:
        self.folder = root / "plugin folder"
        self.cdi = root / "cdi"
        self.folder.mkdir(parents=True, exist_ok=not fresh)
        self.claims: dict[str, Any] = {}
        self.hold: Event | None = None  # how long the API is silent about a claim named slow

    def add(self, obj: dict[str, Any]) -> None:
        self.claims[obj["metadata"]["name"]] = obj

    def read(self, _namespace: str, name: str) -> dict[str, Any] | None:
        if self.hold and name == "slow":
            assert self.hold.wait(10)
        return self.claims.get(name)

    def preparer(self, machine: str = "dgx-h100", *, patience_s: float = 0) -> Preparer:
        """A driver that has just started."""
        inventory = build(machines.load(machine), node=NODE, seed="s")
        preparer = Preparer(
            inventory,
            self.read,
            folder=self.folder,
            cdi_dir=self.cdi,
            patience_s=patience_s,
        )
        preparer.restore()
        return preparer

    def specs(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.cdi.iterdir()}


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)
