"""SPDY/3.1 frames, as far as port-forwarding uses them.

A frame begins with eight bytes: a stream's number, or with the highest bit set the
version and a type; then flags; then a length of 24 bits. Headers are pairs of
length-prefixed texts, compressed by zlib with a dictionary that both sides know and a
state that lasts as long as the connection.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

VERSION: Final = 3
HEAD_BYTES: Final = 8
FIN: Final = 1
"""The flag of a stream's last frame in one direction."""

MAX_CONTROL_BYTES: Final = 64 * 1024
MAX_HEADER_BYTES: Final = 256 * 1024

_CONTROL_BIT: Final = 0x80000000
_ID_MASK: Final = 0x7FFFFFFF
_LENGTH_MASK: Final = 0xFFFFFF


class Kind(IntEnum):
    """The types of control frames that mean something here; others are skipped."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7
    HEADERS = 8


class Reset(IntEnum):
    """Why a stream is reset."""

    PROTOCOL_ERROR = 1
    REFUSED_STREAM = 3
    CANCEL = 5


class ProtocolError(Exception):
    """The bytes that came are no SPDY/3.1, or too much of it."""


class FrameHead(NamedTuple):
    """The first eight bytes of a frame.

    Attributes:
        kind: type of a control frame, or None for data.
        stream_id: the stream that data belongs to; 0 for a control frame.
    """

    kind: int | None
    stream_id: int
    flags: int
    length: int


def parse_head(raw: bytes) -> FrameHead:
    """Take the first eight bytes of a frame apart.

    Raises:
        ProtocolError: another version, or a control frame that is too long.
    """
    first, second = struct.unpack("!II", raw)
    flags, length = second >> 24, second & _LENGTH_MASK
    if not first & _CONTROL_BIT:
        return FrameHead(None, first, flags, length)
    if (first & _ID_MASK) >> 16 != VERSION:
        raise ProtocolError("a frame is not of SPDY version 3")
    if length > MAX_CONTROL_BYTES:
        raise ProtocolError("a control frame is too long")
    return FrameHead(first & 0xFFFF, 0, flags, length)


def parse_id(payload: bytes) -> int:
    """Return the number that most control frames begin with: a stream's, or a ping's.

    Raises:
        ProtocolError: the frame is too short for one.
    """
    if len(payload) < 4:  # noqa: PLR2004
        raise ProtocolError("a control frame is too short")
    return int.from_bytes(payload[:4], "big") & _ID_MASK


def control_frame(kind: Kind, payload: bytes, *, flags: int = 0) -> bytes:
    """Return a whole control frame."""
    first = _CONTROL_BIT | VERSION << 16 | kind
    return struct.pack("!II", first, flags << 24 | len(payload)) + payload


def data_head(stream_id: int, length: int, *, fin: bool = False) -> bytes:
    """Return what goes before `length` bytes of data."""
    return struct.pack("!II", stream_id, (FIN if fin else 0) << 24 | length)


def reset_frame(stream_id: int, why: Reset) -> bytes:
    """Return the frame that ends a stream in both directions, at once."""
    return control_frame(Kind.RST_STREAM, struct.pack("!II", stream_id, why))


class HeaderReader:
    """Unpacks the headers of one connection; every block must pass through it in turn."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zdict=DICTIONARY)

    def read(self, block: bytes) -> dict[str, str]:
        """Return the headers of one block; of a repeated one, the values joined by NUL.

        Raises:
            ProtocolError: it cannot be unpacked, or is too large when unpacked.
        """
        try:
            plain = self._zlib.decompress(block, MAX_HEADER_BYTES)
        except zlib.error as exc:
            raise ProtocolError(f"headers cannot be unpacked: {exc}") from exc
        if self._zlib.unconsumed_tail or len(plain) == MAX_HEADER_BYTES:
            raise ProtocolError("headers are too large")
        try:
            return dict(_pairs(plain))
        except (struct.error, UnicodeDecodeError) as exc:
            raise ProtocolError("headers are cut short") from exc


class HeaderWriter:
    """Packs the headers of one connection, in as little memory as zlib can do with."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(wbits=9, memLevel=1, zdict=DICTIONARY)

    def write(self, headers: Mapping[str, str]) -> bytes:
        """Return one block."""
        plain = struct.pack("!I", len(headers))
        for name, value in headers.items():
            plain += _prefixed(name.lower()) + _prefixed(value)
        return self._zlib.compress(plain) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


def _prefixed(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("!I", len(raw)) + raw


def _pairs(plain: bytes) -> list[tuple[str, str]]:
    (count,) = struct.unpack_from("!I", plain)
    offset, pairs = 4, []
    for _ in range(count):
        name, offset = _text_at(plain, offset)
        value, offset = _text_at(plain, offset)
        pairs.append((name.lower(), value))
    return pairs


def _text_at(plain: bytes, offset: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("!I", plain, offset)
    start, end = offset + 4, offset + 4 + length
    if end > len(plain):
        raise struct.error
    return plain[start:end].decode(), end


# The dictionary of the SPDY/3 specification: common header texts with their lengths,
# then the tails of some. Both sides must have exactly these bytes.
_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base "
    "content-encoding content-language content-length content-location content-md5 "
    "content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location "
    "max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after "
    "server te trailer transfer-encoding upgrade user-agent vary via warning "
    "www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAILS: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00"
    " Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(_prefixed(word.replace("_", " ")) for word in _WORDS.split()) + _TAILS.encode()
)
