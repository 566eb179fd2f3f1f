"""Processes that go into a running container: exec, attach, and probes."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from labkit.errors import LabError, WaitTimedOut
from labkit.runtime.backend import ExecProcess
from labkit.runtime.containers import Containers
from labkit.runtime.records import Container
from labkit.waiting import NotYet, Seen, wait_until

LOOPBACK = "127.0.0.1"

OUTPUT_LIMIT = 2**20
"""Bytes of each stream of a probe's or a hook's output that are kept."""

CHUNK = 2**16

REAP_S = 0.5
"""Time for runc to end once its command was killed, in seconds."""

SILENCE_S = 0.5
"""Seconds without output after which a command that has ended is taken to be complete."""

CONTROL_S = 5.0
"""Time for a monitor to answer, in seconds."""

LOOK_S = 0.05


class Exec:
    """A command in a container; see `labkit.runtime.backend.ExecProcess`."""

    def __init__(self, command: list[str], folder: Path, *, tty: bool, stdin: bool) -> None:
        self._folder = folder
        self.pty: int | None = None
        self.stdin: BinaryIO | None = None
        self.stdout: BinaryIO | None = None
        self.stderr: BinaryIO | None = None
        if tty:
            master, slave = os.openpty()
            try:
                self._child = subprocess.Popen(
                    # runc passes changes of its terminal's size on, so it must own this one.
                    ["setsid", "--ctty", "--wait", *command],
                    stdin=slave,
                    stdout=slave,
                    stderr=slave,
                )
            finally:
                os.close(slave)
            self.pty = master
            return
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self.stdin = self._child.stdin  # type: ignore[assignment]
        self.stdout = self._child.stdout  # type: ignore[assignment]
        self.stderr = self._child.stderr  # type: ignore[assignment]

    def resize(self, rows: int, cols: int) -> None:
        """Give the terminal a new size."""
        if self.pty is not None:
            import fcntl
            import termios

            size = struct.pack("HHHH", rows, cols, 0, 0)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.pty, termios.TIOCSWINSZ, size)

    def wait(self, timeout_s: float | None = None) -> int:
        """Block until it has ended; 128 + n for signal n."""
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired as exc:
            raise WaitTimedOut(
                "the command to end", waited_s=timeout_s or 0, last_state="running"
            ) from exc
        shutil.rmtree(self._folder, ignore_errors=True)
        return code if code >= 0 else 128 - code

    def finish(self, timeout_s: float) -> tuple[bytes, bytes, int]:
        """Read it to its end, without a terminal; see `Processes.run`."""
        assert self.stdout is not None
        assert self.stderr is not None
        out, err = bytearray(), bytearray()
        ended = os.pidfd_open(self._child.pid)
        try:
            streams = {self.stdout.fileno(): out, self.stderr.fileno(): err}
            in_time = _collect(streams, ended, monotonic() + timeout_s if timeout_s else None)
        finally:
            os.close(ended)
            self.stdout.close()
            self.stderr.close()
            self.kill()
        code = self.wait(CONTROL_S)
        if not in_time:
            raise WaitTimedOut("the command to end", waited_s=timeout_s, last_state="running")
        return bytes(out), bytes(err), code

    def kill(self) -> None:
        """End the command with everything it started, and what stands between it and us."""
        if self._child.poll() is not None:
            return
        with contextlib.suppress(OSError, ValueError):
            _kill_tree(int((self._folder / "pid").read_text(encoding="ascii")))
            # runc then ends by itself, and takes the dead process off the container's list.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(REAP_S)
        _kill_tree(self._child.pid)


def _collect(streams: dict[int, bytearray], ended: int, deadline: float | None) -> bool:
    """Read until the command has ended and is silent; False when the time is over.

    What it has left in the background may hold its output open for ever, and what it prints
    beyond the limit is read and dropped, or it would wait for us.
    """
    poll = select.poll()
    for handle in (*streams, ended):
        poll.register(handle, select.POLLIN)
    running = True
    while streams or running:
        left = None if deadline is None else max(deadline - monotonic(), 0.0)
        if deadline is not None and left == 0.0 and running:
            return False
        if not running:
            left = SILENCE_S if left is None else min(left, SILENCE_S)
        ready = poll.poll(None if left is None else left * 1000)
        if not ready:
            return not running
        for handle, _ in ready:
            if handle == ended:
                running = False
                poll.unregister(ended)
                continue
            data = os.read(handle, CHUNK)
            into = streams[handle]
            into += data[: OUTPUT_LIMIT - len(into)]
            if not data:
                poll.unregister(handle)
                del streams[handle]
    return True


def _kill_tree(pid: int) -> None:
    """Kill a process and its descendants, found before any of them loses its parent."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):  # noqa: PTH208
                children = Path(f"/proc/{one}/task/{task}/children").read_text(encoding="ascii")
                waiting += map(int, children.split())
    for one in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


