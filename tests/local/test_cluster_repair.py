"""Broken clusters become whole again, and wrong wishes are answered in plain words."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.cluster import Cluster, local, members, records
from labkit.cluster.layout import Layout
from labkit.cluster.processes import Process
from labkit.errors import ClusterError
from labkit.kube import CONFIG_MAPS, NODES
from labkit.waiting import NotYet, Seen, wait_until

pytestmark = pytest.mark.local

SOON_S = 30


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    state = tmp_path / "Größe und Blank"
    monkeypatch.setenv("LABKIT_STATE_DIR", str(state))
    yield state
    for folder in (state / "clusters").glob("*"):
        local.end(Layout(folder))
    assert not (state / "clusters").exists()


def process_of(layout: Layout, name: str) -> Process:
    record = records.read(layout, name)
    assert record is not None
    assert record.process is not None
    return record.process


def wait_for(probe: Any, what: str) -> None:
    wait_until(lambda: Seen(None) if probe() else NotYet("not yet"), what=what, timeout_s=SOON_S)


def test_a_stopped_cluster_comes_back_with_its_data_though_its_port_was_taken(
    state: Path,
) -> None:
    with Cluster.local(gpus="none") as cluster:
        layout = Layout(cluster.folder)
        with cluster.client() as client:
            client.create(
                CONFIG_MAPS, {"metadata": {"name": "kept"}, "data": {"a": "b"}}, namespace="default"
            )
        port = json.loads(layout.cluster_file.read_text())["ports"]["kube-apiserver"]
        process_of(layout, "supervisor").kill(15)
        wait_for(lambda: not members.of_cluster(layout.folder), "everything to stop")
        assert cluster.status().state == "broken"
        with socket.create_server(("127.0.0.1", port)):
            assert cluster.up() == "repaired"
            assert cluster.up() == "adopted"
            with cluster.client() as client:
                assert client.get(CONFIG_MAPS, "kept", namespace="default")["data"] == {"a": "b"}
    assert not layout.folder.exists()


def test_a_node_that_somebody_deleted_is_welcomed_again(state: Path) -> None:
    with Cluster.local(gpus="none") as cluster:
        node = f"{cluster.name}-0"
        with cluster.client() as client:
            client.delete(NODES, node)
        process_of(Layout(cluster.folder), f"kubelet-{node}").kill()
        wait_for(lambda: cluster.status().state == "ready", "the node to be back")


def test_a_gate_that_does_not_exist_is_named_and_nothing_stays(state: Path) -> None:
    with pytest.raises(ClusterError, match="unrecognized feature gate: NoSuchGate") as caught:
        Cluster.local(feature_gates={"NoSuchGate": True}).up()
    assert "this Kubernetes version" in caught.value.hint
    assert not (state / "clusters").exists()


def test_a_cluster_that_was_there_before_is_still_there_after_with(state: Path) -> None:
    with Cluster.local("lab", gpus="none"):
        with Cluster.local("lab", gpus="none") as again:
            assert again.status().state == "ready"
        assert Cluster.attach("lab").status().state == "ready"


def test_taken_down_while_it_comes_up_it_says_so(state: Path) -> None:
    argv = [sys.executable, "-m", "labkit", "up", "--gpus", "none"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as child:
        layout = Layout.of("lab")
        wait_for(lambda: layout.record("kube-apiserver").exists(), "the API server to start")
        local.end(layout)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "was taken down while it came up" in said


def test_two_that_want_the_same_cluster_get_the_same_one(state: Path) -> None:
    argv = [sys.executable, "-m", "labkit", "up", "--gpus", "none", "--output", "json"]
    children = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found = []
    for child in children:
        out, _ = child.communicate(timeout=120)
        assert child.returncode == 0
        found.append(json.loads(out))
    assert sorted(each["outcome"] for each in found) == ["adopted", "created"]
    assert found[0]["folder"] == found[1]["folder"]


def test_kubectl_passes_options_input_and_the_exit_code_on(state: Path) -> None:
    with Cluster.local("lab", gpus="none") as cluster:
        manifest = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"piped"}}'
        assert "created" in cluster.kubectl("apply", "-f", "-", input=manifest).stdout
        argv = [sys.executable, "-m", "labkit", "kubectl", "get", "cm", "none", "-o", "name"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1
        assert 'configmaps "none" not found' in done.stderr
        with pytest.raises(ClusterError, match="kubectl get nothing failed with exit code 1"):
            cluster.kubectl("get", "nothing")
