"""Who a cluster belongs to: it ends by itself when all its owners are gone.

Unless it was asked to stay. A cluster that is still coming up belongs to the
process that makes it, so a killed `labkit up` leaves nothing.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from time import time

from labkit.cluster.layout import Layout, read_json
from labkit.cluster.processes import Process
from labkit.files import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """When a cluster ends by itself.

    Attributes:
        owners: processes; the cluster ends when none of them is alive, unless it stays.
        stay: whether it stays without an owner.
        until: seconds since the epoch after which it ends in any case; 0 means never.
    """

    owners: tuple[Process, ...] = ()
    stay: bool = False
    until: float = 0.0

    @classmethod
    def read(cls, layout: Layout) -> Lease:
        """The lease of a cluster; without a readable one it has ended."""
        data = read_json(layout.lease_file)
        if not isinstance(data, dict):
            return cls()
        owners = tuple(p for o in data.get("owners", []) if (p := Process.from_json(o)))
        return cls(
            owners=owners, stay=bool(data.get("stay")), until=float(data.get("until") or 0.0)
        )

    def write(self, layout: Layout) -> None:
        """Record the lease and tell the supervisor."""
        data = {
            "owners": [owner.to_json() for owner in self.owners],
            "stay": self.stay,
            "until": self.until,
        }
        write_atomically(layout.lease_file, json.dumps(data))
        poke(layout)

    def joined_by(self, other: Lease) -> Lease:
        """A lease that lasts as long as the longer of the two."""
        alive = [owner for owner in self.owners if owner.is_alive()]
        owners = tuple(dict.fromkeys([*alive, *other.owners]))
        ever = not self.until or not other.until
        until = 0.0 if ever else max(self.until, other.until)
        return replace(self, owners=owners, stay=self.stay or other.stay, until=until)

    def is_over(self) -> bool:
        """Whether the cluster shall end now."""
        if self.until and time() >= self.until:
            return True
        return not self.stay and not any(owner.is_alive() for owner in self.owners)


def poke(layout: Layout) -> None:
    """Make the supervisor look at the cluster's files; without one nothing happens."""
    with suppress(OSError):  # no pipe, or nobody reads it
        handle = os.open(layout.control, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(handle, b"!")
        finally:
            os.close(handle)
