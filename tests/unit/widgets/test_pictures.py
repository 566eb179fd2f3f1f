from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.gpus import build, machines, slices
from labkit.widgets import gpu_map, object_way

NODE = {"metadata": {"name": "lab-0"}}
(SLICE,) = slices.resource_slices(build(machines.load("dgx-a100"), node="lab-0", seed="s"))
SLICE["metadata"]["name"] = "00000-gpu.nvidia.com-lab-0-x2x4x"  # as the server names it


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
    assert "  gpu-3  A100-SXM4-40GB  40Gi  pod train" in picture.text
    assert picture.text.count(" free") == 7
    assert picture.svg.count(">free</text>") == 7


def test_a_claim_that_no_pod_uses_holds_its_device_too():
    picture = gpu_map(nodes=[NODE], slices=[SLICE], claims=[claim(pods=())])
    assert "gpu-3  A100-SXM4-40GB  40Gi  claim a-claim" in picture.text


def test_only_the_newest_generation_of_a_pool_counts():
    old = {**SLICE, "spec": {**SLICE["spec"], "devices": [{"name": "gpu-99"}]}}
    newer = {**SLICE["spec"], "pool": {**SLICE["spec"]["pool"], "generation": 2}}
    picture = gpu_map(nodes=[NODE], slices=[old, {**SLICE, "spec": newer}], claims=[])
    assert "gpu-99" not in picture.text


def test_a_node_without_devices_is_drawn_empty():
    picture = gpu_map(nodes=[NODE], slices=[], claims=[])
    assert "no devices published" in picture.text


def test_devices_of_two_drivers_with_the_same_names_are_two():
    other = {**SLICE, "spec": {**SLICE["spec"], "driver": "gpu.example.com"}}
    picture = gpu_map(nodes=[NODE], slices=[SLICE, other], claims=[claim()])
    assert picture.text.splitlines()[0] == "16 devices, 1 of them allocated"


