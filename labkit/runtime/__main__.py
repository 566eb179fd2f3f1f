"""The runtime's process: ``python -m labkit.runtime --socket … --state … --runc …``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import grpc

from labkit.errors import LabError
from labkit.plainlog import log_plainly
from labkit.rpc import Schema, generic_handler, load
from labkit.runtime import isolation
from labkit.runtime.containers import Containers
from labkit.runtime.images import Images
from labkit.runtime.processes import Processes
from labkit.runtime.records import Records
from labkit.runtime.service import ImageService, RuntimeService
from labkit.runtime.streaming import StreamingServer

log = logging.getLogger("labkit.runtime")

THREADS = 64
"""Calls at once; stopping a container waits for as long as its grace period. Threads are
made when they are needed."""

STOP_S = 1.0
"""How long calls in progress may take when the runtime ends, in seconds."""


def main() -> int:
    """Run until SIGTERM or SIGINT; containers go on without us."""
    options = _options()
    log_plainly()
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # What a shell or nohup has us ignore must not be ignored in containers.
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    try:
        _serve(options, stop)
    except LabError as error:
        log.error("%s", error)  # noqa: TRY400 - its message is the whole story
        return error.exit_code
    return 0


def _serve(options: argparse.Namespace, stop: Event) -> None:
    schema = load(Path(__file__).resolve().parent.parent / "rpc" / "cri.proto")
    records = Records(options.state, schema.messages)
    containers = Containers(
        records,
        lambda: isolation.find(options.isolation, runc=options.runc, state=options.state),
        options.cdi_dir,
    )
    processes = Processes(containers, options.state / "execs")
    streams = StreamingServer(processes)
    streams.start()
    runtime = RuntimeService(schema, containers, processes, streams)
    images = ImageService(schema, Images(options.state / "images.json"), options.state)
    server = _listen(options.socket, schema, runtime, images)
    log.info("listening on %s, %d containers known", options.socket, len(records.containers()))
    # Found out now rather than when the first container wants to start.
    Thread(target=_look, args=(containers, stop), name="isolation", daemon=True).start()
    stop.wait()
    server.stop(STOP_S).wait(STOP_S * 2)
    streams.stop()
    options.socket.unlink(missing_ok=True)


def _look(containers: Containers, stop: Event) -> None:
    try:
        found = containers.isolation
    except LabError as error:
        log.error("%s", error)  # noqa: TRY400 - its message is the whole story
        stop.set()
        return
    log.info("isolation: %s, own /proc: %s", found.kind, found.own_proc)


def _listen(
    socket: Path, schema: Schema, runtime: RuntimeService, images: ImageService
) -> grpc.Server:
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix="cri"))
    server.add_generic_rpc_handlers(
        (
            generic_handler(schema, "RuntimeService", runtime),
            generic_handler(schema, "ImageService", images),
        )
    )
    try:
        server.add_insecure_port(f"unix:{socket}")
    except RuntimeError as exc:
        raise LabError(f"cannot listen on {socket}: {exc}") from exc
    server.start()
    return server


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m labkit.runtime", description=__doc__)
    parser.add_argument("--socket", required=True, type=Path, help="where the kubelet calls")
    parser.add_argument("--state", required=True, type=Path, help="folder of our state")
    parser.add_argument("--runc", required=True, type=Path, help="the runc binary")
    parser.add_argument(
        "--cdi-dir", action="append", default=[], type=Path, help="where CDI specifications lie"
    )
    parser.add_argument("--isolation", choices=("auto", "runc", "process"), default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
