"""The cluster's certificates: one authority, and one short chain for each party.

Elliptic-curve keys, because twenty of them are made in the time of one RSA key.
Everything lies in one folder, 0600, and ends with the cluster.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=3650)
"""A lab may be kept for long, and nothing renews its certificates."""

CLOCK_SKEW = dt.timedelta(hours=1)

ADMINS = "system:masters"
"""The group that may do everything."""

DRIVERS = "labkit:drivers"
"""The group of the GPU drivers."""

APISERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """Somebody with a certificate.

    Attributes:
        file: name of its files, without an ending.
        user: its common name: who it is to the API server.
        group: the group it is in; empty for none.
        names: DNS names that it serves as; with any it is a server.
        addresses: IP addresses that it serves at.
    """

    file: str
    user: str
    group: str = ""
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


def parties(nodes: Iterable[str], service_address: str) -> list[Party]:
    """Everybody who needs a certificate in a cluster with these nodes.

    Args:
        nodes: the nodes' names.
        service_address: the address of the service ``kubernetes``.
    """
    found = [
        Party(
            file="apiserver",
            user="kube-apiserver",
            names=APISERVER_NAMES,
            addresses=("127.0.0.1", "::1", service_address),
        ),
        Party(file="admin", user="kubernetes-admin", group=ADMINS),
        Party(file="apiserver-kubelet-client", user="kube-apiserver-kubelet-client", group=ADMINS),
        # The controllers share one identity instead of a service account each, which spares
        # forty token requests at every start; so it has to be allowed what all of them are.
        Party(file="controller-manager", user="system:kube-controller-manager", group=ADMINS),
        Party(file="scheduler", user="system:kube-scheduler"),
    ]
    for node in nodes:
        user = f"system:node:{node}"
        served = ("localhost", node)
        found += [
            Party(file=f"kubelet-{node}", user=user, group="system:nodes"),
            Party(
                file=f"kubelet-{node}-serving",
                user=user,
                group="system:nodes",
                names=served,
                addresses=("127.0.0.1",),
            ),
            Party(file=f"driver-{node}", user=f"labkit:driver:{node}", group=DRIVERS),
        ]
    return found


def write(folder: Path, who: Sequence[Party]) -> None:
    """Make an authority, a certificate for everybody, and the service accounts' key pair.

    The files are ``ca.crt``, ``<file>.crt``, ``<file>.key``, ``sa.key`` and ``sa.pub``.
    The authority's own key is never written: nobody can be added later.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
    _save(folder / "ca.crt", authority.public_bytes(serialization.Encoding.PEM))
    for party in who:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(party, key, authority, authority_key)
        _save(folder / f"{party.file}.crt", certificate.public_bytes(serialization.Encoding.PEM))
        _save(folder / f"{party.file}.key", _pem(key))
    _write_service_account_keys(folder)


def _write_service_account_keys(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    _save(folder / "sa.key", _pem(key))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _save(folder / "sa.pub", public)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The API server refuses PKCS8 where it wants a service account's key.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _save(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "labkit")])
    public = key.public_key()
    return (
        _builder(name, name, public)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _certificate(
    party: Party,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, party.user)]
    if party.group:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, party.group))
    serves = bool(party.names)
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if serves else ExtendedKeyUsageOID.CLIENT_AUTH
    signer = authority_key.public_key()
    builder = (
        _builder(x509.Name(attributes), authority.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer),
            critical=False,
        )
    )
    if serves:
        served: list[x509.GeneralName] = [x509.DNSName(name) for name in party.names]
        served += [x509.IPAddress(ipaddress.ip_address(each)) for each in party.addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(served), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
