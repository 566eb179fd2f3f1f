"""Reading a ResourceClaim's allocation: which of our devices does it give, to which request."""

from __future__ import annotations

from typing import Any

from labkit.driver.checkpoint import PreparedClaim, PreparedDevice
from labkit.errors import LabError
from labkit.gpus.slices import DRIVER

Json = dict[str, Any]


class Unpreparable(LabError):
    """A claim cannot be prepared as it is; the kubelet shows the message in the pod's events."""


def allocated(claim: Json, *, pool: str) -> PreparedClaim:
    """The devices of this driver that a claim was allocated.

    Args:
        claim: a ResourceClaim.
        pool: our pool, in which all of them must be.

    Raises:
        Unpreparable: not allocated, nothing from us, a device of another node, or parameters
            for us that we do not know.
    """
    metadata = claim["metadata"]
    allocation = (claim.get("status") or {}).get("allocation")
    if not allocation:
        raise Unpreparable("the claim is not allocated")
    results = [
        result
        for result in (allocation.get("devices") or {}).get("results") or []
        if result["driver"] == DRIVER
    ]
    if not results:
        raise Unpreparable(f"the claim was allocated no device of {DRIVER}")
    for result in results:
        if result["pool"] != pool:
            raise Unpreparable(
                f"device {result['device']!r} is in pool {result['pool']!r}, "
                f"and this node's is {pool!r}"
            )
    _refuse_parameters(allocation)
    return PreparedClaim(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        devices=tuple(
            PreparedDevice(
                # "main/sub" of a prioritized list: pods name the main request.
                requests=(result["request"].partition("/")[0],),
                pool=result["pool"],
                device=result["device"],
                admin=bool(result.get("adminAccess")),
            )
            for result in results
        ),
    )


def _refuse_parameters(allocation: Json) -> None:
    """Parameters that nobody acts on must not look as if somebody did."""
    for index, entry in enumerate((allocation.get("devices") or {}).get("config") or []):
        opaque = entry.get("opaque") or {}
        if opaque.get("driver") == DRIVER:
            kind = (opaque.get("parameters") or {}).get("kind", "?")
            raise Unpreparable(
                f"config[{index}] ({entry.get('source', 'FromClaim')}): "
                f"parameters of kind {kind!r} are not supported by this driver",
                hint="remove the opaque config for gpu.nvidia.com from the claim or the class",
            )
