"""The small parts: processes, ports, gates, leases, locks, records, logs, removal."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.cluster import creator, lease, logs, nodespace, ports, processes, records
from labkit.cluster.gates import Gates
from labkit.cluster.layout import Layout
from labkit.cluster.lease import Lease
from labkit.cluster.processes import Process
from labkit.cluster.removal import remove
from labkit.errors import BadInput, ClusterError, WaitTimedOut
from labkit.files import write_atomically


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "ein Größen-Ordner" / "lab")
    layout.run.mkdir(parents=True)
    layout.logs.mkdir()
    return layout


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child
        child.kill()


def of(child: subprocess.Popen[bytes]) -> Process:
    found = Process.at(child.pid)
    assert found is not None
    return found


def test_a_process_is_known_again_and_not_taken_for_another(
    sleeper: subprocess.Popen[bytes],
) -> None:
    process = of(sleeper)
    assert process.is_alive()
    assert Process.from_json(process.to_json()) == process
    other = Process(pid=process.pid, start=process.start + 1, boot=process.boot)
    assert not other.is_alive()
    assert other.open() is None
    assert not Process(pid=process.pid, start=process.start, boot="another").is_alive()


def test_a_zombie_is_no_process(sleeper: subprocess.Popen[bytes]) -> None:
    process = of(sleeper)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive()
    assert Process.at(sleeper.pid) is None


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace() -> None:
    code = (
        "import signal; signal.signal(15, signal.SIG_IGN); print('on', flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = of(child)
        processes.end([process], grace_s=0.1)
        assert not process.is_alive()
        assert child.wait(5) == -9


@pytest.mark.parametrize("record", [None, [], {}, {"pid": "x", "start": 1, "boot": ""}])
def test_a_record_that_names_no_process_is_none(record: object) -> None:
    assert Process.from_json(record) is None


def test_processes_of_a_cluster_are_found_by_their_environment(layout: Layout) -> None:
    env = {**os.environ, processes.CLUSTER_ENV: str(layout.folder)}
    near = {**os.environ, processes.CLUSTER_ENV: f"{layout.folder}-2"}
    with subprocess.Popen(["sleep", "60"], env=env) as ours:
        with subprocess.Popen(["sleep", "60"], env=near) as theirs:
            found = {process.pid for process in processes.of_cluster(layout.folder)}
            theirs.kill()
        ours.kill()
    assert ours.pid in found
    assert theirs.pid not in found


def test_a_kept_port_can_be_listened_on_by_a_server_and_bound_by_nobody_else() -> None:
    with ports.reserve() as holder:
        port = ports.port_of(holder)
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind((ports.LOOPBACK, port))
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((ports.LOOPBACK, port))
            server.listen()
            with pytest.raises(OSError, match="in use"):
                ports.reserve(port)


def test_a_gate_opens_when_the_server_answers_and_not_when_its_port_is_open() -> None:
    gates = Gates()
    with socket.socket() as server:
        server.bind((ports.LOOPBACK, 0))
        door = f"serves:{server.getsockname()[1]}"
        assert not gates.is_open(door)
        server.listen()
        assert not gates.is_open(door)
        line, _ = server.accept()
        with line:
            line.recv(100)
            line.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            assert gates.is_open(door)


def test_a_gate_asks_again_when_a_server_hung_up() -> None:
    gates = Gates()
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        door = f"serves:{server.getsockname()[1]}"
        assert not gates.is_open(door)
        server.accept()[0].close()
        assert not gates.is_open(door)
        assert not gates.is_open(door)
        line, _ = server.accept()
        with line:
            line.sendall(b"HTTP")
            assert gates.is_open(door)


def test_a_socket_is_found_however_long_its_path_is(tmp_path: Path) -> None:
    folder = tmp_path / ("ü" * 60) / ("x" * 60)
    folder.mkdir(parents=True)
    gates, door = Gates(), f"socket:{folder}/cri.sock"
    assert not gates.is_open(door)
    handle = os.open(folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{handle}/cri.sock")
        os.close(handle)
        assert not gates.is_open(door)
        server.listen()
        assert gates.is_open(door)


def own() -> Process:
    found = Process.at(os.getpid())
    assert found is not None
    return found


FAR = 4e9
"""A time that no run of these tests sees."""

GONE = Process(pid=1, start=0, boot="long ago")


@pytest.mark.parametrize(
    ("kept", "over"),
    [
        (Lease(), True),
        (Lease(stay=True), False),
        (Lease(owners=(GONE,)), True),
        (Lease(owners=(GONE, own())), False),
        (Lease(stay=True, until=1.0), True),
        (Lease(stay=True, until=FAR), False),
        (Lease(owners=(GONE,), until=FAR), True),
    ],
)
def test_a_cluster_ends_without_owners_or_when_its_time_is_up(kept: Lease, over: bool) -> None:
    assert kept.is_over() is over


def test_a_lease_survives_its_file_and_a_missing_one_is_over(layout: Layout) -> None:
    assert Lease.read(layout).is_over()
    kept = Lease(owners=(own(),), until=5.0)
    kept.write(layout)
    assert Lease.read(layout) == kept


def test_a_joined_lease_lasts_as_long_as_the_longer_one() -> None:
    first = Lease(owners=(GONE, own()), until=10.0)
    assert first.joined_by(Lease(stay=True)) == Lease(owners=(own(),), stay=True)
    assert first.joined_by(Lease(until=20.0)).until == 20.0


def test_poking_without_a_supervisor_does_nothing(layout: Layout) -> None:
    lease.poke(layout)
    os.mkfifo(layout.control)
    lease.poke(layout)


def test_only_one_at_a_time_changes_a_cluster(layout: Layout) -> None:
    with creator.sole(layout):
        assert creator.is_busy(layout)
        with (
            pytest.raises(WaitTimedOut, match="another labkit"),
            creator.sole(layout, timeout_s=0.05),
        ):
            pass
    assert not creator.is_busy(layout)


def test_who_waits_for_a_cluster_that_is_removed_gets_a_fresh_one(layout: Layout) -> None:
    inside = threading.Event()

    def second() -> None:
        with creator.sole(layout, timeout_s=10):
            inside.set()

    with creator.sole(layout):
        waiting = threading.Thread(target=second)
        waiting.start()
        remove(layout.folder)
        assert inside.wait(10), "the old folder's lock is no lock any more"
    waiting.join()


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ClusterError, match="cannot be made: Not a directory"),
        creator.sole(Layout(tmp_path / "file" / "lab")),
    ):
        pass


def test_files_are_replaced_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, "one")
    write_atomically(path, "two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_folders_without_any_permission_are_removed_too(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    deep = folder / "work" / "work"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    (folder / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    deep.chmod(0)
    (folder / "work").chmod(0)
    remove(folder)
    remove(folder)
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_the_last_words_are_the_line_that_complains(layout: Layout) -> None:
    layout.log("etcd").write_text("starting\nError: bind: address already in use\nbye\n")
    assert records.last_words(layout, "etcd") == "Error: bind: address already in use"
    layout.log("quiet").write_text("one\ntwo\n")
    assert records.last_words(layout, "quiet") == "two"
    assert records.last_words(layout, "none") == "its log is empty"


def test_logs_are_cut_to_their_last_lines_and_headed_when_there_are_several(
    layout: Layout,
) -> None:
    layout.log("a").write_text("1\n2\n3\n")
    layout.log("b").write_text("x\n")
    found = list(logs.lines(layout, logs.choose(layout, None), tail=2, follow=False))
    assert found == ["==> a <==", "2", "3", "==> b <==", "x"]
    assert list(logs.lines(layout, ["a"], tail=-1, follow=False)) == ["1", "2", "3"]
    assert list(logs.lines(layout, ["a"], tail=0, follow=False)) == []


def test_followed_logs_give_whole_lines_until_the_cluster_is_gone(layout: Layout) -> None:
    path = layout.log("a")
    path.write_text("old\n")
    lines = logs.lines(layout, ["a"], tail=1, follow=True)
    assert next(lines) == "old"
    with path.open("a") as log:
        log.write("new\nhal")
    assert next(lines) == "new"
    with path.open("a") as log:
        log.write("f\n")
    assert next(lines) == "half"
    remove(layout.folder)
    assert list(lines) == []


def test_an_unknown_component_is_answered_with_those_there_are(layout: Layout) -> None:
    layout.log("etcd").touch()
    with pytest.raises(BadInput, match="choose: etcd"):
        logs.choose(layout, "etc")


def test_folders_below_var_stay_visible_and_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nodespace.below_var([tmp_path, Path("/usr"), Path("/var/does/not/exist")]) == ()
    inside = nodespace.below_var([Path("/var/lib"), Path("/var/lib/dpkg"), Path("/var/lib")])
    assert inside == ("/var/lib",)
