"""The ``labkit`` command."""

from labkit.cli.app import main

__all__ = ["main"]
