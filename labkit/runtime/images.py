"""Images: names that are accepted. Nothing is pulled, and nothing pretends to be."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock

from labkit.files import write_atomically

_PREFIX = "labkit://not-pulled/"


class Images:
    """The image names that were asked for on this node.

    Args:
        path: the file that remembers them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        try:
            self._names = list(json.loads(path.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            self._names = []

    def names(self) -> list[str]:
        """All names, in the order in which they came."""
        with self._lock:
            return list(self._names)

    def add(self, name: str) -> None:
        """Accept a name."""
        with self._lock:
            if name not in self._names:
                self._save([*self._names, name])

    def remove(self, name: str) -> None:
        """Forget a name, or what `reference` made of it."""
        with self._lock:
            self._save([one for one in self._names if name not in (one, reference(one))])

    def _save(self, names: list[str]) -> None:
        write_atomically(self._path, json.dumps(names), mode=0o644)
        self._names = names


def reference(name: str) -> str:
    """What stands in a pod's status as its image id, and says what it is.

    A kubelet names an image it has "pulled" by what we gave it, so a reference of a
    reference is itself.
    """
    return name if name.startswith(_PREFIX) else _PREFIX + name


SIZE = 1
"""Bytes of every image: kubelets refuse 0, and there is nothing to be counted."""
