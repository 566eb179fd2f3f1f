"""From the server's `Status` to an error that a person can act on."""

from __future__ import annotations

import json
from typing import Any

import httpx

from labkit.errors import ApiError

_HINTS = {
    "Forbidden": "this identity may not do that; look at its roles",
    "Conflict": "someone else changed it or owns the field; read it again, or apply with force",
    "AlreadyExists": "delete it first, take another name, or apply it",
    "Unauthorized": "the credentials do not fit this server; is the kubeconfig of another cluster?",
}


def refusal(response: httpx.Response) -> ApiError:
    """The error for an answer of 4xx or 5xx, with each field that the server names."""
    status = _status(response)
    reason = status.get("reason") or ""
    message = status.get("message") or response.text.strip()[:500] or response.reason_phrase
    causes = (status.get("details") or {}).get("causes") or []
    # The message joins all causes in one long line; a list can be read.
    if reason == "Invalid" and len(causes) > 1:
        message = message.split(": ", 1)[0] + " is invalid:" * ("invalid" not in message)
        message += "".join(f"\n    {_cause(cause)}" for cause in causes)
    request = f"{response.request.method} {response.request.url.path}"
    return ApiError(
        f"{message} ({response.status_code} {reason}, {request})".replace(" ,", ","),
        status=response.status_code,
        reason=reason,
        hint=_HINTS.get(reason, ""),
    )


def _status(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return {}
    return answer if isinstance(answer, dict) and answer.get("kind") == "Status" else {}


def _cause(cause: dict[str, Any]) -> str:
    field = cause.get("field") or ""
    return f"{field}: {cause.get('message', '')}" if field else str(cause.get("message", ""))
