"""Promises of every notebook of the course, looked at without running it."""

import re

import nbformat
import pytest

from labkit.course import exercises, notebooks
from labkit.errors import BadInput

LABS = notebooks.all_labs()


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
        assert notebooks.solution(number, name)


def test_an_unsolved_exercise_does_nothing(lab):
    for index, _ in notebooks.exercises_in(lab[1]):
        source = lab[1].cells[index].source
        assert all(line.startswith(("%%", "#")) or not line for line in source.splitlines())


def test_as_a_test_the_solution_comes_between_exercise_and_check(lab):
    number, notebook = lab
    (index, name), *_ = notebooks.exercises_in(notebook)
    cells = notebooks.as_test(notebook, number).cells
    assert cells[index + 1].source == f"lab.expect_unsolved('{name}')"
    assert cells[index + 2].source == notebooks.solution(number, name).rstrip()
    assert cells[index + 3].source == f'lab.check("{name}")'


@pytest.mark.parametrize("asked", ["01", "1"])
def test_a_lab_is_found_by_its_number(asked):
    assert notebooks.find(asked) == LABS["01"]


@pytest.mark.parametrize("asked", ["99", "nonsense", "no-such.ipynb"])
def test_what_is_not_there_is_told(asked):
    with pytest.raises(BadInput, match="there is no"):
        notebooks.find(asked)
