"""One notebook by papermill, in a process of its own: ``python -m labkit.course.worker``.

It only executes and records what happens; whether that was a success is the runner's to say,
who is still there when this process or its kernel has been killed.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from labkit.course import events, notebooks

KERNEL_START_S = 60
"""Time for a kernel to start, in seconds."""

SHOWN = 60
"""Characters of a cell's first line that are told."""


def main(source: Path, target: Path, cell_timeout_s: int) -> None:
    """Execute `source` as a test and save it, executed, as `target`."""
    import nbformat
    import papermill

    # Ended from outside, papermill shall still get to end its kernel.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    notebook = nbformat.read(source, as_version=nbformat.NO_CONVERT)
    notebooks.as_test(notebook, notebooks.solutions_of(source))
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    names = [name for _, name in notebooks.exercises_in(notebook)]
    events.record(events.STARTED, cells=len(code), exercises=names)
    try:
        papermill.execute_notebook(
            notebook,
            # papermill formats paths with parameters.
            str(target).replace("{", "{{").replace("}", "}}"),
            kernel_name=notebook.metadata.kernelspec.name,
            progress_bar=False,
            start_timeout=KERNEL_START_S,
            timeout_func=lambda cell: notebooks.timeout_s(cell, cell_timeout_s),
            cwd=str(target.parent),
            on_cell_execute=_cell_started,
            on_cell_executed=_cell_executed,
        )
    except BaseException as error:
        events.record(events.FAILED, error=_told(error))
        raise
    events.record(events.FINISHED)


def _cell_started(*, cell: Any, cell_index: int) -> None:
    first = next(iter(cell.source.splitlines()), "")
    events.record(events.CELL_STARTED, cell=cell_index, source=first[:SHOWN])


def _cell_executed(*, cell: Any, cell_index: int, execute_reply: Any) -> None:
    del cell
    # A cell that calls sys.exit, say, ends without an error output.
    events.record(events.CELL_DONE, cell=cell_index, status=execute_reply["content"]["status"])


def _told(error: BaseException) -> str:
    """What went wrong in words: of a cell's error its name and all that it says."""
    if hasattr(error, "ename"):
        return f"{error.ename}: {getattr(error, 'evalue', '')}".strip()
    lines = [line for line in str(error).strip().splitlines() if line.strip(" -")]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
