"""``labkit run`` and ``labkit lab``: the course as tests, and in a browser."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labkit.cli.output import Output, print_json
from labkit.errors import BadInput, LabFailed, Unsupported

if TYPE_CHECKING:
    from labkit.cluster import Cluster

STOP_S = 10.0
"""How long JupyterLab may take to end, in seconds."""


_Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Which cluster.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("run")(run)
    app.command("lab")(lab)


def run(
    labs: Annotated[
        list[str] | None, typer.Argument(metavar="[LAB]...", help="Numbers, or notebooks.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Run the whole course.")] = False,
    name: _Name = "lab",
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Where executed notebooks and reports go.")
    ] = Path("reports"),
    output: Output = "text",
) -> None:
    """Run labs as tests on a cluster: fails when anything in them fails.

    Each exercise is checked before its solution, where it must fail, and after
    it, where it must pass.
    """
    from labkit.cluster import Cluster
    from labkit.course import notebooks, report, runner
    from labkit.progress import for_stderr

    chosen = list(notebooks.all_labs()) if everything else labs or []
    if not chosen:
        known = ", ".join(notebooks.all_labs())
        raise BadInput("which lab?", hint=f"name one of {known}, or say --all")
    sources = list(dict.fromkeys(notebooks.find(one) for one in chosen))
    _require("papermill", "course")
    cluster = Cluster.attach(name)
    progress = for_stderr()
    results = [
        runner.run(
            source,
            cluster=cluster.name,
            kubeconfig=cluster.kubeconfig,
            output_dir=output_dir,
            progress=progress,
        )
        for source in sources
    ]
    reports = report.write(results, output_dir)
    if output == "json":
        print_json(report.as_json(results, reports))
    else:
        for result in results:
            typer.echo(report.as_text(result, reports))
    failed = [result.lab for result in results if not result.passed]
    if failed:
        raise LabFailed(
            f"{len(failed)} of {len(results)} lab(s) failed: {', '.join(failed)}",
            see=f"labkit status --name {cluster.name}",
        )
    if output == "text":
        seconds = sum(result.seconds for result in results)
        typer.echo(f"{len(results)} lab(s) passed in {seconds:.1f} s; JUnit: {reports.junit}")


def lab(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Your own copy of the course.")
    ] = Path("labkit-course"),
    *,
    name: _Name = "lab",
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    port: Annotated[int, typer.Option(help="Port of JupyterLab; 0 takes a free one.")] = 0,
) -> None:
    """Open the course in JupyterLab, in a folder that is yours.

    What you changed there is never overwritten. Ctrl-C ends JupyterLab; the
    cluster stays until `labkit down`.
    """
    from labkit.cluster import Cluster
    from labkit.course import copying

    _require("jupyterlab", "lab")
    cluster = Cluster.attach(name)
    copied = copying.copy_course(folder)
    for path in copied.kept:
        typer.echo(f"{path} is yours and stays as it is", err=True)
    typer.echo(f"The course is in {folder.resolve()}. Ctrl-C ends JupyterLab.", err=True)
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={folder.resolve()}",
        # What a learner needs to see is the address; and nothing is fetched from elsewhere.
        "--Application.log_level=WARN",
        "--LabApp.news_url=None",
        "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if copied.first:
        command.append(f"--LabApp.default_url=/lab/tree/{copied.first.name}")
    if port:
        command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if not browser:
        command.append("--no-browser")
    if os.geteuid() == 0:  # as in a container; Jupyter wants that said
        command.append("--allow-root")
    status = _served(command, _environment(cluster))
    if status:
        raise typer.Exit(status)


def _environment(cluster: Cluster) -> dict[str, str]:
    """For the kernels and the terminals of JupyterLab: this cluster, and its kubectl."""
    from labkit.course.opening import CLUSTER_ENV

    argv, environment = cluster.kubectl_command()
    path = [str(Path(argv[0]).parent), os.environ.get("PATH", os.defpath)]
    return {**environment, CLUSTER_ENV: cluster.name, "PATH": os.pathsep.join(path)}


def _served(command: list[str], environment: dict[str, str]) -> int:
    """Run a server until it ends, or until Ctrl-C, which ends it without a question."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it as Ctrl-C does
    # Of its own process group: JupyterLab would take Ctrl-C as well, and ask whether it is meant.
    with subprocess.Popen(command, env=environment, process_group=0) as server:
        try:
            return server.wait()
        except KeyboardInterrupt:
            server.terminate()
            try:
                server.wait(STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
            return 0


def _require(module: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise Unsupported(f"{module} is not installed", hint=f"pip install 'labkit[{extra}]'")
