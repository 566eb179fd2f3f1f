"""Manifests as people write them: YAML in, plain dicts out, nothing lost on the way."""

from __future__ import annotations

from typing import Any

import yaml

from labkit.errors import BadInput
from labkit.kube.resources import Json


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: no duplicate keys, no dates."""

    # PyYAML would make a date of 2026-11-30, which JSON cannot carry.
    yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise _Refused(f"key {key!r} is not text; quote it", key_node.start_mark)
        if key in result:
            raise _Refused(f"key {key!r} stands twice in one object", key_node.start_mark)
        result[key] = loader.construct_object(value_node, deep=True)
    return result


class _Refused(Exception):
    def __init__(self, message: str, mark: yaml.Mark) -> None:
        super().__init__(message)
        self.line = mark.line + 1


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load(text: str, *, origin: str = "the manifest") -> list[Json]:
    """Read the objects of a multi-document YAML text.

    Empty documents are skipped and objects of kind ``List`` are opened.

    Args:
        text: YAML or JSON.
        origin: what the text is, for messages, e.g. a file name.

    Raises:
        BadInput: not YAML, a key stands twice, or a document is no Kubernetes object; the
            message names the line or the document.
    """
    try:
        documents = [item for item in yaml.load_all(text, Loader=_Loader) if item is not None]
    except _Refused as exc:
        raise BadInput(f"{origin}, line {exc.line}: {exc}") from exc
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else "?"
        raise BadInput(
            f"{origin}, line {line}: not YAML: {exc.problem}",
            hint="look at the indentation there and in the line before",
        ) from exc
    except yaml.YAMLError as exc:
        raise BadInput(f"{origin}: not YAML: {exc}") from exc
    objects: list[Json] = []
    for number, document in enumerate(documents, start=1):
        objects += _opened(document, f"{origin}, document {number}")
    return objects


def _opened(document: Any, origin: str) -> list[Json]:
    if not isinstance(document, dict):
        raise BadInput(f"{origin}: expected an object, found {type(document).__name__}")
    for key in ("apiVersion", "kind"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise BadInput(f"{origin}: '{key}' is missing", hint=f"add a line '{key}: …'")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        return [item for entry in document["items"] for item in _opened(entry, origin)]
    return [document]


def named(obj: Json) -> str:
    """How to call an object in a message, e.g. ``Pod/train`` or ``Pod/lab-1/train``."""
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or "?"
    return "/".join(part for part in (obj.get("kind"), metadata.get("namespace"), name) if part)
