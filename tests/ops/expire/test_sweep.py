"""The fate of a file, from its own properties only."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from olympia_cli.format.paths import FileKind, file_kind, root_path
from olympia_cli.ops.expire import FileFacts, FileFate, Sweep

NOW, GRACE = 1_000_000, 1000
OLD, YOUNG = NOW - GRACE, NOW - GRACE + 1
LIVE, DEAD = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
SWEEP = Sweep(
    oldest=8,
    latest=12,
    pins=(),
    live_transactions=frozenset({LIVE}),
    store_now_millis=NOW,
    grace_millis=GRACE,
    manifests=("rests", "leaves"),
    leaving=frozenset({"leaves"}),
    purged=5,
)
NODE = "node/00000000-0000-4000-8000-000000000001.arrow"


def fate(path: str, modified: int | None = OLD, sweep: Sweep = SWEEP, **facts: bool) -> FileFate:
    return sweep.fate(FileFacts(path, file_kind(path), modified, **facts))


@pytest.mark.parametrize("path", ["README.md", "node/notes.txt", root_path(1, 64), f"def/dtxn/{DEAD}.binpb"])
def test_a_file_unknown_to_the_format_is_left_alone(path: str):
    assert {fate(path, modified) for modified in (OLD, YOUNG)} == {FileFate.UNKNOWN}


@pytest.mark.parametrize("path", ["vn/latest", "vn/oldest", "ops/last-fsck.json"])
def test_expire_never_takes_hints_or_notes(path: str):
    assert fate(path) is FileFate.STAYS


@pytest.mark.parametrize(
    ("path", "needed"),
    [
        (NODE, {"reached": True}),
        (root_path(8), {}),
        (root_path(12), {}),
        (f"dtxn/{LIVE}.3.binpb", {}),
    ],
)
@pytest.mark.parametrize("modified", [OLD, YOUNG])
def test_needed_files_are_kept(path: str, needed: dict[str, bool], modified: int):
    assert fate(path, modified, **needed) is FileFate.STAYS
    assert fate(path, modified, resting=True, **needed) is FileFate.STAYS


@pytest.mark.parametrize("path", [NODE, root_path(7), f"dtxn/{DEAD}.3.binpb", f"node/.tmp-{DEAD}"])
def test_an_unneeded_file_enters_quarantine_once(path: str):
    assert file_kind(path) is not FileKind.UNKNOWN
    assert fate(path) is FileFate.QUARANTINED
    assert fate(path, YOUNG) is FileFate.YOUNG
    assert {fate(path, modified, resting=True) for modified in (OLD, YOUNG)} == {FileFate.RESTS}
    assert fate(path, None, resting=True) is FileFate.STAYS


def test_files_reachable_from_quarantine_are_marked_but_not_purged():
    assert fate(NODE, recallable=True) is FileFate.QUARANTINED
    assert fate(NODE, recallable=True, leaving=True) is FileFate.RESCUED


@pytest.mark.parametrize("modified", [OLD, YOUNG, None])
def test_rested_files_are_purged_unless_needed(modified: int | None):
    assert fate(NODE, modified, leaving=True) is FileFate.PURGED
    assert fate(NODE, modified, leaving=True, reached=True) is FileFate.RESCUED
    assert fate(root_path(3), modified, leaving=True) is FileFate.PURGED
    assert fate(f"dtxn/{LIVE}.3.binpb", modified, leaving=True) is FileFate.RESCUED


def test_a_save_at_a_name_that_was_used_again():
    save = f"dtxn/{DEAD}.3.binpb"
    assert fate(save, OLD, leaving=True) is FileFate.PURGED
    assert fate(save, None, leaving=True) is FileFate.PURGED
    assert fate(save, YOUNG, leaving=True) is FileFate.RESCUED


def test_files_deleted_by_an_unfinished_purge_are_gone():
    unfinished = replace(SWEEP, unfinished=True)
    assert fate(NODE, None, unfinished, leaving=True) is FileFate.GONE
    assert fate(NODE, OLD, unfinished, leaving=True) is FileFate.PURGED
    assert fate(NODE, None, unfinished, leaving=True, reached=True) is FileFate.RESCUED


def test_a_late_root_below_the_purged_versions_is_purged():
    """The root was never part of history, so only the purge deletes it."""
    assert fate(root_path(4)) is FileFate.PURGED
    assert fate(root_path(5)) is FileFate.QUARANTINED
    assert fate(root_path(4), YOUNG) is FileFate.YOUNG
    assert fate(root_path(4), reached=True) is FileFate.QUARANTINED
    nothing_leaves = replace(SWEEP, leaving=frozenset(), purged=0)
    assert fate(root_path(4), OLD, nothing_leaves) is FileFate.QUARANTINED


def test_which_versions_can_be_brought_back():
    assert SWEEP.resting_versions == range(5, 8)
    assert not replace(SWEEP, leaving=frozenset(), purged=0).resting_versions


def test_it_can_be_sent_elsewhere():
    facts = FileFacts(NODE, FileKind.NODE, OLD, leaving=True)
    sweep, file = pickle.loads(pickle.dumps((SWEEP, facts)))
    assert sweep.fate(file) is SWEEP.fate(facts)


@pytest.mark.parametrize(
    ("damaged", "fresh", "leaving"),
    [
        (4, FileFate.QUARANTINED, FileFate.PURGED),
        (5, FileFate.QUARANTINED, FileFate.RESCUED),
        (7, FileFate.QUARANTINED, FileFate.RESCUED),
        (8, FileFate.STAYS, FileFate.RESCUED),
    ],
)
def test_a_version_that_is_known_to_be_damaged_may_reach_any_node(damaged: int, fresh: FileFate, leaving: FileFate):
    """A purged version needs no files, a resting one those that an undo restores, a kept one all existing files."""
    sweep = replace(SWEEP, damaged=damaged)
    assert fate(NODE, sweep=sweep) is fresh
    assert fate(NODE, sweep=sweep, leaving=True) is leaving
    assert fate(root_path(4), sweep=sweep, leaving=True) is FileFate.PURGED
