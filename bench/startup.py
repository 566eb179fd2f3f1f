"""How long until a two-node cluster with GPUs is there, beside the peers, in one run.

Prints, for each contender, the median of its rounds in seconds and the ratio of labkit's
median to it; then the time of a pod with a claim from `apply` to Running.

    python bench/startup.py [--rounds 5] [--pods 20]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from labkit import Cluster
from labkit.kube import PODS, Client
from labkit.tools import ensure
from labkit.waiting import NotYet, Seen, wait_until

NODES = 2
LIMIT_KWOK = 1.3
LIMIT_KIND = 1 / 3
LIMIT_POD_S = 0.7
CREATE_TIMEOUT_S = 300
LOOK_S = 0.01


def main() -> None:
    """Run the contenders in turn, so that the machine's moods hit all of them alike."""
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="labkit-bench-") as scratch:
        contenders = {"labkit": labkit_round, "kwokctl": Kwokctl(Path(scratch)).round}
        if docker_is_there():
            contenders["kind"] = Kind(Path(scratch)).round
        times: dict[str, list[float]] = {name: [] for name in contenders}
        labkit_round()  # the first start fills the file cache for everybody
        for _ in range(options.rounds):
            for name, contender in contenders.items():
                times[name].append(contender())
    report(times)
    pods(options.pods)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pods", type=int, default=20)
    return parser.parse_args()


def report(times: dict[str, list[float]]) -> None:
    ours = statistics.median(times["labkit"])
    limits = {"kwokctl": LIMIT_KWOK, "kind": LIMIT_KIND}
    print(f"{'':10} {'median s':>9} {'min':>7} {'max':>7}  labkit is")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        ratio = "" if name == "labkit" else f"{ours / median:.2f} x (limit {limits[name]:.2f})"
        print(f"{name:10} {median:9.2f} {min(seconds):7.2f} {max(seconds):7.2f}  {ratio}")
    if "kind" not in times:
        print("kind       not measured: no Docker engine answers here")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def run(*argv: str | Path, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        argv, capture_output=True, text=True, env=env, check=False, timeout=CREATE_TIMEOUT_S
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, argv))} failed:\n{done.stdout}{done.stderr}")


def labkit_round() -> float:
    labkit = Path(sys.executable).parent / "labkit"
    name = ["--name", f"bench-{os.getpid()}"]
    try:
        return timed(lambda: run(labkit, "up", *name, "--nodes", str(NODES)))
    finally:
        run(labkit, "down", *name)


class Kwokctl:
    """`kwokctl create cluster` with the same binaries; it has no node at all."""

    PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

    def __init__(self, scratch: Path) -> None:
        tools = ensure([*self.PARTS, "kwok", "kwokctl", "kubectl"])
        self._kwokctl = tools["kwokctl"]
        self._binaries = [f"--{part}-binary={tools[part]}" for part in self.PARTS]
        self._binaries.append(f"--kwok-controller-binary={tools['kwok']}")
        search = os.pathsep.join([str(tools["kubectl"].parent), os.environ["PATH"]])
        self._env = os.environ | {"KWOK_WORKDIR": str(scratch / "kwok"), "PATH": search}
        self._common = ["--name", "bench", f"--kubeconfig={scratch / 'kwok-kubeconfig'}"]

    def round(self) -> float:
        """Seconds of one creation; the cluster is deleted afterwards."""
        create = ["create", "cluster", "--runtime", "binary", "--wait", "120s"]
        try:
            return timed(
                lambda: run(self._kwokctl, *create, *self._common, *self._binaries, env=self._env)
            )
        finally:
            run(self._kwokctl, "delete", "cluster", *self._common, env=self._env)


class Kind:
    """`kind create cluster` with one worker and its image at hand."""

    def __init__(self, scratch: Path) -> None:
        self._kind = ensure(["kind"])["kind"]
        self._config = scratch / "kind.yaml"
        self._config.write_text(
            "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n"
            "nodes: [{role: control-plane}, {role: worker}]\n"
        )
        self._common = ["--name", "labkit-bench", f"--kubeconfig={scratch / 'kind-kubeconfig'}"]

    def round(self) -> float:
        """Seconds of one creation; the cluster is deleted afterwards."""
        create = ["create", "cluster", "--wait", "120s", f"--config={self._config}"]
        try:
            return timed(lambda: run(self._kind, *create, *self._common))
        finally:
            run(self._kind, "delete", "cluster", *self._common)


def docker_is_there() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    answer = subprocess.run([docker, "info"], capture_output=True, check=False, timeout=30)
    return answer.returncode == 0


TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
            }
        }
    },
}


def pods(rounds: int) -> None:
    """From `apply` of a pod with a claim to its phase Running, as a watch sees it."""
    with Cluster.local(name=f"bench-pods-{os.getpid()}", nodes=1) as cluster:
        client = cluster.client()
        client.apply(TEMPLATE)
        seconds = [pod_round(client, f"p{number}") for number in range(rounds)]
    print(
        f"\npod with a claim, apply to Running: median {statistics.median(seconds):.2f} s "
        f"of {rounds} (min {min(seconds):.2f}, max {max(seconds):.2f}; limit {LIMIT_POD_S})"
    )


def pod_round(client: Client, name: str) -> float:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "containers": [
                {
                    "name": "main",
                    "image": "any",
                    "command": ["sleep", "infinity"],
                    "resources": {"claims": [{"name": "gpu"}]},
                }
            ],
        },
    }
    started = time.perf_counter()
    client.apply(manifest)
    wait_until(
        lambda: Seen(True) if phase(client, name) == "Running" else NotYet(phase(client, name)),
        what=f"pod {name} to run",
        timeout_s=CREATE_TIMEOUT_S,
        interval_s=LOOK_S,
    )
    seconds = time.perf_counter() - started
    client.delete(PODS, name, grace_s=0)
    return seconds


def phase(client: Client, name: str) -> str:
    return str(client.get(PODS, name)["status"].get("phase"))


if __name__ == "__main__":
    main()
