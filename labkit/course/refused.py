"""What the API server says of a manifest, as the line of the cell that it is about."""

from __future__ import annotations

import re

import yaml

from labkit.errors import ApiError

_REQUEST = re.compile(r" \(\d{3}[^()]*, [A-Z]+ /\S*\)$")
_UNTYPED = re.compile(r"^failed to create (?:manager for existing|typed patch) object[^:]*: ?")
_INVALID = re.compile(r'^(?P<kind>\w+)[\w.]* "(?P<name>[^"]*)" is invalid: ?')
_FIELD = re.compile(r"\.?(?P<path>[A-Za-z][\w-]*(?:\.[A-Za-z][\w/-]*|\[[^\]]*\])*): (?P<why>.*)")
_STEP = re.compile(
    r"(?P<name>[A-Za-z][\w/-]*)|\[(?P<index>\d+)\]|\[(?P<key>\w+)=\"(?P<is>[^\"]*)\"\]"
)

UNKNOWN = "field not declared in schema"


def refused(error: ApiError, text: str, *, document: int, kind: str) -> ApiError:
    """The same refusal, short, with the line of each field that the server names.

    Args:
        error: what the API client raised.
        text: the YAML.
        document: which document of it was refused, from 0.
        kind: the kind of object in it.
    """
    message = _REQUEST.sub("", error.message)
    complaints = _INVALID.sub("", _UNTYPED.sub("", message)).removeprefix("errors:").strip()
    root = _root(text, document)
    lines, unknown = [], ""
    for complaint in complaints.splitlines():
        found = _FIELD.match(complaint.strip())
        if found is None:
            lines.append(complaint)
            continue
        path, why = found["path"], found["why"]
        line, depth = _line(root, path)
        lines.append(f"line {line}, {path}: {why}" if depth else f"{path}: {why}")
        if UNKNOWN in why and not unknown:
            unknown = _parent(path)
    hint = error.hint
    if unknown:
        place = f"{kind.lower()}.{unknown}".rstrip(".")
        hint = f"see which fields there are: %kubectl explain {place}"
    head = f"{kind} is refused"
    return ApiError(
        f"{head}: {lines[0]}" if len(lines) == 1 else "\n    ".join([f"{head}:", *lines]),
        status=error.status,
        reason=error.reason,
        hint=hint,
        see=error.see,
    )


def _parent(path: str) -> str:
    names = re.sub(r"\[[^\]]*\]", "", path).split(".")
    return ".".join(names[:-1])


def _root(text: str, document: int) -> yaml.Node | None:
    composed = yaml.compose_all(text, Loader=yaml.CSafeLoader)
    nodes = [node for node in composed if isinstance(node, yaml.MappingNode)]
    return nodes[document] if document < len(nodes) else None


def _line(root: yaml.Node | None, path: str) -> tuple[int, int]:
    """The line of a field, or of the nearest one above it that is there, and its depth."""
    node, depth = root, 0
    line = node.start_mark.line + 1 if node else 0
    for step in _STEP.finditer(path):
        found = _child(node, step)
        if found is None:
            break
        at, node = found
        line, depth = at.start_mark.line + 1, depth + 1
    return line, depth


def _child(node: yaml.Node | None, step: re.Match[str]) -> tuple[yaml.Node, yaml.Node] | None:
    """Where the step leads: the node that names it, and the node that it leads to."""
    if isinstance(node, yaml.MappingNode) and step["name"]:
        return next(((key, value) for key, value in node.value if key.value == step["name"]), None)
    if isinstance(node, yaml.SequenceNode) and step["index"]:
        index = int(step["index"])
        return (node.value[index], node.value[index]) if index < len(node.value) else None
    if isinstance(node, yaml.SequenceNode) and step["key"]:
        for item in node.value:
            if isinstance(item, yaml.MappingNode) and any(
                key.value == step["key"] and value.value == step["is"] for key, value in item.value
            ):
                return item, item
    return None
