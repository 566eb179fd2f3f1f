"""``%kubectl`` and ``%%manifest``: what one would do in a terminal, in a cell.

Both fail when the thing they did failed: a lab whose commands fail in silence proves nothing.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab
from labkit.course.refused import refused
from labkit.errors import ApiError, BadInput
from labkit.kube import manifests

_ANY_NAMESPACE = ("-A", "--all-namespaces")


def register(shell: Any, lab: Lab) -> None:
    """Make the magics of `lab` known to an IPython shell, in place of another lab's."""
    shell.register_magic_function(lambda line: kubectl(lab, line), "line", "kubectl")
    shell.register_magic_function(lambda line, cell: manifest(lab, line, cell), "cell", "manifest")


def kubectl(lab: Lab, line: str) -> None:
    """``%kubectl get pods``: kubectl on this lab's cluster, in its namespace.

    Raises:
        BadInput: a quote is not closed.
        ClusterError: kubectl failed; the message has what it said.
    """
    try:
        arguments = shlex.split(line)
    except ValueError as exc:
        raise BadInput(f"%kubectl {line}: {exc}") from exc
    if not _names_namespace(arguments):
        arguments = ["--namespace", lab.namespace, *arguments]
    done = lab.cluster.kubectl(*arguments)
    for said in (done.stdout.rstrip(), done.stderr.rstrip()):
        if said:
            print(said)


def manifest(lab: Lab, line: str, cell: str) -> None:
    """``%%manifest [NAME.yaml]``: apply the cell's YAML in this lab's namespace.

    Args:
        lab: the lab.
        line: a file name under which to keep the YAML, for kubectl; or nothing.
        cell: the YAML.

    Raises:
        BadInput: it is not YAML of Kubernetes objects.
        ApiError: the API server refuses it; the message names field and line.
    """
    # Editors count the line of the magic as well.
    text = "\n" + cell
    objects = manifests.load(text, origin="this cell")
    if line.strip():
        _keep(line.strip(), cell)
    if not objects:
        print("nothing to apply yet")
    for index, obj in enumerate(objects):
        try:
            applied = lab.client.apply(obj, namespace=lab.namespace)
        except ApiError as error:
            raise refused(error, text, document=index, kind=obj["kind"]) from error
        name = applied.object["metadata"]["name"]
        print(f"{obj['kind']} {name} {applied.verdict}")


def _names_namespace(arguments: list[str]) -> bool:
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(one in _ANY_NAMESPACE or one.startswith(("-n", "--namespace")) for one in own)


def _keep(name: str, text: str) -> None:
    if Path(name).name != name or not name.endswith((".yaml", ".yml")):
        raise BadInput(f"%%manifest takes the name of a YAML file in this folder, found {name!r}")
    Path(name).write_text(text, encoding="utf-8")
