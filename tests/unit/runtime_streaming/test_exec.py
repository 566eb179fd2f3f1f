"""exec and attach, with a real WebSocket client and plain processes."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

MIB = 1024 * 1024


def test_output_errors_and_exit_code_arrive_on_their_channels(execute):
    result = execute("sh", "-c", "echo out; echo err >&2; exit 3").finish()

    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3)


def test_success_is_a_status_without_details(execute):
    result = execute("true").finish()

    assert result.status == {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Success",
    }


def test_a_killed_process_reports_128_and_its_signal(execute):
    assert execute("sh", "-c", "kill -9 $$").finish().exit_code == 137


def test_a_command_that_cannot_start_says_why(execute):
    result = execute("true", container="gone").finish()

    assert result.status["message"] == "container gone is not running"
    assert result.exit_code is None


def test_a_backend_that_fails_in_another_way_still_answers(execute):
    result = execute("/no/such/program").finish()

    assert "could not start the command" in result.status["message"]


def test_version_5_can_close_the_input_and_still_reads_the_output(execute):
    client = execute("sort", stdin=True)
    client.send(0, b"b\na\n")
    client.end_input()

    assert client.finish().stdout == b"a\nb\n"


def test_version_4_is_spoken_too(execute):
    client = execute("head", "-n1", stdin=True, subprotocol="v4.channel.k8s.io")
    client.send(0, b"line\n")

    result = client.finish()
    assert (result.stdout, result.exit_code) == (b"line\n", 0)


def test_every_byte_value_passes_both_ways(execute):
    data = bytes(range(256)) * 17
    client = execute("cat", stdin=True)
    client.send(0, data)
    client.end_input()

    assert client.finish().stdout == data


def test_a_fragmented_message_keeps_its_channel(execute):
    client = execute("cat", stdin=True)
    client.socket.send([b"\x00one ", b"two ", b"three"])
    client.end_input()

    assert client.finish().stdout == b"one two three"


def test_100_megabytes_arrive_intact(execute):
    script = (
        "import sys, hashlib\nh = hashlib.sha256()\nb = bytes(range(256)) * 4096\n"
        "for n in range(100):\n    c = b[n:] + b[:n]\n    h.update(c)\n"
        "    sys.stdout.buffer.write(c)\n"
        "sys.stderr.write(h.hexdigest())"
    )
    client = execute(sys.executable, "-c", script)
    digest, size, said = hashlib.sha256(), 0, b""
    for message in client.socket:
        if message[0] == 1:
            digest.update(message[1:])
            size += len(message) - 1
        elif message[0] == 2:
            said += message[1:]

    assert (size, digest.hexdigest()) == (100 * MIB, said.decode())


def test_20_megabytes_of_input_arrive_intact(execute):
    data = os.urandom(MIB) * 20
    client = execute("sha256sum", stdin=True)
    for start in range(0, len(data), 32 * 1024):
        client.send(0, data[start : start + 32 * 1024])
    client.end_input()

    assert client.finish().stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_input_and_output_at_once_do_not_block_each_other(execute):
    client = execute("cat", stdin=True)
    data = os.urandom(8 * MIB)

    def write() -> None:
        for start in range(0, len(data), 32 * 1024):
            client.send(0, data[start : start + 32 * 1024])
        client.end_input()

    writer = threading.Thread(target=write)
    writer.start()
    result = client.finish()
    writer.join(10)

    assert result.stdout == data


def test_a_slow_reader_stops_the_process_rather_than_filling_memory(execute, backend, eventually):
    before = _resident_kib()
    client = execute("head", "-c", "300000000", "/dev/zero")
    client.read()
    process = backend.processes[0]
    written = [-1]

    def stands_still() -> bool:
        written.append(_written_bytes(process.popen.pid))
        return written[-1] > 0 and len(written) > 5 and len(set(written[-4:])) == 1

    eventually(stands_still, "the writer to be held up")
    assert process.popen.poll() is None
    assert written[-1] < 100 * MIB
    assert _resident_kib() - before < 60 * 1024
    client.hang_up()


FLOOD = """
import sys
from websockets.sync.client import connect
url = sys.argv[1].replace("http:", "ws:")
with connect(url, subprotocols=["v5.channel.k8s.io"], compression=None) as socket:
    for number in range(4000):
        socket.send(bytes(32 * 1024))
        print(number, flush=True)
