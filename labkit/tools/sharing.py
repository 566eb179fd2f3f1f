"""One folder with every binary that the embedded cluster needs, for other users as well."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from labkit.paths import cache_dir
from labkit.progress import Progress
from labkit.tools.catalog import KUBERNETES_VERSION, LOCAL
from labkit.tools.getting import ensure


def bin_folder(*, kubernetes_version: str = KUBERNETES_VERSION, progress: Progress) -> Path:
    """A folder to be named by ``LABKIT_BIN_DIR``, after getting what is missing.

    It lies in the cache and holds links. What is labkit's on the way to the binaries is
    made readable for all; whether others reach the cache itself, `closed_to_others` says.
    """
    paths = ensure(LOCAL, kubernetes_version=kubernetes_version, progress=progress)
    folder = cache_dir() / "tools" / "bin" / kubernetes_version.removeprefix("v")
    folder.mkdir(parents=True, exist_ok=True)
    _open(folder)
    for name, path in paths.items():
        if path.parent.samefile(folder):  # LABKIT_BIN_DIR names this very folder
            continue
        link = folder / f".{name}.{os.getpid()}"
        link.symlink_to(path)
        link.replace(folder / name)
        if path.is_relative_to(cache_dir()):
            _open(path.parent)
    return folder


def closed_to_others(folder: Path) -> Path | None:
    """The first folder on the way to `folder` that other users may not pass, if any."""
    resolved = folder.resolve()
    for path in (*reversed(resolved.parents), resolved):
        if not path.stat().st_mode & 0o001:
            return path
    return None


def _open(folder: Path) -> None:
    """Let everybody read `folder` and pass what leads to it from the cache on."""
    for path in (folder, *folder.parents):
        with suppress(PermissionError):  # another user's cache
            path.chmod(path.stat().st_mode | (0o011 if path == cache_dir() else 0o055))
        if path == cache_dir():
            return
