"""Sandboxes and containers as they stand on disk, so that a new runtime finds them again.

::

    sandboxes/<id>/request.pb         what the kubelet asked for
    sandboxes/<id>/stopped            there once it was stopped
    containers/<id>/request.pb
    containers/<id>/started, exit, …  the monitor's, see `labkit.runtime.monitor`
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

from labkit.runtime import monitor

UNKNOWN_CODE = 255
"""Exit code of a container whose monitor was killed before it could note one."""

_REQUEST = "request.pb"


@dataclass(slots=True, kw_only=True)
class Sandbox:
    """A pod on this node.

    Attributes:
        id: its id.
        folder: its folder.
        config: the kubelet's PodSandboxConfig.
        created_at: nanoseconds since 1970.
    """

    id: str
    folder: Path
    config: Any
    created_at: int

    @property
    def ready(self) -> bool:
        """Whether it was not stopped."""
        return not (self.folder / "stopped").exists()

    def stop(self) -> None:
        """Mark it stopped."""
        (self.folder / "stopped").touch()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A container that was started.

    Attributes:
        pid: its first process.
        at: when, in nanoseconds since 1970.
        alive: whether it and its monitor still run.
    """

    pid: int
    at: int
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a container ended.

    Attributes:
        code: exit code, 128 + n for signal n.
        at: when, in nanoseconds since 1970.
    """

    code: int
    at: int


@dataclass(slots=True, kw_only=True)
class Container:
    """A container of a sandbox.

    Attributes:
        id: its id.
        folder: its folder, where its monitor works.
        sandbox_id: its pod.
        config: the kubelet's ContainerConfig.
        created_at: nanoseconds since 1970.
        lock: held while it is started, stopped or removed.
    """

    id: str
    folder: Path
    sandbox_id: str
    config: Any
    created_at: int
    lock: Any = field(default_factory=RLock)
    _exit: Exit | None = None

    def run(self) -> Run | None:
        """Its start, or None when it was not started."""
        entry = _load(self.folder / "started")
        if entry is None:
            return None
        watched = monitor.ticks(entry["monitor"]) == entry["monitor_ticks"]
        runs = monitor.ticks(entry["pid"]) == entry["ticks"]
        return Run(pid=entry["pid"], at=entry["at"], alive=watched and runs)

    def exit(self) -> Exit | None:
        """Its end, or None while it has not ended."""
        if self._exit is None:
            entry = _load(self.folder / "exit")
            if entry is not None:
                self._exit = Exit(code=entry["code"], at=entry["at"])
            elif (started := _load(self.folder / "started")) and not _watched(started):
                # Nobody will write its end any more. Its processes must not outlive it
                # unseen, or a restarted container would have a twin.
                _kill(started)
                self._exit = Exit(code=UNKNOWN_CODE, at=time.time_ns())
        return self._exit


class Records:
    """All sandboxes and containers of a node.

    Args:
        folder: the runtime's state.
        messages: the CRI messages.
    """

    def __init__(self, folder: Path, messages: Any) -> None:
        self._folder = folder
        self._messages = messages
        self._lock = RLock()
        self._sandboxes: dict[str, Sandbox] = {}
        self._containers: dict[str, Container] = {}
        for name in ("sandboxes", "containers"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._read()

    def add_sandbox(self, config: Any) -> Sandbox:
        """Note a new sandbox."""
        folder = self._new("sandboxes", config)
        sandbox = self._sandbox(folder, config)
        with self._lock:
            self._sandboxes[sandbox.id] = sandbox
        return sandbox

    def add_container(self, request: Any) -> Container:
        """Note a new container; `request` is the kubelet's CreateContainerRequest."""
        folder = self._new("containers", request)
        container = self._container(folder, request)
        with self._lock:
            self._containers[container.id] = container
        return container

    def sandbox(self, id_: str) -> Sandbox | None:
        """A sandbox by its id, or None."""
        with self._lock:
            return self._sandboxes.get(id_)

    def container(self, id_: str) -> Container | None:
        """A container by its id, or None."""
        with self._lock:
            return self._containers.get(id_)

    def sandboxes(self) -> list[Sandbox]:
        """All sandboxes, the oldest first."""
        with self._lock:
            return list(self._sandboxes.values())

    def containers(self, sandbox_id: str = "") -> list[Container]:
        """All containers, or those of one sandbox, the oldest first."""
        with self._lock:
            every = list(self._containers.values())
        return [one for one in every if sandbox_id in ("", one.sandbox_id)]

    def forget(self, thing: Sandbox | Container) -> None:
        """Remove a sandbox or a container, with its folder."""
        with self._lock:
            self._sandboxes.pop(thing.id, None)
            self._containers.pop(thing.id, None)
        shutil.rmtree(thing.folder, ignore_errors=True)

    def _new(self, kind: str, request: Any) -> Path:
        folder = self._folder / kind / secrets.token_hex(16)
        folder.mkdir()
        beside = folder / f".{_REQUEST}"
        beside.write_bytes(request.SerializeToString())
        beside.replace(folder / _REQUEST)
        return folder

    def _read(self) -> None:
        for folder, data in self._requests("sandboxes"):
            config = self._messages["PodSandboxConfig"].FromString(data)
            sandbox = self._sandbox(folder, config)
            self._sandboxes[sandbox.id] = sandbox
        for folder, data in self._requests("containers"):
            request = self._messages["CreateContainerRequest"].FromString(data)
            container = self._container(folder, request)
            self._containers[container.id] = container

    def _requests(self, kind: str) -> Iterator[tuple[Path, bytes]]:
        folders = [path for path in (self._folder / kind).iterdir() if path.is_dir()]
        for folder in sorted(folders, key=_made_at):
            if (folder / _REQUEST).exists():
                yield folder, (folder / _REQUEST).read_bytes()
            else:  # we were killed while making it, so nobody has heard of it
                shutil.rmtree(folder, ignore_errors=True)

    def _sandbox(self, folder: Path, config: Any) -> Sandbox:
        return Sandbox(id=folder.name, folder=folder, config=config, created_at=_made_at(folder))

    def _container(self, folder: Path, request: Any) -> Container:
        return Container(
            id=folder.name,
            folder=folder,
            sandbox_id=request.pod_sandbox_id,
            config=request.config,
            created_at=_made_at(folder),
        )


def _made_at(folder: Path) -> int:
    try:
        return (folder / _REQUEST).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _load(path: Path) -> dict[str, int] | None:
    try:
        content = json.loads(path.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None
    return dict(content)


def _watched(started: dict[str, int]) -> bool:
    return monitor.ticks(started["monitor"]) == started["monitor_ticks"]


def _kill(started: dict[str, int]) -> None:
    if monitor.ticks(started["pid"]) == started["ticks"]:
        try:
            os.kill(started["pid"], 9)
        except ProcessLookupError:
            return
