"""What the kubelet asked for, kept until its client comes to fetch it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """A command to run in a container, and the ends of it that the client wants."""

    container_id: str
    argv: tuple[str, ...]
    tty: bool
    stdin: bool
    stdout: bool
    stderr: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachRequest:
    """A container to join, and the ends of its first process that the client wants."""

    container_id: str
    tty: bool
    stdin: bool
    stdout: bool
    stderr: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PortForwardRequest:
    """A pod whose ports are wanted.

    `ports` is set only for clients that name their ports up front (WebSocket); SPDY
    clients name one with each stream.
    """

    sandbox_id: str
    ports: tuple[int, ...] = ()


StreamRequest = ExecRequest | AttachRequest | PortForwardRequest
