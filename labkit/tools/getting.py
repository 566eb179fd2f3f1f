"""Having all the tools one needs, from whichever source has them first."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from labkit.errors import ToolError
from labkit.paths import BIN_ENV, CACHE_ENV, cache_dir
from labkit.progress import Progress, Silent
from labkit.tools import sources
from labkit.tools.catalog import KUBERNETES_VERSION, Tool, tool
from labkit.tools.platforms import Platform, here
from labkit.tools.sources import Absent, Unavailable

Reasons = dict[str, list[Unavailable]]
"""By tool, why each source so far could not give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A tool that is there.

    Attributes:
        path: absolute.
        source: ``your folder``, ``PATH`` or ``cache``.
    """

    path: Path
    source: str


def ensure(
    names: Sequence[str],
    *,
    kubernetes_version: str = KUBERNETES_VERSION,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Absolute paths of tools, which are got when they are missing.

    Args:
        names: what is needed.
        kubernetes_version: for those that are of Kubernetes.
        progress: shows what takes long, and why a source was passed over.

    Raises:
        BadInput: no such tool.
        ToolError: a tool cannot be had; the message says why, source by source.
    """
    on = here()
    wanted = [
        tool(name, kubernetes_version=kubernetes_version, on=on) for name in dict.fromkeys(names)
    ]
    there, _ = search(wanted, on)
    paths = {name: found.path for name, found in there.items()}
    missing = [one for one in wanted if one.name not in paths]
    if missing:
        paths |= _get(missing, on, progress or Silent())
    return {name: paths[name] for name in names}


def search(wanted: Iterable[Tool], on: Platform) -> tuple[dict[str, Found], Reasons]:
    """What is there already, and for the rest why each place does not have it."""
    found: dict[str, Found] = {}
    reasons: Reasons = {}
    for one in wanted:
        reasons[one.name] = []
        for source, look in (
            ("your folder", sources.from_folder),
            ("PATH", sources.from_path),
            ("cache", lambda one: sources.from_cache(one, on)),
        ):
            try:
                found[one.name] = Found(path=look(one), source=source)
                break
            except Unavailable as why:
                reasons[one.name].append(type(why)(f"{source}: {why}"))
    return found, reasons


def whence(one: Tool, on: Platform) -> str:
    """Where a tool that is missing would come from; asks no network."""
    from labkit.tools import build, release

    if not release.refused(one):
        return "release"
    try:
        build.check([one], on)
    except Unavailable:
        return "nowhere"
    return "build"


def _get(missing: Sequence[Tool], on: Platform, progress: Progress) -> dict[str, Path]:
    from labkit.tools import workshop

    try:
        with workshop.locked([one.name for one in missing], progress):
            # Whoever held the lock may have got them meanwhile.
            there, reasons = search(missing, on)
            paths = {name: found.path for name, found in there.items()}
            left = [one for one in missing if one.name not in paths]
            _tell(left, reasons, progress)
            with workshop.folder() as work:
                paths |= _released(left, on, reasons, progress)
                left = [one for one in left if one.name not in paths]
                paths |= _built(left, on, reasons, progress, work)
    except OSError as exc:
        raise ToolError(
            f"{cache_dir() / 'tools'} cannot be used: {exc.strerror}",
            hint=f"set {CACHE_ENV} to a folder that you may write to",
        ) from exc
    _refuse_missing(missing, paths, reasons)
    return paths


def _tell(missing: Sequence[Tool], reasons: Reasons, progress: Progress) -> None:
    """Say what surprises: a folder that lacks a tool, a wrong version, a damaged cache."""
    lines = [
        str(why) for one in missing for why in reasons[one.name] if not isinstance(why, Absent)
    ]
    if lines:
        with progress.step("look for binaries") as step:
            for line in lines:
                step.note(line)


def _released(
    tools: Sequence[Tool], on: Platform, reasons: Reasons, progress: Progress
) -> dict[str, Path]:
    from labkit.tools import release, workshop

    paths: dict[str, Path] = {}
    for one in tools:
        with _reasons_of([one], "release", reasons):
            if why := release.refused(one):
                raise Unavailable(why)
            with progress.step(f"download {one.name} {one.version}") as step:
                try:
                    made = release.fetch(one, workshop.parts(), step)
                except Unavailable as failure:
                    step.note(str(failure))
                    raise
                paths[one.name] = sources.into_cache(one, on, made, source="official release")
    return paths


def _built(
    tools: Sequence[Tool], on: Platform, reasons: Reasons, progress: Progress, work: Path
) -> dict[str, Path]:
    from labkit.tools import build

    paths: dict[str, Path] = {}
    # Tools of one module share their flags, and so one build.
    ordered = sorted(tools, key=lambda one: one.build.pins)
    for _, group in groupby(ordered, key=lambda one: one.build.pins):
        together = list(group)
        why = dict.fromkeys(str(reasons[one.name][-1]) for one in together)
        with _reasons_of(together, "build", reasons):
            built = build.build(together, work, progress, on=on, why=list(why))
            for one in together:
                made = built.paths[one.name]
                paths[one.name] = sources.into_cache(one, on, made, source=built.source)
    return paths


@contextmanager
def _reasons_of(tools: Sequence[Tool], source: str, reasons: Reasons) -> Iterator[None]:
    """Note why a source failed and go on; a disk that fills up half-way is such a reason."""
    try:
        yield
    except Unavailable as failure:
        why: Exception = failure
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        why = exc
    else:
        return
    for one in tools:
        reasons[one.name].append(Unavailable(f"{source}: {why}"))


def _refuse_missing(
    wanted: Sequence[Tool], paths: Mapping[str, Path], reasons: Mapping[str, Sequence[Unavailable]]
) -> None:
    lines = [
        f"{one.name} {one.version} cannot be had:\n    "
        + "\n    ".join(str(why) for why in reasons[one.name])
        for one in wanted
        if one.name not in paths
    ]
    if lines:
        raise ToolError(
            "\n".join(lines),
            hint=f"put the binaries into a folder of yours and set {BIN_ENV} to it, "
            "or install Go so that they can be built",
        )
