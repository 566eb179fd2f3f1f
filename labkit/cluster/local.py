"""The embedded cluster: real Kubernetes components as processes of an ordinary user."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from labkit.cluster import creator, making, members, nodespace, ports, records, supervisor
from labkit.cluster.controlplane import APISERVER, BINARIES, Choices
from labkit.cluster.layout import Layout
from labkit.cluster.lease import Lease, poke
from labkit.cluster.processes import Process
from labkit.cluster.removal import remove
from labkit.cluster.spec import ClusterSpec
from labkit.errors import BadInput, ClusterError, LabError
from labkit.files import write_atomically
from labkit.progress import Progress
from labkit.waiting import NotYet, Seen, wait_until

Outcome = Literal["created", "repaired", "adopted"]
"""What `up` had to do."""

END_S = 30.0
"""How long a supervisor may take to end its cluster, in seconds."""


def up(spec: ClusterSpec, lease: Lease, progress: Progress) -> Outcome:
    """Bring a cluster up, whatever state it is in, and say what had to be done.

    Safe to run again and from several processes at once. When a cluster that this call
    has begun does not come up, or the call is interrupted, nothing of it stays.

    Args:
        spec: what it shall be.
        lease: whom it belongs to once it is up.
        progress: shows what happens.

    Raises:
        BadInput: there is a cluster of that name that is otherwise.
        Unsupported: this host refuses what a node needs.
        ClusterError: a component does not run; with its last words.
    """
    layout = Layout.of(spec.name)
    while True:
        with creator.sole(layout):
            if layout.wanted_file.exists():
                end(layout)
                continue
            with _plain_words(layout):
                outcome = _up_alone(layout, spec, lease, progress)
        if outcome:
            return outcome


def _up_alone(
    layout: Layout, spec: ClusterSpec, lease: Lease, progress: Progress
) -> Outcome | None:
    known = making.read_cluster(layout)
    if known is None or not layout.ready_file.exists():
        _create(layout, spec, lease, progress)
        return "created"
    _check_same(known[0], spec)
    # Ours from here on, so that it does not end under our hands.
    kept = Lease.read(layout)
    kept.joined_by(_own_lease()).write(layout)
    outcome: Outcome = "adopted"
    if not _is_ready(layout, spec):
        _repair(layout, *known, progress)
        outcome = "repaired"
    if layout.wanted_file.exists() or not layout.folder.exists():
        return None  # it was about to end when we came
    kept.joined_by(lease).write(layout)
    return outcome


def _check_same(known: ClusterSpec, asked: ClusterSpec) -> None:
    differences = known.differences(asked)
    if differences:
        raise BadInput(
            f"cluster {known.name!r} is there and has {'; '.join(differences)}",
            hint="end it with labkit down, or choose another --name",
            see=f"labkit status --name {known.name}",
        )


def _create(layout: Layout, spec: ClusterSpec, lease: Lease, progress: Progress) -> None:
    held: list[socket.socket] = []
    try:
        _clear(layout)
        _check_host(layout, spec)
        binaries = _binaries(spec, progress)
        with progress.step(f"cluster {spec.name}"):
            choices = making.choose(spec, binaries, held)
            _own_lease().write(layout)
            making.lay_out(layout, spec, choices)
            _start_and_wait(layout, spec, choices)
            layout.ready_file.touch(mode=0o600)
        lease.write(layout)
    except BaseException:
        end(layout)
        raise
    finally:
        for holder in held:
            holder.close()


def _repair(layout: Layout, spec: ClusterSpec, choices: Choices, progress: Progress) -> None:
    with progress.step(f"repairing cluster {spec.name}"):
        if not supervisor.is_there(layout):
            _check_host(layout, spec)
            binaries = _binaries(spec, progress)
            choices = replace(
                choices,
                ports=_usable_ports(layout, spec, choices),
                binaries={name: str(path) for name, path in binaries.items()},
            )
            for record in records.read_all(layout):
                if not record.is_alive:
                    layout.record(record.name).unlink(missing_ok=True)
            making.write_settings(layout, spec, choices)
        _start_and_wait(layout, spec, choices)


def _usable_ports(layout: Layout, spec: ClusterSpec, choices: Choices) -> dict[str, int]:
    """The ports the cluster had, or others when a stranger has taken one of them."""
    if any(record.is_alive for record in records.read_all(layout)):
        return dict(choices.ports)
    try:
        for port in choices.ports.values():
            ports.reserve(port).close()
    except OSError:
        held: list[socket.socket] = []
        members.end_all(layout.folder)
        chosen = making.choose_ports(spec, held)
        for holder in held:
            holder.close()
        return chosen
    return dict(choices.ports)


def _start_and_wait(layout: Layout, spec: ClusterSpec, choices: Choices) -> None:
    from labkit.cluster import readiness

    if not supervisor.is_there(layout):
        supervisor.start(layout)
    readiness.bring_to_ready(layout, spec, choices.ports[APISERVER])


def _check_host(layout: Layout, spec: ClusterSpec) -> None:
    from labkit.gpus import machines

    for machine in {node.gpus for node in spec.nodes if node.gpus}:
        machines.load(machine)
    nodespace.check_supported()
    making.check_room(layout.folder)


def _binaries(spec: ClusterSpec, progress: Progress) -> dict[str, Path]:
    from labkit.tools import ensure

    found = ensure(BINARIES, kubernetes_version=spec.kubernetes_version, progress=progress)
    # A link below /var would not be seen in a node, which has a /var of its own.
    return {name: path.resolve() for name, path in found.items()}


def _own_lease() -> Lease:
    own = Process.at(os.getpid())
    assert own is not None
    return Lease(owners=(own,))


@contextmanager
def _plain_words(layout: Layout) -> Iterator[None]:
    """Turn what the file system says into what has happened."""
    try:
        yield
    except OSError as exc:
        if exc.errno == errno.ENOSPC:
            raise ClusterError(
                f"the disk is full at {layout.folder}",
                hint="make room, or set LABKIT_STATE_DIR to a folder on another disk",
            ) from exc
        if not layout.cluster_file.exists() and exc.errno == errno.ENOENT:
            raise ClusterError(f"cluster {layout.name!r} was taken down while it came up") from exc
        raise ClusterError(f"cluster {layout.name!r}: {exc}") from exc


# Looking


def _is_ready(layout: Layout, spec: ClusterSpec) -> bool:
    from labkit.cluster import readiness
    from labkit.kube import Client

    if not supervisor.is_there(layout) or not all(r.is_alive for r in records.read_all(layout)):
        return False
    try:
        with Client.from_kubeconfig(layout.kubeconfig) as client:
            return isinstance(readiness.look(client, spec), Seen)
    except LabError:
        return False


# Ending


def end(layout: Layout) -> bool:
    """End a cluster and remove everything of it; False when there was nothing.

    Raises:
        ClusterError: something of it could not be removed.
    """
    if not layout.folder.exists():
        return False
    told = False
    with suppress(OSError):  # on a full disk we do without the supervisor's help
        write_atomically(layout.wanted_file, "absent")
        told = True
    poke(layout)
    if told and supervisor.is_there(layout):
        with suppress(LabError):
            wait_until(
                lambda: NotYet("it runs") if supervisor.is_there(layout) else Seen(None),
                what="the supervisor to end",
                timeout_s=END_S,
                interval_s=0.03,
            )
    _clear(layout, everything=True)
    return True


def _clear(layout: Layout, *, everything: bool = False) -> None:
    """End what runs and remove what lies about of an unfinished or ended cluster."""
    left = members.end_all(layout.folder)
    if left:
        raise ClusterError(
            f"processes {', '.join(str(p.pid) for p in left)} of {layout.name!r} do not end"
        )
    try:
        if everything:
            remove(layout.folder)
            with suppress(OSError):
                layout.folder.parent.rmdir()
            return
        for path in layout.folder.iterdir():
            if path == layout.creator_lock:
                continue
            remove(path) if path.is_dir() else path.unlink()
    except OSError as exc:
        raise ClusterError(f"{exc.filename} cannot be removed: {exc.strerror}") from exc
