import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.driver.claims import Unpreparable
from labkit.errors import ApiError, LabError
from tests.unit.driver.conftest import Node, claim


def test_a_prepared_claim_has_a_cdi_file_with_its_devices_and_no_others(node):
    node.add(claim("a", "gpu-3", "gpu-5"))
    node.preparer().prepare("ns", "a", "uid-a")
    (spec,) = [json.loads(text) for text in node.specs().values()]
    assert spec["kind"] == "k8s.gpu.nvidia.com/claim"
    assert [device["name"] for device in spec["devices"]] == ["uid-a-gpu-3", "uid-a-gpu-5"]


def test_preparing_three_times_gives_the_same_answer_and_the_same_files(node):
    node.add(claim("a", "gpu-3"))
    preparer = node.preparer()
    answers = [preparer.prepare("ns", "a", "uid-a") for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert len(node.specs()) == 1


def test_a_lost_cdi_file_is_made_again_by_the_next_prepare(node):
    node.add(claim("a", "gpu-3"))
    preparer = node.preparer()
    preparer.prepare("ns", "a", "uid-a")
    before = node.specs()
    for path in node.cdi.iterdir():
        path.unlink()
    preparer.prepare("ns", "a", "uid-a")
    assert node.specs() == before


def test_a_restarted_driver_knows_its_claims_without_the_api_and_restores_their_files(node):
    node.add(claim("a", "gpu-3"))
    first = node.preparer().prepare("ns", "a", "uid-a")
    before = node.specs()
    for path in node.cdi.iterdir():
        path.unlink()
    node.claims.clear()
    again = node.preparer()
    assert node.specs() == before
    assert again.prepare("ns", "a", "uid-a") == first


def test_a_cdi_file_that_was_never_answered_for_is_removed_at_the_start(node):
    node.cdi.mkdir()
    ours = node.cdi / "k8s.gpu.nvidia.com-claim_uid-x.json"
    theirs = node.cdi / "vendor.example.com-net.json"
    for path in (ours, theirs):
        path.write_text("{}")
    node.preparer()
    assert not ours.exists()
    assert theirs.exists()


def test_unpreparing_twice_or_the_unknown_is_fine(node):
    node.add(claim("a", "gpu-3"))
    preparer = node.preparer()
    preparer.prepare("ns", "a", "uid-a")
    for uid in ("uid-a", "uid-a", "uid-never"):
        preparer.unprepare(uid)
    assert not node.specs()
    assert not node.preparer().prepared()


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (claim("b"), "no ResourceClaim ns/a"),
        ({**claim("a", "gpu-0"), "status": {}}, "not allocated"),
        (claim("a", "gpu-9"), "no device 'gpu-9'"),
        (claim("a", "gpu-0", pool="node-2"), "in pool 'node-2', and this node's is 'node-1'"),
        (claim("a", "gpu-0", driver="dra.net"), "allocated no device of gpu.nvidia.com"),
    ],
)
def test_what_cannot_be_prepared_is_refused_with_the_reason(node, obj, told):
    node.add(obj)
    with pytest.raises(Unpreparable, match=told):
        node.preparer().prepare("ns", "a", "uid-a")
    assert not node.specs()


def test_a_silent_api_server_leaves_nothing_prepared_and_the_next_try_succeeds(node, monkeypatch):
    node.add(claim("a", "gpu-3"))
    preparer = node.preparer()

    def silent(*_):
        raise ApiError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(preparer, "_read_claim", silent)
        with pytest.raises(ApiError):
            preparer.prepare("ns", "a", "uid-a")
    assert not node.specs()
    assert preparer.prepare("ns", "a", "uid-a").devices


def test_a_namesake_is_not_prepared(node):
    node.add(claim("a", "gpu-3"))
    with pytest.raises(Unpreparable, match="another one by now"):
        node.preparer().prepare("ns", "a", "uid-of-old")


def test_a_device_is_not_given_twice_except_by_admin_access(node):
    node.add(claim("a", "gpu-3"))
    node.add(claim("b", "gpu-3"))
    node.add(claim("watcher", "gpu-3", adminAccess=True))
    preparer = node.preparer()
    preparer.prepare("ns", "a", "uid-a")
    with pytest.raises(Unpreparable, match="still prepared for ResourceClaim ns/a"):
        preparer.prepare("ns", "b", "uid-b")
    preparer.prepare("ns", "watcher", "uid-watcher")
    preparer.unprepare("uid-a")
    preparer.prepare("ns", "b", "uid-b")


def test_a_device_that_is_about_to_be_free_is_awaited(node):
    node.add(claim("a", "gpu-3", "gpu-4"))
    node.add(claim("b", "gpu-4"))
    preparer = node.preparer(patience_s=10)
    preparer.prepare("ns", "a", "uid-a")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(preparer.prepare, "ns", "b", "uid-b")
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        preparer.unprepare("uid-a")
        assert waiting.result(5).uid == "uid-b"
    assert [one.uid for one in preparer.prepared()] == ["uid-b"]


def test_of_many_claims_for_one_device_exactly_one_gets_it(node):
    names = [f"c{number}" for number in range(8)]
    for name in names:
        node.add(claim(name, "gpu-3"))
    preparer = node.preparer()

    def attempt(name):
        with suppress(Unpreparable):
            return preparer.prepare("ns", name, f"uid-{name}")

    with ThreadPoolExecutor(len(names)) as pool:
        won = list(filter(None, pool.map(attempt, names)))
    assert len(won) == len(node.specs()) == 1
    assert preparer.prepared() == won


