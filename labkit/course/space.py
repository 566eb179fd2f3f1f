"""The place of a lab on a cluster: a namespace of its own, empty when the lab begins."""

from __future__ import annotations

from labkit.kube import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Client,
    Json,
    Resource,
    wait,
)
from labkit.waiting import NotYet, Seen, wait_until

LAB_LABEL = "labkit.dev/lab"
"""On a lab's namespace: the lab's number."""

EMPTY_S = 60.0
"""How long a namespace may take to become empty, in seconds."""

GRACE_S = 1
"""How long pods are given to end, in seconds."""

# Owners before what they own, so that nothing is made anew behind our back.
_CLEANED = (
    DEPLOYMENTS,
    REPLICA_SETS,
    JOBS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    CONFIG_MAPS,
    SECRETS,
)
_BELONGS_TO_KUBERNETES = "kube-root-ca.crt"


def name_of(number: str) -> str:
    """The namespace of a lab."""
    return f"lab-{number}"


def prepare(client: Client, number: str) -> None:
    """Give a lab its namespace, empty and ready for pods, whatever was there before.

    Raises:
        WaitTimedOut: something of an earlier run does not go away; the message names it.
    """
    namespace = name_of(number)
    found = client.find(NAMESPACES, namespace)
    if found and "deletionTimestamp" in found["metadata"]:
        # What is made in a namespace on its way out vanishes with it.
        wait.wait_deleted(client, NAMESPACES, namespace, timeout_s=EMPTY_S)
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {LAB_LABEL: number}},
        }
    )
    for resource in _CLEANED:
        for item in _leftovers(client, namespace, resource):
            client.delete(
                resource,
                item["metadata"]["name"],
                namespace=namespace,
                grace_s=GRACE_S if resource is PODS else None,
            )
    wait_until(
        lambda: _emptiness(client, namespace),
        what=f"namespace {namespace} to be empty",
        timeout_s=EMPTY_S,
        see=f"labkit kubectl get all,resourceclaims -n {namespace}",
    )


def _leftovers(client: Client, namespace: str, resource: Resource) -> list[Json]:
    items = client.list(resource, namespace=namespace).items
    return [item for item in items if item["metadata"]["name"] != _BELONGS_TO_KUBERNETES]


def _emptiness(client: Client, namespace: str) -> Seen[None] | NotYet:
    left = [
        f"{resource.kind}/{item['metadata']['name']}"
        for resource in _CLEANED
        for item in _leftovers(client, namespace, resource)
    ]
    if left:
        return NotYet(", ".join(left))
    # A pod is refused until its namespace has a service account.
    account = client.find(SERVICE_ACCOUNTS, "default", namespace=namespace)
    return Seen(None) if account else NotYet("no default service account yet")
