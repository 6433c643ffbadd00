"""The effects and refusals of each statement of a transaction, and the result of its commit."""

from __future__ import annotations

from contextlib import contextmanager, suppress

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import retry
from olympia_cli.catalog.distributed import Saved, TransactionState, UnreadableSave
from olympia_cli.catalog.transaction import DEFAULT_MAX_ACTIONS
from olympia_cli.errors import (
    CommitConflict,
    Damaged,
    InvalidName,
    InvalidOption,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    SavedElsewhere,
    TableExists,
    TableNotFound,
    TransactionClosed,
    TransactionExists,
    TransactionExpired,
    TransactionNotFound,
    TransactionTooLarge,
    VersionNotFound,
    ViewExists,
    ViewNotFound,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.definitions import Digest, check_digest
from olympia_cli.format.pb.actions_pb2 import ActionType, TableInsertDef
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.names import AtVersion
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_versions, orphans, plain, replay
from tests.helpers.clock import DAY, HOUR, FakeClock
from tests.helpers.expire import mark, purge, record_export, undo
from tests.helpers.names import location, ns, select, table, view
from tests.helpers.stores import CountingStore

T = ActionType
SERIALIZABLE = IsolationLevel.SERIALIZABLE
SNAPSHOT = IsolationLevel.SNAPSHOT


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store():
    """A store whose catalog is sound when the test is over, whatever the test did to it."""
    store = MemoryStore()
    yield store
    if store.exists("vn/00000000000000000000000000000000"):
        replay(store)


@pytest.fixture
def catalog(store, clock):
    """Version 1 has the namespaces a and b, with a.t, a.u, a.v (a view) and b.t in them, and the namespace empty."""
    catalog = Catalog.create(store, order=4, clock=clock)
    with catalog.transaction() as transaction:
        for name in ("a", "b", "empty"):
            transaction.create_namespace(ns(name), {"owner": "them"})
        transaction.create_table(table("a.t"), location(1), {"p": "1", "q": "1"})
        transaction.create_table(table("a.u"), location(2))
        transaction.create_table(table("b.t"), location(3))
        transaction.create_view(view("a.v"), select("select 1", p="1"))
    return catalog


@contextmanager
def refused(catalog, error):
    """The statement in the block raises, stages nothing, and what was staged before can still be committed."""
    transaction = catalog.begin()
    transaction.create_namespace(ns("before"))
    staged = dict(transaction.draft.staged)
    with pytest.raises(error):
        yield transaction
    assert transaction.draft.staged == staged
    assert [action.type for action in transaction.actions] == [T.NAMESPACE_CREATE]
    catalog.commit(transaction)
    assert [str(name) for name in catalog.snapshot().namespaces()] == ["a", "b", "before", "empty"]


def names(catalog):
    snapshot = catalog.snapshot()
    found = (*snapshot.namespaces(), *snapshot.tables(), *snapshot.views())
    return sorted(f"{name.kind.word} {name}" for name in found)


def ids(catalog):
    [*_, latest] = check_versions(catalog.store, all_versions=False)
    return {f"{name.kind.word} {name}": definition.id for name, definition in latest.contents.items()}


class TestNamespaces:
    def test_create(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns("new"), {"owner": "me"})
        found = catalog.snapshot().namespace(ns("new"))
        assert found.properties == {"owner": "me"}
        assert found.id

    def test_existing_namespace_cannot_be_created_again(self, catalog):
        with refused(catalog, NamespaceExists) as transaction:
            transaction.create_namespace(ns("a"))

    def test_a_name_that_is_too_long(self, catalog):
        with refused(catalog, InvalidName) as transaction:
            transaction.create_namespace(ns("x" * 101))

    def test_sizes_count_bytes(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns("ü" * 50))
            with pytest.raises(InvalidName):
                transaction.create_namespace(ns("ü" * 51))
        assert catalog.snapshot().find(ns("ü" * 50))

    def test_alter(self, catalog):
        before = ids(catalog)
        with catalog.transaction() as transaction:
            transaction.alter_namespace(ns("a"), {"k": "v", "l": "w"}, ["owner", "not there"])
        assert catalog.snapshot().namespace(ns("a")).properties == {"k": "v", "l": "w"}
        assert ids(catalog) == before

    def test_missing_name_cannot_be_altered(self, catalog):
        with refused(catalog, NamespaceNotFound) as transaction:
            transaction.alter_namespace(ns("no"), {"k": "v"})

    @pytest.mark.parametrize(
        ("set_properties", "unset_properties"),
        [(None, ()), ({}, []), ({"k": "v"}, ["k"]), ({"": "v"}, []), (None, [""])],
    )
    def test_changes_that_make_no_sense(self, catalog, set_properties, unset_properties):
        for method, name in (
            ("alter_namespace", [ns("a")]),
            ("alter_table", [table("a.t")]),
            ("alter_view", [view("a.v")]),
            ("alter_catalog", []),
        ):
            transaction = catalog.begin()
            with pytest.raises(InvalidOption):
                getattr(transaction, method)(*name, set_properties, unset_properties)
            assert transaction.actions == []

    def test_rename_takes_tables_and_views_along_and_keeps_ids(self, catalog):
        before = ids(catalog)
        with catalog.transaction() as transaction:
            transaction.rename_namespace(ns("a"), ns("z"))
        expected = {name.replace(" a", " z"): id for name, id in before.items()}
        assert ids(catalog) == expected
        assert names(catalog) == sorted(expected)
        assert catalog.snapshot().namespace(ns("z")).properties == {"owner": "them"}
        assert catalog.snapshot().table(table("z.t")).properties == {"p": "1", "q": "1"}

    def test_rename_writes_no_definitions(self, catalog):
        files = {file.path for file in catalog.store.list("def/")}
        with catalog.transaction() as transaction:
            transaction.rename_namespace(ns("a"), ns("z"))
        assert {file.path for file in catalog.store.list("def/")} == files

    def test_rename_includes_changes_of_the_same_transaction(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_table(table("a.new"), location())
            transaction.drop_table(table("a.u"))
            transaction.alter_table(table("a.t"), {"p": "2"})
            transaction.rename_namespace(ns("a"), ns("z"))
            transaction.create_namespace(ns("a"))
            transaction.create_table(table("a.t"), location(9))
            assert sorted(map(str, transaction.tables("z"))) == ["z.new", "z.t"]
            assert sorted(map(str, transaction.tables("a"))) == ["a.t"]
        assert catalog.snapshot().table(table("z.t")).properties["p"] == "2"
        assert catalog.snapshot().table(table("a.t")).definition.iceberg_metadata_location == location(9)
        assert catalog.snapshot().find(table("z.u")) is None

    @pytest.mark.parametrize(
        ("old", "new", "error"),
        [("no", "z", NamespaceNotFound), ("a", "b", NamespaceExists), ("a", "z" * 101, InvalidName)],
    )
    def test_rename_refused(self, catalog, old, new, error):
        with refused(catalog, error) as transaction:
            transaction.rename_namespace(ns(old), ns(new))

    def test_rename_to_itself(self, catalog):
        with refused(catalog, InvalidOption) as transaction:
            transaction.rename_namespace(ns("a"), ns("a"))

    def test_drop(self, catalog):
        with catalog.transaction() as transaction:
            transaction.drop_namespace(ns("empty"))
        assert "namespace empty" not in names(catalog)

    def test_namespace_with_tables_cannot_be_dropped(self, catalog):
        with refused(catalog, NamespaceNotEmpty) as transaction:
            transaction.drop_namespace(ns("a"))

    def test_namespace_with_only_a_view_cannot_be_dropped(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_view(view("empty.v"), select())
        with refused(catalog, NamespaceNotEmpty) as transaction:
            transaction.drop_namespace(ns("empty"))

    @pytest.mark.parametrize("cascade", [False, True])
    def test_missing_name_cannot_be_dropped(self, catalog, cascade):
        with refused(catalog, NamespaceNotFound) as transaction:
            transaction.drop_namespace(ns("no"), cascade)

    def test_drop_cascade(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_table(table("a.new"), location())
            transaction.drop_table(table("a.u"))
            transaction.drop_namespace(ns("a"), cascade=True)
        assert names(catalog) == ["namespace b", "namespace empty", "table b.t"]
        dropped = [action for action in catalog.snapshot().actions() if action.type_name.endswith("DROP")]
        assert sorted(str(action.name) for action in dropped) == ["a", "a.new", "a.t", "a.u", "a.v"]

    def test_drop_and_create_again_is_another_namespace(self, catalog):
        before = ids(catalog)["namespace a"]
        with catalog.transaction() as transaction:
            transaction.drop_namespace(ns("a"), cascade=True)
            transaction.create_namespace(ns("a"))
        assert catalog.snapshot().namespace(ns("a")).id != before
        assert list(catalog.snapshot().tables("a")) == []


class TestTables:
    def test_create(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_table(table("b.new"), location(7), {"k": "v"})
        found = catalog.snapshot().table(table("b.new"))
        assert plain(found.definition) == {
            "id": found.id,
            "properties": {"k": "v"},
            "iceberg_metadata_location": location(7),
        }
        data = catalog.store.read(found.path)
        assert check_digest(data, found.path) is Digest.VERIFIED

    @pytest.mark.parametrize(
        ("name", "error"),
        [
            ("a.t", TableExists),
            ("no.t", NamespaceNotFound),
            (f"a.{'x' * 101}", InvalidName),
            (f"{'x' * 101}.t", InvalidName),
        ],
    )
    def test_create_refused(self, catalog, name, error):
        with refused(catalog, error) as transaction:
            transaction.create_table(table(name), location())

    def test_a_view_may_have_a_tables_name(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_view(view("a.t"), select())
        assert {"table a.t", "view a.t"} <= set(names(catalog))

    def test_names_with_odd_characters(self, catalog):
        odd = ["..", "a/b", 'say"cheese"', "🙂", "a.b", "%41", "-", "ü" * 50]
        with catalog.transaction() as transaction:
            for name in odd:
                transaction.create_namespace(ns(name))
                transaction.create_table(type(table("a.t"))(name, name), location())
        snapshot = catalog.snapshot()
        assert {found.name for found in snapshot.tables() if found.name == found.namespace} == set(odd)

    def test_alter(self, catalog):
        before = ids(catalog)
        with catalog.transaction() as transaction:
            transaction.alter_table(table("a.t"), {"p": "2", "r": "3"}, ["q"], location(8))
        definition = catalog.snapshot().table(table("a.t")).definition
        assert dict(definition.properties) == {"p": "2", "r": "3"}
        assert definition.iceberg_metadata_location == location(8)
        assert definition.iceberg_previous_metadata_location == location(1)
        assert ids(catalog) == before

    def test_missing_name_cannot_be_altered(self, catalog):
        with refused(catalog, TableNotFound) as transaction:
            transaction.alter_table(table("a.no"), {"k": "v"})

    @pytest.mark.parametrize("new", ["a.renamed", "b.renamed", "empty.t"])
    def test_rename_keeps_the_id_and_the_definition(self, catalog, new):
        before = catalog.snapshot().table(table("a.t"))
        with catalog.transaction() as transaction:
            transaction.rename_table(table("a.t"), table(new))
        after = catalog.snapshot().table(table(new))
        assert (after.id, after.path) == (before.id, before.path)
        assert catalog.snapshot().find(table("a.t")) is None

    @pytest.mark.parametrize(
        ("old", "new", "error"),
        [
            ("a.no", "a.z", TableNotFound),
            ("no.t", "a.z", TableNotFound),
            ("a.t", "a.u", TableExists),
            ("a.t", "b.t", TableExists),
            ("a.t", "no.t", NamespaceNotFound),
            ("a.t", "a.t", InvalidOption),
            ("a.t", f"a.{'z' * 101}", InvalidName),
        ],
    )
    def test_rename_refused(self, catalog, old, new, error):
        with refused(catalog, error) as transaction:
            transaction.rename_table(table(old), table(new))

    def test_swapping_two_names(self, catalog):
        before = ids(catalog)
        with catalog.transaction() as transaction:
            transaction.rename_table(table("a.t"), table("a.tmp"))
            transaction.rename_table(table("b.t"), table("a.t"))
            transaction.rename_table(table("a.tmp"), table("b.t"))
        assert ids(catalog) == {**before, "table a.t": before["table b.t"], "table b.t": before["table a.t"]}

    def test_drop(self, catalog):
        with catalog.transaction() as transaction:
            transaction.drop_table(table("a.t"))
        assert "table a.t" not in names(catalog)

    def test_missing_name_cannot_be_dropped(self, catalog):
        with refused(catalog, TableNotFound) as transaction:
            transaction.drop_table(table("a.no"))

    def test_drop_and_create_again_is_another_table(self, catalog):
        before = ids(catalog)["table a.t"]
        with catalog.transaction() as transaction:
            transaction.drop_table(table("a.t"))
            transaction.create_table(table("a.t"), location(5))
        assert ids(catalog)["table a.t"] != before

    def test_two_tables_may_name_one_metadata_location(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_table(table("a.twin1"), location(5))
            transaction.create_table(table("a.twin2"), location(5))
        assert len(set(ids(catalog).values())) == len(ids(catalog))

    def test_property_changed_back_restores_the_definition(self, catalog):
        with catalog.transaction() as transaction:
            transaction.alter_table(table("a.t"), {"p": "2"})
            transaction.alter_table(table("a.t"), {"p": "1"})
        assert catalog.snapshot().table(table("a.t")).properties == {"p": "1", "q": "1"}


class TestViews:
    def test_create_replace_alter_rename_drop(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_view(view("b.w"), select("select 2", k="v"))
        created = catalog.snapshot().view(view("b.w"))
        assert created.definition.substrait_read_rel == b"select 2"
        with catalog.transaction() as transaction:
            transaction.replace_view(view("b.w"), select("select 3"))
        replaced = catalog.snapshot().view(view("b.w"))
        assert (replaced.id, replaced.properties) == (created.id, {})
        assert replaced.definition.substrait_read_rel == b"select 3"
        with catalog.transaction() as transaction:
            transaction.alter_view(view("b.w"), {"x": "y", "z": ""})
            transaction.alter_view(view("b.w"), unset_properties=["z"])
        altered = catalog.snapshot().view(view("b.w"))
        assert (altered.id, altered.properties) == (created.id, {"x": "y"})
        with catalog.transaction() as transaction:
            transaction.rename_view(view("b.w"), view("a.w"))
        assert catalog.snapshot().view(view("a.w")).id == created.id
        with catalog.transaction() as transaction:
            transaction.drop_view(view("a.w"))
        assert [name for name in names(catalog) if name.startswith("view")] == ["view a.v"]

    def test_the_given_definition_stays_as_it_is(self, catalog):
        definition = select()
        definition.id = "mine"
        with catalog.transaction() as transaction:
            transaction.create_view(view("b.w"), definition)
        assert definition.id == "mine"
        assert catalog.snapshot().view(view("b.w")).id != "mine"

    @pytest.mark.parametrize(
        ("statement", "error"),
        [
            (lambda t: t.create_view(view("a.v"), select()), ViewExists),
            (lambda t: t.create_view(view("no.v"), select()), NamespaceNotFound),
            (lambda t: t.create_view(view(f"a.{'x' * 101}"), select()), InvalidName),
            (lambda t: t.replace_view(view("a.no"), select()), ViewNotFound),
            (lambda t: t.alter_view(view("a.no"), {"k": "v"}), ViewNotFound),
            (lambda t: t.rename_view(view("a.no"), view("a.w")), ViewNotFound),
            (lambda t: t.rename_view(view("a.v"), view("no.v")), NamespaceNotFound),
            (lambda t: t.rename_view(view("a.v"), view("a.v")), InvalidOption),
            (lambda t: t.rename_view(view("a.v"), view(f"a.{'x' * 101}")), InvalidName),
            (lambda t: t.drop_view(view("a.no")), ViewNotFound),
            (lambda t: t.drop_view(view("a.t")), ViewNotFound),
        ],
    )
    def test_refused(self, catalog, statement, error):
        with refused(catalog, error) as transaction:
            statement(transaction)


class TestCatalogStatements:
    def test_alter(self, catalog):
        with catalog.transaction() as transaction:
            transaction.alter_catalog({"k": "v", "l": "w"})
        with catalog.transaction() as transaction:
            transaction.alter_catalog({"k": "v2"}, ["l"], txn_ttl_millis=HOUR, isolation=SERIALIZABLE)
        definition = catalog.snapshot().definition
        assert dict(definition.properties) == {"k": "v2"}
        assert (definition.txn_ttl_millis, definition.txn_isolation_level) == (HOUR, SERIALIZABLE)
        assert catalog.begin().isolation == SERIALIZABLE
        assert catalog.begin(SNAPSHOT).isolation == SNAPSHOT

    def test_back_to_the_default_isolation(self, catalog):
        with catalog.transaction() as transaction:
            transaction.alter_catalog(isolation=SERIALIZABLE)
        with catalog.transaction() as transaction:
            transaction.alter_catalog(isolation=SNAPSHOT)
        assert catalog.snapshot().definition.txn_isolation_level == SNAPSHOT

    def test_roll_back(self, catalog):
        before = ids(catalog)
        with catalog.transaction() as transaction:
            transaction.drop_namespace(ns("a"), cascade=True)
            transaction.alter_catalog({"k": "v"})
        with catalog.transaction() as transaction:
            transaction.roll_back(1)
        assert ids(catalog) == before
        assert catalog.snapshot().version == 3
        assert dict(catalog.snapshot().definition.properties) == {}

    def test_exports_and_expire_state_survive_a_roll_back(self, catalog):
        mark(catalog, 1)
        with catalog.transaction() as transaction:
            transaction.alter_catalog({"k": "v"})
            record_export(transaction, "friday", 1)
        with catalog.transaction() as transaction:
            transaction.roll_back(1)
        definition = catalog.snapshot().definition
        assert sorted(definition.properties) == ["olympia.expire.oldest", "olympia.export.friday"]
        assert definition.properties["olympia.expire.oldest"] == "1"
        assert list(definition.exported_snapshots) == ["friday"]

    @pytest.mark.parametrize("version", [2, 7, 2**32 - 1])
    def test_missing_version_is_no_target_of_a_roll_back(self, catalog, version):
        transaction = catalog.begin()
        with pytest.raises(VersionNotFound):
            transaction.roll_back(version)
        assert not transaction.has_writes

    def test_roll_back_below_the_oldest_version(self, catalog):
        mark(catalog, 1)
        transaction = catalog.begin()
        with pytest.raises(VersionNotFound):
            transaction.roll_back(0)
        transaction.roll_back(1)
        assert catalog.commit(transaction).version == 3

    @pytest.mark.parametrize("damage", ["missing", "cut short"])
    @pytest.mark.parametrize("folder", ["node/", "def/table/", "def/catalog/"])
    def test_damaged_target_of_a_roll_back_leaves_nothing_written(self, catalog, folder, damage):
        """Refused before anything is written, as long as only the old version is hit."""
        with catalog.transaction() as transaction:
            transaction.alter_catalog({"k": "v"})
            for name in ("a", "b"):
                transaction.drop_namespace(ns(name), cascade=True)
        [_, old, new] = check_versions(catalog.store)
        path = min(path for path in old.files - new.files if path.startswith(folder))
        data = catalog.store.read(path)
        if damage == "missing":
            catalog.store.delete_many([path])
        else:
            catalog.store.overwrite(path, data[: len(data) // 2])
        files = {file.path for file in catalog.store.list()}
        fresh = Catalog(catalog.store, catalog.clock)
        with suppress(Damaged, VersionNotFound), fresh.transaction() as transaction:
            transaction.roll_back(1)
        written = {file.path for file in catalog.store.list()} - files
        catalog.store.overwrite(path, data)
        assert written == set(), f"a rollback went on although {path} is {damage}"

    def test_roll_back_is_a_transaction_of_its_own(self, catalog):
        transaction = catalog.begin()
        transaction.create_namespace(ns("new"))
        with pytest.raises(InvalidOption):
            transaction.roll_back(0)

    @pytest.mark.parametrize("other", ["namespace", "table", "view", "catalog"])
    def test_roll_back_conflicts_with_every_write(self, catalog, other):
        transaction = catalog.begin()
        transaction.roll_back(0)
        with catalog.transaction() as winner:
            if other == "namespace":
                winner.create_namespace(ns("new"))
            elif other == "table":
                winner.alter_table(table("a.t"), {"k": "v"})
            elif other == "view":
                winner.drop_view(view("a.v"))
            else:
                winner.alter_catalog({"k": "v"})
        with pytest.raises(CommitConflict):
            catalog.commit(transaction)

    def test_restore(self, catalog):
        before = catalog.snapshot().table(table("a.t"))
        with catalog.transaction() as transaction:
            transaction.drop_namespace(ns("a"), cascade=True)
        snapshot = catalog.snapshot(AtVersion(1))
        with catalog.transaction() as transaction:
            with pytest.raises(NamespaceNotFound):
                transaction.restore(snapshot.table(table("a.t")), 1)
            transaction.restore(snapshot.namespace(ns("a")), 1)
            transaction.restore(snapshot.table(table("a.t")), 1)
            transaction.restore(snapshot.view(view("a.v")), 1)
        after = catalog.snapshot().table(table("a.t"))
        assert plain(after.definition) == plain(before.definition)
        assert "table a.u" not in names(catalog)

    def test_older_definition_of_an_existing_table_can_be_restored(self, catalog):
        with catalog.transaction() as transaction:
            transaction.alter_table(table("a.t"), {"p": "2"}, metadata_location=location(9))
        with catalog.transaction() as transaction:
            transaction.restore(catalog.snapshot(AtVersion(1)).table(table("a.t")), 1)
        after = catalog.snapshot().table(table("a.t"))
        assert (after.properties["p"], after.definition.iceberg_metadata_location) == ("1", location(1))

    def test_restore_where_another_object_has_the_name(self, catalog):
        with catalog.transaction() as transaction:
            transaction.drop_table(table("a.t"))
            transaction.create_table(table("a.t"), location(9))
        transaction = catalog.begin()
        with pytest.raises(TableExists):
            transaction.restore(catalog.snapshot(AtVersion(1)).table(table("a.t")), 1)

    def test_restoring_a_renamed_table_does_not_duplicate_its_id(self, catalog):
        with catalog.transaction() as transaction:
            transaction.rename_table(table("a.t"), table("b.moved"))
        old = catalog.snapshot(AtVersion(1)).table(table("a.t"))
        transaction = catalog.begin()
        with suppress(TableExists, InvalidOption):
            transaction.restore(old, 1)
            catalog.commit(transaction)
        assert ids(catalog)["table b.moved"] == old.id

    def test_restore_from_below_the_oldest_version(self, catalog):
        old = catalog.snapshot().table(table("a.t"))
        with catalog.transaction() as transaction:
            transaction.drop_table(table("a.t"))
        mark(catalog, 2)
        transaction = catalog.begin()
        with pytest.raises(VersionNotFound):
            transaction.restore(old, 1)

    @pytest.mark.parametrize(
        "revive",
        [
            pytest.param(lambda t, old: t.roll_back(1), id="rollback"),
            pytest.param(lambda t, old: t.restore(old, 1), id="restore"),
            pytest.param(lambda t, old: record_export(t, "friday", 1), id="export"),
        ],
    )
    def test_a_version_expired_before_the_commit_is_not_revived(self, catalog, revive):
        old = catalog.snapshot().table(table("a.t"))
        with catalog.transaction() as transaction:
            transaction.drop_table(table("a.t"))
        transaction = catalog.begin()
        revive(transaction, old)
        mark(catalog, 2)
        with pytest.raises(VersionNotFound) as raised:
            catalog.commit(transaction)
        assert raised.value.exit_code == 10
        assert catalog.snapshot().version == 3

    def test_ordinary_writes_go_on_through_an_expire(self, catalog):
        transaction = catalog.begin()
        transaction.alter_catalog({"k": "v"})
        transaction.create_table(table("a.new"), location())
        assert (mark(catalog, 1), undo(catalog, 0), mark(catalog, 1), purge(catalog, 1)) == (2, 3, 4, 5)
        assert catalog.commit(transaction).version == 6
        expected = {"k": "v", "olympia.expire.oldest": "1", "olympia.expire.purged": "1"}
        assert dict(catalog.snapshot().definition.properties) == expected

    @pytest.mark.parametrize("key", ["olympia.expire.oldest", "olympia.expire.purged", "olympia.export.x"])
    def test_properties_kept_by_the_program_are_not_user_settable(self, catalog, key):
        with refused(catalog, InvalidOption) as transaction:
            transaction.alter_catalog({key: "1"})


class TestReading:
    def test_uncommitted_writes_are_visible_only_in_their_transaction(self, catalog):
        transaction = catalog.begin()
        transaction.create_table(table("a.new"), location(), {"k": "v"})
        transaction.drop_table(table("a.t"))
        transaction.alter_namespace(ns("b"), {"k": "v"})
        transaction.replace_view(view("a.v"), select("select 2"))
        transaction.drop_namespace(ns("empty"))
        assert [str(name) for name in transaction.tables("a")] == ["a.new", "a.u"]
        assert [str(name) for name in transaction.views("a")] == ["a.v"]
        assert [str(name) for name in transaction.namespaces()] == ["a", "b"]
        assert transaction.exists(table("a.new"))
        assert not transaction.exists(table("a.t"))
        assert transaction.table(table("a.new")).properties == {"k": "v"}
        assert transaction.namespace(ns("b")).properties == {"owner": "them", "k": "v"}
        assert transaction.view(view("a.v")).definition.substrait_read_rel == b"select 2"
        with pytest.raises(TableNotFound):
            transaction.table(table("a.t"))
        assert catalog.snapshot().version == 1
        assert catalog.snapshot().find(table("a.t"))

    def test_a_transaction_does_not_see_later_commits(self, catalog):
        transaction = catalog.begin()
        with catalog.transaction() as other:
            other.create_table(table("a.new"), location())
        assert not transaction.exists(table("a.new"))
        assert [str(name) for name in transaction.tables("a")] == ["a.t", "a.u"]

    def test_changing_a_read_definition_leaves_the_transaction_unchanged(self, catalog):
        transaction = catalog.begin()
        transaction.create_table(table("a.new"), location(), {"k": "v"})
        for name in ("a.t", "a.new"):
            transaction.table(table(name)).definition.properties["changed"] = "yes"
            assert "changed" not in transaction.table(table(name)).properties

    @pytest.mark.parametrize("read", ["tables", "views"])
    def test_missing_namespace_cannot_be_listed(self, catalog, read):
        with pytest.raises(NamespaceNotFound):
            getattr(catalog.begin(), read)("no")

    @pytest.mark.parametrize("isolation", [SNAPSHOT, SERIALIZABLE])
    def test_a_commit_that_only_read_writes_nothing(self, catalog, isolation):
        store = CountingStore(catalog.store)
        catalog = Catalog(store, catalog.clock)
        transaction = catalog.begin(isolation)
        transaction.exists(table("a.t"))
        list(transaction.tables("a"))
        done = catalog.commit(transaction)
        assert (done.version, done.actions) == (1, ())
        assert store.writes == 0
        assert catalog.snapshot().version == 1

    def test_serializable_records_reads_once_and_snapshot_none(self, catalog):
        expected = [
            T.NAMESPACE_EXISTS,
            T.TABLE_DESCRIBE,
            T.VIEW_DESCRIBE,
            T.CATALOG_SNOW_NAMESPACES,
            T.NAMESPACE_SHOW_TABLES,
            T.NAMESPACE_SHOW_VIEWS,
            T.NAMESPACE_DESCRIBE,
            T.NAMESPACE_CREATE,
            T.COMMIT_INFO,
        ]
        for number, (isolation, types) in enumerate([(SERIALIZABLE, expected), (SNAPSHOT, expected[-2:])]):
            with catalog.transaction(isolation=isolation) as transaction:
                for _ in range(2):
                    transaction.exists(ns("a"))
                    transaction.table(table("a.t"))
                    transaction.view(view("a.v"))
                    list(transaction.namespaces())
                    list(transaction.tables("a"))
                    list(transaction.views("a"))
                    transaction.namespace(ns("a"))
                transaction.create_namespace(ns(f"new{number}"))
            assert [action.type for action in catalog.snapshot().actions()] == types

    def test_serializable_conflicts_with_a_write_to_a_read_table(self, catalog):
        for isolation, error in ((SNAPSHOT, None), (SERIALIZABLE, CommitConflict)):
            transaction = catalog.begin(isolation)
            transaction.table(table("a.t"))
            transaction.alter_table(table("a.u"), {"k": isolation.__repr__()})
            with catalog.transaction() as winner:
                winner.alter_table(table("a.t"), {"k": str(isolation)})
            if error is None:
                catalog.commit(transaction)
            else:
                with pytest.raises(error):
                    catalog.commit(transaction)

    def test_a_read_of_a_name_that_cannot_be_leaves_no_trace(self, catalog):
        """Otherwise the commit would fail at the very end, when the reads are written down."""
        transaction = catalog.begin(SERIALIZABLE)
        for read in (
            lambda: transaction.exists(table(f"a.{'x' * 101}")),
            lambda: transaction.table(table(f"a.{'x' * 101}")),
            lambda: transaction.namespace(ns("x" * 101)),
            lambda: transaction.view(view(f"a.{'x' * 101}")),
        ):
            with pytest.raises(InvalidName):
                read()
        transaction.create_namespace(ns("new"))
        assert catalog.commit(transaction).version == 2


class TestCommit:
    def test_the_block_commits_at_its_end(self, catalog):
        with catalog.transaction("why") as transaction:
            transaction.create_namespace(ns("new"))
            assert catalog.snapshot().version == 1
        assert catalog.snapshot().version == 2
        assert not transaction.open
        info = check_versions(catalog.store)[-1].info
        assert (info.transaction_id, info.message, info.began_at_version) == (transaction.id, "why", 1)
        assert "@" in info.by
        assert info.program == "olympia-cli"

    def test_a_block_that_fails_commits_nothing(self, catalog):
        files = {file.path for file in catalog.store.list()}
        with suppress(KeyError), catalog.transaction() as transaction:
            transaction.create_namespace(ns("new"))
            raise KeyError
        assert catalog.snapshot().version == 1
        assert {file.path for file in catalog.store.list()} == files

    @pytest.mark.parametrize(
        "statement",
        [
            lambda t: t.create_namespace(ns("more")),
            lambda t: t.alter_table(table("a.t"), {"k": "v"}),
            lambda t: t.drop_view(view("a.v")),
            lambda t: t.alter_catalog({"k": "v"}),
            lambda t: t.roll_back(0),
            lambda t: t.exists(ns("a")),
            lambda t: t.table(table("a.t")),
            lambda t: t.namespaces(),
        ],
    )
    def test_a_closed_transaction_refuses(self, catalog, statement):
        transaction = catalog.begin()
        transaction.create_namespace(ns("new"))
        catalog.commit(transaction)
        with pytest.raises((TransactionClosed, InvalidOption)):
            statement(transaction)

    def test_committing_twice_commits_once(self, catalog):
        transaction = catalog.begin()
        transaction.create_namespace(ns("new"))
        catalog.commit(transaction)
        with pytest.raises(TransactionClosed):
            catalog.commit(transaction)
        assert catalog.snapshot().version == 2

    def test_a_commit_returns_its_stored_actions(self, catalog):
        transaction = catalog.begin()
        transaction.create_namespace(ns("new"))
        done = catalog.commit(transaction, "why", by="me@here")
        assert done.version == 2
        told = [(action.type, action.name, action.definition, action.payload) for action in done.actions]
        stored = catalog.snapshot().actions()
        assert told == [(action.type, action.name, action.definition, action.payload) for action in stored]

    def test_a_commit_writes_only_changed_files(self, catalog):
        store = CountingStore(catalog.store)
        with Catalog(store, catalog.clock).transaction() as transaction:
            transaction.alter_table(table("a.t"), {"p": "2"})
        [version] = check_versions(catalog.store, all_versions=False)
        written = store.paths("create", "create_many", "write_hint")
        assert len([path for path in written if path.startswith("def/")]) == 1
        assert len([path for path in written if path.startswith("node/")]) == version.height - 1
        assert [path for path in written if path.startswith("vn/")] == [version_path(2), "vn/latest"]
        assert store.calls["create_many"] == 1, "definitions and nodes go in parallel"
        assert orphans(catalog.store) == set()

    def test_statements_that_undo_each_other(self, catalog):
        before = ids(catalog)
        with catalog.transaction() as transaction:
            transaction.create_table(table("a.new"), location())
            transaction.drop_table(table("a.new"))
            transaction.rename_table(table("a.t"), table("a.tt"))
            transaction.rename_table(table("a.tt"), table("a.t"))
        assert ids(catalog) == before

    def test_the_action_limit(self, catalog):
        with catalog.transaction() as transaction:
            transaction.alter_catalog({"olympia.txn.max-actions": "3"})
        files = {file.path for file in catalog.store.list()}
        transaction = catalog.begin()
        for number in range(4):
            transaction.create_namespace(ns(f"n{number}"))
        with pytest.raises(TransactionTooLarge) as raised:
            catalog.commit(transaction)
        assert (raised.value.exit_code, "3" in raised.value.message, "4" in raised.value.message) == (12, True, True)
        assert {file.path for file in catalog.store.list()} == files, "nothing was written"
        assert catalog.commit(transaction, atomic=True).version == 3
        with catalog.transaction() as transaction:
            for number in range(3):
                transaction.drop_namespace(ns(f"n{number}"))
        assert DEFAULT_MAX_ACTIONS == 10_000

    @pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "²", "1" * 5000])
    def test_an_action_limit_that_is_no_number_is_the_usual_one(self, catalog, text):
        with pytest.raises(InvalidOption):
            catalog.begin().alter_catalog({"olympia.txn.max-actions": text})
        definition = catalog.snapshot().definition
        definition.properties["olympia.txn.max-actions"] = text
        with catalog.transaction() as transaction:
            # as another program would write it
            transaction.do(Action(ActionType.CATALOG_ALTER, None, definitions.body(definition)))
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns("n1"))
            transaction.create_namespace(ns("n2"))
        assert catalog.snapshot().version == 3


def version_path(version):
    return "vn/" + f"{version:032b}"[::-1]


class TestConcurrentCommits:
    def both(self, catalog, mine, theirs):
        """Commit `theirs` after `mine` has begun; then mine."""
        transaction = catalog.begin()
        mine(transaction)
        with catalog.transaction() as winner:
            theirs(winner)
        return catalog.commit(transaction)

    def test_changes_of_disjoint_properties_merge(self, catalog):
        for kind, name in (("namespace", ns("a")), ("table", table("a.t")), ("view", view("a.v"))):
            self.both(
                catalog,
                lambda t, k=kind, n=name: getattr(t, f"alter_{k}")(n, {"mine": "1"}, ["p"]),
                lambda t, k=kind, n=name: getattr(t, f"alter_{k}")(n, {"theirs": "1"}),
            )
            found = getattr(catalog.snapshot(), kind)(name).properties
            assert found["mine"] == found["theirs"] == "1"
            assert "p" not in found
        self.both(
            catalog,
            lambda t: t.alter_catalog({"mine": "1"}),
            lambda t: t.alter_catalog({"theirs": "1"}, txn_ttl_millis=DAY),
        )
        definition = catalog.snapshot().definition
        assert (dict(definition.properties), definition.txn_ttl_millis) == ({"mine": "1", "theirs": "1"}, DAY)

    @pytest.mark.parametrize(
        ("mine", "theirs"),
        [
            (lambda t: t.alter_table(table("a.t"), {"k": "1"}), lambda t: t.alter_table(table("a.t"), {"k": "2"})),
            (
                lambda t: t.alter_table(table("a.t"), metadata_location=location(8)),
                lambda t: t.alter_table(table("a.t"), metadata_location=location(9)),
            ),
            (lambda t: t.create_table(table("a.n"), ""), lambda t: t.create_table(table("a.n"), "")),
            (lambda t: t.alter_table(table("a.t"), {"k": "1"}), lambda t: t.drop_table(table("a.t"))),
            (lambda t: t.drop_table(table("a.t")), lambda t: t.alter_table(table("a.t"), {"k": "1"})),
            (lambda t: t.create_table(table("empty.n"), ""), lambda t: t.drop_namespace(ns("empty"))),
            (lambda t: t.drop_namespace(ns("empty")), lambda t: t.create_table(table("empty.n"), "")),
            (lambda t: t.create_table(table("a.n"), ""), lambda t: t.rename_namespace(ns("a"), ns("z"))),
        ],
    )
    def test_conflicts_leave_nothing_in_the_log(self, catalog, mine, theirs):
        with pytest.raises(CommitConflict) as raised:
            self.both(catalog, mine, theirs)
        assert "version 2" in raised.value.message
        assert catalog.snapshot().version == 2

    def test_equal_drops_merge(self, catalog):
        for drop in (
            lambda t: t.drop_table(table("a.t")),
            lambda t: t.drop_view(view("a.v")),
            lambda t: t.drop_namespace(ns("empty")),
            lambda t: t.drop_namespace(ns("a"), cascade=True),
        ):
            self.both(catalog, drop, drop)
        assert names(catalog) == ["namespace b", "table b.t"]

    def test_many_versions_in_between(self, catalog):
        transaction = catalog.begin()
        transaction.alter_table(table("a.t"), {"mine": "1"})
        for number in range(20):
            with catalog.transaction() as winner:
                winner.alter_table(table("a.t"), {f"theirs{number}": "1"})
        assert catalog.commit(transaction).version == 22
        assert len(catalog.snapshot().table(table("a.t")).properties) == 23

    @pytest.mark.parametrize("at", range(3))
    def test_a_conflict_with_any_of_the_versions_in_between(self, catalog, at):
        transaction = catalog.begin()
        transaction.alter_table(table("a.t"), {"k": "mine"})
        for number in range(3):
            with catalog.transaction() as winner:
                winner.alter_table(table("a.t"), {"k" if number == at else f"k{number}": "theirs"})
        with pytest.raises(CommitConflict, match=f"version {2 + at}"):
            catalog.commit(transaction)

    def test_definitions_already_written_are_used_again(self, catalog):
        """Only the nodes of the attempt that lost are left over."""
        self.both(
            catalog,
            lambda t: t.create_table(table("a.mine"), location()),
            lambda t: t.create_table(table("b.theirs"), location()),
        )
        assert all(path.startswith("node/") for path in orphans(catalog.store))


class TestReapply:
    """A change of a table's data that its writer can repeat on newer metadata."""

    def append(self, transaction, name, by):
        present = transaction.table(name).definition.iceberg_metadata_location
        transaction.alter_table(
            name,
            metadata_location=f"{present}+{by}",
            type=T.TABLE_INSERT,
            payload=TableInsertDef(iceberg_data_files_json=[f'"{by}"']).SerializeToString(),
            reapply=lambda newer: f"{newer}+{by}",
        )

    def location(self, catalog, name="a.t"):
        return catalog.snapshot().table(table(name)).definition.iceberg_metadata_location

    def test_two_appends_both_stand(self, catalog):
        transaction = catalog.begin()
        self.append(transaction, table("a.t"), "mine")
        with catalog.transaction() as winner:
            self.append(winner, table("a.t"), "theirs")
        catalog.commit(transaction)
        assert self.location(catalog) == f"{location(1)}+theirs+mine"
        [action] = [action for action in catalog.snapshot().actions() if action.type == T.TABLE_INSERT]
        assert list(action.parse_payload(TableInsertDef).iceberg_data_files_json) == ['"mine"']

    def test_without_the_function_it_conflicts(self, catalog):
        transaction = catalog.begin()
        transaction.alter_table(table("a.t"), metadata_location=location(8), type=T.TABLE_INSERT)
        with catalog.transaction() as winner:
            self.append(winner, table("a.t"), "theirs")
        with pytest.raises(CommitConflict):
            catalog.commit(transaction)

    @pytest.mark.parametrize(
        "theirs",
        [lambda t: t.drop_table(table("a.t")), lambda t: t.rename_table(table("a.t"), table("b.u"))],
    )
    def test_a_table_that_went_away_conflicts(self, catalog, theirs):
        transaction = catalog.begin()
        self.append(transaction, table("a.t"), "mine")
        with catalog.transaction() as winner:
            theirs(winner)
        with pytest.raises(CommitConflict):
            catalog.commit(transaction)

    def test_a_change_of_an_unchanged_table_is_not_reapplied(self, catalog):
        transaction = catalog.begin()
        self.append(transaction, table("a.t"), "mine")
        with catalog.transaction() as winner:
            self.append(winner, table("a.u"), "theirs")
        catalog.commit(transaction)
        assert self.location(catalog) == f"{location(1)}+mine"

    def test_a_change_is_applied_once_after_several_lost_races(self, catalog):
        # with a base of its own, whose store is another's from here on
        transaction = Catalog(catalog.store).begin()
        self.append(transaction, table("a.t"), "mine")
        store = RacingStore(catalog, 3, lambda winner, number: self.append(winner, table("a.t"), f"theirs{number}"))
        transaction.base.store = store
        catalog.commit(transaction)
        assert self.location(catalog) == f"{location(1)}+theirs0+theirs1+theirs2+mine"

    def test_two_appends_of_one_transaction_are_both_reapplied(self, catalog):
        transaction = catalog.begin()
        self.append(transaction, table("a.t"), "first")
        self.append(transaction, table("a.t"), "second")
        with catalog.transaction() as winner:
            self.append(winner, table("a.t"), "theirs")
        catalog.commit(transaction)
        assert self.location(catalog) == f"{location(1)}+theirs+first+second"

    def test_other_changes_of_the_table_in_the_transaction_stand(self, catalog):
        transaction = catalog.begin()
        transaction.alter_table(table("a.t"), {"mine": "1"})
        self.append(transaction, table("a.t"), "mine")
        with catalog.transaction() as winner:
            self.append(winner, table("a.t"), "theirs")
        catalog.commit(transaction)
        assert self.location(catalog) == f"{location(1)}+theirs+mine"
        assert catalog.snapshot().table(table("a.t")).properties == {"p": "1", "q": "1", "mine": "1"}

    def test_a_conflict_of_another_part_of_the_change_is_one(self, catalog):
        transaction = catalog.begin()
        transaction.alter_table(
            table("a.t"), {"k": "mine"}, metadata_location=location(8), type=T.TABLE_INSERT, reapply=lambda newer: newer
        )
        with catalog.transaction() as winner:
            winner.alter_table(table("a.t"), {"k": "theirs"})
        with pytest.raises(CommitConflict):
            catalog.commit(transaction)

    def test_a_conflict_of_another_change_of_the_table_is_still_one(self, catalog):
        transaction = catalog.begin()
        transaction.alter_table(table("a.t"), {"k": "mine"})
        self.append(transaction, table("a.t"), "mine")
        with catalog.transaction() as winner:
            winner.alter_table(table("a.t"), {"k": "theirs"})
        with pytest.raises(CommitConflict):
            catalog.commit(transaction)


class RacingStore(CountingStore):
    """Another writer commits just before each of the first few roots that are created here."""

    def __init__(self, catalog, times, statement):
        super().__init__(catalog.store)
        self._catalog = catalog
        self._statement = statement
        self._times = times
        self._raced = 0

    def create(self, path, data):
        if path.startswith("vn/") and self._raced < self._times:
            self._raced += 1
            with self._catalog.transaction() as winner:
                self._statement(winner, self._raced - 1)
        super().create(path, data)


class TestLosing:
    def test_an_unlucky_writer_gives_up_in_the_end(self, catalog, clock):
        store = RacingStore(catalog, 1_000, lambda winner, number: winner.alter_catalog({"k": str(number)}))
        mine = Catalog(store, clock)
        transaction = mine.begin()
        transaction.create_table(table("a.mine"), location())
        with pytest.raises(CommitConflict) as raised:
            mine.commit(transaction, retry_for=0.0)
        assert "20 times" in raised.value.message
        assert catalog.snapshot().find(table("a.mine")) is None
        assert len(clock.slept) == 19

    def test_it_tries_for_the_time_allowed(self, catalog, clock):
        store = RacingStore(catalog, 1_000, lambda winner, number: winner.alter_catalog({"k": str(number)}))
        mine = Catalog(store, clock)
        transaction = mine.begin()
        transaction.create_table(table("a.mine"), location())
        with pytest.raises(CommitConflict):
            mine.commit(transaction, retry_for=20.0)
        assert 19.0 <= sum(clock.slept) <= 22.0
        assert max(clock.slept) <= 1.0

    def test_it_wins_when_the_others_stop(self, catalog, clock):
        store = RacingStore(catalog, 25, lambda winner, number: winner.create_table(table(f"b.n{number}"), ""))
        mine = Catalog(store, clock)
        with mine.transaction() as transaction:
            transaction.create_table(table("a.mine"), location())
        assert mine.snapshot().version == 27
        assert mine.snapshot().find(table("a.mine"))


class TestChange:
    """`Catalog.change` and `retry`: a change that conflicts is made again on the new latest version."""

    @pytest.fixture
    def mine(self, catalog, clock):
        store = RacingStore(catalog, 3, lambda winner, number: winner.alter_table(table("a.t"), {"k": str(number)}))
        return Catalog(store, clock)

    def test_a_change_is_repeated_after_each_conflict(self, mine):
        seen = []

        def change(transaction):
            seen.append(transaction.table(table("a.t")).properties.get("k"))
            transaction.alter_table(table("a.t"), {"k": "mine"})

        made = mine.change(change, [table("a.t")], again=True)
        assert seen[1:] == ["0", "1", "2"]
        assert mine.snapshot().version == made.version
        assert mine.snapshot().table(table("a.t")).properties["k"] == "mine"

    def test_without_again_the_conflict_is_raised(self, mine):
        with pytest.raises(CommitConflict):
            mine.change(lambda transaction: transaction.alter_table(table("a.t"), {"k": "mine"}))
        assert mine.snapshot().table(table("a.t")).properties["k"] == "0"

    def test_an_error_of_the_change_is_raised_at_once(self, mine):
        calls = []

        def change(transaction):
            calls.append(1)
            transaction.drop_table(table("a.none"))

        with pytest.raises(TableNotFound):
            mine.change(change, again=True)
        assert len(calls) == 1

    def test_the_last_conflict_is_raised(self, clock):
        errors = [CommitConflict(str(number)) for number in range(5)]

        def change():
            raise errors.pop(0)

        with pytest.raises(CommitConflict, match="2: look"):
            retry(change, 3, clock=clock)
        assert len(clock.slept) == 2


class TestDistributed:
    @pytest.fixture
    def begun(self, catalog):
        running = distributed.begin(catalog)
        running.transaction.create_table(table("a.new"), location(), {"k": "v"})
        running.transaction.alter_namespace(ns("a"), {"k": "v"})
        running.save()
        return running

    def elsewhere(self, catalog):
        return Catalog(MemoryStore(files=catalog.store._files), catalog.clock)

    def test_begin_save_and_commit_elsewhere(self, catalog, begun):
        assert catalog.snapshot().find(table("a.new")) is None
        loaded = distributed.load(self.elsewhere(catalog), begun.id)
        assert loaded.id == begun.id
        assert loaded.transaction.table(table("a.new")).properties == {"k": "v"}
        loaded.transaction.create_table(table("a.more"), location())
        assert loaded.commit("why").version == 2
        assert {"table a.new", "table a.more"} <= set(names(catalog))
        info = check_versions(catalog.store)[-1].info
        assert (info.transaction_id, info.message) == (begun.id, "why")

    def test_every_kind_of_statement_survives_a_save(self, catalog):
        running = distributed.begin(catalog, SERIALIZABLE)
        transaction = running.transaction
        transaction.exists(table("a.t"))
        transaction.create_namespace(ns("new"))
        transaction.alter_namespace(ns("a"), {"k": "v"}, ["owner"])
        transaction.alter_table(table("a.t"), {"k": "v"}, ["q"], location(9))
        transaction.rename_table(table("a.t"), table("new.t"))
        transaction.drop_table(table("a.u"))
        transaction.replace_view(view("a.v"), select("select 9"))
        transaction.rename_namespace(ns("a"), ns("z"))
        transaction.drop_namespace(ns("b"), cascade=True)
        transaction.alter_catalog({"k": "v"})
        running.save()
        loaded = distributed.load(self.elsewhere(catalog), running.id)
        assert loaded.transaction.isolation == SERIALIZABLE
        assert [str(name) for name in loaded.transaction.namespaces()] == ["empty", "new", "z"]
        loaded.commit()
        assert names(catalog) == ["namespace empty", "namespace new", "namespace z", "table new.t", "view z.v"]

    def test_it_is_rebased_on_the_newest_version(self, catalog, begun):
        for number in range(3):
            with catalog.transaction() as other:
                other.create_table(table(f"a.other{number}"), location())
        assert distributed.load(catalog, begun.id).commit().version == 5
        assert {"table a.new", "table a.other0", "table a.other2"} <= set(names(catalog))

    def test_a_conflict(self, catalog, begun):
        with catalog.transaction() as other:
            other.create_table(table("a.new"), location())
        with pytest.raises(CommitConflict):
            distributed.load(catalog, begun.id).commit()
        assert catalog.snapshot().version == 2
        assert distributed.find(catalog.store, begun.id).state(catalog.clock) is TransactionState.OPEN

    def test_a_save_that_another_process_overtook(self, catalog, begun):
        other = distributed.load(self.elsewhere(catalog), begun.id)
        other.transaction.create_table(table("a.theirs"), location())
        other.save()
        begun.transaction.create_table(table("a.mine"), location())
        with pytest.raises(SavedElsewhere) as raised:
            begun.save()
        assert raised.value.exit_code == 20
        with pytest.raises(SavedElsewhere):
            begun.save()
        loaded = distributed.load(catalog, begun.id)
        assert loaded.transaction.exists(table("a.theirs"))
        assert not loaded.transaction.exists(table("a.mine"))

    def test_a_commit_that_another_process_overtook_loses_no_statement(self, catalog, begun):
        """Two processes continue from one save. After a success, the catalog has the statements of that process."""
        other = distributed.load(self.elsewhere(catalog), begun.id)
        other.transaction.create_table(table("a.theirs"), location())
        other.save()
        acknowledged = []
        for running, name in ((begun, "a.new"), (other, "a.theirs")):
            try:
                running.commit()
                acknowledged.append(f"table {name}")
            except (SavedElsewhere, CommitConflict, TransactionClosed):
                pass
        assert acknowledged, "one of them gets through"
        assert set(acknowledged) <= set(names(catalog))

    @pytest.mark.parametrize(
        ("one", "another"),
        [
            (lambda t: None, lambda t: t.create_table(table("a.another"), location())),
            (
                lambda t: t.alter_table(table("a.t"), {"k": "one"}),
                lambda t: t.alter_table(table("a.t"), {"k": "another"}),
            ),
            (
                lambda t: t.create_table(table("a.same"), location(1)),
                lambda t: t.create_table(table("a.same"), location(2)),
            ),
            (lambda t: t.drop_table(table("a.t")), lambda t: t.drop_table(table("a.u"))),
        ],
        ids=["more", "another value", "another definition", "another drop"],
    )
    def test_statements_that_were_never_saved_are_not_lost_in_silence(self, catalog, begun, one, another):
        """Two processes go on from one save and do not save again. Only the first to commit is told of a success."""
        first, second = (distributed.load(self.elsewhere(catalog), begun.id) for _ in range(2))
        one(first.transaction)
        another(second.transaction)
        assert first.commit().version == 2
        committed = check_versions(catalog.store)[-1].contents
        with pytest.raises((SavedElsewhere, CommitConflict, TransactionClosed)):
            second.commit()
        assert check_versions(catalog.store)[-1].contents == committed

    def test_nor_when_the_other_process_is_first_by_a_hair(self, catalog, begun):
        """The other process commits after this one has looked at the log, and before it claims the transaction."""
        other = distributed.load(self.elsewhere(catalog), begun.id)

        class Overtaken(CountingStore):
            def create(self, path, data):
                if path.startswith("dtxn/") and other.transaction.open:
                    assert other.commit().version == 2
                super().create(path, data)

        running = distributed.load(Catalog(Overtaken(catalog.store), catalog.clock), begun.id)
        running.transaction.create_table(table("a.mine"), location())
        with pytest.raises((SavedElsewhere, CommitConflict, TransactionClosed)):
            running.commit()
        assert "table a.mine" not in names(catalog)

    def test_one_that_another_process_committed_with_more_statements_is_committed(self, catalog, begun):
        """All that this process has staged stands in that version."""
        other = distributed.load(self.elsewhere(catalog), begun.id)
        other.transaction.create_table(table("a.more"), location())
        assert other.commit().version == 2
        assert begun.commit().version == 2

    def test_committing_twice_is_committing_once(self, catalog, begun):
        others = [distributed.load(self.elsewhere(catalog), begun.id) for _ in range(2)]
        assert begun.commit().version == 2
        with catalog.transaction() as other:
            other.create_namespace(ns("later"))
        for running in (*others, begun):
            assert running.commit().version == 2
        assert catalog.snapshot().version == 3
        with pytest.raises(TransactionClosed):
            distributed.load(catalog, begun.id)

    def test_committing_twice_is_committing_once_also_after_a_rebase(self, catalog, begun):
        other = distributed.load(self.elsewhere(catalog), begun.id)
        with catalog.transaction() as winner:
            winner.alter_namespace(ns("a"), {"theirs": "1"})
        for running in (begun, other, begun):
            assert running.commit().version == 3
        assert catalog.snapshot().namespace(ns("a")).properties == {"owner": "them", "k": "v", "theirs": "1"}
        assert catalog.snapshot().version == 3

    def test_a_merged_drop_is_committed_once_too(self, catalog):
        running = distributed.begin(catalog)
        running.transaction.drop_table(table("a.t"))
        running.transaction.drop_table(table("a.u"))
        running.save()
        other = distributed.load(self.elsewhere(catalog), running.id)
        with catalog.transaction() as winner:
            winner.drop_table(table("a.t"))
        for each in (running, other, running):
            assert each.commit().version == 3

    def test_abort(self, catalog, begun):
        begun.abort()
        with pytest.raises(TransactionClosed) as raised:
            distributed.load(catalog, begun.id)
        assert "aborted" in raised.value.message
        assert catalog.snapshot().version == 1

    @pytest.mark.parametrize("end", ["abort", "commit"])
    @pytest.mark.parametrize(
        "then",
        [
            pytest.param(lambda running: running.save(), id="save"),
            pytest.param(lambda running: running.abort(), id="abort"),
            pytest.param(lambda running: running.transaction.create_namespace(ns("more")), id="statement"),
        ],
    )
    def test_after_the_end_nothing_goes_on(self, catalog, begun, end, then):
        getattr(begun, end)()
        with pytest.raises(TransactionClosed):
            then(begun)
        state = TransactionState.ABORTED if end == "abort" else TransactionState.COMMITTED
        assert distributed.find(catalog.store, begun.id).state(catalog.clock) is state

    def test_an_aborted_one_cannot_be_committed(self, catalog, begun):
        begun.abort()
        with pytest.raises(TransactionClosed):
            begun.commit()
        assert catalog.snapshot().version == 1

    def test_one_that_another_process_aborted_cannot_be_committed(self, catalog, begun):
        distributed.load(self.elsewhere(catalog), begun.id).abort()
        with pytest.raises((SavedElsewhere, TransactionClosed)):
            begun.commit()
        assert catalog.snapshot().version == 1

    def test_an_expired_one(self, catalog, clock, begun):
        clock.advance(3 * DAY + 1)
        assert distributed.find(catalog.store, begun.id).state(clock) is TransactionState.EXPIRED
        with pytest.raises(TransactionExpired):
            distributed.load(catalog, begun.id)
        with pytest.raises(TransactionExpired):
            begun.save()
        with pytest.raises(TransactionExpired):
            begun.commit()
        assert catalog.snapshot().version == 1

    def test_its_lifetime_does_not_begin_again_elsewhere(self, catalog, clock, begun):
        clock.advance(2 * DAY)
        loaded = distributed.load(self.elsewhere(catalog), begun.id)
        loaded.save()
        assert distributed.load(catalog, begun.id).transaction.expires_at_millis == begun.transaction.expires_at_millis
        clock.advance(DAY + 1)
        with pytest.raises(TransactionExpired):
            loaded.commit()

    def test_listing(self, catalog, clock, begun):
        ends = {begun.id: TransactionState.EXPIRED}
        for end in (TransactionState.COMMITTED, TransactionState.ABORTED):
            running = distributed.begin(catalog)
            ends[running.id] = end
            running.transaction.create_namespace(ns(f"n{end.value}"))
            running.commit() if end is TransactionState.COMMITTED else running.abort()
        clock.advance(3 * DAY + 1)
        running = distributed.begin(catalog)
        ends[running.id] = TransactionState.OPEN
        found = list(distributed.saved_transactions(catalog.store))
        assert {saved.id: saved.state(clock) for saved in found} == ends
        assert [saved.id for saved in found] == sorted(ends)
        assert next(saved for saved in found if saved.id == begun.id).began_at_version == 1

    def test_listing_none(self, catalog):
        assert list(distributed.saved_transactions(catalog.store)) == []

    def test_more_than_ten_saves(self, catalog, begun):
        for number in range(12):
            begun.transaction.create_table(table(f"a.n{number}"), location())
            begun.save()
        loaded = distributed.load(catalog, begun.id)
        assert loaded.transaction.exists(table("a.n11"))
        assert loaded.commit().version == 2

    @pytest.mark.parametrize(
        "id", ["", "no", "../vn", "/", "00000000-0000-4000-8000-000000000000", "a" * 5000, "*", "\0", "a\\b"]
    )
    def test_loading_an_unknown_transaction_is_refused(self, catalog, begun, id):
        with pytest.raises((TransactionNotFound, InvalidOption)):
            distributed.load(catalog, id)

    def test_a_transaction_id_is_found_in_any_letter_case(self, catalog):
        running = distributed.begin(catalog, id="ABCDEFAB-1234-4000-8000-ABCDEFABCDEF")
        assert running.id == "abcdefab-1234-4000-8000-abcdefabcdef"
        assert distributed.load(catalog, "ABCDEFAB-1234-4000-8000-ABCDEFABCDEF").id == running.id

    def test_an_id_that_is_taken(self, catalog, begun):
        with pytest.raises(TransactionExists) as raised:
            distributed.begin(catalog, id=begun.id)
        assert raised.value.exit_code == 11
        assert distributed.load(catalog, begun.id).transaction.exists(table("a.new"))

    @pytest.mark.parametrize("left", [[".1"], [".2"], [""], [".2", ""]], ids=str)
    def test_an_id_of_which_an_expire_has_left_something(self, catalog, begun, left):
        """The first save is gone already; the others would stand above the saves of a new transaction."""
        begun.abort()
        kept = {f"dtxn/{begun.id}{number}.binpb" for number in left}
        others = {file.path for file in catalog.store.list("dtxn/")} - kept
        catalog.store.delete_many(others)
        with pytest.raises(TransactionExists):
            distributed.begin(catalog, id=begun.id)
        assert {file.path for file in catalog.store.list("dtxn/")} == kept
        catalog.store.delete_many(kept)
        distributed.begin(catalog, id=begun.id)
        assert distributed.find(catalog.store, begun.id).save == 0

    @pytest.mark.parametrize("id", ["", "no", "../../x", "1234", "é" * 36])
    def test_an_id_that_is_none(self, catalog, id):
        with pytest.raises(InvalidOption):
            distributed.begin(catalog, id=id)

    def test_the_hint_alone_decides_nothing(self, catalog, begun):
        """The saves are the truth; the file without a number may be old, torn or gone."""
        for damage in (b"", b"garbage", None):
            path = f"dtxn/{begun.id}.binpb"
            catalog.store.delete_many([path]) if damage is None else catalog.store.overwrite(path, damage)
            assert distributed.load(catalog, begun.id).transaction.exists(table("a.new"))
        assert [saved.id for saved in distributed.saved_transactions(catalog.store)] == [begun.id]

    def running_root(self, catalog, begun):
        return distributed.find(catalog.store, begun.id).definition.running_root_node_file_path

    def test_a_missing_running_root(self, catalog, begun):
        path = self.running_root(catalog, begun)
        data = catalog.store.read(path)
        catalog.store.delete_many([path])
        with pytest.raises(Damaged) as raised:
            distributed.load(catalog, begun.id)
        assert path in str(raised.value)
        assert [saved.state(catalog.clock) for saved in distributed.saved_transactions(catalog.store)] == [
            TransactionState.OPEN
        ]
        catalog.store.create(path, data)

    def test_a_damaged_running_root(self, catalog, begun):
        path = self.running_root(catalog, begun)
        data = catalog.store.read(path)
        for damaged in (b"", data[: len(data) // 2], b"x" * len(data)):
            catalog.store.overwrite(path, damaged)
            with pytest.raises(Damaged) as raised:
                distributed.load(catalog, begun.id)
            assert path in str(raised.value)
        catalog.store.overwrite(path, data)

    def test_a_damaged_save(self, catalog, begun):
        path = f"dtxn/{begun.id}.1.binpb"
        data = catalog.store.read(path)
        catalog.store.delete_many([f"dtxn/{begun.id}.binpb"])
        for damaged in (b"\xff", data[:-1] + bytes([data[-1] ^ 1])):
            catalog.store.overwrite(path, damaged)
            with pytest.raises(Damaged) as raised:
                distributed.load(catalog, begun.id)
            assert path in str(raised.value)
        catalog.store.overwrite(path, data)

    def test_a_transaction_with_a_purged_base_version_is_expired(self, catalog, begun):
        mark(catalog, 2)
        catalog.store.overwrite("vn/oldest", b"2")
        catalog.store.delete_many([version_path(0), version_path(1)])
        with pytest.raises(TransactionExpired):
            distributed.load(catalog, begun.id)

    def test_a_distributed_roll_back(self, catalog):
        running = distributed.begin(catalog)
        running.transaction.roll_back(0)
        running.save()
        distributed.load(self.elsewhere(catalog), running.id).commit()
        assert names(catalog) == []


class TestWhatIsLeftOfADistributedTransaction:
    """Files of it are lost or damaged. The store here may hold transactions that are not sound."""

    @pytest.fixture
    def begun(self, catalog):
        running = distributed.begin(catalog)
        running.transaction.create_table(table("a.new"), location())
        running.save()
        return running

    @pytest.fixture(autouse=True)
    def _swept(self, store):
        """The catalog itself is sound when the test is over."""
        yield
        store.delete_many([file.path for file in store.list("dtxn/")])

    def keep_the_hint_alone(self, catalog, id):
        hint = f"dtxn/{id}.binpb"
        catalog.store.delete_many([file.path for file in catalog.store.list("dtxn/") if file.path != hint])
        return hint

    def test_the_hint_alone_is_the_transaction(self, catalog, clock, begun):
        hint = self.keep_the_hint_alone(catalog, begun.id)
        [found] = distributed.saved_transactions(catalog.store)
        assert (found.id, found.path, found.began_at_version) == (begun.id, hint, 1)
        assert found.state(clock) is TransactionState.OPEN
        assert distributed.find(catalog.store, begun.id) == found
        loaded = distributed.load(catalog, begun.id)
        assert loaded.transaction.exists(table("a.new"))
        assert loaded.commit().version == 2

    def test_loading_from_the_copy_alone_creates_the_first_save(self, catalog, begun):
        hint = self.keep_the_hint_alone(catalog, begun.id)
        first, second = (distributed.load(catalog, begun.id) for _ in range(2))
        first.save()
        assert {file.path for file in catalog.store.list("dtxn/")} == {f"dtxn/{begun.id}.0.binpb", hint}
        with pytest.raises(SavedElsewhere):
            second.save()

    def test_a_hint_alone_that_is_cut(self, catalog, clock, begun):
        """A hint may be torn. What is left of it is never taken for a transaction that is over."""
        hint = self.keep_the_hint_alone(catalog, begun.id)
        data = catalog.store.read(hint)
        for cut in range(len(data)):
            catalog.store.overwrite(hint, data[:cut])
            [found] = distributed.saved_transactions(catalog.store)
            assert found.state(clock) in (TransactionState.OPEN, TransactionState.UNREADABLE), cut

    BAD = (b"", b"\xff\xff\xff garbage", b"garbage", b"\x0a\x01x")

    @pytest.mark.parametrize("damage", BAD)
    def test_one_that_cannot_be_read_does_not_hide_the_others(self, catalog, clock, begun, damage):
        others = [distributed.begin(catalog) for _ in range(2)]
        path = f"dtxn/{begun.id}.1.binpb"
        catalog.store.overwrite(path, damage)
        catalog.store.overwrite(f"dtxn/{begun.id}.binpb", damage)
        found = {one.id: one for one in distributed.saved_transactions(catalog.store)}
        assert {id: one.state(clock) for id, one in found.items()} == {
            begun.id: TransactionState.UNREADABLE,
            **{other.id: TransactionState.OPEN for other in others},
        }
        unreadable = found[begun.id]
        assert isinstance(unreadable, UnreadableSave)
        assert (unreadable.save, unreadable.path) == (1, path)
        assert unreadable.reason
        assert unreadable.modified_at_millis == catalog.store.stat(path).modified_at_millis
        for read in (distributed.find, lambda store, id: distributed.load(catalog, id)):
            with pytest.raises(Damaged) as raised:
                read(catalog.store, begun.id)
            assert f"txn abort {begun.id}" in raised.value.hint

    def test_a_save_of_another_transaction_cannot_be_read(self, catalog, clock, begun):
        other = distributed.begin(catalog)
        for path in (f"dtxn/{begun.id}.1.binpb", f"dtxn/{begun.id}.binpb"):
            catalog.store.overwrite(path, catalog.store.read(f"dtxn/{other.id}.0.binpb"))
        assert distributed.look(catalog.store, begun.id).state(clock) is TransactionState.UNREADABLE

    def test_a_save_that_cannot_be_read_is_read_from_its_copy(self, catalog, begun):
        catalog.store.overwrite(f"dtxn/{begun.id}.1.binpb", b"")
        loaded = distributed.load(catalog, begun.id)
        assert loaded.transaction.exists(table("a.new"))
        loaded.save()
        assert catalog.store.exists(f"dtxn/{begun.id}.2.binpb")

    def test_but_not_from_the_copy_of_an_earlier_save(self, catalog, clock, begun):
        """The copy may lag: going on from it would leave out statements, or bring back one that is aborted."""
        old = catalog.store.read(f"dtxn/{begun.id}.binpb")
        begun.abort()
        catalog.store.overwrite(f"dtxn/{begun.id}.binpb", old)
        catalog.store.overwrite(f"dtxn/{begun.id}.2.binpb", b"")
        assert distributed.look(catalog.store, begun.id).state(clock) is TransactionState.UNREADABLE
        # nor when the earlier save that it may be a copy of is gone
        catalog.store.delete_many([f"dtxn/{begun.id}.1.binpb"])
        assert distributed.look(catalog.store, begun.id).state(clock) is TransactionState.UNREADABLE

    @pytest.mark.parametrize("damaged", [[".1", ""], [".0", ".1", ""]], ids=["an older save is whole", "none is whole"])
    def test_one_that_cannot_be_read_can_be_aborted(self, catalog, clock, begun, damaged):
        for number in damaged:
            catalog.store.overwrite(f"dtxn/{begun.id}{number}.binpb", b"")
        distributed.abort(catalog, distributed.look(catalog.store, begun.id))
        found = distributed.find(catalog.store, begun.id)
        assert (found.save, found.state(clock), found.began_at_version) == (2, TransactionState.ABORTED, 1)
        # a process with an older save finds the end for as long as the transaction may live
        assert found.definition.expire_at_millis >= begun.transaction.expires_at_millis
        with pytest.raises(SavedElsewhere):
            begun.commit()

    def test_a_hint_alone_that_cannot_be_read_can_be_aborted(self, catalog, clock, begun):
        catalog.store.overwrite(self.keep_the_hint_alone(catalog, begun.id), b"")
        distributed.abort(catalog, distributed.look(catalog.store, begun.id))
        found = distributed.find(catalog.store, begun.id)
        assert (found.save, found.state(clock)) == (0, TransactionState.ABORTED)

    def test_the_runs_of_committed_ones(self, catalog, begun):
        """By all of their saves that are whole, and only where the last of them, or its copy, says so."""

        def run(id):
            return distributed.find(catalog.store, id).definition.running_root_node_file_path

        other, first = distributed.begin(catalog), run(begun.id)
        begun.transaction.create_table(table("a.more"), location())
        begun.save()
        second = run(begun.id)
        begun.commit()
        assert {first, second} <= distributed.committed_runs(catalog.store, catalog.store.read_many).keys()
        assert run(other.id) not in distributed.committed_runs(catalog.store, catalog.store.read_many)
        catalog.store.overwrite(f"dtxn/{begun.id}.1.binpb", b"")
        runs = distributed.committed_runs(catalog.store, catalog.store.read_many)
        assert (first in runs, second in runs) == (False, True)
        catalog.store.overwrite(f"dtxn/{begun.id}.4.binpb", b"")
        assert not distributed.committed_runs(catalog.store, catalog.store.read_many)

    def test_one_without_its_running_root_can_be_aborted(self, catalog, clock, begun):
        saved = distributed.find(catalog.store, begun.id)
        catalog.store.delete_many([saved.definition.running_root_node_file_path])
        with pytest.raises(Damaged):
            distributed.load(catalog, begun.id)
        distributed.abort(catalog, saved)
        found = distributed.find(catalog.store, begun.id)
        assert (found.save, found.state(clock)) == (2, TransactionState.ABORTED)
        assert found.definition.expire_at_millis == begun.transaction.expires_at_millis

    @pytest.mark.parametrize("end", ["abort", "commit"])
    def test_one_that_has_ended_is_not_aborted(self, catalog, begun, end):
        getattr(begun, end)()
        files = {file.path for file in catalog.store.list()}
        with pytest.raises(TransactionClosed):
            distributed.abort(catalog, distributed.look(catalog.store, begun.id))
        assert {file.path for file in catalog.store.list()} == files

    def test_an_abort_does_not_overtake_a_save(self, catalog, begun):
        seen = distributed.look(catalog.store, begun.id)
        begun.save()
        with pytest.raises(SavedElsewhere):
            distributed.abort(catalog, seen)

    def test_one_that_goes_while_it_is_looked_at(self, catalog, begun):
        """Another expire deletes its files after they are listed."""
        other = distributed.begin(catalog)

        class Vanishing(CountingStore):
            def list(self, prefix="", temporary=False):
                found = list(super().list(prefix, temporary))
                self.inner.delete_many([file.path for file in found if begun.id in file.path])
                return iter(found)

        store = Vanishing(catalog.store)
        assert [saved.id for saved in distributed.saved_transactions(store)] == [other.id]

    def test_find_one_that_goes_meanwhile(self, catalog, begun):
        class Vanishing(CountingStore):
            def list(self, prefix="", temporary=False):
                found = list(super().list(prefix, temporary))
                self.inner.delete_many([file.path for file in found])
                return iter(found)

        with pytest.raises(TransactionNotFound):
            distributed.find(Vanishing(catalog.store), begun.id)

    def test_they_are_read_together(self, catalog):
        for _ in range(20):
            distributed.begin(catalog)
        store = CountingStore(catalog.store)
        assert all(isinstance(saved, Saved) for saved in distributed.saved_transactions(store))
        assert store.calls == {"list": 1, "read_many": 1}
        assert store.reads == 20
