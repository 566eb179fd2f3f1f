"""The driver's process, from its arguments to its end."""

from __future__ import annotations

import argparse
import logging
import signal
from pathlib import Path
from threading import Event, Thread

from labkit.driver.preparer import Preparer
from labkit.driver.publisher import Publisher
from labkit.driver.sockets import Sockets
from labkit.errors import LabError
from labkit.gpus import build, machines, slices
from labkit.kube import RESOURCE_CLAIMS, Client
from labkit.plainlog import log_plainly

log = logging.getLogger("labkit.driver")


def main() -> int:
    """Run until SIGTERM or SIGINT; the exit code tells whether it could."""
    options = _options("the DRA driver of one node")
    log_plainly()
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells every request
    stop, wake = Event(), Event()

    def end(*_: object) -> None:
        stop.set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        _serve(options, stop, wake)
    except LabError as error:
        log.error("%s", error)  # noqa: TRY400 - its message is the whole story
        return error.exit_code
    except OSError as error:
        log.error("cannot go on: %s", error)  # noqa: TRY400 - a full disk needs no traceback
        return LabError.exit_code
    finally:
        end()
    return 0


def _serve(options: argparse.Namespace, stop: Event, wake: Event) -> None:
    inventory = build(machines.load(options.machine), node=options.node, seed=options.cluster_uid)
    folder = options.kubelet_dir / "plugins" / slices.DRIVER
    folder.mkdir(parents=True, exist_ok=True)
    with Client.from_kubeconfig(options.kubeconfig) as client:
        preparer = Preparer(
            inventory,
            lambda namespace, name: client.find(RESOURCE_CLAIMS, name, namespace=namespace),
            folder=folder,
            cdi_dir=options.cdi_dir,
        )
        preparer.restore()
        publisher = Publisher(
            client,
            options.node,
            lambda generation, owner: slices.resource_slices(
                inventory, generation=generation, owner=owner
            ),
            # The kubelet deletes slices when it starts; then have a look at the sockets, too.
            on_change=wake.set,
        )
        Thread(target=publisher.run, args=(stop,), name="publisher", daemon=True).start()
        sockets = Sockets(
            preparer, folder=folder, registry=options.kubelet_dir / "plugins_registry"
        )
        sockets.serve(stop, wake)


def _options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m labkit.driver", description=description)
    parser.add_argument("--node", required=True, help="the node's name")
    parser.add_argument("--kubeconfig", required=True, type=Path, help="the driver's identity")
    parser.add_argument("--machine", required=True, help="a machine's name, or its YAML file")
    parser.add_argument("--kubelet-dir", required=True, type=Path, help="the kubelet's root")
    parser.add_argument("--cdi-dir", required=True, type=Path, help="where CDI files go")
    parser.add_argument("--cluster-uid", required=True, help="makes the GPUs' UUIDs")
    return parser.parse_args()
