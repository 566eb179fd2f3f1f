"""GPUs as data: one inventory, and everything that is said of it as a pure function.

::

    machines (YAML) ──► inventory ──► slices    what the API server is told
                                 ├──► cdi       what a container is given
                                 └──► smi       what nvidia-smi prints there

They cannot disagree, since all of them read the same values.
"""

from __future__ import annotations

from labkit.gpus.inventory import Gpu, Inventory, build
from labkit.gpus.machines import DEFAULT_MACHINE, Card, Machine, Slot

__all__ = ["DEFAULT_MACHINE", "Card", "Gpu", "Inventory", "Machine", "Slot", "build"]
