"""Waiting for objects: each wait names its object and ends with the last state seen."""

from __future__ import annotations

from collections.abc import Callable

from labkit.errors import ApiError, LabError, WaitTimedOut
from labkit.kube.client import Client
from labkit.kube.manifests import named
from labkit.kube.resources import EVENTS, PODS, Json, Resource
from labkit.waiting import NotYet, Seen, wait_until

LOOK_S = 0.1
"""Longest pause between two looks at an object, in seconds."""

EVENTS_SHOWN = 3
"""How many of an object's last events a timed-out wait tells."""

Condition = Callable[[Json | None], Seen[Json] | NotYet]
"""Looks at an object (None: not there) and says whether it is as wanted."""


def wait_for_object(
    client: Client,
    resource: Resource,
    name: str,
    condition: Condition,
    *,
    what: str,
    timeout_s: float,
    namespace: str | None = None,
) -> Json:
    """Wait until an object meets a condition, and return it.

    An API server that does not answer meanwhile (it restarts) only costs time.

    Raises:
        WaitTimedOut: with the object's state and its last events.
    """

    def look() -> Seen[Json] | NotYet:
        try:
            return condition(client.find(resource, name, namespace=namespace))
        except ApiError as error:
            if error.status:
                raise
            return NotYet(error.message)

    place = namespace or client.namespace
    kubectl = f"labkit kubectl -n {place} describe {resource.plural} {name}"
    try:
        return wait_until(look, what=what, timeout_s=timeout_s, interval_s=LOOK_S, see=kubectl)
    except WaitTimedOut as error:
        events = last_events(client, resource.kind, name, namespace=place)
        raise WaitTimedOut(
            error.what,
            waited_s=error.waited_s,
            last_state="\n    ".join([error.args[0].split("last seen: ", 1)[1], *events]),
            see=error.see,
        ) from None


def wait_for_pod_running(
    client: Client, name: str, *, namespace: str, timeout_s: float = 60.0
) -> Json:
    """Wait until all containers of a pod run.

    Raises:
        LabError: the pod has ended instead.
        WaitTimedOut: with the pod's state, its containers' and the last events.
    """

    def condition(pod: Json | None) -> Seen[Json] | NotYet:
        if pod is None:
            return NotYet("no such pod")
        phase = pod["status"].get("phase")
        if phase in ("Succeeded", "Failed"):
            raise LabError(
                f"{named(pod)} is not running but has ended: {describe_pod(pod)}",
                see=f"labkit kubectl -n {namespace} logs {name}",
            )
        statuses = pod["status"].get("containerStatuses") or []
        running = statuses and all("running" in status["state"] for status in statuses)
        return Seen(pod) if phase == "Running" and running else NotYet(describe_pod(pod))

    what = f"Pod/{namespace}/{name} to run"
    return wait_for_object(
        client, PODS, name, condition, what=what, timeout_s=timeout_s, namespace=namespace
    )


def wait_for_pod_finished(
    client: Client, name: str, *, namespace: str, timeout_s: float = 60.0
) -> Json:
    """Wait until a pod has ended, well or not; ``status.phase`` says which.

    Raises:
        WaitTimedOut: with the pod's state and the last events.
    """

    def condition(pod: Json | None) -> Seen[Json] | NotYet:
        if pod is None:
            return NotYet("no such pod")
        ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        return Seen(pod) if ended else NotYet(describe_pod(pod))

    what = f"Pod/{namespace}/{name} to end"
    return wait_for_object(
        client, PODS, name, condition, what=what, timeout_s=timeout_s, namespace=namespace
    )


def wait_deleted(
    client: Client,
    resource: Resource,
    name: str,
    *,
    namespace: str | None = None,
    timeout_s: float = 60.0,
) -> None:
    """Wait until an object is gone.

    Raises:
        WaitTimedOut: with what still holds it.
    """

    def condition(obj: Json | None) -> Seen[Json] | NotYet:
        if obj is None:
            return Seen({})
        finalizers = ", ".join(obj["metadata"].get("finalizers") or []) or "none"
        marked = "marked for deletion" if "deletionTimestamp" in obj["metadata"] else "not deleted"
        return NotYet(f"still there, {marked}, finalizers: {finalizers}")

    what = f"{resource.kind}/{name} to be gone"
    wait_for_object(
        client, resource, name, condition, what=what, timeout_s=timeout_s, namespace=namespace
    )


def describe_pod(pod: Json) -> str:
    """A pod's state in one line: phase, why it is not scheduled, what its containers wait for."""
    status = pod.get("status") or {}
    parts = [status.get("phase", "no status")]
    parts += [
        f"{condition['type']}: {condition.get('message') or condition.get('reason')}"
        for condition in status.get("conditions") or []
        if condition["type"] == "PodScheduled" and condition["status"] != "True"
    ]
    statuses = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    parts += [f"container {entry['name']} {_container(entry['state'])}" for entry in statuses]
    return "; ".join(parts)


def _container(state: Json) -> str:
    for kind, detail in state.items():
        told = (detail.get("reason"), detail.get("message"))
        words = ": ".join(part for part in told if part)
        code = f" with exit code {detail['exitCode']}" if "exitCode" in detail else ""
        return f"{kind}{code}" + (f" ({words})" if words else "")
    return "unknown"


def last_events(client: Client, kind: str, name: str, *, namespace: str) -> list[str]:
    """The newest events about an object, oldest first, as ``reason: message``."""
    try:
        events = client.list(
            EVENTS,
            namespace=namespace,
            fields=f"involvedObject.kind={kind},involvedObject.name={name}",
        ).items
    except ApiError:
        return []  # the caller has a better story to tell already
    events.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    return [f"event {event['reason']}: {event['message']}" for event in events[-EVENTS_SHOWN:]]
