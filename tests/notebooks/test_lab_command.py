"""`labkit run` and `labkit lab` as a person uses them."""

import json
import os
import re
import signal
import subprocess
import sys

import httpx
import pytest

from labkit.waiting import NotYet, Seen, wait_until

pytestmark = pytest.mark.local

LABKIT = [sys.executable, "-m", "labkit"]


def test_a_run_tells_its_verdict_by_exit_code_and_where_the_reports_are(cluster, tmp_path):
    folder = tmp_path / "my reports"
    done = subprocess.run(
        [*LABKIT, "run", "1", "--name", cluster.name, "--output-dir", folder, "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)
    assert entry["passed"]
    assert entry["exercises"] == ["pair"]
    assert {path.suffix for path in folder.iterdir()} == {".ipynb", ".html", ".xml"}
    page = (folder / entry["lab"]).with_suffix(".html").read_text()
    assert "<svg" in page
    assert "pod pair" in page


def test_jupyterlab_opens_in_a_folder_of_ones_own_and_ends_at_ctrl_c(cluster, tmp_path):
    said = tmp_path / "said"
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    with (
        said.open("w") as out,
        subprocess.Popen(
            [*LABKIT, "lab", tmp_path / "my course", "--name", cluster.name, "--no-browser"],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
        ) as labkit,
    ):
        try:
            url = wait_until(lambda: address(said), what="JupyterLab's address", timeout_s=60)
            page = httpx.get(url, follow_redirects=True, timeout=30)
            assert page.status_code == 200
            assert "jupyter" in page.text.lower()
            labkit.send_signal(signal.SIGINT)
            assert labkit.wait(30) == 0
        finally:
            labkit.kill()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    assert [path.name[:3] for path in (tmp_path / "my course").glob("*.ipynb")] == ["01-"]


def address(said):
    found = re.findall(r"http://127\S+token=\S+", said.read_text())
    return Seen(found[0]) if found else NotYet(said.read_text()[-500:])
