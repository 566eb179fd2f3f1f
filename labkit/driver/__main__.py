"""The driver's process: ``python -m labkit.driver --node lab-0 --kubeconfig … …``."""

from __future__ import annotations

import sys

# httpx brings its own command line, and that brings rich and more: 5 MB that a process which
# runs once per node has no use for. httpx works without, as where they are not installed.
sys.modules["httpx._main"] = None  # type: ignore[assignment]

from labkit.driver.process import main  # noqa: E402 - the line above comes first

if __name__ == "__main__":
    sys.exit(main())
