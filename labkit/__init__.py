"""Clusters with GPUs for learning, teaching and testing Dynamic Resource Allocation.

    with labkit.Cluster.local(nodes=2, gpus="dgx-h100") as cluster:
        print(cluster.kubectl("get", "resourceslices").stdout)

In a notebook::

    lab = labkit.open_lab("01")

Names are loaded when first used, so that ``import labkit`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.cluster import Cluster
    from labkit.course import open_lab
    from labkit.errors import LabError

__all__ = ["Cluster", "LabError", "open_lab"]

_HOMES = {"Cluster": "labkit.cluster", "LabError": "labkit.errors", "open_lab": "labkit.course"}


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
