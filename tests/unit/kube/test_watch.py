from itertools import islice
from threading import Event, Thread

import pytest

from labkit.errors import ApiError
from labkit.kube import RESOURCE_SLICES
from tests.unit.kube.conftest import Answer, failure, listing, slice_


def told(client, count, stop=None):
    changes = client.watch(RESOURCE_SLICES, stop=stop or Event())
    names = [
        (change.kind, change.object and change.object["metadata"]["name"])
        for change in islice(changes, count)
    ]
    changes.close()
    return names


def event(kind, obj):
    return {"type": kind, "object": obj}


GONE = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})


def test_first_what_there_is_then_synced_then_what_changes(api, client):
    api.script(
        listing(5, slice_("a", 1)),
        Answer(lines=[event("ADDED", slice_("b", 6)), event("DELETED", slice_("a", 7))]),
    )
    assert told(client, 4) == [
        ("ADDED", "a"), ("SYNCED", None), ("ADDED", "b"), ("DELETED", "a"),
    ]  # fmt: skip
    assert api.requests[1].params["resourceVersion"] == "5"


def test_after_410_only_the_difference_is_told(api, client):
    api.script(
        listing(5, slice_("a", 1), slice_("b", 2), slice_("c", 3)),
        Answer(lines=[GONE]),
        listing(9, slice_("a", 1), slice_("b", 8), slice_("d", 9)),
        Answer(lines=[], hang=Event()),
    )
    assert told(client, 8)[4:] == [
        ("DELETED", "c"), ("MODIFIED", "b"), ("ADDED", "d"), ("SYNCED", None),
    ]  # fmt: skip


def test_410_as_the_answer_itself_means_to_list_again(api, client):
    api.script(listing(5), failure(410, "Expired"), listing(9, slice_("a", 9)), Answer(lines=[]))
    assert told(client, 3) == [("SYNCED", None), ("ADDED", "a"), ("SYNCED", None)]


def test_a_stream_that_ends_goes_on_from_where_it_was_without_repeating(api, client):
    api.script(
        listing(5),
        Answer(lines=[event("ADDED", slice_("a", 6)), event("BOOKMARK", slice_("", 8))]),
        Answer(lines=[event("ADDED", slice_("a", 6)), event("MODIFIED", slice_("a", 9))]),
    )
    assert told(client, 3) == [("SYNCED", None), ("ADDED", "a"), ("MODIFIED", "a")]
    assert api.requests[2].params["resourceVersion"] == "8"


def test_a_silent_stream_is_taken_up_again(api, client, monkeypatch):
    monkeypatch.setattr("labkit.kube.watch.SILENCE_S", 0.1)
    silent = Event()
    api.script(
        listing(5), Answer(lines=[], hang=silent), Answer(lines=[event("ADDED", slice_("a", 6))])
    )
    assert told(client, 2) == [("SYNCED", None), ("ADDED", "a")]
    silent.set()


def test_a_server_that_fails_for_a_while_is_asked_again(api, client):
    api.script(
        failure(503, "ServiceUnavailable"),
        failure(500, "InternalError"),
        listing(5),
        Answer(lines=[]),
    )
    assert told(client, 1) == [("SYNCED", None)]


def test_a_refusal_that_lasts_is_raised(api, client):
    api.script(failure(403, "Forbidden"))
    with pytest.raises(ApiError, match="Forbidden"):
        told(client, 1)


def test_stop_ends_a_watch_that_is_blocked_in_reading(api, client, monkeypatch):
    monkeypatch.setattr("labkit.kube.watch.STOP_LOOK_S", 0.02)
    hang, stop, reading = Event(), Event(), Event()
    api.script(listing(5), Answer(lines=[], hang=hang))

    def follow():
        for change in client.watch(RESOURCE_SLICES, stop=stop):
            if change.kind == "SYNCED":
                reading.set()

    thread = Thread(target=follow)
    thread.start()
    assert reading.wait(5)
    stop.set()
    thread.join(5)
    hang.set()
    assert not thread.is_alive()
