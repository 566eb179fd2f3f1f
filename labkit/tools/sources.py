"""The sources that cost nothing: the user's folder, PATH, and the cache.

A source gives a path or raises `Unavailable`, whose text says why the next one is tried.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from labkit.files import write_atomically
from labkit.paths import BIN_ENV, cache_dir
from labkit.tools.catalog import Tool, Version
from labkit.tools.platforms import Platform

VERSION_TIMEOUT_S = 10.0
"""Time for a binary on PATH to print its version, in seconds."""

# A build of a distributor (1.37.2-gke.1, 1.37.2+k3s1) is that version; 1.37.0-rc.1 is not yet.
_VERSION = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)\b(?!-(?:alpha|beta|rc))")

_RECORD = "record.json"


class Unavailable(Exception):
    """A source cannot give a tool; the text says why."""


class Absent(Unavailable):
    """A source has nothing under that name, which is usual and need not be told at once."""


def from_folder(tool: Tool) -> Path:
    """From the folder that the user names; taken as it is, whatever its version."""
    folder = os.environ.get(BIN_ENV)
    if not folder:
        raise Absent(f"{BIN_ENV} is not set")
    path = Path(folder).expanduser().absolute() / tool.name
    if not path.is_file():
        raise Unavailable(f"{path} is not there")
    if not os.access(path, os.X_OK):
        raise Unavailable(f"{path} may not be executed")
    return path


def from_path(tool: Tool) -> Path:
    """From PATH, when its version fits."""
    found = shutil.which(tool.name)
    if not found:
        raise Absent(f"no {tool.name} on PATH")
    path = Path(found).absolute()
    version = version_of(path, tool)
    if not tool.fits(version):
        has = ".".join(map(str, version)) or "of no version that we can read"
        raise Unavailable(f"{path} is {has}, and {tool.version} is needed")
    return path


def version_of(path: Path, tool: Tool) -> Version:
    """A binary's version; remembered by its size and time, since asking takes a while."""
    memory = cache_dir() / "tools" / "versions.json"
    key = f"{path}|{_stamp(path)}"
    known = _load(memory)
    if key not in known:
        asked = _asked(path, tool)
        if not asked:  # perhaps the machine was busy: to be asked again
            return ()
        known = {**known, key: asked}
        _remember(memory, known)
    return tuple(known[key])


def _asked(path: Path, tool: Tool) -> Version:
    try:
        done = subprocess.run(
            [path, *tool.ask],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = _VERSION.search(done.stdout + done.stderr)
    return tuple(int(part) for part in match.groups()) if match else ()


def cached_path(tool: Tool, on: Platform) -> Path:
    """Where the cache keeps a tool, whether it is there or not."""
    return cache_dir() / "tools" / tool.name / f"{tool.version}-{on}" / tool.name


def from_cache(tool: Tool, on: Platform) -> Path:
    """From the cache, when the file is still the one that was verified.

    Size and time tell; only where they differ (a cache that was copied) is the whole file
    read, once.
    """
    path = cached_path(tool, on)
    record = _load(path.with_name(_RECORD))
    if not path.is_file() or not record:
        raise Absent("not in the cache")
    if not os.access(path, os.X_OK):
        raise Unavailable(f"{path} may not be executed; it is got again")
    stamp = _stamp(path)
    if record.get("stamp") != stamp:
        if record.get("sha256") != sha256(path):
            raise Unavailable(f"{path} is not the file that was put there; it is got again")
        _remember(path.with_name(_RECORD), {**record, "stamp": stamp})
    return path


def into_cache(tool: Tool, on: Platform, made: Path, *, source: str) -> Path:
    """Move a finished binary into the cache, at once and with its checksum.

    Args:
        tool: which tool it is.
        on: for which platform.
        made: the binary, on the same file system as the cache.
        source: where it came from, for people.
    """
    made.chmod(0o755)
    with made.open("rb") as file:
        os.fsync(file.fileno())  # or a loss of power leaves a file of the right size, all zeros
    path = cached_path(tool, on)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"sha256": sha256(made), "stamp": _stamp(made), "source": source}
    made.replace(path)
    write_atomically(path.with_name(_RECORD), json.dumps(record, indent=1), mode=0o644)
    return path


def source_of(path: Path) -> str:
    """Where a cached binary came from."""
    return str(_load(path.with_name(_RECORD)).get("source", ""))


def sha256(path: Path) -> str:
    """A file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _load(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _remember(path: Path, content: dict[str, Any]) -> None:
    # What only saves time need not be written: the cache may be another user's.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(content, indent=1), mode=0o644)
