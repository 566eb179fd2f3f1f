import json
import re
import subprocess
import sys

import pytest

from labkit.gpus import build, cdi, machines, smi


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(smi.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.fixture
def gpus(folder):
    chosen = build(machines.load("dgx-h100"), node="n", seed="s").gpus[2:4]
    for gpu in chosen:
        (folder / f"{gpu.uuid}.json").write_text(json.dumps(cdi.description(gpu)))
    return chosen


def test_exactly_the_given_devices_are_listed(gpus, capsys):
    assert smi.main(["-L"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {gpu.uuid})" for index, gpu in enumerate(gpus)
    ]


TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.126.09             Driver Version: 580.126.09     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:52:00.0 Off |                  N/A |
| N/A   N/A   N/A              N/A /  N/A |       0MiB /  81559MiB |     N/A      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""


def test_the_table_looks_like_the_real_one(gpus, capsys):
    assert smi.main(["-i", "0"]) == 0
    date, *lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4} {7}", date)
    assert lines[:11] == TABLE.splitlines()
    assert {len(line) for line in lines} == {91}
    assert "No running processes found" in lines[-2]


@pytest.mark.parametrize("name", machines.names())
def test_every_card_fits_the_table(name, folder, capsys):
    given = build(machines.load(name), node="n", seed="s").gpus
    for gpu in given:
        (folder / f"{gpu.uuid}.json").write_text(json.dumps(cdi.description(gpu)))
    smi.main([])
    _, *lines = capsys.readouterr().out.splitlines()
    assert {len(line) for line in lines} == {91}
    assert sum(f"{gpu.card.memory_mib}MiB" in line for gpu in given[:1] for line in lines)


def test_a_long_name_is_cut_as_nvidia_smi_cuts_it():
    assert smi.shortened("NVIDIA RTX PRO 6000 Blackwell Server Edition") == (
        "NVIDIA RTX PRO 6000 Blac..."
    )
    assert smi.shortened("NVIDIA A100-SXM4-40GB") == "NVIDIA A100-SXM4-40GB"


def test_a_query_answers_in_csv(gpus, capsys):
    assert smi.main(["--query-gpu=index,uuid,memory.total", "--format=csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "index, uuid, memory.total [MiB]"
    assert lines[1] == f"0, {gpus[0].uuid}, 81559 MiB"


def test_a_query_leaves_out_header_and_units_when_asked(gpus, capsys):
    smi.main(["--query-gpu=memory.total", "--format=csv,noheader,nounits"])
    assert capsys.readouterr().out.splitlines() == ["81559", "81559"]


@pytest.mark.usefixtures("gpus")
def test_an_unknown_field_is_refused_as_nvidia_smi_does(capsys):
    assert smi.main(["--query-gpu=nonsense"]) == 2
    assert 'Field "nonsense" is not a valid field' in capsys.readouterr().out


def test_one_device_can_be_chosen(gpus, capsys):
    smi.main(["-L", "-i", gpus[1].uuid])
    assert gpus[0].uuid not in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_without_devices_it_says_so_and_fails(capsys):
    assert smi.main(["-L"]) == 6
    assert capsys.readouterr().out == "No devices were found\n"


def test_a_copy_runs_with_nothing_but_the_standard_library(gpus):
    done = subprocess.run(
        [sys.executable, "-I", "-S", smi.__file__, "-q"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.count("Product Name") == len(gpus)
