"""A queue of bytes with a limit, between one task that fills and one that empties it."""

from __future__ import annotations

import asyncio
from collections import deque

INBOX_BYTES = 256 * 1024
"""How much may wait in one queue before its sender has to wait."""


class Inbox:
    """Bytes on their way from a client to a socket."""

    def __init__(self, limit: int = INBOX_BYTES) -> None:
        self._limit = limit
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._dropped = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_full(self) -> bool:
        """Whether the sender should wait before it puts more."""
        return self._size >= self._limit

    def put(self, data: bytes) -> None:
        """Add `data`; the limit is the caller's to keep, by `wait_for_room`."""
        if data and not self._ended:
            self._parts.append(data)
            self._size += len(data)
            self._tell()

    def end(self) -> None:
        """Say that nothing more will come; what is queued can still be read."""
        self._ended = True
        self._tell()

    def drop(self) -> None:
        """Throw away what is queued and what still comes; `get` then raises."""
        self._dropped = self._ended = True
        self._parts.clear()
        self._size = 0
        self._tell()

    async def wait_for_room(self) -> None:
        """Wait until the reader has caught up."""
        await self._room.wait()

    async def get(self) -> bytes:
        """Return the next bytes, or nothing when the sender has ended.

        Raises:
            ConnectionResetError: the queue was dropped.
        """
        while not self._parts and not self._ended:
            self._filled.clear()
            await self._filled.wait()
        if self._dropped:
            raise ConnectionResetError("the stream was reset")
        if not self._parts:
            return b""
        data = self._parts.popleft()
        self._size -= len(data)
        self._tell()
        return data

    def _tell(self) -> None:
        self._filled.set()
        if self.is_full:
            self._room.clear()
        else:
            self._room.set()
