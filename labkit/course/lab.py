"""A lab in the hands of a learner: the cluster, waits, checks and pictures, in one object."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from labkit.course import events, exercises, space
from labkit.errors import BadInput, LabFailed
from labkit.kube import (
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Client,
    Json,
    Resource,
    wait,
)
from labkit.waiting import NotYet, Seen, wait_until

if TYPE_CHECKING:
    from labkit.cluster import Cluster
    from labkit.course.showing import Shown
    from labkit.widgets import Picture

WAIT_S = 60.0
"""How long a lab waits for a thing to happen on the cluster, in seconds."""

TAIL = 300


class Lab:
    """One lab on one cluster, in a namespace of its own; get it by `labkit.open_lab`.

    Attributes:
        number: e.g. ``01``.
        cluster: the cluster it runs on.
        namespace: where its objects live, e.g. ``lab-01``.
        client: the API server, in plain dicts.
    """

    def __init__(self, number: str, cluster: Cluster) -> None:
        self._exercises = exercises.of_lab(number)
        self._hinted: dict[str, int] = {}
        self._api: Any = None
        self.number = number
        self.cluster = cluster
        self.namespace = space.name_of(number)
        self.client: Client = cluster.client()

    def __repr__(self) -> str:
        return f"lab {self.number} on cluster {self.cluster.name!r}, namespace {self.namespace!r}"

    def kubernetes_api(self) -> Any:
        """The official Python client's ``ApiClient``, for this cluster and no other.

        Its first use takes some seconds: that library is large.
        """
        if self._api is None:
            from kubernetes import config

            self._api = config.new_client_from_config(str(self.cluster.kubeconfig))
        return self._api

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

    def names(self, resource: Resource) -> str:
        """The names of this lab's objects of a kind, for a message."""
        items = self.client.list(resource, namespace=self.namespace).items
        return ", ".join(item["metadata"]["name"] for item in items) or f"no {resource.kind}"

    def claims_of(self, pod: str) -> list[Json]:
        """The ResourceClaims that a pod uses, generated ones included."""
        found = self.pod(pod)
        statuses = found["status"].get("resourceClaimStatuses") or []
        generated = {entry["name"]: entry.get("resourceClaimName") for entry in statuses}
        names = [
            entry.get("resourceClaimName") or generated.get(entry["name"])
            for entry in found["spec"].get("resourceClaims") or []
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

    def logs(self, pod: str, container: str = "") -> str:
        """What a container of a pod printed so far; without a name, its first."""
        path = PODS.path(namespace=self.namespace, name=pod, subresource="log")
        params = {"container": container or self.pod(pod)["spec"]["containers"][0]["name"]}
        return str(self.client.raw("GET", path, params=params))

    def show(self, value: Any, path: str = "") -> Shown:
        """An object as YAML, as kubectl would print it.

        Args:
            value: the object, or ``pod/NAME``, ``resourceclaim/NAME`` and the like.
            path: a part of it, e.g. ``status.allocation``.
        """
        from labkit.course.showing import shown

        return shown(self._named(value) if isinstance(value, str) else value, path)

    def _named(self, words: str) -> Json:
        from labkit.kube.resources import KNOWN

        kind, _, name = words.partition("/")
        for resource in KNOWN:
            if kind.lower() in (resource.kind.lower(), resource.plural):
                return self.client.get(resource, name, namespace=self.namespace)
        raise BadInput(f"what is {words!r}?", hint="write it like pod/first")

    # Waiting

    def wait_running(self, pod: str, *, timeout_s: float = WAIT_S) -> None:
        """Wait until all containers of a pod run; when they do not, say why.

        Raises:
            LabError: the pod has ended instead.
            WaitTimedOut: with the pod's state and its last events.
        """
        started = time.monotonic()
        found = wait.wait_for_pod_running(
            self.client, pod, namespace=self.namespace, timeout_s=timeout_s
        )
        took = time.monotonic() - started
        print(f"pod {pod} is running on node {found['spec']['nodeName']} (waited {took:.1f} s)")

    def wait_unschedulable(self, pod: str, *, timeout_s: float = WAIT_S) -> str:
        """Wait until the scheduler has found no node for a pod, and give its reason."""

        def look(found: Json | None) -> Seen[Json] | NotYet:
            for condition in ((found or {}).get("status") or {}).get("conditions") or []:
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return Seen(condition)
            return NotYet(wait.describe_pod(found) if found else "no such pod")

        condition = wait.wait_for_object(
            self.client, PODS, pod, look, what=f"pod {pod} to be found unschedulable",
            timeout_s=timeout_s, namespace=self.namespace,
        )  # fmt: skip
        return str(condition.get("message", ""))

    def wait_finished(self, pod: str, *, timeout_s: float = WAIT_S) -> None:
        """Wait until a pod has ended, well or not."""
        found = wait.wait_for_pod_finished(
            self.client, pod, namespace=self.namespace, timeout_s=timeout_s
        )
        print(f"pod {pod} has ended: {found['status']['phase']}")

    def wait_logs(
        self,
        pod: str,
        text: str,
        *,
        container: str = "",
        count: int = 1,
        timeout_s: float = WAIT_S,
    ) -> str:
        """Wait until a container has printed `text` (`count` times), and give all it printed."""

        def look() -> Seen[str] | NotYet:
            printed = self.logs(pod, container)
            enough = printed.count(text) >= count
            return Seen(printed) if enough else NotYet(printed[-TAIL:] or "nothing yet")

        return wait_until(look, what=f"pod {pod} to print {text!r}", timeout_s=timeout_s)

    def wait_gone(self, resource: Resource, name: str, *, timeout_s: float = WAIT_S) -> None:
        """Wait until an object of this lab is gone."""
        wait.wait_deleted(
            self.client, resource, name, namespace=self.namespace, timeout_s=timeout_s
        )

    # Proving

    def expect(self, condition: object, message: str, *, saw: object = None) -> None:
        """Hold the lesson to its word: go on if it is true on this cluster, else stop.

        Args:
            condition: whether it is true.
            message: what is said to be true.
            saw: what was looked at, told when it is not true.

        Raises:
            LabFailed: the statement does not hold here.
        """
        if not condition:
            raise LabFailed(
                f"this cluster says otherwise: {message}"
                + ("" if saw is None else f"\n  saw: {saw}"),
                hint="run the notebook from its top; if it is wrong again, this is a fault of "
                "the lab, and worth a report",
            )
        print(f"✓ {message}")

    def check(self, name: str) -> None:
        """Look whether an exercise is done, and print what was found.

        Raises:
            LabFailed: not yet, and this is a test run; a learner just reads what is missing.
        """
        verdict = exercises.examine(self._exercise(name), self)
        print(verdict)
        if verdict.done:
            events.record(events.SOLVED, exercise=name)
            print(f"Exercise '{name}' is done.")
        elif events.wanted():
            missing = verdict.findings[-1] if verdict.findings else "the check looks at nothing"
            raise LabFailed(f"exercise {name!r}: {missing}")

    def expect_unsolved(self, name: str) -> None:
        """For the runner: make sure that the check refuses what is there before the solution."""
        verdict = exercises.examine(self._exercise(name), self)
        if verdict.done:
            raise LabFailed(f"the check of exercise {name!r} passes before anything was done")
        events.record(events.UNSOLVED, exercise=name)
        print(f"Before its solution, the check says:\n{verdict}")

    def hint(self, name: str, step: int = 0) -> None:
        """Print a hint for an exercise; each call says more than the one before.

        Args:
            name: the exercise.
            step: which hint, from 1; 0 for the next.
        """
        hints = self._exercise(name).hints
        step = step or self._hinted.get(name, 0) + 1
        step = min(max(step, 1), len(hints))
        self._hinted[name] = step
        print(f"Hint {step} of {len(hints)}: {hints[step - 1]}")

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
        space.prepare(self.client, self.number)

    def close(self) -> None:
        """Take the lab's namespace away, without waiting for it."""
        self.client.delete(NAMESPACES, self.namespace)
