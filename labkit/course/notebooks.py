"""Finding the course's notebooks, and making a notebook a test.

An exercise in a notebook is a code cell tagged ``exercise`` whose metadata names it, followed
by its check::

    cell.metadata = {"tags": ["exercise"], "labkit": {"exercise": "pair"}}

To run as a test, two cells go in between: one that proves that the check fails before the
solution, and the solution from ``notebooks/solutions``.
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

_NAME = re.compile(r"(?P<number>\d\d)-(?P<title>[a-z0-9-]+)\.ipynb")


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


def solution(number: str, exercise: str) -> str:
    """The solution of an exercise: the source of a cell.

    Raises:
        BadInput: it is not there.
    """
    path = data_dir("notebooks") / "solutions" / number / f"{exercise}.txt"
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        raise BadInput(f"exercise {exercise!r} of lab {number} has no solution {path}") from exc


def exercises_in(notebook: Any) -> Iterator[tuple[int, str]]:
    """Index and name of each exercise cell."""
    for index, cell in enumerate(notebook.cells):
        if EXERCISE_TAG in cell.metadata.get("tags", []):
            yield index, cell.metadata.get("labkit", {}).get("exercise", "")


def as_test(notebook: Any, number: str) -> Any:
    """A notebook with the solution of each exercise put in, and the proof that it is needed.

    Args:
        notebook: as nbformat reads it; it is changed.
        number: its lab, for the solutions; "" for a notebook outside the course.
    """
    from nbformat.v4 import new_code_cell

    for index, name in reversed(list(exercises_in(notebook))):
        metadata = {"tags": [INJECTED_TAG]}
        proof = new_code_cell(f"lab.expect_unsolved({name!r})", metadata=metadata)
        solved = new_code_cell(solution(number, name).rstrip("\n"), metadata=metadata)
        notebook.cells[index + 1 : index + 1] = [proof, solved]
    return notebook


def number_of(path: Path) -> str:
    """The number in a notebook's name, or ""."""
    match = _NAME.fullmatch(path.name)
    return match["number"] if match else ""
