"""A fake API server: a real HTTP server whose answers a test scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from labkit.kube.client import Client
from labkit.kube.kubeconfig import Access


@dataclass
class Request:
    method: str
    path: str
    params: dict[str, str]
    body: Any
    content_type: str


@dataclass
class Answer:
    """One answer; `lines` are sent as a stream, and then the connection is closed."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    lines: list[Any] | None = None
    hang: Any = None  # an Event: keep the stream open until it is set


class FakeApi:
    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Answer] = lambda _: Answer(status=500)

    def script(self, *answers: Answer) -> None:
        """Answer one request after the other; the last answer repeats."""
        left = list(answers)
        self.answer = lambda _: left.pop(0) if len(left) > 1 else left[0]

    def client(self, **options: Any) -> Client:
        return Client(
            Access(server=self.url, namespace="default", verify=False, headers={}), **options
        )


@pytest.fixture
def api():
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            request = Request(
                self.command,
                url.path,
                {key: values[0] for key, values in parse_qs(url.query).items()},
                json.loads(body) if body else None,
                self.headers.get("Content-Type", ""),
            )
            fake.requests.append(request)
            self.send(fake.answer(request))

        def send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.lines is None:
                data = json.dumps(answer.body).encode()
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return
            self.send_header("Connection", "close")
            self.end_headers()
            for line in answer.lines:
                self.wfile.write(json.dumps(line).encode() + b"\n")
                self.wfile.flush()
            if answer.hang:
                answer.hang.wait(10)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    fake = FakeApi(server)
    yield fake
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def client(api):
    with api.client(timeout_s=5) as client:
        yield client


def slice_(name: str, version: int, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        **more,
    }


def listing(version: int, *items: dict[str, Any]) -> Answer:
    return Answer({"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def failure(status: int, reason: str, message: str = "no", **more: Any) -> Answer:
    body = {"kind": "Status", "code": status, "reason": reason, "message": message, **more}
    return Answer(body, status=status)
