"""The driver's two sockets in the kubelet's folder, kept there."""

from __future__ import annotations

import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import grpc

from labkit.driver.preparer import Preparer
from labkit.driver.service import PACKAGES, DraPlugin, Registration, dra_schema, registration_schema
from labkit.errors import LabError
from labkit.gpus.slices import DRIVER
from labkit.rpc import generic_handler

log = logging.getLogger(__name__)

LOOK_S = 30.0
"""How often the sockets' files are looked for when nothing else asks for it, in seconds."""

STOP_S = 1.0
"""How long calls in progress may take when the driver ends, in seconds."""

THREADS = 16
"""Calls served at once; the kubelet makes one per pod that starts or ends, and one may wait."""

_DIAL_S = 1.0
_HIDDEN = f".{DRIVER}.sock"


class Sockets:
    """Serves a preparer to a kubelet.

    Args:
        preparer: does the work.
        folder: the driver's own folder, for its plugin socket.
        registry: the kubelet's ``plugins_registry``.
    """

    def __init__(self, preparer: Preparer, *, folder: Path, registry: Path) -> None:
        endpoint = folder / "dra.sock"
        dra, registration = dra_schema(), registration_schema()
        plugin = DraPlugin(dra, preparer)
        registrar = Registration(registration, endpoint)
        # In this order: registration makes the kubelet dial the plugin at once.
        self._handlers: dict[Path, tuple[grpc.GenericRpcHandler, ...]] = {
            endpoint: tuple(
                generic_handler(dra, "DRAPlugin", plugin, package=package) for package in PACKAGES
            ),
            registry / f"{DRIVER}-reg.sock": (
                generic_handler(registration, "Registration", registrar),
            ),
        }

    def serve(self, stop: Event, wake: Event) -> None:
        """Serve until `stop` is set; a socket file that vanishes is made again.

        A kubelet that starts finds the registration socket by itself, so its restart needs
        nothing from us.

        Args:
            stop: ends it, once `wake` is set, too.
            wake: look now whether the files are still there.

        Raises:
            LabError: a socket cannot be made, or another driver is listening on it.
        """
        while not stop.is_set():
            self._serve_once(stop, wake)

    def _serve_once(self, stop: Event, wake: Event) -> None:
        with ThreadPoolExecutor(THREADS, thread_name_prefix="dra") as pool:
            serving: list[tuple[Path, grpc.Server]] = []
            try:
                for path, handlers in self._handlers.items():
                    serving.append((path, _listen(pool, path, handlers)))
                while not stop.is_set() and self._are_there():
                    wake.wait(LOOK_S)
                    wake.clear()
            finally:
                # The registration first: the kubelet lets go of us before we stop serving it.
                for path, server in reversed(serving):
                    path.unlink(missing_ok=True)
                    server.stop(STOP_S).wait(STOP_S * 2)

    def _are_there(self) -> bool:
        missing = [path for path in self._handlers if not path.is_socket()]
        if missing:
            log.warning("%s is gone; making both sockets again", missing[0])
        return not missing


def _listen(
    pool: ThreadPoolExecutor, path: Path, handlers: tuple[grpc.GenericRpcHandler, ...]
) -> grpc.Server:
    path.parent.mkdir(parents=True, exist_ok=True)
    _refuse_second(path)
    # Made under a name that kubelets overlook, then moved into place: whoever sees it can dial
    # it, and gRPC, which removes the file that it made, never removes a successor's.
    hidden = path.with_name(_HIDDEN)
    hidden.unlink(missing_ok=True)
    server = grpc.server(pool)
    server.add_generic_rpc_handlers(handlers)
    try:
        server.add_insecure_port(f"unix:{hidden}")
    except RuntimeError as exc:
        raise LabError(f"cannot listen on {path}: {exc}") from exc
    server.start()
    hidden.replace(path)
    log.info("listening on %s", path)
    return server


def _refuse_second(path: Path) -> None:
    """What a killed predecessor left may be replaced, but not a living driver's socket."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_DIAL_S)
            probe.connect(str(path))
    except OSError as exc:
        if "too long" in str(exc):
            raise LabError(f"cannot listen on {path}: {exc}") from exc
        return
    raise LabError(
        f"another driver is listening on {path}", hint="end it, or give this one another folder"
    )
