"""Objects shown as people read them: YAML, without the server's bookkeeping."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any

import yaml

from labkit.errors import BadInput

_BOOKKEEPING = ("managedFields",)


# JupyterLab's own colours, so that it fits light and dark; else what is near them.
_PRE = (
    '<pre style="font-family:var(--jp-code-font-family,monospace);'
    "font-size:var(--jp-code-font-size,0.9em);line-height:1.3;margin:0;"
    'padding:0;background:none;color:inherit">'
)
_KEY = '<span style="color:var(--jp-content-link-color,#0e7490)">'
_KEYS = re.compile(r"^((?:- | )*)([^\s:][^:\n]*)(?=:(?: |$))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as YAML: coloured in a notebook, plain elsewhere."""

    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        coloured = _KEYS.sub(rf"\1{_KEY}\2</span>", escape(self.text, quote=False))
        return {"text/html": f"{_PRE}{coloured}</pre>", "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text


def shown(value: Any, path: str = "") -> Shown:
    """Show a value, or a part of it.

    Args:
        value: anything that JSON can say.
        path: where the part is, e.g. ``status.allocation`` or ``spec.devices.0``.

    Raises:
        BadInput: there is no such part; the message says what is there.
    """
    for step in filter(None, path.split(".")):
        value = _part(value, step, path)
    if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        kept = {k: v for k, v in value["metadata"].items() if k not in _BOOKKEEPING}
        value = {**value, "metadata": kept}
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    return Shown(text.removesuffix("...\n"))


def _part(value: Any, step: str, path: str) -> Any:
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    if isinstance(value, dict) and step in value:
        return value[step]
    there = ", ".join(value) if isinstance(value, dict) else f"a {type(value).__name__}"
    raise BadInput(f"there is no {step!r} of {path!r} here; there is: {there}")
