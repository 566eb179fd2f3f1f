"""Promises about the house as a whole: its layering, its import time, its public names."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import labkit

ROOT = Path(__file__).resolve().parents[2]


def test_rooms_import_only_downwards() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


HEAVY = {"grpc", "httpx", "kubernetes", "papermill", "rich", "typer", "cryptography", "yaml"}


def test_importing_labkit_loads_nothing_heavy() -> None:
    code = "import labkit, sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not HEAVY & set(done.stdout.split())


def test_public_names_are_all_there() -> None:
    for name in labkit.__all__:
        assert getattr(labkit, name) is not None
    assert set(labkit.__all__) <= set(dir(labkit))


def test_the_version_is_that_of_the_package_and_of_the_changelog() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version("labkit") == declared
    assert re.search(rf"^## \[(Unreleased|{re.escape(declared)})\]", changelog(), re.MULTILINE)


def changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text()


def test_nothing_is_left_unfinished_and_nothing_sleeps() -> None:
    unfinished = re.compile(r"TODO|FIXME|XXX|NotImplementedError|\btime\.sleep\(")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "labkit").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if unfinished.search(line)
    ]
    assert not found


def test_pinned_requirements_carry_hashes_and_no_addresses() -> None:
    text = (ROOT / "requirements.txt").read_text()
    pins = re.findall(r"^[A-Za-z0-9_.-]+==", text, re.MULTILINE)
    assert len(pins) > 50
    assert "://" not in text
    assert text.count("--hash=sha256:") >= len(pins)
