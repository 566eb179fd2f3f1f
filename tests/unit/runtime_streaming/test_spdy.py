"""SPDY/3.1 frames by themselves."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.runtime.streaming.spdy import (
    DICTIONARY,
    MAX_HEADER_BYTES,
    FrameHead,
    HeaderReader,
    HeaderWriter,
    Kind,
    ProtocolError,
    control_frame,
    data_head,
    parse_head,
)

NAMES = st.text(st.characters(categories=["Ll"], max_codepoint=127), min_size=1, max_size=20)


def test_the_dictionary_is_the_one_of_the_specification():
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(st.lists(st.dictionaries(NAMES, st.text(max_size=50), max_size=5), max_size=5))
def test_headers_come_back_block_after_block(blocks):
    writer, reader = HeaderWriter(), HeaderReader()

    assert [reader.read(writer.write(block)) for block in blocks] == blocks


@given(st.binary(max_size=100))
def test_any_bytes_as_headers_are_read_or_refused(block):
    try:
        HeaderReader().read(block)
    except ProtocolError:
        return


def test_headers_that_unpack_to_too_much_are_refused():
    packer = zlib.compressobj(zdict=DICTIONARY)
    bomb = packer.compress(bytes(MAX_HEADER_BYTES * 4)) + packer.flush(zlib.Z_SYNC_FLUSH)

    with pytest.raises(ProtocolError, match="too large"):
        HeaderReader().read(bomb)


@given(st.integers(1, 2**31 - 1), st.integers(0, 2**24 - 1), st.booleans())
def test_the_head_of_data_comes_back(stream_id, length, fin):
    head = parse_head(data_head(stream_id, length, fin=fin))

    assert head == FrameHead(None, stream_id, int(fin), length)


def test_the_head_of_a_control_frame_comes_back():
    assert parse_head(control_frame(Kind.PING, b"abcd")[:8]) == FrameHead(Kind.PING, 0, 0, 4)


def test_another_version_is_refused():
    with pytest.raises(ProtocolError, match="version"):
        parse_head(bytes([0x80, 2, 0, 6, 0, 0, 0, 4]))
