"""What happened in a run, as lines of JSON that survive whoever wrote them.

A notebook can be saved as "completed" although its kernel was killed, so a run is judged by
what was written here while it went on, and never by the notebook.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EVENTS_ENV = "LABKIT_EVENTS"
"""Names the file; set by the runner, absent when a person works in the notebook."""

STARTED = "run started"
OPENED = "lab opened"
UNSOLVED = "exercise checked unsolved"
SOLVED = "exercise checked solved"
CELL_STARTED = "cell started"
CELL_DONE = "cell done"
FAILED = "run failed"
FINISHED = "run finished"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: one of the constants of this module.
        detail: what belongs to it, e.g. the exercise or the cell's number.
    """

    kind: str
    detail: dict[str, Any] = field(default_factory=dict)


def wanted() -> bool:
    """Whether this is a test run, so that somebody reads the events."""
    return bool(os.environ.get(EVENTS_ENV))


def record(kind: str, **detail: Any) -> None:
    """Write an event, if anybody asked for them."""
    path = os.environ.get(EVENTS_ENV)
    if path:
        line = json.dumps({"kind": kind, **detail}) + "\n"
        # One write of one line in append mode: kernel and worker share the file.
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line)


def read(path: Path, *, skip: int = 0) -> list[Event]:
    """The events written so far, without the first `skip`; a torn last line is left out."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    lines = whole.splitlines()[skip:]
    entries = [json.loads(line) for line in lines]
    return [Event(entry.pop("kind"), entry) for entry in entries]
