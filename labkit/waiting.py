"""The one place where labkit waits.

A wait names what it waits for, has a deadline, and, when it gives up, says what
it saw last. Nothing else in labkit sleeps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from labkit.errors import WaitTimedOut

T = TypeVar("T")

FIRST_PAUSE_S = 0.01
"""The first pause between two looks, in seconds; pauses double up to `interval_s`."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """What a probe returns while its condition does not hold: the state it saw."""

    state: str


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """What a probe returns when its condition holds: the value to hand to the caller."""

    value: T


def wait_until(
    probe: Callable[[], Seen[T] | NotYet],
    *,
    what: str,
    timeout_s: float,
    interval_s: float = 0.2,
    hint: str = "",
    see: str = "",
    stop: threading.Event | None = None,
) -> T:
    """Look again and again until `probe` has seen what it looks for, and return that.

    Args:
        probe: one look, quick and free of side effects. An exception from it ends the wait.
        what: the condition, readable after "waited for".
        timeout_s: seconds after which to give up; the probe is always called at least once.
        interval_s: longest pause between two looks, in seconds.
        hint: what to do when it does not come true.
        see: a command that shows more.
        stop: when set from elsewhere, the wait gives up at once.

    Raises:
        WaitTimedOut: with the last state seen.
    """
    started = time.monotonic()
    pause = min(FIRST_PAUSE_S, interval_s)
    stop = stop or threading.Event()
    while True:
        look = probe()
        if isinstance(look, Seen):
            return look.value
        left = timeout_s - (time.monotonic() - started)
        if left <= 0 or stop.wait(min(pause, left)):
            waited = time.monotonic() - started
            raise WaitTimedOut(what, waited_s=waited, last_state=look.state, hint=hint, see=see)
        pause = min(pause * 2, interval_s)
