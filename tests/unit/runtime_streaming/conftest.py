"""A runtime of plain processes, and clients that speak to its streaming server."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import termios
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import pytest
from websockets.sync.client import ClientConnection, connect

from labkit.errors import LabError, WaitTimedOut
from labkit.runtime.streaming import StreamingServer
from labkit.runtime.streaming.spdy import DICTIONARY
from labkit.waiting import NotYet, Seen, wait_until


class FakeProcess:
    """A plain process in a process group of its own."""

    def __init__(self, argv: list[str], *, tty: bool, stdin: bool) -> None:
        self.pty: int | None = None
        self.stdin: BinaryIO | None = None
        self.stdout: BinaryIO | None = None
        self.stderr: BinaryIO | None = None
        self.killed = threading.Event()
        if tty:
            self.pty, slave = pty.openpty()
            self.popen = subprocess.Popen(
                argv,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
            )
            os.close(slave)
            return
        pipe = subprocess.PIPE
        self.popen = subprocess.Popen(
            argv,
            stdin=pipe if stdin else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
        self.stdin, self.stdout, self.stderr = (
            self.popen.stdin,
            self.popen.stdout,
            self.popen.stderr,
        )

    def resize(self, rows: int, cols: int) -> None:
        if self.pty is not None:
            fcntl.ioctl(self.pty, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
            os.killpg(self.popen.pid, signal.SIGWINCH)

    def wait(self, timeout_s: float | None = None) -> int:
        try:
            code = self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired as exc:
            raise WaitTimedOut("it to end", waited_s=timeout_s or 0.0, last_state="runs") from exc
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        self.killed.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)


@dataclass
class FakeBackend:
    """Runs whatever is asked for, and remembers it."""

    processes: list[FakeProcess] = field(default_factory=list)
    attached: list[str] = field(default_factory=list)
    gate: threading.Event | None = None

    def open_exec(
        self, container_id: str, argv: list[str], *, tty: bool, stdin: bool
    ) -> FakeProcess:
        if self.gate is not None:
            self.gate.wait(10)
        if container_id == "gone":
            raise LabError("container gone is not running", hint="start it")
        process = FakeProcess(argv, tty=tty, stdin=stdin)
        self.processes.append(process)
        return process

    def open_attach(self, container_id: str, *, tty: bool, stdin: bool) -> FakeProcess:
        self.attached.append(container_id)
        return self.open_exec(container_id, ["cat"], tty=tty, stdin=stdin)

    def port_forward_address(self, sandbox_id: str, port: int) -> tuple[str, int]:
        if sandbox_id == "gone":
            raise LabError("pod gone is not running")
        return "127.0.0.1", port


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def server(backend: FakeBackend) -> Iterator[StreamingServer]:
    server = StreamingServer(backend)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        for process in backend.processes:
            process.kill()
            process.popen.wait(10)
            for file in (process.stdin, process.stdout, process.stderr):
                if file is not None:
                    file.close()


class Client:
    """What `kubectl exec` does on its WebSocket, one step at a time."""

    def __init__(self, url: str, subprotocol: str = "v5.channel.k8s.io") -> None:
        self._stack = contextlib.ExitStack()
        self.socket: ClientConnection = self._stack.enter_context(
            connect(
                url.replace("http:", "ws:"),
                subprotocols=[subprotocol],  # type: ignore[list-item]
                compression=None,
                max_size=None,
            )
        )

    def send(self, channel: int, data: bytes) -> None:
        self.socket.send(bytes([channel]) + data)

    def end_input(self) -> None:
        self.send(255, b"\x00")

    def resize(self, *, width: int, height: int) -> None:
        self.send(4, json.dumps({"Width": width, "Height": height}).encode())

    def read(self, timeout_s: float = 20.0) -> tuple[int, bytes]:
        message = self.socket.recv(timeout_s)
        assert isinstance(message, bytes)
        return message[0], message[1:]

    def close(self) -> None:
        self._stack.close()

    def hang_up(self) -> None:
        """Be gone without a word, as after a crash."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)

    def read_until(self, text: bytes) -> bytes:
        seen = b""
        while text not in seen:
            channel, data = self.read()
            assert channel == 1, (channel, data)
            seen += data
        return seen

    def finish(self) -> Result:
        """Read to the end."""
        output = {1: b"", 2: b"", 3: b""}
        for message in self.socket:
            assert isinstance(message, bytes)
            output[message[0]] += message[1:]
        self.close()
        assert self.socket.close_code == 1000
        return Result(stdout=output[1], stderr=output[2], status=json.loads(output[3]))


@dataclass
class Result:
    stdout: bytes
    stderr: bytes
    status: dict[str, Any]

    @property
    def exit_code(self) -> int | None:
        if self.status["status"] == "Success":
            return 0
        if self.status.get("reason") != "NonZeroExitCode":
            return None
        return int(self.status["details"]["causes"][0]["message"])


ExecOpener = Callable[..., Client]


