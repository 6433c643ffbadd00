"""The records of fsck runs for `status`: a run replaces less thorough earlier ones."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from olympia_cli.format.paths import LAST_FSCK
from olympia_cli.ops.fsck import FsckRun, Level, Report, finding, fsck_runs, note_fsck
from olympia_cli.ops.fsck.last_fsck import MAX_RUNS
from olympia_cli.ops.last_runs import read_note
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.clock import FakeClock

DAMAGE = (finding("F201", "node/x", "it is missing"),)


class Notes:
    """A store to which runs are noted."""

    def __init__(self) -> None:
        self.store, self.clock = MemoryStore("notes"), FakeClock()

    def run(self, level="structure", *, damaged=False, all=False, at=None, complete=True, skipped=0, version=7):
        report = Report(Level(level), {"skipped": skipped}, DAMAGE if damaged else (), None, complete, at or version)
        self.clock.sleep(60)
        note_fsck(self.store, report, self.clock, all, latest=at is None)

    @property
    def runs(self) -> list[FsckRun]:
        return fsck_runs(read_note(self.store, LAST_FSCK))

    @property
    def damaged(self) -> bool:
        return any(run.damaged for run in self.runs)


@pytest.fixture
def notes() -> Notes:
    return Notes()


FULL = {"level": "full"}
ALL = {"level": "full", "all": True}


@pytest.mark.parametrize(
    ("first", "then", "cleared"),
    [
        ({}, {}, True),
        (FULL, {}, False),
        (FULL, {"level": "hints"}, False),
        (FULL, FULL, True),
        (FULL, {"level": "data"}, True),
        ({}, FULL, True),
        ({"level": "hints"}, {}, True),
        (ALL, FULL, False),
        (ALL, {"level": "structure", "all": True}, False),
        (ALL, ALL, True),
        (FULL, ALL, True),
        (FULL, FULL | {"complete": False}, False),
        (FULL, FULL | {"at": 7}, False),
        ({"at": 5}, {}, False),
        ({"at": 5}, {"at": 4}, False),
        ({"at": 5}, {"at": 5}, True),
        ({"at": 5}, FULL, False),
        ({"at": 5}, ALL, True),
        (FULL, FULL | {"skipped": 3}, False),
        (FULL | {"skipped": 1}, FULL | {"skipped": 3}, True),
        ({}, FULL | {"skipped": 3}, True),
        (FULL | {"complete": False}, {}, False),
        (FULL | {"complete": False}, FULL, True),
        (FULL | {"version": 3}, FULL | {"version": 9}, True),
    ],
    ids=str,
)
def test_a_sound_run_clears_damage_within_its_scope(notes, first, then, cleared):
    notes.run(damaged=True, **first)
    notes.run(**then)
    assert notes.damaged is not cleared


def test_the_last_run_is_on_top_as_ever(notes):
    notes.run("full", damaged=True)
    notes.run("hints")
    record = read_note(notes.store, LAST_FSCK)
    assert (record["level"], record["damaged"], record["errors"], record["complete"]) == ("hints", False, 0, True)
    assert [(run.level, run.damaged) for run in notes.runs] == [("full", True), ("hints", False)]
    assert record["runs"][-1] == {key: value for key, value in record.items() if key != "runs"}


def test_damage_replaces_the_note_of_a_sound_run(notes):
    notes.run("full")
    notes.run("full", damaged=True)
    assert [(run.level, run.damaged) for run in notes.runs] == [("full", True)]


def test_notes_keep_only_complete_runs_on_the_latest_version(notes):
    notes.run("full")
    notes.run(at=3)
    notes.run(complete=False)
    notes.run("hints")
    assert [(run.level, run.latest) for run in notes.runs] == [("full", True), ("hints", True)]


def test_a_note_stays_small(notes):
    for version in range(MAX_RUNS + 20):
        notes.run(at=version + 1, damaged=True)
    assert len(notes.runs) == MAX_RUNS
    assert notes.runs[-1].version == MAX_RUNS + 20


@pytest.mark.parametrize(
    "record",
    [
        {"damaged": True},
        {"finished_at": "2026-01-01T00:00:00.000Z", "level": "full", "damaged": True, "version": 3},
        {"damaged": True, "runs": []},
        {"damaged": 1, "level": [], "version": -1, "errors": "x", "finished_at": None, "runs": "many", "skipped": 1.5},
        {"runs": [{"damaged": True}, 3, None]},
    ],
    ids=str,
)
def test_notes_of_other_programs(notes, record):
    notes.store.overwrite(LAST_FSCK, json.dumps(record).encode())
    assert notes.damaged
    notes.run("hints")
    assert notes.damaged
    notes.run("data", all=True)
    assert not notes.damaged


def test_a_noted_run_can_be_written_as_a_command(notes):
    run = FsckRun("", "full", True, True, 1, 0, 7, False, True, 0)
    assert run.words() == ("fsck", "--level", "full")
    assert replace(run, all_versions=True).words() == ("fsck", "--level", "full", "--all-versions")
    assert replace(run, latest=False).words() == ("fsck", "--level", "full", "--at", "v7")
    assert set(asdict(run)) == set(asdict(replace(run, version=None)))
