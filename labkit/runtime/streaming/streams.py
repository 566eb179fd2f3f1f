"""A SPDY/3.1 connection: many streams of a client's over one wire."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator
from typing import Final

from labkit.runtime.streaming.descriptors import CHUNK_BYTES
from labkit.runtime.streaming.inbox import Inbox
from labkit.runtime.streaming.spdy import (
    FIN,
    HEAD_BYTES,
    FrameHead,
    HeaderReader,
    HeaderWriter,
    Kind,
    ProtocolError,
    Reset,
    control_frame,
    data_head,
    parse_head,
    parse_id,
    reset_frame,
)
from labkit.runtime.streaming.wire import Wire

MAX_STREAMS: Final = 1024
"""Streams open at one time; kubectl opens two for each connection that it forwards."""

SYN_STREAM_BYTES: Final = 10
"""What a SYN_STREAM frame holds before its headers."""

OUR_PING: Final = 2
"""A server's pings have even numbers."""


class Stream:
    """One of the streams that the client opened."""

    def __init__(self, connection: SpdyConnection, stream_id: int, headers: dict[str, str]) -> None:
        self._connection = connection
        self.stream_id = stream_id
        self.headers = headers
        self.inbox = Inbox()
        self._ended = False

    async def read(self) -> bytes:
        """Return what the client sent, or nothing once it has ended its side.

        Raises:
            ConnectionResetError: the client has reset the stream.
        """
        return await self.inbox.get()

    async def write(self, data: bytes) -> None:
        """Send `data`, waiting while the client is slow.

        Raises:
            OSError: the client has gone.
        """
        await self._connection.wire.write(data_head(self.stream_id, len(data)), data)

    async def end(self) -> None:
        """Say that nothing more will be sent; safe to call again.

        Raises:
            OSError: the client has gone.
        """
        if not self._ended:
            self._ended = True
            await self._connection.wire.write(data_head(self.stream_id, 0, fin=True))

    async def accept(self) -> None:
        """Let the client begin to send.

        Raises:
            OSError: the client has gone.
        """
        await self._connection.reply(self.stream_id)

    async def reset(self, why: Reset) -> None:
        """End the stream in both directions, at once.

        Raises:
            OSError: the client has gone.
        """
        self.forget()
        await self._connection.wire.write(reset_frame(self.stream_id, why))

    def forget(self) -> None:
        """Throw away what still comes from the client."""
        self.inbox.drop()
        self._connection.forget(self.stream_id)


class SpdyConnection:
    """The server's end of such a connection.

    SPDY's flow control is left out, as the clients of Kubernetes leave it out: a stream
    that nobody reads holds up the others once its inbox is full.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._headers_in = HeaderReader()
        self._headers_out = HeaderWriter()
        self._open: dict[int, Stream] = {}
        self._last_id = 0

    async def streams(self) -> AsyncGenerator[Stream, None]:
        """Yield the streams that the client opens, until it closes or goes away.

        Each waits for `accept` or `reset`. Whoever stops to iterate stops all streams.

        Raises:
            ProtocolError: what the client sends is no SPDY/3.1.
            OSError: the client has gone.
        """
        try:
            while True:
                head = parse_head(await self.wire.read_exactly(HEAD_BYTES))
                if head.kind is None:
                    await self._take_data(head)
                    continue
                payload = await self.wire.read_exactly(head.length)
                if head.kind == Kind.GOAWAY:
                    return
                stream = await self._take_control(head, payload)
                if stream is not None:
                    yield stream
        except EOFError:
            return
        finally:
            for stream in self._open.values():
                stream.inbox.drop()

    async def reply(self, stream_id: int) -> None:
        """Tell the client that a stream of its is open."""
        payload = struct.pack("!I", stream_id) + self._headers_out.write({})
        await self.wire.write(control_frame(Kind.SYN_REPLY, payload))

    def forget(self, stream_id: int) -> None:
        """Drop what the client still sends on this stream."""
        self._open.pop(stream_id, None)

    async def _take_data(self, head: FrameHead) -> None:
        left = head.length
        while left:
            part = await self.wire.read_exactly(min(left, CHUNK_BYTES))
            left -= len(part)
            stream = self._open.get(head.stream_id)
            if stream is not None:
                stream.inbox.put(part)
                if stream.inbox.is_full:
                    await self.wire.while_there(stream.inbox.wait_for_room(), tick=self._ping)
        stream = self._open.get(head.stream_id)
        if stream is not None and head.flags & FIN:
            stream.inbox.end()

    async def _take_control(self, head: FrameHead, payload: bytes) -> Stream | None:
        match head.kind:
            case Kind.SYN_STREAM:
                return await self._open_stream(head, payload)
            case Kind.HEADERS:
                self._headers_in.read(payload[4:])  # keeps the unpacking in step
            case Kind.PING if parse_id(payload) % 2:
                await self.wire.write(control_frame(Kind.PING, payload[:4]))
            case Kind.RST_STREAM:
                stream = self._open.pop(parse_id(payload), None)
                if stream is not None:
                    stream.inbox.drop()
        return None

    async def _open_stream(self, head: FrameHead, payload: bytes) -> Stream | None:
        stream_id = parse_id(payload)
        headers = self._headers_in.read(payload[SYN_STREAM_BYTES:])
        if stream_id % 2 == 0 or stream_id <= self._last_id:
            raise ProtocolError("a stream's number is not a client's next one")
        self._last_id = stream_id
        if len(self._open) >= MAX_STREAMS:
            await self.wire.write(reset_frame(stream_id, Reset.REFUSED_STREAM))
            return None
        stream = self._open[stream_id] = Stream(self, stream_id, headers)
        if head.flags & FIN:
            stream.inbox.end()
        return stream

    async def _ping(self) -> None:
        await self.wire.write(control_frame(Kind.PING, struct.pack("!I", OUR_PING)))
