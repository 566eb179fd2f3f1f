"""One process at a time brings a cluster up or takes it away."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit.cluster.layout import Layout
from labkit.errors import ClusterError
from labkit.waiting import NotYet, Seen, wait_until

OTHER_S = 300.0
"""How long to wait for another process that brings the same cluster up, in seconds."""


@contextmanager
def sole(layout: Layout, *, timeout_s: float = OTHER_S) -> Iterator[None]:
    """Make the cluster's folder if need be, and be the only one to change the cluster.

    The lock is the kernel's: it goes when we do, however we go.

    Raises:
        ClusterError: the folder cannot be made.
        WaitTimedOut: another process has not finished within `timeout_s` seconds.
    """
    handle = wait_until(
        lambda: _attempt(layout),
        what=f"another labkit to finish with cluster {layout.name!r}",
        timeout_s=timeout_s,
        see=f"labkit status --name {layout.name}",
    )
    try:
        yield
    finally:
        os.close(handle)


def is_busy(layout: Layout) -> bool:
    """Whether some process brings the cluster up or takes it away just now."""
    try:
        handle = os.open(layout.creator_lock, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _attempt(layout: Layout) -> Seen[int] | NotYet:
    path = layout.creator_lock
    try:
        layout.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        return NotYet("the folder is being removed")
    except OSError as exc:
        raise ClusterError(
            f"the cluster's folder {layout.folder} cannot be made: {exc.strerror}",
            hint="make room or give permission there, or set LABKIT_STATE_DIR to another folder",
        ) from exc
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return NotYet("it holds the cluster's lock")
    if _is_still(path, handle):
        return Seen(handle)
    # The cluster was removed, and its lock with it, while we took hold of it.
    os.close(handle)
    return NotYet("the folder was removed")


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False
