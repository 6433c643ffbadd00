"""Creating an existing object makes no version; reserved names of the program are refused as typing errors."""

from __future__ import annotations

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import CommitConflict, InvalidOption
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType, CompactDef
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.names import AtVersion
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.names import location, ns, select, table, view

LEVELS = [IsolationLevel.SNAPSHOT, IsolationLevel.SERIALIZABLE]


def compact(transaction) -> None:
    payload = CompactDef(fill_percent=90).SerializeToString()
    transaction.do(Action(ActionType.CATALOG_COMPACT, None, b"", payload))


NOTHING = {
    "ns set": lambda t: t.alter_namespace(ns("a"), {"owner": "ann"}),
    "ns unset": lambda t: t.alter_namespace(ns("a"), None, ["nope"]),
    "ns both": lambda t: t.alter_namespace(ns("a"), {"owner": "ann"}, ["nope"]),
    "table set": lambda t: t.alter_table(table("a.t"), {"k": "v"}),
    "table unset": lambda t: t.alter_table(table("a.t"), None, ["nope"]),
    "table location": lambda t: t.alter_table(table("a.t"), None, (), location(1)),
    "view set": lambda t: t.alter_view(view("a.v"), {"k": "v"}),
    "view replace": lambda t: t.replace_view(view("a.v"), select("select 1", k="v")),
    "catalog set": lambda t: t.alter_catalog({"k": "v"}),
    "catalog unset": lambda t: t.alter_catalog(None, ["nope"]),
    "catalog ttl": lambda t: t.alter_catalog(txn_ttl_millis=t.base.definition.txn_ttl_millis),
    "restore": lambda t: t.restore(t.base.table(table("a.t")), t.base.version),
    "compact": compact,
    "there and back": lambda t: (
        t.alter_table(table("a.t"), {"k": "w"}),
        t.alter_table(table("a.t"), {"k": "v"}),
    ),
}


@pytest.fixture
def catalog():
    catalog = Catalog.create(MemoryStore())
    with catalog.transaction() as t:
        t.alter_catalog({"k": "v"})
        t.create_namespace(ns("a"), {"owner": "ann"})
        t.create_table(table("a.t"), location(0), {"k": "v"})
        t.create_view(view("a.v"), select("select 1", k="v"))
    with catalog.transaction() as t:
        t.alter_table(table("a.t"), None, (), location(1))
    yield catalog
    check_catalog(catalog.store)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("do", NOTHING.values(), ids=NOTHING)
def test_a_change_without_effect_makes_no_version(catalog, do, level):
    files = {file.path for file in catalog.store.list()}
    transaction = catalog.begin(level)
    do(transaction)
    done = catalog.commit(transaction)
    assert (done.version, done.actions) == (2, ())
    assert {file.path for file in catalog.store.list()} == files
    found = distributed.begin(catalog, level)
    do(found.transaction)
    found.save()
    done = distributed.load(catalog, found.id).commit()
    assert (done.version, catalog.snapshot().version) == (2, 2)


def test_the_previous_location_of_a_table_is_not_lost_by_naming_the_present_one(catalog):
    with catalog.transaction() as t:
        t.alter_table(table("a.t"), {"new": "x"}, (), location(1))
    assert catalog.snapshot().table(table("a.t")).definition.iceberg_previous_metadata_location == location(0)


def test_beside_a_change_it_is_committed_and_held_against_others(catalog):
    """In the order of the log it has its effect, so another writer of the same property is a conflict."""
    for level in LEVELS:
        transaction = catalog.begin(level)
        transaction.alter_table(table("a.t"), {"k": "v"})
        transaction.create_namespace(ns(f"new{level}"))
        with catalog.transaction() as other:
            other.alter_table(table("a.t"), {"k": f"other{level}"})
        with pytest.raises(CommitConflict):
            catalog.commit(transaction)
        with catalog.transaction() as back:
            back.alter_table(table("a.t"), {"k": "v"})


def test_a_tree_that_is_packed_loosely_is_compacted_once():
    catalog = Catalog.create(MemoryStore(), order=4)
    for number in range(20):
        with catalog.transaction() as t:
            t.create_namespace(ns(f"n{number:02}"))
    for expected in (21, 21):
        transaction = catalog.begin()
        compact(transaction)
        assert catalog.commit(transaction).version == expected
    content = [list(catalog.snapshot(AtVersion(version)).namespaces()) for version in (20, 21)]
    assert content[0] == content[1]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("olympia.retention.max-versions-age", "did you mean olympia.retention.max-version-age?"),
        ("olympia.fsck.maxage", "did you mean olympia.fsck.max-age?"),
        ("olympia.x", "there are: olympia.retention.max-version-age, "),
    ],
)
def test_an_unknown_setting_is_refused(catalog, key, words):
    transaction = catalog.begin()
    with pytest.raises(InvalidOption) as caught:
        transaction.alter_catalog({key: "7d"})
    assert words in caught.value.hint
    with pytest.raises(InvalidOption):
        Catalog.create(MemoryStore(), properties={key: "7d"})
    # what an older program let in can be taken out
    transaction.alter_catalog(None, [key])
    transaction.alter_catalog({"olympian": "free"})


@pytest.mark.parametrize("key", ["olympia.retention.min-versions", "olympia.anything"])
def test_objects_have_no_settings(catalog, key):
    transaction = catalog.begin()
    for do in (
        lambda: transaction.create_namespace(ns("b"), {key: "1"}),
        lambda: transaction.alter_namespace(ns("a"), {key: "1"}),
        lambda: transaction.create_table(table("a.u"), location(), {key: "1"}),
        lambda: transaction.alter_table(table("a.t"), {key: "1"}),
        lambda: transaction.create_view(view("a.w"), select("select 1", **{key: "1"})),
        lambda: transaction.replace_view(view("a.v"), select("select 2", **{key: "1"})),
        lambda: transaction.alter_view(view("a.v"), {key: "1"}),
    ):
        with pytest.raises(InvalidOption, match=key):
            do()
    transaction.alter_table(table("a.t"), None, [key])
    assert catalog.commit(transaction).version == 2


@pytest.mark.parametrize("key", ["olympia.retention.max-version-age", "olympia.fsck.max-age"])
def test_a_setting_that_is_no_duration_is_refused(catalog, key):
    with pytest.raises(InvalidOption, match="is not a duration"):
        catalog.begin().alter_catalog({key: "a week"})
