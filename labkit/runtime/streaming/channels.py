"""A WebSocket on which every message begins with the number of its channel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from labkit.runtime.streaming.http import RequestHead
from labkit.runtime.streaming.wire import Wire

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
STATUS: Final = 3
RESIZE: Final = 4
CLOSE: Final = 255

V5: Final = "v5.channel.k8s.io"
"""Adds to version 4 that a client can close a channel: 255 and the channel's number."""
V4: Final = "v4.channel.k8s.io"

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""A longer message ends the connection. kubectl sends 32 KiB at a time."""

LINGER_S: Final = 300.0
"""Seconds that a client has to read what is still under way when we have finished."""
STALL_S: Final = 60.0
"""Seconds of silence in the middle of a message after which the client is given up.

kubectl does not go on with a message that took it so long to send, nor does it hang up.
"""

_quiet = logging.getLogger(f"{__name__}.protocol")
_quiet.setLevel(logging.WARNING)  # the library tells of every connection that opens


class Piece(NamedTuple):
    """A message of a client or, when it came in several frames, a part of one."""

    channel: int
    data: bytes
    is_last: bool


class ChannelSocket:
    """The server's end of such a WebSocket."""

    def __init__(self, wire: Wire, protocol: ServerProtocol) -> None:
        self._wire = wire
        self._protocol = protocol
        self._channel = CLOSE

    @classmethod
    async def accept(
        cls, wire: Wire, head: RequestHead, subprotocols: Sequence[str]
    ) -> ChannelSocket | None:
        """Answer the request `head`; None when the answer was a refusal."""
        protocol = ServerProtocol(
            subprotocols=[Subprotocol(name) for name in subprotocols],
            max_size=MAX_MESSAGE_BYTES,
            logger=_quiet,
        )
        protocol.receive_data(head.raw)
        requests = [event for event in protocol.events_received() if isinstance(event, Request)]
        if not requests:
            return None
        protocol.send_response(protocol.accept(requests[0]))
        socket = cls(wire, protocol)
        await socket._flush()
        return socket if protocol.state is State.OPEN else None

    async def pieces(self) -> AsyncIterator[Piece]:
        """Yield what the client sends until it closes or goes away."""
        while True:
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and (piece := self._piece(event)) is not None:
                    yield piece
            await self._flush()  # answers to pings, and to the client's close
            if self._protocol.close_expected():
                return
            data = await self._read()
            if not data:
                return
            self._protocol.receive_data(data)

    async def _read(self) -> bytes:
        in_the_middle = bool(self._protocol.reader.buffer)
        try:
            async with asyncio.timeout(STALL_S if in_the_middle else None):
                return await self._wire.read()
        except TimeoutError:
            return b""

    def _piece(self, frame: Frame) -> Piece | None:
        if frame.opcode is Opcode.CONT:
            return Piece(self._channel, bytes(frame.data), frame.fin)
        if frame.opcode in (Opcode.BINARY, Opcode.TEXT) and frame.data:
            self._channel = frame.data[0]
            return Piece(self._channel, bytes(frame.data[1:]), frame.fin)
        return None

    async def send(self, channel: int, data: bytes) -> None:
        """Send one message, waiting while the client is slow.

        Raises:
            OSError: the client has gone.
        """
        if self._protocol.state is not State.OPEN:
            raise ConnectionResetError("the client has closed")
        self._protocol.send_binary(bytes((channel,)) + data)
        await self._flush()

    async def reassure(self) -> None:
        """Tell the client that we are still there though we do not read just now.

        Clients give up when their pings stay unanswered, and pings wait in line behind
        the input that we have stopped reading. A pong may be sent without a ping.
        """
        if self._protocol.state is State.OPEN:
            self._protocol.send_pong(b"")
            await self._flush()

    async def close(self) -> None:
        """Close in such a way that everything sent before arrives.

        Raises:
            OSError: the client has gone.
        """
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
            await self._flush()
        await self._wire.finish(linger_s=LINGER_S)

    async def _flush(self) -> None:
        if parts := [part for part in self._protocol.data_to_send() if part]:
            await self._wire.write(*parts)
