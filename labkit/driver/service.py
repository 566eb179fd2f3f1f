"""The two gRPC services that a kubelet expects of a DRA driver."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from labkit.driver.preparer import Preparer
from labkit.errors import LabError
from labkit.gpus import cdi
from labkit.gpus.slices import DRIVER
from labkit.rpc import Schema, load

log = logging.getLogger(__name__)

_PROTOS = Path(__file__).resolve().parent.parent / "rpc"

PACKAGES = ("k8s.io.kubelet.pkg.apis.dra.v1", "k8s.io.kubelet.pkg.apis.dra.v1beta1")
"""The versions that are served, the newest first; they differ in an optional field only."""

SUPPORTED_VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""The same two, in the short form that registration uses."""


def dra_schema() -> Schema:
    """The DRA plugin's messages and service."""
    return load(_PROTOS / "dra.proto")


def registration_schema() -> Schema:
    """The registration's messages and service."""
    return load(_PROTOS / "registration.proto")


class DraPlugin:
    """``DRAPlugin``: every claim asked for is answered, with devices or with an error."""

    def __init__(self, schema: Schema, preparer: Preparer) -> None:
        self._messages = schema.messages
        self._preparer = preparer

    def node_prepare_resources(self, request: Any) -> Any:
        """Prepare all claims of a pod; one that fails does not keep the others from it."""
        response = self._messages["NodePrepareResourcesResponse"]()
        for claim in request.claims:
            answer = response.claims[claim.uid]
            try:
                prepared = self._preparer.prepare(claim.namespace, claim.name, claim.uid)
            except (LabError, OSError) as error:
                log.warning(
                    "cannot prepare %s/%s: %s", claim.namespace, claim.name, _one_line(error)
                )
                answer.error = _one_line(error)
                continue
            for device in prepared.devices:
                answer.devices.add(
                    request_names=device.requests,
                    pool_name=device.pool,
                    device_name=device.device,
                    cdi_device_ids=[cdi.device_id(claim.uid, device.device)],
                )
        return response

    def node_unprepare_resources(self, request: Any) -> Any:
        """Unprepare claims; the claims themselves may be gone already."""
        response = self._messages["NodeUnprepareResourcesResponse"]()
        for claim in request.claims:
            answer = response.claims[claim.uid]
            try:
                self._preparer.unprepare(claim.uid)
            except (LabError, OSError) as error:
                log.warning(
                    "cannot unprepare %s/%s: %s", claim.namespace, claim.name, _one_line(error)
                )
                answer.error = _one_line(error)
        return response


def _one_line(error: Exception) -> str:
    """An error for an event, which is a single line."""
    if isinstance(error, LabError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    return f"{type(error).__name__}: {error}"


class Registration:
    """``Registration``: tells the kubelet who we are and hears whether it took us."""

    def __init__(self, schema: Schema, endpoint: Path) -> None:
        self._messages = schema.messages
        self._endpoint = endpoint

    def get_info(self, _request: Any) -> Any:
        """Our name, socket and versions."""
        return self._messages["PluginInfo"](
            type="DRAPlugin",
            name=DRIVER,
            endpoint=str(self._endpoint),
            supported_versions=SUPPORTED_VERSIONS,
        )

    def notify_registration_status(self, request: Any) -> Any:
        """The kubelet's verdict, for the log."""
        if request.plugin_registered:
            log.info("registered with the kubelet")
        else:
            log.error("the kubelet refuses us: %s", request.error)
        return self._messages["RegistrationStatusResponse"]()
