"""From the kubelet's ContainerConfig to a container in our own terms."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labkit.errors import LabError
from labkit.runtime import cdi
from labkit.runtime.cdi import Edits
from labkit.runtime.ocispec import ALL_CAPABILITIES, CAPABILITIES, Bind, User, Wanted

POD, CONTAINER, NODE, TARGET = range(4)
"""CRI's modes of a namespace."""

_ROOT_NAMES = ("", "root", "0")


def wanted(config: Any, sandbox: Any, edits: Edits, *, pid_namespace: str, shm: str) -> Wanted:
    """What a container shall be.

    Args:
        config: the ContainerConfig.
        sandbox: its pod's PodSandboxConfig.
        edits: what its CDI devices bring.
        pid_namespace: ``new``, ``host``, or the path of one to join.
        shm: the pod's shared memory folder.

    Raises:
        LabError: it asks for what cannot be given here; the message is for the pod's events.
    """
    security = config.linux.security_context
    env = {item.key: item.value.decode("utf-8", "surrogateescape") for item in config.envs}
    return Wanted(
        argv=_argv(config),
        env={**env, **edits.env},
        cwd=config.working_dir or "/",
        user=_user(security),
        hostname=hostname(sandbox),
        tty=config.tty,
        binds=(*map(_bind, config.mounts), *_devices(config), *edits.binds),
        shm=shm,
        pid_namespace=pid_namespace,
        capabilities=ALL_CAPABILITIES if security.privileged else CAPABILITIES,
        no_new_privileges=security.no_new_privs,
        readonly_root=security.readonly_rootfs,
        hooks=edits.hooks,
        annotations={"dev.labkit.image": config.image.image},
    )


def devices(config: Any, folders: list[Path]) -> Edits:
    """What the CDI devices of a container bring; see `labkit.runtime.cdi.resolve`."""
    asked = [device.name for device in config.CDI_devices]
    return cdi.resolve(cdi.names(asked, config.annotations), folders)


def files(sandbox: Any) -> dict[str, str]:
    """The files that a runtime puts into every container."""
    made = {"etc/hostname": f"{hostname(sandbox)}\n"}
    dns = sandbox.dns_config
    lines = [f"nameserver {server}" for server in dns.servers]
    if dns.searches:
        lines.append(f"search {' '.join(dns.searches)}")
    if dns.options:
        lines.append(f"options {' '.join(dns.options)}")
    if lines:
        made["etc/resolv.conf"] = "\n".join([*lines, ""])
    return made


def hostname(sandbox: Any) -> str:
    """A pod's host name; the host's own for a pod on the host's network."""
    return sandbox.hostname or socket.gethostname()


def as_json(thing: Wanted) -> str:
    """What a new runtime must know of a running container: whom its exec runs as."""
    return json.dumps({"uid": thing.user.uid, "gid": thing.user.gid})


def user_from_json(text: str) -> User:
    """The inverse of `as_json`."""
    values: Mapping[str, int] = json.loads(text)
    return User(uid=values["uid"], gid=values["gid"])


def _argv(config: Any) -> tuple[str, ...]:
    if not config.command:
        image = config.image.user_specified_image or config.image.image
        raise LabError(
            f"container {config.metadata.name!r} has no command, and image {image!r} "
            "is not pulled in this lab, so its entrypoint is unknown",
            hint="set `command` in the container to one of the host's programs",
        )
    return (*config.command, *config.args)


def _user(security: Any) -> User:
    if security.run_as_username not in _ROOT_NAMES:
        raise LabError(
            f"user {security.run_as_username!r} cannot be looked up: there is no image to ask",
            hint="set runAsUser to a number",
        )
    return User(uid=security.run_as_user.value, gid=security.run_as_group.value)


def _bind(mount: Any) -> Bind:
    if mount.image.image:
        raise LabError(
            f"volume at {mount.container_path} is an image, and nothing is pulled in this lab"
        )
    source = Path(mount.host_path)
    if not source.exists():
        # As runtimes do for a hostPath without a type.
        try:
            source.mkdir(parents=True)
        except OSError as exc:
            raise LabError(f"host path {source} is not there and cannot be made: {exc}") from exc
    return Bind(
        source=mount.host_path,
        target=mount.container_path,
        readonly=mount.readonly,
        follows=mount.propagation != 0,
    )


def _devices(config: Any) -> list[Bind]:
    found = []
    for device in config.devices:
        if not Path(device.host_path).exists():
            raise LabError(f"this host has no device {device.host_path}")
        found.append(Bind(source=device.host_path, target=device.container_path))
    return found
