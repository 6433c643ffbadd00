"""The conflict rules: every pair of actions, and what the rules promise in words."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from olympia_cli.catalog.conflicts import Clash, ConflictVerdict, judge, settle
from olympia_cli.format.actions import DROPS, READS, Action
from olympia_cli.format.pb.actions_pb2 import ActionType as T
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.names import TableName
from tests.helpers.sample_actions import SAMPLES, action

SNAPSHOT, SERIALIZABLE = IsolationLevel.SNAPSHOT, IsolationLevel.SERIALIZABLE
TABLE = Path(__file__).parents[1] / "golden" / "conflicts.txt"
MARKS = {ConflictVerdict.CLEAR: ".", ConflictVerdict.MERGED: "m", ConflictVerdict.CONFLICT: "X"}


def grid() -> str:
    """All verdicts as text: a row for each pending action, a column for each committed one, in the same order."""
    lines = ["# rows: pending; columns: committed, in the order of the rows. . clear  m merged  X conflict"]
    for level, title in ((SNAPSHOT, "SNAPSHOT"), (SERIALIZABLE, "SERIALIZABLE")):
        lines.append(f"# {title}")
        for name, pending in SAMPLES.items():
            marks = "".join(MARKS[judge(pending, committed, level)] for committed in SAMPLES.values())
            lines.append(f"{name:18} {marks}")
    return "\n".join(lines) + "\n"


def test_every_pair_has_the_verdict_in_the_table():
    assert grid() == TABLE.read_text()


def test_the_table_has_every_action_type():
    assert {sample.type for sample in SAMPLES.values()} >= set(T.values())


def verdict(pending: str, committed: str, level=SNAPSHOT) -> ConflictVerdict:
    return judge(SAMPLES[pending], SAMPLES[committed], level)


WRITES = [name for name, sample in SAMPLES.items() if sample.type not in READS]
SILENT = ["compact", "expire mark", "expire undo", "expire purge", "commit info"]
LOUD = [name for name in WRITES if name not in SILENT]
IN_A = [name for name in WRITES if name.startswith(("table", "view")) and "b." not in name and "same id" not in name]
DROPPED = [name for name in IN_A if SAMPLES[name].type in DROPS]


@pytest.mark.parametrize(("pending", "committed"), list(product(LOUD, ["rollback", "repair"])))
def test_rollback_and_repair_conflict_with_every_write_in_both_directions(pending, committed):
    assert verdict(pending, committed) is ConflictVerdict.CONFLICT
    assert verdict(committed, pending) is ConflictVerdict.CONFLICT


@pytest.mark.parametrize(("pending", "committed"), list(product(SAMPLES, SILENT)))
def test_expire_and_compact_never_block_others(pending, committed):
    assert verdict(pending, committed, SERIALIZABLE) is ConflictVerdict.CLEAR


@pytest.mark.parametrize("pending", [name for name in IN_A if name not in DROPPED and name != "table rename out"])
@pytest.mark.parametrize("committed", ["ns drop", "ns drop cascade", "ns rename a z"])
def test_nothing_is_created_altered_or_renamed_into_a_namespace_that_went_away(pending, committed):
    assert verdict(pending, committed) is ConflictVerdict.CONFLICT


@pytest.mark.parametrize("pending", ["ns drop", "ns drop cascade", "ns rename a z"])
@pytest.mark.parametrize("committed", [name for name in IN_A if name not in DROPPED and name != "table rename out"])
def test_dropping_or_renaming_a_namespace_conflicts_with_writes_inside(pending, committed):
    assert verdict(pending, committed) is ConflictVerdict.CONFLICT


@pytest.mark.parametrize(
    ("pending", "committed"),
    [("ns set p", "ns set q"), ("ns unset p", "ns set q"),
     ("table set p", "table unset q"), ("table set p", "table insert"),
     ("catalog set p", "catalog set q"), ("export e", "export f"), ("catalog set p", "export e")],
)  # fmt: skip
def test_changes_of_different_parts_merge(pending, committed):
    assert verdict(pending, committed) is ConflictVerdict.CLEAR
    assert verdict(committed, pending) is ConflictVerdict.CLEAR


@pytest.mark.parametrize(
    ("pending", "committed"),
    [("ns set p", "ns unset p"), ("table set p", "table set p"), ("table insert", "table insert"),
     ("table set p", "table alter"),
     ("catalog set p", "catalog set p"), ("export e", "export e"),
     ("catalog alter", "catalog set p"), ("view set p", "view replace")],
)  # fmt: skip
def test_changes_of_the_same_part_conflict(pending, committed):
    assert verdict(pending, committed) is ConflictVerdict.CONFLICT
    assert verdict(committed, pending) is ConflictVerdict.CONFLICT


@pytest.mark.parametrize("drop", ["ns drop", "table drop", "view drop"])
def test_equal_drops_merge_and_drops_of_another_object_under_the_name_do_not(drop):
    assert verdict(drop, drop) is ConflictVerdict.MERGED
    another = action(SAMPLES[drop].type, SAMPLES[drop].name, id="another")
    assert judge(SAMPLES[drop], another, SNAPSHOT) is ConflictVerdict.CONFLICT


def test_two_objects_never_get_one_id():
    assert verdict("table create", "table same id") is ConflictVerdict.CONFLICT


@pytest.mark.parametrize("read", [name for name in SAMPLES if SAMPLES[name].type in READS])
def test_reads_do_not_conflict_under_snapshot(read):
    assert all(verdict(read, committed) is ConflictVerdict.CLEAR for committed in SAMPLES)


def test_reads_never_stand_in_the_way_of_others():
    for pending, read in product(SAMPLES, SAMPLES):
        if SAMPLES[read].type in READS:
            assert verdict(pending, read, SERIALIZABLE) is ConflictVerdict.CLEAR


def tables(count: int, type=T.TABLE_CREATE, first: int = 0) -> list[Action]:
    names = (TableName("a", f"t{number}") for number in range(first, first + count))
    return [action(type, name, id=f"{name.name}") for name in names]


def test_settling_is_the_same_as_judging_every_pair():
    samples = list(SAMPLES.values())
    for pending, committed, level in product(samples, samples, (SNAPSHOT, SERIALIZABLE)):
        settled = settle([pending], [[committed]], level)
        expected = judge(pending, committed, level)
        if expected is ConflictVerdict.CONFLICT:
            assert settled == Clash(pending, committed, 0), (pending, committed)
        else:
            assert settled == [replace(pending, merged=expected is ConflictVerdict.MERGED)], (pending, committed)


def test_settling_one_commit_after_the_other_is_settling_them_at_once():
    """Above all of a drop that is merged: what comes back under its name conflicts, however many rebases later."""
    drops = [sample for sample in SAMPLES.values() if sample.type in DROPS]
    for pending, *commits in product(drops, SAMPLES.values(), SAMPLES.values()):
        at_once = settle([pending], [[committed] for committed in commits], SNAPSHOT)
        settled = settle([pending], [commits[:1]], SNAPSHOT)
        if not isinstance(settled, Clash):
            settled = settle(settled, [commits[1:]], SNAPSHOT)
        if isinstance(at_once, Clash):
            assert isinstance(settled, Clash), commits
            assert settled.committed == at_once.committed
        else:
            assert settled == at_once


def test_settling_two_large_transactions_does_not_compare_every_pair():
    """Ten thousand actions on each side would be a hundred million pairs."""
    settled = settle(tables(10_000), [tables(10_000, first=10_000)], SNAPSHOT)
    assert isinstance(settled, list)
    assert len(settled) == 10_000


def test_a_clash_names_both_actions_and_the_commit():
    pending = tables(5)
    clash = settle(pending, [[], [pending[3]]], SNAPSHOT)
    assert clash == Clash(pending[3], pending[3], 1)
