"""Prepare and unprepare: from an allocated claim to a CDI file, and back.

Both can be called again at any time, as the kubelet does after its restart or after a
failure elsewhere in the same pod. Prepare re-establishes: whatever of its effects is missing
is made again. The order is CDI file, checkpoint, answer; so a claim in the checkpoint has had
its file, and a file without a claim in the checkpoint was never answered for.

Calls for one claim wait for each other. Calls for different claims only do so while devices
are handed over, and never while one of them waits for the API server.

When a pod is deleted by force, its device may be allocated anew before the kubelet has come to
unprepare it. The new claim then waits for that: a refusal would be right, too, but after one
the kubelet lets the pod wait for a minute and more.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Condition

from labkit.driver.checkpoint import Checkpoint, PreparedClaim
from labkit.driver.claims import Json, Unpreparable, allocated
from labkit.driver.turns import Turns
from labkit.files import write_atomically
from labkit.gpus import Gpu, Inventory, cdi, smi
from labkit.gpus.slices import DRIVER

log = logging.getLogger(__name__)

READABLE = 0o644
"""Permissions of what runtimes and containers read."""

LONGEST_INTERPRETER = 120
"""The kernel reads a program's first line up to 127 bytes."""

PATIENCE_S = 10.0
"""How long a claim waits for a device that another one still has; kubelets wait 45 s for us."""

ClaimReader = Callable[[str, str], Json | None]
"""Reads a ResourceClaim by namespace and name; None when it is not there."""


class Preparer:
    """Makes claims' devices ready on one node.

    Args:
        inventory: the node's GPUs.
        read_claim: how to read a claim from the API server.
        folder: the driver's own folder on the node.
        cdi_dir: where CDI files go.
        patience_s: how long to wait for a device that another claim still has, in seconds.

    Raises:
        LabError: the checkpoint on disk does not verify.
    """

    def __init__(
        self,
        inventory: Inventory,
        read_claim: ClaimReader,
        *,
        folder: Path,
        cdi_dir: Path,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._pool = inventory.node
        self._gpus: dict[str, Gpu] = {gpu.device_name: gpu for gpu in inventory.gpus}
        self._read_claim = read_claim
        self._cdi_dir = cdi_dir
        self._descriptions = folder / "devices"
        self._smi = folder / "nvidia-smi"
        self._checkpoint = Checkpoint(folder / "checkpoint.json")
        self._patience_s = patience_s
        self._turns = Turns()
        self._devices = Condition()  # held while devices change hands, told when they are free

    def restore(self) -> None:
        """Put everything on disk in order: device descriptions, and one CDI file per claim."""
        self._descriptions.mkdir(parents=True, exist_ok=True)
        self._cdi_dir.mkdir(parents=True, exist_ok=True)
        for gpu in self._gpus.values():
            path = self._descriptions / f"{gpu.uuid}.json"
            write_atomically(path, json.dumps(cdi.description(gpu), indent=1), mode=READABLE)
        write_atomically(self._smi, _smi_program(), mode=0o755)
        wanted = {self._spec_path(claim.uid) for claim in self._checkpoint.all()}
        for path in {*self._cdi_dir.glob(f"{_PREFIX}*"), *self._cdi_dir.glob(f".{_PREFIX}*")}:
            if path not in wanted:
                log.info("removing %s: its claim was never prepared to the end", path.name)
                path.unlink(missing_ok=True)
        for claim in self._checkpoint.all():
            try:
                self._write_spec(claim)
            except Unpreparable as error:
                # The node's hardware changed below a prepared claim. It stays in the
                # checkpoint, so that it can be unprepared.
                log.error("%s/%s: %s", claim.namespace, claim.name, error)  # noqa: TRY400
                self._spec_path(claim.uid).unlink(missing_ok=True)

    def prepared(self) -> list[PreparedClaim]:
        """The claims that are prepared now."""
        return self._checkpoint.all()

    def prepare(self, namespace: str, name: str, uid: str) -> PreparedClaim:
        """Make a claim's devices ready.

        Raises:
            Unpreparable: the claim is gone, is another one, or asks for what cannot be.
            ApiError: the API server does not answer.
        """
        with self._turns.of(uid):
            known = self._checkpoint.find(uid)
            if known is not None:
                self._write_spec(known)
                return known
            claim = self._allocated(namespace, name, uid)
            with self._devices:
                self._devices.wait_for(lambda: not self._taken(claim), self._patience_s)
                self._refuse_taken(claim)
                self._write_spec(claim)
                self._checkpoint.add(claim)
            log.info("prepared %s/%s: %s", namespace, name, _devices(claim))
            return claim

    def unprepare(self, uid: str) -> None:
        """Undo `prepare`; nothing to do is fine."""
        with self._turns.of(uid), self._devices:
            self._spec_path(uid).unlink(missing_ok=True)
            claim = self._checkpoint.find(uid)
            if claim:
                self._checkpoint.remove(uid)
                log.info("unprepared %s/%s: %s", claim.namespace, claim.name, _devices(claim))
            self._devices.notify_all()

    def _allocated(self, namespace: str, name: str, uid: str) -> PreparedClaim:
        claim = self._read_claim(namespace, name)
        if claim is None:
            raise Unpreparable(f"there is no ResourceClaim {namespace}/{name}")
        if claim["metadata"]["uid"] != uid:
            raise Unpreparable(
                f"ResourceClaim {namespace}/{name} is another one by now "
                f"(uid {claim['metadata']['uid']}, asked for {uid})"
            )
        return allocated(claim, pool=self._pool)

    def _taken(self, claim: PreparedClaim) -> dict[str, PreparedClaim]:
        """Which of a claim's devices others have, and who; admin access takes nothing."""
        holders = {
            device.device: other
            for other in self._checkpoint.all()
            for device in other.devices
            if not device.admin
        }
        wanted = [device.device for device in claim.devices if not device.admin]
        return {name: holders[name] for name in wanted if name in holders}

    def _refuse_taken(self, claim: PreparedClaim) -> None:
        for name, holder in self._taken(claim).items():
            raise Unpreparable(
                f"device {name!r} is still prepared for "
                f"ResourceClaim {holder.namespace}/{holder.name}"
            )

    def _write_spec(self, claim: PreparedClaim) -> None:
        for device in claim.devices:
            if device.device not in self._gpus:
                raise Unpreparable(f"this node has no device {device.device!r}")
        gpus = [self._gpus[device.device] for device in claim.devices]
        spec = cdi.claim_spec(claim.uid, gpus, descriptions=self._descriptions, smi=self._smi)
        text = json.dumps(spec, indent=1)
        path = self._spec_path(claim.uid)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_atomically(path, text, mode=READABLE)

    def _spec_path(self, uid: str) -> Path:
        return self._cdi_dir / f"{_PREFIX}{uid}.json"


_PREFIX = f"k8s.{DRIVER}-claim_"


def _smi_program() -> str:
    """`labkit.gpus.smi` as a program for containers.

    It is run by the Python that runs us, which the runtime lets containers see; whatever
    python3 a container's PATH may have, or not, does not matter.
    """
    text = Path(smi.__file__).read_text(encoding="utf-8")
    python = str(Path(sys.executable).resolve())
    if len(python) > LONGEST_INTERPRETER or any(letter.isspace() for letter in python):
        return text  # the kernel could not read such a first line: leave it to PATH
    return f"#!{python} -IS\n" + text.partition("\n")[2]


def _devices(claim: PreparedClaim) -> str:
    return ", ".join(device.device for device in claim.devices) or "no device of ours"