"""


def test_a_process_that_does_not_read_stops_its_client_and_dies_with_it(
    server, backend, eventually, tmp_path
):
    url = server.exec_url("c", ["sleep", "100"], tty=False, stdin=True, stdout=True, stderr=True)
    progress = tmp_path / "sent"
    with progress.open("wb") as out:
        client = subprocess.Popen([sys.executable, "-c", FLOOD, url], stdout=out)
    sizes = [-1]

    def stands_still() -> bool:
        sizes.append(progress.stat().st_size)
        return sizes[-1] > 0 and len(sizes) > 5 and len(set(sizes[-4:])) == 1

    eventually(stands_still, "the client to be held up")
    assert client.poll() is None
    assert not backend.processes[0].killed.is_set()
    client.kill()
    client.wait(10)

    eventually(backend.processes[0].killed.is_set, "the process to be killed")


def test_a_client_that_stops_within_a_message_is_given_up(
    execute, backend, eventually, monkeypatch
):
    monkeypatch.setattr("labkit.runtime.streaming.channels.STALL_S", 0.2)
    client = execute("sleep", "100", stdin=True)
    eventually(lambda: bool(backend.processes), "the command to start")
    client.socket.socket.sendall(bytes([0x82, 0xFE, 0x10, 0x00, 1, 2, 3, 4, 5]))

    eventually(lambda: backend.processes[0].popen.poll() is not None, "the process to end")


def test_a_closed_input_of_the_process_is_no_error(execute):
    client = execute("sh", "-c", "exec 0<&-; echo closed; sleep 0.3; exit 4", stdin=True)
    client.read_until(b"closed")
    for _ in range(20):
        client.send(0, bytes(1024))

    assert client.finish().exit_code == 4


def test_a_client_that_leaves_ends_its_command_and_what_that_started(execute, backend, eventually):
    client = execute("sh", "-c", "sleep 100 & echo $!; wait")
    child = int(client.read_until(b"\n"))
    client.hang_up()

    eventually(lambda: backend.processes[0].popen.poll() is not None, "the shell to end")
    eventually(lambda: not _is_alive(child), "its child to end")


def test_a_client_that_closes_politely_ends_its_command_too(execute, backend, eventually):
    client = execute("sleep", "100")
    eventually(lambda: bool(backend.processes), "the command to start")
    client.close()

    eventually(lambda: backend.processes[0].popen.poll() is not None, "the process to end")


def test_a_client_that_leaves_while_the_command_starts_leaves_nothing(execute, backend, eventually):
    backend.gate = threading.Event()
    client = execute("sleep", "100")
    client.hang_up()
    backend.gate.set()

    eventually(lambda: bool(backend.processes), "the command to start")
    eventually(lambda: backend.processes[0].popen.poll() is not None, "the command to end")


def test_what_a_command_left_in_the_background_lives_on_without_holding_the_client(execute):
    result = execute("sh", "-c", "sleep 100 & echo $!").finish()
    child = int(result.stdout)

    assert _is_alive(child)
    os.kill(child, signal.SIGKILL)


def test_output_that_nobody_asked_for_does_not_block_the_command(execute):
    result = execute("sh", "-c", "head -c 1000000 /dev/zero; exit 5", stdout=False).finish()

    assert (result.stdout, result.exit_code) == (b"", 5)


def test_a_terminal_is_one_and_has_the_size_that_was_asked_for(execute):
    client = execute("sh", "-c", "tty; read go; stty size", tty=True, stdin=True)
    client.read_until(b"/dev/pts/")
    client.resize(width=101, height=37)
    client.send(0, b"go\n")

    result = client.finish()
    assert b"37 101" in result.stdout
    assert result.exit_code == 0


def test_a_resize_in_pieces_and_nonsense_sizes_do_no_harm(execute):
    client = execute("sh", "-c", "echo up; read go; stty size", tty=True, stdin=True)
    client.read_until(b"up")
    client.send(4, b"no json")
    client.send(4, b'{"Width":0,"Height":-1}')
    client.send(4, b'{"Width":"x"}')
    client.socket.send([b'\x04{"Width":90,', b'"Height":', b"30}"])
    client.send(0, b"go\n")

    assert b"30 90" in client.finish().stdout


def test_an_interrupt_typed_into_a_terminal_reaches_the_program(execute):
    client = execute(
        "sh", "-c", "trap 'exit 42' INT; echo up; while :; do sleep 0.1; done", tty=True, stdin=True
    )
    client.read_until(b"up")
    client.send(0, b"\x03")

    assert client.finish().exit_code == 42


def test_a_program_that_reads_a_secret_switches_the_echo_off(execute):
    script = "stty -echo; echo ready; read word; echo got $word"
    client = execute("sh", "-c", script, tty=True, stdin=True)
    client.read_until(b"ready")
    client.send(0, b"hush\n")

    assert client.finish().stdout.count(b"hush") == 1


def test_attach_joins_the_container(attach, backend):
    client = attach("container-7", stdin=True)
    client.send(0, b"hello\n")
    client.read_until(b"hello")
    client.end_input()

    assert client.finish().exit_code == 0
    assert backend.attached == ["container-7"]


def test_ten_sessions_run_at_once(execute):
    clients = [execute("sh", "-c", "read x; echo $x", stdin=True) for _ in range(10)]
    for number, client in enumerate(clients):
        client.send(0, b"%d\n" % number)

    assert [client.finish().stdout for client in clients] == [b"%d\n" % n for n in range(10)]


def test_no_descriptor_is_left_open(execute, eventually):
    execute("true").finish()
    before = _open_descriptors()
    for _ in range(5):
        execute("echo", "x", stdin=True).finish()

    eventually(lambda: _open_descriptors() <= before, "descriptors to be closed")


def _resident_kib() -> int:
    text = Path("/proc/self/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    assert found
    return int(found[1])


def _written_bytes(pid: int) -> int:
    found = re.search(r"wchar: (\d+)", Path(f"/proc/{pid}/io").read_text())
    assert found
    return int(found[1])


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
