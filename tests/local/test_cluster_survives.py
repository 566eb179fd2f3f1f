"""What a cluster must survive, and what must not survive a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from labkit.kube import PODS, RESOURCE_SLICES
from labkit.kube.wait import wait_for_pod_running
from labkit.waiting import NotYet, Seen, wait_until

pytestmark = pytest.mark.local

WHOLE_S = 15.0
"""Within this time a cluster must be whole again."""

GPU_POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: holder}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
  containers:
  - name: main
    image: any
    command: [sleep, infinity]
    resources: {claims: [{name: gpu}]}
"""


@pytest.fixture
def pod(client, namespace):
    client.apply_yaml(GPU_POD, namespace=namespace)
    return wait_for_pod_running(client, "holder", namespace=namespace)


def part(cluster: Any, kind: str, node: str) -> Any:
    names = (kind, f"{kind}-{node}")
    return next((c for c in cluster.status().components if c.name in names), None)


@pytest.mark.parametrize(
    "kind",
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "runtime",
     "driver", "supervisor", "standby", "holder"],
)  # fmt: skip
def test_a_killed_part_comes_back_and_a_running_pod_loses_nothing(
    cluster, client, namespace, pod, kind
):
    node = pod["spec"]["nodeName"]
    old = part(cluster, kind, node)
    os.kill(old.pid, signal.SIGKILL)

    def whole() -> Seen[str] | NotYet:
        status, now = cluster.status(), part(cluster, kind, node)
        if status.state != "ready" or now is None or now.pid in (None, old.pid):
            return NotYet(f"{status.state}, {now}")
        shown = cluster.kubectl(
            "exec", "-n", namespace, "holder", "--", "nvidia-smi", "-L", check=False
        )
        return Seen(shown.stdout) if shown.returncode == 0 else NotYet(shown.stderr)

    printed = wait_until(whole, what=f"the cluster to be whole without {kind}", timeout_s=WHOLE_S)
    after = client.get(PODS, "holder", namespace=namespace)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    before_it, now_it = (one["status"]["containerStatuses"][0] for one in (pod, after))
    assert (now_it["containerID"], now_it["restartCount"]) == (before_it["containerID"], 0)
    assert printed.count("UUID") == 1
    slices = [
        slice_
        for slice_ in client.list(RESOURCE_SLICES).items
        if slice_["spec"]["nodeName"] == node
    ]
    assert [len(slice_["spec"]["devices"]) for slice_ in slices] == [8]


# Clusters of the tests' own, by the command line, in a state folder of their own.


class Shell:
    def __init__(self, root: Path) -> None:
        self.state = root / "state with spaces äöü"
        self.env = {**os.environ, "LABKIT_STATE_DIR": str(self.state)}

    def __call__(self, *arguments: str, check: bool = True, **env: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "labkit", *arguments],
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "labkit", *arguments],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    def left(self) -> list[str]:
        """Processes and mounts that have to do with our state folder."""
        found = []
        for process in psutil.process_iter():
            try:
                about = [*process.cmdline(), *process.environ().values()]
            except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            mine = process.pid == os.getpid()
            # pytest's own children know of the folder by their environment: clusters' parts
            # are told apart by what labkit marks them with.
            if not mine and any(str(self.state / "clusters") in words for words in about):
                found.append(f"{process.pid} {' '.join(process.cmdline())[:80]}")
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
        return found + [line for line in mounts.splitlines() if "state\\040with" in line]

    def clean(self) -> None:
        def look() -> Seen[bool] | NotYet:
            left = self.left()
            return NotYet("\n".join(left)) if left else Seen(True)

        wait_until(look, what="nothing to be left", timeout_s=30)
        folder = self.state / "clusters"
        assert not folder.exists() or not list(folder.iterdir())


