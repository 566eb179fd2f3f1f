"""A reader of the proto3 subset that the kubelet's interfaces use.

Messages (with nested ones, maps, optional and repeated fields), enums and services are
understood; imports, oneofs, groups, options and extensions are not, and are refused by
name and line. The wire format itself is the protobuf library's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from labkit.errors import BadInput

_Field = descriptor_pb2.FieldDescriptorProto
_Message = descriptor_pb2.DescriptorProto

_SCALARS = {
    "bool": _Field.TYPE_BOOL, "bytes": _Field.TYPE_BYTES, "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT, "int32": _Field.TYPE_INT32, "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING, "uint32": _Field.TYPE_UINT32, "uint64": _Field.TYPE_UINT64,
}  # fmt: skip

_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<token>\"[^\"]*\"|[\w.]+|[{}()<>=;,])", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method of a service.

    Attributes:
        path: full name on the wire, ``/package.Service/Method``.
        request: message class of the request.
        response: message class of the response.
        streams: whether the server answers with a stream.
    """

    path: str
    request: Any
    response: Any
    streams: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What a .proto file declares.

    Attributes:
        messages: message classes by name; nested ones are reached through their parents.
        services: methods by their name, by the service's name.
    """

    messages: Mapping[str, Any]
    services: Mapping[str, Mapping[str, Method]]


def load(path: Path) -> Schema:
    """Read a .proto file and build its messages, in a pool of their own.

    Raises:
        BadInput: the file uses something that is not understood; the message says where.
    """
    parser = _Parser(path.read_text(encoding="utf-8"), path.name)
    file = parser.file()
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    prefix = f"{file.package}." if file.package else ""

    def message(name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(prefix + name))

    services = {
        service: {
            method: Method(
                path=f"/{prefix}{service}/{method}",
                request=message(request),
                response=message(response),
                streams=streams,
            )
            for method, request, response, streams in methods
        }
        for service, methods in parser.services.items()
    }
    messages = {entry.name: message(entry.name) for entry in file.message_type}
    return Schema(messages=messages, services=services)


class _Parser:
    """Recursive descent over the tokens of one file."""

    def __init__(self, text: str, origin: str) -> None:
        self._origin = origin
        self._tokens = list(_tokens(text, origin))
        self._at = 0
        self._maps: list[_Message] = []
        self.services: dict[str, list[tuple[str, str, str, bool]]] = {}

    def file(self) -> descriptor_pb2.FileDescriptorProto:
        file = descriptor_pb2.FileDescriptorProto(name=self._origin, syntax="proto3")
        while self._at < len(self._tokens):
            match self._take():
                case "syntax":
                    self._expect("=")
                    self._expect('"proto3"')
                    self._expect(";")
                case "package":
                    file.package = self._take()
                    self._expect(";")
                case "message":
                    self._message(file.message_type.add())
                case "enum":
                    self._enum(file.enum_type.add())
                case "service":
                    self._service()
                case other:
                    raise self._refused(f"{other!r} is not understood")
        _resolve(file)
        return file

    def _message(self, message: _Message) -> None:
        message.name = self._take()
        self._expect("{")
        while (word := self._take()) != "}":
            if word == "message":
                self._message(message.nested_type.add())
            elif word == "enum":
                self._enum(message.enum_type.add())
            elif word == "map":
                self._map(message)
            else:
                self._field(message, word)

    def _field(self, message: _Message, word: str) -> None:
        label = word if word in ("repeated", "optional") else ""
        kind = self._take() if label else word
        name = self._take()
        self._expect("=")
        field = message.field.add(name=name, number=self._number())
        field.label = _Field.LABEL_REPEATED if label == "repeated" else _Field.LABEL_OPTIONAL
        _set_type(field, kind)
        if label == "optional":
            # proto3 keeps "is it there" of a scalar by a oneof of one.
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
        self._expect(";")

    def _map(self, message: _Message) -> None:
        self._expect("<")
        key = self._take()
        self._expect(",")
        value = self._take()
        self._expect(">")
        name = self._take()
        self._expect("=")
        # On the wire a map is a repeated message of key and value, named after the field.
        entry = message.nested_type.add(name="".join(map(_upper, name.split("_"))) + "Entry")
        entry.options.map_entry = True
        for number, (part, kind) in enumerate((("key", key), ("value", value)), start=1):
            field = entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL)
            _set_type(field, kind)
        field = message.field.add(name=name, number=self._number(), label=_Field.LABEL_REPEATED)
        _set_type(field, f"{message.name}.{entry.name}")
        self._expect(";")

    def _enum(self, enum: descriptor_pb2.EnumDescriptorProto) -> None:
        enum.name = self._take()
        self._expect("{")
        while (name := self._take()) != "}":
            self._expect("=")
            enum.value.add(name=name, number=self._number())
            self._expect(";")

    def _service(self) -> None:
        methods = self.services.setdefault(self._take(), [])
        self._expect("{")
        while self._take() != "}":
            name = self._take()
            request = self._between()[0]
            self._expect("returns")
            *stream, response = self._between()
            methods.append((name, request, response, bool(stream)))
            self._expect(";")

    def _between(self) -> list[str]:
        self._expect("(")
        words = []
        while (word := self._take()) != ")":
            words.append(word)
        return words

    def _number(self) -> int:
        word = self._take()
        if not word.isdecimal():
            raise self._refused(f"expected a number, found {word!r}")
        return int(word)

    def _expect(self, wanted: str) -> None:
        found = self._take()
        if found != wanted:
            raise self._refused(f"expected {wanted!r}, found {found!r}")

    def _take(self) -> str:
        if self._at == len(self._tokens):
            raise self._refused("the file ends too early")
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _refused(self, message: str) -> BadInput:
        line = self._tokens[self._at - 1][1] if self._tokens else 1
        return BadInput(f"{self._origin}, line {line}: {message}")


def _tokens(text: str, origin: str) -> Iterator[tuple[str, int]]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise BadInput(f"{origin}, line {line}: {text[at]!r} is not understood")
        if match["token"]:
            yield match["token"], line
        line += match[0].count("\n")
        at = match.end()


def _upper(part: str) -> str:
    return part[:1].upper() + part[1:]


def _set_type(field: _Field, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type_name = kind  # message or enum: known once the whole file is read


def _resolve(file: descriptor_pb2.FileDescriptorProto) -> None:
    """Give every named type its full name and say whether it is a message or an enum."""
    prefix = f".{file.package}." if file.package else "."
    kinds: dict[str, _Field.Type.ValueType] = {
        prefix + enum.name: _Field.TYPE_ENUM for enum in file.enum_type
    }
    messages = list(_nested(file.message_type, prefix))
    for full, message in messages:
        kinds[full] = _Field.TYPE_MESSAGE
        kinds.update({f"{full}.{enum.name}": _Field.TYPE_ENUM for enum in message.enum_type})
    for full, message in messages:
        for field in message.field:
            if field.type_name:
                field.type_name = _full_name(field.type_name, full, kinds, file.name)
                field.type = kinds[field.type_name]


def _nested(messages: Any, prefix: str) -> Iterator[tuple[str, _Message]]:
    for message in messages:
        yield prefix + message.name, message
        yield from _nested(message.nested_type, f"{prefix}{message.name}.")


def _full_name(name: str, scope: str, kinds: Mapping[str, Any], origin: str) -> str:
    while True:
        if f"{scope}.{name}" in kinds:
            return f"{scope}.{name}"
        if not scope:
            raise BadInput(f"{origin}: type {name!r} is not declared")
        scope = scope.rpartition(".")[0]
