"""The supervisor with small scripts in the place of Kubernetes' components."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.cluster import local, members, processes, records, supervisor
from labkit.cluster.layout import Layout
from labkit.cluster.lease import Lease
from labkit.cluster.plan import Component, Plan
from labkit.cluster.processes import Process
from labkit.waiting import NotYet, Seen, wait_until

SLEEP = ("sleep", "600")
SOON_S = 20


def own_lease() -> Lease:
    own = Process.at(os.getpid())
    assert own is not None
    return Lease(owners=(own,))


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    layout = Layout(tmp_path / "Stände mit Blank" / "lab")
    for folder in (layout.run, layout.logs):
        folder.mkdir(parents=True)
    os.mkfifo(layout.control)
    own_lease().write(layout)
    yield layout
    local.end(layout)
    assert not members.of_cluster(layout.folder)


def start(layout: Layout, *components: Component) -> None:
    Plan(components=components).write(layout)
    supervisor.start(layout)
    for component in components:
        if not component.waits_for:
            alive(layout, component.name)


def alive(layout: Layout, name: str, *, other_than: int = 0) -> Process:
    def look() -> Seen[Process] | NotYet:
        record = records.read(layout, name)
        process = record.process if record else None
        if process and process.is_alive() and process.pid != other_than:
            return Seen(process)
        return NotYet(str(record))

    return wait_until(look, what=f"{name} to live", timeout_s=SOON_S, interval_s=0.02)


def handles_signals(layout: Layout, name: str) -> None:
    def look() -> Seen[None] | NotYet:
        return Seen(None) if layout.log(name).read_text() else NotYet("it says nothing")

    wait_until(look, what=f"{name} to be on", timeout_s=SOON_S)


def gone(layout: Layout) -> None:
    def look() -> Seen[None] | NotYet:
        left = members.of_cluster(layout.folder)
        return NotYet(str(left)) if left or layout.folder.exists() else Seen(None)

    wait_until(look, what="the cluster to be gone", timeout_s=SOON_S, interval_s=0.02)


def test_a_killed_component_is_started_again_and_that_is_counted(layout: Layout) -> None:
    start(layout, Component(name="one", argv=SLEEP))
    first = alive(layout, "one")
    first.kill()
    alive(layout, "one", other_than=first.pid)
    record = records.read(layout, "one")
    assert record is not None
    assert (record.restarts, record.last_exit) == (1, "ended by signal 9")


def test_a_component_that_keeps_dying_is_restarted_ever_more_slowly(layout: Layout) -> None:
    count = layout.folder / "count"
    script = 'echo x >> "$1"; echo "Error: no luck" >&2; exit 3'
    dying = Component(name="dying", argv=("sh", "-c", script, "sh", str(count)))
    Plan(components=(dying,)).write(layout)
    supervisor.start(layout)

    def look() -> Seen[None] | NotYet:
        record = records.read(layout, "dying")
        return Seen(None) if record and record.deaths >= 3 else NotYet(str(record))

    wait_until(look, what="three deaths", timeout_s=SOON_S)
    assert records.last_words(layout, "dying") == "Error: no luck"
    record = records.read(layout, "dying")
    assert record is not None
    assert record.last_exit == "exit code 3"
    assert len(count.read_text().split()) <= 6


def test_when_the_supervisor_is_killed_its_standby_adopts_everything(layout: Layout) -> None:
    start(layout, Component(name="one", argv=SLEEP), Component(name="two", argv=SLEEP))
    before = {name: alive(layout, name) for name in ("one", "two")}
    for _ in range(2):
        boss, standby = alive(layout, "supervisor"), alive(layout, "standby")
        boss.kill()
        assert alive(layout, "supervisor", other_than=boss.pid) == standby
        alive(layout, "standby", other_than=standby.pid)
    assert {name: alive(layout, name) for name in ("one", "two")} == before
    before["one"].kill()
    alive(layout, "one", other_than=before["one"].pid)


def test_a_killed_standby_is_replaced(layout: Layout) -> None:
    start(layout, Component(name="one", argv=SLEEP))
    standby = alive(layout, "standby")
    standby.kill()
    alive(layout, "standby", other_than=standby.pid)


def test_components_end_in_the_reverse_order_of_their_start(layout: Layout) -> None:
    code = (
        "import signal, sys\n"
        "def bye(*_):\n"
        "    open(sys.argv[1], 'a').write(sys.argv[2])\n"
        "    raise SystemExit\n"
        "signal.signal(signal.SIGTERM, bye)\n"
        "print('on', flush=True)\n"
        "signal.pause()\n"
    )
    order = layout.folder.parent / "order"
    parts = [
        Component(name=name, argv=(sys.executable, "-c", code, str(order), name)) for name in "abc"
    ]
    start(layout, *parts)
    for part in parts:
        handles_signals(layout, part.name)
    assert local.end(layout)
    assert order.read_text() == "cba"


def test_the_cluster_ends_with_its_owner_and_leaves_no_file(layout: Layout) -> None:
    with subprocess.Popen(SLEEP) as owner:
        process = Process.at(owner.pid)
        assert process is not None
        Lease(owners=(process,)).write(layout)
        start(layout, Component(name="one", argv=SLEEP))
        owner.kill()
    gone(layout)


def test_a_changed_lease_is_heeded_at_once(layout: Layout) -> None:
    start(layout, Component(name="one", argv=SLEEP))
    Lease(stay=True).write(layout)
    alive(layout, "one")
    Lease(stay=True, until=1.0).write(layout)
    gone(layout)


def test_without_a_lease_nothing_lives_on(layout: Layout) -> None:
    layout.lease_file.unlink()
    Plan(components=(Component(name="one", argv=SLEEP),)).write(layout)
    supervisor.start(layout)
    gone(layout)


def test_children_of_components_end_as_well(layout: Layout) -> None:
    script = "setsid sleep 600 & setsid sleep 600 & exec sleep 600"
    start(layout, Component(name="one", argv=("sh", "-c", script)))

    def look() -> Seen[None] | NotYet:
        found = len(processes.of_cluster(layout.folder))
        return Seen(None) if found >= 5 else NotYet(f"{found} processes")

    wait_until(look, what="the children", timeout_s=SOON_S)
    local.end(layout)
    gone(layout)


def test_sigterm_ends_the_processes_and_keeps_the_data(layout: Layout) -> None:
    start(layout, Component(name="one", argv=SLEEP))
    alive(layout, "supervisor").kill(signal.SIGTERM)

    def look() -> Seen[None] | NotYet:
        left = members.of_cluster(layout.folder)
        return NotYet(str(left)) if left else Seen(None)

    wait_until(look, what="all processes to end", timeout_s=SOON_S)
    assert layout.plan_file.exists()


def test_a_component_waits_for_what_it_needs(layout: Layout) -> None:
    door = layout.folder / "there"
    start(layout, Component(name="late", argv=SLEEP, waits_for=(f"file:{door}",)))
    alive(layout, "standby")
    assert records.read(layout, "late") is None
    door.touch()
    alive(layout, "late")


def test_a_helper_runs_after_a_restart_and_not_before(layout: Layout) -> None:
    mark = layout.folder / "mark"
    start(layout, Component(name="one", argv=SLEEP, on_restart=("touch", str(mark))))
    first = alive(layout, "one")
    assert not mark.exists()
    first.kill()
    wait_until(
        lambda: Seen(None) if mark.exists() else NotYet("no mark"), what="it", timeout_s=SOON_S
    )


def test_a_program_that_is_missing_is_named(layout: Layout) -> None:
    Plan(components=(Component(name="one", argv=("/does/not/exist",)),)).write(layout)
    supervisor.start(layout)

    def look() -> Seen[str] | NotYet:
        record = records.read(layout, "one")
        return Seen(record.last_exit) if record else NotYet("no record")

    assert "No such file" in wait_until(look, what="a record", timeout_s=SOON_S)


def test_records_are_plain_json_with_what_is_needed_to_find_the_process(layout: Layout) -> None:
    start(layout, Component(name="one", argv=SLEEP))
    alive(layout, "one")
    record = json.loads(layout.record("one").read_text())
    assert record["name"] == "one"
    assert {"pid", "start", "boot"} <= set(record)
