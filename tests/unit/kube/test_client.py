import pytest

from labkit.errors import ApiError, BadInput
from labkit.kube import PODS, RESOURCE_SLICES
from labkit.kube.client import Client
from labkit.kube.kubeconfig import Access
from tests.unit.kube.conftest import Answer, failure, listing, slice_

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": {}}


def pod(version="1", **metadata):
    return {**POD, "metadata": {"name": "train", "resourceVersion": version, **metadata}}


def test_a_list_is_read_page_by_page_and_its_items_stand_alone(api, client):
    api.script(
        Answer({"metadata": {"resourceVersion": "7", "continue": "x"}, "items": [slice_("a", 1)]}),
        listing(7, slice_("b", 2)),
    )
    found = client.list(RESOURCE_SLICES)
    assert [item["metadata"]["name"] for item in found.items] == ["a", "b"]
    assert {item["kind"] for item in found.items} == {"ResourceSlice"}
    assert api.requests[1].params["continue"] == "x"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (failure(404, "NotFound"), Answer(pod()), "created"),
        (Answer(pod("1")), Answer(pod("2", labels={"a": "b"})), "changed"),
        (Answer(pod("1")), Answer(pod("1", managedFields=[{}])), "unchanged"),
    ],
)
def test_apply_says_what_became_of_the_object(api, client, before, after, verdict):
    api.script(before, after)
    assert client.apply(POD).verdict == verdict
    sent = api.requests[1]
    assert sent.method == "PATCH"
    assert sent.path == "/api/v1/namespaces/default/pods/train"
    assert sent.params["fieldValidation"] == "Strict"
    assert sent.content_type == "application/apply-patch+yaml"


def test_every_write_is_validated_strictly(api, client):
    api.script(Answer(pod()))
    client.create(PODS, POD)
    client.patch(PODS, "train", {})
    client.update(PODS, pod())
    assert [request.params["fieldValidation"] for request in api.requests] == ["Strict"] * 3


def test_a_kind_that_the_server_lacks_is_named_beside_those_it_has(api, client):
    api.script(
        Answer({"resources": [{"name": "jobs", "kind": "Job", "namespaced": True}]}),
    )
    with pytest.raises(BadInput, match="no kind 'Jog' in batch/v1") as caught:
        client.apply({"apiVersion": "batch/v1", "kind": "Jog", "metadata": {"name": "x"}})
    assert "Job" in caught.value.hint


def test_a_version_that_is_not_served_is_named_beside_those_that_are(api, client):
    groups = {"name": "resource.k8s.io", "versions": [{"groupVersion": "resource.k8s.io/v1"}]}
    api.script(failure(404, "NotFound"), Answer({"groups": [groups]}))
    with pytest.raises(BadInput, match=r"does not serve 'resource\.k8s\.io/v1alpha2'") as caught:
        client.apply({"apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceClaim"})
    assert "resource.k8s.io/v1" in caught.value.hint


def test_two_namespaces_are_a_contradiction(client):
    manifest = {**POD, "metadata": {"name": "train", "namespace": "theirs"}}
    with pytest.raises(BadInput, match="Pod/theirs/train"):
        client.apply(manifest, namespace="ours")


def test_apply_needs_a_name(client):
    with pytest.raises(BadInput, match=r"no metadata\.name"):
        client.apply({**POD, "metadata": {"generateName": "train-"}})


def test_a_refusal_lists_each_field_that_the_server_names(api, client):
    causes = [{"field": "spec.a", "message": "Required"}, {"field": "spec.b", "message": "Bad"}]
    api.script(failure(422, "Invalid", 'Pod "x" is invalid: lots', details={"causes": causes}))
    with pytest.raises(ApiError) as caught:
        client.create(PODS, POD)
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")
    assert "\n    spec.a: Required\n    spec.b: Bad" in str(caught.value)


def test_what_is_not_there_is_found_to_be_none_and_deleted_to_be_false(api, client):
    api.script(failure(404, "NotFound"))
    assert client.find(PODS, "x") is None
    assert client.delete(PODS, "x") is False


def test_a_namesake_is_not_deleted(api, client):
    api.script(failure(409, "Conflict"))
    assert client.delete(PODS, "x", uid="another") is False
    assert api.requests[0].body["preconditions"] == {"uid": "another"}


def test_a_busy_server_is_asked_again(api, client):
    busy = failure(429, "TooManyRequests")
    busy.headers["Retry-After"] = "1"
    api.script(busy, busy, Answer(pod()))
    assert client.get(PODS, "train")["kind"] == "Pod"


def test_a_server_that_is_not_there_is_an_error_with_its_address():
    gone = Access(server="http://127.0.0.1:9", namespace="default", verify=False, headers={})
    with Client(gone) as client:
        with pytest.raises(ApiError, match=r"no answer .*127\.0\.0\.1:9") as caught:
            client.get(PODS, "x")
        assert caught.value.status == 0
        assert client.readyz() is False


def test_nothing_is_applied_of_a_text_whose_end_is_wrong(api, client):
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nkind: Pod\n"
    with pytest.raises(BadInput, match="document 2: 'apiVersion' is missing"):
        client.apply_yaml(text)
    assert not api.requests


def test_json_comes_parsed_and_text_as_text(api, client):
    api.script(Answer({"a": 1}))
    assert client.raw("GET", "/x") == {"a": 1}
