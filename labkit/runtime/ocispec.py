"""The OCI runtime specification of a container: what runc is told to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.runtime.hostfs import HostFs, Layers, mount, overlay_mounts

Json = dict[str, Any]

_SHM = "/dev/shm"  # noqa: S108 - the container's own

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "AUDIT_WRITE",
)  # fmt: skip
"""What container runtimes leave to root by default."""

ALL_CAPABILITIES = (
    *CAPABILITIES,
    "DAC_READ_SEARCH", "LINUX_IMMUTABLE", "NET_BROADCAST", "NET_ADMIN", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "LEASE", "AUDIT_CONTROL", "MAC_OVERRIDE",
    "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who a container's processes say they are.

    Only one user exists in a node's namespace, so any other one is that same user under
    another number, in a user namespace of the container's own.
    """

    uid: int = 0
    gid: int = 0

    def prefix(self) -> list[str]:
        """What to put before a command to run it as this user."""
        if self.uid == 0 and self.gid == 0:
            return []
        return ["unshare", "--user", f"--map-user={self.uid}", f"--map-group={self.gid}", "--"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A file or folder of the node, to appear in the container."""

    source: str
    target: str
    readonly: bool = False
    follows: bool = False
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A container in our own terms, before it becomes runc's or a plain process."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = "/"
    user: User = User()
    hostname: str = ""
    tty: bool = False
    binds: tuple[Bind, ...] = ()
    shm: str = ""
    pid_namespace: str = "new"
    capabilities: tuple[str, ...] = CAPABILITIES
    no_new_privileges: bool = False
    readonly_root: bool = False
    oom_score_adj: int | None = None
    hooks: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def environment(wanted: Wanted) -> dict[str, str]:
    """A container's variables, with those that an image would have brought."""
    env = {"PATH": DEFAULT_PATH, "HOSTNAME": wanted.hostname}
    if wanted.tty:
        env["TERM"] = "xterm"
    env["HOME"] = "/root" if wanted.user.uid == 0 else "/"
    # tar, and so kubectl cp, would give files back to the numbers of their owners elsewhere,
    # and only one user exists here.
    env["TAR_OPTIONS"] = "--no-same-owner"
    return {**env, **wanted.env}


def build(wanted: Wanted, host: HostFs, layers: Layers, *, own_proc: bool) -> Json:
    """The content of a bundle's config.json.

    Args:
        wanted: the container.
        host: what of the host it sees.
        layers: its own folders.
        own_proc: whether a proc file system of its own may be mounted; else the host's is
            bound, which shows all processes.
    """
    spec: Json = {
        "ociVersion": "1.0.2",
        "process": _process(wanted),
        "root": {"path": str(layers.root), "readonly": wanted.readonly_root},
        "hostname": wanted.hostname,
        "mounts": [
            *_system_mounts(wanted, own_proc=own_proc),
            *overlay_mounts(host, layers, readonly=wanted.readonly_root),
            *map(bind_mount, sorted(wanted.binds, key=_depth)),
        ],
        "annotations": dict(wanted.annotations),
        "linux": {"namespaces": _namespaces(wanted), "rootfsPropagation": "rprivate"},
    }
    if wanted.hooks:
        spec["hooks"] = {stage: list(hooks) for stage, hooks in wanted.hooks.items()}
    return spec


def _process(wanted: Wanted) -> Json:
    names = [f"CAP_{name}" for name in wanted.capabilities]
    process: Json = {
        "terminal": wanted.tty,
        "user": {"uid": 0, "gid": 0},
        "args": [*wanted.user.prefix(), *wanted.argv],
        "env": [f"{name}={value}" for name, value in environment(wanted).items()],
        "cwd": wanted.cwd or "/",
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), names),
        "noNewPrivileges": wanted.no_new_privileges,
    }
    if wanted.oom_score_adj is not None:
        process["oomScoreAdj"] = wanted.oom_score_adj
    return process


def _namespaces(wanted: Wanted) -> list[Json]:
    namespaces: list[Json] = [{"type": kind} for kind in ("mount", "ipc", "uts")]
    if wanted.pid_namespace == "new":
        namespaces.append({"type": "pid"})
    elif wanted.pid_namespace != "host":
        namespaces.append({"type": "pid", "path": wanted.pid_namespace})
    return namespaces


def _system_mounts(wanted: Wanted, *, own_proc: bool) -> list[Json]:
    proc = mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev")
    if not own_proc or wanted.pid_namespace == "host":
        proc = mount("/proc", "bind", "/proc", "rbind", "rprivate")
    shm = mount(_SHM, "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777")
    if wanted.shm:
        shm = mount(_SHM, "bind", wanted.shm, "rbind", "nosuid", "nodev")
    return [
        proc,
        mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666",
              "mode=0620"),
        shm,
        mount("/sys", "bind", "/sys", "rbind", "rprivate", "nosuid", "noexec", "nodev", "ro"),
    ]  # fmt: skip


def bind_mount(bind: Bind) -> Json:
    """The OCI mount of a bind."""
    options = ["rbind", "ro" if bind.readonly else "rw", *bind.options]
    options.append("rslave" if bind.follows else "rprivate")
    return mount(bind.target, "bind", bind.source, *options)


def _depth(bind: Bind) -> int:
    return bind.target.rstrip("/").count("/")
