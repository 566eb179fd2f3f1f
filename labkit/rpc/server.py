"""Both ends of a gRPC service whose messages come from `labkit.rpc.proto`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import grpc

from labkit.errors import LabError
from labkit.rpc.proto import Method, Schema

log = logging.getLogger(__name__)


class Refused(LabError):
    """A request is refused with a gRPC status of its own.

    Args:
        code: the status, e.g. ``grpc.StatusCode.NOT_FOUND``.
        message: what the caller reads.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def generic_handler(
    schema: Schema, service: str, implementation: object, *, package: str = ""
) -> grpc.GenericRpcHandler:
    """A handler to add to a ``grpc.Server``.

    Args:
        schema: where the service is declared.
        service: its name there.
        implementation: has a method in snake_case for each one that it offers, taking the
            request and returning the response (or an iterator of them). A method that is
            missing answers UNIMPLEMENTED. A `LabError` becomes the status of the call.
        package: another package to serve it under, for versions of one interface that
            differ in nothing else.
    """
    handlers = {}
    full_name = ""
    for name, method in schema.services[service].items():
        full_name = method.path.split("/")[1]
        call = getattr(implementation, snake_case(name), None)
        if call is not None:
            handlers[name] = _handler(method, call)
    if package:
        full_name = f"{package}.{service}"
    return grpc.method_handlers_generic_handler(full_name, handlers)


def _handler(method: Method, call: Callable[[Any], Any]) -> grpc.RpcMethodHandler[Any, Any]:
    def unary(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return call(request)
        except LabError as error:
            code = error.code if isinstance(error, Refused) else grpc.StatusCode.UNKNOWN
            context.abort(code, str(error))
        except Exception as error:
            log.exception("%s failed", method.path)
            context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")

    make = (
        grpc.unary_stream_rpc_method_handler
        if method.streams
        else grpc.unary_unary_rpc_method_handler
    )
    return make(
        (lambda request, _context: call(request)) if method.streams else unary,
        request_deserializer=method.request.FromString,
        response_serializer=method.response.SerializeToString,
    )


class Stub:
    """The calling end: ``stub.node_prepare_resources(request, timeout=10)``."""

    def __init__(self, channel: grpc.Channel, schema: Schema, service: str) -> None:
        for name, method in schema.services[service].items():
            make = channel.unary_stream if method.streams else channel.unary_unary
            call = make(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            setattr(self, snake_case(name), call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the service has no method {name!r}")


def snake_case(name: str) -> str:
    """``NodePrepareResources`` → ``node_prepare_resources``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
