"""Where binaries are made before they are put into the cache, and who may work at which.

::

    tools/.locks/<tool>      held while a tool is being got
    tools/.parts/            downloads; what breaks off is taken up again
    tools/.new-…/            one per builder, gone with it
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from labkit.errors import ToolError
from labkit.paths import cache_dir
from labkit.progress import Progress

LOCK_TIMEOUT_S = 2 * 3600.0
"""How long to wait for another labkit that is getting the same binary, in seconds."""

STALE_S = 7 * 24 * 3600.0
"""Age from which leftovers of a killed labkit or a broken download are removed, in seconds."""

_NEW = ".new-"


@contextmanager
def locked(names: Sequence[str], progress: Progress) -> Iterator[None]:
    """Be the only one that gets these tools.

    Raises:
        ToolError: another labkit has been at it for hours.
    """
    with ExitStack() as held:
        # In one order for all, so that two never wait for each other.
        for name in sorted(names):
            held.enter_context(_one(name, progress))
        yield


@contextmanager
def folder() -> Iterator[Path]:
    """A folder to build in, removed afterwards."""
    base = _made(cache_dir() / "tools")
    _tidy(base)
    # A compiler that was killed may still be vanishing while its folder is removed.
    with tempfile.TemporaryDirectory(dir=base, prefix=_NEW, ignore_cleanup_errors=True) as made:
        yield Path(made)


def parts() -> Path:
    """The folder of downloads under way."""
    return _made(cache_dir() / "tools" / ".parts")


@contextmanager
def _one(name: str, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(_made(cache_dir() / "tools" / ".locks") / name)
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            with progress.step(f"wait for another labkit that is getting {name}"):
                lock.acquire(timeout=LOCK_TIMEOUT_S)
    except Timeout as exc:
        raise ToolError(
            f"another labkit has been getting {name} for {LOCK_TIMEOUT_S / 3600:.0f} hours",
            hint=f"end it; the lock is {lock.lock_file}",
        ) from exc
    try:
        yield
    finally:
        lock.release()


def _tidy(base: Path) -> None:
    limit = time.time() - STALE_S
    for path in (*base.glob(f"{_NEW}*"), *base.glob(".parts/*")):
        try:
            if path.stat().st_mtime < limit:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError:  # another user's, or gone
            continue


def _made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
