"""The driver as a process: how it starts, what it says, and how it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labkit.waiting import NotYet, Seen, wait_until

ROOT = Path(__file__).parents[3]

# Nobody listens on port 9 of this machine: an API server that is not up yet.
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: driver}}]
clusters: [{name: lab, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: driver, user: {token: not-for-the-log}}]
"""


@pytest.fixture
def folder(tmp_path_factory):
    # A socket's path has at most 107 characters, so this folder's name is short.
    root = tmp_path_factory.mktemp("k k")
    (root / "kubeconfig").write_text(KUBECONFIG)
    return root


def command(folder, *, machine="t4-box"):
    return [
        *(sys.executable, "-m", "labkit.driver", "--node=n1", f"--machine={machine}"),
        *(f"--kubeconfig={folder}/kubeconfig", f"--kubelet-dir={folder}"),
        *(f"--cdi-dir={folder}/cdi", "--cluster-uid=u"),
    ]


def sockets(folder):
    return sorted(path.name for path in folder.rglob("*.sock"))


def log_lines(folder):
    return (folder / "log").read_text().splitlines()


@pytest.fixture
def driver(folder):
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command(folder), cwd=ROOT, stderr=log)
    wait_until(
        lambda: Seen(True) if len(sockets(folder)) == 2 else NotYet("\n".join(log_lines(folder))),
        what="the driver to listen",
        timeout_s=30,
    )
    yield process
    process.kill()
    process.wait(10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_before_the_api_server_is_up_and_ends_when_asked(driver, folder, number):
    driver.send_signal(number)
    assert driver.wait(10) == 0
    assert not sockets(folder)


def test_a_killed_one_leaves_sockets_that_the_next_one_takes_over(driver, folder):
    driver.kill()
    driver.wait(10)
    assert len(sockets(folder)) == 2
    with subprocess.Popen(command(folder), cwd=ROOT, stderr=subprocess.PIPE, text=True) as second:
        assert "listening on" in second.stderr.readline()
        second.terminate()
        # Read to the end: it goes on logging, and a closed pipe would be a failure of its own.
        second.communicate(timeout=30)
    assert second.returncode == 0
    assert not sockets(folder)


def test_its_log_has_plain_lines_and_no_secret(driver, folder):
    driver.terminate()
    driver.wait(10)
    for line in log_lines(folder):
        stamp, level, _ = line.split(" ", 2)
        assert time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")
        assert stamp.endswith("Z")
        assert level in ("INFO", "WARNING")
    assert "not-for-the-log" not in "\n".join(log_lines(folder))


def test_it_leaves_out_what_a_driver_does_not_need():
    script = "import labkit.driver.__main__, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    modules = set(loaded.stdout.split())
    assert not modules & {"kubernetes", "rich", "click", "typer", "cryptography", "papermill"}


@pytest.mark.parametrize(
    ("damage", "machine", "code", "told"),
    [
        (True, "t4-box", 1, "cannot be trusted"),
        (False, "t5-box", 2, "there is no machine 't5-box'"),
    ],
)
def test_what_keeps_it_from_starting_is_said_in_the_log(folder, damage, machine, code, told):
    if damage:
        checkpoint = folder / "plugins" / "gpu.nvidia.com" / "checkpoint.json"
        checkpoint.parent.mkdir(parents=True)
        checkpoint.write_text("{}")
    done = subprocess.run(
        command(folder, machine=machine),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not sockets(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said_in_the_log(folder):
    (folder / "plugins").mkdir(mode=0o500)
    done = subprocess.run(
        command(folder), cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "cannot go on" in done.stderr
