"""``labkit run`` and ``labkit lab``: the course as tests, and in a browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from labkit.errors import BadInput, LabFailed, Unsupported


class Output(StrEnum):
    """How to print the results."""

    text = "text"
    json = "json"


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
    output: Annotated[Output, typer.Option("--output", "-o", help="Form.")] = Output.text,
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
    sources = [notebooks.find(one) for one in chosen]
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
    report.write_junit(results, output_dir / "junit.xml")
    pages = {result.lab: report.write_html(result.notebook) for result in results}
    if output is Output.json:
        typer.echo(json.dumps(report.as_json(results), indent=2))
    else:
        for result in results:
            verdict = "passed" if result.passed else "FAILED"
            typer.echo(
                f"{verdict}  {result.lab}  {result.cells}/{result.total} cells, "
                f"{len(result.exercises)} exercise(s), {result.seconds:.1f} s"
            )
            for problem in result.problems:
                typer.echo(f"        {problem}")
            typer.echo(f"        see {pages[result.lab] or result.notebook}")
    failed = [result.lab for result in results if not result.passed]
    if failed:
        raise LabFailed(f"{len(failed)} of {len(results)} lab(s) failed: {', '.join(failed)}")


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
    from labkit.course import notebooks
    from labkit.course.opening import CLUSTER_ENV

    _require("jupyterlab", "lab")
    cluster = Cluster.attach(name)
    folder.mkdir(parents=True, exist_ok=True)
    for source in notebooks.all_labs().values():
        target = folder / source.name
        if not target.exists():
            shutil.copyfile(source, target)
        elif target.read_bytes() != source.read_bytes():
            typer.echo(f"kept your {target}", err=True)
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.resolve()}"]
    if port:
        command.append(f"--ServerApp.port={port}")
    if not browser:
        command.append("--no-browser")
    environment = {
        **os.environ, CLUSTER_ENV: cluster.name, "KUBECONFIG": str(cluster.kubeconfig)
    }  # fmt: skip
    with subprocess.Popen(command, env=environment) as server:
        try:
            status = server.wait()
        except KeyboardInterrupt:
            # The terminal sends Ctrl-C to JupyterLab too, which asks, and ends at the second.
            server.terminate()
            status = server.wait()
    if status:
        raise typer.Exit(status)


def _require(module: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise Unsupported(f"{module} is not installed", hint=f"pip install 'labkit[{extra}]'")
