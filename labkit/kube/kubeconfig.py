"""Reading a kubeconfig file: one server, and who we are to it.

Only the file that a caller names is read. ``KUBECONFIG`` and ``~/.kube/config`` are
never looked at, so a lab cannot end up on a cluster that nobody meant.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from labkit.errors import BadInput

EXEC_TIMEOUT_S = 60.0
"""Time for a credential plugin named by a kubeconfig to answer, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A server and our credentials for it.

    Attributes:
        server: base URL, without a trailing slash.
        namespace: the context's namespace, ``default`` when it names none.
        verify: how to check the server's certificate, and our client certificate in it;
            False where the file says to skip the check.
        headers: HTTP headers that authenticate us; never shown.
    """

    server: str
    namespace: str
    verify: ssl.SSLContext | bool
    headers: dict[str, str] = field(repr=False)


def read(path: Path, *, context: str = "") -> Access:
    """Read one context of a kubeconfig file; the current one unless `context` names another.

    Raises:
        BadInput: the file is missing, malformed, or asks for something that is not supported.
    """
    config = _load(path)
    chosen = context or config.get("current-context") or ""
    entry = _named(config, "contexts", "context", chosen, path)
    cluster = _named(config, "clusters", "cluster", entry.get("cluster", ""), path)
    user = _named(config, "users", "user", entry.get("user", ""), path) if "user" in entry else {}
    if not str(cluster.get("server", "")).startswith(("http://", "https://")):
        raise BadInput(f"{path}: cluster {entry.get('cluster')!r} has no usable 'server'")
    user = {**user, **_from_plugin(user, path)}
    return Access(
        server=cluster["server"].rstrip("/"),
        namespace=entry.get("namespace") or "default",
        verify=_tls(cluster, user, path.parent),
        headers=_headers(user, path.parent),
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise BadInput(
            f"kubeconfig {path} cannot be read: {exc.strerror}",
            hint="bring the cluster up, or name the right file",
        ) from exc
    except yaml.YAMLError as exc:
        raise BadInput(f"kubeconfig {path} is not YAML: {exc}") from exc
    if not isinstance(config, dict) or config.get("kind", "Config") != "Config":
        raise BadInput(f"{path} is not a kubeconfig")
    return config


def _named(config: dict[str, Any], section: str, key: str, name: str, path: Path) -> dict[str, Any]:
    entries = {entry.get("name"): entry.get(key) for entry in config.get(section) or []}
    if not isinstance(entries.get(name), dict):
        known = ", ".join(sorted(str(known) for known in entries)) or "none"
        raise BadInput(f"{path} has no {key} {name!r}; it has: {known}")
    return dict(entries[name])


def _from_plugin(user: dict[str, Any], path: Path) -> dict[str, Any]:
    """What a credential plugin (``users[].user.exec``) answers, in the words of a kubeconfig."""
    plugin = user.get("exec")
    if not plugin:
        return {}
    request = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": {}}
    extra = {item["name"]: item["value"] for item in plugin.get("env") or []}
    command = [plugin.get("command", ""), *(plugin.get("args") or [])]
    try:
        answer = subprocess.run(
            command,
            env={**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            cwd=path.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=EXEC_TIMEOUT_S,
        )
        status = json.loads(answer.stdout)["status"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as exc:
        raise BadInput(
            f"{path}: the credential plugin {command[0]!r} gave no credentials: {exc}",
            hint=f"run it by hand: {' '.join(command)}",
        ) from exc
    names = {
        "token": "token",
        "client-certificate-data": "clientCertificateData",
        "client-key-data": "clientKeyData",
    }
    found = {ours: status[theirs] for ours, theirs in names.items() if status.get(theirs)}
    # A plugin hands out PEM text; kubeconfig fields ending in -data are base64.
    return {
        key: value if key == "token" else base64.b64encode(value.encode()).decode()
        for key, value in found.items()
    }


def _headers(user: dict[str, Any], folder: Path) -> dict[str, str]:
    token = user.get("token") or ""
    if not token and user.get("tokenFile"):
        token = (folder / user["tokenFile"]).read_text(encoding="utf-8").strip()
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}"
        return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
    return {}


def _tls(cluster: dict[str, Any], user: dict[str, Any], folder: Path) -> ssl.SSLContext | bool:
    if cluster["server"].startswith("http://"):
        return False
    authority = _pem(cluster, "certificate-authority", folder)
    # Only the cluster's own authority is trusted when it names one; loading the system's
    # as well would be wrong and costs 20 ms.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        context.load_verify_locations(cadata=authority.decode("ascii"))
    else:
        context.load_default_certs()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = _pem(user, "client-certificate", folder)
    key = _pem(user, "client-key", folder)
    if certificate and key:
        _load_pair(context, certificate + b"\n" + key)
    return context


def _pem(section: dict[str, Any], name: str, folder: Path) -> bytes:
    data = section.get(f"{name}-data")
    if data:
        return base64.b64decode(data)
    if section.get(name):
        try:
            return (folder / str(section[name])).read_bytes()
        except OSError as exc:
            raise BadInput(f"kubeconfig's {name} cannot be read: {exc}") from exc
    return b""


def _load_pair(context: ssl.SSLContext, pem: bytes) -> None:
    # OpenSSL takes a client's key from a file only; this one exists for microseconds, 0600.
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
