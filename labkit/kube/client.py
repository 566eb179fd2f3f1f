"""A thin, synchronous, thread-safe client of the API server.

Every request has a deadline, every refusal becomes an `ApiError` that says which object
and why, and every write is validated strictly, so that a field the server does not know
is an error and never silently lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Literal, Self

import httpx

from labkit.errors import ApiError, BadInput
from labkit.kube import kubeconfig, manifests, watch
from labkit.kube.refusals import refusal
from labkit.kube.resources import KNOWN, Json, Resource
from labkit.waiting import NotYet, Seen, wait_until

REQUEST_TIMEOUT_S = 10.0
"""Deadline of one request unless the caller names another, in seconds."""

BUSY_TIMEOUT_S = 30.0
"""How long a request is repeated that the server refuses for now (429), in seconds."""

PAGE = 500
"""Objects per page of a list."""

FIELD_MANAGER = "labkit"
"""Our name as the owner of fields that we apply."""

_CONTENT_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The objects of a list and the moment they show.

    Attributes:
        items: the objects, each with ``apiVersion`` and ``kind``.
        resource_version: where to start a watch so that nothing is missed.
    """

    items: list[Json]
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of one applied manifest.

    Attributes:
        object: the object as the server has it now (or would have it, after a dry run).
        verdict: ``created``, ``changed`` or ``unchanged``.
    """

    object: Json
    verdict: Literal["created", "changed", "unchanged"]

    def __str__(self) -> str:
        return f"{manifests.named(self.object)} {self.verdict}"


class Client:
    """Requests to one API server; make it with `from_kubeconfig`, close it or use ``with``.

    Args:
        access: where and as whom.
        timeout_s: deadline of one request, in seconds.
        transport: the HTTP transport, for tests.
    """

    def __init__(
        self,
        access: kubeconfig.Access,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.server = access.server
        self.namespace = access.namespace
        self._http = httpx.Client(
            base_url=access.server,
            headers={"Accept": "application/json", "User-Agent": "labkit", **access.headers},
            verify=access.verify,
            timeout=timeout_s,
            # Watches hold connections for long; a limit would make them starve requests.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=4),
            # Proxies from the environment are for the internet, not for a cluster of our own.
            trust_env=False,
            transport=transport,
        )
        self._kinds = {(resource.api_version, resource.kind): resource for resource in KNOWN}

    @classmethod
    def from_kubeconfig(
        cls, path: Path, *, context: str = "", timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Self:
        """A client for one context of a kubeconfig file; see `kubeconfig.read`."""
        return cls(kubeconfig.read(path, context=context), timeout_s=timeout_s)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Reading

    def get(
        self, resource: Resource, name: str, *, namespace: str | None = None, subresource: str = ""
    ) -> Json:
        """One object.

        Raises:
            ApiError: reason ``NotFound`` when it is not there.
        """
        path = self._path(resource, namespace, name, subresource)
        return self._json("GET", path)

    def find(self, resource: Resource, name: str, *, namespace: str | None = None) -> Json | None:
        """One object, or None when it is not there."""
        try:
            return self.get(resource, name, namespace=namespace)
        except ApiError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> Listing:
        """All objects of a kind, in one namespace or (None) everywhere.

        Args:
            resource: the kind.
            namespace: where to look; None means everywhere.
            labels: a label selector, e.g. ``app=train,tier!=web``.
            fields: a field selector, e.g. ``spec.nodeName=lab-0``.
        """
        params = _params(labelSelector=labels, fieldSelector=fields, limit=str(PAGE))
        items: list[Json] = []
        while True:
            page = self._json("GET", resource.path(namespace=namespace), params=params)
            items += page.get("items") or []
            following = page["metadata"].get("continue")
            if not following:
                break
            params["continue"] = following
        # A list's items carry no kind of their own; with it they can stand alone.
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return Listing(
            items=[{**head, **item} for item in items],
            resource_version=page["metadata"]["resourceVersion"],
        )

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        stop: Event | None = None,
    ) -> Iterator[watch.Change]:
        """All objects of a kind now, and then each change, until `stop` is set.

        See `labkit.kube.watch.follow` for what a watcher can rely on.
        """
        return watch.follow(
            self, resource, namespace=namespace, labels=labels, fields=fields, stop=stop or Event()
        )

    # Writing

    def create(
        self,
        resource: Resource,
        obj: Json,
        *,
        namespace: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        """Create an object; with a `subresource` (``eviction``, ``token``, ...) POST to that.

        Raises:
            ApiError: reason ``AlreadyExists`` when its name is taken.
        """
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        place = namespace or _namespace_of(obj)
        name = obj["metadata"]["name"] if subresource else ""
        path = self._path(resource, place, name, subresource)
        return self._json("POST", path, params=_writing(dry_run), body=obj)

    def apply(
        self,
        manifest: Json,
        *,
        namespace: str | None = None,
        field_manager: str = FIELD_MANAGER,
        force: bool = True,
        dry_run: bool = False,
    ) -> Applied:
        """Make the server's object agree with a manifest (server-side apply).

        Args:
            manifest: the fields that we want to own.
            namespace: where it goes; it may not contradict the manifest.
            field_manager: whose fields these are.
            force: take over fields that others own; else a conflict is an `ApiError`.
            dry_run: validate and answer, and change nothing.

        Raises:
            BadInput: no name, a kind that the server does not have, or two namespaces.
            ApiError: the server refuses it.
        """
        resource = self.resource_of(manifest)
        place = self._place(resource, manifest, namespace)
        name = (manifest.get("metadata") or {}).get("name")
        if not name:
            raise BadInput(
                f"{manifest['kind']} has no metadata.name, which apply needs",
                hint="give it a name, or create it instead of applying",
            )
        before = self.find(resource, name, namespace=place)
        after = self._json(
            "PATCH",
            resource.path(namespace=place, name=name),
            params={
                **_writing(dry_run),
                "fieldManager": field_manager,
                "force": str(force).lower(),
            },
            body=manifest,
            content_type=_CONTENT_TYPES["apply"],
        )
        if before is None:
            return Applied(object=after, verdict="created")
        same = _content(before) == _content(after)
        return Applied(object=after, verdict="unchanged" if same else "changed")

    def apply_yaml(
        self,
        text: str,
        *,
        namespace: str | None = None,
        origin: str = "the manifest",
        dry_run: bool = False,
    ) -> Sequence[Applied]:
        """Apply each object of a multi-document YAML text, in its order.

        The whole text is read before anything is applied. See `apply` for errors.
        """
        objects = manifests.load(text, origin=origin)
        return [self.apply(obj, namespace=namespace, dry_run=dry_run) for obj in objects]

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        subresource: str = "",
        kind: Literal["merge", "json", "strategic"] = "merge",
    ) -> Json:
        """Change some fields of an object."""
        path = self._path(resource, namespace, name, subresource)
        return self._json(
            "PATCH", path, params=_writing(False), body=patch, content_type=_CONTENT_TYPES[kind]
        )

    def update(self, resource: Resource, obj: Json, *, subresource: str = "") -> Json:
        """Replace an object by one that was read before; ``Conflict`` if it moved since."""
        path = self._path(resource, _namespace_of(obj), obj["metadata"]["name"], subresource)
        return self._json("PUT", path, params=_writing(False), body=obj)

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        grace_s: int | None = None,
        uid: str | None = None,
    ) -> bool:
        """Ask for an object's end; False when it was not there.

        Args:
            resource: its kind.
            name: its name.
            namespace: its namespace, for a namespaced kind.
            grace_s: seconds that a pod has to end; None leaves it to the pod.
            uid: delete only this very object, not a namesake.
        """
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        options["propagationPolicy"] = "Background"
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            self._json("DELETE", self._path(resource, namespace, name, ""), body=options)
        except ApiError as error:
            namesake = uid is not None and error.status == httpx.codes.CONFLICT
            if error.status == httpx.codes.NOT_FOUND or namesake:
                return False
            raise
        return True

    def delete_all(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> None:
        """Ask for the end of all objects that match."""
        for item in self.list(resource, namespace=namespace, labels=labels, fields=fields).items:
            metadata = item["metadata"]
            self.delete(
                resource,
                metadata["name"],
                namespace=metadata.get("namespace"),
                uid=metadata["uid"],
            )

    # The server itself

    def readyz(self) -> bool:
        """Whether the server is up and says that it is ready."""
        try:
            return self._http.get("/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def version(self) -> str:
        """The server's version, e.g. ``v1.37.2``."""
        return str(self._json("GET", "/version")["gitVersion"])

    def raw(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Any request: JSON comes back parsed, other answers as text (logs, metrics)."""
        response = self._send(method, path, params=params, body=body, timeout_s=timeout_s)
        if response.headers.get("Content-Type", "").startswith("application/json"):
            return response.json()
        return response.text

    def stream(
        self, path: str, *, params: Mapping[str, str], read_timeout_s: float
    ) -> httpx.Response:
        """Begin a long answer; read it by ``iter_lines`` and close it.

        Args:
            path: what to read.
            params: query parameters.
            read_timeout_s: silence after which ``httpx.ReadTimeout`` is raised.
        """
        timeout = httpx.Timeout(REQUEST_TIMEOUT_S, read=read_timeout_s)
        request = self._http.build_request("GET", path, params=dict(params), timeout=timeout)
        response = self._http.send(request, stream=True)
        if response.is_error:
            with closing(response):
                response.read()
            raise refusal(response)
        return response

    def resource_of(self, manifest: Json) -> Resource:
        """The resource of a manifest's ``apiVersion`` and ``kind``, asking the server once.

        Raises:
            BadInput: the server has no such version or kind; the message says which it has.
        """
        api_version, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
        if (api_version, kind) not in self._kinds:
            self._discover(api_version)
        try:
            return self._kinds[api_version, kind]
        except KeyError:
            known = sorted(known for version, known in self._kinds if version == api_version)
            raise BadInput(
                f"the server has no kind {kind!r} in {api_version}",
                hint=f"it has there: {', '.join(known)}",
            ) from None

    def _discover(self, api_version: str) -> None:
        root = "/apis/" if "/" in api_version else "/api/"
        try:
            found = self._json("GET", root + api_version)["resources"]
        except ApiError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            raise BadInput(
                f"the server does not serve {api_version!r}",
                hint=f"of that group it serves: {self._served(api_version)}",
            ) from None
        group, _, version = api_version.rpartition("/")
        for entry in found:
            if "/" not in entry["name"]:
                self._kinds[api_version, entry["kind"]] = Resource(
                    group=group,
                    version=version,
                    plural=entry["name"],
                    kind=entry["kind"],
                    namespaced=entry["namespaced"],
                )

    def _served(self, api_version: str) -> str:
        wanted = api_version.rpartition("/")[0]
        for group in self._json("GET", "/apis")["groups"]:
            if group["name"] == wanted:
                return ", ".join(entry["groupVersion"] for entry in group["versions"])
        return "nothing"

    def _place(self, resource: Resource, manifest: Json, namespace: str | None) -> str | None:
        own = _namespace_of(manifest)
        if not resource.namespaced:
            return None
        if own and namespace and own != namespace:
            raise BadInput(
                f"{manifests.named(manifest)} names its namespace itself, not {namespace!r}",
                hint="drop metadata.namespace from the manifest",
            )
        return own or namespace or self.namespace

    def _path(self, resource: Resource, namespace: str | None, name: str, subresource: str) -> str:
        place = namespace or self.namespace
        return resource.path(namespace=place, name=name, subresource=subresource)

    def _json(self, method: str, path: str, **options: Any) -> Json:
        answer = self._send(method, path, **options).json()
        assert isinstance(answer, dict)
        return answer

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout_s: float | None = None,
    ) -> httpx.Response:
        request = self._http.build_request(
            method,
            path,
            params=dict(params or {}),
            content=None if body is None else json.dumps(body),
            headers={} if body is None else {"Content-Type": content_type},
            timeout=timeout_s or self._http.timeout,
        )

        def attempt() -> Seen[httpx.Response] | NotYet:
            response = self._deliver(request)
            # 429 means that nothing was done (too busy, or an eviction that must wait);
            # without Retry-After the server does not want to see us again.
            if response.status_code == httpx.codes.TOO_MANY_REQUESTS and (
                "Retry-After" in response.headers
            ):
                return NotYet(response.text[:200])
            return Seen(response)

        response = wait_until(
            attempt,
            what=f"the API server to take {method} {path}",
            timeout_s=BUSY_TIMEOUT_S,
            interval_s=1.0,
        )
        if response.is_error:
            raise refusal(response)
        return response

    def _deliver(self, request: httpx.Request) -> httpx.Response:
        try:
            try:
                return self._http.send(request)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # A kept connection that the server had closed meanwhile. A read can be
                # repeated safely; a write might have happened.
                if request.method != "GET":
                    raise
                return self._http.send(request)
        except httpx.TransportError as exc:
            why = str(exc) or type(exc).__name__
            raise ApiError(
                f"no answer from the API server at {self.server} to "
                f"{request.method} {request.url.path}: {why}",
                hint="see whether the cluster is up",
                see="labkit status",
            ) from exc


def _params(**values: str) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


def _writing(dry_run: bool) -> dict[str, str]:
    return _params(fieldValidation="Strict", dryRun="All" if dry_run else "")


def _namespace_of(obj: Json) -> str | None:
    return (obj.get("metadata") or {}).get("namespace")


def _content(obj: Json) -> Json:
    """An object without the server's bookkeeping."""
    bookkeeping = ("managedFields", "resourceVersion", "generation")
    metadata = {key: value for key, value in obj["metadata"].items() if key not in bookkeeping}
    return {**obj, "metadata": metadata}
