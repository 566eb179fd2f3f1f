"""One at a time for each claim, and all claims beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Turns:
    """A lock per key, which exists only while somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._locks: dict[str, Lock] = {}
        self._users: dict[str, int] = {}

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Hold the lock of a key inside the ``with`` block."""
        with self._guard:
            lock = self._locks.setdefault(key, Lock())
            self._users[key] = self._users.get(key, 0) + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                self._users[key] -= 1
                if not self._users[key]:
                    del self._locks[key], self._users[key]
