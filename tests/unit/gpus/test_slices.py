import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.gpus import Machine, Slot, build, machines, slices
from labkit.kube import Quantity
from labkit.paths import data_dir

NAMES = machines.names()


def published(name, node="node-1", seed="cluster"):
    (slice_,) = slices.resource_slices(build(machines.load(name), node=node, seed=seed))
    return slice_["spec"]


def test_a_whole_h100_is_published_as_the_driver_publishes_it():
    device = published("dgx-h100")["devices"][0]
    uuid = device["attributes"].pop("uuid")["string"]
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid)
    assert device == {
        "name": "gpu-0",
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "580.126.9"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "addressingMode": {"string": "HMM"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:1b:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:15"},
            "resource.kubernetes.io/numaNode": {"int": 0},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def test_whole_gibibytes_are_written_as_the_server_stores_them():
    assert published("p4d")["devices"][0]["capacity"]["memory"]["value"] == "40Gi"


def test_what_a_node_does_not_show_is_left_out():
    assert "resource.kubernetes.io/numaNode" not in published("p4d")["devices"][0]["attributes"]


def addresses(count):
    return [f"{number // 256:04x}:{number % 256:02x}:00.0" for number in range(count)]


@st.composite
def any_machines(draw):
    """Machines of any size and mix of cards, with whatever a node may or may not show."""
    count = draw(st.integers(1, machines.MAX_GPUS))
    keys = draw(st.lists(st.sampled_from(sorted(machines.cards())), min_size=1, max_size=4))
    shows = draw(st.booleans())
    return Machine(
        name="any",
        description="any",
        driver_version=draw(st.sampled_from(["580.126.09", "550.163.01", "595.91.07", "535.54"])),
        cuda_version=draw(st.sampled_from(["13.0", "12.8"])),
        slots=tuple(
            Slot(
                card=machines.cards()[keys[number % len(keys)]],
                pci_bus_id=address,
                numa_node=number % 8 if shows else None,
                pcie_root=f"pci{address[:7]}" if shows else None,
            )
            for number, address in enumerate(addresses(count))
        ),
    )


SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"([a-z0-9.-]{1,63}/)?[A-Za-z_]\w{0,31}", re.ASCII)


@settings(max_examples=50, deadline=None)
@given(any_machines())
def test_slices_keep_to_the_limits_of_the_api(machine):
    published = slices.resource_slices(build(machine, node="node-1", seed="cluster"))
    devices = [device for slice_ in published for device in slice_["spec"]["devices"]]
    assert len(devices) == len({device["name"] for device in devices}) == len(machine.slots)
    for slice_ in published:
        pool = {"name": "node-1", "generation": 1, "resourceSliceCount": len(published)}
        assert slice_["spec"]["pool"] == pool
        assert slice_["spec"]["driver"] == "gpu.nvidia.com"
        assert slice_["spec"]["nodeName"] == "node-1"
        assert len(slice_["spec"]["devices"]) <= 128
    for device in devices:
        assert LABEL.fullmatch(device["name"])
        assert len(device["attributes"]) + len(device["capacity"]) <= 32
        for name, value in device["attributes"].items():
            assert NAME.fullmatch(name)
            ((kind, content),) = value.items()
            assert kind in ("int", "string", "version")
            assert kind != "version" or SEMVER.fullmatch(content)
            assert kind == "int" or 0 < len(content.encode()) <= 64
        (memory,) = device["capacity"].values()
        assert str(Quantity.parse(memory["value"])) == memory["value"]


@pytest.mark.parametrize("name", NAMES)
def test_stock_classes_find_the_keys_that_they_ask_for(name):
    text = (data_dir("clusters") / "driver" / "deviceclasses.yaml").read_text()
    classes = {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(text)}
    assert set(classes) == {"gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"}
    assert classes["gpu.nvidia.com"]["extendedResourceName"] == "nvidia.com/gpu"
    for spec in classes.values():
        (selector,) = spec["selectors"]
        expression = selector["cel"]["expression"]
        assert expression.startswith("device.driver == 'gpu.nvidia.com' && ")
        (key,) = re.findall(r"attributes\['gpu\.nvidia\.com'\]\.(\w+)", expression)
        assert all(key in device["attributes"] for device in published(name)["devices"])


@given(st.sampled_from(NAMES), st.text(min_size=1, max_size=20), st.text(max_size=20))
def test_uuids_are_the_same_again_and_different_elsewhere(name, node, seed):
    machine = machines.load(name)

    def uuids(node, seed):
        return [gpu.uuid for gpu in build(machine, node=node, seed=seed).gpus]

    here = uuids(node, seed)
    assert here == uuids(node, seed)
    elsewhere = [*uuids(f"{node}x", seed), *uuids(node, f"{seed}x")]
    assert len({*here, *elsewhere}) == 3 * len(machine.slots)


def test_slices_go_with_their_node():
    owner = {"metadata": {"name": "node-1", "uid": "u"}}
    inventory = build(machines.load("t4-box"), node="node-1", seed="")
    (slice_,) = slices.resource_slices(inventory, owner=owner)
    assert slice_["metadata"]["ownerReferences"][0]["uid"] == "u"


@pytest.mark.parametrize(
    ("nvidia", "semantic"),
    [
        ("580.126.09", "580.126.9"),
        ("550.163.01", "550.163.1"),
        ("13.0", "13.0.0"),
        ("9.0", "9.0.0"),
    ],
)
def test_versions_become_semantic(nvidia, semantic):
    assert slices.semver(nvidia) == semantic
