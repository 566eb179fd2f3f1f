"""Where labkit keeps things: state and cache by XDG, data beside the code.

Everything of one cluster lies in one folder under `state_dir`, so that removing
the folder removes the cluster. Finished binaries lie in `cache_dir` and are
shared by all clusters.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from labkit.errors import BadInput

STATE_ENV = "LABKIT_STATE_DIR"
"""Names the folder of cluster states; wins over ``XDG_STATE_HOME``."""

CACHE_ENV = "LABKIT_CACHE_DIR"
"""Names the folder of finished binaries; wins over ``XDG_CACHE_HOME``. May be shared by users."""

BIN_ENV = "LABKIT_BIN_DIR"
"""Names a folder of binaries to use before any other source."""


def state_dir() -> Path:
    """The folder that holds one folder per cluster; made when absent, mode 0700.

    Where the home folder cannot be written (a read-only HOME), a private folder
    in the temporary directory is used instead.
    """
    return _writable(STATE_ENV, "XDG_STATE_HOME", Path(".local", "state"))


def cache_dir() -> Path:
    """The folder of things that can be had again: binaries, downloads; made when absent."""
    return _writable(CACHE_ENV, "XDG_CACHE_HOME", Path(".cache"))


def data_dir(name: str) -> Path:
    """A folder of labkit's own data, by its name at the top of the repository.

    Args:
        name: ``clusters`` or ``notebooks``.

    Raises:
        BadInput: neither this installation nor a checkout around it has that folder.
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "_data" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise BadInput(
        f"this installation of labkit has no {name!r} folder",
        hint="install labkit from a wheel or work in a checkout of the repository",
    )


def _writable(own_variable: str, xdg_variable: str, below_home: Path) -> Path:
    chosen = os.environ.get(own_variable)
    if chosen:
        folder = Path(chosen).expanduser().absolute()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise BadInput(
                f"{own_variable}={chosen} cannot be used: {exc.strerror}",
                hint=f"set {own_variable} to a folder that you may write to",
            ) from exc
        return folder
    xdg = os.environ.get(xdg_variable, "")
    base = Path(xdg) if Path(xdg).is_absolute() else _home() / below_home
    for folder in (base / "labkit", _fallback(xdg_variable)):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise BadInput(
        f"neither {base / 'labkit'} nor {_fallback(xdg_variable)} can be written",
        hint=f"set {own_variable} to a folder that you may write to",
    )


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # no HOME and no passwd entry, as in some containers
        return Path(os.sep)


def _fallback(xdg_variable: str) -> Path:
    kind = xdg_variable.removeprefix("XDG_").removesuffix("_HOME").lower()
    return Path(tempfile.gettempdir()) / f"labkit-{os.getuid()}" / kind