def test_a_monitor_with_admin_access_holds_nothing():
    looking = claim()
    looking["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    picture = gpu_map(nodes=[NODE], slices=[SLICE], claims=[looking])
    assert picture.text.splitlines()[0] == "8 devices, 0 of them allocated"


def test_namespaces_are_told_where_there_are_two():
    one, other = claim("gpu-0"), claim("gpu-1")
    one["metadata"]["namespace"], other["metadata"]["namespace"] = "team-a", "team-b"
    picture = gpu_map(nodes=[NODE], slices=[SLICE], claims=[one, other])
    assert "pod team-a/train" in picture.text
    assert "pod team-b/train" in picture.text
    assert "pod train" in gpu_map(nodes=[NODE], slices=[SLICE], claims=[one]).text


def test_a_device_that_is_shared_names_all_who_share_it():
    claims = [claim(pods=("a", "b")), claim(pods=("c",))]
    assert "pod a, b, pod c" in gpu_map(nodes=[NODE], slices=[SLICE], claims=claims).text


def running(**more):
    status = {"name": "main", "state": {"running": {}}, **more}
    return {
        "spec": {**pod()["spec"], "nodeName": "lab-0"},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


SCHEDULED = {"spec": {**pod()["spec"], "nodeName": "lab-0"}}
READY = {"type": "PodReadyToStartContainers", "status": "True"}
CREATING = {
    "conditions": [READY],
    "containerStatuses": [{"name": "main", "state": {"waiting": {}}}],
}


@pytest.mark.parametrize(
    ("changes", "claims", "marks"),
    [
        ({"spec": {}}, [], "······"),
        ({}, [], "✓·····"),
        ({}, [claim(device="")], "✓✓····"),
        (SCHEDULED, [claim()], "✓✓✓✓··"),
        ({**SCHEDULED, "status": CREATING}, [claim()], "✓✓✓✓✓·"),
        (running(), [claim()], "✓✓✓✓✓✓"),
    ],
)
def test_the_way_shows_how_far_a_pod_has_come(changes, claims, marks):
    picture = object_way(pod=pod(**changes), claims=claims, slices=[SLICE])
    lines = picture.text.splitlines()[1::2]
    assert "".join(line[0] for line in lines) == marks


def test_the_way_tells_the_names_that_lead_from_one_object_to_the_next():
    cdi = {"resourceID": "k8s.gpu.nvidia.com/claim=uid-gpu-3", "health": "Unknown"}
    allocated = [{"name": "claim:g", "resources": [cdi]}]
    changes = running(allocatedResourcesStatus=allocated)
    told = object_way(pod=pod(**changes), claims=[claim()], slices=[SLICE]).text
    for words in (
        "ResourceClaimTemplate one-gpu",
        "asks for 1 of class gpu.nvidia.com",
        "ResourceClaim a-claim",
        "gpu-3 of pool lab-0; pod goes to node lab-0",
        f"ResourceSlice {SLICE['metadata']['name']}",
        "gpu-3 is A100-SXM4-40GB 40Gi",
        "k8s.gpu.nvidia.com/claim=uid-gpu-3",
        "container main running",
    ):
        assert words in told


def test_the_way_says_so_when_a_held_device_is_published_no_more():
    told = object_way(pod=pod(**running()), claims=[claim()], slices=[]).text
    assert "no slice publishes it any more" in told


def test_a_prioritized_list_is_told_in_its_order():
    asked = claim()
    options = [
        {"name": "big", "deviceClassName": "a", "count": 1},
        {"name": "small", "deviceClassName": "b", "allocationMode": "All"},
    ]
    asked["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": options}]
    told = object_way(pod=pod(), claims=[asked], slices=[SLICE]).text
    assert "asks for 1 of class a or else all of class b" in told


names = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Cn")), min_size=1, max_size=40)


@given(names, names, st.lists(names, max_size=3))
def test_pictures_are_whole_svg_whatever_the_names(node, device, pods):
    spec = {**SLICE["spec"], "nodeName": node, "devices": [{"name": device}]}
    odd = {"metadata": {"name": node}, "spec": {}, "status": {}}
    held = claim(device=device, pods=pods)
    for picture in (
        gpu_map(nodes=[odd], slices=[{**SLICE, "spec": spec}], claims=[held]),
        object_way(pod=odd, claims=[held], slices=[SLICE]),
    ):
        root = ET.fromstring(picture.svg)
        width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
        for box in root.iter("{http://www.w3.org/2000/svg}rect"):
            place = {key: float(box.attrib[key]) for key in ("x", "y", "width", "height")}
            assert place["x"] + place["width"] <= width
            assert place["y"] + place["height"] <= height
        bundle = picture._repr_mimebundle_()
        assert bundle["text/plain"] == picture.text == str(picture)
        assert bundle["text/html"] == picture.svg


def test_who_cannot_see_the_picture_is_told_all_of_it():
    picture = gpu_map(nodes=[NODE], slices=[SLICE], claims=[claim()])
    root = ET.fromstring(picture.svg)
    assert root.attrib["role"] == "img"
    told = {child.tag.rpartition("}")[2]: child.text for child in root}
    assert told["title"] == "8 devices, 1 of them allocated"
    assert told["desc"] == picture.text


def test_words_take_their_colour_from_the_page_and_boxes_do_not_speak_by_colour_alone():
    picture = gpu_map(nodes=[NODE], slices=[SLICE], claims=[claim()])
    texts = list(ET.fromstring(picture.svg).iter("{http://www.w3.org/2000/svg}text"))
    assert texts
    assert not any("fill" in text.attrib for text in texts)
    assert "pod train" in [text.text for text in texts]


def test_a_saved_picture_follows_light_and_dark(tmp_path):
    picture = gpu_map(nodes=[NODE], slices=[SLICE], claims=[])
    picture.save(tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text()
    ET.fromstring(text)
    assert "prefers-color-scheme:dark" in text
