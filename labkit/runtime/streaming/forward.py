"""port-forward: what a client sends, and TCP connections to a pod, joined."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from labkit.errors import LabError
from labkit.runtime.backend import Backend
from labkit.runtime.streaming.background import in_thread
from labkit.runtime.streaming.channels import ChannelSocket
from labkit.runtime.streaming.descriptors import CHUNK_BYTES
from labkit.runtime.streaming.inbox import Inbox
from labkit.runtime.streaming.requests import PortForwardRequest
from labkit.runtime.streaming.spdy import ProtocolError, Reset
from labkit.runtime.streaming.streams import SpdyConnection, Stream
from labkit.runtime.streaming.wire import Wire

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0

LARGEST_PORT = 0xFFFF

Report = Callable[[str], Awaitable[None]]


class Duplex(Protocol):
    """Bytes in both directions between us and the client."""

    async def read(self) -> bytes:
        """Return what came, or nothing at the end; ConnectionResetError after a reset."""
        ...

    async def write(self, data: bytes) -> None:
        """Send `data`, waiting while the client is slow."""

    async def end(self) -> None:
        """Say that nothing more will be sent."""


async def forward_streams(backend: Backend, sandbox_id: str, wire: Wire) -> None:
    """Serve a SPDY client: a pair of streams for each connection that it forwards.

    Raises:
        OSError: the client has gone.
    """
    waiting: dict[str, Stream] = {}
    tasks: set[asyncio.Task[None]] = set()
    try:
        async with contextlib.aclosing(SpdyConnection(wire).streams()) as streams:
            async for stream in streams:
                pair = await _pair_up(stream, waiting)
                if pair is not None:
                    task = asyncio.ensure_future(_forward_pair(backend, sandbox_id, *pair))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
    except ProtocolError as exc:
        log.warning("port-forward ended: %s", exc)
    finally:
        await _cancel(*tasks)


async def _pair_up(stream: Stream, waiting: dict[str, Stream]) -> tuple[Stream, Stream] | None:
    """Return the data and the error stream once both have come."""
    if _port_of(stream) is None or _kind_of(stream) not in ("data", "error"):
        await stream.reset(Reset.PROTOCOL_ERROR)
        return None
    other = waiting.pop(_request_of(stream), None)
    if other is not None and _kind_of(other) == _kind_of(stream):
        await other.reset(Reset.PROTOCOL_ERROR)
        await stream.reset(Reset.PROTOCOL_ERROR)
        return None
    await stream.accept()
    if other is None:
        waiting[_request_of(stream)] = stream
        return None
    return (stream, other) if _kind_of(stream) == "data" else (other, stream)


def _kind_of(stream: Stream) -> str:
    return stream.headers.get("streamtype", "")


def _port_of(stream: Stream) -> int | None:
    text = stream.headers.get("port", "")
    port = int(text) if text.isascii() and text.isdigit() else 0
    return port if 0 < port <= LARGEST_PORT else None


def _request_of(stream: Stream) -> str:
    """Return what the two streams of a pair have in common.

    Clients without request numbers open the error stream first, the data stream next.
    """
    first_id = stream.stream_id - (2 if _kind_of(stream) == "data" else 0)
    return stream.headers.get("requestid") or f"stream {first_id}"


async def _forward_pair(backend: Backend, sandbox_id: str, data: Stream, error: Stream) -> None:
    async def report(message: str) -> None:
        await error.write(message.encode())

    port = _port_of(data)
    assert port is not None
    try:
        await _forward(backend, sandbox_id, port, data, report)
        await data.end()
        await error.end()
    except OSError:
        log.debug("a client of port-forward has gone")
    finally:
        data.forget()
        error.forget()


async def forward_channels(
    backend: Backend, request: PortForwardRequest, socket: ChannelSocket
) -> None:
    """Serve a WebSocket client: two channels, data and errors, for each port it named.

    Raises:
        OSError: the client has gone.
    """
    ends = [_ChannelPair(socket, 2 * index) for index in range(len(request.ports))]
    for pair, port in zip(ends, request.ports, strict=True):
        for channel in (pair.channel, pair.channel + 1):
            await socket.send(channel, port.to_bytes(2, "little"))
    reading = asyncio.ensure_future(_sort(socket, ends))
    forwarding = [
        asyncio.ensure_future(_forward(backend, request.sandbox_id, port, pair, pair.report))
        for pair, port in zip(ends, request.ports, strict=True)
    ]
    try:
        pending = set(forwarding)
        while pending and not reading.done():
            _, left = await asyncio.wait({reading, *pending}, return_when=asyncio.FIRST_COMPLETED)
            pending &= left
    finally:
        await _cancel(reading, *forwarding)
    await socket.close()


class _ChannelPair:
    """The data channel of one port, and the error channel next to it."""

    def __init__(self, socket: ChannelSocket, channel: int) -> None:
        self._socket = socket
        self.channel = channel
        self.inbox = Inbox()

    async def read(self) -> bytes:
        return await self.inbox.get()

    async def write(self, data: bytes) -> None:
        await self._socket.send(self.channel, data)

    async def end(self) -> None:
        """Do nothing: a channel of version 4 has no end of its own."""

    async def report(self, message: str) -> None:
        await self._socket.send(self.channel + 1, message.encode())


async def _sort(socket: ChannelSocket, pairs: list[_ChannelPair]) -> None:
    async for piece in socket.pieces():
        index, is_error = divmod(piece.channel, 2)
        if not is_error and index < len(pairs):
            pairs[index].inbox.put(piece.data)
            await pairs[index].inbox.wait_for_room()


async def _forward(
    backend: Backend, sandbox_id: str, port: int, client: Duplex, report: Report
) -> None:
    """Connect to the pod and stay until it, or the client, has finished.

    Raises:
        OSError: the client has gone.
    """
    try:
        host, number = await in_thread(
            lambda: backend.port_forward_address(sandbox_id, port), name="streaming-address"
        )
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, number, limit=CHUNK_BYTES)
    except LabError as exc:
        await report(exc.message)
    except OSError as exc:  # a timeout is one too
        await report(f"nothing answers at port {port} of the pod: {exc or 'timed out'}")
    except Exception:
        log.exception("could not find the address of port %d", port)
        await report(f"could not find the address of port {port} of the pod")
    else:
        await _join(client, reader, writer)


async def _join(client: Duplex, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    upwards = asyncio.ensure_future(_to_pod(client, writer))
    downwards = asyncio.ensure_future(_to_client(client, reader))
    try:
        await asyncio.wait({downwards, upwards}, return_when=asyncio.FIRST_COMPLETED)
        if not downwards.done() and upwards.result():
            await downwards
        if downwards.done():
            downwards.result()
            writer.close()
    finally:
        await _cancel(upwards, downwards)
        if not writer.is_closing():
            writer.transport.abort()


async def _to_pod(client: Duplex, writer: asyncio.StreamWriter) -> bool:
    """Pass on what the client sends; return whether it may still want an answer."""
    try:
        while data := await client.read():
            with contextlib.suppress(OSError):  # a pod that no longer reads may yet write
                writer.write(data)
                await writer.drain()
    except ConnectionResetError:
        return False
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()
    return True


async def _to_client(client: Duplex, reader: asyncio.StreamReader) -> None:
    while True:
        try:
            data = await reader.read(CHUNK_BYTES)
        except OSError:
            data = b""
        if not data:
            break
        await client.write(data)
    await client.end()


async def _cancel(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
