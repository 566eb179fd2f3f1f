"""`open_lab`: the first line of every notebook."""

from __future__ import annotations

import os
from collections import Counter

from labkit.course import events, exercises
from labkit.course.lab import Lab
from labkit.errors import LabError

CLUSTER_ENV = "LABKIT_CLUSTER"
"""Names the cluster that labs use; the default cluster when it is not set."""


def open_lab(number: str) -> Lab:
    """Begin a lab: an empty namespace on the cluster, and the magics of the course.

    The cluster is the one that ``LABKIT_CLUSTER`` names, or the default one. In a notebook,
    ``%kubectl`` and ``%%manifest`` work on it from here on.

    Args:
        number: the lab, e.g. ``"01"``.

    Raises:
        ClusterError: there is no cluster; the message says how to get one.
        BadInput: there is no such lab.
    """
    from labkit.cluster import Cluster
    from labkit.cluster.spec import DEFAULT_NAME

    cluster = Cluster.attach(os.environ.get(CLUSTER_ENV) or DEFAULT_NAME)
    lab = Lab(number, cluster)
    if not lab.client.readyz():
        raise LabError(
            f"cluster {cluster.name!r} does not answer",
            hint="bring it up again; it keeps its data",
            see=f"labkit up --name {cluster.name}",
        )
    devices = _devices(lab)
    lab.reset()
    _add_magics(lab)
    events.record(events.OPENED, lab=number, cluster=cluster.name)
    print(
        f"Lab {number} on cluster '{cluster.name}': Kubernetes {lab.client.version()}, "
        f"{_counted(len(lab.nodes()), 'node')}, {_counted(sum(devices.values()), 'device')}, "
        f"namespace {lab.namespace}"
    )
    return lab


def _devices(lab: Lab) -> Counter[str]:
    """How many devices each node has, if that is enough for the lab."""
    found: Counter[str] = Counter()
    for one in lab.slices():
        found[one["spec"].get("nodeName", "")] += len(one["spec"].get("devices") or [])
    needed, largest = exercises.devices_needed(lab.number), max(found.values(), default=0)
    if largest < needed:
        raise LabError(
            f"lab {lab.number} needs {needed} devices on one node; cluster {lab.cluster.name!r} "
            f"has {largest or 'none'}",
            hint="bring up a larger one beside it, and name it by --name or LABKIT_CLUSTER",
            see="labkit up --name large",
        )
    return found


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _add_magics(lab: Lab) -> None:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:  # a plain script, without notebooks installed
        return
    shell = get_ipython()
    if shell is not None:
        from labkit.course.magics import register

        register(shell, lab)
