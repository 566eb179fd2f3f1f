"""Writing a file so that nobody ever reads half of it."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str, *, mode: int = 0o600, sync: bool = False) -> None:
    """Replace a file's content: a reader, and a crash of ours, finds the old or the new one.

    Args:
        path: the file; its folder exists.
        text: its new content.
        mode: its permissions.
        sync: be safe from a crash of the machine, too. That costs milliseconds, and is for
            what cannot be made again from elsewhere.

    Raises:
        OSError: it could not be written; the old content is still there.
    """
    # The writer's pid keeps two writers apart.
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        beside.chmod(mode)  # whatever the umask says
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
