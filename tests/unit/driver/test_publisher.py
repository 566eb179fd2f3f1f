"""The publisher against an API server of a few lines that keeps slices."""

from itertools import count
from queue import Empty, Queue
from threading import Event, Lock, Thread

import pytest

from labkit.driver.publisher import Publisher
from labkit.errors import ApiError
from labkit.gpus import build, machines, slices
from labkit.kube import NODES, RESOURCE_SLICES
from labkit.kube.watch import Change
from labkit.waiting import NotYet, Seen, wait_until

FIELDS = "spec.nodeName=n,spec.driver=gpu.nvidia.com"


class Listing:
    def __init__(self, items):
        self.items = items


class Api:
    """Nodes, slices, and a watch whose events come late; as `labkit.kube.Client` offers it."""

    def __init__(self):
        self.slices = {}
        self.node_uid = "node-uid"
        self.failures = 0
        self.refusals = 0
        self.writes = 0
        self._changes = Queue()
        self._number = count(1)
        self._lock = Lock()

    def watch(self, resource, *, fields, stop):
        assert (resource, fields) == (RESOURCE_SLICES, FIELDS)
        if self.refusals:
            self.refusals -= 1
            raise ApiError("forbidden", status=403)
        with self._lock:
            before = list(self.slices.values())
        yield from [Change("ADDED", slice_) for slice_ in before]
        yield Change("SYNCED")
        while not stop.is_set():
            try:
                yield self._changes.get(timeout=0.02)
            except Empty:
                continue

    def get(self, resource, name):
        assert (resource, name) == (NODES, "n")
        if not self.node_uid:
            raise ApiError("no such node", status=404)
        return {"metadata": {"name": name, "uid": self.node_uid}}

    def list(self, resource, *, fields):
        assert (resource, fields) == (RESOURCE_SLICES, FIELDS)
        with self._lock:
            return Listing(list(self.slices.values()))

    def create(self, _resource, obj):
        if self.failures:
            self.failures -= 1
            raise ApiError("not now", status=500)
        name = f"{obj['metadata']['generateName']}{next(self._number)}"
        return self._store("ADDED", {**obj, "metadata": {**obj["metadata"], "name": name}})

    def update(self, _resource, obj):
        have = self.slices[obj["metadata"]["name"]]
        assert obj["metadata"]["resourceVersion"] == have["metadata"]["resourceVersion"]
        return self._store("MODIFIED", obj)

    def _store(self, kind, obj):
        with self._lock:
            self.writes += 1
            name = obj["metadata"]["name"]
            metadata = {**obj["metadata"], "uid": name, "resourceVersion": str(next(self._number))}
            self.slices[name] = {**obj, "metadata": metadata}
            self._changes.put(Change(kind, self.slices[name]))
            return self.slices[name]

    def delete(self, _resource, name, *, uid):
        assert name == uid
        with self._lock:
            gone = self.slices.pop(name, None)
            if gone:
                self.writes += 1
                self._changes.put(Change("DELETED", gone))
            return gone is not None

    def is_quiet(self):
        return self._changes.empty()


@pytest.fixture
def api():
    return Api()


def make(machine):
    inventory = build(machines.load(machine), node="n", seed="s")
    return lambda generation, owner: slices.resource_slices(
        inventory, generation=generation, owner=owner
    )


@pytest.fixture
def changes():
    return []


@pytest.fixture
def running(api, changes):
    stop = Event()
    publisher = Publisher(api, "n", make("t4-box"), on_change=lambda: changes.append(1))
    thread = Thread(target=publisher.run, args=(stop,))
    yield thread.start
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def published(api, generation):
    """Wait until exactly the right slice is there, in this generation, and all is quiet."""

    def look():
        found = list(api.slices.values())
        spec = found[0]["spec"] if len(found) == 1 else None
        right = spec and len(spec["devices"]) == 1 and spec["pool"]["generation"] == generation
        seen = right and api.is_quiet()
        return Seen(found[0]) if seen else NotYet(str([s["spec"]["pool"] for s in found]))

    return wait_until(look, what="the slice", timeout_s=10, interval_s=0.02)


def owner(slice_):
    return slice_["metadata"]["ownerReferences"][0]["uid"]


def test_a_slice_is_published_with_its_node_as_owner(api, running):
    running()
    assert owner(published(api, 1)) == "node-uid"
    assert api.writes == 1


def test_a_deleted_slice_comes_back_in_a_higher_generation(api, running, changes):
    running()
    first = published(api, 1)["metadata"]["name"]
    api.delete(None, first, uid=first)
    published(api, 2)
    assert len(changes) == 2


def test_an_edited_slice_is_put_right_in_place(api, running):
    running()
    first = published(api, 1)
    api.update(None, {**first, "spec": {**first["spec"], "devices": []}})
    assert published(api, 2)["metadata"]["name"] == first["metadata"]["name"]


def test_a_slice_that_lost_its_owner_gets_it_again(api, running):
    running()
    first = published(api, 1)
    metadata = {**first["metadata"], "ownerReferences": []}
    api.update(None, {**first, "metadata": metadata})
    assert owner(published(api, 2)) == "node-uid"


def test_a_node_that_was_made_anew_owns_the_slice_then(api, running):
    running()
    first = published(api, 1)["metadata"]["name"]
    api.node_uid = "node-uid-2"
    api.delete(None, first, uid=first)  # as the garbage collector does
    assert owner(published(api, 2)) == "node-uid-2"


def test_a_node_that_is_not_there_yet_is_awaited(api, running):
    api.node_uid = ""
    running()
    assert not api.slices
    api.node_uid = "node-uid"
    published(api, 1)


def test_a_burst_of_edits_ends_and_is_not_answered_for_ever(api, running):
    running()
    first = published(api, 1)
    for _ in range(5):
        have = api.slices[first["metadata"]["name"]]
        api._store("MODIFIED", {**have, "spec": {**have["spec"], "devices": []}})
    wait_until(lambda: Seen(1) if api.is_quiet() else NotYet("busy"), what="quiet", timeout_s=10)
    slice_ = next(iter(api.slices.values()))
    assert published(api, slice_["spec"]["pool"]["generation"])
    assert api.writes <= 1 + 5 + 5


def test_a_stray_slice_of_ours_is_removed(api, running):
    running()
    first = published(api, 1)
    stray = {**first, "metadata": {**first["metadata"], "name": "stray"}}
    api._store("ADDED", stray)
    published(api, 2)
    assert list(api.slices) == [first["metadata"]["name"]]


def test_a_restarted_driver_leaves_a_right_slice_alone(api, running):
    (slice_,) = make("t4-box")(7, {"metadata": {"name": "n", "uid": "node-uid"}})
    api.create(None, slice_)
    running()
    wait_until(lambda: Seen(1) if api.is_quiet() else NotYet("busy"), what="quiet", timeout_s=10)
    published(api, 7)
    assert api.writes == 1


def test_slices_of_another_inventory_are_replaced_above_their_generation(api, running):
    (slice_,) = make("dgx-h100")(7, None)
    api.create(None, slice_)
    running()
    published(api, 8)
    assert api.writes == 2


def test_a_server_that_refuses_for_a_while_is_asked_again(api, running):
    api.failures = 3
    running()
    published(api, 1)


def test_permissions_may_come_later_than_the_driver(api, running):
    api.refusals = 2
    running()
    published(api, 1)
