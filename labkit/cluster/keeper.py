"""Keeps the processes of a plan running: starts, adopts, restarts and ends them.

Nothing here asks twice: every process has a pidfd, the control pipe and the signals have
descriptors too, and one `poll` waits for all of them. Only a component that waits for
another one's socket is looked at again and again, for as long as that takes.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time

from labkit.cluster import members, nodespace, ports, processes
from labkit.cluster.gates import Gates
from labkit.cluster.layout import Layout, read_json
from labkit.cluster.lease import Lease
from labkit.cluster.plan import Component, NodePlan, Plan
from labkit.cluster.processes import CLUSTER_ENV, Process
from labkit.files import write_atomically

NODE_ENV = "LABKIT_NODE"
"""Set in every process of a node to the node's name."""

GATE_S = 0.02
"""Pause between two looks at a socket that a component waits for, in seconds."""

STEADY_S = 10.0
"""A process that lived this long is restarted at once; a younger one after a pause."""

MAX_PAUSE_S = 5.0
"""Longest pause before a restart, in seconds."""

PATIENCE_S = 3.0
"""How long a component waits for what it can do without, in seconds."""

RECORD_S = 10.0
"""Pause between two attempts to leave a note that a full disk refused, in seconds."""

GRACE_S = 2.0
"""What a component gets between SIGTERM and SIGKILL, in seconds."""

STANDBY = "standby"
SUPERVISOR = "supervisor"


def say(text: str) -> None:
    """One line of the supervisor's log."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    print(f"{stamp}Z INFO {text}", file=sys.stderr, flush=True)


def holder_name(node: str) -> str:
    """What the process is called that holds a node's namespaces open."""
    return f"holder-{node}"


@dataclass(slots=True)
class Kept:
    """A component and the process that it is just now."""

    component: Component
    process: Process | None = None
    handle: int = -1
    child: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    deaths: int = 0
    born: float = 0.0
    due: float = 0.0
    hoping: float = 0.0
    last_exit: str = ""
    recorded: bool = True
    holds: dict[int, socket.socket] = field(default_factory=dict)


