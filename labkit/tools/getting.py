"""Having all the tools one needs, from whichever source has them first."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from labkit.errors import ToolError
from labkit.paths import BIN_ENV, cache_dir
from labkit.progress import Progress, Silent
from labkit.tools import sources
from labkit.tools.catalog import KUBERNETES_VERSION, LOCAL, Platform, Tool, here, tool
from labkit.tools.sources import Unavailable

LOCK_TIMEOUT_S = 2 * 3600.0
"""How long to wait for another labkit that is getting binaries, in seconds."""


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
    wanted = [tool(name, kubernetes_version=kubernetes_version, on=on) for name in names]
    found, reasons = search(wanted, on)
    missing = [one for one in wanted if one.name not in found]
    if missing:
        found |= _get(missing, on, reasons, progress or Silent())
    return {name: found[name] for name in names}


def search(wanted: Iterable[Tool], on: Platform) -> tuple[dict[str, Path], dict[str, list[str]]]:
    """What is there already, and for the rest why each place does not have it."""
    found: dict[str, Path] = {}
    reasons: dict[str, list[str]] = {}
    for one in wanted:
        reasons[one.name] = []
        for label, look in (
            ("your folder", sources.from_folder),
            ("PATH", sources.from_path),
            ("cache", lambda one: sources.from_cache(one, on)),
        ):
            try:
                found[one.name] = look(one)
                break
            except Unavailable as why:
                reasons[one.name].append(f"{label}: {why}")
    return found, reasons


def bin_folder(*, kubernetes_version: str = KUBERNETES_VERSION, progress: Progress) -> Path:
    """One folder with all tools of the embedded cluster, to be named by ``LABKIT_BIN_DIR``."""
    paths = ensure(LOCAL, kubernetes_version=kubernetes_version, progress=progress)
    folder = cache_dir() / "tools" / "bin" / kubernetes_version
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        link = folder / f".{name}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        link.replace(folder / name)
    return folder


def _get(
    missing: Sequence[Tool], on: Platform, reasons: dict[str, list[str]], progress: Progress
) -> dict[str, Path]:
    from filelock import FileLock, Timeout

    folder = cache_dir() / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            with progress.step("wait for another labkit that is getting binaries"):
                lock.acquire(timeout=LOCK_TIMEOUT_S)
    except Timeout as exc:
        raise ToolError(
            f"another labkit has been getting binaries for {LOCK_TIMEOUT_S / 3600:.0f} hours",
            hint=f"end it; the lock is {folder / '.lock'}",
        ) from exc
    try:
        # Whoever held the lock may have got them meanwhile.
        found, reasons = search(missing, on)
        left = [one for one in missing if one.name not in found]
        found |= _released(left, on, reasons, progress)
        left = [one for one in left if one.name not in found]
        found |= _built(left, on, reasons, progress)
    finally:
        lock.release()
        shutil.rmtree(folder / ".new", ignore_errors=True)
    _refuse_missing(missing, found, reasons)
    return found


def _released(
    tools: Sequence[Tool], on: Platform, reasons: Mapping[str, list[str]], progress: Progress
) -> dict[str, Path]:
    from labkit.tools import release

    folder = cache_dir() / "tools" / ".parts"
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for one in tools:
        try:
            if why := release.refused(one):
                raise Unavailable(why)  # noqa: TRY301 - told where all reasons are told
            with progress.step(f"download {one.name} {one.version}") as step:
                try:
                    made = release.fetch(one, folder, step)
                except Unavailable as why:
                    step.note(str(why))
                    raise
                found[one.name] = sources.into_cache(one, on, made, source="official release")
        except Unavailable as why:
            reasons[one.name].append(f"release: {why}")
    return found


def _built(
    tools: Sequence[Tool], on: Platform, reasons: Mapping[str, list[str]], progress: Progress
) -> dict[str, Path]:
    from labkit.tools import build

    folder = cache_dir() / "tools" / ".new"
    found = {}
    # Tools of one module share their flags, and so one build.
    ordered = sorted(tools, key=lambda one: one.build.pins)
    for _, group in groupby(ordered, key=lambda one: one.build.pins):
        together = list(group)
        try:
            made = build.build(together, folder, progress)
        except Unavailable as why:
            for one in together:
                reasons[one.name].append(f"build: {why}")
            continue
        for one in together:
            found[one.name] = sources.into_cache(
                one, on, made[one.name], source=f"built from clusters/tools/{one.build.pins}"
            )
    return found


def _refuse_missing(
    wanted: Sequence[Tool], found: Mapping[str, Path], reasons: Mapping[str, list[str]]
) -> None:
    lines = [
        f"{one.name} {one.version} cannot be had:\n    " + "\n    ".join(reasons[one.name])
        for one in wanted
        if one.name not in found
    ]
    if lines:
        raise ToolError(
            "\n".join(lines),
            hint=f"put the binaries into a folder of yours and set {BIN_ENV} to it, "
            "or install Go so that they can be built",
        )
