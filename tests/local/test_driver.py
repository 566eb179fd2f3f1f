"""The driver on a real cluster: what scheduler, kubelet and containers make of it."""

from __future__ import annotations

import os
import secrets
import signal
from typing import Any

import pytest

from labkit.errors import ApiError
from labkit.gpus.slices import DRIVER
from labkit.kube import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Client,
)
from labkit.kube.wait import (
    last_events,
    wait_deleted,
    wait_for_pod_running,
)
from labkit.waiting import NotYet, Seen, wait_until

pytestmark = pytest.mark.local

END = "-- that is all --"


class Bench:
    """A namespace of its own on the cluster, and what the tests do in it."""

    def __init__(self, cluster: Any, client: Client, namespace: str) -> None:
        self.cluster = cluster
        self.client = client
        self.namespace = namespace

    def start(self, name: str, script: str, *, count: int = 1, node: str = "", **more: Any) -> None:
        """A pod whose container runs a script and has a claim for some GPUs."""
        self.template(name, {"requests": [{"name": "gpu", "exactly": gpus(count, **more)}]})
        self.pod(name, [container("main", script, {"name": "gpus"})], name, node=node)

    def template(self, name: str, devices: dict[str, Any]) -> None:
        template = {"metadata": {"name": name}, "spec": {"spec": {"devices": devices}}}
        self.client.create(RESOURCE_CLAIM_TEMPLATES, template, namespace=self.namespace)

    def pod(
        self, name: str, containers: list[dict[str, Any]], template: str = "", *, node: str = ""
    ) -> None:
        spec: dict[str, Any] = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": containers,
        }
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        if template:
            spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": template}]
        pod = {"metadata": {"name": name}, "spec": spec}
        self.client.create(PODS, pod, namespace=self.namespace)

    def output(self, name: str, container_name: str = "main") -> str:
        """All that a script has printed; its container goes on, and so does the claim."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/log"

        def look() -> Seen[str] | NotYet:
            try:
                text = self.client.raw("GET", path, params={"container": container_name})
            except ApiError as error:
                return NotYet(error.message)
            before, end, _ = str(text).partition(END)
            return Seen(before) if end else NotYet(str(text))

        return wait_until(look, what=f"the output of {name}", timeout_s=60, interval_s=0.1)

    def run(self, name: str) -> None:
        wait_for_pod_running(self.client, name, namespace=self.namespace, timeout_s=60)

    def remove(self, name: str) -> None:
        self.client.delete(PODS, name, namespace=self.namespace)
        wait_deleted(self.client, PODS, name, namespace=self.namespace, timeout_s=60)

    def claim_of(self, pod: str) -> dict[str, Any]:
        for claim in self.client.list(RESOURCE_CLAIMS, namespace=self.namespace).items:
            if claim["metadata"]["ownerReferences"][0]["name"] == pod:
                return claim
        raise AssertionError(f"pod {pod} has no claim")

    def uuids_of(self, pod: str, request: str = "") -> list[str]:
        """The UUIDs of what a pod was allocated, by the slices and not by the driver."""
        known = {
            (slice_["spec"]["pool"]["name"], device["name"]): device["attributes"]["uuid"]["string"]
            for slice_ in self.slices()
            for device in slice_["spec"]["devices"]
        }
        results = self.claim_of(pod)["status"]["allocation"]["devices"]["results"]
        return sorted(
            known[result["pool"], result["device"]]
            for result in results
            if request in ("", result["request"])
        )

    def slices(self) -> list[dict[str, Any]]:
        fields = f"spec.driver={DRIVER}"
        return self.client.list(RESOURCE_SLICES, fields=fields).items

    def node(self) -> str:
        return self.cluster.status().nodes[0].name

    def registrations(self) -> int:
        """How often the kubelet has taken the driver."""
        log = self.cluster.folder / "logs" / f"driver-{self.node()}.log"
        return log.read_text(encoding="utf-8").count("registered with the kubelet")

    def cdi_files(self, uid: str) -> list[str]:
        return [path.name for path in self.cluster.folder.rglob(f"var/run/cdi/*{uid}*")]

    def pid(self, component: str) -> int:
        for each in self.cluster.status().components:
            if each.name == component:
                return each.pid
        raise AssertionError(f"no component {component}")

    def kill(self, component: str) -> None:
        """SIGKILL a component, and wait until the supervisor has started it again."""
        before = self.pid(component)
        os.kill(before, signal.SIGKILL)
        wait_until(
            lambda: Seen(True) if self.pid(component) not in (0, before) else NotYet("down"),
            what=f"{component} to be started again",
            timeout_s=30,
        )


def container(name: str, script: str, claim: dict[str, Any] | None = None) -> dict[str, Any]:
    resources = {"claims": [claim]} if claim else {}
    command = ["sh", "-c", f"{script}; echo '{END}'; exec sleep 1000"]
    return {"name": name, "image": "host", "command": command, "resources": resources}


def gpus(count: int = 1, **more: Any) -> dict[str, Any]:
    return {"deviceClassName": DRIVER, "count": count, **more}


def uuids_in(listing: str) -> list[str]:
    lines = [line for line in listing.splitlines() if line.startswith("GPU ")]
    return sorted(line.partition("(UUID: ")[2].rstrip(")") for line in lines)


@pytest.fixture
def bench(cluster, client, namespace):
    yield Bench(cluster, client, namespace)
    client.delete_all(PODS, namespace=namespace)


def test_nvidia_smi_lists_exactly_the_device_that_was_allocated(bench):
    bench.start("one", "nvidia-smi -L")
    listed = uuids_in(bench.output("one"))
    assert listed == bench.uuids_of("one")
    assert len(listed) == 1


def test_a_claim_for_two_gives_two(bench):
    bench.start("two", "nvidia-smi -L && nvidia-smi", count=2)
    log = bench.output("two")
    expected = bench.uuids_of("two")
    assert len(set(expected)) == 2
    assert uuids_in(log) == expected
    assert log.count("NVIDIA H100 80GB HBM3") == 4


def test_a_container_sees_its_own_request_and_no_other(bench):
    requests = [{"name": name, "exactly": gpus()} for name in ("left", "right")]
    bench.template("split", {"requests": requests})
    script = "nvidia-smi --query-gpu=uuid --format=csv,noheader"
    bench.pod(
        "split",
        [container(name, script, {"name": "gpus", "request": name}) for name in ("left", "right")],
        "split",
    )
    for name in ("left", "right"):
        assert bench.output("split", name).split() == bench.uuids_of("split", name)
    assert len(set(bench.uuids_of("split"))) == 2


def test_two_containers_share_a_claim(bench):
    bench.template("shared", {"requests": [{"name": "gpu", "exactly": gpus()}]})
    both = [container(name, "nvidia-smi -L", {"name": "gpus"}) for name in ("a", "b")]
    bench.pod("shared", both, "shared")
    assert uuids_in(bench.output("shared", "a")) == bench.uuids_of("shared")
    assert uuids_in(bench.output("shared", "b")) == bench.uuids_of("shared")


def test_a_device_is_chosen_by_an_expression_over_what_nvidia_publishes(bench):
    expression = (
        "device.attributes['gpu.nvidia.com'].architecture == 'Hopper' && "
        "device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('565.57.1')) >= 0 && "
        "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0 && "
        "device.attributes['resource.kubernetes.io'].numaNode == 1"
    )
    script = "nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader"
    bench.start("chosen", script, selectors=[{"cel": {"expression": expression}}])
    assert bench.output("chosen").strip()[9:11] in ("9D", "C3", "D1", "DF")


def test_a_pod_written_for_the_device_plugin_is_served_too(bench):
    old = container("main", "nvidia-smi -L")
    old["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    bench.pod("old", [old])
    assert uuids_in(bench.output("old")) == bench.uuids_of("old")


def test_slices_that_somebody_deletes_or_edits_come_back(bench):
    names = {slice_["metadata"]["name"] for slice_ in bench.slices()}
    devices = sum(len(slice_["spec"]["devices"]) for slice_ in bench.slices())
    bench.client.delete_all(RESOURCE_SLICES, fields=f"spec.driver={DRIVER}")
    now = wait_for_devices(bench, devices)
    assert not names & {slice_["metadata"]["name"] for slice_ in now}
    bench.client.update(RESOURCE_SLICES, {**now[0], "spec": {**now[0]["spec"], "devices": []}})
    wait_for_devices(bench, devices)


def wait_for_devices(bench, count):
    def look():
        slices = bench.slices()
        seen = sum(len(slice_["spec"].get("devices") or []) for slice_ in slices)
        return Seen(slices) if seen == count else NotYet(f"{seen} devices")

    return wait_until(look, what=f"{count} published devices", timeout_s=15)


def test_a_killed_driver_knows_its_claims_when_it_is_back(bench):
    bench.start("before", "true", node=bench.node())
    bench.run("before")
    uid = bench.claim_of("before")["metadata"]["uid"]
    devices = sum(len(slice_["spec"]["devices"]) for slice_ in bench.slices())
    registered = bench.registrations()
    bench.kill(f"driver-{bench.node()}")
    # A pod that comes earlier is refused, and the kubelet lets it wait for a minute or more.
    wait_until(
        lambda: Seen(1) if bench.registrations() > registered else NotYet("not registered"),
        what="the kubelet to know the driver again",
        timeout_s=15,
    )
    bench.start("after", "nvidia-smi -L", node=bench.node())
    assert uuids_in(bench.output("after")) == bench.uuids_of("after")
    assert bench.uuids_of("after") != bench.uuids_of("before")
    wait_for_devices(bench, devices)
    bench.run("before")
    assert bench.cdi_files(uid)
    bench.remove("before")
    assert not bench.cdi_files(uid)


def test_devices_of_a_pod_deleted_by_force_serve_the_next_one(bench):
    bench.start("first", "true", count=8, node=bench.node())
    bench.run("first")
    bench.client.delete(PODS, "first", namespace=bench.namespace, grace_s=0)
    bench.start("second", "nvidia-smi -L", count=8, node=bench.node())
    # Within the minute that the kubelet lets a pod wait whose claim was refused.
    assert uuids_in(bench.output("second")) == bench.uuids_of("second")
    bench.remove("second")


def test_a_restarted_kubelet_finds_driver_and_devices_again(bench):
    bench.start("held", "true", node=bench.node())
    bench.run("held")
    before = bench.uuids_of("held")
    devices = sum(len(slice_["spec"]["devices"]) for slice_ in bench.slices())
    bench.kill(f"kubelet-{bench.node()}")
    wait_for_devices(bench, devices)
    bench.start("next", "nvidia-smi -L", node=bench.node())
    assert uuids_in(bench.output("next")) == bench.uuids_of("next") != before
    bench.run("held")
    bench.remove("held")


def test_parameters_that_cannot_be_honoured_are_refused_in_the_pods_events(bench):
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
    config = {"opaque": {"driver": DRIVER, "parameters": parameters}}
    asked = [{"name": "gpu", "exactly": gpus()}]
    bench.template("tuned", {"requests": asked, "config": [config]})
    bench.pod("tuned", [container("main", "true", {"name": "gpus"})], "tuned")

    def look():
        told = last_events(bench.client, "Pod", "tuned", namespace=bench.namespace)
        return Seen(told) if any("'GpuConfig'" in line for line in told) else NotYet(str(told))

    told = wait_until(look, what="an event with the driver's reason", timeout_s=30)
    assert any("not supported by this driver" in line for line in told)
    bench.remove("tuned")


def test_a_driver_may_write_slices_of_its_own_node_only(bench):
    node = bench.node()
    foreign = {
        "metadata": {"name": f"foreign-{secrets.token_hex(3)}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": "another-node",
            "pool": {"name": "another-node", "generation": 1, "resourceSliceCount": 1},
            "devices": [],
        },
    }
    kubeconfig = bench.cluster.folder / "pki" / f"driver-{node}.kubeconfig"
    with Client.from_kubeconfig(kubeconfig) as driver:
        with pytest.raises(ApiError, match="its own node only"):
            driver.create(RESOURCE_SLICES, foreign)
        with pytest.raises(ApiError, match="cannot list resource"):
            driver.list(PODS)
