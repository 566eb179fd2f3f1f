"""Showing that something happens: steps with a moving bar, or plain lines.

The code that works knows only `Progress` and `Step`; who looks on decides
between a bar (a terminal), plain lines (a log, a notebook, a pipe) and silence.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

PLAIN_EVERY_S = 5.0
"""Plain lines report a moving step at most this often, in seconds."""


class Step(Protocol):
    """One piece of work under way."""

    def update(self, done: float, total: float | None = None, *, unit: str = "") -> None:
        """Say how far the work is: `done` of `total` (None: unknown) in `unit`, e.g. ``MB``."""

    def note(self, text: str) -> None:
        """Say one thing that a person should know, e.g. why a source was passed over."""


class Progress(Protocol):
    """Shows steps to somebody."""

    def step(self, title: str) -> AbstractContextManager[Step]:
        """A context for one step; leaving it marks the step done, or failed by the exception."""


class _SilentStep:
    def update(self, done: float, total: float | None = None, *, unit: str = "") -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Silent:
    """Shows nothing."""

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:  # noqa: ARG002 - the protocol's name
        """See `Progress.step`."""
        yield _SilentStep()


class _PlainStep:
    def __init__(self, title: str, stream: TextIO) -> None:
        self._title = title
        self._stream = stream
        self._next = time.monotonic() + PLAIN_EVERY_S

    def update(self, done: float, total: float | None = None, *, unit: str = "") -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PLAIN_EVERY_S
        amount = f"{done:.0f}" if total is None else f"{done:.0f} of {total:.0f}"
        print(f"  {self._title}: {amount} {unit}".rstrip(), file=self._stream, flush=True)

    def note(self, text: str) -> None:
        print(f"  {self._title}: {text}", file=self._stream, flush=True)


class PlainLines:
    """One line when a step ends, and one every few seconds while it moves.

    Args:
        stream: where the lines go; standard error by default, so that output can be piped.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """See `Progress.step`."""
        started = time.monotonic()
        try:
            yield _PlainStep(title, self._stream)
        except BaseException:
            self._say("failed", title, started)
            raise
        self._say("done", title, started)

    def _say(self, verdict: str, title: str, started: float) -> None:
        seconds = time.monotonic() - started
        print(f"{verdict:>6}  {title} ({seconds:.1f} s)", file=self._stream, flush=True)


class Bars:
    """A moving bar per step on a terminal, by rich."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """See `Progress.step`."""
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
        )
        with Bar(*columns, console=self._console) as bar:
            task = bar.add_task(title, total=None, amount="")

            class _BarStep:
                def update(
                    self, done: float, total: float | None = None, *, unit: str = ""
                ) -> None:
                    of = "" if total is None else f"/{total:.0f}"
                    bar.update(task, completed=done, total=total, amount=f"{done:.0f}{of} {unit}")

                def note(self, text: str) -> None:
                    bar.console.print(f"  {text}", markup=False)

            try:
                yield _BarStep()
            except BaseException:
                bar.update(task, description=f"{title} [red]failed")
                raise
            bar.update(task, total=1, completed=1)


def for_stderr() -> Progress:
    """The progress display that fits standard error: bars on a terminal, else plain lines."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return Bars()
    return PlainLines()
