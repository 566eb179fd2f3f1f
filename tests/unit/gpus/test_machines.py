import pytest

from labkit.errors import BadInput
from labkit.gpus import DEFAULT_MACHINE, machines

GOOD = """
description: two cards
driverVersion: 580.126.09
cudaVersion: "13.0"
gpus:
- card: a30
  pciBusID: "0000:17:00.0"
- card: t4
  pciBusID: "0000:65:00.0"
  numaNode: 1
  pcieRoot: "pci0000:64"
"""


@pytest.mark.parametrize("name", machines.names())
def test_every_machine_of_ours_can_be_read(name):
    machine = machines.load(name)
    assert machine.name == name
    assert machine.slots


def test_the_default_machine_is_one_of_them():
    assert DEFAULT_MACHINE in machines.names()


def test_a_machine_of_your_own_is_read_from_its_file(tmp_path):
    path = tmp_path / "my box.yaml"
    path.write_text(GOOD)
    machine = machines.load(str(path))
    assert [slot.card.key for slot in machine.slots] == ["a30", "t4"]
    assert [slot.numa_node for slot in machine.slots] == [None, 1]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("card: t4", "card: t5", r"gpus\[1\]: there is no card 't5'"),
        ("0000:65:00.0", "0000:17:00.0", "same pciBusID"),
        ("numaNode: 1", "numaNode: -1", r"gpus\[1\]: numaNode must be a whole number"),
        ("numaNode: 1", "numa: 1", r"gpus\[1\]: 'numa' is not known"),
        ("580.126.09", "5", "driverVersion must be text like"),
        ("description: two cards", "", "description is missing"),
        ("gpus:", "gpu:", "gpus is missing"),
        ('"13.0"', "13.0", 'cudaVersion must be text like "580.126.09" or "13.0", not 13.0'),
        ("0000:65:00.0", "0000:AB:00.0", 'pciBusID must be text like "0000:1b:00.0"'),
        ("gpus:", "gpus:\n- t4", r"gpus\[0\]: expected keys and values"),
        ("0000:65:00.0", "65:00", "pciBusID must be text like"),
        ("description:", "description: [", "is not YAML"),
    ],
)
def test_a_wrong_file_is_refused_by_key(tmp_path, old, new, told):
    path = tmp_path / "box.yaml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(BadInput, match=told) as caught:
        machines.load(str(path))
    assert str(path) in caught.value.message


def test_an_unknown_name_is_told_beside_the_known_ones():
    with pytest.raises(BadInput, match="no machine 'dgx-h101'") as caught:
        machines.load("dgx-h101")
    assert "dgx-h100" in caught.value.hint


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        machines.load(str(tmp_path / "none.yaml"))
