"""Promises of every notebook of the course, looked at without running it."""

import re
from pathlib import Path

import nbformat
import pytest

from labkit.course import exercises, notebooks
from labkit.errors import BadInput
from labkit.kube import manifests

LABS = notebooks.all_labs()

WRONG = Path(__file__).resolve().parents[2] / "notebooks" / "wrong"
"""Answers that people give, by lab and exercise; tests/notebooks tries them on a cluster."""


@pytest.fixture(params=sorted(LABS), ids=str)
def lab(request):
    path = LABS[request.param]
    return request.param, nbformat.read(path, as_version=4)


def test_there_are_labs():
    assert "01" in LABS


def test_nothing_of_a_run_is_left_in_it(lab):
    for cell in lab[1].cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
        assert set(cell.metadata) <= {"tags", "labkit"}
    assert set(lab[1].metadata) == {"kernelspec", "language_info"}


def test_it_is_valid_and_every_cell_has_an_id_of_its_own(lab):
    nbformat.validate(lab[1])
    ids = [cell.id for cell in lab[1].cells]
    assert len(ids) == len(set(ids))


def test_no_command_fails_in_silence(lab):
    for cell in lab[1].cells:
        if cell.cell_type == "code":
            assert not re.search(r"^\s*!|^%%(bash|sh|script)", cell.source, re.MULTILINE)


def test_it_begins_with_a_title_and_opens_its_own_lab(lab):
    number, notebook = lab
    assert notebook.cells[0].source.startswith(f"# {number} · ")
    assert f'labkit.open_lab("{number}")' in "".join(cell.source for cell in notebook.cells)


def test_every_exercise_has_a_check_in_the_next_cell_hints_and_a_solution(lab):
    number, notebook = lab
    known = exercises.of_lab(number)
    found = dict(notebooks.exercises_in(notebook))
    assert sorted(found.values()) == sorted(known)
    for index, name in found.items():
        assert notebook.cells[index + 1].source == f'lab.check("{name}")'
        assert known[name].hints
        assert "check" in notebook.cells[index + 1].metadata["tags"]
        assert notebooks.solution(notebooks.solutions_of(LABS[number]), name)


def test_every_exercise_has_wrong_answers_that_its_check_is_tried_with(lab):
    number, notebook = lab
    for _, name in notebooks.exercises_in(notebook):
        assert list((WRONG / number / name).glob("*.yaml"))


def test_an_unsolved_exercise_does_nothing(lab):
    for index, _ in notebooks.exercises_in(lab[1]):
        source = lab[1].cells[index].source
        assert all(line.startswith(("%%", "#")) or not line for line in source.splitlines())


def test_as_a_test_the_solution_comes_between_exercise_and_check(lab):
    number, notebook = lab
    (index, name), *_ = notebooks.exercises_in(notebook)
    solutions = notebooks.solutions_of(LABS[number])
    notebooks.as_test(notebook, solutions)
    cells = notebook.cells
    assert cells[index + 1].source == f"lab.expect_unsolved('{name}')"
    assert cells[index + 2].source == notebooks.solution(solutions, name)
    assert cells[index + 3].source == f'lab.check("{name}")'
    nbformat.validate(notebook)


def test_cells_can_be_read_at_a_glance(lab):
    for cell in lab[1].cells:
        lines = cell.source.splitlines()
        if cell.cell_type == "code" and not cell.source.startswith("%%"):
            assert len(lines) <= 12, cell.source
            assert max(map(len, lines)) <= 100, cell.source


def manifests_of(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.startswith("%%manifest"):
            yield from manifests.load(cell.source.partition("\n")[2], origin=cell.id)


def test_manifests_are_of_the_version_that_is_served(lab):
    for one in manifests_of(lab[1]):
        if "ResourceClaim" in one["kind"] or one["kind"].startswith("Device"):
            assert one["apiVersion"] == "resource.k8s.io/v1"


def test_pods_stay_until_they_are_deleted_and_then_go_at_once(lab):
    # A pod that ends gives its devices back, and what the lesson shows next may not be so.
    for one in manifests_of(lab[1]):
        if one["kind"] == "Pod":
            spec = one["spec"]
            assert spec["terminationGracePeriodSeconds"] <= 1
            for container in spec["containers"]:
                assert re.search(r"exec sleep \d{4}$", container["command"][-1])


def test_links_lead_to_documentation_or_to_files_that_are_there(lab):
    number, notebook = lab
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        known = target.startswith("https://kubernetes.io/docs/")
        assert known or (LABS[number].parent / target).exists(), target


def test_a_copy_elsewhere_finds_the_solutions_of_the_course(tmp_path):
    assert notebooks.solutions_of(tmp_path / LABS["01"].name) == notebooks.solutions_of(LABS["01"])


def test_a_notebook_of_ones_own_has_its_solutions_beside_it(tmp_path):
    folder = notebooks.solutions_of(tmp_path / "Mine.ipynb")
    assert folder.parent.parent == tmp_path
    with pytest.raises(BadInput, match="has no solution"):
        notebooks.solution(folder, "pair")


@pytest.mark.parametrize("asked", ["01", "1"])
def test_a_lab_is_found_by_its_number(asked):
    assert notebooks.find(asked) == LABS["01"]


@pytest.mark.parametrize("asked", ["99", "nonsense", "no-such.ipynb"])
def test_what_is_not_there_is_told(asked):
    with pytest.raises(BadInput, match="there is no"):
        notebooks.find(asked)
