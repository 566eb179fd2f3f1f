"""The cluster's certificates, as TLS and the API server will read them."""

import stat
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from labkit.cluster import pki

SERVICE = "10.96.0.1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("with space") / "pki"
    pki.write(folder, pki.parties(["lab-0", "lab-1"], SERVICE))
    return folder


def certificate(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())


def name_of(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> str:
    return str(certificate.subject.get_attributes_for_oid(oid)[0].value)


@pytest.mark.parametrize(
    ("file", "user", "group"),
    [
        ("admin", "kubernetes-admin", "system:masters"),
        ("kubelet-lab-1", "system:node:lab-1", "system:nodes"),
        ("driver-lab-0", "labkit:driver:lab-0", "labkit:drivers"),
    ],
)
def test_clients_are_who_they_shall_be(folder: Path, file: str, user: str, group: str) -> None:
    found = certificate(folder, file)
    assert name_of(found, NameOID.COMMON_NAME) == user
    assert name_of(found, NameOID.ORGANIZATION_NAME) == group
    usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_servers_verify_against_the_authority_by_each_of_their_names(folder: Path) -> None:
    store = Store([certificate(folder, "ca")])
    for subject in ("localhost", "kubernetes.default.svc"):
        verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName(subject))
        verifier.verify(certificate(folder, "apiserver"), [])
    kubelet = PolicyBuilder().store(store).build_server_verifier(x509.DNSName("lab-1"))
    kubelet.verify(certificate(folder, "kubelet-lab-1-serving"), [])


def test_the_api_server_serves_at_loopback_and_at_its_service(folder: Path) -> None:
    names = certificate(folder, "apiserver").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    addresses = {str(each) for each in names.value.get_values_for_type(x509.IPAddress)}
    assert addresses >= {"127.0.0.1", SERVICE}


def test_keys_are_elliptic_and_in_the_form_that_the_api_server_takes(folder: Path) -> None:
    assert (folder / "sa.key").read_text().startswith("-----BEGIN EC PRIVATE KEY-----")
    assert (folder / "sa.pub").read_text().startswith("-----BEGIN PUBLIC KEY-----")
    assert isinstance(certificate(folder, "admin").public_key(), ec.EllipticCurvePublicKey)


def test_nothing_of_it_is_readable_by_others_and_the_authority_has_no_key(folder: Path) -> None:
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert not (folder / "ca.key").exists()


def test_all_of_it_is_made_in_a_moment(tmp_path: Path) -> None:
    started = time.perf_counter()
    pki.write(tmp_path, pki.parties([f"lab-{number}" for number in range(4)], SERVICE))
    assert time.perf_counter() - started < 2  # 30 ms, but the machine may be busy
