"""All sources in their order, with tools of a few bytes."""

import os
import shutil
import signal
import subprocess
import sys
from threading import Event

import pytest

from labkit.errors import ToolError
from labkit.tools import build, getting, release, sources
from labkit.tools.catalog import Build
from labkit.waiting import NotYet, Seen, wait_until
from tests.unit.tools.conftest import BODY, HERE, make_tool


def program(folder, version, name="tool"):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {name} version v{version}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def ensure(server, monkeypatch):
    monkeypatch.setattr(getting, "tool", lambda name, **_: make_tool(server.url, name=name))
    monkeypatch.setattr(getting, "here", lambda: HERE)
    monkeypatch.setattr(build, "build", refuse_to_build)
    return lambda: getting.ensure(["tool"])["tool"]


def refuse_to_build(*_):
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


def test_nothing_is_left_beside_the_finished_binary(ensure, cache):
    ensure()
    left = {path.name for path in cache.rglob("*") if path.is_file()}
    assert left <= {"tool", "record.json", ".lock"}


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
    assert not list(cache.rglob("tool"))
    server.hold.set()
    server.hold = None
    with call(server) as again:
        out, err = again.communicate(timeout=30)
        assert again.returncode == 0, err
    assert "tool" in out
    assert server.requests[-1][1].startswith("bytes=")


# Building: a Go of the test's own stands in for the compiler, since what is ours is
# how it is called, watched and ended.

GO = """#!/bin/sh
case "$1" in
env) echo go1.26.8 ;;
list) echo a; echo b; echo example.com/tool ;;
build)
  while [ "$1" != -o ]; do shift; done
  echo a; echo b
  if [ -e "{folder}/slow" ]; then echo $$ > "{folder}/pid"; exec sleep 60; fi
  if [ -e "{folder}/broken" ]; then echo "x.go:1: syntax error"; exit 1; fi
  printf '#!/bin/sh\\necho $GOFLAGS $GOWORK' > "$2tool" ;;
esac
"""


@pytest.fixture
def go(tmp_path, monkeypatch):
    folder = tmp_path / "go bin"
    folder.mkdir()
    (folder / "go").write_text(GO.format(folder=folder))
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    pins = tmp_path / "data" / "tools" / "tool"
    pins.mkdir(parents=True)
    (pins / "go.mod").write_text("module x\n\nrequire example.com/tool v1.2.3\n")
    monkeypatch.setattr(build, "data_dir", lambda _: tmp_path / "data")
    monkeypatch.setattr(build, "BUILD_SPACE", 1)
    monkeypatch.setattr(getting, "tool", lambda name, **_: make_tool("", name=name, release=None))
    monkeypatch.setattr(getting, "here", lambda: HERE)
    return folder


@pytest.mark.usefixtures("go")
def test_what_has_no_release_is_built():
    path = getting.ensure(["tool"])["tool"]
    assert os.access(path, os.X_OK)
    assert sources.source_of(path) == "built from clusters/tools/tool"


def test_a_failed_build_tells_what_the_compiler_said(go):
    (go / "broken").touch()
    with pytest.raises(ToolError, match=r"x\.go:1: syntax error"):
        getting.ensure(["tool"])


@pytest.mark.usefixtures("go")
def test_another_version_than_the_pinned_one_is_not_built(monkeypatch):
    other = make_tool("", version="1.2.4", release=None)
    monkeypatch.setattr(getting, "tool", lambda *_, **__: other)
    with pytest.raises(ToolError, match=r"does not pin version 1\.2\.4"):
        getting.ensure(["tool"])


@pytest.mark.usefixtures("go")
def test_a_missing_c_compiler_is_named(monkeypatch):
    cgo = Build(pins="tool", package="example.com/tool", ldflags="", cgo=True)
    monkeypatch.setattr(getting, "tool", lambda *_, **__: make_tool("", release=None, build=cgo))
    which = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name: None if name in ("cc", "gcc") else which(name)
    )
    with pytest.raises(ToolError, match="needs a C compiler"):
        getting.ensure(["tool"])


SLOW_BUILD = """
import pathlib
from labkit.tools import build
build.data_dir = lambda _: pathlib.Path(sys.argv[2])
build.BUILD_SPACE = 1
getting.here"""


def test_an_interrupted_build_leaves_no_compiler_running(go, tmp_path):
    (go / "slow").touch()
    script = CALLER.replace("\ngetting.here", SLOW_BUILD, 1)
    script = script.replace("make_tool(sys.argv[1], name=name)", "make_tool('', release=None)")
    child = subprocess.Popen([sys.executable, "-c", script, "", str(tmp_path / "data")])
    pid = int(
        wait_until(
            lambda: (
                Seen(t)
                if (go / "pid").exists() and (t := (go / "pid").read_text())
                else NotYet("-")
            ),
            what="the compiler to run",
            timeout_s=30,
        )
    )
    child.send_signal(signal.SIGINT)
    assert child.wait(30) != 0
    wait_until(
        lambda: NotYet("it runs") if alive(pid) else Seen(True), what="its end", timeout_s=10
    )


def written(path):
    return path.read_text() if path.exists() else ""


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_bin_folder_holds_all_that_the_embedded_cluster_needs(tmp_path, monkeypatch):
    from labkit.progress import Silent
    from labkit.tools.catalog import LOCAL

    for name in LOCAL:
        program(tmp_path / "mine", "1.37.2", name)
    monkeypatch.setenv("LABKIT_BIN_DIR", str(tmp_path / "mine"))
    folder = getting.bin_folder(progress=Silent())
    assert sorted(path.name for path in folder.iterdir()) == sorted(LOCAL)
    assert all(os.access(path, os.X_OK) for path in folder.iterdir())


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
