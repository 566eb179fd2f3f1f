"""Tokens that admit one client, once, soon."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

from labkit.runtime.streaming.requests import StreamRequest

TOKEN_LIFE_S = 60.0
"""Seconds until a URL that nobody came for stops working."""

TOKEN_BYTES = 24


class Tokens:
    """Requests under unguessable names, each to be taken once before it expires.

    Every user of the machine can reach a loopback port, so the token in the URL is what
    keeps the others out.
    """

    def __init__(
        self, *, life_s: float = TOKEN_LIFE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._life_s = life_s
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[float, StreamRequest]] = {}

    def issue(self, request: StreamRequest) -> str:
        """Return a new token for `request`."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with self._lock:
            self._forget_expired()
            self._waiting[token] = (self._clock() + self._life_s, request)
        return token

    def take(self, token: str) -> StreamRequest | None:
        """Return what `token` stands for, and make it worthless; None when it is already."""
        with self._lock:
            self._forget_expired()
            found = self._waiting.pop(token, None)
        return found[1] if found else None

    def _forget_expired(self) -> None:
        now = self._clock()
        for token in [name for name, (end, _) in self._waiting.items() if end <= now]:
            del self._waiting[token]
