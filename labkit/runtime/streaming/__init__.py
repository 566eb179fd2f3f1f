"""The server behind `kubectl exec`, `attach`, `cp` and `port-forward`.

The kubelet asks the runtime for a URL and then joins its client to that URL byte by
byte. So the last hop is a small HTTP server of the runtime's own, which speaks the two
wires that clients bring with them::

    requests, tokens   who may ask for what, once
    server             the listening socket and its thread
    connection         one client: the head of its request, then one of the sessions
    http, wire         HTTP heads and refusals; a TCP connection with back-pressure
    channels           one wire: WebSocket messages that begin with a channel's number
    command, status    exec and attach: a process and a client, joined
    spdy, streams      the other wire: SPDY/3.1 frames, and a connection full of streams
    forward            port-forward: streams and TCP connections, joined

Only `server`, `requests` and `tokens` are imported with this package. The rest, with
asyncio and the WebSocket library, waits for the first client: most nodes never see one.
"""

from __future__ import annotations

from labkit.runtime.streaming.server import StreamingServer

__all__ = ["StreamingServer"]
