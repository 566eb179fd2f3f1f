"""The command lines and settings of the components."""

import base64
import json
import stat
from pathlib import Path

import pytest
import yaml

from labkit.cluster import controlplane, making, nodes
from labkit.cluster.controlplane import APISERVER, BINARIES, Choices
from labkit.cluster.layout import Layout
from labkit.cluster.plan import Component, Plan
from labkit.cluster.spec import ClusterSpec, NodeSpec
from labkit.errors import ClusterError

SPEC = ClusterSpec.make(
    name="lab",
    nodes=[NodeSpec(gpus="dgx-h100"), NodeSpec(gpus="none")],
    gpus="",
    kubernetes_version="1.37.2",
    feature_gates={"DRAListTypeAttributes": True},
)
CHOICES = Choices(
    uid="6f1e",
    ports={APISERVER: 6443, "lab-0": 10250, "lab-1": 10251},
    binaries={name: f"/opt/bin/{name}" for name in BINARIES},
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "Zustände von mir" / "lab")
    layout.folder.mkdir(parents=True)
    making.lay_out(layout, SPEC, CHOICES)
    return layout


def component(layout: Layout, name: str) -> Component:
    plan = Plan.read(layout)
    assert plan is not None
    return next(each for each in plan.components if each.name == name)


def test_the_plan_has_every_process_in_the_order_of_starting(layout: Layout) -> None:
    plan = Plan.read(layout)
    assert plan is not None
    assert [each.name for each in plan.components] == [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "runtime-lab-0",
        "kubelet-lab-0",
        "driver-lab-0",
        "runtime-lab-1",
        "kubelet-lab-1",
    ]


def test_a_plan_survives_its_file(layout: Layout) -> None:
    assert Plan.read(layout) == making.make_plan(layout, SPEC, CHOICES)


def test_everything_listens_on_loopback_only(layout: Layout) -> None:
    apiserver = component(layout, APISERVER).argv
    assert "--bind-address=127.0.0.1" in apiserver
    assert "--advertise-address=127.0.0.1" in apiserver
    assert "--secure-port=0" in component(layout, "kube-scheduler").argv
    assert "--secure-port=0" in component(layout, "kube-controller-manager").argv
    assert kubelet_config(layout)["address"] == "127.0.0.1"
    etcd = [word for word in component(layout, "etcd").argv if "urls=" in word]
    assert all("=unix://" in word for word in etcd)


def test_gates_reach_every_component_and_beat_our_own_choice(layout: Layout) -> None:
    for name in (APISERVER, "kube-scheduler", "kube-controller-manager"):
        text = next(w for w in component(layout, name).argv if w.startswith("--feature-gates="))
        assert "DRAListTypeAttributes=true" in text
    assert kubelet_config(layout)["featureGates"]["DRAListTypeAttributes"] is True
    asked = {"ExtendWebSocketsToKubelet": True}
    assert controlplane.gates(asked, "1.37.2")["ExtendWebSocketsToKubelet"] is True


def test_a_version_is_not_told_of_gates_that_came_later() -> None:
    assert "ExtendWebSocketsToKubelet" not in controlplane.gates({}, "1.34.2")


def test_a_gate_brings_the_api_version_that_it_needs(layout: Layout) -> None:
    parts = controlplane.components(
        layout, CHOICES, version="1.37.2", asked={"DRAResourcePoolStatus": True}
    )
    needed = "resource.k8s.io/v1alpha3=true"
    assert any(needed in word for word in parts[1].argv)
    assert not any(needed in word for word in component(layout, APISERVER).argv)


def kubelet_config(layout: Layout) -> dict[str, object]:
    return yaml.safe_load(nodes.kubelet_config_file(layout, "lab-0").read_text())


def test_the_kubelet_waits_for_its_runtime_and_for_the_api_server(layout: Layout) -> None:
    kubelet = component(layout, "kubelet-lab-0")
    assert f"socket:{layout.var('lab-0')}/run/labkit/cri.sock" in kubelet.waits_for
    assert "serves:6443" in kubelet.waits_for
    assert kubelet.ports == (10250,)


def test_a_node_without_gpus_has_no_driver(layout: Layout) -> None:
    plan = Plan.read(layout)
    assert plan is not None
    assert not [each for each in plan.components if each.name == "driver-lab-1"]


def test_kubeconfigs_are_private_and_carry_their_own_credentials(layout: Layout) -> None:
    found = yaml.safe_load(layout.kubeconfig.read_text())
    assert stat.S_IMODE(layout.kubeconfig.stat().st_mode) == 0o600
    assert found["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    key = base64.b64decode(found["users"][0]["user"]["client-key-data"])
    assert key == (layout.pki / "admin.key").read_bytes()


def test_what_was_chosen_is_found_again(layout: Layout) -> None:
    assert making.read_cluster(layout) == (SPEC, CHOICES)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"spec": {}})])
def test_a_record_that_is_not_whole_counts_as_none(layout: Layout, text: str) -> None:
    layout.cluster_file.write_text(text)
    assert making.read_cluster(layout) is None


def test_name_servers_of_the_host_become_those_of_pods(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text(
        "search x\nnameserver 10.0.0.1\n#nameserver 1\nnameserver bad\nnameserver fe80::1\n"
    )
    assert nodes.host_nameservers(path) == ["10.0.0.1", "fe80::1"]
    assert nodes.host_nameservers(tmp_path / "none") == []


def test_too_little_room_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "ROOM_MB", 10**12)
    with pytest.raises(ClusterError, match="MB are free"):
        making.check_room(tmp_path)
