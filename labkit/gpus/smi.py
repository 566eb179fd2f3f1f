#!/usr/bin/env python3
"""``nvidia-smi`` for simulated GPUs: prints the devices that this container was given.

Self-contained and free of other modules than the standard library, since a copy of this very
file is what a container runs. What only hardware has (temperature, power, load) reads N/A.
"""
# ruff: noqa: E501 - the table is as wide as the real one

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "LABKIT_GPU_DIR"
DEFAULT_FOLDER = "/run/labkit/gpus"

NO_DEVICES = 6
BAD_QUERY = 2

NAME_WIDTH = 27


def devices(folder: str) -> list[Any]:
    """The described devices, in the order of their PCI addresses, as NVML numbers them."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).glob("*.json")]
    return sorted(found, key=lambda gpu: gpu["pciBusID"])


def bus_id(gpu: dict[str, Any]) -> str:
    """A PCI address as nvidia-smi writes it: eight digits of domain, upper case."""
    domain, _, rest = gpu["pciBusID"].partition(":")
    return f"{domain:0>8}:{rest}".upper()


def shortened(name: str) -> str:
    """A product's name as the table has room for it."""
    return name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 3]}..."


def mig_mode(gpu: dict[str, Any], never: str) -> str:
    """MIG mode of a whole GPU; `never` where the card has no MIG."""
    return "Disabled" if gpu["migCapable"] else never


def listing(gpus: list[Any]) -> list[str]:
    """``nvidia-smi -L``."""
    return [f"GPU {i}: {gpu['name']} (UUID: {gpu['uuid']})" for i, gpu in enumerate(gpus)]


def table(gpus: list[Any]) -> list[str]:
    """``nvidia-smi`` without arguments."""
    wide = "+" + "-" * 89 + "+"
    columns = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
    version, cuda = gpus[0]["driverVersion"], gpus[0]["cudaVersion"]
    lines = [
        f"{time.strftime('%a %b %e %H:%M:%S %Y'):<31}",
        wide,
        f"| NVIDIA-SMI {version:<22} Driver Version: {version:<14} CUDA Version: {cuda:<8} |",
        columns,
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|" + "=" * 41 + "+" + "=" * 24 + "+" + "=" * 22 + "|",
    ]
    for index, gpu in enumerate(gpus):
        usage = f"0MiB / {gpu['memoryMiB']:>6}MiB"
        lines += [
            f"| {index:>3}  {shortened(gpu['name']):<27}    On  | {bus_id(gpu):>18} Off |                  N/A |",
            f"| N/A   N/A   N/A              N/A /  N/A | {usage:>22} |     N/A      Default |",
            f"|                                         |                        | {mig_mode(gpu, 'N/A'):>20} |",
            columns,
        ]
    lines += [
        " " * 91,
        wide,
        f"| {'Processes:':<87} |",
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|" + "=" * 89 + "|",
        f"|  {'No running processes found':<86} |",
        wide,
    ]
    return lines


NOT_HERE = "[N/A]"

FIELDS: dict[str, tuple[str, Any, str]] = {
    "index": ("index", lambda _, index: str(index), ""),
    "count": ("count", None, ""),
    "name": ("name", lambda gpu, _: gpu["name"], ""),
    "gpu_name": ("name", lambda gpu, _: gpu["name"], ""),
    "uuid": ("uuid", lambda gpu, _: gpu["uuid"], ""),
    "gpu_uuid": ("uuid", lambda gpu, _: gpu["uuid"], ""),
    "pci.bus_id": ("pci.bus_id", lambda gpu, _: bus_id(gpu), ""),
    "gpu_bus_id": ("pci.bus_id", lambda gpu, _: bus_id(gpu), ""),
    "pci.device_id": ("pci.device_id", lambda gpu, _: gpu["pciDeviceID"] + "10DE", ""),
    "driver_version": ("driver_version", lambda gpu, _: gpu["driverVersion"], ""),
    "compute_cap": ("compute_cap", lambda gpu, _: gpu["computeCapability"], ""),
    "memory.total": ("memory.total", lambda gpu, _: str(gpu["memoryMiB"]), "MiB"),
    "memory.used": ("memory.used", lambda _gpu, _: "0", "MiB"),
    "memory.free": ("memory.free", lambda gpu, _: str(gpu["memoryMiB"]), "MiB"),
    "mig.mode.current": ("mig.mode.current", lambda gpu, _: mig_mode(gpu, NOT_HERE), ""),
    "mig.mode.pending": ("mig.mode.pending", lambda gpu, _: mig_mode(gpu, NOT_HERE), ""),
    "utilization.gpu": ("utilization.gpu", lambda _gpu, _: NOT_HERE, "%"),
    "utilization.memory": ("utilization.memory", lambda _gpu, _: NOT_HERE, "%"),
    "temperature.gpu": ("temperature.gpu", lambda _gpu, _: NOT_HERE, ""),
    "power.draw": ("power.draw", lambda _gpu, _: NOT_HERE, "W"),
}


