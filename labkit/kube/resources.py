"""The kinds that labkit speaks of, and where the API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A Kubernetes object, or a part of one, as the API server sends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind of object and its place in the API.

    Attributes:
        group: API group, "" for the core one.
        version: API version, e.g. ``v1``.
        plural: name in URLs, e.g. ``resourceslices``.
        kind: name in manifests, e.g. ``ResourceSlice``.
        namespaced: whether its objects live in namespaces.
    """

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of manifests, e.g. ``resource.k8s.io/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, or of one object in it.

        Args:
            namespace: for a namespaced kind, None means the collection across all namespaces.
            name: name of one object.
            subresource: e.g. ``status``; needs `name`.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        parts = [root + place, self.plural, name, subresource]
        return "/".join(part for part in parts if part)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


_DRA = "resource.k8s.io"
_RBAC = "rbac.authorization.k8s.io"

PODS = Resource(plural="pods", kind="Pod")
NODES = Resource(plural="nodes", kind="Node", namespaced=False)
NAMESPACES = Resource(plural="namespaces", kind="Namespace", namespaced=False)
EVENTS = Resource(plural="events", kind="Event")
CONFIG_MAPS = Resource(plural="configmaps", kind="ConfigMap")
SECRETS = Resource(plural="secrets", kind="Secret")
SERVICE_ACCOUNTS = Resource(plural="serviceaccounts", kind="ServiceAccount")
LEASES = Resource(group="coordination.k8s.io", plural="leases", kind="Lease")
DEPLOYMENTS = Resource(group="apps", plural="deployments", kind="Deployment")
REPLICA_SETS = Resource(group="apps", plural="replicasets", kind="ReplicaSet")
JOBS = Resource(group="batch", plural="jobs", kind="Job")
DEVICE_CLASSES = Resource(group=_DRA, plural="deviceclasses", kind="DeviceClass", namespaced=False)
RESOURCE_SLICES = Resource(
    group=_DRA, plural="resourceslices", kind="ResourceSlice", namespaced=False
)
RESOURCE_CLAIMS = Resource(group=_DRA, plural="resourceclaims", kind="ResourceClaim")
RESOURCE_CLAIM_TEMPLATES = Resource(
    group=_DRA, plural="resourceclaimtemplates", kind="ResourceClaimTemplate"
)
DEVICE_TAINT_RULES = Resource(
    group=_DRA, plural="devicetaintrules", kind="DeviceTaintRule", namespaced=False
)
CLUSTER_ROLES = Resource(group=_RBAC, plural="clusterroles", kind="ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    group=_RBAC, plural="clusterrolebindings", kind="ClusterRoleBinding", namespaced=False
)

KNOWN = (
    PODS, NODES, NAMESPACES, EVENTS, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, LEASES,
    DEPLOYMENTS, REPLICA_SETS, JOBS, DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES, DEVICE_TAINT_RULES, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS,
)  # fmt: skip
"""Kinds that need no discovery."""
