"""kubectl exec, cp, attach and port-forward, by the real kubectl."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pty
import re
import select
import socket
import struct
import subprocess
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from labkit.cluster import Cluster
from labkit.kube import NAMESPACES, PODS, SERVICE_ACCOUNTS, Client
from labkit.kube.wait import wait_for_pod_running
from labkit.tools import ensure
from labkit.waiting import NotYet, Seen, wait_until

pytestmark = pytest.mark.local

WAIT_S = 30
MIB = 1024 * 1024
NAMESPACE = "test-streaming"

STAY = "trap 'exit 0' TERM; while :; do sleep 0.2; done"
ECHO = "while read line; do echo heard $line; done"

Kubectl = Callable[..., list[str]]


@pytest.fixture(scope="module")
def kubectl(cluster: Cluster, client: Client) -> Iterator[Kubectl]:
    """Build kubectl commands for a namespace where pods `box`, `talker` and `web` run."""
    program = ensure(["kubectl"])["kubectl"]
    client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    wait_until(
        lambda: (
            Seen(True)
            if client.find(SERVICE_ACCOUNTS, "default", namespace=NAMESPACE)
            else NotYet("not there")
        ),
        what="the default service account",
        timeout_s=WAIT_S,
    )
    for name, script in (("box", STAY), ("talker", ECHO)):
        client.create(PODS, pod(name, ["sh", "-c", script]), namespace=NAMESPACE)
    for name in ("box", "talker"):
        wait_for_pod_running(client, name, namespace=NAMESPACE, timeout_s=WAIT_S)

    def command(*args: str) -> list[str]:
        flags = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}"]
        return [str(program), *flags, *args]

    yield command
    client.delete(NAMESPACES, NAMESPACE)


def pod(name: str, command: list[str]) -> dict[str, Any]:
    container = {"name": "main", "image": "any", "stdin": True, "command": command}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def run(command: list[str], data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=data, capture_output=True, timeout=WAIT_S, check=False)


def test_output_errors_and_exit_code_of_exec_arrive(kubectl):
    done = run(kubectl("exec", "box", "--", "sh", "-c", "echo out; echo err >&2; exit 7"))

    assert (done.returncode, done.stdout) == (7, b"out\n")
    assert done.stderr.startswith(b"err\n")


def test_five_megabytes_go_through_exec_and_back_unchanged(kubectl):
    data = os.urandom(5 * MIB)

    assert run(kubectl("exec", "-i", "box", "--", "cat"), data).stdout == data


def test_a_hundred_megabytes_come_out_of_exec_intact(kubectl):
    command = kubectl("exec", "box", "--", "head", "-c", str(100 * MIB), "/dev/zero")
    done = run(command)

    expected = hashlib.sha256(bytes(100 * MIB)).hexdigest()
    assert hashlib.sha256(done.stdout).hexdigest() == expected


def test_cp_brings_a_file_in_and_out_again(kubectl, tmp_path):
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(5 * MIB))
    there = run(kubectl("cp", str(sent), "box:/tmp/from-outside"))
    here = run(kubectl("cp", "box:/tmp/from-outside", str(back)))

    assert (there.returncode, here.returncode) == (0, 0), there.stderr + here.stderr
    assert back.read_bytes() == sent.read_bytes()


def test_attach_speaks_with_the_first_process(kubectl):
    with subprocess.Popen(
        kubectl("attach", "-i", "--quiet", "talker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write(b"a word\n")
        attached.stdin.flush()
        line = attached.stdout.readline()
        attached.kill()

    assert line == b"heard a word\n"


def test_a_client_that_is_killed_takes_its_command_with_it(kubectl):
    script = "echo $$; exec sleep 100"
    with subprocess.Popen(
        kubectl("exec", "box", "--", "sh", "-c", script), stdout=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        pid = client.stdout.readline().decode().strip()
        client.kill()

    def gone() -> Seen[bool] | NotYet:
        # what has ended and waits for its parent to notice has no program any more
        alive = run(kubectl("exec", "box", "--", "test", "-e", f"/proc/{pid}/exe")).returncode == 0
        return NotYet("alive") if alive else Seen(True)

    assert wait_until(gone, what="the command to end", timeout_s=WAIT_S)


def test_a_terminal_has_a_name_a_size_and_an_interrupt(kubectl):
    with Terminal(kubectl("exec", "-it", "box", "--", "sh"), rows=33, cols=111) as terminal:
        # kubectl tells the size after the start, so it may take a moment to arrive.
        terminal.type("tty; while ! stty size | grep '33 111'; do sleep 0.1; done; echo be''fore\n")
        seen = terminal.read_until("before")
        assert re.search(r"/dev/pts/\d+", seen)
        assert "33 111\r\n" in seen

        terminal.resize(rows=44, cols=122)
        terminal.type("while ! stty size | grep '44 122'; do sleep 0.1; done; echo af''ter\n")
        assert "44 122\r\n" in terminal.read_until("after")

        terminal.type("echo la''sts; sleep 100\n")
        terminal.read_until("lasts")
        terminal.type("\x03")
        terminal.type("exit 9\n")
        assert terminal.exit_code() == 9


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_port_forward_reaches_a_server_in_a_pod(kubectl, client, tmp_path, websockets):
    port, name = free_port(), f"web-{websockets}"
    script = f"exec python3 -m http.server {port} --bind 127.0.0.1 --directory /proc/self/task"
    client.create(PODS, pod(name, ["sh", "-c", script]), namespace=NAMESPACE)
    wait_for_pod_running(client, name, namespace=NAMESPACE, timeout_s=WAIT_S)
    # kubectl gives up at the first connection that nobody takes, so the server comes first;
    # pods are on the host's network.
    wait_until(lambda: fetch(port), what="the server in the pod", timeout_s=WAIT_S)
    with forward(kubectl, name, port, tmp_path / "log", websockets) as local:
        wait_until(lambda: fetch(local), what="the pod's answer", timeout_s=WAIT_S)
        answers = [fetch(local) for _ in range(5)]

    assert answers == [Seen(200)] * 5


def test_port_forward_says_that_nothing_listens(kubectl, tmp_path):
    log = tmp_path / "log"
    with forward(kubectl, "box", free_port(), log, "true") as local:
        fetch(local)
        wait_until(
            lambda: Seen(True) if "nothing answers at port" in log.read_text() else NotYet(""),
            what="kubectl to say so",
            timeout_s=WAIT_S,
        )


@contextlib.contextmanager
def forward(kubectl: Kubectl, name: str, port: int, log: Path, websockets: str) -> Iterator[int]:
    environment = {**os.environ, "KUBECTL_PORT_FORWARD_WEBSOCKETS": websockets}
    command = kubectl("port-forward", "--address=127.0.0.1", name, f":{port}")
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process,
    ):

        def look() -> Seen[int] | NotYet:
            found = re.search(r"Forwarding from 127.0.0.1:(\d+)", log.read_text())
            return Seen(int(found[1])) if found else NotYet(log.read_text())

        try:
            yield wait_until(look, what="kubectl to listen", timeout_s=WAIT_S)
        finally:
            process.kill()


def fetch(port: int) -> Seen[int] | NotYet:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=WAIT_S) as answer:
            answer.read()
            return Seen(answer.status)
    except OSError as exc:
        return NotYet(str(exc))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])


class Terminal:
    """A command on a terminal of its own, typed into and read from by a test."""

    def __init__(self, command: list[str], *, rows: int, cols: int) -> None:
        self._master, slave = pty.openpty()
        self.resize(rows=rows, cols=cols)
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *command], stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(WAIT_S)
        os.close(self._master)

    def resize(self, *, rows: int, cols: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_until(self, text: str) -> str:
        seen, end = "", time.monotonic() + WAIT_S
        while text not in seen and time.monotonic() < end:
            if select.select([self._master], [], [], 1.0)[0]:
                seen += os.read(self._master, 4096).decode(errors="replace")
        assert text in seen, seen
        return seen

    def exit_code(self) -> int:
        return self._process.wait(WAIT_S)
