"""What of the host's file system a container sees, and the folders that make up its own.

A container has no image. Its root is an empty folder; the host's folders of programs are
laid over it by overlayfs, so that what a container writes stays its own::

    layers/<container>/root        the root itself: /tmp, /run, /var, /root … are plain folders
    layers/<container>/upper/usr   what the container wrote below /usr
    layers/<container>/work/usr    overlayfs' own

All of it lies on a tmpfs in the node's namespace: overlayfs refuses an upper folder that
lies below its lower one, which a state folder on the host's disk may well do.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM_FOLDERS = (
    "bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "nix", "gnu",
)  # fmt: skip
"""The folders below / that hold programs. Homes and data of the host stay out of sight."""

PLAIN_FOLDERS = {
    "dev": 0o755, "home": 0o755, "media": 0o755, "mnt": 0o755, "proc": 0o555, "root": 0o700,
    "run": 0o755, "run/lock": 0o1777, "srv": 0o755, "sys": 0o555, "tmp": 0o1777, "var": 0o755,
    "var/cache": 0o755, "var/lib": 0o755, "var/log": 0o755, "var/spool": 0o755,
    "var/tmp": 0o1777,
}  # fmt: skip
PLAIN_LINKS = {"var/run": "/run", "var/lock": "/run/lock"}
"""What an image has besides programs: empty, and the container's own."""

MOUNT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFs:
    """The host's part of every container's file system.

    Attributes:
        links: top-level symbolic links and their targets.
        overlays: folders to lay over the root, by name: where each one's content lies.
        binds: folders to bind read-only at their own path: overlayfs refuses them, or
            they hold the kit's own Python outside of the folders of programs.
    """

    links: dict[str, str]
    overlays: dict[str, Path]
    binds: tuple[Path, ...]


def look(*, copies: Path, can_overlay: bool = True, root: Path = Path("/")) -> HostFs:
    """Find out what the host has.

    Args:
        copies: where to put a copy of /etc if it cannot be a lower folder.
        can_overlay: whether overlayfs works here at all.
        root: the host's root.
    """
    links: dict[str, str] = {}
    overlays: dict[str, Path] = {}
    binds: list[Path] = []
    mounted = mount_points()
    for name in PROGRAM_FOLDERS:
        path = root / name
        if path.is_symlink():
            links[name] = str(path.readlink())
        elif not path.is_dir():
            continue
        elif can_overlay and not any(point.startswith(f"{path}/") for point in mounted):
            overlays[name] = path
        elif can_overlay and name == "etc":
            # Inside Docker, /etc/hosts and others are mounts, and overlayfs takes no folder
            # with mounts below; this one is small.
            overlays[name] = _copy(path, copies / name)
        else:
            binds.append(path)
    binds += [p for p in _own_python() if not _is_covered(p, overlays, binds)]
    return HostFs(links=links, overlays=overlays, binds=tuple(binds))


def _own_python() -> list[Path]:
    return sorted({Path(sys.base_prefix), Path(sys.prefix)})


def _is_covered(path: Path, overlays: Iterable[str], binds: Iterable[Path]) -> bool:
    return path.parts[1:2] == () or path.parts[1] in overlays or path in binds


def _copy(source: Path, target: Path) -> Path:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        # What may not be read is missing in the copy, as it would be unreadable in place.
        argv = ["cp", "-a", "--no-preserve=ownership", "-x", str(source), str(target)]
        subprocess.run(argv, check=False, capture_output=True, timeout=MOUNT_S)
    return target


def mount_points() -> list[str]:
    """Every mount point that this process sees."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return [_unescape(line.split(" ", 5)[4]) for line in text.splitlines()]


def _unescape(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def mount_layers(folder: Path) -> bool:
    """Mount the tmpfs for the layers unless it is there; False where mounting is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    if str(folder) in mount_points():
        return True
    argv = ["mount", "-t", "tmpfs", "-o", "mode=0755", "labkit-layers", str(folder)]
    done = subprocess.run(argv, check=False, capture_output=True, timeout=MOUNT_S)
    return done.returncode == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """One container's own folders."""

    folder: Path

    @property
    def root(self) -> Path:
        """What becomes the container's /."""
        return self.folder / "root"

    def upper(self, name: str) -> Path:
        """Where overlayfs keeps what is written below a top-level folder."""
        return self.folder / "upper" / name

    def work(self, name: str) -> Path:
        """Where overlayfs prepares what it writes."""
        return self.folder / "work" / name

    def make(self, host: HostFs) -> None:
        """Make the root's folders and links, and the overlays' folders."""
        self.root.mkdir(parents=True, exist_ok=True)
        for name, mode in PLAIN_FOLDERS.items():
            path = self.root / name
            path.mkdir(exist_ok=True)
            path.chmod(mode)
        for name, target in (PLAIN_LINKS | host.links).items():
            link = self.root / name
            if not link.is_symlink():
                link.symlink_to(target)
        for name in host.overlays:
            for folder in (self.root / name, self.upper(name), self.work(name)):
                folder.mkdir(parents=True, exist_ok=True)

    def write(self, path: str, text: str, host: HostFs) -> None:
        """Put a file into the container before it starts, e.g. ``etc/hostname``."""
        top, _, rest = path.partition("/")
        target = self.upper(top) / rest if top in host.overlays else self.root / path
        if top in host.overlays or not any(bind.name == top for bind in host.binds):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")

    def make_mount_point(self, path: str, source: Path, host: HostFs) -> None:
        """Make what a mount needs to sit on, where the container's user could not.

        Folders of the host below which an ordinary user may not write refuse it later.
        """
        real = _follow_top_link(path, host)
        top, _, rest = real.lstrip("/").partition("/")
        if not rest or top not in host.overlays or (host.overlays[top] / rest).exists():
            return
        target = self.upper(top) / rest
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            target.mkdir(exist_ok=True)
        else:
            target.touch()

    def remove(self) -> None:
        """Remove everything; overlayfs leaves a work folder without any permissions."""
        if not self.folder.exists():
            return
        for work in self.folder.glob("work/*/work"):
            work.chmod(0o700)
        shutil.rmtree(self.folder, ignore_errors=True)


def _follow_top_link(path: str, host: HostFs) -> str:
    top, _, rest = path.lstrip("/").partition("/")
    target = host.links.get(top)
    return path if target is None else f"/{target.lstrip('/')}/{rest}"


def overlay_mounts(host: HostFs, layers: Layers, *, readonly: bool) -> list[dict[str, Any]]:
    """The OCI mounts that put the host's programs into a container."""
    mounts = []
    for name, lower in host.overlays.items():
        options = [
            f"lowerdir={_escape(lower)}",
            f"upperdir={_escape(layers.upper(name))}",
            f"workdir={_escape(layers.work(name))}",
            "userxattr",
        ]
        if readonly:
            options.append("ro")
        mounts.append(mount(f"/{name}", "overlay", "overlay", *options))
    return mounts + [
        mount(str(path), "bind", str(path), "rbind", "ro", "rprivate") for path in host.binds
    ]


def mount(target: str, kind: str, source: str, *options: str) -> dict[str, Any]:
    """One OCI mount."""
    return {"destination": target, "type": kind, "source": source, "options": list(options)}


def _escape(path: Path) -> str:
    """A path as overlayfs' options want it."""
    text = str(path)
    for char in "\\,:":
        text = text.replace(char, f"\\{char}")
    return text
