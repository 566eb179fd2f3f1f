from xml.etree import ElementTree as ET

import pytest

from labkit.gpus import build, machines, slices
from labkit.widgets import gpu_map, object_way

NODE = {"metadata": {"name": "lab-0"}}
(SLICE,) = slices.resource_slices(build(machines.load("dgx-a100"), node="lab-0", seed="s"))


def claim(device="gpu-3", pods=("train",), **status):
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "lab-0", "device": device}
    allocation = {"allocation": {"devices": {"results": [result]}}} if device else {}
    return {
        "metadata": {"name": "a-claim"},
        "spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
        "status": {**allocation, "reservedFor": [{"name": pod} for pod in pods], **status},
    }


def pod(**changes):
    return {
        "metadata": {"name": "train"},
        "spec": {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "one-gpu"}]},
        "status": {"phase": "Pending"},
        **changes,
    }


def test_the_map_shows_every_device_and_who_has_it():
    picture = gpu_map(nodes=[NODE], slices=[SLICE], claims=[claim()])
    assert picture.text.splitlines()[0] == "8 devices, 1 of them allocated"
    assert "  gpu-3  A100-SXM4-40GB  pod train" in picture.text
    assert picture.text.count(" free") == 7
    assert picture.svg.count(">free</text>") == 7


def test_a_claim_that_no_pod_uses_holds_its_device_too():
    picture = gpu_map(nodes=[NODE], slices=[SLICE], claims=[claim(pods=())])
    assert "gpu-3  A100-SXM4-40GB  claim a-claim" in picture.text


def test_only_the_newest_generation_of_a_pool_counts():
    old = {**SLICE, "spec": {**SLICE["spec"], "devices": [{"name": "gpu-99"}]}}
    newer = {**SLICE["spec"], "pool": {**SLICE["spec"]["pool"], "generation": 2}}
    picture = gpu_map(nodes=[NODE], slices=[old, {**SLICE, "spec": newer}], claims=[])
    assert "gpu-99" not in picture.text


def test_a_node_without_devices_is_drawn_empty():
    picture = gpu_map(nodes=[NODE], slices=[], claims=[])
    assert "no devices published" in picture.text


@pytest.mark.parametrize(
    ("changes", "claims", "marks"),
    [
        ({}, [], "✓····"),
        ({}, [claim(device="")], "✓✓···"),
        ({"spec": {**pod()["spec"], "nodeName": "lab-0"}}, [claim()], "✓✓✓✓·"),
        (
            {
                "spec": {**pod()["spec"], "nodeName": "lab-0"},
                "status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]},
            },
            [claim()],
            "✓✓✓✓✓",
        ),
    ],
)
def test_the_way_shows_how_far_a_pod_has_come(changes, claims, marks):
    picture = object_way(pod=pod(**changes), claims=claims, slices=[SLICE])
    lines = picture.text.splitlines()[1::2]
    assert "".join(line[0] for line in lines) == marks


def test_pictures_are_whole_svg_whatever_the_names(tmp_path):
    odd = {"metadata": {"name": "<&\"'>"}, "spec": {}, "status": {}}
    for picture in (
        gpu_map(nodes=[odd], slices=[SLICE], claims=[claim(pods=("<b>",))]),
        object_way(pod=odd, claims=[claim()], slices=[SLICE]),
    ):
        ET.fromstring(picture.svg)
        picture.save(tmp_path / "picture.svg")
        bundle = picture._repr_mimebundle_()
        assert bundle["text/plain"] == picture.text
        assert bundle["text/html"] == picture.svg
