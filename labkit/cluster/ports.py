"""Loopback ports that nobody else can take.

A socket that is bound but does not listen keeps its port: others are refused, the kernel
gives it to nobody, and yet a server that sets SO_REUSEADDR, as every Go server does, can
bind it as well and listen. So a port stays ours even while its server is being restarted.
"""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def reserve(port: int = 0) -> socket.socket:
    """A socket that keeps a port, the one named or (0) any free one.

    Raises:
        OSError: somebody else listens on that port.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((LOOPBACK, port))
    except OSError:
        holder.close()
        raise
    return holder


def port_of(holder: socket.socket) -> int:
    """The port that a socket keeps."""
    return int(holder.getsockname()[1])
