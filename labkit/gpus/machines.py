"""Machines: which cards sit in a node, and where.

A machine is a YAML file, ours below ``clusters/machines`` or anybody's::

    description: two A30 in a workstation
    driverVersion: 580.126.09
    cudaVersion: "13.0"
    gpus:
    - card: a30                     # a name from cards.yaml
      pciBusID: "0000:17:00.0"
      numaNode: 0                   # optional
      pcieRoot: "pci0000:16"        # optional
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from labkit.errors import BadInput
from labkit.paths import data_dir

DEFAULT_MACHINE = "dgx-h100"
"""The machine of a node when nobody names another."""

MAX_GPUS = 128
"""Devices that one ResourceSlice can hold (k8s.io/api, v1)."""

MACHINE_KEYS = "description, driverVersion, cudaVersion and gpus"
CARD_KEYS = "those of the other cards in this file"
GPU_KEYS = "card and pciBusID; numaNode and pcieRoot are optional"

_CARDS = "cards"
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
_EXAMPLES = {_BUS_ID: '"0000:1b:00.0"', _ROOT: '"pci0000:15"', _VERSION: '"580.126.09" or "13.0"'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A product, as NVML describes it.

    Attributes:
        key: our short name for it.
        product_name: NVML's name, e.g. ``NVIDIA H100 80GB HBM3``.
        brand: e.g. ``Nvidia``.
        architecture: e.g. ``Hopper``, ``Ada Lovelace``.
        cuda_compute_capability: ``major.minor``.
        memory_mib: total memory that NVML reports, in MiB.
        multiprocessors: SMs of the whole GPU.
        pci_device_id: e.g. ``0x2330``.
        addressing_mode: ``HMM``, ``ATS`` or ``None`` (a word of the driver's, too).
        mig_capable: whether it can be partitioned at all.
    """

    key: str
    product_name: str
    brand: str
    architecture: str
    cuda_compute_capability: str
    memory_mib: int
    multiprocessors: int
    pci_device_id: str
    addressing_mode: str
    mig_capable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A card at its place in a machine.

    Attributes:
        card: what sits there.
        pci_bus_id: e.g. ``0000:1b:00.0``, lower case.
        numa_node: None where the machine shows none.
        pcie_root: e.g. ``pci0000:15``; None where the machine shows none.
    """

    card: Card
    pci_bus_id: str
    numa_node: int | None = None
    pcie_root: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node's hardware.

    Attributes:
        name: the file's name without its ending.
        description: one line for people.
        driver_version: NVIDIA's kernel driver, as ``nvidia-smi`` prints it.
        cuda_version: the CUDA version that driver supports.
        slots: the cards, by device minor.
    """

    name: str
    description: str
    driver_version: str
    cuda_version: str
    slots: tuple[Slot, ...]


def names() -> list[str]:
    """The machines that come with labkit."""
    folder = data_dir("clusters") / "machines"
    return sorted(path.stem for path in folder.glob("*.yaml") if path.stem != _CARDS)


def load(name_or_path: str) -> Machine:
    """A machine by its name, or from a YAML file of yours.

    Raises:
        BadInput: no such machine, or the file is wrong; the message names file and key.
    """
    own = Path(name_or_path)
    if own.suffix in (".yaml", ".yml") or "/" in name_or_path:
        return _machine(own)
    if name_or_path not in names():
        raise BadInput(
            f"there is no machine {name_or_path!r}",
            hint=f"take one of {', '.join(names())}, or name a YAML file",
        )
    return _machine(data_dir("clusters") / "machines" / f"{name_or_path}.yaml")


@lru_cache
def cards() -> Mapping[str, Card]:
    """All cards that machines may name, by key."""
    path = data_dir("clusters") / "machines" / f"{_CARDS}.yaml"
    return {
        key: _card(key, _Section(entry, f"{path}, {key}", needed=CARD_KEYS))
        for key, entry in _read(path)
    }


