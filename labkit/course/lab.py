"""A lab in the hands of a learner: the cluster, waits, checks and pictures, in one object."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from labkit.course import events, exercises
from labkit.errors import BadInput, LabError, LabFailed
from labkit.kube import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Client,
    Json,
    Resource,
)
from labkit.waiting import NotYet, Seen, wait_until

if TYPE_CHECKING:
    from labkit.cluster import Cluster
    from labkit.widgets import Picture

WAIT_S = 60.0
"""How long a lab waits for a thing to happen on the cluster, in seconds."""

_CLEANED = (
    DEPLOYMENTS,
    JOBS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    CONFIG_MAPS,
    SECRETS,
)
_BELONGS_TO_KUBERNETES = "kube-root-ca.crt"


class Lab:
    """One lab on one cluster, in a namespace of its own; get it by `labkit.open_lab`.

    Attributes:
        number: e.g. ``01``.
        cluster: the cluster it runs on.
        namespace: where its objects live, e.g. ``lab-01``.
        client: the API server, in plain dicts.
    """

    def __init__(self, number: str, cluster: Cluster) -> None:
        self.number = number
        self.cluster = cluster
        self.namespace = f"lab-{number}"
        self.client: Client = cluster.client()
        self._exercises = exercises.of_lab(number)

    def __repr__(self) -> str:
        return f"lab {self.number} on cluster {self.cluster.name!r}, namespace {self.namespace!r}"

    @cached_property
    def kubernetes_api(self) -> Any:
        """The official Python client, connected to this cluster and no other."""
        from kubernetes import config

        return config.new_client_from_config(str(self.cluster.kubeconfig))

    # Looking

    def slices(self) -> list[Json]:
        """All ResourceSlices."""
        return self.client.list(RESOURCE_SLICES).items

    def nodes(self) -> list[Json]:
        """All Nodes."""
        return self.client.list(NODES).items

    def pod(self, name: str) -> Json:
        """A pod of this lab."""
        return self.client.get(PODS, name, namespace=self.namespace)

    def claims(self) -> list[Json]:
        """The ResourceClaims of this lab."""
        return self.client.list(RESOURCE_CLAIMS, namespace=self.namespace).items

    def claims_of(self, pod: str) -> list[Json]:
        """The ResourceClaims that a pod uses, generated ones included."""
        statuses = self.pod(pod)["status"].get("resourceClaimStatuses") or []
        generated = {entry["name"]: entry.get("resourceClaimName") for entry in statuses}
        names = [
            entry.get("resourceClaimName") or generated.get(entry["name"])
            for entry in self.pod(pod)["spec"].get("resourceClaims") or []
        ]
        return [
            self.client.get(RESOURCE_CLAIMS, name, namespace=self.namespace)
            for name in names
            if name
        ]

    def devices_of(self, pod: str) -> list[Json]:
        """What a pod's claims were allocated: dicts with driver, pool, device and request."""
        found: list[Json] = []
        for claim in self.claims_of(pod):
            allocation = (claim.get("status") or {}).get("allocation") or {}
            found += (allocation.get("devices") or {}).get("results") or []
        return found

    def device(self, pool: str, name: str) -> Json:
        """A device as its slice publishes it.

        Raises:
            LabFailed: no slice has it.
        """
        for slice_ in self.slices():
            if slice_["spec"]["pool"]["name"] == pool:
                for device in slice_["spec"].get("devices") or []:
                    if device["name"] == name:
                        return dict(device)
        raise LabFailed(f"no ResourceSlice publishes device {name!r} in pool {pool!r}")

    def logs(self, pod: str) -> str:
        """What a pod's container printed so far."""
        path = PODS.path(namespace=self.namespace, name=pod, subresource="log")
        return str(self.client.raw("GET", path))

    # Waiting

    def wait_running(self, pod: str, *, timeout_s: float = WAIT_S) -> Json:
        """Wait until all containers of a pod run; when they do not, say why."""
        from labkit.kube import wait

        return wait.wait_for_pod_running(
            self.client, pod, namespace=self.namespace, timeout_s=timeout_s
        )

    def wait_finished(self, pod: str, *, timeout_s: float = WAIT_S) -> Json:
        """Wait until a pod has ended, well or not."""
        from labkit.kube import wait

        return wait.wait_for_pod_finished(
            self.client, pod, namespace=self.namespace, timeout_s=timeout_s
        )

    def wait_logs(self, pod: str, text: str, *, timeout_s: float = WAIT_S) -> str:
        """Wait until a pod has printed `text`, and return all that it printed."""

        def look() -> Seen[str] | NotYet:
            printed = self.logs(pod)
            return Seen(printed) if text in printed else NotYet(printed[-200:] or "nothing yet")

        return wait_until(look, what=f"pod {pod} to print {text!r}", timeout_s=timeout_s)

    def wait_gone(self, resource: Resource, name: str, *, timeout_s: float = WAIT_S) -> None:
        """Wait until an object of this lab is gone."""
        from labkit.kube import wait

        wait.wait_deleted(
            self.client, resource, name, namespace=self.namespace, timeout_s=timeout_s
        )

    # Proving

    def expect(self, condition: object, message: str) -> None:
        """Hold the lesson to its word: go on if it is true on this cluster, else stop.

        Raises:
            LabFailed: the statement does not hold here.
        """
        if not condition:
            raise LabFailed(
                f"this cluster says otherwise: {message}",
                hint="run the notebook from its top; if it is wrong again, this is a fault of "
                "the lab, and worth a report",
            )
        print(f"✓ {message}")

    def check(self, name: str) -> None:
        """Look whether an exercise is done.

        Raises:
            LabFailed: not yet; the message says what is missing.
        """
        found = self._exercise(name).check(self)
        events.record(events.SOLVED, exercise=name)
        print(f"✓ exercise '{name}' is done. {found}")

    def expect_unsolved(self, name: str) -> None:
        """For the runner: make sure that the check refuses what is there before the solution."""
        try:
            self._exercise(name).check(self)
        except LabError as error:
            events.record(events.UNSOLVED, exercise=name)
            print(f"before its solution the check says: {error.message}")
            return
        raise LabFailed(f"the check of exercise {name!r} passes before anything was done")

    def hint(self, name: str, step: int = 1) -> None:
        """Print a hint for an exercise; a higher `step` says more."""
        hints = self._exercise(name).hints
        print(hints[min(max(step, 1), len(hints)) - 1])
        if step < len(hints):
            print(f"(more: lab.hint({name!r}, {step + 1}))")

    def _exercise(self, name: str) -> exercises.Exercise:
        try:
            return self._exercises[name]
        except KeyError:
            known = ", ".join(self._exercises)
            raise BadInput(f"this lab has no exercise {name!r}; it has: {known}") from None

    # Drawing

    def gpu_map(self) -> Picture:
        """All nodes with their GPUs, and which pod has which."""
        from labkit.widgets import gpu_map

        claims = self.client.list(RESOURCE_CLAIMS).items
        return gpu_map(nodes=self.nodes(), slices=self.slices(), claims=claims)

    def way_of(self, pod: str) -> Picture:
        """From a pod's request to its device, object by object."""
        from labkit.widgets import object_way

        return object_way(pod=self.pod(pod), claims=self.claims_of(pod), slices=self.slices())

    # Tidying

    def reset(self) -> None:
        """Remove everything of this lab, and begin with an empty namespace."""
        self.client.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": self.namespace, "labels": {"labkit.dev/lab": self.number}},
            }
        )
        for resource in _CLEANED:
            for item in self._leftovers(resource):
                self.client.delete(
                    resource,
                    item["metadata"]["name"],
                    namespace=self.namespace,
                    grace_s=0 if resource is PODS else None,
                )
        wait_until(self._is_empty, what=f"namespace {self.namespace} to be empty", timeout_s=WAIT_S)

    def _leftovers(self, resource: Resource) -> list[Json]:
        items = self.client.list(resource, namespace=self.namespace).items
        return [item for item in items if item["metadata"]["name"] != _BELONGS_TO_KUBERNETES]

    def _is_empty(self) -> Seen[None] | NotYet:
        left = [
            f"{resource.kind}/{item['metadata']['name']}"
            for resource in _CLEANED
            for item in self._leftovers(resource)
        ]
        if left:
            return NotYet(", ".join(left))
        # A pod is refused until its namespace has a service account.
        found = self.client.find(SERVICE_ACCOUNTS, "default", namespace=self.namespace)
        return Seen(None) if found else NotYet("no default service account yet")

    def close(self) -> None:
        """Take the lab's namespace away, without waiting for it."""
        self.client.delete(NAMESPACES, self.namespace)
