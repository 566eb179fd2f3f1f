"""exec and attach: a process in a container and a client, joined."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Callable, Coroutine
from typing import Any

from labkit.errors import LabError
from labkit.runtime.backend import Backend, ExecProcess
from labkit.runtime.streaming import channels, status
from labkit.runtime.streaming.background import in_thread
from labkit.runtime.streaming.channels import ChannelSocket, Piece
from labkit.runtime.streaming.descriptors import read_some, write_all, write_now
from labkit.runtime.streaming.requests import AttachRequest, ExecRequest
from labkit.runtime.streaming.wire import Wire

log = logging.getLogger(__name__)

SILENCE_S = 0.5
"""Seconds without output after which a process that has ended is taken to be complete.

Something it left in the background may hold its output open for ever.
"""

MAX_RESIZE_BYTES = 1024


async def run_command(
    backend: Backend, request: ExecRequest | AttachRequest, socket: ChannelSocket, wire: Wire
) -> None:
    """Start what `request` asks for and stay until it has ended or the client has gone.

    Raises:
        OSError: the client has gone.
    """
    try:
        process = await in_thread(
            lambda: _open(backend, request), name="streaming-open", undo=ExecProcess.kill
        )
    except LabError as exc:
        await socket.send(channels.STATUS, status.failed(exc.message))
    except Exception as exc:
        log.exception("could not start a command in container %s", request.container_id)
        await socket.send(channels.STATUS, status.failed(f"could not start the command: {exc}"))
    else:
        await _Session(request, process, socket, wire).run()
    await socket.close()


def _open(backend: Backend, request: ExecRequest | AttachRequest) -> ExecProcess:
    if isinstance(request, ExecRequest):
        return backend.open_exec(
            request.container_id, list(request.argv), tty=request.tty, stdin=request.stdin
        )
    return backend.open_attach(request.container_id, tty=request.tty, stdin=request.stdin)


class _Session:
    """One process and its client."""

    def __init__(
        self,
        request: ExecRequest | AttachRequest,
        process: ExecProcess,
        socket: ChannelSocket,
        wire: Wire,
    ) -> None:
        self._request = request
        self._process = process
        self._socket = socket
        self._wire = wire
        self._resize_text = b""
        self._moved = 0
        self._sending = 0
        files = (process.stdin, process.stdout, process.stderr)
        descriptors = {file.fileno() for file in files if file is not None}
        for fd in descriptors if process.pty is None else descriptors | {process.pty}:
            os.set_blocking(fd, False)

    async def run(self) -> None:
        """Follow the process to its end; without its client it is killed.

        Raises:
            OSError: the client has gone.
        """
        exit_code = in_thread(self._process.wait, name="streaming-wait")
        to_client = asyncio.ensure_future(self._to_client(exit_code))
        from_client = asyncio.ensure_future(self._from_client())
        try:
            await asyncio.wait({to_client, from_client}, return_when=asyncio.FIRST_COMPLETED)
            if not to_client.done():
                raise ConnectionResetError("the client has gone")
            await self._socket.send(channels.STATUS, to_client.result())
        finally:
            await _cancel(to_client, from_client)
            await self._release(exit_code)

    async def _to_client(self, exit_code: asyncio.Future[int]) -> bytes:
        outputs = {asyncio.ensure_future(output) for output in self._outputs()}
        try:
            code = await exit_code
            await self._drain(outputs)
        except LabError as exc:
            return status.failed(exc.message)
        finally:
            await _cancel(*outputs)
        return status.ended_with(code)

    def _outputs(self) -> list[Coroutine[Any, Any, None]]:
        process, request = self._process, self._request
        if process.pty is not None:
            return [self._copy(process.pty, channels.STDOUT, wanted=request.stdout)]
        ends = (
            (process.stdout, channels.STDOUT, request.stdout),
            (process.stderr, channels.STDERR, request.stderr),
        )
        return [
            self._copy(file.fileno(), channel, wanted=wanted)
            for file, channel, wanted in ends
            if file is not None
        ]

    async def _copy(self, fd: int, channel: int, *, wanted: bool) -> None:
        while data := await read_some(fd):
            self._moved += len(data)
            if not wanted:
                continue  # read all the same, or the process would block
            self._sending += 1
            try:
                await self._socket.send(channel, data)
            except OSError:
                self._wire.abort()  # so that the reading side sees it too, and ends the session
                return
            finally:
                self._sending -= 1

    async def _drain(self, outputs: set[asyncio.Task[None]]) -> None:
        """Wait for the rest of the output of a process that has ended."""
        while outputs:
            before = self._moved
            _, outputs = await asyncio.wait(outputs, timeout=SILENCE_S)
            if self._moved == before and not self._sending:
                return

    async def _from_client(self) -> None:
        with contextlib.suppress(OSError):
            async for piece in self._socket.pieces():
                if piece.channel == channels.STDIN:
                    await self._feed(piece.data)
                elif piece.channel == channels.RESIZE:
                    await self._resize(piece)
                elif piece.channel == channels.CLOSE and piece.data[:1] == b"\x00":
                    self._end_input()

    async def _feed(self, data: bytes) -> None:
        """Pass input on; while the process does not read, the client has to wait.

        Raises:
            OSError: the client has gone while it waited.
        """
        fd = self._input()
        if fd is None:
            return
        try:
            rest = write_now(fd, data)
        except OSError:
            self._end_input()
            return
        if rest:
            broken = asyncio.Event()
            await self._wire.while_there(_write_rest(fd, rest, broken), tick=self._socket.reassure)
            if broken.is_set():
                self._end_input()

    def _input(self) -> int | None:
        if not self._request.stdin:
            return None
        if self._process.pty is not None:
            return self._process.pty
        stdin = self._process.stdin
        return None if stdin is None or stdin.closed else stdin.fileno()

    def _end_input(self) -> None:
        """Close the input; a terminal has no such thing, its programs go by what is typed."""
        if self._process.stdin is not None:
            _close(self._process.stdin.close)

    async def _resize(self, piece: Piece) -> None:
        self._resize_text = (self._resize_text + piece.data)[:MAX_RESIZE_BYTES]
        if not piece.is_last:
            return
        text, self._resize_text = self._resize_text, b""
        size = _parse_size(text)
        if size is not None:
            rows, cols = size
            await in_thread(lambda: self._process.resize(rows, cols), name="streaming-resize")

    async def _release(self, exit_code: asyncio.Future[int]) -> None:
        process = self._process
        ended = exit_code.done() and not exit_code.cancelled() and exit_code.exception() is None
        exit_code.cancel()
        if not ended:
            try:
                await in_thread(process.kill, name="streaming-kill")
            except Exception:
                log.exception("could not end a command in container %s", self._request.container_id)
        for file in (process.stdin, process.stdout, process.stderr):
            if file is not None:
                _close(file.close)
        if process.pty is not None:
            pty = process.pty
            _close(lambda: os.close(pty))


async def _write_rest(fd: int, data: bytes, broken: asyncio.Event) -> None:
    try:
        await write_all(fd, data)
    except OSError:
        broken.set()  # the process no longer reads; that is no matter of the client's


def _parse_size(text: bytes) -> tuple[int, int] | None:
    try:
        size = json.loads(text)
        rows, cols = int(size["Height"]), int(size["Width"])
    except (ValueError, KeyError, TypeError):
        return None
    largest = 0xFFFF
    return (rows, cols) if 0 < rows <= largest and 0 < cols <= largest else None


def _close(close: Callable[[], None]) -> None:
    with contextlib.suppress(OSError):
        close()


async def _cancel(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
