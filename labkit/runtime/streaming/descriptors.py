"""Pipes, sockets and terminals, read and written without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

CHUNK_BYTES = 64 * 1024
"""How much is read at a time; also what a pipe holds on Linux."""


async def read_some(fd: int) -> bytes:
    """Return what can be read from `fd`, or nothing at its end.

    A terminal whose other side has closed answers EIO, which is its way to end.
    """
    while True:
        await _ready(fd, reading=True)
        try:
            return os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            continue
        except OSError:
            return b""


def write_now(fd: int, data: bytes) -> bytes:
    """Write what fits without waiting, and return the rest.

    Raises:
        OSError: nobody reads at the other end any more.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            break
    return bytes(view)


async def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, for as long as that takes.

    Raises:
        OSError: nobody reads at the other end any more.
    """
    while data:
        await _ready(fd, reading=False)
        data = write_now(fd, data)


async def _ready(fd: int, *, reading: bool) -> None:
    loop = asyncio.get_running_loop()
    add: Callable[..., None] = loop.add_reader if reading else loop.add_writer
    remove: Callable[[int], object] = loop.remove_reader if reading else loop.remove_writer
    future: asyncio.Future[None] = loop.create_future()
    add(fd, _settle, future)
    try:
        await future
    finally:
        remove(fd)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
