"""A release server whose faults a test chooses, and a cache of the test's own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from labkit.tools import hosts, release
from labkit.tools.catalog import Build, Release, Tool
from labkit.tools.platforms import Platform

BODY = b"#!/bin/sh\necho tool v1.2.3\n" + b"# padding\n" * 20_000
HERE = Platform(system="linux", machine="amd64")


@dataclass
class Server:
    url: str
    body: bytes = BODY
    checksum: str = hashlib.sha256(BODY).hexdigest()
    failures: list[int] = field(default_factory=list)  # statuses to answer first
    sum_failures: list[int] = field(default_factory=list)  # the same for the checksum
    moved_to: str = ""  # answer with a redirect
    cut_at: list[int] = field(default_factory=list)  # how much to send before breaking off
    ranges: bool = True
    requests: list[tuple[str, str]] = field(default_factory=list)
    hold: Event | None = None  # send half, then wait for this
    halfway: Event = field(default_factory=Event)


@pytest.fixture
def server():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            state.requests.append((self.path, wanted))
            if self.path.endswith(".sha256") and state.sum_failures:
                self._send(state.sum_failures.pop(0), b"no")
            elif self.path.endswith(".sha256"):
                self._send(200, state.checksum.encode())
            elif state.moved_to:
                self.send_response(302)
                self.send_header("Location", state.moved_to)
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif state.failures:
                self._send(state.failures.pop(0), b"no")
            else:
                self._file(wanted)

        def _file(self, wanted: str) -> None:
            match = re.fullmatch(r"bytes=(\d+)-", wanted) if state.ranges else None
            start = int(match[1]) if match else 0
            if start >= len(state.body):
                self._send(416, b"")
                return
            self._send(206 if match else 200, state.body[start:])

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            cut = (
                state.cut_at.pop(0)
                if state.cut_at and status in (200, 206) and len(data) > 64
                else None
            )
            if state.hold and len(data) > 64:
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                state.halfway.set()
                state.hold.wait(20)
                return
            self.wfile.write(data[:cut])

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    state = Server(url=f"http://127.0.0.1:{http.server_port}")
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join(5)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "a cache"
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(folder))
    monkeypatch.delenv("LABKIT_BIN_DIR", raising=False)
    monkeypatch.delenv(release.MIRROR_ENV, raising=False)
    monkeypatch.setattr(release, "PAUSE_S", 0.02)
    hosts.forget()
    return folder


class Recorder:
    """A progress display that keeps what it is told."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.notes: list[str] = []
        self.updates: list[tuple[float, float | None, str]] = []

    @contextmanager
    def step(self, title: str) -> Iterator[Recorder]:
        self.titles.append(title)
        yield self

    def update(self, done: float, total: float | None = None, *, unit: str = "") -> None:
        self.updates.append((done, total, unit))

    def note(self, text: str) -> None:
        self.notes.append(text)


def program(folder: Path, version: str, name: str = "tool") -> Path:
    """A binary that knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {name} version v{version}\n")
    path.chmod(0o755)
    return path


def make_tool(url: str, **changes: Any) -> Tool:
    fields: dict[str, Any] = {
        "name": "tool",
        "version": "1.2.3",
        "ask": ("--version",),
        "oldest": (1, 2),
        "before": (1, 3),
        "release": Release(url=f"{url}/tool", checksums=f"{url}/tool.sha256"),
        "build": Build(pins="tool", package="example.com/tool", ldflags=""),
    }
    return Tool(**{**fields, **changes})
