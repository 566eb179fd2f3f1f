"""A node's own user and mount namespace, where its private folder is /var.

A tiny process holds the namespaces open; the kubelet, the runtime and the driver of the
node are started inside. When the holder is killed, a new one joins through any process
that is still in there, so that running containers keep their node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from labkit.cluster.plan import NodePlan
from labkit.cluster.processes import PROC, Process
from labkit.errors import Unsupported

ENTER_S = 10.0
"""How long setting up namespaces may take, in seconds; 10 ms is usual."""

FOLDERS = (
    "cache",
    "lib/kubelet/plugins",
    "lib/kubelet/plugins_registry",
    "lib/kubelet/volumeplugins",
    "lib/labkit/runtime",
    "log/containers",
    "log/pods",
    "run/cdi",
    "run/labkit",
    "tmp",
)
"""What a node finds below /var from the start."""

# Arguments: the private folder, then the folders below /var that must stay visible. They are
# bound into the private folder first, and that is bound over /var together with them.
_SETUP = """
set -e
var=$1
shift
for kept in "$@"; do
  mkdir -p "$var${kept#/var}"
  mount --bind "$kept" "$var${kept#/var}"
done
mount --rbind "$var" /var
echo ready
exec sleep infinity >/dev/null 2>&1
"""

_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "--")


def holder_argv(node: NodePlan, member: Process | None) -> list[str]:
    """The command line of a holder: of new namespaces, or joining those that `member` is in."""
    if member is not None:
        return [*enter_argv(member), "sh", "-c", "echo ready; exec sleep infinity >/dev/null 2>&1"]
    return [*_UNSHARE, "sh", "-c", _SETUP, "labkit-node", node.var, *node.keeps]


def enter_argv(member: Process) -> list[str]:
    """What to put before a command line to run it in the namespaces of `member`."""
    return ["nsenter", "--user", "--mount", "--preserve-credentials", "-t", str(member.pid), "--"]


def start_holder(argv: list[str], *, env: dict[str, str], errors: int) -> subprocess.Popen[bytes]:
    """Start a holder and wait until its namespaces are set up.

    Args:
        argv: see `holder_argv`.
        env: its environment.
        errors: file descriptor for what it complains about.

    Raises:
        OSError: it could not be set up; the complaint is in `errors`.
    """
    holder = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=env,
        start_new_session=True,
    )
    assert holder.stdout is not None
    with holder.stdout as answer:
        if not _says_ready(answer.fileno()):
            holder.kill()
            holder.wait(ENTER_S)
            raise OSError(f"{argv[0]} did not set up the node's namespaces")
    return holder


def _says_ready(handle: int) -> bool:
    import select

    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(ENTER_S * 1000)) and os.read(handle, 16).startswith(b"ready")


def make_folders(var: Path) -> None:
    """Make the folders that a node expects below its /var."""
    for folder in FOLDERS:
        (var / folder).mkdir(mode=0o755, parents=True, exist_ok=True)


def user_namespace(pid: int) -> int:
    """The inode of a process's user namespace; 0 when it cannot be seen."""
    try:
        return (PROC / str(pid) / "ns/user").stat().st_ino
    except OSError:
        return 0


def below_var(candidates: Iterable[Path]) -> tuple[str, ...]:
    """Those of some folders that really lie below /var, none of them twice or inside another."""
    real = sorted({candidate.resolve() for candidate in candidates if candidate.exists()})
    # /var/run is usually a link to /run; what lies there was resolved away already.
    inside = [path for path in real if path.is_relative_to("/var")]
    return tuple(
        str(path)
        for path in inside
        if not any(path != other and path.is_relative_to(other) for other in inside)
    )


def check_supported() -> None:
    """Try whether this host lets us make a node's namespaces.

    Settings say little about it (seccomp, AppArmor and limits all have a word), so it is tried.

    Raises:
        Unsupported: it does not; the message has what was tried and the answer.
    """
    for program in ("unshare", "nsenter", "mount", "flock", "setsid"):
        if shutil.which(program) is None:
            raise Unsupported(
                f"the program {program!r} is not on the PATH",
                hint="install util-linux, which every Linux distribution has",
            )
    with tempfile.TemporaryDirectory(prefix="labkit-try-") as scratch:
        argv = [*_UNSHARE, "sh", "-c", 'mount --rbind "$1" /var && echo ready', "labkit", scratch]
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, check=False, timeout=ENTER_S
            )
        except subprocess.TimeoutExpired as exc:
            raise Unsupported(f"'{' '.join(_UNSHARE)}' did not answer") from exc
    if done.stdout.strip() != "ready":
        _refuse(done.stderr.strip())


def _refuse(answer: str) -> NoReturn:
    what = (
        "a mount in" if "mount:" in answer and "unshare" not in answer else "a user namespace with"
    )
    raise Unsupported(
        f"this host refuses {what} mounts of its own to an ordinary user: {answer}",
        hint=(
            "in a container, run it with seccomp=unconfined (docker run --security-opt "
            "seccomp=unconfined); on Ubuntu, set kernel.apparmor_restrict_unprivileged_userns=0; "
            "elsewhere raise user.max_user_namespaces"
        ),
        see="unshare --user --map-root-user --mount mount --bind /tmp /var && echo works",
    )
