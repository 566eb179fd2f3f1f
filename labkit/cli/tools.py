"""``labkit tools``: where the binaries are, and getting them."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from labkit.tools import KUBERNETES_VERSION
from labkit.tools.catalog import KIND, LOCAL, here, names, tool


class Output(StrEnum):
    """How to print what was found."""

    text = "text"
    json = "json"


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
    group = typer.Typer(
        no_args_is_help=True,
        help="The Kubernetes binaries: from your folder (LABKIT_BIN_DIR), PATH, the cache, "
        "the official release, or built from pinned Go modules.",
    )
    group.command("list")(list_tools)
    group.command("get")(get)
    group.command("path")(path)
    app.add_typer(group, name="tools")


def list_tools(
    *,
    kubernetes_version: _VersionOption = KUBERNETES_VERSION,
    output: Annotated[Output, typer.Option("--output", "-o", help="Form.")] = Output.text,
) -> None:
    """Show each binary, its version and where it is."""
    from labkit.tools.getting import search

    on = here()
    wanted = [tool(name, kubernetes_version=kubernetes_version, on=on) for name in names()]
    found, _ = search(wanted, on)
    if output is Output.json:
        rows = [
            {"name": one.name, "version": one.version, "path": _text(found.get(one.name))}
            for one in wanted
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    for one in wanted:
        where = _text(found.get(one.name)) or "not here yet: labkit tools get"
        typer.echo(f"{one.name:<24} {one.version:<8} {where}")


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

    sets = {Purpose.local: LOCAL, Purpose.kind: KIND, Purpose.all: names()}
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
    from labkit.tools.getting import bin_folder

    if folder == bool(name):
        raise typer.BadParameter("say either NAME or --folder")
    if folder:
        typer.echo(bin_folder(kubernetes_version=kubernetes_version, progress=for_stderr()))
        return
    assert name
    found = ensure([name], kubernetes_version=kubernetes_version, progress=for_stderr())
    typer.echo(found[name])


def _text(path: object) -> str:
    return "" if path is None else str(path)
