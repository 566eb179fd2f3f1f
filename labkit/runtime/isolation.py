"""How containers are kept apart on this host, and the commands that do it.

``runc`` gives namespaces and a file system of their own; where that is refused (no overlayfs,
a masked /proc, a seccomp filter), ``process`` is a plain process in the node's own mounts.
Which one works is found out by trying.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from labkit.errors import Unsupported
from labkit.runtime import hostfs, ocispec
from labkit.runtime.hostfs import HostFs, Layers
from labkit.runtime.ocispec import User, Wanted

log = logging.getLogger(__name__)

Kind = Literal["auto", "runc", "process"]

TRIAL_S = 20.0
DELETE_S = 20.0

_SETUP = """
set -e
while [ "$1" != -- ]; do
  [ -e "$2" ] || if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "${2%/*}"; : >> "$2"; fi
  mount --rbind "$1" "$2"
  if [ "$3" = ro ]; then mount -o remount,bind,ro "$2"; fi
  shift 3
done
shift
cd "$1"; shift
exec "$@"
"""
"""Binds volumes in a mount namespace of its own, then becomes the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The way that works here.

    Attributes:
        kind: ``runc`` or ``process``.
        own_proc: whether a container may have a proc file system of its own.
        runc: runc with its global options.
        layers: where containers' own folders lie.
        host: what of the host containers see.
    """

    kind: Literal["runc", "process"]
    own_proc: bool
    runc: tuple[str, ...]
    layers: Path
    host: HostFs

    def layers_of(self, container_id: str) -> Layers:
        """A container's own folders."""
        return Layers(folder=self.layers / container_id)

    def prepare(
        self, container_id: str, folder: Path, wanted: Wanted, files: dict[str, str]
    ) -> None:
        """Make everything that the container needs, apart from starting it.

        Args:
            container_id: its id.
            folder: its folder, which becomes runc's bundle.
            wanted: what it shall be.
            files: files to put into it, by path below its root.
        """
        if self.kind == "process":
            return
        layers = self.layers_of(container_id)
        layers.make(self.host)
        for path, text in files.items():
            layers.write(path, text, self.host)
        for bind in wanted.binds:
            layers.make_mount_point(bind.target, Path(bind.source), self.host)
        spec = ocispec.build(wanted, self.host, layers, own_proc=self.own_proc)
        (folder / "config.json").write_text(json.dumps(spec), encoding="utf-8")

    def start_command(self, container_id: str, wanted: Wanted) -> tuple[list[str], list[str]]:
        """The monitor's flags, and the command it has to run in the container's folder."""
        flags = ["tty"] if wanted.tty else []
        if self.kind == "process":
            return [*flags, "direct"], _plain(wanted)
        console = ["--console-socket", "console"] if wanted.tty else []
        command = [
            *self.runc, "--log", "runc.log", "run", "--detach", "--keep", "--no-new-keyring",
            "--bundle", ".", "--pid-file", "pid", *console, container_id,
        ]  # fmt: skip
        return flags, command

    def exec_command(
        self, container_id: str, pid: int, wanted_argv: Sequence[str], user: User, *,
        tty: bool, pid_file: Path,
    ) -> list[str]:  # fmt: skip
        """The command that runs something in a running container."""
        argv = [*user.prefix(), *wanted_argv]
        if self.kind == "process":
            return ["nsenter", "--mount", "--preserve-credentials", "-t", str(pid), "--", *argv]
        terminal = ["--tty"] if tty else []
        return [*self.runc, "exec", "--pid-file", str(pid_file), *terminal, container_id, *argv]

    def remove(self, container_id: str) -> None:
        """Remove everything of a container that has ended."""
        if self.kind == "runc":
            subprocess.run(
                [*self.runc, "delete", "--force", container_id],
                check=False,
                capture_output=True,
                timeout=DELETE_S,
            )
        self.layers_of(container_id).remove()


def _plain(wanted: Wanted) -> list[str]:
    env = [f"{name}={value}" for name, value in ocispec.environment(wanted).items()]
    binds: list[str] = []
    for bind in wanted.binds:
        binds += [bind.source, bind.target, "ro" if bind.readonly else "rw"]
    return [
        "env", "-i", *env, "unshare", "--mount", "--propagation", "private",
        "sh", "-c", _SETUP, "sh", *binds, "--", wanted.cwd or "/",
        *wanted.user.prefix(), *wanted.argv,
    ]  # fmt: skip


def find(kind: Kind, *, runc: Path, state: Path) -> Isolation:
    """Find out what works on this host, by starting a container that does nothing.

    Raises:
        Unsupported: runc was asked for and does not work; the message has its words.
    """
    layers = state / "layers"
    tmpfs = hostfs.mount_layers(layers)
    host = hostfs.look(copies=state / "copies", can_overlay=tmpfs)
    base = Isolation(
        kind="runc",
        own_proc=True,
        runc=(str(runc), "--root", str(state / "runc"), "--rootless", "true"),
        layers=layers,
        host=host,
    )
    said = ""
    if kind != "process":
        for candidate in (base, replace(base, own_proc=False)):
            said = _tried(candidate, state / "trial")
            if not said:
                return candidate
        if kind == "runc":
            raise Unsupported(
                f"runc does not work here: {said}", hint="use --isolation process instead"
            )
        log.warning("runc does not work here (%s); containers are plain processes", said)
    return replace(base, kind="process")


def _tried(isolation: Isolation, folder: Path) -> str:
    """What went wrong with a trial container, or ""."""
    name = "trial"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted = Wanted(argv=("true",), env={}, hostname=name)
    isolation.prepare(name, folder, wanted, {})
    try:
        done = subprocess.run(
            [*isolation.runc, "run", "--bundle", str(folder), name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TRIAL_S,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return str(exc)
    finally:
        isolation.remove(name)
        shutil.rmtree(folder, ignore_errors=True)
    return "" if done.returncode == 0 else done.stderr.strip() or f"it ended with {done.returncode}"
