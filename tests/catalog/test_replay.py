"""The actions in the log of a version are the changes of its content."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.lineage import Followed
from olympia_cli.catalog.properties import EXPIRE_OLDEST
from olympia_cli.catalog.replay import catalog_after, moved, replay, rollback_target, tells_all, touched
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.staging import NO_LONGER_FITS
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidName, InvalidOption, Unsupported, VersionNotFound
from olympia_cli.format.actions import Action
from olympia_cli.format.definitions import bare, body
from olympia_cli.format.pb.actions_pb2 import ActionType as T
from olympia_cli.format.pb.actions_pb2 import ExpireDef, ExportDef, RenameDef, RollbackDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import AtVersion, Kind, ObjectName
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.names import location, ns, select, table, view
from tests.helpers.sample_actions import SAMPLES


class Definitions:
    """Every object of a version, by name."""

    def __init__(self, held: dict[ObjectName, bytes]) -> None:
        self.held = dict(held)

    def put(self, name: ObjectName, definition: bytes) -> None:
        self.held[name] = definition

    def drop(self, name: ObjectName) -> None:
        del self.held[name]

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        assert self.held[old] == definition
        self.held = {moved(name, old, new): content for name, content in self.held.items()}


def definitions(snapshot: Snapshot) -> dict[ObjectName, bytes]:
    kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
    return {found.name: body(found.definition) for kind in kinds for found in snapshot.objects(kind)}


def statement(transaction: Transaction, rng: random.Random, at: int) -> None:
    """Any statement, on any of a few names; many do not fit."""
    a, b = (rng.choice("abc") for _ in range(2))
    one, other = f"{a}.{rng.choice('xy')}", f"{b}.{rng.choice('xy')}"
    value = {rng.choice("pq"): str(at)}
    statements = [
        lambda: transaction.create_namespace(ns(a), value),
        lambda: transaction.alter_namespace(ns(a), value, ["r"]),
        lambda: transaction.rename_namespace(ns(a), ns(b)),
        lambda: transaction.drop_namespace(ns(a), cascade=True),
        lambda: transaction.create_table(table(one), location(at), value),
        lambda: transaction.alter_table(table(one), value, (), location(at)),
        lambda: transaction.rename_table(table(one), table(other)),
        lambda: transaction.drop_table(table(one)),
        lambda: transaction.create_view(view(one), select(str(at))),
        lambda: transaction.replace_view(view(one), select(str(at))),
        lambda: transaction.alter_view(view(one), value),
        lambda: transaction.rename_view(view(one), view(other)),
        lambda: transaction.drop_view(view(one)),
        lambda: transaction.alter_catalog(value),
        lambda: transaction.do(
            Action(T.CATALOG_EXPORT, None, b"", ExportDef(name=a, location=one, version=at).SerializeToString())
        ),
    ]
    with suppress(*NO_LONGER_FITS):
        rng.choice(statements)()


@pytest.mark.parametrize("seed", range(8))
def test_replaying_the_log_gives_the_content_of_each_version(seed):
    rng = random.Random(seed)
    catalog = Catalog.create(MemoryStore("replayed"), order=4)
    objects: list[dict[ObjectName, bytes]] = [{}]
    catalogs = [catalog.snapshot().definition]
    for at in range(50):
        transaction = catalog.begin()
        latest = transaction.base.version
        if latest > 3 and rng.random() < 0.1:
            transaction.roll_back(rng.randrange(latest))
        else:
            for _ in range(rng.randrange(1, 6)):
                statement(transaction, rng, at)
        if not transaction.has_writes:
            continue
        catalog.commit(transaction)
        snapshot = catalog.snapshot()
        actions = snapshot.actions()
        target = rollback_target(actions)
        state, definition = Definitions(objects[-1 if target is None else target]), catalogs[-1]
        for action in actions:
            replay(action, state)
            definition = catalog_after(definition, action, snapshot.version, catalogs.__getitem__)
        assert state.held == definitions(snapshot)
        assert bare(definition) == bare(snapshot.definition)
        objects.append(state.held)
        catalogs.append(definition)
    assert len(objects) > 25


def test_an_object_is_followed_by_its_id_as_all_objects_are():
    catalog = Catalog.create(MemoryStore("followed"))
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        transaction.create_table(table("a.t"), location())
    id = catalog.snapshot().table(table("a.t")).id
    with catalog.transaction() as transaction:
        transaction.rename_table(table("a.t"), table("a.u"))
        transaction.create_table(table("a.t"), location(1))
        transaction.rename_namespace(ns("a"), ns("b"))
    created, renamed = (catalog.snapshot(AtVersion(version)).actions() for version in (1, 2))
    assert Followed({id: None}).follow(created) == {id: table("a.t")}
    assert Followed({id: table("a.t")}).follow(renamed) == {id: table("b.u")}
    assert Followed({id: table("b.u")}).follow([Action(T.TABLE_DROP, table("b.u"))]) == {id: None}


@pytest.mark.parametrize("name", SAMPLES)
def test_an_action_declares_all_names_that_its_replay_changes(name):
    changed: set[ObjectName] = set()

    class Changed:
        def put(self, name: ObjectName, definition: bytes) -> None:
            changed.add(name)

        def drop(self, name: ObjectName) -> None:
            changed.add(name)

        def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
            changed.update({old, new})

    done = replay(SAMPLES[name], Changed())
    assert changed == (touched(SAMPLES[name]) if done else set())


def test_a_renamed_namespace_moves_its_objects_and_no_others():
    old, new = ns("a"), ns("b")
    names = [ns("a"), table("a.t"), view("a.t"), ns("c"), table("c.a")]
    assert [moved(name, old, new) for name in names] == [ns("b"), table("b.t"), view("b.t"), ns("c"), table("c.a")]
    assert moved(view("a.t"), table("a.t"), table("a.u")) == view("a.t")


class TestTheCatalog:
    before = CatalogDef(id="1", order=3, properties={EXPIRE_OLDEST: "4"})

    def test_the_definition_before_stays_as_it_was(self):
        kept = bare(self.before)
        mark = ExpireDef(oldest=6, former_oldest=4, manifest="m").SerializeToString()
        after = catalog_after(self.before, Action(T.CATALOG_EXPIRE_MARK, None, b"", mark), 9)
        assert after.properties[EXPIRE_OLDEST] == "6"
        assert self.before == kept

    def test_a_change_that_does_not_fit_is_refused(self):
        mark = ExpireDef(oldest=6, former_oldest=3).SerializeToString()
        with pytest.raises(InvalidOption):
            catalog_after(self.before, Action(T.CATALOG_EXPIRE_MARK, None, b"", mark), 9)
        export = ExportDef(name="e", version=3).SerializeToString()
        with pytest.raises(VersionNotFound):
            catalog_after(self.before, Action(T.CATALOG_EXPORT, None, b"", export), 9)

    @pytest.mark.parametrize(
        "action",
        [
            Action(T.CATALOG_REPAIR),
            Action(T.CATALOG_ALTER),
            Action(T.CATALOG_ALTER, None, b"\xff"),
            Action(T.CATALOG_ROLLBACK, None, b"", RollbackDef(to_version=1).SerializeToString()),
        ],
        ids=["repair", "no definition", "no message", "a version that is not known"],
    )
    def test_an_action_without_the_catalog_definition_is_refused(self, action):
        with pytest.raises(Unsupported):
            catalog_after(self.before, action, 9)

    def test_action_with_a_definition_makes_the_catalog_known_again(self):
        with pytest.raises(Unsupported):
            catalog_after(None, Action(T.CATALOG_COMPACT), 9)
        assert catalog_after(None, Action(T.CATALOG_ALTER, None, body(self.before)), 9) == self.before

    def test_a_repair_and_another_program_do_not_tell_all(self):
        assert tells_all([Action(T.COMMIT_INFO)])
        assert not tells_all([])
        assert not tells_all([Action(T.CATALOG_REPAIR), Action(T.COMMIT_INFO)])


@pytest.mark.parametrize("new", ["", "my table", "a\nb", "\x7f"])
def test_a_rename_to_an_invalid_name_is_refused(new):
    """Damaged saves may contain such bytes; a key made of them could not be read again."""
    catalog = Catalog.create(MemoryStore())
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        transaction.create_table(table("a.t"), "s3://b/m.json")
    transaction = catalog.begin()
    content = body(transaction.table(table("a.t")).definition)
    for name, to in (
        (table("a.t"), RenameDef(new_namespace_name="a", new_name=new)),
        (table("a.t"), RenameDef(new_namespace_name=new, new_name="t")),
        (ns("a"), RenameDef(new_namespace_name=new)),
    ):
        type = T.NAMESPACE_RENAME if name.kind is Kind.NAMESPACE else T.TABLE_RENAME
        action = Action(type, name, content, to.SerializeToString())
        with pytest.raises(InvalidName):
            transaction.do(action)
        with pytest.raises(InvalidName):
            replay(action, Definitions({name: content}))
