"""Blocking calls, kept away from the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_thread(
    call: Callable[[], T], *, name: str, undo: Callable[[T], object] | None = None
) -> asyncio.Future[T]:
    """Run `call` in a thread of its own, and return a future of its result.

    `undo` is given the result when it comes after the future was cancelled, so that
    what was opened for nobody is closed again; it runs in a thread too.

    A pool would do for short calls, but here each session waits for its process to end,
    and a pool's size would then be the number of sessions. The threads are daemons, so
    that a call which never returns does not keep the runtime alive.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(result: T) -> None:
        if not future.done():
            future.set_result(result)
        elif undo is not None:
            threading.Thread(target=undo, args=(result,), name=name, daemon=True).start()

    def fail(error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    def run() -> None:
        try:
            result = call()
        except BaseException as exc:  # noqa: BLE001  # handed to whoever awaits the future
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(fail, exc)
            return
        try:
            loop.call_soon_threadsafe(deliver, result)
        except RuntimeError:
            if undo is not None:
                undo(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
