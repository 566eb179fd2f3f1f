"""``labkit tools``, as one calls it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from labkit.cli import tools as command
from labkit.tools.catalog import LOCAL, TOOLS
from tests.unit.tools.conftest import program


@pytest.fixture
def labkit():
    app = typer.Typer()
    command.register(app)

    @app.command()
    def other() -> None: ...

    return lambda *arguments: CliRunner().invoke(app, ["tools", *arguments])


@pytest.fixture
def mine(tmp_path, monkeypatch):
    for name in LOCAL:
        program(tmp_path / "mine", "9.8.7", name)
    monkeypatch.setenv("LABKIT_BIN_DIR", str(tmp_path / "mine"))
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path / "mine"


def test_the_list_says_where_each_binary_is_or_would_come_from(labkit, mine):
    rows = {row["name"]: row for row in json.loads(labkit("list", "--output", "json").stdout)}
    assert tuple(rows) == TOOLS
    assert rows["etcd"] == {
        "name": "etcd",
        "version": "9.8.7",
        "source": "your folder",
        "path": str(mine / "etcd"),
    }
    assert (rows["kind"]["source"], rows["kind"]["path"]) == ("release", "")
    assert rows["kwok"]["source"] == "build"


@pytest.mark.usefixtures("mine")
def test_the_list_fits_eighty_columns(labkit, monkeypatch):
    monkeypatch.delenv("LABKIT_BIN_DIR")
    lines = labkit("list").stdout.splitlines()
    assert len(lines) == len(TOOLS) + 1
    assert max(map(len, lines)) <= 80


def test_get_and_path_print_where_binaries_are(labkit, mine):
    assert labkit("get").stdout.splitlines()[0].split() == ["etcd", str(mine / "etcd")]
    assert labkit("get", "kubectl").stdout.split() == ["kubectl", str(mine / "kubectl")]
    assert labkit("path", "kubectl").stdout.strip() == str(mine / "kubectl")
    folder = Path(labkit("path", "--folder").stdout.strip())
    assert {path.name for path in folder.iterdir()} == set(LOCAL)


@pytest.mark.parametrize("arguments", [("path",), ("path", "--folder", "kubectl")])
def test_path_wants_either_a_name_or_the_folder(labkit, arguments):
    assert labkit(*arguments).exit_code == 2
