"""A client of the cluster that all tests share, and a namespace for each test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from labkit.cluster import Cluster
from labkit.kube import NAMESPACES, SERVICE_ACCOUNTS, Client
from labkit.waiting import NotYet, Seen, wait_until


@pytest.fixture(scope="session")
def client(cluster: Cluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


@pytest.fixture
def namespace(client: Client) -> Iterator[str]:
    name = f"test-{secrets.token_hex(4)}"
    client.create(NAMESPACES, {"metadata": {"name": name}})

    def account() -> Seen[bool] | NotYet:
        found = client.find(SERVICE_ACCOUNTS, "default", namespace=name)
        return Seen(True) if found else NotYet("not there")

    wait_until(account, what=f"the default service account of {name}", timeout_s=30)
    yield name
    client.delete(NAMESPACES, name)
