"""What tests of several folders share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from labkit.cluster import Cluster


def pytest_configure() -> None:
    # A shell starts what runs in its background with SIGINT ignored, and our children would
    # inherit that: no Ctrl-C of a test would reach anybody.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two nodes with eight H100 each; it ends with this session, however that ends."""
    import labkit

    with labkit.Cluster.local(nodes=2, gpus="dgx-h100") as cluster:
        yield cluster
