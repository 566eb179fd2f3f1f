"""The head of an HTTP/1.1 request, and the two kinds of answer we give."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

MAX_HEAD_BYTES = 32 * 1024
"""A longer request head is refused; client certificates never travel in it."""


class BadRequest(Exception):
    """The bytes that came are no request that we understand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """One request without its body.

    Attributes:
        raw: the head as it came, for a protocol library that wants to parse it itself.
        headers: names in lower case, in the order in which they came.
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    raw: bytes

    def values(self, name: str) -> list[str]:
        """Return the comma-separated values of every header called `name`."""
        lines = [value for key, value in self.headers if key == name.lower()]
        return [part.strip() for line in lines for part in line.split(",") if part.strip()]

    def wants_upgrade_to(self, protocol: str) -> bool:
        """Whether the client asks to go on in `protocol` instead of HTTP."""
        asked = {value.lower() for value in self.values("upgrade")}
        hops = {value.lower() for value in self.values("connection")}
        return protocol.lower() in asked and "upgrade" in hops


async def read_head(reader: asyncio.StreamReader) -> RequestHead:
    """Read up to the empty line that ends a request's head.

    Raises:
        BadRequest: it is too long, cut off, or no HTTP at all.
    """
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as exc:
        raise BadRequest("no complete HTTP request head came") from exc
    if len(raw) > MAX_HEAD_BYTES:
        raise BadRequest("the request head is too long")
    return parse_head(raw)


def parse_head(raw: bytes) -> RequestHead:
    """Take a request head apart.

    Raises:
        BadRequest: it is no HTTP/1.1 request head.
    """
    first, *rest = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[1].startswith("/") or not parts[2].startswith("HTTP/1."):  # noqa: PLR2004
        raise BadRequest("the first line is no HTTP/1.1 request")
    headers = []
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest("a header line has no name")
        headers.append((name.lower(), value.strip()))
    path = parts[1].partition("?")[0]
    return RequestHead(method=parts[0], path=path, headers=tuple(headers), raw=raw)


def refusal(
    status: HTTPStatus, reason: str = "", headers: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """Return a complete answer that ends the connection."""
    body = (reason or status.phrase).encode() + b"\n"
    extra = (
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
        *headers,
    )
    return _head(status, extra) + body


def switching(protocol: str, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Return the answer after which both sides speak `protocol`."""
    return _head(
        HTTPStatus.SWITCHING_PROTOCOLS,
        (("Connection", "Upgrade"), ("Upgrade", protocol), *headers),
    )


def _head(status: HTTPStatus, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{k}: {v}" for k, v in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
