"""Removing a cluster's folder, whatever its containers have left in it."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path


def remove(folder: Path) -> None:
    """Remove a folder with everything in it; nothing happens when it is absent.

    Raises:
        OSError: something in it cannot be removed.
    """
    for _ in range(ATTEMPTS):
        if not folder.exists():
            return
        # An overlay's work folder has no permissions at all, even for its owner.
        shutil.rmtree(folder, onerror=lambda _function, path, _error: _unlock(Path(path)))
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


ATTEMPTS = 20
"""How deep folders without permissions may lie in each other."""


def _unlock(path: Path) -> None:
    for each in (path.parent, path):
        with suppress(OSError):
            if each.is_dir() and not each.is_symlink():
                each.chmod(0o700)
