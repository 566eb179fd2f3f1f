"""How commands print what they found."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

Output = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print.")]
"""The option that every command has which prints something to be read."""


def print_json(data: object) -> None:
    """Print data as JSON that people can read, too."""
    print(json.dumps(data, indent=2))
