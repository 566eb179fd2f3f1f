"""From the official release: downloaded, resumed where it broke off, and verified.

``LABKIT_RELEASE_MIRROR`` names a mirror, e.g. a company's: the scheme and host of every URL
are replaced by it, the paths stay (``/release/v1.37.2/bin/linux/amd64/kubectl`` of
Kubernetes' server, ``/etcd-io/etcd/releases/download/…`` of GitHub).
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from labkit.errors import BadInput
from labkit.progress import Step
from labkit.tools import archives, hosts, sources
from labkit.tools.catalog import Release, Tool
from labkit.tools.sources import Unavailable
from labkit.waiting import NotYet, Seen, wait_until

if TYPE_CHECKING:
    import httpx

MIRROR_ENV = "LABKIT_RELEASE_MIRROR"
"""Names a mirror of the release servers, e.g. ``https://mirror.example.com``."""

CONNECT_TIMEOUT_S = 4.0
"""As for the first connection; redirects lead to other hosts."""

READ_TIMEOUT_S = 30.0
"""Silence after which a download counts as broken off, in seconds."""

TRIES = 5
"""How often in a row a request may fail without having brought anything."""

PAUSE_S = 1.0
"""Longest pause between two tries, in seconds."""

RESERVE = 200 * 2**20
"""Bytes that must stay free on the disk."""

MIB = 2**20


def fetch(tool: Tool, folder: Path, step: Step) -> Path:
    """Download a tool's release into `folder` and verify it.

    Raises:
        Unavailable: not published for this platform, not verifiable, out of reach, or wrong.
        BadInput: the mirror's address is none.
    """
    if why := refused(tool):
        raise Unavailable(why)
    release = tool.release
    assert release is not None
    if why := hosts.out_of_reach(_mirrored(release.checksums)):
        raise Unavailable(why)
    wanted = _published_sum(release)
    # Named by the checksum: what another attempt left is resumed only if it is the same file.
    part = folder / f"{tool.name}-{wanted[:16]}.part"
    url = _mirrored(release.url)
    resumed = part.exists()
    found = _downloaded(url, part, wanted, step)
    if found != wanted and resumed:
        step.note("what an earlier attempt left was damaged; downloading all of it")
        found = _downloaded(url, part, wanted, step)
    if found != wanted:
        raise Unavailable(f"{url} has SHA-256 {found}, and {wanted} is published")
    if not release.member:
        return part
    try:
        check_disk(folder, archives.size_of(part, release.member))
        return archives.extract(part, release.member, folder / f"{tool.name}.new")
    finally:
        part.unlink(missing_ok=True)


def refused(tool: Tool) -> str:
    """Why a download need not even be tried, or ""."""
    release = tool.release
    if release is None:
        return "there is no official release for this platform"
    if not release.checksums:
        return "its release has no checksum that could be verified"
    url = _mirrored(release.checksums)
    return hosts.out_of_reach(url) if hosts.known_out_of_reach(url) else ""


def _downloaded(url: str, part: Path, wanted: str, step: Step) -> str:
    """The checksum of what was downloaded; unless it is the wanted one, it is removed."""
    _download(url, part, step)
    found = sources.sha256(part)
    if found != wanted:
        part.unlink()
    return found


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

    failures = 0

    def attempt() -> Seen[str] | NotYet:
        nonlocal failures
        failures += 1
        try:
            response = httpx.get(url, timeout=_timeout(), follow_redirects=True)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as exc:
            raise _no_way(url, exc) from exc
        except httpx.TransportError as exc:
            return _again(url, str(exc) or type(exc).__name__, failures)
        if response.is_server_error:
            return _again(url, f"answers {response.status_code}", failures)
        if response.is_error:
            raise Unavailable(f"{url} answers {response.status_code}")
        return Seen(response.text)

    return wait_until(attempt, what=url, timeout_s=float("inf"), interval_s=PAUSE_S)


def _download(url: str, part: Path, step: Step) -> None:
    import httpx

    failures = 0

    def attempt() -> Seen[None] | NotYet:
        nonlocal failures
        before = _size(part)
        try:
            _append(url, part, step)
        except httpx.HTTPStatusError as exc:
            if not exc.response.is_server_error:
                raise Unavailable(f"{url} answers {exc.response.status_code}") from exc
            why = f"answers {exc.response.status_code}"
        except httpx.TransportError as exc:
            unconnected = isinstance(exc, (httpx.ConnectError, httpx.ConnectTimeout))
            if unconnected and not before:
                raise _no_way(url, exc) from exc
            why = str(exc) or type(exc).__name__
        else:
            return Seen(None)
        # A line that breaks every 20 MB still gets there in the end.
        failures = 1 if _size(part) > before else failures + 1
        step.note(f"{why}; taking up the download again")
        return _again(url, why, failures)

    wait_until(attempt, what=url, timeout_s=float("inf"), interval_s=PAUSE_S)


def _no_way(url: str, exc: Exception) -> Unavailable:
    hosts.remember(url, str(exc) or type(exc).__name__)
    return Unavailable(hosts.out_of_reach(url))


def _again(url: str, why: str, failures: int) -> NotYet:
    if failures >= TRIES:
        raise Unavailable(f"{url}: {why}, {TRIES} times")
    return NotYet(why)


def _append(url: str, part: Path, step: Step) -> None:
    """Read what is missing of a file; all of it, if the server cannot resume."""
    import httpx

    have = _size(part)
    # Encoded contents would have neither the published checksum nor positions to resume at.
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
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
        total = (have + missing) / MIB if missing else None
        with part.open("ab" if have else "wb") as file:
            # As it comes: whatever has arrived when the connection breaks is kept.
            for chunk in response.iter_raw():
                file.write(chunk)
                have += len(chunk)
                step.update(have / MIB, total, unit="MB")


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


def _size(part: Path) -> int:
    with suppress(FileNotFoundError):
        return part.stat().st_size
    return 0


def _mirrored(url: str) -> str:
    mirror = os.environ.get(MIRROR_ENV, "").rstrip("/")
    if not mirror:
        return url
    if urlsplit(mirror).scheme not in ("http", "https") or not urlsplit(mirror).hostname:
        raise BadInput(
            f"{MIRROR_ENV}={mirror} is not an address",
            hint="write it like https://mirror.example.com/releases",
        )
    return mirror + urlsplit(url).path


def _timeout() -> httpx.Timeout:
    import httpx

    return httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
