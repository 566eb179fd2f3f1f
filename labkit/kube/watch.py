"""List, then follow: the one way to see a kind of object change.

What a watcher can rely on:

* Each object is told as ADDED once, then MODIFIED when its resourceVersion moved, then
  DELETED once: what reconnecting repeats is left out, what it missed is made up for.
* After each (re)list comes SYNCED: from there on the watcher knows everything.
* A server that restarts, forgets (410), ends the stream or falls silent is met by
  reconnecting, with back-off, for as long as `stop` is not set.
* A refusal that will not go away by itself (401, 403, 404) is raised.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Literal

import httpx

from labkit.errors import ApiError
from labkit.kube.resources import Json, Resource

if TYPE_CHECKING:
    from labkit.kube.client import Client

SERVER_TIMEOUT_S = 300
"""How long one stream lasts before the server ends it and we ask again, in seconds."""

SILENCE_S = 100.0
"""Silence after which a stream counts as dead; servers send a bookmark each minute."""

BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses before reconnecting, one after the other; the last one repeats."""

STOP_LOOK_S = 0.5
"""How often a silent stream looks whether it shall end, in seconds."""

Kind = Literal["ADDED", "MODIFIED", "DELETED", "SYNCED"]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened.

    Attributes:
        kind: what happened; SYNCED says that everything was told that there is.
        object: the object after the change, or its last state when DELETED; None for SYNCED.
    """

    kind: Kind
    object: Json | None = None


class _Gone(Exception):
    """The server no longer has the history we ask for: list again."""


def follow(
    client: Client,
    resource: Resource,
    *,
    namespace: str | None,
    labels: str,
    fields: str,
    stop: Event,
) -> Iterator[Change]:
    """Yield what there is, then what changes, until `stop` is set; see the module's text.

    Raises:
        ApiError: the server refuses for a reason that waiting does not cure.
    """
    watch = _Watch(client, resource, namespace=namespace, labels=labels, fields=fields, stop=stop)
    return watch.run()


class _Watch:
    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str | None,
        labels: str,
        fields: str,
        stop: Event,
    ) -> None:
        self._client = client
        self._resource = resource
        self._scope = {"namespace": namespace, "labels": labels, "fields": fields}
        self._path = resource.path(namespace=namespace)
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        self._selectors = {key: value for key, value in selectors.items() if value}
        self._stop = stop
        self._known: dict[str, Json] = {}
        self._version = ""
        self._failures = 0

    def run(self) -> Iterator[Change]:
        while not self._stop.is_set():
            try:
                if not self._version:
                    yield from self._relist()
                yield from self._stream()
            except _Gone:
                self._version = ""
            except (ApiError, httpx.TransportError) as error:
                if _is_final(error):
                    raise
                self._pause()
            else:
                self._failures = 0

    def _pause(self) -> None:
        pause = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        self._stop.wait(pause)

    def _relist(self) -> Iterator[Change]:
        listing = self._client.list(self._resource, **self._scope)  # type: ignore[arg-type]
        present = {item["metadata"]["uid"] for item in listing.items}
        for uid in [uid for uid in self._known if uid not in present]:
            yield Change("DELETED", self._known.pop(uid))
        for item in listing.items:
            yield from self._seen(item)
        self._version = listing.resource_version
        yield Change("SYNCED")

    def _seen(self, obj: Json) -> Iterator[Change]:
        uid = obj["metadata"]["uid"]
        before = self._known.get(uid)
        self._known[uid] = obj
        if before is None:
            yield Change("ADDED", obj)
        elif before["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            yield Change("MODIFIED", obj)

    def _stream(self) -> Iterator[Change]:
        params = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(SERVER_TIMEOUT_S),
        }
        try:
            response = self._client.stream(self._path, params=params, read_timeout_s=SILENCE_S)
        except ApiError as error:
            if error.status == httpx.codes.GONE:
                raise _Gone from error
            raise
        with closing(response), _cut_when(self._stop, response):
            for line in response.iter_lines():
                if self._stop.is_set():
                    return
                # A whole line has come, so the server is well: start counting anew.
                self._failures = 0
                yield from self._event(json.loads(line))

    def _event(self, event: Json) -> Iterator[Change]:
        obj = event["object"]
        if event["type"] == "ERROR":
            if obj.get("code") == httpx.codes.GONE:
                raise _Gone
            raise ApiError(
                obj.get("message") or "the watch failed",
                status=int(obj.get("code") or 0),
                reason=obj.get("reason") or "",
            )
        self._version = obj["metadata"]["resourceVersion"]
        if event["type"] == "DELETED":
            if self._known.pop(obj["metadata"]["uid"], None) is not None:
                yield Change("DELETED", obj)
        elif event["type"] != "BOOKMARK":
            yield from self._seen(obj)


def _is_final(error: Exception) -> bool:
    again = (0, httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS)
    if not isinstance(error, ApiError) or error.status in again:
        return False
    return error.status < httpx.codes.INTERNAL_SERVER_ERROR


@contextmanager
def _cut_when(stop: Event, response: httpx.Response) -> Iterator[None]:
    """Cut the connection once `stop` is set, since reading it may block for a minute."""
    done = Event()

    def wait() -> None:
        while not done.is_set():
            if stop.wait(STOP_LOOK_S):
                _shut(response)
                return

    Thread(target=wait, name="watch-stop", daemon=True).start()
    try:
        yield
    except (httpx.TransportError, ssl.SSLError, OSError):
        if not stop.is_set():
            raise
    finally:
        done.set()


def _shut(response: httpx.Response) -> None:
    connection = response.extensions.get("network_stream")
    sock = connection.get_extra_info("socket") if connection else None
    if isinstance(sock, socket.socket):
        with suppress(OSError):  # already closed by the reader
            sock.shutdown(socket.SHUT_RDWR)
