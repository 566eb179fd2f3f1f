"""A cluster's life: up, adopted, repaired, watched over, down.

::

    handle      Cluster, what callers see
      local     up and end: the states absent, creating, broken, ready
        making      the folder: certificates, settings, plan
        readiness   from started processes to a usable cluster
      overview  status, list, what nobody needs any more
    supervisor  a process of its own, keeps a plan running
      keeper, nodespace, members, lease, processes
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.cluster.handle import Cluster
    from labkit.cluster.spec import NodeSpec
    from labkit.cluster.status import Status

__all__ = ["Cluster", "NodeSpec", "Status"]

# The supervisor lives in this package too and must stay small, so nothing is loaded early.
_HOMES = {
    "Cluster": "labkit.cluster.handle",
    "NodeSpec": "labkit.cluster.spec",
    "Status": "labkit.cluster.status",
}


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'labkit.cluster' has no attribute {name!r}") from None
    return getattr(import_module(home), name)
