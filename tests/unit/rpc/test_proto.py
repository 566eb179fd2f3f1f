from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit.rpc
from labkit.errors import BadInput
from labkit.rpc import Refused, Stub, generic_handler, load

FOLDER = Path(labkit.rpc.__file__).parent


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.proto")), ids=lambda path: path.name)
def test_every_file_of_ours_can_be_read(path):
    assert load(path).services


def test_a_claim_travels_in_the_bytes_that_the_interface_prescribes():
    claim = load(FOLDER / "dra.proto").messages["Claim"](namespace="a", uid="b", name="c")
    assert claim.SerializeToString() == b"\x0a\x01a\x12\x01b\x1a\x01c"


@given(st.dictionaries(st.text(max_size=8), st.lists(st.text(max_size=5), max_size=3), max_size=4))
def test_maps_of_messages_survive_the_wire(claims):
    schema = load(FOLDER / "dra.proto")
    response = schema.messages["NodePrepareResourcesResponse"]()
    for uid, requests in claims.items():
        response.claims[uid].devices.add(request_names=requests, device_name="gpu-0")
    again = type(response).FromString(response.SerializeToString())
    assert {uid: list(c.devices[0].request_names) for uid, c in again.claims.items()} == claims


def test_an_optional_field_knows_whether_it_is_there():
    device = load(FOLDER / "dra.proto").messages["Device"]
    assert not device().HasField("share_id")
    assert device.FromString(device(share_id="").SerializeToString()).HasField("share_id")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('syntax = "proto3";\nimport "x.proto";', "line 2: 'import' is not understood"),
        ("message A {\n string a = x;\n}", "line 2: expected a number, found 'x'"),
        ("message A {\n Unknown a = 1;\n}", "type 'Unknown' is not declared"),
        ("message A {", "ends too early"),
        ("message A { @ }", "'@' is not understood"),
    ],
)
def test_what_is_not_understood_is_refused_by_line(tmp_path, text, told):
    path = tmp_path / "x.proto"
    path.write_text(text)
    with pytest.raises(BadInput, match=told):
        load(path)


def test_calls_reach_an_implementation_and_refusals_come_back(tmp_path):
    schema = load(FOLDER / "registration.proto")

    class Plugin:
        def get_info(self, _request):
            return schema.messages["PluginInfo"](name="gpu.nvidia.com")

        def notify_registration_status(self, request):
            raise Refused(grpc.StatusCode.NOT_FOUND, request.error)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((generic_handler(schema, "Registration", Plugin()),))
        address = f"unix:{tmp_path}/s.sock"
        server.add_insecure_port(address)
        server.start()
        with grpc.insecure_channel(address) as channel:
            stub = Stub(channel, schema, "Registration")
            info = stub.get_info(schema.messages["InfoRequest"](), timeout=5)
            assert info.name == "gpu.nvidia.com"
            with pytest.raises(grpc.RpcError) as caught:
                status = schema.messages["RegistrationStatus"](error="no such thing")
                stub.notify_registration_status(status, timeout=5)
        server.stop(None).wait(5)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert "no such thing" in caught.value.details()
