"""`open_lab`, with a cluster that is scripted."""

import pytest

from labkit.cluster import Cluster
from labkit.course import opening, space
from labkit.errors import BadInput, LabError
from labkit.kube import NODES, RESOURCE_SLICES


class FakeCluster:
    def __init__(self, name, *, ready=True, devices=(8, 8)):
        self.name = name
        self.ready = ready
        self.devices = devices

    def client(self):
        return self

    def readyz(self):
        return self.ready

    def version(self):
        return "v1.37.2"

    def list(self, resource, **_):
        items = {
            NODES: [{"metadata": {"name": f"n{i}"}} for i in range(len(self.devices))],
            RESOURCE_SLICES: [
                {"spec": {"nodeName": f"n{index}", "devices": [{}] * count}}
                for index, count in enumerate(self.devices)
            ],
        }[resource]
        return type("Listing", (), {"items": items})


@pytest.fixture
def attached(monkeypatch):
    """Attach to a scripted cluster, and tell which one was asked for and what was made ready."""
    told = []
    monkeypatch.delenv(opening.CLUSTER_ENV, raising=False)
    monkeypatch.setattr(space, "prepare", lambda _, number: told.append(number))

    def script(**options):
        def attach(name):
            told.append(name)
            return FakeCluster(name, **options)

        monkeypatch.setattr(Cluster, "attach", attach)
        return told

    return script


def test_a_lab_opens_on_the_default_cluster_and_says_what_it_has(attached, capsys):
    told = attached()
    lab = opening.open_lab("01")
    assert told == ["lab", "01"]
    assert lab.namespace == "lab-01"
    assert capsys.readouterr().out == (
        "Lab 01 on cluster 'lab': Kubernetes v1.37.2, 2 nodes, 16 devices, namespace lab-01\n"
    )


def test_the_environment_names_another_cluster(attached, monkeypatch):
    told = attached()
    monkeypatch.setenv(opening.CLUSTER_ENV, "other")
    opening.open_lab("01")
    assert told[0] == "other"


@pytest.mark.parametrize(("devices", "has"), [((), "none"), ((1, 1), "has 1")])
def test_a_cluster_that_is_too_small_is_told_before_anything_is_done(attached, devices, has):
    told = attached(devices=devices)
    with pytest.raises(LabError, match=f"needs 2 devices on one node; .*{has}"):
        opening.open_lab("01")
    assert told == ["lab"]


def test_a_cluster_that_does_not_answer_is_told_with_the_remedy(attached):
    attached(ready=False)
    with pytest.raises(LabError, match="does not answer") as caught:
        opening.open_lab("01")
    assert caught.value.see == "labkit up --name lab"


def test_a_lab_that_is_not_there_is_told(attached):
    attached()
    with pytest.raises(BadInput, match="no lab '99'"):
        opening.open_lab("99")
