"""Starting, stopping and removing containers."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from labkit.errors import LabError, WaitTimedOut
from labkit.runtime import monitor, translation
from labkit.runtime.isolation import Isolation
from labkit.runtime.ocispec import User
from labkit.runtime.records import Container, Records, Sandbox
from labkit.waiting import NotYet, Seen, wait_until

log = logging.getLogger(__name__)

START_S = 30.0
"""Time for a container to start, in seconds."""

KILL_S = 10.0
"""Time for a killed container to be gone, in seconds."""

LOOK_S = 0.02
"""Longest pause between two looks at a container that is to end, in seconds."""

_USER = "user.json"

_SIGNALS = (
    "RTMIN", "ABRT", "ALRM", "BUS", "CHLD", "CHLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO",
    "ABRT", "KILL", "PIPE", "POLL", "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS",
    "TERM", "TRAP", "TSTP", "TTIN", "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU",
    "XFSZ",
)  # fmt: skip
"""CRI's own numbers of signals, in order; 0 is the runtime's default."""


class Containers:
    """The containers of a node.

    Args:
        records: what there is.
        find_isolation: finds the isolation that works; called once, when first needed.
        cdi_dirs: where CDI specifications lie.
    """

    def __init__(
        self, records: Records, find_isolation: Callable[[], Isolation], cdi_dirs: list[Path]
    ) -> None:
        self.records = records
        self._find_isolation = find_isolation
        self._cdi_dirs = cdi_dirs
        self._finding = Lock()
        self._monitors: list[subprocess.Popen[bytes]] = []

    @cached_property
    def _isolation(self) -> Isolation:
        return self._find_isolation()

    @property
    def isolation(self) -> Isolation:
        """How containers are kept apart here."""
        with self._finding:
            return self._isolation

    def create(self, request: Any) -> Container:
        """Make everything for a container except its processes.

        Raises:
            LabError: it cannot be made; the message is for the pod's events.
        """
        sandbox = self.records.sandbox(request.pod_sandbox_id)
        if sandbox is None:
            raise LabError(f"there is no pod sandbox {request.pod_sandbox_id!r}")
        edits = translation.devices(request.config, self._cdi_dirs)
        for what in edits.skipped:
            log.warning("container %s: %s", request.config.metadata.name, what)
        wanted = translation.wanted(
            request.config,
            sandbox.config,
            edits,
            pid_namespace=self._pid_namespace(request.config, sandbox),
            shm=self._shm(sandbox),
        )
        container = self.records.add_container(request)
        try:
            (container.folder / _USER).write_text(translation.as_json(wanted), encoding="ascii")
            self.isolation.prepare(
                container.id, container.folder, wanted, translation.files(sandbox.config)
            )
            flags, command = self.isolation.start_command(container.id, wanted)
            flags += [name for name in ("stdin", "stdin_once") if getattr(request.config, name)]
            lines = [",".join(flags), *command]
            (container.folder / "command").write_text("\0".join(lines), encoding="utf-8")
        except OSError as exc:
            self.remove(container)
            raise LabError(
                f"cannot make container {request.config.metadata.name!r}: {exc}"
            ) from exc
        return container

    def start(self, container: Container) -> None:
        """Start a container, with a monitor of its own.

        Raises:
            LabError: it did not start; the message has runc's words.
        """
        with container.lock:
            if container.run() is not None:
                raise LabError(f"container {container.id} was started already")
            sandbox = self.records.sandbox(container.sandbox_id)
            assert sandbox is not None
            log_path = self.log_path(container, sandbox)
            if log_path is not None:
                log_path.parent.mkdir(parents=True, exist_ok=True)
            text = (container.folder / "command").read_text(encoding="utf-8")
            flags, *command = text.split("\0")
            (container.folder / "control").unlink(missing_ok=True)
            self._spawn(container, str(log_path or ""), flags, command)

    def _spawn(self, container: Container, log_path: str, flags: str, command: list[str]) -> None:
        said = container.folder / "monitor.log"
        with said.open("wb") as errors:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", monitor.__file__, container.folder, log_path,
                 flags, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )  # fmt: skip
        self._monitors = [one for one in [*self._monitors, child] if one.poll() is None]
        assert child.stdout is not None
        with child.stdout:
            answer = child.stdout.readline().decode().strip()
        if answer == "ok":
            return
        child.wait(START_S)
        why = _last_line(container.folder / "runc.log") or _last_line(said) or answer
        raise LabError(f"container {container.config.metadata.name!r} did not start: {why}")

    def stop(self, container: Container, timeout_s: float) -> None:
        """End a container: its stop signal, then after `timeout_s` seconds the hard way.

        Raises:
            LabError: it does not end even so.
        """
        run = container.run()
        if run is None or container.exit() is not None:
            return
        if timeout_s > 0:
            _signal(run.pid, _stop_signal(container))
            if self._ended(container, timeout_s):
                return
        _signal(run.pid, signal.SIGKILL)
        if not self._ended(container, KILL_S):
            raise LabError(f"container {container.id} (process {run.pid}) does not end")

    def _ended(self, container: Container, timeout_s: float) -> bool:
        def look() -> Seen[bool] | NotYet:
            self._reap()
            return Seen(True) if container.exit() is not None else NotYet("running")

        try:
            return wait_until(
                look, what="the container's end", timeout_s=timeout_s, interval_s=LOOK_S
            )
        except WaitTimedOut:
            return False

    def _reap(self) -> None:
        # A monitor that has ended stays a zombie, which looks alive, until it is asked for.
        for one in self._monitors:
            one.poll()

    def state_of(self, container: Container) -> str:
        """``created``, ``running`` or ``exited``."""
        self._reap()
        if container.exit() is not None:
            return "exited"
        return "created" if container.run() is None else "running"

    def remove(self, container: Container) -> None:
        """Remove a container, running or not."""
        with container.lock:
            self.stop(container, 0)
            self.isolation.remove(container.id)
            self.records.forget(container)

    def stop_sandbox(self, sandbox: Sandbox) -> None:
        """End all containers of a pod at once, and mark it stopped."""
        for container in self.records.containers(sandbox.id):
            self.stop(container, 0)
        sandbox.stop()

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Remove a pod and all its containers."""
        for container in self.records.containers(sandbox.id):
            self.remove(container)
        shutil.rmtree(self._shm_folder(sandbox), ignore_errors=True)
        self.records.forget(sandbox)

    def running_pid(self, container_id: str) -> tuple[Container, int]:
        """A running container and its first process.

        Raises:
            LabError: there is none, or it does not run.
        """
        container = self.records.container(container_id)
        if container is None:
            raise LabError(f"there is no container {container_id!r}")
        run = container.run()
        if run is None or container.exit() is not None:
            raise LabError(f"container {container.config.metadata.name!r} does not run")
        return container, run.pid

    def user_of(self, container: Container) -> User:
        """Whom a container's processes run as."""
        text = (container.folder / _USER).read_text(encoding="ascii")
        return translation.user_from_json(text)

    @staticmethod
    def log_path(container: Container, sandbox: Sandbox) -> Path | None:
        """Where a container's log is, or None when the kubelet wants none."""
        if not container.config.log_path:
            return None
        return Path(sandbox.config.log_directory, container.config.log_path)

    def _pid_namespace(self, config: Any, sandbox: Sandbox) -> str:
        options = config.linux.security_context.namespace_options
        if options.pid == translation.NODE:
            return "host"
        if options.pid == translation.TARGET:
            _, pid = self.running_pid(options.target_id)
            return f"/proc/{pid}/ns/pid"
        if options.pid == translation.POD:
            # There is no pause container: the first one's namespace is the pod's.
            for other in self.records.containers(sandbox.id):
                run = other.run()
                if run and run.alive:
                    return f"/proc/{run.pid}/ns/pid"
        return "new"

    def _shm(self, sandbox: Sandbox) -> str:
        if self.isolation.kind == "process":
            return ""
        folder = self._shm_folder(sandbox)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o1777)
        return str(folder)

    def _shm_folder(self, sandbox: Sandbox) -> Path:
        return self.isolation.layers / f"shm-{sandbox.id}"


def _stop_signal(container: Container) -> int:
    number = container.config.stop_signal
    if 0 < number < len(_SIGNALS):
        return int(getattr(signal, f"SIG{_SIGNALS[number]}"))
    return signal.SIGTERM


def _signal(pid: int, number: int) -> None:
    """Signal a container's first process; its whole group where it has no pid namespace."""
    try:
        if number == signal.SIGKILL:
            os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it leads no group; in its pid namespace, all end with it
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _last_line(path: Path) -> str:
    """The last line that a program wrote; of a structured one, its message."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    last = lines[-1] if lines else ""
    return last.partition("msg=")[2].strip('"') or last
