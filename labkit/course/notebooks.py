"""Finding the course's notebooks, and making a notebook a test.

An exercise in a notebook is a code cell tagged ``exercise`` whose metadata names it, followed
by its check::

    cell.metadata = {"tags": ["exercise"], "labkit": {"exercise": "pair"}}

To run as a test, two cells go in between: one that proves that the check fails before the
solution, and the solution: ``solutions/<lab>/<exercise>.yaml``, or ``.py``, beside the notebook.
A cell that needs more time than others says so: ``"labkit": {"timeout_s": 300}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labkit.errors import BadInput
from labkit.paths import data_dir

EXERCISE_TAG = "exercise"
INJECTED_TAG = "labkit-injected"

MANIFEST = "%%manifest\n"

_NAME = re.compile(r"(?P<number>\d\d)-(?P<title>[a-z0-9-]+)\.ipynb")

_VOLATILE = ("papermill", "execution")
"""What papermill notes in metadata: times, and paths of the machine."""


def all_labs() -> dict[str, Path]:
    """The course's notebooks by number, in order."""
    matches = ((_NAME.fullmatch(path.name), path) for path in data_dir("notebooks").iterdir())
    return dict(sorted((match["number"], path) for match, path in matches if match))


def find(number_or_path: str) -> Path:
    """A notebook by its number, e.g. ``01`` or ``1``, or by its path.

    Raises:
        BadInput: there is none.
    """
    if number_or_path.endswith(".ipynb"):
        path = Path(number_or_path)
        if not path.is_file():
            raise BadInput(f"there is no notebook {number_or_path}")
        return path
    labs = all_labs()
    try:
        return labs[number_or_path.zfill(2)]
    except KeyError:
        raise BadInput(
            f"there is no lab {number_or_path!r}", hint=f"the labs are {', '.join(labs)}"
        ) from None


def solutions_of(notebook: Path) -> Path:
    """Where the solutions for a notebook are: beside it, else (a learner's copy) the course's."""
    match = _NAME.fullmatch(notebook.name)
    number = match["number"] if match else notebook.stem
    beside = notebook.parent / "solutions" / number
    return beside if beside.is_dir() or not match else data_dir("notebooks") / "solutions" / number


def solution(folder: Path, exercise: str) -> str:
    """The solution of an exercise, as the source of a cell.

    Args:
        folder: where the solutions are.
        exercise: its name.

    Raises:
        BadInput: it is not there.
    """
    manifest, script = folder / f"{exercise}.yaml", folder / f"{exercise}.py"
    if manifest.is_file():
        return MANIFEST + manifest.read_text(encoding="utf-8").rstrip("\n")
    if script.is_file():
        return script.read_text(encoding="utf-8").rstrip("\n")
    raise BadInput(f"exercise {exercise!r} has no solution: neither {manifest} nor {script.name}")


def exercises_in(notebook: Any) -> Iterator[tuple[int, str]]:
    """Index and name of each exercise cell."""
    for index, cell in enumerate(notebook.cells):
        if EXERCISE_TAG in cell.metadata.get("tags", []):
            yield index, cell.metadata.get("labkit", {}).get("exercise", "")


def as_test(notebook: Any, solutions: Path) -> None:
    """Put the solution of each exercise into a notebook, after the proof that it is needed.

    Args:
        notebook: as nbformat reads it.
        solutions: the folder of its solutions.
    """
    from nbformat.v4 import new_code_cell

    for index, name in reversed(list(exercises_in(notebook))):
        metadata = {"tags": [INJECTED_TAG]}
        proof = new_code_cell(
            f"lab.expect_unsolved({name!r})", id=f"{name}-before", metadata=metadata
        )
        solved = new_code_cell(solution(solutions, name), id=f"{name}-solution", metadata=metadata)
        notebook.cells[index + 1 : index + 1] = [proof, solved]


def timeout_s(cell: Any, default: int) -> int:
    """How long a cell may take, in seconds."""
    return int(cell.metadata.get("labkit", {}).get("timeout_s", default))


def without_traces(notebook: Any) -> None:
    """Take out of an executed notebook what tells of the machine and the minute."""
    for place in (notebook, *notebook.cells):
        for volatile in _VOLATILE:
            place.metadata.pop(volatile, None)
