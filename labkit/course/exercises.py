"""Exercises: a task in a notebook, hints for it, and a check that looks at the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from labkit.errors import BadInput

if TYPE_CHECKING:
    from labkit.course.lab import Lab

Check = Callable[["Lab"], str]
"""Looks whether the task is done: gives a sentence about what it found, or raises
`labkit.errors.LabError` that says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise of a lab.

    Attributes:
        name: unique in its lab.
        check: whether it is done.
        hints: from the gentle to the plain.
    """

    name: str
    check: Check
    hints: tuple[str, ...]


def exercise(name: str, *hints: str) -> Callable[[Check], Exercise]:
    """Make an `Exercise` of a check function."""
    return lambda check: Exercise(name=name, check=check, hints=hints)


def of_lab(number: str) -> dict[str, Exercise]:
    """The exercises of a lab, by name.

    Raises:
        BadInput: there is no such lab.
    """
    try:
        module = import_module(f"labkit.course.labs.lab{number}")
    except ModuleNotFoundError as exc:
        raise BadInput(f"there is no lab {number!r}", hint="labkit run --help") from exc
    found = [value for value in vars(module).values() if isinstance(value, Exercise)]
    return {one.name: one for one in found}
