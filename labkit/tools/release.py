"""From the official release: downloaded, resumed where it broke off, and verified.

``LABKIT_RELEASE_MIRROR`` names a mirror, e.g. a company's: the scheme and host of every URL
are replaced by it, the paths stay.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from labkit.errors import LabError
from labkit.progress import Step
from labkit.tools import sources
from labkit.tools.catalog import Release, Tool
from labkit.tools.sources import Unavailable
from labkit.waiting import NotYet, Seen, wait_until

if TYPE_CHECKING:
    import httpx

MIRROR_ENV = "LABKIT_RELEASE_MIRROR"
"""Names a mirror of the release servers, e.g. ``https://mirror.example.com``."""

CONNECT_TIMEOUT_S = 4.0
"""A server that does not answer within this time counts as out of reach."""

READ_TIMEOUT_S = 30.0
"""Silence after which a download counts as broken off, in seconds."""

TRIES = 5
"""How often a download is taken up again."""

PAUSE_S = 1.0
"""Longest pause between two tries, in seconds."""

RESERVE = 200 * 2**20
"""Bytes that must stay free on the disk."""

MIB = 2**20

_unreachable: dict[str, str] = {}
"""Hosts that did not answer, and why: ten tools need not all find out."""


def fetch(tool: Tool, folder: Path, step: Step) -> Path:
    """Download a tool's release into `folder` and verify it.

    Raises:
        Unavailable: not published for this platform, not verifiable, out of reach, or wrong.
    """
    if why := refused(tool):
        raise Unavailable(why)
    release = tool.release
    assert release is not None
    wanted = _published_sum(release)
    # Named by the checksum: what another attempt left is resumed only if it is the same file.
    part = folder / f"{tool.name}-{wanted[:16]}.part"
    _download(_mirrored(release.url), part, step)
    found = sources.sha256(part)
    if found != wanted:
        part.unlink()
        raise Unavailable(f"{release.url} has SHA-256 {found}, and {wanted} is published")
    if not release.member:
        return part
    try:
        return _extracted(part, release.member, folder / f"{tool.name}.new")
    finally:
        part.unlink(missing_ok=True)


def refused(tool: Tool) -> str:
    """Why a download need not even be tried, or ""."""
    release = tool.release
    if release is None:
        return "there is no official release for this platform"
    if not release.checksums:
        return "its release has no checksum that could be verified"
    host = urlsplit(_mirrored(release.checksums)).netloc
    return f"{host} is out of reach: {_unreachable[host]}" if host in _unreachable else ""


def _published_sum(release: Release) -> str:
    url = _mirrored(release.checksums)
    name = urlsplit(release.url).path.rpartition("/")[2]
    for line in _get(url).splitlines():
        match = re.fullmatch(r"([0-9a-f]{64})(?:\s+\*?(\S+))?", line.strip())
        if match and match[2] in (None, name):
            return match[1]
    raise Unavailable(f"{url} has no SHA-256 of {name}")


def _get(url: str) -> str:
    import httpx

    host = urlsplit(url).netloc

    def attempt() -> Seen[str] | NotYet:
        response = httpx.get(url, timeout=_timeout(), follow_redirects=True)
        if response.is_server_error:
            return NotYet(f"{url} answers {response.status_code}")
        response.raise_for_status()
        return Seen(response.text)

    try:
        return wait_until(attempt, what=url, timeout_s=TRIES * PAUSE_S, interval_s=PAUSE_S)
    except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
        _unreachable[host] = str(exc) or type(exc).__name__
        raise Unavailable(f"{host} is out of reach: {_unreachable[host]}") from exc
    except httpx.HTTPStatusError as exc:
        raise Unavailable(f"{url} answers {exc.response.status_code}") from exc
    except httpx.HTTPError as exc:
        raise Unavailable(f"{url}: {exc}") from exc
    except LabError as exc:
        raise Unavailable(exc.message) from exc


def _download(url: str, part: Path, step: Step) -> None:
    import httpx

    failures: list[str] = []

    def attempt() -> Seen[None] | NotYet:
        try:
            _append(url, part, step)
        except httpx.HTTPStatusError as exc:
            if not exc.response.is_server_error:
                raise Unavailable(f"{url} answers {exc.response.status_code}") from exc
            failures.append(f"answered {exc.response.status_code}")
        except httpx.TransportError as exc:
            failures.append(str(exc) or type(exc).__name__)
        else:
            return Seen(None)
        if len(failures) >= TRIES:
            raise Unavailable(f"{url}: {failures[-1]}, {TRIES} times")
        step.note(f"{failures[-1]}; taking up the download again")
        return NotYet(failures[-1])

    wait_until(attempt, what=url, timeout_s=float("inf"), interval_s=PAUSE_S)


def _append(url: str, part: Path, step: Step) -> None:
    """Read what is missing of a file; all of it, if the server cannot resume."""
    import httpx

    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    with httpx.stream(
        "GET", url, headers=headers, timeout=_timeout(), follow_redirects=True
    ) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # we have it all; the checksum decides
        response.raise_for_status()
        if response.status_code != httpx.codes.PARTIAL_CONTENT:
            have = 0
        missing = int(response.headers.get("Content-Length") or 0)
        check_disk(part.parent, missing)
        with part.open("ab" if have else "wb") as file:
            # As it comes: whatever has arrived when the connection breaks is kept.
            for chunk in response.iter_raw():
                file.write(chunk)
                have += len(chunk)
                step.update(have / MIB, (have + missing) / MIB if not missing else None, unit="MB")


def check_disk(folder: Path, needed: int) -> None:
    """Refuse to begin what the disk cannot hold.

    Args:
        folder: a folder on that disk.
        needed: bytes that will be written.

    Raises:
        Unavailable: too little is free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed + RESERVE:
        raise Unavailable(
            f"the disk of {folder} has {free // MIB} MiB free, "
            f"and {(needed + RESERVE) // MIB} MiB are needed"
        )


def _extracted(archive: Path, member: str, target: Path) -> Path:
    try:
        with tarfile.open(archive) as tar:
            source = tar.extractfile(member)
            if source is None:
                raise Unavailable(f"the archive's {member} is not a file")
            with source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
    except (tarfile.TarError, KeyError) as exc:
        raise Unavailable(f"the archive has no {member}: {exc}") from exc
    return target


def _mirrored(url: str) -> str:
    mirror = os.environ.get(MIRROR_ENV, "").rstrip("/")
    return mirror + urlsplit(url).path if mirror else url


def _timeout() -> httpx.Timeout:
    import httpx

    return httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
