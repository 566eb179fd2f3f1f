"""``%kubectl`` and ``%%manifest``: what one would do in a terminal, in a cell.

Both fail when the thing they did failed: a lab whose commands fail in silence proves nothing.
"""

from __future__ import annotations

import shlex
from typing import Any

from labkit.course.lab import Lab
from labkit.errors import BadInput
from labkit.kube import manifests


def register(shell: Any, lab: Lab) -> None:
    """Make the magics of `lab` known to an IPython shell, in place of another lab's."""
    shell.register_magic_function(lambda line: kubectl(lab, line), "line", "kubectl")
    shell.register_magic_function(lambda line, cell: manifest(lab, line, cell), "cell", "manifest")


def kubectl(lab: Lab, line: str) -> None:
    """``%kubectl get pods``: kubectl on this lab's cluster, in its namespace.

    Raises:
        ClusterError: kubectl failed; the message has what it said.
    """
    arguments = shlex.split(line)
    if not any(
        one in ("-n", "-A", "--all-namespaces") or one.startswith("--namespace")
        for one in arguments
    ):
        arguments = ["--namespace", lab.namespace, *arguments]
    done = lab.cluster.kubectl(*arguments)
    print(done.stdout.rstrip())


def manifest(lab: Lab, line: str, cell: str) -> None:
    """``%%manifest``: apply the cell's YAML in this lab's namespace.

    Raises:
        BadInput: it is not YAML of Kubernetes objects.
        ApiError: the API server refuses it; the message names the field.
    """
    if line.strip():
        raise BadInput(f"%%manifest takes no arguments, found {line.strip()!r}")
    if not manifests.load(cell, origin="this cell"):
        print("nothing to apply yet")
        return
    for applied in lab.client.apply_yaml(cell, namespace=lab.namespace, origin="this cell"):
        print(applied)
