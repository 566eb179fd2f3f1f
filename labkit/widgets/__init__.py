"""Pictures of Kubernetes objects: pure functions from plain dicts to SVG and text."""

from __future__ import annotations

from labkit.widgets.gpu_map import gpu_map
from labkit.widgets.picture import Picture
from labkit.widgets.way import object_way

__all__ = ["Picture", "gpu_map", "object_way"]
