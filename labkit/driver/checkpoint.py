"""What the driver must remember over a restart: which claim has which devices.

The file is written whole, synced and renamed, so it is the old state or the new one and
never half of either. A file that does not verify stops the driver with a message; starting
empty instead would hand out devices that running pods hold.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labkit.errors import LabError
from labkit.files import write_atomically

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """A device that was prepared for a claim.

    Attributes:
        requests: the claim's requests that it serves, without sub-request.
        pool: its pool.
        device: its name in the pool.
        admin: whether the claim has it by admin access, beside whoever else has it.
    """

    requests: tuple[str, ...]
    pool: str
    device: str
    admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedClaim:
    """A claim whose devices are ready.

    Attributes:
        namespace: the claim's namespace.
        name: the claim's name.
        uid: the claim's uid.
        devices: what it was given, in the order of its allocation.
    """

    namespace: str
    name: str
    uid: str
    devices: tuple[PreparedDevice, ...]


class Checkpoint:
    """The prepared claims, by uid, on disk.

    Args:
        path: the file; it need not exist.

    Raises:
        LabError: the file is there and does not verify.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claims = _read(path)

    def all(self) -> list[PreparedClaim]:
        """Every prepared claim."""
        return list(self._claims.values())

    def find(self, uid: str) -> PreparedClaim | None:
        """A prepared claim, or None."""
        return self._claims.get(uid)

    def add(self, claim: PreparedClaim) -> None:
        """Remember a claim; on disk before this returns."""
        self._write({**self._claims, claim.uid: claim})

    def remove(self, uid: str) -> None:
        """Forget a claim; on disk before this returns."""
        if uid in self._claims:
            self._write({key: claim for key, claim in self._claims.items() if key != uid})

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        body = {"version": VERSION, "claims": [asdict(claim) for claim in claims.values()]}
        text = json.dumps({**body, "checksum": _checksum(body)}, indent=1)
        write_atomically(self._path, text, mode=0o600, sync=True)
        self._claims = claims


def _read(path: Path) -> dict[str, PreparedClaim]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        content = json.loads(text)
        checksum = content.pop("checksum")
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']}, expected {VERSION}")  # noqa: TRY301
        if checksum != _checksum(content):
            raise ValueError("its checksum does not fit")  # noqa: TRY301
        claims = [_claim(entry) for entry in content["claims"]]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise LabError(
            f"checkpoint {path} cannot be trusted: {exc}",
            hint="see which pods on this node hold claims, end them, and then remove the file",
        ) from exc
    return {claim.uid: claim for claim in claims}


def _claim(entry: dict[str, Any]) -> PreparedClaim:
    devices = [
        PreparedDevice(**{**device, "requests": tuple(device["requests"])})
        for device in entry.pop("devices")
    ]
    return PreparedClaim(**entry, devices=tuple(devices))


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
