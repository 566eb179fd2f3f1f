"""Talking to a Kubernetes API server in plain dicts.

::

    kubeconfig ──► client ──► resources, manifests
                     │
                     ├── watch    list, then follow, through restarts
                     └── wait     until an object looks as it should

Objects stay the JSON the server sent: typed models lose what they do not know and
lag behind the API they model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Json,
    Resource,
)

if TYPE_CHECKING:
    from labkit.kube.client import Applied, Client, Listing
    from labkit.kube.quantity import Quantity
    from labkit.kube.watch import Change

__all__ = [
    "CLUSTER_ROLES",
    "CLUSTER_ROLE_BINDINGS",
    "CONFIG_MAPS",
    "DEPLOYMENTS",
    "DEVICE_CLASSES",
    "DEVICE_TAINT_RULES",
    "EVENTS",
    "JOBS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "REPLICA_SETS",
    "RESOURCE_CLAIMS",
    "RESOURCE_CLAIM_TEMPLATES",
    "RESOURCE_SLICES",
    "SECRETS",
    "SERVICE_ACCOUNTS",
    "Applied",
    "Change",
    "Client",
    "Json",
    "Listing",
    "Quantity",
    "Resource",
]

_LATE = {
    "Applied": "labkit.kube.client",
    "Change": "labkit.kube.watch",
    "Client": "labkit.kube.client",
    "Listing": "labkit.kube.client",
    "Quantity": "labkit.kube.quantity",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    try:
        home = _LATE[name]
    except KeyError:
        raise AttributeError(f"module 'labkit.kube' has no attribute {name!r}") from None
    return getattr(import_module(home), name)
