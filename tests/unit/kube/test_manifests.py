import pytest

from labkit.errors import BadInput
from labkit.kube import manifests

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"


def test_empty_documents_are_skipped_and_lists_are_opened():
    listed = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n"
    assert [obj["kind"] for obj in manifests.load(f"---\n{POD}---\n---\n{listed}")] == ["Pod"] * 2


def test_a_key_that_stands_twice_is_refused_by_line():
    with pytest.raises(BadInput, match="line 5: key 'name' stands twice"):
        manifests.load(POD + "  name: b\n", origin="pod.yaml")


def test_broken_yaml_is_refused_by_line():
    with pytest.raises(BadInput, match=r"pod\.yaml, line 2"):
        manifests.load("a: b\n c: d\n", origin="pod.yaml")


def test_dates_stay_text():
    assert manifests.load(POD + "  annotations: {day: 2026-11-30}\n")[0]["metadata"][
        "annotations"
    ] == {"day": "2026-11-30"}


def test_a_document_that_is_no_object_is_refused():
    with pytest.raises(BadInput, match="document 2: expected an object, found str"):
        manifests.load(f"{POD}---\njust words\n")


def test_an_object_is_named_as_people_would():
    assert (
        manifests.named({"kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}) == "Pod/b/a"
    )
