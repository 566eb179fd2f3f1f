"""The listening socket of the streaming server, and the thread that answers on it."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labkit.runtime.backend import Backend
from labkit.runtime.streaming.requests import (
    AttachRequest,
    ExecRequest,
    PortForwardRequest,
    StreamRequest,
)
from labkit.runtime.streaming.tokens import Tokens

if TYPE_CHECKING:  # a runtime that nobody streams from never imports asyncio for this
    import asyncio

log = logging.getLogger(__name__)

HOST = "127.0.0.1"

STOP_S = 5.0
"""Seconds that sessions have to end their processes when the server stops."""

BACKLOG = 64


class StreamingServer:
    """Answers the clients that the kubelet sends, each with a URL of its own.

    The thread waits on the bare socket until the first client comes; only then are
    asyncio and the protocols imported.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tokens = Tokens()
        self._listener: socket.socket | None = None
        self._stopper: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen on a free port of the loopback interface."""
        assert self._listener is None, "started twice"
        self._listener = socket.create_server((HOST, 0), backlog=BACKLOG)
        self._listener.setblocking(False)
        self._stopper, stopped = socket.socketpair()
        self._thread = threading.Thread(
            target=self._run, args=(self._listener, stopped), name="streaming", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End every session with its process, and stop listening; safe to call again."""
        if self._stopper is None or self._thread is None:
            return
        self._stopper.close()
        self._thread.join(STOP_S + 1.0)
        if self._thread.is_alive():
            log.warning("the streaming server did not stop in time")
        self._listener = self._stopper = self._thread = None

    def exec_url(
        self,
        container_id: str,
        argv: Sequence[str],
        *,
        tty: bool,
        stdin: bool,
        stdout: bool,
        stderr: bool,
    ) -> str:
        """Return the address, good for one client and for a minute, at which `argv` runs."""
        return self._url(
            ExecRequest(
                container_id=container_id,
                argv=tuple(argv),
                tty=tty,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        )

    def attach_url(
        self, container_id: str, *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Return the address, good for one client and for a minute, that joins a container."""
        return self._url(
            AttachRequest(
                container_id=container_id, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr
            )
        )

    def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        """Return the address, good for one client and for a minute, that leads to a pod.

        `ports` is empty for clients that name a port with each connection.
        """
        return self._url(PortForwardRequest(sandbox_id=sandbox_id, ports=tuple(ports)))

    def _url(self, request: StreamRequest) -> str:
        assert self._listener is not None, "not started"
        port = self._listener.getsockname()[1]
        return f"http://{HOST}:{port}/{self._tokens.issue(request)}"

    def _run(self, listener: socket.socket, stopped: socket.socket) -> None:
        with listener, stopped:
            if stopped in select.select([listener, stopped], [], [])[0]:
                return
            import asyncio

            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(self._serve(listener, stopped))

    async def _serve(self, listener: socket.socket, stopped: socket.socket) -> None:
        import asyncio

        from labkit.runtime.streaming.connection import serve_client
        from labkit.runtime.streaming.descriptors import CHUNK_BYTES, read_some

        sessions: set[asyncio.Task[None]] = set()

        def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            session = asyncio.ensure_future(
                serve_client(self._backend, self._tokens, reader, writer)
            )
            sessions.add(session)
            session.add_done_callback(sessions.discard)

        server = await asyncio.start_server(welcome, sock=listener, limit=CHUNK_BYTES)
        stopped.setblocking(False)
        await read_some(stopped.fileno())
        server.close()
        for session in sessions:
            session.cancel()
        if sessions:
            await asyncio.wait(sessions, timeout=STOP_S)
