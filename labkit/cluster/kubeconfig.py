"""Kubeconfig files for the parties of a cluster, self-contained and 0600."""

from __future__ import annotations

import base64
from pathlib import Path

from labkit.cluster.layout import Layout
from labkit.files import write_atomically

_TEMPLATE = """\
apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {context}
  context:
    cluster: {cluster}
    user: {user}
current-context: {context}
"""


def write(path: Path, layout: Layout, *, party: str, user: str, port: int) -> None:
    """Write the kubeconfig of one party.

    Args:
        path: where to.
        layout: the cluster.
        party: whose certificate, by the name of its files.
        user: what the file calls the user.
        port: the API server's.
    """
    text = _TEMPLATE.format(
        cluster=f"labkit-{layout.name}",
        context=f"labkit-{layout.name}",
        server=f"https://127.0.0.1:{port}",
        user=user,
        authority=_encoded(layout.pki / "ca.crt"),
        certificate=_encoded(layout.pki / f"{party}.crt"),
        key=_encoded(layout.pki / f"{party}.key"),
    )
    write_atomically(path, text, mode=0o600)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
