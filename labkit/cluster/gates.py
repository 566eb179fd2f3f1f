"""Whether something that a component waits for is there already."""

from __future__ import annotations

import os
import socket

from labkit.cluster import ports


def is_there(what: str) -> bool:
    """Whether ``port:6443`` or ``socket:/path`` answers."""
    kind, _, where = what.partition(":")
    if kind == "port":
        return ports.answers(int(where))
    return _socket_answers(where)


def _socket_answers(path: str) -> bool:
    # A socket's address has room for 107 bytes only; the way through /proc is always short.
    try:
        folder = os.open(os.path.dirname(path), os.O_PATH)  # noqa: PTH120
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            name = os.path.basename(path)  # noqa: PTH119
            return probe.connect_ex(f"/proc/self/fd/{folder}/{name}") == 0
    finally:
        os.close(folder)
