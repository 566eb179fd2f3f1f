"""Whether something that a component waits for is there already."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress

from labkit.cluster.ports import LOOPBACK

_PLAIN = b"GET / HTTP/1.0\r\n\r\n"
"""A TLS server answers this with a plain refusal, which is all we want to hear."""


class Gates:
    """Looks at ``serves:PORT``, ``socket:/path`` and ``file:/path``.

    A server may have its port open long before it answers: the kernel takes connections for
    it. So a question is put once, kept between two looks, and an answer opens the gate.
    """

    def __init__(self) -> None:
        self._asked: dict[str, socket.socket] = {}

    def is_open(self, what: str) -> bool:
        """Whether it is there by now."""
        kind, _, where = what.partition(":")
        if kind == "file":
            return os.path.exists(where)  # noqa: PTH110 - looked at often
        if kind == "socket":
            return _answers(where)
        asked = self._asked.pop(what, None) or _ask(int(where))
        if asked is None:
            return False
        verdict = _heard(asked)
        if verdict is None:
            self._asked[what] = asked
            return False
        asked.close()
        return verdict


def _ask(port: int) -> socket.socket | None:
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        line.settimeout(0.5)
        line.connect((LOOPBACK, port))
        line.sendall(_PLAIN)
    except OSError:
        line.close()
        return None
    return line


def _heard(line: socket.socket) -> bool | None:
    """Whether the server has answered; None while it has not and may yet do so."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    if not poll.poll(0):
        return None
    with suppress(OSError):
        return bool(line.recv(16))
    return False


def _answers(path: str) -> bool:
    # A socket's address has room for 107 bytes only; the way through /proc is always short.
    folder, _, name = path.rpartition("/")
    try:
        handle = os.open(folder, os.O_PATH)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(f"/proc/self/fd/{handle}/{name}") == 0
    finally:
        os.close(handle)
