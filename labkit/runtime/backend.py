"""What the streaming server asks of whoever runs the containers.

Files handed over here are pipes, sockets or terminals (never plain files), each with
a real `fileno()`. They belong to the receiver from then on, who closes them.
"""

from __future__ import annotations

from typing import BinaryIO, Protocol


class ExecProcess(Protocol):
    """A command in a container, or an attachment to a container's own first process.

    Attributes:
        stdin: the end to write to, or None when no input was asked for or `pty` is set.
        stdout: the end to read from, or None when `pty` is set.
        stderr: the end to read from, or None when `pty` is set.
        pty: the descriptor of the terminal's master side when there is one; it then
            carries input and output alike.
    """

    stdin: BinaryIO | None
    stdout: BinaryIO | None
    stderr: BinaryIO | None
    pty: int | None

    def resize(self, rows: int, cols: int) -> None:
        """Give the terminal a new size; without a terminal, do nothing."""

    def wait(self, timeout_s: float | None = None) -> int:
        """Block until it has ended and return its exit code (128 + n for signal n).

        Raises:
            WaitTimedOut: it still runs after `timeout_s` seconds.
        """
        ...

    def kill(self) -> None:
        """End it with everything it started; an attachment only lets go of its container.

        Afterwards `wait` returns soon. Safe to call when it has ended already.
        """


class Backend(Protocol):
    """Where the streaming server gets its processes and addresses; called from any thread.

    Every method may block for a while, and raises `LabError` with a message meant for
    the person at the other end (container gone, not running, no such command).
    """

    def open_exec(
        self, container_id: str, argv: list[str], *, tty: bool, stdin: bool
    ) -> ExecProcess:
        """Start `argv` in a running container."""
        ...

    def open_attach(self, container_id: str, *, tty: bool, stdin: bool) -> ExecProcess:
        """Join input and output of a running container's first process."""
        ...

    def port_forward_address(self, sandbox_id: str, port: int) -> tuple[str, int]:
        """Return the host and port on which the pod's `port` can be reached from here."""
        ...
