"""The course: labs in notebooks, exercises with checks, and the runner that makes them tests.

::

    notebook ──► open_lab ──► Lab ──► cluster, checks, pictures
        ▲
    runner ──► worker (papermill) ──► events ──► verdict, report
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.course.lab import Lab
    from labkit.course.opening import open_lab

__all__ = ["Lab", "open_lab"]

_LATE = {"Lab": "labkit.course.lab", "open_lab": "labkit.course.opening"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    try:
        home = _LATE[name]
    except KeyError:
        raise AttributeError(f"module 'labkit.course' has no attribute {name!r}") from None
    return getattr(import_module(home), name)
