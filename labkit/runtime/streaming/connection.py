"""One client, from the head of its request to the end of its session."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from http import HTTPStatus

from labkit.runtime.backend import Backend
from labkit.runtime.streaming.channels import V4, V5, ChannelSocket
from labkit.runtime.streaming.command import run_command
from labkit.runtime.streaming.forward import forward_channels, forward_streams
from labkit.runtime.streaming.http import BadRequest, RequestHead, read_head, refusal, switching
from labkit.runtime.streaming.requests import PortForwardRequest, StreamRequest
from labkit.runtime.streaming.tokens import Tokens
from labkit.runtime.streaming.wire import Wire

log = logging.getLogger(__name__)

HEAD_TIMEOUT_S = 10.0
"""Seconds that a client has to send the head of its request."""

REFUSAL_LINGER_S = 2.0

SPDY = "SPDY/3.1"
WEBSOCKET = "websocket"
PROTOCOL_HEADER = "X-Stream-Protocol-Version"
PORT_FORWARD_PROTOCOL = "portforward.k8s.io"


class Refused(Exception):
    """The client asked for something that it cannot have."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


async def serve_client(
    backend: Backend, tokens: Tokens, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one client; raises nothing but cancellation."""
    wire = Wire(reader, writer)
    try:
        await _serve(backend, tokens, reader, wire)
    except Refused as exc:
        log.info("refused a streaming client: %s", exc)
        with contextlib.suppress(OSError):
            await wire.write(refusal(exc.status, str(exc)))
            await wire.finish(linger_s=REFUSAL_LINGER_S)
    except OSError:
        log.debug("a streaming client has gone")
    except Exception:
        log.exception("a streaming session failed")
    finally:
        wire.abort()


async def _serve(
    backend: Backend, tokens: Tokens, reader: asyncio.StreamReader, wire: Wire
) -> None:
    try:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await read_head(reader)
    except BadRequest as exc:
        raise Refused(HTTPStatus.BAD_REQUEST, str(exc)) from exc
    except TimeoutError as exc:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "no request came in time") from exc
    request = tokens.take(head.path.removeprefix("/"))
    if request is None:
        raise Refused(HTTPStatus.NOT_FOUND, "no such session: it was used, or has expired")
    if head.wants_upgrade_to(WEBSOCKET):
        await _serve_websocket(backend, request, head, wire)
    elif head.wants_upgrade_to(SPDY) and isinstance(request, PortForwardRequest):
        await _serve_spdy(backend, request, head, wire)
    else:
        raise Refused(HTTPStatus.BAD_REQUEST, _what_it_takes(request))


def _what_it_takes(request: StreamRequest) -> str:
    if isinstance(request, PortForwardRequest):
        return f"this address needs an upgrade to {SPDY} ({PORT_FORWARD_PROTOCOL}) or WebSocket"
    return f"this address needs an upgrade to WebSocket ({V5} or {V4})"


async def _serve_websocket(
    backend: Backend, request: StreamRequest, head: RequestHead, wire: Wire
) -> None:
    wanted = (V4,) if isinstance(request, PortForwardRequest) else (V5, V4)
    socket = await ChannelSocket.accept(wire, head, wanted)
    if socket is None:
        await wire.finish(linger_s=REFUSAL_LINGER_S)
    elif isinstance(request, PortForwardRequest):
        await forward_channels(backend, request, socket)
    else:
        await run_command(backend, request, socket, wire)


async def _serve_spdy(
    backend: Backend, request: PortForwardRequest, head: RequestHead, wire: Wire
) -> None:
    if PORT_FORWARD_PROTOCOL not in head.values(PROTOCOL_HEADER):
        reason = f"{PROTOCOL_HEADER} names no version that we speak: {PORT_FORWARD_PROTOCOL}"
        raise Refused(HTTPStatus.FORBIDDEN, reason)
    await wire.write(switching(SPDY, ((PROTOCOL_HEADER, PORT_FORWARD_PROTOCOL),)))
    await forward_streams(backend, request.sandbox_id, wire)
