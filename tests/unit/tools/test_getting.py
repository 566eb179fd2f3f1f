"""All sources in their order, with tools of a few bytes."""

import errno
import os
import signal
import subprocess
import sys
import time
from threading import Event

import pytest

from labkit.errors import ToolError
from labkit.tools import build, getting, release, sources, workshop
from labkit.waiting import NotYet, Seen, wait_until
from tests.unit.tools.conftest import BODY, HERE, Recorder, make_tool, program


@pytest.fixture
def ensure(server, monkeypatch):
    monkeypatch.setattr(getting, "tool", lambda name, **_: make_tool(server.url, name=name))
    monkeypatch.setattr(getting, "here", lambda: HERE)
    monkeypatch.setattr(build, "build", refuse_to_build)
    return lambda progress=None: getting.ensure(["tool"], progress=progress)["tool"]


def refuse_to_build(*_, **__):
    raise sources.Unavailable("no compiler")


def test_your_folder_comes_first_whatever_its_version(ensure, tmp_path, monkeypatch):
    path = program(tmp_path / "mine", "9.9.9")
    monkeypatch.setenv("LABKIT_BIN_DIR", str(tmp_path / "mine"))
    assert ensure() == path


def test_path_is_taken_when_the_version_fits(ensure, tmp_path, monkeypatch):
    path = program(tmp_path / "bin", "1.2.9")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert ensure() == path


