"""What runs on a node: the runtime, the kubelet and the GPU driver."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from labkit.cluster.controlplane import APISERVER, Choices, gates, kubeconfig_of
from labkit.cluster.layout import Layout
from labkit.cluster.plan import Component
from labkit.cluster.spec import ClusterSpec, NodeSpec
from labkit.files import write_atomically
from labkit.gpus.slices import DRIVER

KUBELET_DIR = "/var/lib/kubelet"
CDI_DIR = "/var/run/cdi"
CRI_SOCKET = "/var/run/labkit/cri.sock"
REGISTRY = f"{KUBELET_DIR}/plugins_registry"
RUNTIME_DIR = "/var/lib/labkit/runtime"
"""Paths as a node sees them; its /var is its own."""

RESOLV_CONF = Path("/etc/resolv.conf")

_EVICTION_SIGNALS = ("nodefs.available", "nodefs.inodesFree", "imagefs.available")

_PYTHON = (sys.executable, "-P", "-m")


def components(layout: Layout, spec: ClusterSpec, choices: Choices) -> list[Component]:
    """The processes of all nodes, in the order in which they start."""
    return [
        component
        for node in spec.nodes
        for component in (
            _runtime(node, choices),
            _kubelet(layout, node, choices),
            *([_driver(layout, node, choices)] if node.gpus else []),
        )
    ]


def _runtime(node: NodeSpec, choices: Choices) -> Component:
    argv = [
        *_PYTHON,
        "labkit.runtime",
        f"--socket={CRI_SOCKET}",
        f"--state={RUNTIME_DIR}",
        f"--runc={choices.binaries['runc']}",
        f"--cdi-dir={CDI_DIR}",
        "--cdi-dir=/etc/cdi",
    ]
    return Component(name=f"runtime-{node.name}", argv=tuple(argv), node=node.name)


def _kubelet(layout: Layout, node: NodeSpec, choices: Choices) -> Component:
    port = choices.ports[node.name]
    argv = [
        choices.binaries["kubelet"],
        f"--config={kubelet_config_file(layout, node.name)}",
        f"--kubeconfig={kubeconfig_of(layout, f'kubelet-{node.name}')}",
        f"--hostname-override={node.name}",
        f"--root-dir={KUBELET_DIR}",
        f"--cert-dir={KUBELET_DIR}/pki",
        # A kubelet refuses a loopback address of its own; it leaves addresses alone when a
        # cloud is said to know them, and then we set them.
        "--cloud-provider=external",
        "--node-labels=" + ",".join(f"{k}={v}" for k, v in labels(node).items()),
        # cAdvisor looks at the whole machine's control groups; once a minute is plenty.
        "--housekeeping-interval=60s",
    ]
    return Component(
        name=f"kubelet-{node.name}",
        argv=tuple(argv),
        env={"GOGC": "75", "GOMEMLIMIT": "80MiB"},
        node=node.name,
        # It exits when its runtime does not answer, and waits ever longer for the API server.
        waits_for=(
            f"socket:{_outside(layout, node, CRI_SOCKET)}",
            f"serves:{choices.ports[APISERVER]}",
        ),
        # It looks for drivers once a second; one that is there before it is known at once.
        hopes_for=(f"socket:{_outside(layout, node, REGISTRY)}/{DRIVER}-reg.sock",)
        if node.gpus
        else (),
        ports=(port,),
        on_restart=(*_PYTHON, "labkit.cluster.welcome", str(layout.folder), node.name),
    )


def _driver(layout: Layout, node: NodeSpec, choices: Choices) -> Component:
    argv = [
        *_PYTHON,
        "labkit.driver",
        f"--node={node.name}",
        f"--kubeconfig={kubeconfig_of(layout, f'driver-{node.name}')}",
        f"--machine={node.gpus}",
        f"--kubelet-dir={KUBELET_DIR}",
        f"--cdi-dir={CDI_DIR}",
        f"--cluster-uid={choices.uid}",
    ]
    return Component(name=f"driver-{node.name}", argv=tuple(argv), node=node.name)


def _outside(layout: Layout, node: NodeSpec, path: str) -> str:
    """Where a path below a node's /var lies for the host."""
    return f"{layout.var(node.name)}{path.removeprefix('/var')}"


def labels(node: NodeSpec) -> dict[str, str]:
    """The labels of a node beyond the kubelet's own."""
    machine = Path(node.gpus).stem if node.gpus else "none"
    return {"labkit.dev/machine": re.sub(r"[^A-Za-z0-9._-]", "-", machine)[:60].strip("-._")}


def kubelet_config_file(layout: Layout, node: str) -> Path:
    """Where a node's kubelet configuration lies."""
    return layout.node(node) / "kubelet.yaml"


def write_kubelet_config(layout: Layout, spec: ClusterSpec, node: str, *, port: int) -> None:
    """Write a node's kubelet configuration (as JSON, which YAML includes)."""
    config = kubelet_config(layout, spec, node, port=port)
    write_atomically(kubelet_config_file(layout, node), json.dumps(config, indent=1))


def kubelet_config(layout: Layout, spec: ClusterSpec, node: str, *, port: int) -> Mapping[str, Any]:
    """A node's kubelet configuration."""
    serving = layout.pki / f"kubelet-{node}-serving"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "tlsCertFile": f"{serving}.crt",
        "tlsPrivateKeyFile": f"{serving}.key",
        "authentication": {
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CRI_SOCKET}",
        "featureGates": gates(
            spec.feature_gates, spec.kubernetes_version, KubeletInUserNamespace=True
        ),
        **_unlimited(),
        **_quick(),
        **_names_on_the_host(),
        "volumePluginDir": f"{KUBELET_DIR}/volumeplugins",
    }


def _unlimited() -> dict[str, Any]:
    """No control groups, no limits and no eviction: the machine belongs to somebody else."""
    return {
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        # How soon a pod whose claim could not be prepared is tried again.
        "syncFrequency": "10s",
        "failCgroupV1": False,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": dict.fromkeys(_EVICTION_SIGNALS, "0%"),
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def _quick() -> dict[str, Any]:
    """Many small pods start and end; nothing else happens for long."""
    return {
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "configMapAndSecretChangeDetectionStrategy": "Watch",
        "volumeStatsAggPeriod": "-1s",
        "nodeStatusUpdateFrequency": "30s",
        "nodeStatusReportFrequency": "5m",
        "shutdownGracePeriod": "0s",
    }


def _names_on_the_host() -> dict[str, Any]:
    """Pods resolve names the way the host does; there is no DNS server in the cluster."""
    servers = host_nameservers()
    return {
        "clusterDomain": "cluster.local",
        # Without one every pod would get a MissingClusterDNS event.
        "clusterDNS": servers or ["127.0.0.1"],
        "resolvConf": str(RESOLV_CONF) if RESOLV_CONF.exists() else "",
    }


def host_nameservers(path: Path = RESOLV_CONF) -> list[str]:
    """The host's name servers, at most the three that a resolver uses."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver" and _is_address(words[1]):
            found.append(words[1])
    return found[:3]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
