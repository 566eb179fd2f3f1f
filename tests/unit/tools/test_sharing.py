import os

import pytest

from labkit.progress import Silent
from labkit.tools import sharing
from labkit.tools.catalog import LOCAL
from tests.unit.tools.conftest import program


@pytest.fixture
def mine(tmp_path, monkeypatch):
    for name in LOCAL:
        program(tmp_path / "mine", "1.37.2", name)
    monkeypatch.setenv("LABKIT_BIN_DIR", str(tmp_path / "mine"))
    return tmp_path / "mine"


def contents(folder):
    return {path.name: path.resolve() for path in folder.iterdir()}


def test_the_folder_holds_all_that_the_embedded_cluster_needs(mine):
    folder = sharing.bin_folder(progress=Silent())
    assert contents(folder) == {name: mine / name for name in LOCAL}
    assert all(os.access(path, os.X_OK) for path in folder.iterdir())


@pytest.mark.usefixtures("mine")
def test_it_can_be_asked_for_again_while_it_is_in_use(monkeypatch):
    folder = sharing.bin_folder(progress=Silent())
    before = contents(folder)
    monkeypatch.setenv("LABKIT_BIN_DIR", str(folder))
    assert sharing.bin_folder(progress=Silent()) == folder
    assert contents(folder) == before


@pytest.mark.usefixtures("mine")
def test_others_may_read_it_whatever_the_umask(cache):
    old = os.umask(0o077)
    try:
        folder = sharing.bin_folder(progress=Silent())
    finally:
        os.umask(old)
    for path in (folder, folder.parent, folder.parent.parent):
        assert path.stat().st_mode & 0o055 == 0o055
    assert cache.stat().st_mode & 0o011 == 0o011
    assert not cache.stat().st_mode & 0o044  # passed, not listed


def test_a_closed_folder_on_the_way_is_named(tmp_path):
    tmp_path.chmod(0o755)
    closed = tmp_path / "closed"
    (closed / "bin").mkdir(parents=True)
    closed.chmod(0o700)
    found = sharing.closed_to_others(closed / "bin")
    assert found is not None
    assert (closed / "bin").is_relative_to(found)
