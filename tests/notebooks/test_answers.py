"""Checks on a cluster: they refuse what people get wrong, say why, and take what is right."""

from pathlib import Path

import pytest

from labkit.course import exercises, magics, notebooks
from labkit.course.lab import Lab

pytestmark = pytest.mark.local

WRONG = sorted((Path(__file__).parent / "wrong").glob("*/*/*.yaml"))

SYMPTOMS = {
    "container-has-none": "found: it printed",
    "counted": "the pod has no claims",
    "ends": "has ended",
    "no-pod": "no Pod",
    "one-gpu": "found: 1: gpu-",
    "too-many": "cannot allocate all claims",
    "two-claims": "found: pair, pair",
}


@pytest.fixture
def lab(cluster):
    lab = Lab("01", cluster)
    lab.reset()
    yield lab
    lab.reset()
    lab.client.close()


def verdict(lab, exercise):
    return exercises.examine(exercises.of_lab(lab.number)[exercise], lab)


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_answer_is_refused_with_its_symptom(lab, path):
    magics.manifest(lab, "", path.read_text())
    if path.stem == "ends":
        lab.wait_finished("pair")  # the check sees what is, not what will be
    said = verdict(lab, path.parent.name)
    assert not said.done
    assert SYMPTOMS[path.stem] in str(said)


def test_one_that_learns_from_the_check_gets_there(lab, capsys):
    magics.manifest(lab, "", next(p for p in WRONG if p.stem == "no-pod").read_text())
    lab.check("pair")
    solution = notebooks.solution(notebooks.solutions_of(notebooks.find("01")), "pair")
    for _ in range(2):
        magics.manifest(lab, "", solution.removeprefix(notebooks.MANIFEST))
        lab.check("pair")
    out = capsys.readouterr().out
    assert "✗ not yet: there is a Pod 'pair'" in out
    assert "Pod pair created" in out
    assert "Pod pair unchanged" in out
    assert out.count("Exercise 'pair' is done.") == 2


def test_a_lab_begins_anew_while_its_namespace_still_goes(lab):
    solution = notebooks.solution(notebooks.solutions_of(notebooks.find("01")), "pair")
    for _ in range(2):
        lab.close()
        lab.reset()
        magics.manifest(lab, "", solution.removeprefix(notebooks.MANIFEST))
        assert verdict(lab, "pair").done


def test_the_official_client_talks_to_this_cluster(lab):
    from kubernetes import client

    api = client.CoreV1Api(lab.kubernetes_api())
    assert {node.metadata.name for node in api.list_node().items} == {
        node["metadata"]["name"] for node in lab.nodes()
    }
