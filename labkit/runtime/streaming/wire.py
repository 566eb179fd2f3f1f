"""One TCP connection of a client, after the HTTP part of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from labkit.runtime.streaming.descriptors import CHUNK_BYTES

PEER_CHECK_S = 2.0
"""Seconds between two looks at whether a client that we do not read from is still there."""

TCP_ESTABLISHED = 1


class Wire:
    """Reads, writes with back-pressure, and knows when the other side has gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return what came, or nothing once the other side has closed or gone."""
        try:
            return await self._reader.read(CHUNK_BYTES)
        except OSError:
            return b""

    async def read_exactly(self, count: int) -> bytes:
        """Return the next `count` bytes.

        Raises:
            EOFError: the other side has closed or gone before.
        """
        try:
            return await self._reader.readexactly(count)
        except OSError as exc:
            raise EOFError("the client has gone") from exc

    async def write(self, *parts: bytes) -> None:
        """Send `parts` in one piece, waiting while the other side is slow to take them.

        Raises:
            OSError: the other side has gone.
        """
        if self._writer.is_closing():
            raise ConnectionResetError("the client has gone")
        self._writer.writelines(parts)
        await self._writer.drain()

    async def while_there(
        self, work: Coroutine[Any, Any, None], *, tick: Callable[[], Awaitable[None]]
    ) -> None:
        """Do `work`, during which nobody reads from this connection.

        A socket that is not read from does not tell that its other side has closed, so
        the connection's state is looked at now and then, and `tick` is called each time:
        a proxy in between notices by it that its own client has gone.

        Raises:
            OSError: the other side closed before `work` was done, or `work` raised it.
        """
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=PEER_CHECK_S))[0]:
                if not self._is_established():
                    raise ConnectionResetError("the client has gone")
                await tick()
            await task
        finally:
            task.cancel()

    def _is_established(self) -> bool:
        sock: socket.socket | None = self._writer.get_extra_info("socket")
        if self._writer.is_closing() or sock is None:
            return False
        try:
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_ESTABLISHED
        except OSError:
            return False

    async def finish(self, *, linger_s: float) -> None:
        """Say that nothing more will be sent, then wait until the other side closes.

        Closing a socket that has unread input resets it, and a reset throws away what
        the client has not read yet. So only our half is closed, and what still comes is
        read and dropped, until the client has closed too or `linger_s` seconds are over.
        """
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            async with asyncio.timeout(linger_s):
                self._writer.write_eof()
                while await self._reader.read(CHUNK_BYTES):
                    pass

    def abort(self) -> None:
        """Close at once, whatever is still under way."""
        self._writer.transport.abort()
