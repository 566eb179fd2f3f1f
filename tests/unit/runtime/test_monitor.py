"""The monitor with real processes, without runc: its command is the container itself."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.runtime import monitor
from labkit.runtime.records import Container
from labkit.waiting import NotYet, Seen, wait_until


@pytest.fixture
def start(tmp_path):
    children = []

    def run(*command, flags="direct"):
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-E", monitor.__file__, tmp_path, tmp_path / "log", flags,
             *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        children.append(child)
        assert child.stdout.readline() == b"ok\n", child.stderr.read()
        return Container(id="c", folder=tmp_path, sandbox_id="s", config=None, created_at=0)

    yield run
    for child in children:
        child.kill()
        child.communicate(timeout=10)


def ended(container):
    return wait_until(
        lambda: Seen(end) if (end := container.exit()) else NotYet("running"),
        what="its end",
        timeout_s=10,
        interval_s=0.02,
    )


def lines(tmp_path):
    return (tmp_path / "log").read_text().splitlines()


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 42", 42), ("kill -TERM $$", 143), ("kill -9 $$", 137)],
)
def test_the_end_is_noted_with_its_code(start, script, code):
    assert ended(start("sh", "-c", script)).code == code


def test_output_is_logged_as_a_kubelet_reads_it(start, tmp_path):
    ended(start("sh", "-c", "echo out; echo err >&2; printf part"))
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"
    told = sorted(re.sub(stamp, "T", line) for line in lines(tmp_path))
    assert told == ["T stderr F err", "T stdout F out", "T stdout P part"]


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_records_hold_every_byte_once(pieces):
    out = b"".join(monitor.records("stdout", piece, "T") for piece in pieces)
    texts = []
    for line in out.split(b"\n")[:-1]:
        head, kind, text = line.split(b" ", 3)[0], line.split(b" ", 3)[2], line.split(b" ", 3)[3]
        assert head == b"T"
        texts.append(text + (b"\n" if kind == b"F" else b""))
    assert b"".join(texts) == b"".join(pieces)


def test_a_program_that_is_not_there_ends_with_127(start):
    assert ended(start("/no/such/program")).code == 127


def test_what_a_container_leaves_behind_ends_with_it(start, tmp_path):
    container = start("sh", "-c", f"sleep 4321 & echo $! > '{tmp_path}/child'; exit 0")
    ended(container)
    pid = int((tmp_path / "child").read_text())
    wait_until(
        lambda: NotYet("alive") if monitor.ticks(pid) else Seen(True), what="its end", timeout_s=10
    )


def test_a_log_goes_on_in_a_new_file_when_told(start, tmp_path):
    container = start(
        "sh", "-c", f"echo one; until test -e '{tmp_path}/go'; do sleep 0.02; done; echo two"
    )
    wait_until(lambda: Seen(1) if lines(tmp_path) else NotYet("-"), what="a line", timeout_s=10)
    (tmp_path / "log").rename(tmp_path / "log.old")
    assert tell(tmp_path, "reopen") == b"ok"
    (tmp_path / "go").touch()
    ended(container)
    assert [line.split()[-1] for line in lines(tmp_path)] == ["two"]


def test_one_who_attaches_hears_and_speaks(start, tmp_path):
    container = start("cat", flags="direct,stdin,stdin_once")
    (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
    assert tell(tmp_path, "attach stdin,stdout", [read_in, write_out]) == b"ok"
    os.close(read_in)
    os.close(write_out)
    os.write(write_in, b"hello\n")
    os.close(write_in)
    with os.fdopen(read_out, "rb") as file:
        assert file.read() == b"hello\n"
    assert ended(container).code == 0


def test_a_killed_monitor_takes_its_container_along_and_the_end_is_told(start):
    container = start("sleep", "4322")
    run = container.run()
    assert run
    assert run.alive
    import json

    os.kill(json.loads((container.folder / "started").read_text())["monitor"], signal.SIGKILL)
    # Our child is a zombie until it is waited for, which still has its start time.
    wait_until(
        lambda: Seen(1) if os.waitpid(-1, os.WNOHANG)[0] else NotYet("-"), what="it", timeout_s=10
    )
    assert ended(container).code == 255
    wait_until(
        lambda: NotYet("alive") if alive(run.pid) else Seen(True), what="its end", timeout_s=10
    )


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def tell(folder, message, handles=()):
    # A socket's address has room for 107 bytes only.
    place = os.open(folder, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(f"/proc/self/fd/{place}/control")
            socket.send_fds(peer, [message.encode()], list(handles))
            return peer.recv(100)
    finally:
        os.close(place)
