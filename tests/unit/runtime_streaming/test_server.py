"""Who is let in, who is turned away, and what is left when the server stops."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from labkit.runtime.streaming import StreamingServer
from labkit.runtime.streaming.http import BadRequest, parse_head
from labkit.runtime.streaming.requests import PortForwardRequest
from labkit.runtime.streaming.tokens import Tokens

UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4"}


def exec_url(server, *argv: str) -> str:
    return server.exec_url("c", argv, tty=False, stdin=False, stdout=True, stderr=True)


def ask(url: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=10)
    try:
        connection.request("GET", place.path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_plain_get_is_told_what_the_address_is_for(server):
    status, text = ask(exec_url(server, "true"))

    assert status == 400
    assert "needs an upgrade to WebSocket" in text


def test_a_plain_get_for_port_forward_is_told_so_too(server):
    status, text = ask(server.port_forward_url("s", []))

    assert status == 400
    assert "SPDY/3.1" in text


def test_an_unknown_token_is_not_found(server):
    url = exec_url(server, "true").rsplit("/", 1)[0] + "/guessed"

    assert ask(url)[0] == 404


def test_a_token_works_once(server):
    url = exec_url(server, "true")
    with connect(url.replace("http:", "ws:"), subprotocols=["v5.channel.k8s.io"]) as client:
        list(client)

    assert ask(url)[0] == 404


def test_exec_over_spdy_is_refused_with_words(server):
    status, text = ask(exec_url(server, "true"), UPGRADE)

    assert status == 400
    assert "v5.channel.k8s.io" in text


def test_a_websocket_of_an_unknown_subprotocol_is_refused(server, backend):
    url = exec_url(server, "true").replace("http:", "ws:")
    with pytest.raises(InvalidStatus) as caught, connect(url, subprotocols=["chat"]):
        pass

    assert caught.value.response.status_code == 400
    assert backend.processes == []


@pytest.mark.parametrize("data", [b"\r\n\r\n", b"\x16\x03\x01 TLS\r\n\r\n", b"GET nowhere\r\n\r\n"])
def test_what_is_no_http_gets_a_400(server, data):
    place = urlsplit(exec_url(server, "true"))
    with socket.create_connection((place.hostname, place.port), timeout=10) as client:
        client.sendall(data)

        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_head_without_end_gets_a_400(server):
    place = urlsplit(exec_url(server, "true"))
    with socket.create_connection((place.hostname, place.port), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 300_000)

        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_only_the_loopback_interface_listens(server):
    assert urlsplit(exec_url(server, "true")).hostname == "127.0.0.1"


def test_stop_ends_commands_and_connections(backend, eventually):
    server = StreamingServer(backend)
    server.start()
    url = exec_url(server, "sleep", "100")
    with connect(url.replace("http:", "ws:"), subprotocols=["v5.channel.k8s.io"]):
        eventually(lambda: bool(backend.processes), "the command to start")
        server.stop()

    assert backend.processes[0].killed.is_set()
    assert backend.processes[0].popen.wait(10) == -9
    with pytest.raises(ConnectionRefusedError):
        ask(url)
    assert not [thread for thread in threading.enumerate() if thread.name == "streaming"]


def test_stop_without_any_client_is_quick_and_may_be_repeated(backend):
    server = StreamingServer(backend)
    server.stop()
    server.start()
    server.stop()
    server.stop()


def test_no_protocol_is_imported_before_the_first_client_comes():
    code = (
        "import sys\nfrom labkit.runtime.streaming import StreamingServer\n"
        "s = StreamingServer(None)\ns.start()\ns.port_forward_url('s', [])\n"
        "print({'asyncio', 'websockets', 'zlib'} & set(sys.modules))\ns.stop()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.stdout == "set()\n", done.stderr


def test_a_token_expires():
    now = [0.0]
    tokens = Tokens(life_s=60, clock=lambda: now[0])
    early, late = (tokens.issue(PortForwardRequest(sandbox_id=name)) for name in ("a", "b"))
    now[0] = 59.0
    assert tokens.take(early) == PortForwardRequest(sandbox_id="a")
    now[0] = 60.0

    assert tokens.take(late) is None


@given(st.binary(max_size=200))
def test_any_bytes_as_a_request_are_read_or_refused(raw):
    try:
        parse_head(raw + b"\r\n\r\n")
    except BadRequest:
        return
