from labkit.course import events


def test_events_come_back_in_order(tmp_path, monkeypatch):
    log = tmp_path / "a folder ü" / "events.jsonl"
    log.parent.mkdir()
    monkeypatch.setenv(events.EVENTS_ENV, str(log))
    events.record(events.STARTED, cells=2)
    events.record(events.CELL_DONE, cell=0, status="ok")
    assert [event.kind for event in events.read(log)] == [events.STARTED, events.CELL_DONE]
    assert events.read(log, skip=1)[0].detail == {"cell": 0, "status": "ok"}


def test_a_line_that_a_killed_writer_left_torn_does_no_harm(tmp_path):
    log = tmp_path / "events.jsonl"
    log.write_text('{"kind": "run started", "cells": 1}\n{"kind": "run fin')
    assert [event.kind for event in events.read(log)] == [events.STARTED]


def test_without_a_test_run_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv(events.EVENTS_ENV, raising=False)
    assert not events.wanted()
    events.record(events.STARTED)
    assert events.read(tmp_path / "none") == []
