"""An expire goes on past versions that are known to be damaged, and deletes nothing that they may reach."""

from __future__ import annotations

import json
from random import Random

import pytest

from olympia_cli.catalog.properties import ACKNOWLEDGED
from olympia_cli.catalog.retained import damaged_versions
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_root
from olympia_cli.errors import Damaged
from olympia_cli.format.paths import FileKind, file_kind, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import AtVersion
from olympia_cli.ops.expire import simulate, undo
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.export.records import drop_export
from olympia_cli.ops.fsck import Level, acknowledge, of_the_past
from olympia_cli.ops.walk import NodeRules
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.clock import DAY, HOUR
from tests.helpers.damage import spoil
from tests.helpers.expire_place import Place, filled
from tests.helpers.fsck import fsck
from tests.helpers.reach import reach_of

HIT = 9


def trees(place: Place) -> set[str]:
    """The nodes and definitions that are there."""
    return {file.path for file in place.store.list() if file_kind(file.path) in (FileKind.NODE, FileKind.DEFINITION)}


def reached(place: Place, version: int) -> set[str]:
    snapshot = Snapshot(place.store, read_root(place.store, version))
    level, found = [str(child) for child in snapshot.root.node.children if child], set()
    while level:
        found |= set(level)
        level = [str(child) for node in snapshot.reader.nodes(level) for child in node.children if child]
    return found


def spoiled(how: str = "missing") -> Place:
    """Versions 0 to 13; of version 9 a node is lost that no later one has."""
    place = filled(12)
    lost = reached(place, HIT) - reached(place, HIT + 1)
    spoil(place.store, sorted(lost)[0], how)
    return place


def acknowledged(place: Place) -> Place:
    report = fsck(place.store, level=Level.FULL, all_versions=True, clock=place.clock)
    past = [found for found in report.findings if of_the_past(found, report.latest, report.oldest)]
    assert acknowledge(place.catalog, past) is not None
    place.clock.advance(2 * DAY)
    return place


def test_unacknowledged_damage_stops_expire_and_advises_a_full_fsck():
    with pytest.raises(Damaged) as stopped:
        spoiled().plan(keep_last=5)
    assert stopped.value.command == ("fsck", "--level", "full", "--all-versions")


@pytest.mark.parametrize("how", ["missing", "truncated"])
def test_while_a_damaged_version_stays_roots_go_and_all_that_it_may_reach_stays(how):
    place = acknowledged(spoiled(how))
    before = trees(place)
    plan = place.plan(keep_last=6)
    assert plan.mark.damaged == (HIT,)
    assert HIT in [kept.version for kept in plan.mark.kept_versions]
    assert {file.kind for file in plan.mark.files} == {"root"}
    place.mark(keep_last=6)
    place.clock.advance(2 * DAY)
    place.purge()
    assert before <= trees(place)
    assert place.roots[0] == plan.mark.oldest


def test_a_damaged_version_in_quarantine_keeps_its_files():
    place = acknowledged(spoiled())
    place.mark(keep_last=8)
    place.clock.advance(2 * DAY)
    before = trees(place)
    # the first mark leaves while the second, with the damaged version, comes to rest
    plan = place.plan(keep_last=2)
    assert plan.mark.damaged == ()
    assert any(file.kind == "node" for file in plan.mark.files)
    place.mark(keep_last=2)
    place.purge()
    assert before <= trees(place)
    undo(place.catalog)
    assert place.head.definition.properties["olympia.expire.oldest"] <= str(HIT)
    place.mark(keep_last=2)
    place.clock.advance(2 * DAY)
    place.purge()
    assert not before <= trees(place)
    check_catalog(place.store)


def test_an_acknowledged_unreadable_root_is_listed_as_kept():
    place = filled(12)
    spoil(place.store, root_path(HIT), "empty")
    plan = acknowledged(place).plan(keep_last=6)
    assert [kept.version for kept in plan.mark.kept_versions] == [9, 10, 11, 12, 13, 14]


