"""The commands, as far as they go without a cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from labkit.cli import cluster
from labkit.cluster import overview
from labkit.cluster.handle import Cluster, lease_of
from labkit.cluster.layout import Layout
from labkit.cluster.lease import Lease
from labkit.errors import BadInput, ClusterError


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path / "Stände mit Blank"
    monkeypatch.setenv("LABKIT_STATE_DIR", str(state))
    return state


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    cluster.register(app)
    return app


def run(app: typer.Typer, *arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def leftover(name: str) -> Layout:
    layout = Layout.of(name)
    layout.run.mkdir(parents=True)
    layout.logs.mkdir()
    layout.log("etcd").write_text("hello\n")
    return layout


def test_without_clusters_every_command_says_so(app: typer.Typer) -> None:
    assert run(app, "list") == "there are no clusters\n"
    assert run(app, "down") == "there is no cluster lab\n"
    assert run(app, "prune") == "nothing to prune\n"
    assert json.loads(run(app, "list", "--output", "json")) == []


def test_the_status_of_no_cluster_is_absent_and_not_a_success(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["status", "-o", "json"])
    assert done.exit_code == 1
    assert json.loads(done.output)["state"] == "absent"


def test_commands_on_no_cluster_name_it(app: typer.Typer) -> None:
    for command in (["logs"], ["kubectl", "get", "pods"]):
        with pytest.raises(ClusterError, match="there is no cluster 'lab'"):
            CliRunner().invoke(app, command, catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["up", "--provider", "cloud"], "no provider 'cloud'"),
        (["up", "--name", "Big Lab"], "cannot be the name"),
        (["up", "--nodes", "0"], "1 to 50 nodes"),
        (["up", "--feature-gates", "A"], "not a feature gate"),
        (["up", "--kubernetes-version", "new"], "not a Kubernetes version"),
        (["up", "--config", "no.yaml", "--nodes", "2"], "leave out --nodes"),
        (["up", "--config", "no.yaml"], "cannot be read"),
        (["up", "--with-pid", "999999999"], "no process 999999999"),
        (["up", "--ttl", "soon"], "not a time"),
        (["up", "--ttl", "0s"], "not a time"),
        (["down", "--name", "../.."], "cannot be the name"),
        (["status", "--name", ""], "cannot be the name"),
    ],
)
def test_mistakes_are_named_before_anything_is_done(
    app: typer.Typer, state: Path, arguments: list[str], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert not (state / "clusters").exists()


def test_what_an_interrupted_up_left_is_broken_and_pruned(app: typer.Typer, state: Path) -> None:
    layout = leftover("old")
    assert overview.status(layout).state == "broken"
    assert run(app, "prune", "--dry-run") == "would remove old: it was never up\n"
    assert layout.folder.exists()
    assert run(app, "prune") == "removed old: it was never up\n"
    assert not (state / "clusters").exists()


def test_prune_touches_no_cluster_that_is_coming_up(app: typer.Typer) -> None:
    from labkit.cluster import creator

    layout = leftover("young")
    with creator.sole(layout):
        assert overview.status(layout).state == "creating"
        assert run(app, "prune") == "nothing to prune\n"
    assert layout.folder.exists()


def test_a_broken_cluster_can_be_taken_down(app: typer.Typer) -> None:
    layout = leftover("lab")
    assert run(app, "down") == "cluster lab is gone\n"
    assert not layout.folder.exists()


def test_logs_are_printed_by_component(app: typer.Typer) -> None:
    leftover("lab")
    assert run(app, "logs", "etcd") == "hello\n"


def test_a_lease_is_ours_unless_it_stays_or_names_another() -> None:
    assert lease_of().owners[0].pid == os.getpid()
    assert lease_of(pid=os.getppid()).owners[0].pid == os.getppid()
    assert lease_of(stay=True) == Lease(stay=True)
    assert lease_of(stay=True, ttl_s=60).until > 0


def test_clusters_of_the_python_api_have_names_of_their_own() -> None:
    assert Cluster.local().name != Cluster.local().name
    assert Cluster.local("lab").folder == Layout.of("lab").folder


def test_the_commands_load_nothing_heavy_before_they_are_called() -> None:
    code = "import labkit.cli.cluster, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import labkit.cli; {code}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    heavy = {"httpx", "grpc", "cryptography", "kubernetes", "papermill", "psutil"}
    assert not heavy & set(done.stdout.split())
