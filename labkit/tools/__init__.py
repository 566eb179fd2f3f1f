"""The Kubernetes binaries, wherever they can be had.

::

    ensure ──► your folder ──► PATH ──► cache ──► official release ──► Go build
              (each says why it could not, and the next is tried)

A release is verified by its published checksum, a build by the module sums that stand
in ``clusters/tools``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.tools.catalog import KUBERNETES_VERSION, TOOLS, Tool

if TYPE_CHECKING:
    from labkit.tools.getting import ensure

__all__ = ["KUBERNETES_VERSION", "TOOLS", "Tool", "ensure"]


def __getattr__(name: str) -> Any:
    if name == "ensure":
        from importlib import import_module

        return import_module("labkit.tools.getting").ensure
    raise AttributeError(f"module 'labkit.tools' has no attribute {name!r}")