def _read(path: Path) -> list[tuple[str, Any]]:
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except OSError as exc:
        raise BadInput(f"machine file {path} cannot be read: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise BadInput(f"machine file {path} is not YAML: {exc}") from exc
    if not isinstance(loaded, dict):
        raise BadInput(
            f"machine file {path}: expected keys and values", hint=f"needed are: {MACHINE_KEYS}"
        )
    return list(loaded.items())


def _card(key: str, entry: _Section) -> Card:
    card = Card(
        key=key,
        product_name=entry.text("productName"),
        brand=entry.text("brand"),
        architecture=entry.text("architecture"),
        cuda_compute_capability=entry.text("cudaComputeCapability", _VERSION),
        memory_mib=entry.number("memoryMiB", least=1),
        multiprocessors=entry.number("multiprocessors", least=1),
        pci_device_id=entry.text("pciDeviceID"),
        addressing_mode=entry.text("addressingMode"),
        mig_capable=entry.flag("migCapable"),
    )
    entry.text("basis")
    entry.done()
    return card


def _machine(path: Path) -> Machine:
    entry = _Section(dict(_read(path)), str(path), needed=MACHINE_KEYS)
    slots = tuple(
        _slot(_Section(slot, f"{path}, gpus[{index}]", needed=GPU_KEYS))
        for index, slot in enumerate(entry.items("gpus"))
    )
    buses = [slot.pci_bus_id for slot in slots]
    for bus in buses:
        if buses.count(bus) > 1:
            raise BadInput(
                f"{path}: two GPUs have the same pciBusID {bus}",
                hint="give each GPU an address of its own",
            )
    machine = Machine(
        name=path.stem,
        description=entry.text("description"),
        driver_version=entry.text("driverVersion", _VERSION),
        cuda_version=entry.text("cudaVersion", _VERSION),
        slots=slots,
    )
    entry.done()
    return machine


def _slot(entry: _Section) -> Slot:
    key = entry.text("card")
    if key not in cards():
        raise BadInput(
            f"{entry.where}: there is no card {key!r}", hint=f"take one of {', '.join(cards())}"
        )
    slot = Slot(
        card=cards()[key],
        pci_bus_id=entry.text("pciBusID", _BUS_ID),
        numa_node=entry.number("numaNode", least=0) if entry.has("numaNode") else None,
        pcie_root=entry.text("pcieRoot", _ROOT) if entry.has("pcieRoot") else None,
    )
    entry.done()
    return slot


class _Section:
    """One mapping of a file, read key by key, so that what is left over can be refused."""

    def __init__(self, entry: Any, where: str, *, needed: str) -> None:
        if not isinstance(entry, dict):
            raise BadInput(
                f"{where}: expected keys and values, found {entry!r}", hint=f"needed are: {needed}"
            )
        self._needed = needed
        self._left = dict(entry)
        self._known: list[str] = []
        self.where = where

    def has(self, key: str) -> bool:
        self._known.append(key)
        return key in self._left

    def text(self, key: str, form: re.Pattern[str] | None = None) -> str:
        value = self._take(key)
        if not isinstance(value, str) or not value or (form and not form.fullmatch(value)):
            wanted = f"text like {_EXAMPLES[form]}" if form else "text"
            raise BadInput(
                f"{self.where}: {key} must be {wanted}, not {value!r}",
                hint="quote values that YAML would read as numbers",
            )
        return value

    def number(self, key: str, *, least: int) -> int:
        value = self._take(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise BadInput(
                f"{self.where}: {key} must be a whole number from {least}, not {value!r}"
            )
        return value

    def flag(self, key: str) -> bool:
        value = self._take(key)
        if not isinstance(value, bool):
            raise BadInput(f"{self.where}: {key} must be true or false, not {value!r}")
        return value

    def items(self, key: str) -> list[Any]:
        value = self._take(key)
        if not isinstance(value, list) or not 1 <= len(value) <= MAX_GPUS:
            raise BadInput(
                f"{self.where}: {key} must be a list of 1 to {MAX_GPUS} entries",
                hint=f"each entry needs {GPU_KEYS}",
            )
        return value

    def done(self) -> None:
        if self._left:
            key = next(iter(self._left))
            raise BadInput(
                f"{self.where}: {key!r} is not known here",
                hint=f"known are: {', '.join(dict.fromkeys(self._known))}",
            )

    def _take(self, key: str) -> Any:
        self._known.append(key)
        if key not in self._left:
            raise BadInput(f"{self.where}: {key} is missing", hint=f"needed are: {self._needed}")
        return self._left.pop(key)
