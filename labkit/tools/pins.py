"""The go.mod and go.sum that fix what a build is made of, to the last dependency.

Those of the versions in the catalogue stand in ``clusters/tools``. For another version of
Kubernetes a go.mod is written when it is asked for: its own go.mod says which of its parts
are published as modules beside it, and all of those carry the same version.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.paths import data_dir
from labkit.tools.catalog import KUBERNETES_VERSION, Tool
from labkit.tools.golang import Go
from labkit.tools.sources import Unavailable

KUBERNETES = "k8s.io/kubernetes"

PROXY_TIMEOUT_S = 120.0
"""Time for a module proxy to say what a version consists of, in seconds."""

_BESIDE = "v0.0.0"
"""The version under which Kubernetes requires its own parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """A folder to build in.

    Attributes:
        folder: holds go.mod and go.sum.
        complete: whether go.sum is; if not, Go may add to it, checked against Go's public
            checksum database.
        source: what is built from, for people.
    """

    folder: Path
    complete: bool
    source: str


def are_shipped(tool: Tool) -> bool:
    """Whether ``clusters/tools`` pins a tool in its very version."""
    text = (_shipped(tool) / "go.mod").read_text(encoding="utf-8")
    wanted = rf"^(?:require )?\s*\S+ v{re.escape(tool.version)}$"
    return bool(re.search(wanted, text, re.MULTILINE))


def can_be_made(tool: Tool) -> bool:
    """Whether pins for a version that is not shipped can be written."""
    return tool.build.package.startswith(f"{KUBERNETES}/")


@contextmanager
def pinned(tool: Tool, go: Go, work: Path) -> Iterator[Pins]:
    """The pins for a tool's version.

    Args:
        tool: any tool of the module.
        go: asks the module proxy about versions that are not shipped.
        work: a folder for pins that have to be written.

    Raises:
        Unavailable: there are none for this version.
    """
    if are_shipped(tool):
        where = f"clusters/tools/{tool.build.pins}"
        yield Pins(folder=_shipped(tool), complete=True, source=where)
        return
    if not can_be_made(tool):
        raise Unavailable(f"clusters/tools/{tool.build.pins} does not pin version {tool.version}")
    folder = work / "pins"
    folder.mkdir(parents=True)
    try:
        text = _go_mod(tool.version, _parts(tool.version, go, folder))
        (folder / "go.mod").write_text(text, encoding="utf-8")
        shutil.copyfile(_shipped(tool) / "go.sum", folder / "go.sum")
        yield Pins(folder=folder, complete=False, source=f"{KUBERNETES} v{tool.version}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _shipped(tool: Tool) -> Path:
    return data_dir("clusters") / "tools" / tool.build.pins


def _parts(version: str, go: Go, folder: Path) -> dict[str, Any]:
    """Kubernetes' own go.mod in that version, as JSON."""
    module = _ask(go, folder, "list", "-m", "-json", f"{KUBERNETES}@v{version}")
    return _ask(go, folder, "mod", "edit", "-json", str(module.get("GoMod", "")))


def _ask(go: Go, folder: Path, *arguments: str) -> dict[str, Any]:
    version = f"only {KUBERNETES_VERSION} of Kubernetes is pinned, and this one cannot be now"
    try:
        done = subprocess.run(
            [go.program, *arguments],
            cwd=folder,
            env=go.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=PROXY_TIMEOUT_S,
        )
        found = json.loads(done.stdout)
    except subprocess.CalledProcessError as exc:
        raise Unavailable(f"{version}: {exc.stderr.strip()}") from exc
    except (OSError, subprocess.TimeoutExpired, ValueError) as exc:
        raise Unavailable(f"{version}: {exc}") from exc
    return dict(found)


def _go_mod(version: str, parts: dict[str, Any]) -> str:
    own = [one["Path"] for one in parts.get("Require") or () if one["Version"] == _BESIDE]
    beside = "v0." + version.partition(".")[2]
    return "\n".join(
        (
            "module labkit.dev/tools/kubernetes",
            f"go {parts['Go']}",
            f"require {KUBERNETES} v{version}",
            *(f"replace {path} => {path} {beside}" for path in own),
            "",
        )
    )
