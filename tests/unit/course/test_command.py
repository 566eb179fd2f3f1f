"""The commands `labkit run` and `labkit lab` where they have nothing to run."""

import pytest
from typer.testing import CliRunner

from labkit.cli.app import build
from labkit.errors import BadInput, ClusterError


@pytest.fixture
def labkit(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(build(), args, catch_exceptions=False)


def test_without_a_cluster_one_is_told_how_to_get_it(labkit, tmp_path):
    for command in (("run", "01"), ("lab",)):
        with pytest.raises(ClusterError) as caught:
            labkit(*command)
        assert "there is no cluster 'lab'" in str(caught.value)
        assert "labkit up" in str(caught.value)
    assert not (tmp_path / "labkit-course").exists()
    assert not (tmp_path / "reports").exists()


def test_without_a_lab_one_is_told_which_there_are(labkit):
    with pytest.raises(BadInput, match="which lab") as caught:
        labkit("run")
    assert "01" in caught.value.hint


def test_a_lab_that_is_not_there_is_told_before_anything_is_run(labkit):
    with pytest.raises(BadInput, match="no lab '99'"):
        labkit("run", "01", "99")


@pytest.mark.parametrize("command", ["run", "lab"])
def test_help_fits_a_terminal(labkit, command):
    done = labkit(command, "--help")
    assert done.exit_code == 0
    assert max(map(len, done.output.splitlines())) <= 80
