import json

import pytest
import yaml

from labkit.errors import LabError
from labkit.runtime import cdi


def spec(**changes):
    return {
        "cdiVersion": "0.6.0",
        "kind": "example.com/gpu",
        "containerEdits": {"env": ["SHARED=yes"]},
        "devices": [
            {"name": "a", "containerEdits": {"env": ["A=1=2"]}},
            {"name": "b", "containerEdits": {"mounts": [
                {"hostPath": "/usr", "containerPath": "/x", "options": ["ro", "nosuid", "bind"]}]}},
        ],
        **changes,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(spec()))
    return tmp_path


def test_a_devices_own_edits_and_the_shared_ones_arrive(folder):
    edits = cdi.resolve(["example.com/gpu=a", "example.com/gpu=b"], [folder])
    assert edits.env == {"SHARED": "yes", "A": "1=2"}
    (bind,) = edits.binds
    assert (bind.source, bind.target, bind.readonly, bind.options) == (
        "/usr",
        "/x",
        True,
        ("nosuid",),
    )


def test_yaml_is_read_as_well(tmp_path):
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(spec()))
    assert cdi.resolve(["example.com/gpu=a"], [tmp_path]).env["A"] == "1=2"


def test_a_later_folder_wins(folder, tmp_path_factory):
    later = tmp_path_factory.mktemp("later")
    changed = spec(devices=[{"name": "a", "containerEdits": {"env": ["A=new"]}}])
    (later / "one.json").write_text(json.dumps(changed))
    assert cdi.resolve(["example.com/gpu=a"], [folder, later]).env["A"] == "new"


def test_an_unknown_device_is_named_and_so_is_a_broken_file(folder):
    (folder / "bad.json").write_text("{")
    with pytest.raises(LabError, match=r"'example.com/gpu=c' .*bad\.json is broken"):
        cdi.resolve(["example.com/gpu=c"], [folder])


def test_a_broken_file_does_not_hide_the_others(folder):
    (folder / "bad.json").write_text("[]")
    assert cdi.resolve(["example.com/gpu=a"], [folder]).env


def test_device_nodes_of_the_host_are_bound_and_others_are_told(tmp_path):
    nodes = [{"path": "/dev/null"}, {"path": "/dev/no-such-device"}]
    devices = [{"name": "a", "containerEdits": {"deviceNodes": nodes}}]
    (tmp_path / "one.json").write_text(json.dumps(spec(devices=devices)))
    edits = cdi.resolve(["example.com/gpu=a"], [tmp_path])
    assert [bind.target for bind in edits.binds] == ["/dev/null"]
    assert edits.skipped == ("this host has no device node /dev/no-such-device",)


def test_hooks_keep_their_stage(tmp_path):
    hook = {"hookName": "createContainer", "path": "/bin/true", "args": ["true"]}
    devices = [{"name": "a", "containerEdits": {"hooks": [hook]}}]
    (tmp_path / "one.json").write_text(json.dumps(spec(devices=devices)))
    edits = cdi.resolve(["example.com/gpu=a"], [tmp_path])
    assert edits.hooks == {"createContainer": [{"path": "/bin/true", "args": ["true"]}]}


def test_names_come_from_the_field_and_from_annotations_once():
    annotations = {"cdi.k8s.io/x": "v/c=a, v/c=b", "other": "v/c=z"}
    assert cdi.names(["v/c=a"], annotations) == ["v/c=a", "v/c=b"]


def test_without_devices_nothing_is_read(tmp_path):
    assert cdi.resolve([], [tmp_path / "absent"]) == cdi.Edits()
