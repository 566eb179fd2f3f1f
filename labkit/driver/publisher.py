"""Keeps a node's ResourceSlices as they should be, whatever happens to them.

A watch tells of every change to them. Somebody may delete or edit them, and the kubelet itself
deletes its node's slices when it starts and half a minute after a driver's connection broke.
The watch is only the alarm: what to put right is decided on a fresh list, since events lag
behind our own writes and acting on them would chase one's own tail.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from typing import Any

from labkit.driver.claims import Json
from labkit.errors import ApiError, WaitTimedOut
from labkit.gpus.slices import DRIVER
from labkit.kube import NODES, RESOURCE_SLICES, Change, Client
from labkit.waiting import NotYet, Seen, wait_until

log = logging.getLogger(__name__)

RETRY_S = 60.0
"""How long one repair is tried before the watch is begun anew, in seconds."""

PAUSE_S = 0.25
"""Longest pause between two tries of a repair, in seconds."""

BACKOFF_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses before the watch is begun anew, one after the other; the last one repeats."""

MakeSlices = Callable[[int, Json | None], list[Json]]
"""Makes a node's slices from the pool's generation and the Node that owns them."""


class Publisher:
    """Publishes the slices of one node.

    Args:
        client: the API server, as the node's driver.
        node: the node.
        make: what should be published.
        on_change: called when the slices were not as they should be, which may mean that the
            kubelet was restarted.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        make: MakeSlices,
        *,
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        self._client = client
        self._node = node
        self._make = make
        self._on_change = on_change
        self._fields = f"spec.nodeName={node},spec.driver={DRIVER}"
        self._generation = 0
        self._settled: dict[str, str] = {}  # versions of the slices that are right, by uid

    def run(self, stop: Event) -> None:
        """Publish, and go on putting right, until `stop` is set."""
        failures, told = 0, ""
        while not stop.is_set():
            try:
                for change in self._client.watch(RESOURCE_SLICES, fields=self._fields, stop=stop):
                    if self._is_news(change):
                        self._repair(stop)
                    failures, told = 0, ""
            except (ApiError, WaitTimedOut) as error:
                # Nothing to be done but to say so and try again: a driver without its slices
                # is of no use, and permissions may come later than we do.
                if not stop.is_set() and error.message != told:
                    log.warning("publishing again from the start: %s", error)
                told = error.message
                stop.wait(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1

    def _is_news(self, change: Change) -> bool:
        """Whether something happened that is not our own doing."""
        if change.object is None:
            return True
        metadata = change.object["metadata"]
        if change.kind == "DELETED":
            return metadata["uid"] in self._settled
        return bool(self._settled.get(metadata["uid"]) != metadata["resourceVersion"])

    def _repair(self, stop: Event) -> None:
        wait_until(
            self._attempt,
            what=f"the ResourceSlices of {self._node} to be published",
            timeout_s=RETRY_S,
            interval_s=PAUSE_S,
            stop=stop,
        )

    def _attempt(self) -> Seen[None] | NotYet:
        try:
            self._put_right()
        except ApiError as error:
            return NotYet(error.message)
        return Seen(None)

    def _put_right(self) -> None:
        """Leave what is right; else bring all slices of the pool to the next generation.

        A pool counts by its highest generation, so at no moment do old and new devices mix.
        """
        owner = self._client.get(NODES, self._node)
        found = self._client.list(RESOURCE_SLICES, fields=self._fields).items
        seen = [slice_["spec"]["pool"]["generation"] for slice_ in found]
        self._generation = max([self._generation, *seen])
        wanted = self._make(self._generation, owner)
        if sorted(map(_says, found)) != sorted(map(_says, wanted)):
            self._on_change()
            found = self._replace(found, owner)
        self._settled = {
            slice_["metadata"]["uid"]: slice_["metadata"]["resourceVersion"] for slice_ in found
        }

    def _replace(self, found: list[Json], owner: Json) -> list[Json]:
        generation = self._generation + 1
        left, now = list(found), []
        for slice_ in self._make(generation, owner):
            old = next((have for have in left if _can_become(have, slice_)), None)
            if old is None:
                now.append(self._client.create(RESOURCE_SLICES, slice_))
            else:
                left.remove(old)
                metadata = {**old["metadata"], "ownerReferences": _owners(slice_)}
                now.append(self._client.update(RESOURCE_SLICES, {**slice_, "metadata": metadata}))
        for stale in left:
            metadata = stale["metadata"]
            self._client.delete(RESOURCE_SLICES, metadata["name"], uid=metadata["uid"])
        devices = sum(len(slice_["spec"].get("devices") or []) for slice_ in now)
        log.info("published %d devices, generation %d", devices, generation)
        self._generation = generation
        return now


def _says(slice_: Json) -> str:
    """What a slice says, in a form to compare, without what the server adds."""
    owners = [owner["uid"] for owner in _owners(slice_)]
    return repr((owners, _in_order(slice_["spec"])))


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, _in_order(value[key])) for key in sorted(value)]
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _can_become(slice_: Json, other: Json) -> bool:
    """Whether an update is possible: some fields of a slice never change, nor does its name."""
    fixed = ("driver", "nodeName")
    return (
        slice_["metadata"]["name"].startswith(other["metadata"]["generateName"])
        and slice_["spec"]["pool"]["name"] == other["spec"]["pool"]["name"]
        and all(slice_["spec"].get(key) == other["spec"].get(key) for key in fixed)
    )


def _owners(slice_: Json) -> list[Json]:
    return slice_["metadata"].get("ownerReferences") or []