def test_which_versions_cannot_be_followed():
    """A log or a table's own file that cannot be read is no obstacle; a list that says too much is cut."""
    known = [("F205", [[3, 4]]), ("F401", [[6, 6]]), ("F601", [[7, 7]]), ("F301", [[9, 10**9]])]
    text = json.dumps([{"code": code, "path": f"x/{code}", "versions": versions} for code, versions in known])
    definition = CatalogDef(properties={ACKNOWLEDGED: text})
    assert damaged_versions(definition, 4, 11) == {4, 9, 10, 11}


def test_policies_are_compared_past_it():
    place = acknowledged(spoiled())
    outcomes = simulate(place.planner(), place.policy(keep_last=6))
    assert outcomes[0].files == outcomes[0].versions, "roots alone"


def test_fsck_and_expire_agree_that_export_damage_is_current():
    place = filled(12)
    create_export(place.catalog, MemoryStore("dest"), "friday", scope(Mode.MINIMAL), at=AtVersion(HIT))
    lost = sorted(reached(place, HIT) - reached(place, HIT + 1))[0]
    spoil(place.store, lost, "truncated")
    report = fsck(place.store, level=Level.FULL, all_versions=True, clock=place.clock)
    [error] = [finding for finding in report.findings if finding.is_damage]
    assert not of_the_past(error, report.latest, report.oldest)
    assert error.hint == "export drop friday"
    with pytest.raises(Damaged) as stopped:
        place.plan(keep_last=6)
    assert (stopped.value.code, stopped.value.path) == (error.code, error.path) == ("F204", lost)
    drop_export(place.catalog, "friday")
    assert acknowledged(place).plan(keep_last=9).mark.damaged == (HIT,)


def may_need(place: Place, version: int) -> set[str]:
    """The nodes and definitions that a version leads to, as far as anything can be read, and that are there."""
    rules = NodeRules.of(place.catalog.snapshot())
    there, needed = trees(place), set()
    facts = rules.look_at_root_file(root_path(version), place.store.read(root_path(version)))
    waiting = [facts]
    while waiting:
        facts = waiting.pop()
        named = {path for path, _, _ in facts.names} | {path for path in facts.children if path is not None}
        new = named & there - needed
        needed |= new
        waiting += [rules.look(path, place.store.read(path)) for path in sorted(new) if path.startswith("node/")]
    return needed


@pytest.mark.parametrize("seed", range(25))
def test_no_expire_takes_files_that_a_damaged_version_needs(seed):
    """Random damage of older versions, acknowledged, and then marks and purges in random order."""
    numbers, place = Random(seed), filled(12)
    latest = place.head.version
    mine = reach_of(place.store, definitions=True)
    mine.add([(root_path(latest), place.store.read(root_path(latest)))])
    old = [path for path in sorted(trees(place)) if path not in mine] + [root_path(at) for at in range(1, latest)]
    for path in numbers.sample(old, numbers.randint(1, 4)):
        # a gap in history cannot be acknowledged
        ways = ["truncated", "flipped", "empty"] if path.startswith("vn/") else ["missing", "truncated", "empty"]
        spoil(place.store, path, numbers.choice(ways))
    acknowledged(place)
    needed = {version: may_need(place, version) for version in place.roots}
    for _ in range(6):
        if numbers.random() < 0.5:
            place.mark(keep_last=numbers.randint(1, 9))
        else:
            place.purge()
        place.clock.advance(numbers.choice([HOUR, 2 * DAY]))
        there = trees(place)
        for version in needed.keys() & set(place.roots):
            assert needed[version] <= there, f"v{version} lost {needed[version] - there}"
    check_version(place, place.head.version)


def check_version(place: Place, version: int) -> None:
    assert not fsck(place.store, level=Level.FULL, at=AtVersion(version), clock=place.clock).damaged
