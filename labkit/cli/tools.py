"""``labkit tools``: where the binaries are, and getting them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labkit.cli.output import Output, print_json
from labkit.tools import KUBERNETES_VERSION, TOOLS
from labkit.tools.catalog import KIND, LOCAL, Tool, tool
from labkit.tools.platforms import Platform, here

if TYPE_CHECKING:
    from labkit.tools.getting import Found

HELP = """The Kubernetes binaries, from wherever they can be had.

In this order: the folder that LABKIT_BIN_DIR names, PATH if the version fits,
the cache (LABKIT_CACHE_DIR), the official release, a build from pinned Go modules.

LABKIT_RELEASE_MIRROR names a server to ask in place of the release servers, with
the same paths.
"""

_LATER = {
    "release": "to be downloaded, else built",
    "build": "to be built",
    "nowhere": "cannot be had on this machine",
}


class Purpose(StrEnum):
    """What the binaries are for."""

    local = "local"
    kind = "kind"
    all = "all"


_VersionOption = Annotated[
    str, typer.Option("--kubernetes-version", metavar="VERSION", help="Which Kubernetes.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    group = typer.Typer(no_args_is_help=True, help=HELP)
    group.command("list")(list_tools)
    group.command("get")(get)
    group.command("path")(path)
    app.add_typer(group, name="tools", short_help="The Kubernetes binaries: list, get, path.")


def list_tools(
    *,
    kubernetes_version: _VersionOption = KUBERNETES_VERSION,
    output: Output = "text",
) -> None:
    """Show each binary, its version, and where it is or would come from."""
    from labkit.tools.getting import search

    on = here()
    wanted = [tool(name, kubernetes_version=kubernetes_version, on=on) for name in TOOLS]
    found, _ = search(wanted, on)
    rows = [_row(one, found.get(one.name), on) for one in wanted]
    if output == "json":
        print_json(rows)
        return
    typer.echo(f"{'NAME':<24} {'VERSION':<8} {'FROM':<11} WHERE")
    for row in rows:
        where = _short(row["path"]) or _LATER[row["source"]]
        typer.echo(f"{row['name']:<24} {row['version']:<8} {row['source']:<11} {where}")


def get(
    tool_names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which; default: see --for.")
    ] = None,
    *,
    purpose: Annotated[Purpose, typer.Option("--for", help="Get what this needs.")] = Purpose.local,
    kubernetes_version: _VersionOption = KUBERNETES_VERSION,
) -> None:
    """Get binaries; those that are there already take no time."""
    from labkit.progress import for_stderr
    from labkit.tools import ensure

    sets = {Purpose.local: LOCAL, Purpose.kind: KIND, Purpose.all: TOOLS}
    wanted = tool_names or sets[purpose]
    found = ensure(wanted, kubernetes_version=kubernetes_version, progress=for_stderr())
    for name, where in found.items():
        typer.echo(f"{name:<24} {where}")


def path(
    name: Annotated[str | None, typer.Argument(help="Which binary.")] = None,
    *,
    folder: Annotated[
        bool, typer.Option("--folder", help="Print one folder with all that local needs.")
    ] = False,
    kubernetes_version: _VersionOption = KUBERNETES_VERSION,
) -> None:
    """Print where a binary is, getting it first if need be."""
    from labkit.progress import for_stderr
    from labkit.tools import ensure

    if folder == bool(name):
        raise typer.BadParameter("say either NAME or --folder")
    if folder:
        _print_folder(kubernetes_version)
        return
    assert name
    found = ensure([name], kubernetes_version=kubernetes_version, progress=for_stderr())
    typer.echo(found[name])


def _print_folder(kubernetes_version: str) -> None:
    from labkit.progress import for_stderr
    from labkit.tools.sharing import bin_folder, closed_to_others

    found = bin_folder(kubernetes_version=kubernetes_version, progress=for_stderr())
    if closed := closed_to_others(found):
        typer.echo(f"note: other users cannot pass {closed}", err=True)
    typer.echo(found)


def _row(one: Tool, found: Found | None, on: Platform) -> dict[str, str]:
    from labkit.tools.getting import whence
    from labkit.tools.sources import version_of

    if found is None:
        source, version, where = whence(one, on), one.version, ""
    else:
        source, version, where = found.source, one.version, str(found.path)
        if source != "cache":  # taken as it is, or near enough
            version = ".".join(map(str, version_of(found.path, one))) or "unknown"
    return {"name": one.name, "version": version, "source": source, "path": where}


def _short(where: str) -> str:
    try:
        home = Path.home()
    except RuntimeError:  # no HOME and no passwd entry
        return where
    return f"~/{Path(where).relative_to(home)}" if Path(where).is_relative_to(home) else where
