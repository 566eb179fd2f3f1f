"""What may be asked for, and how two descriptions differ."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.cluster.spec import ClusterSpec, NodeSpec, checked_name, parse_gates, read_nodes
from labkit.errors import BadInput


def make(**changes: object) -> ClusterSpec:
    asked: dict[str, object] = {
        "name": "lab",
        "nodes": 2,
        "gpus": "dgx-h100",
        "kubernetes_version": "1.37.2",
        "feature_gates": {},
    }
    return ClusterSpec.make(**(asked | changes))  # type: ignore[arg-type]


def test_nodes_are_named_after_the_cluster_and_numbered() -> None:
    assert [node.name for node in make().nodes] == ["lab-0", "lab-1"]


def test_a_given_node_name_is_kept_and_none_means_no_gpus() -> None:
    spec = make(nodes=[NodeSpec(name="trainer", gpus="dgx-h100"), NodeSpec(gpus="none")])
    assert spec.nodes == (
        NodeSpec(name="trainer", gpus="dgx-h100"),
        NodeSpec(name="lab-1", gpus=""),
    )


def test_a_machine_file_is_kept_by_its_absolute_path() -> None:
    assert Path(make(gpus="mine.yaml").nodes[0].gpus) == Path.cwd() / "mine.yaml"


@pytest.mark.parametrize(
    "name", ["", "Lab", "a b", "-lab", "lab-", "x" * 41, "läb", "../up", "a/b"]
)
def test_names_that_are_no_dns_labels_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be the name"):
        checked_name(name)


@pytest.mark.parametrize("nodes", [0, -1, 51])
def test_no_node_and_too_many_nodes_are_refused(nodes: int) -> None:
    with pytest.raises(BadInput, match="1 to 50"):
        make(nodes=nodes)


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(BadInput, match="two nodes are called 'lab-1'"):
        make(nodes=[NodeSpec(name="lab-1"), NodeSpec()])


@pytest.mark.parametrize("version", ["1.37", "latest", "1.37.2-rc.1", ""])
def test_versions_that_are_no_release_are_refused(version: str) -> None:
    with pytest.raises(BadInput, match="not a Kubernetes version"):
        make(kubernetes_version=version)


def test_a_leading_v_is_taken_off_a_version() -> None:
    assert make(kubernetes_version="v1.36.1").kubernetes_version == "1.36.1"


def test_gates_are_parsed_from_any_number_of_texts() -> None:
    assert parse_gates(["A=true,B=FALSE", "C=true"]) == {"A": True, "B": False, "C": True}


@pytest.mark.parametrize("text", ["A", "A=yes", "A=true,", "=true,B"])
def test_texts_that_set_no_gate_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not a feature gate setting"):
        make(feature_gates=parse_gates([text]))


def test_differences_name_each_thing_that_differs() -> None:
    other = make(nodes=1, kubernetes_version="1.36.1", feature_gates={"A": True})
    text = "; ".join(make().differences(other))
    assert "Kubernetes 1.37.2, not 1.36.1" in text
    assert "lab-1 (dgx-h100), not lab-0 (dgx-h100)" in text
    assert "as by default, not A=true" in text


def test_the_order_of_gates_makes_no_difference() -> None:
    first = make(feature_gates={"A": True, "B": False})
    assert not first.differences(make(feature_gates={"B": False, "A": True}))


@given(
    nodes=st.lists(st.sampled_from(["dgx-h100", "t4-box", "none", ""]), min_size=1, max_size=5),
    gates=st.dictionaries(st.from_regex(r"[A-Z][a-z]{1,5}", fullmatch=True), st.booleans()),
)
def test_a_description_survives_its_json(nodes: list[str], gates: dict[str, bool]) -> None:
    spec = make(nodes=[NodeSpec(gpus=gpus) for gpus in nodes], feature_gates=gates)
    assert ClusterSpec.from_json(spec.to_json()) == spec
    assert not spec.differences(ClusterSpec.from_json(spec.to_json()))


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "nodes.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_mixed_nodes_are_read_from_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, "- {name: big, gpus: dgx-h100}\n- {gpus: t4-box, count: 2}\n- {}\n")
    assert read_nodes(path) == [
        NodeSpec(name="big", gpus="dgx-h100"),
        NodeSpec(gpus="t4-box"),
        NodeSpec(gpus="t4-box"),
        NodeSpec(),
    ]


def test_a_machine_file_is_looked_for_beside_the_file_that_names_it(tmp_path: Path) -> None:
    assert read_nodes(write(tmp_path, "nodes: [{gpus: own.yaml}]")) == [
        NodeSpec(gpus=str(tmp_path / "own.yaml"))
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nodes: 3", "expected a list"),
        ("- dgx-h100", "node 0 may say"),
        ("- {gpu: dgx-h100}", "node 0 may say"),
        ("- {gpus: 3}", "name and gpus are texts"),
        ("- {count: 0}", "count is a number"),
        ("- {count: true}", "count is a number"),
        ("- {name: a, count: 2}", "cannot be there 2 times"),
        ("[", "not YAML"),
        ("{nodes: [], more: 1}", "the key 'nodes' alone"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        read_nodes(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read_nodes(tmp_path / "nothing.yaml")
