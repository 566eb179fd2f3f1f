"""Exercises: a task in a notebook, hints for it, and a check that looks at the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from labkit.errors import BadInput, LabError

if TYPE_CHECKING:
    from labkit.course.lab import Lab


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check looked at.

    Attributes:
        what: what ought to be so, as a statement.
        holds: whether it is.
        instead: what was found when it is not; the symptom, not the cure.
    """

    what: str
    holds: bool
    instead: str = ""

    def __str__(self) -> str:
        if self.holds:
            return f"✓ {self.what}"
        return f"✗ not yet: {self.what}" + (f"\n  found: {self.instead}" if self.instead else "")


Check = Callable[["Lab"], Iterator[Finding]]
"""Looks at the cluster and yields what it finds, each finding resting on the ones before; it is
asked for no more after the first that does not hold. A `LabError` counts as such a finding."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a check found.

    Attributes:
        findings: in order; only the last may be one that does not hold.
    """

    findings: tuple[Finding, ...]

    @property
    def done(self) -> bool:
        """Whether everything is as it should be."""
        return bool(self.findings) and all(finding.holds for finding in self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))


def exercise(name: str, *hints: str) -> Callable[[Check], Exercise]:
    """Make an `Exercise` of a check function."""
    return lambda check: Exercise(name=name, check=check, hints=hints)


def examine(exercise: Exercise, lab: Lab) -> Verdict:
    """Look whether an exercise is done, up to the first thing that is missing."""
    findings: list[Finding] = []
    try:
        for finding in exercise.check(lab):
            findings.append(finding)
            if not finding.holds:
                break
    except LabError as error:
        findings.append(
            Finding(what="the cluster can be looked at", holds=False, instead=str(error))
        )
    return Verdict(findings=tuple(findings))


def of_lab(number: str) -> dict[str, Exercise]:
    """The exercises of a lab, by name.

    Raises:
        BadInput: there is no such lab.
    """
    found = [value for value in vars(_module(number)).values() if isinstance(value, Exercise)]
    return {one.name: one for one in found}


def devices_needed(number: str) -> int:
    """How many devices a lab needs on one node, by its module's ``DEVICES_ON_A_NODE``."""
    return int(getattr(_module(number), "DEVICES_ON_A_NODE", 0))


def _module(number: str) -> ModuleType:
    home = f"labkit.course.labs.lab{number}"
    try:
        return import_module(home)
    except ModuleNotFoundError as exc:
        if exc.name != home:
            raise
        raise BadInput(f"there is no lab {number!r}", hint="labkit run --help") from exc