def query(gpus: list[Any], fields: list[str], options: list[str]) -> list[str]:
    """``nvidia-smi --query-gpu=… --format=csv[,noheader][,nounits]``."""
    units = "nounits" not in options
    head = []
    for name in fields:
        title, _, unit = FIELDS[name]
        head.append(f"{title} [{unit}]" if unit and units else title)
    lines = [] if "noheader" in options else [", ".join(head)]
    for index, gpu in enumerate(gpus):
        row = []
        for name in fields:
            _, read, unit = FIELDS[name]
            value = read(gpu, index) if read else str(len(gpus))
            row.append(f"{value} {unit}" if unit and units and value != NOT_HERE else value)
        lines.append(", ".join(row))
    return lines


def details(gpus: list[Any]) -> list[str]:
    """``nvidia-smi -q``, the part that a simulated device has."""
    lines = ["", "==============NVSMI LOG==============", ""]
    lines += [
        f"Driver Version                            : {gpus[0]['driverVersion']}",
        f"CUDA Version                              : {gpus[0]['cudaVersion']}",
        "",
        f"Attached GPUs                             : {len(gpus)}",
    ]
    for gpu in gpus:
        lines += [
            f"GPU {bus_id(gpu)}",
            f"    Product Name                          : {gpu['name']}",
            f"    Product Brand                         : {gpu['brand'].upper()}",
            f"    Product Architecture                  : {gpu['architecture']}",
            f"    Addressing Mode                       : {gpu['addressingMode']}",
            "    MIG Mode",
            f"        Current                           : {mig_mode(gpu, 'N/A')}",
            f"        Pending                           : {mig_mode(gpu, 'N/A')}",
            f"    GPU UUID                              : {gpu['uuid']}",
            f"    Minor Number                          : {gpu['minor']}",
            "    FB Memory Usage",
            f"        Total                             : {gpu['memoryMiB']} MiB",
            "        Used                              : 0 MiB",
            f"        Free                              : {gpu['memoryMiB']} MiB",
            "",
        ]
    return lines


def chosen(gpus: list[Any], wanted: str) -> list[Any]:
    """The devices that ``-i`` names by index, UUID or PCI address."""
    picked = []
    for index, gpu in enumerate(gpus):
        if {str(index), gpu["uuid"], bus_id(gpu), gpu["pciBusID"]} & set(wanted.split(",")):
            picked.append(gpu)
    return picked


def main(argv: list[str] | None = None) -> int:
    """Print what was asked for; exit codes are those of nvidia-smi."""
    parser = argparse.ArgumentParser(prog="nvidia-smi", allow_abbrev=False)
    parser.add_argument("-L", "--list-gpus", action="store_true")
    parser.add_argument("-q", "--query", action="store_true")
    parser.add_argument("-i", "--id")
    parser.add_argument("--query-gpu", metavar="FIELDS")
    parser.add_argument("--format", default="csv")
    options = parser.parse_args(argv)
    gpus = devices(os.environ.get(FOLDER_VARIABLE, DEFAULT_FOLDER))
    if options.id:
        gpus = chosen(gpus, options.id)
    if not gpus:
        print("No devices were found")
        return NO_DEVICES
    if options.query_gpu:
        fields = [name.strip() for name in options.query_gpu.split(",")]
        for name in fields:
            if name not in FIELDS:
                print(f'Field "{name}" is not a valid field to query.\n')
                return BAD_QUERY
        lines = query(gpus, fields, options.format.replace(" ", "").split(","))
    elif options.list_gpus:
        lines = listing(gpus)
    elif options.query:
        lines = details(gpus)
    else:
        lines = table(gpus)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
