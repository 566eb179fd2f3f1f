import stat
from pathlib import Path

import pytest

from labkit import paths
from labkit.errors import BadInput


def test_own_variable_wins_over_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv(paths.STATE_ENV, str(tmp_path / "eigene Ablage ü"))
    assert paths.state_dir() == tmp_path / "eigene Ablage ü"
    monkeypatch.delenv(paths.STATE_ENV)
    assert paths.state_dir() == tmp_path / "xdg" / "labkit"


def test_the_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.CACHE_ENV, str(tmp_path / "cache"))
    assert stat.S_IMODE(paths.cache_dir().stat().st_mode) == 0o700


def test_a_home_that_cannot_be_written_leads_to_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_file = tmp_path / "not-a-folder"
    a_file.touch()
    monkeypatch.delenv(paths.STATE_ENV, raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(a_file))
    monkeypatch.setattr(paths.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    assert paths.state_dir().is_relative_to(tmp_path / "tmp")


def test_a_relative_xdg_folder_is_ignored_as_the_standard_demands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(paths.STATE_ENV, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert paths.state_dir() == tmp_path / ".local" / "state" / "labkit"


def test_an_unusable_own_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(paths.STATE_ENV, str(tmp_path / "file" / "x"))
    with pytest.raises(BadInput, match=paths.STATE_ENV):
        paths.state_dir()


def test_data_is_found_in_a_checkout_and_a_wrong_name_is_refused() -> None:
    assert (paths.data_dir("clusters") / "tools").is_dir()
    with pytest.raises(BadInput, match="nowhere"):
        paths.data_dir("nowhere")