class Attachment:
    """An attachment to a container's first process; see `ExecProcess`."""

    def __init__(self, container: Container, *, stdin: bool) -> None:
        self._container = container
        self._let_go = False
        self.pty: int | None = None
        self.stdin: BinaryIO | None = None
        names, theirs = [], []
        if stdin:
            read, write = os.pipe()
            self.stdin = os.fdopen(write, "wb", buffering=0)
            names.append("stdin")
            theirs.append(read)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self.stdout: BinaryIO | None = os.fdopen(out_read, "rb", buffering=0)
        self.stderr: BinaryIO | None = os.fdopen(err_read, "rb", buffering=0)
        names += ["stdout", "stderr"]
        theirs += [out_write, err_write]
        try:
            tell(container, f"attach {','.join(names)}", theirs)
        finally:
            for handle in theirs:
                os.close(handle)

    def resize(self, rows: int, cols: int) -> None:
        """Give the container's terminal a new size."""
        with contextlib.suppress(LabError):
            tell(self._container, f"resize {rows} {cols}")

    def wait(self, timeout_s: float | None = None) -> int:
        """Block until the container has ended, or was let go of."""

        def look() -> Seen[int] | NotYet:
            if self._let_go:
                return Seen(0)
            end = self._container.exit()
            return Seen(end.code) if end else NotYet("running")

        limit = float("inf") if timeout_s is None else timeout_s
        return wait_until(look, what="the container to end", timeout_s=limit, interval_s=LOOK_S)

    def kill(self) -> None:
        """Let go of the container."""
        self._let_go = True
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()


def tell(container: Container, message: str, handles: list[int] | None = None) -> None:
    """Send a container's monitor a request; see `labkit.runtime.monitor.Monitor`.

    Raises:
        LabError: it does not answer.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(CONTROL_S)
            peer.connect(str(container.folder / "control"))
            socket.send_fds(peer, [message.encode()], handles or [])
            answer = peer.recv(100)
    except OSError as exc:
        raise LabError(f"container {container.id} cannot be reached: {exc}") from exc
    if answer != b"ok":
        raise LabError(f"container {container.id} does not understand {message!r}")


class Processes:
    """Going into containers; a `labkit.runtime.backend.Backend`."""

    def __init__(self, containers: Containers, scratch: Path) -> None:
        self._containers = containers
        self._scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True)

    def open_exec(
        self, container_id: str, argv: list[str], *, tty: bool, stdin: bool
    ) -> ExecProcess:
        """Start `argv` in a running container."""
        container, pid = self._containers.running_pid(container_id)
        folder = Path(tempfile.mkdtemp(prefix="exec-", dir=self._scratch))
        command = self._containers.isolation.exec_command(
            container_id, pid, argv, self._containers.user_of(container),
            tty=tty, pid_file=folder / "pid",
        )  # fmt: skip
        return Exec(command, folder, tty=tty, stdin=stdin)

    def open_attach(self, container_id: str, *, tty: bool, stdin: bool) -> ExecProcess:
        """Join input and output of a running container's first process."""
        del tty  # what the container was made with decides
        container, _ = self._containers.running_pid(container_id)
        return Attachment(container, stdin=stdin and container.config.stdin)

    def port_forward_address(self, sandbox_id: str, port: int) -> tuple[str, int]:
        """Pods share the host's network: every port of theirs is one of the host's."""
        if self._containers.records.sandbox(sandbox_id) is None:
            raise LabError(f"there is no pod sandbox {sandbox_id!r}")
        return LOOPBACK, port

    def run(self, container_id: str, argv: list[str], timeout_s: float) -> tuple[bytes, bytes, int]:
        """Run a command to its end, as probes do: output, errors and exit code.

        Args:
            container_id: where.
            argv: what.
            timeout_s: how long it may take; 0 means for ever.

        Raises:
            WaitTimedOut: it took longer, and was ended.
            LabError: the container does not run.
        """
        process = self.open_exec(container_id, argv, tty=False, stdin=False)
        assert isinstance(process, Exec)
        return process.finish(timeout_s)