@pytest.fixture
def execute(server: StreamingServer) -> Iterator[ExecOpener]:
    clients: list[Client] = []

    def execute(
        *argv: str,
        tty: bool = False,
        stdin: bool = False,
        stdout: bool = True,
        stderr: bool = True,
        subprotocol: str = "v5.channel.k8s.io",
        container: str = "c",
    ) -> Client:
        url = server.exec_url(container, argv, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr)
        clients.append(Client(url, subprotocol))
        return clients[-1]

    yield execute
    for client in clients:
        client.close()


@pytest.fixture
def attach(server: StreamingServer) -> Iterator[ExecOpener]:
    clients: list[Client] = []

    def attach(container: str, *, tty: bool = False, stdin: bool = False) -> Client:
        url = server.attach_url(container, tty=tty, stdin=stdin, stdout=True, stderr=True)
        clients.append(Client(url))
        return clients[-1]

    yield attach
    for client in clients:
        client.close()


class SpdyClient:
    """A SPDY/3.1 client with frames put together by hand, as kubectl sends them."""

    def __init__(self, url: str, *, protocol: str = "portforward.k8s.io") -> None:
        place = urlsplit(url)
        self.socket = socket.create_connection((place.hostname, place.port), timeout=20)
        self.socket.sendall(
            f"POST {place.path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
            f"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {protocol}\r\n\r\n".encode()
        )
        self.file = self.socket.makefile("rb")
        self.status = self.file.readline().split()[1]
        while self.file.readline() not in (b"\r\n", b""):
            pass
        self._compress = zlib.compressobj(zdict=DICTIONARY)
        self._decompress = zlib.decompressobj(zdict=DICTIONARY)

    def control(self, kind: int, payload: bytes, flags: int = 0) -> None:
        head = struct.pack("!HHI", 0x8003, kind, flags << 24 | len(payload))
        self.socket.sendall(head + payload)

    def open(self, stream_id: int, **headers: str) -> None:
        plain = struct.pack("!I", len(headers))
        for text in (text for pair in headers.items() for text in pair):
            plain += struct.pack("!I", len(text)) + text.encode()
        block = self._compress.compress(plain) + self._compress.flush(zlib.Z_SYNC_FLUSH)
        self.control(1, struct.pack("!IIBB", stream_id, 0, 0, 0) + block)

    def open_pair(self, first_id: int, port: int, request: str = "0") -> None:
        """Open an error stream, ended at once, and a data stream after it."""
        self.open(first_id, streamtype="error", port=str(port), requestid=request)
        assert self.frame() == ("reply", first_id, b"", False)
        self.data(first_id, b"", fin=True)
        self.open(first_id + 2, streamtype="data", port=str(port), requestid=request)
        assert self.frame() == ("reply", first_id + 2, b"", False)

    def data(self, stream_id: int, data: bytes, *, fin: bool = False) -> None:
        self.socket.sendall(struct.pack("!II", stream_id, int(fin) << 24 | len(data)) + data)

    def frame(self) -> tuple[str, int, bytes, bool]:
        """Return kind, number, data and whether it was the last one of the next frame."""
        head = self.file.read(8)
        if not head:
            return ("closed", 0, b"", True)
        first, second = struct.unpack("!II", head)
        fin, length = bool(second >> 24 & 1), second & 0xFFFFFF
        payload = self.file.read(length)
        if not first >> 31:
            return ("data", first, payload, fin)
        number = int.from_bytes(payload[:4], "big")
        kind = {2: "reply", 3: "reset", 6: "ping"}[first & 0xFFFF]
        if kind == "reply":
            assert self._decompress.decompress(payload[4:]) == b"\0\0\0\0"
        return (kind, number, b"", fin)

    def until_ended(self, *stream_ids: int) -> dict[int, bytes]:
        """Read until all these streams have ended, and return what each of them said."""
        said = dict.fromkeys(stream_ids, b"")
        open_ids = set(stream_ids)
        while open_ids:
            kind, number, data, fin = self.frame()
            assert kind == "data", (kind, number)
            said[number] += data
            if fin:
                open_ids.discard(number)
        return said

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def spdy(server: StreamingServer) -> Iterator[Callable[..., SpdyClient]]:
    clients: list[SpdyClient] = []

    def dial(sandbox: str = "s", **options: str) -> SpdyClient:
        clients.append(SpdyClient(server.port_forward_url(sandbox, []), **options))
        return clients[-1]

    yield dial
    for client in clients:
        client.close()


@pytest.fixture
def pod_port() -> Iterator[Callable[[Callable[[socket.socket], None]], int]]:
    """Serve one connection after another on a free port, as a program in a pod would."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def serve(handle: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def one(conn: socket.socket) -> None:
            with conn, contextlib.suppress(OSError):
                conn.settimeout(20)
                handle(conn)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    conn, _ = listener.accept()
                    threads.append(threading.Thread(target=one, args=(conn,), daemon=True))
                    threads[-1].start()

        threads.append(threading.Thread(target=accept, daemon=True))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield serve
    for listener in listeners:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for thread in threads:
        thread.join(5)


def eventually(condition: Callable[[], bool], what: str) -> None:
    wait_until(lambda: Seen(True) if condition() else NotYet("no"), what=what, timeout_s=10)


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[[Callable[[], bool], str], None]:
    return eventually
