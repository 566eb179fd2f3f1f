"""One binary out of an archive: tar on Linux, zip on macOS. The checksum was verified before."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from labkit.tools.sources import Unavailable


def size_of(archive: Path, member: str) -> int:
    """How many bytes a member takes when it is unpacked.

    Raises:
        Unavailable: the archive has no such file.
    """
    with _opened(archive, member) as (_, size):
        return size


def extract(archive: Path, member: str, target: Path) -> Path:
    """Unpack one member as the file `target`.

    Raises:
        Unavailable: the archive has no such file.
    """
    with _opened(archive, member) as (source, _), target.open("wb") as file:
        shutil.copyfileobj(source, file)
    return target


@contextmanager
def _opened(archive: Path, member: str) -> Iterator[tuple[IO[bytes], int]]:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed, packed.open(member) as source:
                yield source, packed.getinfo(member).file_size
            return
        with tarfile.open(archive) as tar:
            entry = tar.getmember(member)
            unpacked = tar.extractfile(entry)
            if unpacked is None:
                raise Unavailable(f"the archive's {member} is not a file")
            with unpacked:
                yield unpacked, entry.size
    except (tarfile.TarError, zipfile.BadZipFile, KeyError) as exc:
        raise Unavailable(f"the archive has no {member}: {exc}") from exc
