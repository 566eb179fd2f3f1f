"""gRPC without generated code: messages built at run time from our own .proto files.

::

    *.proto ──► proto.load ──► message classes, methods
                                  │
                  server.generic_handler, server.Stub
"""

from __future__ import annotations

from labkit.rpc.proto import Method, Schema, load
from labkit.rpc.server import Refused, Stub, generic_handler

__all__ = ["Method", "Refused", "Schema", "Stub", "generic_handler", "load"]