@pytest.fixture
def labkit(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    for name in ("lab", "one", "two"):
        shell("down", "--name", name, check=False)
    shell.clean()


def test_up_and_down_again_and_again_leave_nothing(labkit):
    for _ in range(3):
        labkit("up")
        assert "created" not in labkit("up").stderr
        assert labkit("kubectl", "get", "nodes").stdout.count(" Ready ") == 1
        labkit("down")
        labkit.clean()


def test_two_clusters_at_once_do_not_meet(labkit):
    with labkit.start("up", "--name", "one") as one, labkit.start("up", "--name", "two") as two:
        for child in (one, two):
            out, _ = child.communicate(timeout=120)
            assert child.returncode == 0, out
    for name in ("one", "two"):
        assert f"{name}-0" in labkit("kubectl", "--name", name, "get", "nodes").stdout
    labkit("down", "--name", "one")
    assert labkit("status", "--name", "two").returncode == 0


@pytest.mark.parametrize(
    "after", ["cluster.json", "pki", "run/etcd.json", "run/kube-apiserver.json"]
)
def test_interrupted_at_any_moment_nothing_is_left(labkit, after):
    with labkit.start("up", start_new_session=True) as child:
        path = labkit.state / "clusters" / "lab" / after

        def begun() -> Seen[bool] | NotYet:
            return Seen(True) if path.exists() or child.poll() is not None else NotYet("not yet")

        wait_until(begun, what=after, timeout_s=60, interval_s=0.005)
        os.killpg(child.pid, signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode in (0, 130), out
    if child.returncode == 0:  # it was ready before we could stop it
        labkit("down")
    labkit.clean()


def test_a_killed_up_leaves_nothing(labkit):
    with labkit.start("up") as child:
        path = labkit.state / "clusters" / "lab" / "run" / "etcd.json"
        wait_until(
            lambda: Seen(True) if path.exists() else NotYet("not yet"), what="etcd", timeout_s=60
        )
        child.kill()
        child.communicate(timeout=60)

    def gone() -> Seen[bool] | NotYet:
        left = labkit.left()
        return NotYet("\n".join(left)) if left else Seen(True)

    wait_until(gone, what="the unfinished cluster to end by itself", timeout_s=60)
    labkit("prune")


def test_a_cluster_ends_with_the_process_that_owns_it(labkit, tmp_path):
    script = tmp_path / "owner.py"
    script.write_text(
        "import threading, labkit\n"
        "cluster = labkit.Cluster.local('one')\n"
        "cluster.up()\n"
        "print('up', flush=True)\n"
        "threading.Event().wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, script], env=labkit.env, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout
        assert owner.stdout.readline().strip() == "up"
        owner.kill()
    labkit("prune")
    labkit.clean()


def test_a_home_that_cannot_be_written_is_no_obstacle(labkit, tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    labkit("up", HOME=str(home))
    labkit("kubectl", "get", "pods", HOME=str(home))
    labkit("down", HOME=str(home))
    assert not list(home.iterdir())


def test_the_users_own_kubeconfig_is_neither_read_nor_written(labkit, tmp_path):
    own = tmp_path / "config"
    own.write_text("not even YAML: [")
    labkit("up", KUBECONFIG=str(own))
    labkit("kubectl", "get", "nodes", KUBECONFIG=str(own))
    labkit("down", KUBECONFIG=str(own))
    assert own.read_text() == "not even YAML: ["


def test_another_shape_under_the_same_name_is_refused(labkit):
    labkit("up")
    refused = labkit("up", "--nodes", "2", check=False)
    assert refused.returncode == 2
    assert "labkit down" in refused.stderr


def test_nodes_of_different_kinds_come_from_a_file(labkit, tmp_path):
    config = tmp_path / "mixed.yaml"
    config.write_text("- gpus: t4-box\n- name: plain\n  gpus: none\n")
    labkit("up", "--config", str(config))
    listed = labkit("kubectl", "get", "resourceslices", "-o", "name").stdout
    assert listed.count("resourceslice") == 1
    assert "plain" in labkit("kubectl", "get", "nodes").stdout
