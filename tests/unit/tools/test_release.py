import hashlib
import io
import tarfile
import zipfile

import pytest

from labkit.errors import BadInput
from labkit.tools import hosts, release
from labkit.tools.catalog import Release
from labkit.tools.sources import Unavailable
from tests.unit.tools.conftest import BODY, Recorder, make_tool


@pytest.fixture
def step():
    return Recorder()


@pytest.fixture
def fetch(server, tmp_path, step):
    folder = tmp_path / "parts"
    folder.mkdir()

    def run(**changes):
        return release.fetch(make_tool(server.url, **changes), folder, step)

    return run


def test_a_release_is_downloaded_and_verified(fetch):
    assert fetch().read_bytes() == BODY


def test_the_bar_moves_in_megabytes_of_their_total(fetch, server, step):
    server.cut_at = [100_000]
    fetch()
    size = len(BODY) / release.MIB
    assert step.updates[-1] == (size, size, "MB")
    assert {total for _, total, _ in step.updates} == {size}
    assert step.updates == sorted(step.updates)


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


def test_a_damaged_part_is_downloaded_again(fetch, server, tmp_path, step):
    part = tmp_path / "parts" / f"tool-{server.checksum[:16]}.part"
    part.write_bytes(b"x" * 1000)
    assert fetch().read_bytes() == BODY
    assert "was damaged" in step.notes[0]


def test_a_line_that_breaks_often_gets_there_in_the_end(fetch, server):
    server.cut_at = [10_000] * (3 * release.TRIES)
    assert fetch().read_bytes() == BODY


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
    with pytest.raises(Unavailable, match="answers 500, 5 times"):
        fetch()


def test_a_checksum_that_comes_at_the_second_try_is_good(fetch, server):
    server.sum_failures = [500, 503]
    assert fetch().read_bytes() == BODY


def test_a_redirect_to_nowhere_is_noticed_at_once_and_remembered(fetch, server):
    server.moved_to = "http://127.0.0.1:9/tool"
    with pytest.raises(Unavailable, match="is out of reach"):
        fetch()
    assert hosts.known_out_of_reach(f"{server.url}/tool")


def test_a_proxy_that_does_not_answer_is_noticed_once(fetch, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    away = "http://releases.example.com"
    tool = {"release": Release(url=f"{away}/tool", checksums=f"{away}/tool.sha256")}
    with pytest.raises(Unavailable, match=r"releases\.example\.com is out of reach"):
        fetch(**tool)
    assert release.refused(make_tool("", **tool))


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


def test_a_mirror_that_is_no_address_is_refused(fetch, monkeypatch):
    monkeypatch.setenv(release.MIRROR_ENV, "mirror.example.com")
    with pytest.raises(BadInput, match="is not an address"):
        fetch()


def tar():
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as packed:
        entry = tarfile.TarInfo("folder/tool")
        entry.size = len(BODY)
        packed.addfile(entry, io.BytesIO(BODY))
    return archive.getvalue()


def zipped():
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("folder/tool", BODY)
    return archive.getvalue()


@pytest.mark.parametrize("archive", [tar, zipped])
@pytest.mark.parametrize("member", ["folder/tool", "folder/other"])
def test_a_binary_is_taken_out_of_its_archive(fetch, server, tmp_path, archive, member):
    server.body = archive()
    server.checksum = hashlib.sha256(server.body).hexdigest()
    packed = Release(url=f"{server.url}/tool", checksums=f"{server.url}/tool.sha256", member=member)
    if member == "folder/other":
        with pytest.raises(Unavailable, match="the archive has no folder/other"):
            fetch(release=packed)
        return
    assert fetch(release=packed).read_bytes() == BODY
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["tool.new"]


def test_a_checksum_is_found_among_others_and_within_a_signed_text(fetch, server):
    server.checksum = (
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n"
        f"{'0' * 64} *tool.other\n{server.checksum} *tool\n"
        "-----BEGIN PGP SIGNATURE-----\n\nabc\n"
    )
    assert fetch().read_bytes() == BODY
