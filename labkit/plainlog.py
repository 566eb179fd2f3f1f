"""The log of our own processes: plain lines on standard error."""

from __future__ import annotations

import logging
import sys
import time


def log_plainly() -> None:
    """Log as ``2026-11-30T23:00:00.000Z INFO message`` to standard error, in UTC."""
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