class Keeper:
    """Keeps one plan running until told otherwise.

    Args:
        layout: the cluster's folder.
        plan: what to run.
        standby: command line of the process that takes over when this one is killed;
            empty for none.
    """

    def __init__(self, layout: Layout, plan: Plan, *, standby: tuple[str, ...] = ()) -> None:
        self.layout = layout
        self._nodes = {node.name: node for node in plan.nodes}
        holders = [Component(name=holder_name(n.name), argv=(), node=n.name) for n in plan.nodes]
        self._kept = [Kept(component) for component in (*holders, *plan.components)]
        self._standby = [Kept(Component(name=STANDBY, argv=standby))] if standby else []
        self._by_handle: dict[int, Kept] = {}
        self._helpers: list[subprocess.Popen[bytes]] = []
        self._gates = Gates()
        self._poll = select.poll()

    # Taking over

    def adopt(self) -> None:
        """Take over the processes that an earlier supervisor has started and that live."""
        for kept in self._everything():
            record = read_json(self.layout.record(kept.component.name))
            process = Process.from_json(record)
            if process is None or process.pid == os.getpid():
                continue
            kept.restarts = int(record.get("restarts", 0))
            handle = process.open()
            if handle is not None:
                self._watch(kept, process, handle)
                say(f"{kept.component.name} is alive as {process.pid}")

    def listen(self, *handles: int) -> None:
        """Wake up also when one of these descriptors becomes readable."""
        for handle in handles:
            self._poll.register(handle, select.POLLIN)

    def forget(self, handle: int) -> None:
        """Wake up no more for a descriptor."""
        self._poll.unregister(handle)

    # Running

    def turn(self, until: float = 0.0) -> list[int]:
        """Start what is due, wait for something to happen, take note of what has died.

        Args:
            until: seconds since the epoch at which to be back in any case; 0 for never.

        Returns:
            those of the descriptors given to `listen` that are readable.
        """
        self._start_due()
        ready = [handle for handle, _ in self._poll.poll(self._pause_ms(until))]
        for handle in ready:
            if handle in self._by_handle:
                self._buried(self._by_handle[handle])
        for kept in self._everything():
            if not kept.recorded:
                self._record(kept)
        self._helpers = [helper for helper in self._helpers if helper.poll() is None]
        return [handle for handle in ready if handle not in self._by_handle]

    def _pause_ms(self, until: float) -> float | None:
        now = monotonic()
        pauses = [max(k.due - now, GATE_S) for k in self._everything() if k.process is None]
        if until:
            pauses.append(max(until - time(), 0.0))
        if self._helpers:
            pauses.append(1.0)
        if not all(kept.recorded for kept in self._everything()):
            pauses.append(RECORD_S)
        return min(pauses) * 1000 if pauses else None

    def _start_due(self) -> None:
        now = monotonic()
        for kept in self._everything():
            if kept.process is None and kept.due <= now and self._may_start(kept, now):
                self._start(kept)

    def _may_start(self, kept: Kept, now: float) -> bool:
        component = kept.component
        if component.node and component.name != holder_name(component.node):
            holder = self._find(holder_name(component.node))
            if holder.process is None:
                return False
        if not all(self._gates.is_open(what) for what in component.waits_for):
            return False
        kept.hoping = kept.hoping or now
        patient = now - kept.hoping < PATIENCE_S
        return not patient or all(self._gates.is_open(what) for what in component.hopes_for)

    def _start(self, kept: Kept) -> None:
        component = kept.component
        log = os.open(
            self.layout.log(component.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        try:
            self._keep_ports(kept)
            kept.child = self._spawn(component, log)
        except OSError as error:
            say(f"{component.name} cannot be started: {error}")
            self._died(kept, f"not started: {error}")
            return
        finally:
            os.close(log)
        process = Process.at(kept.child.pid)
        handle = process.open() if process else None
        if process is None or handle is None:
            self._died(kept, f"exit code {kept.child.wait()}")
            return
        kept.born, kept.hoping = monotonic(), 0.0
        self._watch(kept, process, handle)
        say(f"{component.name} started as {process.pid}")
        if kept.deaths and component.on_restart:
            self._help(component)

    def _spawn(self, component: Component, log: int) -> subprocess.Popen[bytes]:
        env = {**os.environ, **component.env, CLUSTER_ENV: str(self.layout.folder)}
        argv = list(component.argv)
        if component.node:
            env[NODE_ENV] = component.node
            node = self._nodes[component.node]
            member = self._member(component.node)
            if component.name == holder_name(component.node):
                return self._spawn_holder(node, member, env, log)
            if member is None:
                raise OSError("the node's namespaces are gone")
            argv = [*nodespace.enter_argv(member), *argv]
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.layout.folder,
            env=env,
            # A session of its own: neither a terminal's Ctrl-C nor our death reaches it.
            start_new_session=True,
        )

    def _spawn_holder(
        self, node: NodePlan, member: Process | None, env: dict[str, str], log: int
    ) -> subprocess.Popen[bytes]:
        nodespace.make_folders(Path(node.var))
        return nodespace.start_holder(nodespace.holder_argv(node, member), env=env, errors=log)

    def _member(self, node: str) -> Process | None:
        """A living process in the node's namespaces, the holder if it lives."""
        for kept in self._kept:
            if kept.component.node == node and kept.process and kept.process.is_alive():
                return kept.process
        return self._stray_member(node)

    def _stray_member(self, node: str) -> Process | None:
        # None of ours is left, but a monitor of a running container may be.
        own = nodespace.user_namespace(os.getpid())
        mark = f"{NODE_ENV}={node}".encode()
        for process in processes.of_cluster(self.layout.folder):
            if nodespace.user_namespace(process.pid) not in {0, own} and mark in _environ(process):
                return process
        return None

    def _keep_ports(self, kept: Kept) -> None:
        for port in kept.component.ports:
            if port not in kept.holds:
                kept.holds[port] = ports.reserve(port)

    def _help(self, component: Component) -> None:
        with self.layout.log(component.name).open("ab") as log:
            self._helpers.append(
                subprocess.Popen(
                    component.on_restart,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.layout.folder,
                    env={**os.environ, **component.env, CLUSTER_ENV: str(self.layout.folder)},
                    start_new_session=True,
                )
            )

    # Births and deaths

    def _watch(self, kept: Kept, process: Process, handle: int) -> None:
        kept.process, kept.handle = process, handle
        self._by_handle[handle] = kept
        self._poll.register(handle, select.POLLIN)
        self._record(kept)

    def _buried(self, kept: Kept) -> None:
        self._poll.unregister(kept.handle)
        del self._by_handle[kept.handle]
        os.close(kept.handle)
        kept.handle = -1
        code = kept.child.wait() if kept.child else None
        verdict = "ended" if code is None else _verdict(code)
        say(f"{kept.component.name} {verdict}")
        self._died(kept, verdict)

    def _died(self, kept: Kept, verdict: str) -> None:
        lived_long = kept.process is not None and monotonic() - kept.born > STEADY_S
        kept.deaths = 1 if lived_long else kept.deaths + 1
        kept.process, kept.child = None, None
        kept.restarts += 1
        kept.last_exit = verdict
        # The first restart is immediate; then 0.2 s, 0.4 s, ...
        pause = 0.0 if kept.deaths == 1 else min(0.1 * 2 ** min(kept.deaths - 1, 10), MAX_PAUSE_S)
        kept.due = monotonic() + pause
        self._record(kept)

    def _record(self, kept: Kept) -> None:
        record: dict[str, object] = {
            "name": kept.component.name,
            "node": kept.component.node,
            "restarts": kept.restarts,
            "deaths": kept.deaths,
            "last_exit": kept.last_exit,
        }
        if kept.process:
            record |= kept.process.to_json()
        kept.recorded = record_process(self.layout, kept.component.name, record)

    # The end

    def end(self) -> None:
        """End everything, the last started first; the cluster's data stays."""
        processes.end(_alive(self._standby), grace_s=0)
        on_nodes = [kept for kept in self._kept if kept.component.node]
        processes.end(_alive(on_nodes), grace_s=GRACE_S)
        for kept in reversed(self._kept):
            processes.end(_alive([kept]), grace_s=GRACE_S)
        survivors = members.end_all(self.layout.folder)
        for process in survivors:
            say(f"process {process.pid} cannot be killed")

    def _everything(self) -> Iterable[Kept]:
        return (*self._standby, *self._kept)

    def _find(self, name: str) -> Kept:
        return next(kept for kept in self._kept if kept.component.name == name)


def record_process(layout: Layout, name: str, record: dict[str, object]) -> bool:
    """Leave a note of a process; a full disk must not keep the cluster from running."""
    try:
        write_atomically(layout.record(name), json.dumps(record))
    except OSError as error:
        say(f"no record of {name}: {error}")
        return False
    return True


def should_end(layout: Layout, lease: Lease) -> bool:
    """Whether the cluster shall end: asked to, out of its lease, or its folder is gone."""
    return layout.wanted_file.exists() or lease.is_over() or not layout.folder.exists()


def _alive(kept: Iterable[Kept]) -> list[Process]:
    return [each.process for each in kept if each.process]


def _environ(process: Process) -> list[bytes]:
    try:
        return (processes.PROC / str(process.pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _verdict(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
