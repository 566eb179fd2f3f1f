"""What is known of a cluster's processes, from the notes that the supervisor leaves."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from labkit.cluster.layout import Layout, read_json
from labkit.cluster.processes import Process

_REASON = re.compile(r'^[EF]\d{4} .*\berr="((?:[^"\\]|\\.)*)"')
"""What a Kubernetes component gives as the reason, in the line of its log."""

TAIL_BYTES = 64 * 1024
"""How much of the end of a log is looked at for the reason of a death."""

_LOUD = (
    "error:",
    "fatal",
    "panic",
    "failed",
    "err=",
    "unknown",
    "unrecognized",
    "unshare:",
    "mount:",
    "address already in use",
    "no space left",
    "Error",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One component as its supervisor last saw it.

    Attributes:
        name: the component's name.
        node: the node it runs on; empty for the control plane.
        process: its process; None while it is down.
        restarts: how often it was started again.
        deaths: how often it died in a row without having lived for long.
        last_exit: how it ended last; empty when it never did.
    """

    name: str
    node: str
    process: Process | None
    restarts: int
    deaths: int
    last_exit: str

    @property
    def is_alive(self) -> bool:
        """Whether its process runs now."""
        return self.process is not None and self.process.is_alive()


def read(layout: Layout, name: str) -> Record | None:
    """The record of one component, or None."""
    data = read_json(layout.record(name))
    if not isinstance(data, dict):
        return None
    return Record(
        name=str(data.get("name", name)),
        node=str(data.get("node", "")),
        process=Process.from_json(data),
        restarts=int(data.get("restarts", 0)),
        deaths=int(data.get("deaths", 0)),
        last_exit=str(data.get("last_exit", "")),
    )


def read_all(layout: Layout) -> list[Record]:
    """The records of all components, in the order of their names."""
    try:
        names = sorted(p.stem for p in layout.run.glob("*.json") if not p.name.startswith("."))
    except OSError:
        return []
    return [record for name in names if (record := read(layout, name))]


def tail(layout: Layout, name: str, lines: int) -> list[str]:
    """The last lines of a component's log."""
    try:
        with layout.log(name).open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - TAIL_BYTES))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-lines:] if lines else []


def last_words(layout: Layout, name: str) -> str:
    """The line of a component's log that most likely says why it ended."""
    found = tail(layout, name, 200)
    loud = [line for line in found if any(word in line for word in _LOUD)]
    line = (loud or found or ["its log is empty"])[-1].strip()
    reason = _REASON.search(line)
    return (reason[1].replace(r"\"", '"') if reason else line)[:600]
