"""How a command ended, in the words that `kubectl` expects on the last channel."""

from __future__ import annotations

import json
from http import HTTPStatus

EXIT_CODE_MASK = 0xFF
"""Clients parse an exit code as eight bits."""


def ended_with(exit_code: int) -> bytes:
    """Return the Status of a command that ran and ended with `exit_code`."""
    code = exit_code & EXIT_CODE_MASK
    if code == 0:
        return _status(status="Success")
    return _status(
        status="Failure",
        reason="NonZeroExitCode",
        message=f"command terminated with exit code {code}",
        details={"causes": [{"reason": "ExitCode", "message": str(code)}]},
    )


def failed(message: str) -> bytes:
    """Return the Status of a command that could not be run, or not be followed."""
    return _status(
        status="Failure",
        reason="InternalError",
        message=message,
        code=HTTPStatus.INTERNAL_SERVER_ERROR.value,
    )


def _status(**fields: object) -> bytes:
    obj = {"apiVersion": "v1", "kind": "Status", "metadata": {}, **fields}
    return json.dumps(obj, separators=(",", ":")).encode()
