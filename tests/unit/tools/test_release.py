import io
import tarfile

import pytest

from labkit.progress import Silent
from labkit.tools import release
from labkit.tools.catalog import Release
from labkit.tools.sources import Unavailable
from tests.unit.tools.conftest import BODY, make_tool


@pytest.fixture
def fetch(server, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()

    def run(**changes):
        with Silent().step("") as step:
            return release.fetch(make_tool(server.url, **changes), folder, step)

    return run


def test_a_release_is_downloaded_and_verified(fetch):
    assert fetch().read_bytes() == BODY


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(fetch, server, tmp_path):
    server.checksum = "0" * 64
    with pytest.raises(Unavailable, match=r"has SHA-256 .* is published"):
        fetch()
    assert not list((tmp_path / "parts").iterdir())


def test_a_download_that_breaks_off_is_taken_up_where_it_was(fetch, server):
    server.cut_at = [100_000, 50_000]
    assert fetch().read_bytes() == BODY
    assert [wanted for path, wanted in server.requests if path == "/tool"] == [
        "", "bytes=100000-", "bytes=150000-",
    ]  # fmt: skip


def test_a_server_that_cannot_resume_is_asked_for_all_again(fetch, server):
    server.cut_at, server.ranges = [100_000], False
    assert fetch().read_bytes() == BODY


def test_what_an_earlier_run_left_is_resumed(fetch, server, tmp_path):
    part = tmp_path / "parts" / f"tool-{server.checksum[:16]}.part"
    part.write_bytes(BODY[:1000])
    assert fetch().read_bytes() == BODY
    assert server.requests[-1] == ("/tool", "bytes=1000-")


def test_a_finished_part_needs_no_download(fetch, server, tmp_path):
    part = tmp_path / "parts" / f"tool-{server.checksum[:16]}.part"
    part.write_bytes(BODY)
    assert fetch().read_bytes() == BODY


def test_5xx_is_tried_again_and_404_is_not(fetch, server):
    server.failures = [503, 500]
    assert fetch().read_bytes() == BODY
    (server.failures, before) = ([404], len(server.requests))
    with pytest.raises(Unavailable, match="answers 404"):
        fetch(
            name="other", release=Release(url=f"{server.url}/x", checksums=f"{server.url}/x.sha256")
        )
    assert len(server.requests) == before + 2


def test_a_server_that_keeps_failing_is_given_up(fetch, server):
    server.failures = [500] * 20
    with pytest.raises(Unavailable, match="answered 500, 5 times"):
        fetch()


def test_without_network_each_host_is_tried_once(fetch):
    away = Release(url="http://127.0.0.1:9/tool", checksums="http://127.0.0.1:9/tool.sha256")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 is out of reach"):
        fetch(release=away)
    assert "out of reach" in release.refused(make_tool("", release=away))


def test_a_release_without_checksum_is_not_trusted(fetch, server):
    with pytest.raises(Unavailable, match="no checksum that could be verified"):
        fetch(release=Release(url=f"{server.url}/tool", checksums=""))


def test_a_full_disk_is_noticed_before(fetch, monkeypatch):
    monkeypatch.setattr(release, "RESERVE", 2**60)
    with pytest.raises(Unavailable, match=r"MiB free, and .* MiB are needed"):
        fetch()


def test_a_mirror_takes_the_place_of_the_host(fetch, server, monkeypatch):
    monkeypatch.setenv(release.MIRROR_ENV, f"{server.url}/")
    away = "https://releases.example.com"
    found = fetch(release=Release(url=f"{away}/tool", checksums=f"{away}/tool.sha256"))
    assert found.read_bytes() == BODY


def test_a_binary_is_taken_out_of_its_archive(fetch, server, tmp_path):
    import hashlib

    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        entry = tarfile.TarInfo("folder/tool")
        entry.size = len(BODY)
        tar.addfile(entry, io.BytesIO(BODY))
    server.body = archive.getvalue()
    server.checksum = hashlib.sha256(server.body).hexdigest()
    packed = Release(
        url=f"{server.url}/tool", checksums=f"{server.url}/tool.sha256", member="folder/tool"
    )
    assert fetch(release=packed).read_bytes() == BODY
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["tool.new"]
