"""From source: Go modules pinned by go.mod and go.sum, so that every build is the same.

Binaries of one module are built together, which shares most of the compiling.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.progress import Progress, Step
from labkit.tools import golang, pins
from labkit.tools.catalog import Tool
from labkit.tools.children import Command, lines_of, running, tail
from labkit.tools.golang import Go
from labkit.tools.pins import Pins
from labkit.tools.platforms import Platform, jobs
from labkit.tools.release import check_disk
from labkit.tools.sources import Unavailable

GIB = 2**30

SPACE = {"kubernetes": 5 * GIB}
"""Bytes that Go's caches take while a module is built, by its pins."""

USUAL_SPACE = 1 * GIB

LARGEST = 150 * 2**20
"""Bytes that no binary exceeds."""

LIST_TIMEOUT_S = 1800.0
"""Time to download all modules, in seconds."""

BUILD_TIMEOUT_S = 2 * 3600.0
"""Time to compile, in seconds: all of Kubernetes took seven minutes on two processors."""

_DOWNLOADING = "go: downloading "


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a build gave.

    Attributes:
        paths: the binaries by tool name, in the working folder.
        source: what they were built from, for people.
    """

    paths: dict[str, Path]
    source: str


def check(tools: Sequence[Tool], on: Platform) -> None:
    """Refuse at once what would fail after minutes.

    Raises:
        Unavailable: not for this platform, no pins for the version, no C compiler.
    """
    for tool in tools:
        if on.system not in tool.build.systems:
            raise Unavailable(f"it does not exist for {on.system}")
        if not (pins.are_shipped(tool) or pins.can_be_made(tool)):
            folder = f"clusters/tools/{tool.build.pins}"
            raise Unavailable(f"{folder} does not pin version {tool.version}")
        if tool.build.cgo and not golang.c_compiler():
            raise Unavailable("building it needs a C compiler; install gcc")


def build(
    tools: Sequence[Tool], work: Path, progress: Progress, *, on: Platform, why: Sequence[str] = ()
) -> Built:
    """Build tools of one module.

    Args:
        tools: which; all of the same module and version.
        work: a folder of this caller's own.
        progress: shows packages compiled of the packages there are.
        on: the platform we run on.
        why: why they are not had in a quicker way, to be told.

    Raises:
        Unavailable: not buildable here, no Go, no space, or a failed build.
    """
    check(tools, on)
    go = golang.find(progress, on=on, cgo=tools[0].build.cgo)
    go.cache.mkdir(parents=True, exist_ok=True)
    check_disk(go.cache, SPACE.get(tools[0].build.pins, USUAL_SPACE))
    check_disk(work, len(tools) * LARGEST)
    go = golang.working_in(go, work / "tmp")
    with progress.step(_title(tools)) as step:
        for reason in why:
            step.note(reason)
        try:
            with pins.pinned(tools[0], go, work) as pinned:
                total = _count(go, pinned, tools, step)
                paths = _compile(go, pinned, tools, work / "out", step=step, total=total)
        except Unavailable as failure:
            step.note(str(failure))
            raise
    return Built(paths=paths, source=f"built from {pinned.source}")


def _title(tools: Sequence[Tool]) -> str:
    if len(tools) == 1:
        return f"build {tools[0].name} {tools[0].version}"
    return f"build {len(tools)} binaries of {tools[0].build.pins} {tools[0].version}"


def _count(go: Go, pinned: Pins, tools: Sequence[Tool], step: Step) -> int:
    """How many packages there are to compile; downloads their modules on the way."""
    mode = "-mod=readonly" if pinned.complete else "-mod=mod"
    packages_wanted = [tool.build.package for tool in tools]
    command: Command = [go.program, "list", mode, "-deps", *packages_wanted]
    said: list[str] = []
    modules = packages = 0
    with running(command, env=go.env, cwd=pinned.folder, timeout_s=LIST_TIMEOUT_S) as child:
        for line in lines_of(child):
            said.append(line)
            if line.startswith(_DOWNLOADING):
                modules += 1
                step.update(modules, unit="modules downloaded")
            elif not line.startswith("go: "):
                packages += 1
        if child.wait():
            raise Unavailable(f"go list failed:\n{tail(said)}")
    return packages


def _compile(
    go: Go, pinned: Pins, tools: Sequence[Tool], out: Path, *, step: Step, total: int
) -> dict[str, Path]:
    out.mkdir(parents=True, exist_ok=True)
    command: Command = [
        go.program, "build", "-v", "-trimpath", "-mod=readonly", "-p", str(jobs()),
        "-ldflags", f"-s -w {tools[0].build.ldflags}".strip(), "-o", f"{out}{os.sep}",
        *[tool.build.package for tool in tools],
    ]  # fmt: skip
    said: list[str] = []
    done = 0
    with running(command, env=go.env, cwd=pinned.folder, timeout_s=BUILD_TIMEOUT_S) as child:
        for line in lines_of(child):
            said.append(line)
            # Packages that an earlier build compiled are not named.
            done += not line.startswith(("#", "go: ", "\t"))
            step.update(done, max(total, done), unit="packages compiled")
        if child.wait():
            raise Unavailable(f"go build failed:\n{tail(said)}")
    step.update(total, total, unit="packages compiled")
    return {tool.name: _binary(out, tool) for tool in tools}


def _binary(out: Path, tool: Tool) -> Path:
    # Go names a binary after its package; /v3 is a version and not a name.
    last, before = tool.build.package.split("/")[-1], tool.build.package.split("/")[-2]
    for name in (tool.name, last, before):
        if (out / name).is_file():
            return out / name
    raise Unavailable(f"go build left no {tool.name} in {out}")
