"""port-forward over SPDY/3.1 and over WebSocket, to real sockets."""

from __future__ import annotations

import os
import socket
import threading

import pytest
from websockets.sync.client import connect

MIB = 1024 * 1024


def echo(conn: socket.socket) -> None:
    while data := conn.recv(65536):
        conn.sendall(data)
    conn.shutdown(socket.SHUT_WR)


def swallow_then_answer(conn: socket.socket) -> None:
    """Answer only when the other side has ended: its half-close must arrive."""
    size = 0
    while data := conn.recv(65536):
        size += len(data)
    conn.sendall(b"%d bytes" % size)


def test_bytes_pass_both_ways_and_a_half_close_arrives(spdy, pod_port):
    client = spdy()
    client.open_pair(1, pod_port(swallow_then_answer))
    client.data(3, b"x" * 1000)
    client.data(3, b"y" * 234, fin=True)

    assert client.until_ended(1, 3) == {1: b"", 3: b"1234 bytes"}


def test_many_connections_share_one_wire(spdy, pod_port):
    client, port = spdy(), pod_port(echo)
    for number in range(20):
        client.open_pair(1 + 4 * number, port, request=str(number))
    for number in range(20):
        client.data(3 + 4 * number, b"I am %d" % number, fin=True)
    said = client.until_ended(*range(1, 81, 2))

    assert [said[3 + 4 * number] for number in range(20)] == [b"I am %d" % n for n in range(20)]


def test_20_megabytes_come_back_intact(spdy, pod_port):
    client, data = spdy(), os.urandom(20 * MIB)
    client.open_pair(1, pod_port(echo))

    def write() -> None:
        for start in range(0, len(data), 32 * 1024):
            client.data(3, data[start : start + 32 * 1024])
        client.data(3, b"", fin=True)

    writer = threading.Thread(target=write)
    writer.start()
    said = client.until_ended(1, 3)
    writer.join(10)

    assert said[3] == data


def test_a_port_where_nothing_listens_is_told_on_the_error_stream(spdy):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    client = spdy()
    client.open_pair(1, port)
    said = client.until_ended(1, 3)

    assert f"nothing answers at port {port} of the pod" in said[1].decode()


def test_a_pod_that_has_gone_is_told_on_the_error_stream(spdy):
    client = spdy("gone")
    client.open_pair(1, 80)

    assert client.until_ended(1, 3)[1] == b"pod gone is not running"


def test_streams_without_request_numbers_are_paired_by_their_own(spdy, pod_port):
    client, port = spdy(), str(pod_port(echo))
    client.open(1, streamtype="error", port=port)
    client.open(3, streamtype="data", port=port)
    client.frame(), client.frame()
    client.data(3, b"old", fin=True)

    assert client.until_ended(1, 3)[3] == b"old"


@pytest.mark.parametrize(
    "headers",
    [
        {"streamtype": "data"},
        {"streamtype": "data", "port": "0"},
        {"streamtype": "data", "port": "65536"},
        {"streamtype": "data", "port": "http"},
        {"streamtype": "video", "port": "80"},
    ],
)
def test_a_stream_that_makes_no_sense_is_reset_and_the_others_live(spdy, pod_port, headers):
    client = spdy()
    client.open(1, **headers)
    assert client.frame()[:2] == ("reset", 1)

    client.open_pair(3, pod_port(echo))
    client.data(5, b"still here", fin=True)
    assert client.until_ended(3, 5)[5] == b"still here"


def greeted(spdy, pod_port):
    """A client whose connection the pod has greeted, and when that connection ends."""
    ended = threading.Event()

    def wait_for_end(conn: socket.socket) -> None:
        conn.sendall(b"hello")
        try:
            conn.recv(1)
        finally:
            ended.set()

    client = spdy()
    client.open_pair(1, pod_port(wait_for_end))
    assert client.frame()[2] == b"hello"
    return client, ended


def test_a_reset_closes_the_connection_to_the_pod(spdy, pod_port):
    client, ended = greeted(spdy, pod_port)
    client.control(3, (3).to_bytes(4, "big") + (5).to_bytes(4, "big"))

    assert ended.wait(10)


def test_a_client_that_leaves_closes_its_connections(spdy, pod_port):
    client, ended = greeted(spdy, pod_port)
    client.close()

    assert ended.wait(10)


def test_pings_are_answered_and_other_control_frames_skipped(spdy):
    client = spdy()
    client.control(4, bytes(4))  # SETTINGS
    client.control(9, bytes(8))  # WINDOW_UPDATE
    client.control(6, (2).to_bytes(4, "big"))  # an answer to a ping of ours
    client.control(6, (7).to_bytes(4, "big"))

    assert client.frame()[:2] == ("ping", 7)


@pytest.mark.parametrize("kind", [1, 6, 8])
def test_a_broken_frame_ends_the_connection(spdy, kind):
    client = spdy()
    client.control(kind, b"\x00")

    assert client.frame()[0] == "closed"


def test_another_stream_protocol_is_refused(spdy):
    assert spdy(protocol="portforward.example.com").status == b"403"


def test_a_websocket_client_names_its_ports_up_front(server, pod_port):
    first, second = pod_port(echo), pod_port(swallow_then_answer)
    url = server.port_forward_url("s", [first, second]).replace("http:", "ws:")
    with connect(url, subprotocols=["v4.channel.k8s.io"], compression=None) as client:
        for channel, port in ((0, first), (1, first), (2, second), (3, second)):
            assert client.recv(10) == bytes([channel]) + port.to_bytes(2, "little")
        client.send(b"\x00over here")

        assert client.recv(10) == b"\x00over here"


def test_a_websocket_client_hears_of_a_pod_that_has_gone(server):
    url = server.port_forward_url("gone", [80]).replace("http:", "ws:")
    with connect(url, subprotocols=["v4.channel.k8s.io"], compression=None) as client:
        messages = list(client)

    assert messages[-1] == b"\x01pod gone is not running"
