"""The driver as a kubelet sees it: two sockets."""

import socket
from contextlib import contextmanager
from threading import Event, Thread

import grpc
import pytest

from labkit.driver.service import dra_schema, registration_schema
from labkit.driver.sockets import Sockets
from labkit.errors import LabError
from labkit.rpc import Stub
from labkit.waiting import NotYet, Seen, wait_until
from tests.unit.driver.conftest import claim


def there(*paths):
    wait_until(
        lambda: Seen(True) if all(path.exists() for path in paths) else NotYet("no socket"),
        what="the sockets",
        timeout_s=10,
    )


@pytest.fixture
def plugin(node, wake, tmp_path_factory):
    # A socket's path has at most 107 characters, so this folder's name is short.
    root = tmp_path_factory.mktemp("k")
    stop = Event()
    sockets = Sockets(node.preparer(), folder=root / "p", registry=root / "r")
    thread = Thread(target=sockets.serve, args=(stop, wake))
    thread.start()
    there(root / "p" / "dra.sock", root / "r" / "gpu.nvidia.com-reg.sock")
    yield root
    stop.set()
    wake.set()
    thread.join(10)
    assert not thread.is_alive()
    assert not list(root.rglob("*.sock"))


@pytest.fixture
def wake():
    return Event()


@contextmanager
def dial(path, schema, service):
    with grpc.insecure_channel(f"unix:{path}") as channel:
        grpc.channel_ready_future(channel).result(timeout=10)
        yield Stub(channel, schema, service)


def test_registration_names_driver_socket_and_versions(plugin):
    schema = registration_schema()
    with dial(plugin / "r" / "gpu.nvidia.com-reg.sock", schema, "Registration") as stub:
        info = stub.get_info(schema.messages["InfoRequest"](), timeout=5)
        stub.notify_registration_status(
            schema.messages["RegistrationStatus"](plugin_registered=True), timeout=5
        )
    assert (info.type, info.name) == ("DRAPlugin", "gpu.nvidia.com")
    assert info.endpoint == str(plugin / "p" / "dra.sock")
    assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]


def test_every_claim_of_a_request_is_answered_with_devices_or_an_error(plugin, node):
    node.add(claim("a", "gpu-3"))
    schema = dra_schema()
    Claim = schema.messages["Claim"]  # noqa: N806 - a class
    request = schema.messages["NodePrepareResourcesRequest"](
        claims=[
            Claim(namespace="ns", name="a", uid="uid-a"),
            Claim(namespace="ns", name="b", uid="uid-b"),
        ]
    )
    with dial(plugin / "p" / "dra.sock", schema, "DRAPlugin") as stub:
        response = stub.node_prepare_resources(request, timeout=5)
        gone = stub.node_unprepare_resources(
            schema.messages["NodeUnprepareResourcesRequest"](claims=request.claims), timeout=5
        )
    (device,) = response.claims["uid-a"].devices
    assert list(device.cdi_device_ids) == ["k8s.gpu.nvidia.com/claim=uid-a-gpu-3"]
    assert list(device.request_names) == ["gpu"]
    assert "no ResourceClaim ns/b" in response.claims["uid-b"].error
    assert {uid: answer.error for uid, answer in gone.claims.items()} == {"uid-a": "", "uid-b": ""}


def test_both_versions_are_served(plugin):
    schema = dra_schema()
    path = "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources"
    with grpc.insecure_channel(f"unix:{plugin}/p/dra.sock") as channel:
        assert channel.unary_unary(path)(b"", timeout=5) == b""
    assert schema.services["DRAPlugin"]


@pytest.mark.parametrize("name", ["r/gpu.nvidia.com-reg.sock", "p/dra.sock"])
def test_a_socket_that_vanishes_is_made_again(plugin, wake, name):
    (plugin / name).unlink()
    wake.set()
    there(plugin / name)
    with dial(plugin / "p" / "dra.sock", dra_schema(), "DRAPlugin"):
        pass


def test_a_socket_that_a_killed_driver_left_is_taken_over(node, tmp_path_factory):
    root = tmp_path_factory.mktemp("k")
    (root / "p").mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(root / "p" / "dra.sock"))
    stop, wake = Event(), Event()
    stopper = Thread(
        target=lambda: (there(root / "r" / "gpu.nvidia.com-reg.sock"), stop.set(), wake.set())
    )
    stopper.start()
    Sockets(node.preparer(), folder=root / "p", registry=root / "r").serve(stop, wake)
    stopper.join(10)
    assert not list(root.rglob("*.sock"))


def test_a_living_driver_keeps_its_sockets(plugin, node):
    second = Sockets(node.preparer(), folder=plugin / "p", registry=plugin / "r")
    with pytest.raises(LabError, match="another driver is listening"):
        second.serve(Event(), Event())
    there(plugin / "p" / "dra.sock", plugin / "r" / "gpu.nvidia.com-reg.sock")
    with dial(plugin / "p" / "dra.sock", dra_schema(), "DRAPlugin"):
        pass


def test_a_path_too_long_for_a_socket_is_said_clearly(node, tmp_path):
    folder = tmp_path / ("x" * 100)
    with pytest.raises(LabError, match="cannot listen on"):
        Sockets(node.preparer(), folder=folder, registry=tmp_path).serve(Event(), Event())


def test_pods_are_prepared_at_the_same_time_and_not_behind_a_slow_claim(plugin, node):
    node.add(claim("slow", "gpu-1"))
    node.add(claim("quick", "gpu-2"))
    node.hold = Event()
    schema = dra_schema()
    messages = schema.messages

    def request(name):
        one = messages["Claim"](namespace="ns", name=name, uid=f"uid-{name}")
        return messages["NodePrepareResourcesRequest"](claims=[one])

    with dial(plugin / "p" / "dra.sock", schema, "DRAPlugin") as stub:
        waiting = stub.node_prepare_resources.future(request("slow"), timeout=10)
        quick = stub.node_prepare_resources(request("quick"), timeout=5)
        assert quick.claims["uid-quick"].devices
        assert not waiting.done()
        node.hold.set()
        assert waiting.result().claims["uid-slow"].devices
