"""The verdict on the latest version alone, and the newest version that is sound."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import root_path
from olympia_cli.names import AtVersion, Kind
from olympia_cli.ops.fsck import LatestVersion, Level, Report, list_versions
from olympia_cli.ops.walk import Files
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.damage import cut_behind_id
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, table


@pytest.fixture
def store() -> MemoryStore:
    """v1 has the first definition of a table, v2 the second, and v3 the third."""
    store = MemoryStore("sound")
    catalog = Catalog.create(store)
    with catalog.transaction() as t:
        t.create_namespace(ns("a"))
        t.create_table(table("a.t"), location(1))
    for number in (2, 3):
        with catalog.transaction() as t:
            t.alter_table(table("a.t"), {}, (), location(number))
    return store


def definition(store: MemoryStore, version: int) -> str:
    [(_, path)] = Catalog(store).snapshot(AtVersion(version)).scan(Kind.TABLE)
    return path


def cut(store: MemoryStore, version: int) -> str:
    path = definition(store, version)
    store.overwrite(path, cut_behind_id(store.read(path)))
    return path


def latest(store: MemoryStore) -> LatestVersion:
    versions, _ = list_versions(store)
    return LatestVersion(Files(store), versions)


def full(store: MemoryStore) -> Report:
    return fsck(store, level=Level.FULL)


def test_an_older_version_is_held_against_the_log_too(store):
    cut(store, 2)
    store.delete_many([definition(store, 3)])
    assert full(store).last_sound_version == 1
    assert latest(store).last_sound(0) == 1


def test_cut_definition_is_found_with_a_partly_unreadable_log(store):
    path = cut(store, 3)
    store.overwrite(root_path(1), b"")
    [finding] = [finding for finding in full(store).findings if finding.code == "F304"]
    assert (finding.path, finding.versions) == (path, ((3, 3),))
    assert [error.code for error in latest(store).errors()] == ["F304"]


def test_older_damage_is_no_error_of_the_latest_version(store):
    store.delete_many([definition(store, 2)])
    assert latest(store).errors() == []
    assert latest(store).last_sound(0) == 3


def test_no_version_that_does_not_count_is_sound(store):
    store.delete_many([definition(store, 3)])
    assert latest(store).last_sound(0) == 2
    assert latest(store).last_sound(3) is None
