"""The commands of a cluster's life: up, down, status, list, prune, logs, kubectl."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labkit.cli.output import Output, print_json
from labkit.errors import BadInput, ClusterError

if TYPE_CHECKING:
    from labkit.cluster.status import Status

Name = Annotated[str, typer.Option("--name", help="The cluster's name.")]
Provider = Annotated[str, typer.Option("--provider", help="What kind of cluster: local.")]

PROVIDERS = ("local",)
"""Kinds of cluster that this version of labkit can make."""

DEFAULT_NAME = "lab"

_DURATION = re.compile(r"(\d+)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def register(app: typer.Typer) -> None:
    """Add this room's commands to the command line."""
    app.command()(up)
    app.command()(down)
    app.command()(status)
    app.command("list")(list_clusters)
    app.command()(prune)
    app.command()(logs)
    passing = {
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": False,
        "help_option_names": ["--help-of-labkit"],
    }
    app.command(context_settings=passing)(kubectl)


def up(  # noqa: PLR0917 - the options of a command
    name: Name = DEFAULT_NAME,
    provider: Provider = "local",
    nodes: Annotated[int | None, typer.Option(help="How many nodes; 1 unless said.")] = None,
    gpus: Annotated[
        str | None, typer.Option(help="The machine that each node is: a name, a YAML file, none.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file with nodes that differ (name, gpus, count).")
    ] = None,
    kubernetes_version: Annotated[str | None, typer.Option(help="For example 1.37.2.")] = None,
    feature_gates: Annotated[
        list[str] | None, typer.Option(help="For example DRAListTypeAttributes=true,... .")
    ] = None,
    with_pid: Annotated[
        int | None, typer.Option(help="End the cluster when this process ends.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(help="End the cluster after this time, e.g. 90m or 8h.")
    ] = None,
    output: Output = "text",
) -> None:
    """Bring a cluster up, repair it, or say that it is there.

    Without --nodes, --gpus, --config, --kubernetes-version and --feature-gates an existing
    cluster is taken as it is. It stays until labkit down, unless --with-pid or --ttl is given.
    """
    _check_provider(provider)
    from labkit.cluster.handle import Cluster, lease_of
    from labkit.cluster.local import up as bring_up
    from labkit.cluster.spec import parse_gates, read_nodes
    from labkit.progress import for_stderr

    if config is not None and (nodes is not None or gpus is not None):
        raise BadInput("--config says which nodes there are; leave out --nodes and --gpus")
    lease = lease_of(stay=with_pid is None, pid=with_pid or 0, ttl_s=_seconds(ttl))
    asked = [nodes, gpus, config, kubernetes_version, feature_gates]
    spec = None if any(each is not None for each in asked) else _existing(name)
    if spec is None:
        cluster = Cluster.local(
            name,
            nodes=read_nodes(config) if config else (1 if nodes is None else nodes),
            gpus=gpus,
            kubernetes_version=kubernetes_version,
            feature_gates=parse_gates(feature_gates or []),
        )
        spec = cluster.spec
    outcome = bring_up(spec, lease, for_stderr())
    found = Cluster.attach(name)
    if output == "json":
        print_json({"outcome": outcome, **found.status().to_json()})
        return
    words = {"created": "is up", "repaired": "is whole again", "adopted": "was up already"}
    machines = _counted([node.gpus or "no GPUs" for node in spec.nodes])
    print(f"cluster {name} {words[outcome]}: Kubernetes {spec.kubernetes_version}, {machines}")
    if outcome == "created":
        option = "" if name == DEFAULT_NAME else f" --name {name}"
        print(f"try:  labkit kubectl{option} get nodes,resourceslices")
        print(f"or:   export KUBECONFIG='{found.kubeconfig}'")


def down(name: Name = DEFAULT_NAME, provider: Provider = "local") -> None:
    """End a cluster and leave nothing of it."""
    _check_provider(provider)
    from labkit.cluster import local
    from labkit.cluster.layout import Layout
    from labkit.cluster.spec import checked_name

    gone = local.end(Layout.of(checked_name(name)))
    print(f"cluster {name} is gone" if gone else f"there is no cluster {name}")


def status(
    name: Name = DEFAULT_NAME, provider: Provider = "local", output: Output = "text"
) -> None:
    """Show how a cluster is doing; exit code 1 unless it is ready."""
    _check_provider(provider)
    from labkit.cluster import overview
    from labkit.cluster.layout import Layout
    from labkit.cluster.spec import checked_name

    found = overview.status(Layout.of(checked_name(name)))
    if output == "json":
        print_json(found.to_json())
    else:
        print("\n".join(_status_lines(found)))
    if found.state != "ready":
        raise typer.Exit(1)


def list_clusters(provider: Provider = "local", output: Output = "text") -> None:
    """List all clusters of yours."""
    _check_provider(provider)
    from labkit.cluster import overview
    from labkit.cluster.layout import Layout

    found = [overview.status(Layout.of(name)) for name in overview.names()]
    if output == "json":
        print_json([each.to_json() for each in found])
        return
    if not found:
        print("there are no clusters")
        return
    rows = [
        (each.name, each.provider, each.state, each.kubernetes_version, f"{len(each.nodes)}")
        for each in found
    ]
    print("\n".join(_table(("NAME", "PROVIDER", "STATE", "VERSION", "NODES"), rows)))


def prune(
    provider: Provider = "local",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """End clusters whose owner is gone and remove what broken ones have left."""
    _check_provider(provider)
    from labkit.cluster import local, overview

    found = list(overview.abandoned())
    for layout, reason in found:
        if not dry_run:
            local.end(layout)
        print(f"{'would remove' if dry_run else 'removed'} {layout.name}: {reason}")
    if not found:
        print("nothing to prune")


def logs(
    component: Annotated[str | None, typer.Argument(help="Whose log; all when left out.")] = None,
    name: Name = DEFAULT_NAME,
    provider: Provider = "local",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    tail: Annotated[int, typer.Option("--tail", help="How many lines, -1 for all.")] = 20,
) -> None:
    """Print the logs of a cluster's components."""
    _check_provider(provider)
    from labkit.cluster import logs as log_files
    from labkit.cluster.layout import Layout
    from labkit.cluster.spec import checked_name

    layout = Layout.of(checked_name(name))
    chosen = log_files.choose(layout, component)
    try:
        for line in log_files.lines(layout, chosen, tail=tail, follow=follow):
            print(line, flush=follow)
    except KeyboardInterrupt:
        if not follow:
            raise


def kubectl(
    context: typer.Context, name: Name = DEFAULT_NAME, provider: Provider = "local"
) -> None:
    """Run kubectl on a cluster; labkit's own options come first."""
    _check_provider(provider)
    from labkit.cluster.handle import Cluster

    argv, env = Cluster.attach(name).kubectl_command(*context.args)
    sys.stdout.flush()
    try:
        os.execve(argv[0], argv, env)  # noqa: S606 - signals and exit code are kubectl's own
    except OSError as exc:
        raise ClusterError(
            f"{argv[0]} cannot be run: {exc.strerror}", hint="labkit tools get kubectl"
        ) from exc


def _check_provider(provider: str) -> None:
    if provider not in PROVIDERS:
        raise BadInput(
            f"there is no provider {provider!r}", hint=f"choose one of: {', '.join(PROVIDERS)}"
        )


def _existing(name: str) -> Any:
    from labkit.cluster import making
    from labkit.cluster.layout import Layout
    from labkit.cluster.spec import checked_name

    layout = Layout.of(checked_name(name))
    known = making.read_cluster(layout)
    return known[0] if known and layout.ready_file.exists() else None


def _seconds(ttl: str | None) -> float:
    if ttl is None:
        return 0.0
    found = _DURATION.fullmatch(ttl)
    if not found or not int(found[1]):
        raise BadInput(f"{ttl!r} is not a time", hint="write it as in 30s, 90m, 8h or 2d")
    return float(int(found[1]) * _SECONDS[found[2]])


def _status_lines(found: Status) -> list[str]:
    if found.state == "absent":
        return [f"there is no cluster {found.name}"]
    lines = [f"cluster     {found.name}: {found.state}"]
    lines += [f"  trouble   {text}" for text in found.trouble]
    lines += [
        f"provider    {found.provider}, Kubernetes {found.kubernetes_version or '?'}",
        f"lease       {found.lease or '?'}",
        f"kubeconfig  {found.kubeconfig}",
        "",
    ]
    nodes = [
        (
            node.name,
            "yes" if node.ready else "no",
            Path(node.machine).stem or "-",
            str(node.devices),
        )
        for node in found.nodes
    ]
    if nodes:
        lines += [*_table(("NODE", "READY", "MACHINE", "DEVICES"), nodes), ""]
    rows = [
        (c.name, str(c.pid or "down"), str(c.restarts), f"{c.resident_bytes / 1e6:.0f} MB")
        for c in found.components
    ]
    total = sum(c.resident_bytes for c in found.components) / 1e6
    rows.append(("all", "", "", f"{total:.0f} MB"))
    return [*lines, *_table(("COMPONENT", "PID", "RESTARTS", "RESIDENT"), rows)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]


def _counted(words: Sequence[str]) -> str:
    kinds = dict.fromkeys(words)
    return " and ".join(f"{words.count(kind)} x {Path(kind).stem}" for kind in kinds)
