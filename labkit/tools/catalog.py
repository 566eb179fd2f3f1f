"""Which binaries there are, in which versions, and where each comes from.

The versions are those of the pins in ``clusters/tools``; a test keeps the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import BadInput
from labkit.tools.platforms import Platform

KUBERNETES_VERSION = "1.37.2"
"""The Kubernetes that labkit starts unless told otherwise."""

ETCD_VERSION = "3.7.3"
RUNC_VERSION = "1.5.3"
KIND_VERSION = "0.33.0"
KWOK_VERSION = "0.8.0"

LOCAL = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
    "runc",
)
"""What the embedded cluster needs."""

KIND = ("kind", "kubectl")
"""What the kind provider needs."""

TOOLS = (*LOCAL, "kind", "kwok", "kwokctl")
"""The whole catalogue."""

_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Where a project publishes a binary.

    Attributes:
        url: of the binary or of a tar archive with it.
        checksums: URL of a file with its SHA-256, alone or among others; "" where the
            project publishes none, so that the download could not be verified.
        member: path of the binary in the archive; "" for a bare binary.
    """

    url: str
    checksums: str
    member: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """How a binary is built from its pinned Go module.

    Attributes:
        pins: folder below ``clusters/tools`` with go.mod and go.sum.
        package: what to build.
        ldflags: linker flags; without them the binaries do not know their own version.
        cgo: whether a C compiler is needed.
        systems: where it can be built, and means anything.
    """

    pins: str
    package: str
    ldflags: str
    cgo: bool = False
    systems: tuple[str, ...] = ("linux", "darwin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A binary in one version.

    Attributes:
        name: the binary's name.
        version: without a leading v.
        ask: arguments that make it print its version.
        oldest: the oldest version on PATH that serves as well.
        before: the first version that no longer does.
        release: where it is published; None where it is not for this platform.
        build: how to build it.
    """

    name: str
    version: str
    ask: tuple[str, ...]
    oldest: Version
    before: Version
    release: Release | None
    build: Build

    def fits(self, version: Version) -> bool:
        """Whether a binary of that version can take its place."""
        return self.oldest <= version < self.before


def tool(name: str, *, kubernetes_version: str = KUBERNETES_VERSION, on: Platform) -> Tool:
    """One binary of the catalogue.

    Args:
        name: the binary.
        kubernetes_version: which Kubernetes it shall be of, or go with; without a leading v.
        on: for which platform.

    Raises:
        BadInput: there is no such tool, or the version is none.
    """
    if name in _KUBERNETES:
        return _kubernetes(name, parsed(kubernetes_version, "--kubernetes-version"), on)
    makers = {"etcd": _etcd, "runc": _runc, "kind": _kind, "kwok": _kwok, "kwokctl": _kwok}
    if name not in makers:
        raise BadInput(f"there is no tool {name!r}", hint=f"the tools are {', '.join(names())}")
    return makers[name](name, on)


def names() -> list[str]:
    """All tools, those of the embedded cluster first."""
    return list(TOOLS)


def parsed(text: str, where: str) -> Version:
    """``1.37.2`` as numbers.

    Raises:
        BadInput: it is no such version.
    """
    parts = text.removeprefix("v").split(".")
    expected = 3
    if len(parts) != expected or not all(part.isdecimal() for part in parts):
        raise BadInput(f"{where}: {text!r} is not a version", hint="write it like 1.37.2")
    return tuple(int(part) for part in parts)


def _same_minor(version: Version) -> tuple[Version, Version]:
    # Patch releases only mend; gates, flags and APIs change with the minor version.
    return version[:2], (version[0], version[1] + 1)


def _kubernetes(name: str, version: Version, on: Platform) -> Tool:
    text = ".".join(map(str, version))
    url = f"https://dl.k8s.io/release/v{text}/bin/{on.system}/{on.machine}/{name}"
    oldest, before = _same_minor(version)
    known = "k8s.io/component-base/version"
    stamps = {
        "gitVersion": f"v{text}",
        "gitMajor": str(version[0]),
        "gitMinor": str(version[1]),
        "gitTreeState": "clean",
    }
    return Tool(
        name=name,
        version=text,
        ask=("version", "--client") if name == "kubectl" else ("--version",),
        oldest=oldest,
        before=before,
        # Servers are published for Linux only.
        release=Release(url=url, checksums=f"{url}.sha256")
        if on.system == "linux" or name == "kubectl"
        else None,
        build=Build(
            pins="kubernetes",
            package=f"k8s.io/kubernetes/cmd/{name}",
            ldflags=" ".join(f"-X {known}.{key}={value}" for key, value in stamps.items()),
            systems=("linux",) if name == "kubelet" else ("linux", "darwin"),
        ),
    )


def _etcd(name: str, on: Platform) -> Tool:
    version = ETCD_VERSION
    base = f"https://github.com/etcd-io/etcd/releases/download/v{version}"
    folder = f"etcd-v{version}-{on.system}-{on.machine}"
    return Tool(
        name=name,
        version=version,
        ask=("--version",),
        # 3.6 is the oldest that Kubernetes 1.37 was seen to work with.
        oldest=(3, 6),
        before=(4,),
        release=Release(
            url=f"{base}/{folder}.{'tar.gz' if on.system == 'linux' else 'zip'}",
            checksums=f"{base}/SHA256SUMS",
            member=f"{folder}/etcd",
        ),
        build=Build(pins="etcd", package="go.etcd.io/etcd/server/v3", ldflags=""),
    )


def _runc(name: str, on: Platform) -> Tool:
    base = f"https://github.com/opencontainers/runc/releases/download/v{RUNC_VERSION}"
    return Tool(
        name=name,
        version=RUNC_VERSION,
        ask=("--version",),
        # Rootless containers over overlays ran with Debian's 1.1 as well.
        oldest=(1, 1),
        before=(2,),
        release=Release(url=f"{base}/runc.{on.machine}", checksums=f"{base}/runc.sha256sum")
        if on.system == "linux"
        else None,
        build=Build(
            pins="runc",
            package="github.com/opencontainers/runc",
            ldflags=f"-X main.version={RUNC_VERSION}",
            cgo=True,
            systems=("linux",),
        ),
    )


def _kind(name: str, on: Platform) -> Tool:
    base = f"https://github.com/kubernetes-sigs/kind/releases/download/v{KIND_VERSION}"
    url = f"{base}/kind-{on.system}-{on.machine}"
    oldest, before = _same_minor(parsed(KIND_VERSION, "kind"))
    return Tool(
        name=name,
        version=KIND_VERSION,
        ask=("version",),
        oldest=oldest,
        before=before,
        release=Release(url=url, checksums=f"{url}.sha256sum"),
        build=Build(pins="kind", package="sigs.k8s.io/kind", ldflags=""),
    )


def _kwok(name: str, on: Platform) -> Tool:
    base = f"https://github.com/kubernetes-sigs/kwok/releases/download/v{KWOK_VERSION}"
    oldest, before = _same_minor(parsed(KWOK_VERSION, "kwok"))
    return Tool(
        name=name,
        version=KWOK_VERSION,
        ask=("--version",),
        oldest=oldest,
        before=before,
        # No checksums are published beside these binaries.
        release=Release(url=f"{base}/{name}-{on.system}-{on.machine}", checksums=""),
        build=Build(
            pins="kwok",
            package=f"sigs.k8s.io/kwok/cmd/{name}",
            ldflags="",
        ),
    )
