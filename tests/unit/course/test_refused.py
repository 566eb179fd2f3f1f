"""Refusals of the API server, in its own words, become lines of the learner's cell."""

import pytest

from labkit.course.refused import refused
from labkit.errors import ApiError

CELL = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: pair
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClasName: gpu.nvidia.com
          count: -1
# a document without an object
---
# and one more
---
apiVersion: v1
kind: Pod
metadata: {name: pair}
spec:
  containers:
  - name: main
    image: x
    resources: {claims: [{name: gpu}]}
    imag: y
"""

TEMPLATES = "PATCH /apis/resource.k8s.io/v1/namespaces/lab-01/resourceclaimtemplates/pair"


def told(message, *, document=0, kind="ResourceClaimTemplate", hint=""):
    return refused(
        ApiError(message, status=422, reason="Invalid", hint=hint),
        CELL,
        document=document,
        kind=kind,
    )


def test_a_field_that_is_not_there_is_named_with_its_line_and_how_to_look_it_up():
    error = told(
        "failed to create typed patch object (/pair; resource.k8s.io/v1, "
        "Kind=ResourceClaimTemplate): .spec.spec.devices.requests[0].exactly.deviceClasName: "
        f"field not declared in schema (500, {TEMPLATES})"
    )
    assert error.message == (
        "ResourceClaimTemplate is refused: line 12, "
        "spec.spec.devices.requests[0].exactly.deviceClasName: field not declared in schema"
    )
    where = "resourceclaimtemplate.spec.spec.devices.requests.exactly"
    assert error.hint.endswith(f"%kubectl explain {where}")


def test_a_value_that_cannot_be_is_named_with_its_line():
    error = told(
        'ResourceClaimTemplate.resource.k8s.io "pair" is invalid: '
        "spec.spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than "
        f"zero (422 Invalid, {TEMPLATES})",
        hint="as before",
    )
    assert "line 13, spec.spec.devices.requests[0].exactly.count: Invalid value" in error.message
    assert error.hint == "as before"
    assert (error.status, error.reason) == (422, "Invalid")


def test_lists_by_key_and_documents_after_empty_ones_are_found():
    error = told(
        "failed to create typed patch object (/pair; /v1, Kind=Pod): "
        '.spec.containers[name="main"].imag: field not declared in schema (500, PATCH /x)',
        document=1,
        kind="Pod",
    )
    assert "line 26, spec.containers" in error.message
    assert error.hint.endswith("pod.spec.containers")


def test_a_missing_field_is_told_at_what_it_is_missing_from():
    error = told(
        'Pod "pair" is invalid: spec.containers[0].resources.claims[0].request: Required value '
        "(422 Invalid, PATCH /x)",
        document=1,
        kind="Pod",
    )
    assert "line 25, spec.containers[0].resources.claims[0].request" in error.message


def test_several_complaints_stand_one_below_the_other():
    error = told(
        'Pod "pair" is invalid:\n    spec.containers[0].image: Required value'
        "\n    spec.containers[0].name: Invalid value (422 Invalid, PATCH /x)",
        document=1,
        kind="Pod",
    )
    assert error.message.splitlines() == [
        "Pod is refused:",
        "    line 24, spec.containers[0].image: Required value",
        "    line 23, spec.containers[0].name: Invalid value",
    ]


@pytest.mark.parametrize(
    "message",
    [
        'namespaces "lab-01" not found',
        'pods "pair" is forbidden: User "x" cannot patch resource "pods" in API group ""',
        "",
        "no answer from the API server",
    ],
)
def test_what_names_no_field_is_passed_on(message):
    assert message in told(message).message
