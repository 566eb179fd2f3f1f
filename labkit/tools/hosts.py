"""Whether a release server can be reached, found out quickly and once.

A machine without network must not wait for each of ten tools: a name that does not resolve,
a refused port or silence is noticed within seconds and remembered as long as we run. The
probe is a thread, since neither a resolver nor a list of addresses has a deadline of its own.
"""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit
from urllib.request import getproxies

PROBE_S = 4.0
"""A server to which there is no connection within this time is out of reach, in seconds."""

_PORTS = {"http": 80, "https": 443}

_known: dict[str, str] = {}
"""Hosts that were tried, and why they are out of reach; "" for those that answer."""


def out_of_reach(url: str) -> str:
    """Why the host of `url` cannot be reached, or ""."""
    host = urlsplit(url).netloc
    if host not in _known:
        _known[host] = _probe(url)
    return f"{host} is out of reach: {_known[host]}" if _known[host] else ""


def known_out_of_reach(url: str) -> bool:
    """Whether that was found out before."""
    return bool(_known.get(urlsplit(url).netloc))


def remember(url: str, why: str) -> None:
    """Count the host of `url` as out of reach: a proxy or a redirect of it did not connect."""
    _known[urlsplit(url).netloc] = why


def forget() -> None:
    """Forget what was found out; the network may have changed."""
    _known.clear()


def _probe(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme in getproxies():  # the proxy resolves and connects, and says if it cannot
        return ""
    outcome: list[str] = []
    address = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
    thread = threading.Thread(target=_connect, args=(address, outcome), daemon=True)
    thread.start()
    thread.join(PROBE_S)
    return outcome[0] if outcome else f"no connection within {PROBE_S:.0f} s"


def _connect(address: tuple[str, int], outcome: list[str]) -> None:
    try:
        socket.create_connection(address, timeout=PROBE_S).close()
        outcome.append("")
    except OSError as exc:
        outcome.append(exc.strerror or str(exc))
    except UnicodeError as exc:  # no name that could be resolved
        outcome.append(str(exc))