def test_calls_for_one_claim_at_the_same_time_answer_alike(node):
    node.add(claim("a", "gpu-3"))
    preparer = node.preparer()
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(lambda _: preparer.prepare("ns", "a", "uid-a"), range(8)))
    assert len(answers) == 1


def test_what_other_drivers_gave_is_none_of_ours(node):
    obj = claim("a", "gpu-3")
    nic = {"request": "nic", "driver": "dra.net", "pool": "x", "device": "eth0"}
    obj["status"]["allocation"]["devices"]["results"].append(nic)
    node.add(obj)
    assert [d.device for d in node.preparer().prepare("ns", "a", "uid-a").devices] == ["gpu-3"]


def test_a_sub_request_answers_for_its_main_request(node):
    node.add(claim("a", "gpu-3", request="any/big"))
    assert node.preparer().prepare("ns", "a", "uid-a").devices[0].requests == ("any",)


def test_parameters_that_nobody_acts_on_are_refused(node):
    obj = claim("a", "gpu-3")
    parameters = {"kind": "GpuConfig"}
    obj["status"]["allocation"]["devices"]["config"] = [
        {"source": "FromClaim", "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}
    ]
    node.add(obj)
    with pytest.raises(Unpreparable, match=r"config\[0\] \(FromClaim\): .*'GpuConfig'"):
        node.preparer().prepare("ns", "a", "uid-a")


def test_a_claim_whose_device_is_gone_can_still_be_unprepared(node):
    node.add(claim("a", "gpu-3"))
    node.preparer().prepare("ns", "a", "uid-a")
    smaller = node.preparer("t4-box")
    assert not node.specs()
    with pytest.raises(Unpreparable, match="no device 'gpu-3'"):
        smaller.prepare("ns", "a", "uid-a")
    smaller.unprepare("uid-a")
    assert not smaller.prepared()


def test_a_driver_killed_at_any_step_starts_again_with_files_and_memory_agreed(node):
    for step in range(12):
        done = subprocess.run(
            [sys.executable, "-c", KILLED_IN_THE_MIDDLE, str(node.folder.parent), str(step)],
            cwd=Path(__file__).parents[3],
            check=False,
            timeout=60,
        )
        assert done.returncode in (0, -signal.SIGKILL)
        node.add(claim("a", "gpu-3"))
        again = node.preparer()
        assert len(node.specs()) == len(again.prepared())
        assert not [name for name in node.specs() if name.startswith(".")]
        assert again.prepare("ns", "a", "uid-a").devices[0].device == "gpu-3"
        again.unprepare("uid-a")
        assert not node.specs()
        if done.returncode == 0:
            break
    assert step > 4
    assert done.returncode == 0


KILLED_IN_THE_MIDDLE = """
import os, signal, sys
from pathlib import Path
from tests.unit.driver.conftest import Node, claim

node = Node(Path(sys.argv[1]), fresh=False)
node.add(claim("a", "gpu-3"))
preparer = node.preparer()
left = int(sys.argv[2])
STEPS = ("open", "os.rename", "os.remove", "os.chmod")

def watch(event, args):
    global left
    if event in STEPS and str(node.folder.parent) in str(args):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
preparer.prepare("ns", "a", "uid-a")
preparer.unprepare("uid-a")
"""


def test_an_unfinished_checkpoint_beside_the_real_one_changes_nothing(node):
    node.add(claim("a", "gpu-3"))
    node.preparer().prepare("ns", "a", "uid-a")
    (node.folder / ".checkpoint.json.new").write_text('{"version": 1, "cla')
    again = node.preparer()
    assert [one.uid for one in again.prepared()] == ["uid-a"]
    again.unprepare("uid-a")
    assert not node.preparer().prepared()


def test_a_full_disk_leaves_nothing_prepared(node, monkeypatch):
    node.add(claim("a", "gpu-3"))
    preparer = node.preparer()

    def refuse(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space left"):
            preparer.prepare("ns", "a", "uid-a")
    assert not preparer.prepared()
    assert not node.preparer().prepared()
    preparer.prepare("ns", "a", "uid-a")


@pytest.mark.parametrize("damage", [lambda text: text[:-20], lambda t: t.replace("gpu-3", "gpu-4")])
def test_a_checkpoint_that_does_not_verify_stops_the_driver(node, damage):
    node.add(claim("a", "gpu-3"))
    node.preparer().prepare("ns", "a", "uid-a")
    path = node.folder / "checkpoint.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(LabError, match="cannot be trusted"):
        node.preparer()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["prepare", "unprepare", "restart"]), st.integers(0, 4)),
        max_size=15,
    )
)
def test_files_and_memory_always_agree(tmp_path_factory, steps):
    node = Node(tmp_path_factory.mktemp("node"))
    for number in range(5):
        node.add(claim(f"c{number}", f"gpu-{number % 3}"))
    preparer = node.preparer()
    for step, number in steps:
        name = f"c{number}"
        if step == "restart":
            preparer = node.preparer()
        elif step == "unprepare":
            preparer.unprepare(f"uid-{name}")
        else:
            with suppress(Unpreparable):
                preparer.prepare("ns", name, f"uid-{name}")
        held = [device.device for one in preparer.prepared() for device in one.devices]
        assert len(held) == len(set(held))
        assert len(node.specs()) == len(preparer.prepared())
