"""The namespace of a lab, on a fake cluster that takes its time."""

import pytest

from labkit.course import space
from labkit.errors import WaitTimedOut
from labkit.kube import NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS


class Slow:
    """Objects that go some looks after they were told to; a namespace that comes as slowly."""

    namespace = "default"

    def __init__(self, *, leaving=False, stuck=False):
        self.told = []
        self.looks = 0
        self.leaving = leaving
        self.stuck = stuck
        self.pods = ["old"]
        self.applied = []

    def find(self, resource, name, *, namespace=None):
        self.looks += 1
        if resource is NAMESPACES and self.leaving:
            self.leaving = self.looks < 3
            return {"metadata": {"name": name, "deletionTimestamp": "now"}}
        if resource is SERVICE_ACCOUNTS and self.applied and self.looks > 5:
            return {"metadata": {"name": name}}
        return None

    def apply(self, manifest):
        assert not self.leaving, "what is made in a namespace that goes, goes with it"
        self.applied.append(manifest["metadata"]["name"])

    def list(self, resource, *, namespace=None, fields=""):
        names = {PODS: self.pods, SECRETS: ["kube-root-ca.crt"]}.get(resource, [])

        class Listing:
            items = [{"metadata": {"name": name}} for name in names]  # noqa: RUF012

        return Listing()

    def delete(self, resource, name, *, namespace, grace_s=None):
        self.told.append((resource.kind, name, grace_s))
        if not self.stuck:
            self.pods = []


def test_what_was_there_is_removed_and_what_belongs_to_kubernetes_stays():
    client = Slow()
    space.prepare(client, "01")
    assert client.told == [("Pod", "old", space.GRACE_S)]
    assert client.applied == ["lab-01"]


def test_a_namespace_on_its_way_out_is_waited_for_and_made_anew():
    client = Slow(leaving=True)
    space.prepare(client, "01")
    assert client.applied == ["lab-01"]


def test_what_does_not_go_away_is_named(monkeypatch):
    monkeypatch.setattr(space, "EMPTY_S", 0.05)
    with pytest.raises(WaitTimedOut, match=r"lab-01 to be empty.*Pod/old"):
        space.prepare(Slow(stuck=True), "01")
