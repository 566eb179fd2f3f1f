"""What a cloud would do for a new node: give it its address and lift the taint.

Run as ``python -m labkit.cluster.welcome FOLDER NODE`` by the supervisor when a kubelet has
been started again: somebody may have deleted its node meanwhile, and it registers anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

from labkit.cluster.layout import Layout
from labkit.errors import ApiError
from labkit.kube import NODES, Client, Json
from labkit.waiting import NotYet, Seen, wait_until

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
"""The taint of a node whose cloud has not looked at it yet."""

ADDRESSES = [{"type": "InternalIP", "address": "127.0.0.1"}]

REGISTER_S = 60.0
"""How long a kubelet may take to register its node, in seconds."""


def welcome(client: Client, node: Json) -> None:
    """Make a registered node reachable and schedulable; nothing happens when it is."""
    name = node["metadata"]["name"]
    if not is_reachable(node):
        hostname = {"type": "Hostname", "address": name}
        status = {"status": {"addresses": [*ADDRESSES, hostname]}}
        client.patch(NODES, name, status, subresource="status", kind="strategic")
    taints = node["spec"].get("taints") or []
    kept = [taint for taint in taints if taint["key"] != UNINITIALIZED]
    if kept != taints:
        # Others change taints too; the patch fits only the list that we have seen.
        where = {"path": "/spec/taints"}
        patch = [
            {"op": "test", **where, "value": taints},
            {"op": "replace", **where, "value": kept},
        ]
        client.patch(NODES, name, patch, kind="json")


def is_reachable(node: Json) -> bool:
    """Whether the API server knows where to find the node's kubelet."""
    known = node.get("status", {}).get("addresses") or []
    return any(address.get("type") == "InternalIP" for address in known)


def is_welcome(node: Json) -> bool:
    """Whether the node has its address and no longer the taint."""
    taints = node["spec"].get("taints") or []
    return is_reachable(node) and all(taint["key"] != UNINITIALIZED for taint in taints)


def main() -> None:
    """Wait for the node to be registered, and welcome it."""
    layout, name = Layout(Path(sys.argv[1])), sys.argv[2]

    def look() -> Seen[None] | NotYet:
        try:
            node = client.find(NODES, name)
            if node is None:
                return NotYet("not registered")
            welcome(client, node)
        except ApiError as error:
            return NotYet(error.message)
        # A kubelet that has just started may still be about to write its old view.
        return Seen(None) if is_welcome(client.get(NODES, name)) else NotYet("not welcome")

    with Client.from_kubeconfig(layout.kubeconfig) as client:
        wait_until(look, what=f"node {name} to be registered", timeout_s=REGISTER_S)


if __name__ == "__main__":
    main()
