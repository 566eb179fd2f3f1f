import socket
import time
from threading import Event

from labkit.tools import hosts


def test_a_server_that_answers_is_in_reach(server):
    assert hosts.out_of_reach(server.url) == ""
    assert not hosts.known_out_of_reach(server.url)


def test_a_closed_port_is_noticed_and_remembered():
    with socket.socket() as taken:  # bound and not listening: nobody else gets this port
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        assert "refused" in hosts.out_of_reach(url)
        assert hosts.known_out_of_reach(url)


def test_a_resolver_that_hangs_does_not_hang_us(monkeypatch):
    over = Event()

    def hang(*_, **__):
        over.wait(20)
        raise OSError("too late")

    monkeypatch.setattr(hosts, "PROBE_S", 0.1)
    monkeypatch.setattr(socket, "create_connection", hang)
    started = time.monotonic()
    assert "no connection within" in hosts.out_of_reach("https://releases.example.com/x")
    over.set()
    assert hosts.out_of_reach("https://releases.example.com/y")
    assert time.monotonic() - started < 5


def test_behind_a_proxy_nothing_is_probed(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr(socket, "create_connection", None)
    assert hosts.out_of_reach("https://releases.example.com/x") == ""
