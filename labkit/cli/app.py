"""Puts the commands together and turns errors into a few lines and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 this host cannot do it,
4 waited in vain, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from labkit.cli import cluster, run, tools
from labkit.errors import LabError

HELP = """A GPU lab on Kubernetes Dynamic Resource Allocation, on your own machine.

Real Kubernetes components, GPUs as data: what you learn here is what NVIDIA's
DRA driver does on hardware.

Start here:

    labkit up                   a cluster with eight H100s, in seconds
    labkit run 01               the first lab, as a test
    labkit lab                  the course in JupyterLab
    labkit kubectl get pods     kubectl on that cluster, and on no other
    labkit down                 leaves nothing behind
"""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report it."""


def build() -> typer.Typer:
    """The command-line application, with every room's commands registered."""
    app = typer.Typer(
        name="labkit",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    )

    @app.callback()
    def options(
        show_version: Annotated[
            bool, typer.Option("--version", help="Print labkit's version and exit.")
        ] = False,
    ) -> None:
        if show_version:
            typer.echo(f"labkit {version('labkit')}")
            raise typer.Exit

    for room in (cluster, run, tools):
        room.register(app)
    return app


def main() -> None:
    """Run the command line; the entry point of ``labkit`` and ``python -m labkit``."""
    try:
        build()(standalone_mode=True)
    except LabError as error:
        print(f"labkit: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print("labkit: interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of a pipe (head, less) went away: not an error worth a word.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
