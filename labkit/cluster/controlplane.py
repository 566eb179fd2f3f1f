"""The command lines of etcd, kube-apiserver, kube-controller-manager and kube-scheduler.

Every choice that differs from a default has its reason beside it. The measure of each was
a lab on a laptop: loopback only, ready in seconds, little memory, quiet when idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labkit.cluster.layout import Layout
from labkit.cluster.plan import Component

ETCD = "etcd"
APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
BINARIES = (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER, "kubelet", "kubectl", "runc")
"""What a cluster needs of `labkit.tools`."""

SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
"""The address of the service ``kubernetes``: the first of the range."""

_ETCD_CLIENTS = "unix://etcd-client:0"
_ETCD_PEERS = "unix://etcd-peer:0"
"""Sockets in the working directory, which is the cluster's folder and ours alone: no port to
collide, no certificate to check, and no limit on the folder's length."""

OWN_GATES = {
    # Off, so that the API server and the kubelet hand a WebSocket straight through to the
    # runtime instead of translating it to SPDY.
    "ExtendWebSocketsToKubelet": (37, False),
    "TranslateStreamCloseWebsocketRequests": (30, False),
    # Off, since they keep an idle API server busy for the sake of large or doubled ones.
    "DetectCacheInconsistency": (34, False),
    "SizeBasedListCostEstimate": (34, False),
}
"""Gates that labkit sets, each with the minor version from which it exists."""

GATED_APIS = {
    "DRAResourcePoolStatus": "resource.k8s.io/v1alpha3",
    "GenericWorkload": "scheduling.k8s.io/v1beta1",
}
"""API versions off by default without which a gate would be of no use."""

UNUSED_API = "flowcontrol.apiserver.k8s.io/v1=false"

UNUSED_CONTROLLERS = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "horizontal-pod-autoscaler-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "node-ipam-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "storageversion-garbage-collector-controller",
    "ttl-controller",
)
"""They serve what a lab has not: pod networks, metrics, signed kubelets, large node counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What was chosen for a cluster beyond what was asked for.

    Attributes:
        uid: the cluster's identity; seeds the GPUs' UUIDs.
        ports: of the API server (under its name) and of each kubelet (under the node's).
        binaries: absolute paths of `BINARIES`.
    """

    uid: str
    ports: Mapping[str, int]
    binaries: Mapping[str, str] = field(default_factory=dict)


def gates(asked: Mapping[str, bool], kubernetes_version: str, **own: bool) -> dict[str, bool]:
    """The feature gates of a component: what labkit needs, then what was asked for."""
    minor = int(kubernetes_version.split(".")[1])
    known = {gate: on for gate, (since, on) in OWN_GATES.items() if minor >= since}
    return {**known, **own, **asked}


def components(
    layout: Layout, choices: Choices, *, version: str, asked: Mapping[str, bool]
) -> list[Component]:
    """The control plane, in the order in which it starts."""
    settings = ",".join(f"{g}={str(on).lower()}" for g, on in gates(asked, version).items())
    port = choices.ports[APISERVER]
    # Both look once a second whether the API server is healthy; who brings the cluster up sees
    # it sooner, and leaves them the two cores until then.
    healthy = (f"file:{layout.healthy_file}",)
    return [
        Component(name=ETCD, argv=(choices.binaries[ETCD], *_etcd(layout)), env=_memory(60)),
        Component(
            name=APISERVER,
            argv=(choices.binaries[APISERVER], *_apiserver(layout, port, settings, asked)),
            env=_memory(320) | {"GOGC": "100"},  # everybody waits for it
            # Refused once, it would try again only after a second.
            waits_for=(f"socket:{layout.folder}/etcd-client:0",),
            ports=(port,),
        ),
        Component(
            name=CONTROLLER_MANAGER,
            argv=(choices.binaries[CONTROLLER_MANAGER], *_controllers(layout, settings)),
            env=_memory(110),
            waits_for=healthy,
        ),
        Component(
            name=SCHEDULER,
            argv=(choices.binaries[SCHEDULER], *_scheduler(layout, settings)),
            env=_memory(80),
            waits_for=healthy,
        ),
    ]


def _memory(soft_limit_mib: int) -> dict[str, str]:
    # Go lets its heap double before it collects; three quarters more take 30 MB less and cost
    # little time at the start.
    return {"GOGC": "75", "GOMEMLIMIT": f"{soft_limit_mib}MiB"}


def _etcd(layout: Layout) -> list[str]:
    return [
        "--name=lab",
        f"--data-dir={layout.etcd}",
        f"--listen-client-urls={_ETCD_CLIENTS}",
        f"--advertise-client-urls={_ETCD_CLIENTS}",
        f"--listen-peer-urls={_ETCD_PEERS}",
        f"--initial-advertise-peer-urls={_ETCD_PEERS}",
        f"--initial-cluster=lab={_ETCD_PEERS}",
        # A lab may lose its last second when the machine itself fails, and starts faster.
        "--unsafe-no-fsync",
        # It is alone and elects itself, after one to five heartbeats: the fewer the sooner.
        "--heartbeat-interval=100",
        "--election-timeout=500",
        "--snapshot-count=5000",
        "--log-level=warn",
    ]


def _apiserver(layout: Layout, port: int, settings: str, asked: Mapping[str, bool]) -> list[str]:
    pki = layout.pki
    apis = [api for gate, api in GATED_APIS.items() if asked.get(gate)]
    return [
        # Loopback only, also on a machine with no other interface.
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--etcd-servers={_ETCD_CLIENTS}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
        # Priority levels are for many tenants; without their API thirty objects less are made.
        "--enable-priority-and-fairness=false",
        "--etcd-count-metric-poll-period=0",
        f"--feature-gates={settings}",
        f"--runtime-config={','.join([UNUSED_API, *(f'{api}=true' for api in apis)])}",
    ]


def _controllers(layout: Layout, settings: str) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig_of(layout, 'controller-manager')}",
        "--leader-elect=false",
        # Nobody reads its metrics, so it opens no port.
        "--secure-port=0",
        "--profiling=false",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--service-account-private-key-file={layout.pki / 'sa.key'}",
        f"--controllers={','.join(['*', *(f'-{c}' for c in UNUSED_CONTROLLERS)])}",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
        f"--feature-gates={settings}",
    ]


def _scheduler(layout: Layout, settings: str) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig_of(layout, 'scheduler')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
        f"--feature-gates={settings}",
    ]


def kubeconfig_of(layout: Layout, party: str) -> Path:
    """Where the kubeconfig of one of the cluster's own parties lies."""
    return layout.pki / f"{party}.kubeconfig"