def test_path_is_passed_over_when_it_does_not(ensure, tmp_path, monkeypatch, cache):
    program(tmp_path / "bin", "1.1.0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert ensure().is_relative_to(cache)


@pytest.mark.parametrize("version", ["1.2.3-gke.14", "1.2.3+k3s1"])
def test_a_distributors_build_of_the_version_fits(ensure, tmp_path, monkeypatch, version):
    path = program(tmp_path / "bin", version)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert ensure() == path


def test_a_release_candidate_is_not_the_version(ensure, tmp_path, monkeypatch, cache):
    program(tmp_path / "bin", "1.2.3-rc.1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert ensure().is_relative_to(cache)


def test_a_binary_that_hangs_when_asked_is_passed_over(ensure, tmp_path, monkeypatch, cache):
    program(tmp_path / "bin", "1.2.3").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(sources, "VERSION_TIMEOUT_S", 0.2)
    assert ensure().is_relative_to(cache)


def test_a_version_is_asked_for_once(ensure, tmp_path, monkeypatch):
    path = program(tmp_path / "bin", "1.2.9")
    path.write_text(path.read_text() + f"echo asked >> '{tmp_path / 'asked'}'\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert ensure() == ensure() == path
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_what_surprises_is_told_and_what_is_usual_is_not(ensure, tmp_path, monkeypatch):
    program(tmp_path / "bin", "1.1.0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("LABKIT_BIN_DIR", str(tmp_path))
    progress = Recorder()
    ensure(progress)
    assert progress.titles == ["look for binaries", "download tool 1.2.3"]
    assert progress.notes == [
        f"your folder: {tmp_path / 'tool'} is not there",
        f"PATH: {tmp_path / 'bin' / 'tool'} is 1.1.0, and 1.2.3 is needed",
    ]


def test_a_file_in_your_folder_that_may_not_be_executed_is_told(ensure, tmp_path, monkeypatch):
    program(tmp_path / "mine", "1.2.3").chmod(0o644)
    monkeypatch.setenv("LABKIT_BIN_DIR", str(tmp_path / "mine"))
    progress = Recorder()
    ensure(progress)
    assert "may not be executed" in progress.notes[0]


def test_what_was_got_once_comes_from_the_cache(ensure, server):
    first = ensure()
    asked = len(server.requests)
    assert ensure() == first
    assert len(server.requests) == asked
    assert sources.source_of(first) == "official release"


@pytest.mark.parametrize("damage", [b"", b"something else"])
def test_a_damaged_cache_is_filled_again(ensure, damage):
    path = ensure()
    path.write_bytes(damage)
    assert ensure().read_bytes() == BODY


def test_a_touched_but_whole_file_is_still_good(ensure, server):
    path = ensure()
    asked = len(server.requests)
    os.utime(path, (1, 1))
    assert ensure() == path
    assert len(server.requests) == asked


def test_a_copied_cache_is_read_once_and_then_known(ensure, monkeypatch):
    path = ensure()
    os.utime(path, (1, 1))
    ensure()
    monkeypatch.setattr(sources, "sha256", lambda _: pytest.fail("read again"))
    assert ensure() == path


def test_a_cached_file_that_lost_its_record_is_got_again(ensure):
    path = ensure()
    path.with_name("record.json").write_text("{")
    assert ensure() == path
    assert sources.source_of(path) == "official release"


def test_seven_cached_tools_are_found_at_once(ensure):
    names = [f"tool-{number}" for number in range(7)]
    getting.ensure(names)
    took = []
    for _ in range(5):
        started = time.perf_counter()
        getting.ensure(names)
        took.append(time.perf_counter() - started)
    assert min(took) < 0.02


def test_a_name_twice_is_got_once(ensure, server):
    assert list(getting.ensure(["tool", "tool"])) == ["tool"]


def test_nothing_is_left_beside_the_finished_binary(ensure, cache):
    ensure()
    files = [path for path in cache.rglob("*") if path.is_file()]
    left = {path.name for path in files if path.parent.name != ".locks"}
    assert left == {"tool", "record.json"}
    assert not [path for path in cache.rglob(".new-*") if ".locks" not in path.parts]


def test_leftovers_of_a_killed_labkit_are_removed_in_time(ensure, cache):
    old, young = (cache / "tools" / f".new-{age}" for age in ("old", "young"))
    for folder in (old, young):
        (folder / "out").mkdir(parents=True)
    os.utime(old, (1, 1))
    ensure()
    assert not old.exists()
    assert young.exists()


def test_a_cache_that_cannot_be_written_is_told(ensure, cache):
    cache.mkdir()
    (cache / "tools").write_text("in the way")
    with pytest.raises(ToolError, match="cannot be used") as caught:
        ensure()
    assert "LABKIT_CACHE_DIR" in caught.value.hint


def test_a_disk_that_fills_up_is_a_reason_to_go_on(ensure, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(release, "fetch", full)
    with pytest.raises(ToolError, match=r"release: .*No space left on device"):
        ensure()


def test_when_all_fails_every_source_says_why(ensure, server):
    server.checksum = "0" * 64
    with pytest.raises(ToolError) as caught:
        ensure()
    told = str(caught.value)
    assert "your folder: LABKIT_BIN_DIR is not set" in told
    assert "PATH: no tool on PATH" in told
    assert "cache: not in the cache" in told
    assert "release: " in told
    assert "build: no compiler" in told


CALLER = """
import sys
from tests.unit.tools.conftest import HERE, make_tool
from labkit.tools import getting
getting.tool = lambda name, **_: make_tool(sys.argv[1], name=name)
getting.here = lambda: HERE
print(getting.ensure(["tool"])["tool"], flush=True)
"""


def call(server):
    return subprocess.Popen(
        [sys.executable, "-c", CALLER, server.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_at_once_download_once(server):
    with call(server) as first, call(server) as second:
        assert first.communicate(timeout=60)[0] == second.communicate(timeout=60)[0]
    assert [path for path, _ in server.requests].count("/tool") == 1


def test_another_tool_need_not_wait(server, ensure):
    with workshop.locked(["another"], Recorder()):
        assert ensure().read_bytes() == BODY


def test_who_waits_says_for_what(ensure, monkeypatch):
    monkeypatch.setattr(workshop, "LOCK_TIMEOUT_S", 0.1)
    progress = Recorder()
    with (
        workshop.locked(["tool"], Recorder()),
        pytest.raises(ToolError, match="another labkit has been getting tool"),
    ):
        ensure(progress)
    assert progress.titles == ["wait for another labkit that is getting tool"]


def test_interrupted_halfway_nothing_is_in_place_and_the_next_run_resumes(server, cache):
    server.hold = Event()
    with call(server) as child:
        assert server.halfway.wait(30)
        wait_until(
            lambda: Seen(True) if any(map(written, cache.rglob("*.part"))) else NotYet("no bytes"),
            what="the first half",
            timeout_s=30,
        )
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
        assert child.returncode != 0
    assert not [path for path in cache.rglob("tool") if path.parent.name != ".locks"]
    with workshop.locked(["tool"], Recorder()):  # it is free
        pass
    server.hold.set()
    server.hold = None
    with call(server) as again:
        out, err = again.communicate(timeout=30)
        assert again.returncode == 0, err
    assert "tool" in out
    assert server.requests[-1][1].startswith("bytes=")


def written(path):
    return path.read_text() if path.exists() else ""


def test_release_and_build_are_not_even_loaded_when_all_is_there():
    code = (
        "import sys, labkit.tools.getting; "
        "late = ('httpx', 'rich', 'filelock', 'labkit.tools.build'); "
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"
    assert release.TRIES > 1
