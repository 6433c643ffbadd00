"""Taking versions back: what comes of it, and what stands in the way."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import at_version
from olympia_cli.errors import CommitConflict, NotRevertible, OlympiaError, RevertConflict, VersionNotFound
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType, ExpireDef, ExportDef, RepairDef
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.names import AtVersion, Kind
from olympia_cli.ops.inspect import log_between
from olympia_cli.ops.revert import apply_revert, check_revertible, plan_revert
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.names import location, ns, select, table, view


@pytest.fixture
def catalog():
    catalog = Catalog.create(MemoryStore(), order=4)
    change(
        catalog,
        lambda t: t.create_namespace(ns("a"), {"owner": "ann"}),
        lambda t: t.create_namespace(ns("b")),
        *(lambda t, n=n: t.create_table(table(f"a.t{n}"), location(n)) for n in range(3)),
        lambda t: t.create_view(view("a.v"), select("select 1")),
        lambda t: t.alter_catalog({"k": "v"}),
    )
    yield catalog
    check_catalog(catalog.store)


def change(catalog: Catalog, *statements) -> int:
    transaction = catalog.begin()
    for statement in statements:
        statement(transaction)
    return catalog.commit(transaction).version


def revert(catalog: Catalog, first: int, last: int | None = None, level: IsolationLevel | None = None):
    transaction = catalog.begin(level)
    stage(transaction, first, last)
    return catalog.commit(transaction)


def stage(transaction, first: int, last: int | None = None) -> None:
    last = first if last is None else last
    plan = plan_revert(transaction, first, last, lambda version: at_version(version, transaction.base))
    apply_revert(transaction, plan)


def content(catalog: Catalog, version: int | None = None) -> dict:
    snapshot = catalog.snapshot(None if version is None else AtVersion(version))
    found = {
        one.name: (one.id, one.definition.SerializeToString(deterministic=True).split(b"\xc2\x3e")[0])
        for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
        for one in snapshot.objects(kind)
    }
    definition = snapshot.definition
    return {**found, None: (dict(definition.properties), definition.txn_ttl_millis, definition.txn_isolation_level)}


CHANGES = {
    "create": [lambda t: t.create_table(table("a.new"), location())],
    "create a namespace": [
        lambda t: t.create_namespace(ns("n")),
        lambda t: t.create_table(table("n.t"), location()),
        lambda t: t.create_view(view("n.v"), select()),
    ],
    "drop": [lambda t: t.drop_table(table("a.t1")), lambda t: t.drop_view(view("a.v"))],
    "drop a namespace": [lambda t: t.drop_namespace(ns("a"), cascade=True)],
    "alter": [
        lambda t: t.alter_table(table("a.t0"), {"k": "v"}, (), location(7)),
        lambda t: t.alter_namespace(ns("a"), {"tier": "gold"}, ["owner"]),
        lambda t: t.replace_view(view("a.v"), select("select 2", k="v")),
        lambda t: t.alter_catalog({"k": "w", "l": "x"}, txn_ttl_millis=120_000, isolation=IsolationLevel.SERIALIZABLE),
    ],
    "unset": [lambda t: t.alter_catalog(None, ["k"])],
    "rename": [
        lambda t: t.rename_table(table("a.t0"), table("b.u")),
        lambda t: t.rename_view(view("a.v"), view("b.v")),
    ],
    "rename and alter": [
        lambda t: t.rename_table(table("a.t0"), table("b.u")),
        lambda t: t.alter_table(table("b.u"), {"k": "v"}),
    ],
    "rename a namespace": [lambda t: t.rename_namespace(ns("a"), ns("c"))],
    "rename a namespace and more": [
        lambda t: t.rename_namespace(ns("a"), ns("c")),
        lambda t: t.create_table(table("c.new"), location()),
        lambda t: t.drop_table(table("c.t1")),
        lambda t: t.alter_table(table("c.t0"), {"k": "v"}),
        lambda t: t.rename_table(table("c.t2"), table("c.u")),
    ],
    "replace": [lambda t: t.drop_table(table("a.t0")), lambda t: t.create_table(table("a.t0"), location(9))],
    "replace a namespace": [
        lambda t: t.drop_namespace(ns("a"), cascade=True),
        lambda t: t.create_namespace(ns("a")),
        lambda t: t.create_table(table("a.t0"), location(9)),
    ],
    "swap": [
        lambda t: t.rename_table(table("a.t0"), table("a.x")),
        lambda t: t.rename_table(table("a.t1"), table("a.t0")),
        lambda t: t.rename_table(table("a.x"), table("a.t1")),
    ],
    "shift": [
        lambda t: t.rename_table(table("a.t1"), table("b.c")),
        lambda t: t.rename_table(table("a.t0"), table("a.t1")),
    ],
    "swap namespaces": [
        lambda t: t.rename_namespace(ns("a"), ns("x")),
        lambda t: t.rename_namespace(ns("b"), ns("a")),
        lambda t: t.rename_namespace(ns("x"), ns("b")),
    ],
    "another namespace takes the name": [
        lambda t: t.rename_namespace(ns("a"), ns("c")),
        lambda t: t.create_namespace(ns("a")),
        lambda t: t.create_table(table("a.t0"), location(9)),
        lambda t: t.rename_table(table("c.t1"), table("a.t1")),
    ],
    "namespaces move up": [
        lambda t: t.rename_namespace(ns("a"), ns("c")),
        lambda t: t.rename_namespace(ns("b"), ns("a")),
        lambda t: t.create_table(table("a.t0"), location(9)),
    ],
    "a namespace takes a dropped one's name": [
        lambda t: t.create_table(table("b.t0"), location(9)),
        lambda t: t.drop_namespace(ns("a"), cascade=True),
        lambda t: t.rename_namespace(ns("b"), ns("a")),
    ],
    "a circle of namespaces": [
        lambda t: t.create_namespace(ns("~")),
        lambda t: t.rename_namespace(ns("a"), ns("x")),
        lambda t: t.rename_namespace(ns("b"), ns("a")),
        lambda t: t.create_namespace(ns("b")),
        lambda t: t.rename_namespace(ns("b"), ns("~1")),
        lambda t: t.rename_namespace(ns("x"), ns("b")),
        lambda t: t.rename_table(table("b.t0"), table("a.t0")),
    ],
}


@pytest.mark.parametrize("level", [IsolationLevel.SNAPSHOT, IsolationLevel.SERIALIZABLE])
@pytest.mark.parametrize("statements", CHANGES.values(), ids=CHANGES)
def test_a_revert_can_itself_be_reverted(catalog, statements, level):
    before = content(catalog)
    version = change(catalog, *statements)
    after = content(catalog)
    change(catalog, lambda t: t.create_namespace(ns("later")))
    assert revert(catalog, version, level=level).version == version + 2
    now = content(catalog)
    assert now.pop(ns("later"))
    assert now == before
    revert(catalog, version + 2, level=level)
    now = content(catalog)
    now.pop(ns("later"))
    assert now == after


@pytest.mark.parametrize("statements", CHANGES.values(), ids=CHANGES)
def test_taken_back_twice_is_nothing(catalog, statements):
    version = change(catalog, *statements)
    revert(catalog, version)
    before = content(catalog)
    done = revert(catalog, version)
    assert (done.version, done.actions) == (version + 1, ())
    assert content(catalog) == before


def test_a_revert_of_a_range_is_one_combined_commit(catalog):
    before = content(catalog)
    first = change(catalog, *CHANGES["alter"])
    change(catalog, lambda t: t.drop_table(table("a.t0")), lambda t: t.create_namespace(ns("n")))
    last = change(catalog, lambda t: t.drop_namespace(ns("n")), lambda t: t.rename_table(table("a.t1"), table("b.u")))
    change(catalog, lambda t: t.alter_table(table("a.t2"), {"after": "wards"}))
    done = revert(catalog, first, last)
    names = [str(action.name) for action in done.actions]
    assert names.count("n") == 0
    assert content(catalog).keys() == before.keys()
    [reverting, *others] = log_between(catalog, None, None)
    assert (reverting.reverts, reverting.reverted_by) == ([(first, last)], None)
    assert [one.version for one in others if one.reverted_by == reverting.version] == [last, last - 1, first]
    revert(catalog, reverting.version)
    entries = list(log_between(catalog, None, None))
    assert [(one.version, one.reverted_by) for one in entries if one.reverted_by] == [(reverting.version, last + 3)]


SINCE = {
    "altered": ("alter", lambda t: t.alter_table(table("a.t0"), {"k": "x"}), {"a.t0": "altered since"}),
    "dropped": ("alter", lambda t: t.drop_table(table("a.t0")), {"a.t0": "dropped or renamed since"}),
    "renamed": ("alter", lambda t: t.rename_table(table("a.t0"), table("b.t0")), {"a.t0": "dropped or renamed since"}),
    "created again": (
        "drop",
        lambda t: t.create_table(table("a.t1"), location()),
        {"a.t1": "another object has the name now"},
    ),
    "taken": (
        "rename",
        lambda t: t.create_table(table("a.t0"), location()),
        {"a.t0": "another object has the name now"},
    ),
    "filled": (
        "create a namespace",
        lambda t: t.create_table(table("n.more"), location()),
        {"n": "holds table n.more, which is newer"},
    ),
    "without a home": ("drop", lambda t: t.drop_namespace(ns("a"), cascade=True), {"a.t1": "the namespace a is gone"}),
    "catalog": ("alter", lambda t: t.alter_catalog({"k": "x"}), {"None": "its property k was changed since"}),
    "lifetime": (
        "alter",
        lambda t: t.alter_catalog(txn_ttl_millis=180_000),
        {"None": "its txn_ttl_millis was changed since"},
    ),
    "a namespace": ("alter", lambda t: t.rename_namespace(ns("a"), ns("c")), {"a": "dropped or renamed since"}),
}


@pytest.mark.parametrize(("done", "since", "expected"), SINCE.values(), ids=SINCE)
def test_a_revert_of_objects_changed_since_conflicts_without_writing(catalog, done, since, expected):
    version = change(catalog, *CHANGES[done])
    last = change(catalog, since)
    files = {file.path for file in catalog.store.list()}
    with pytest.raises(RevertConflict) as caught:
        revert(catalog, version)
    found = {
        str(
            None
            if one["object"] == "catalog"
            else one["namespace"]
            if one["object"] == "namespace"
            else f"{one['namespace']}.{one['name']}"
        ): one
        for one in caught.value.conflicts
    }
    for name, why in expected.items():
        assert found[name]["why"] == why
        assert found[name]["version"] in (last, None)
    assert {file.path for file in catalog.store.list()} == files


def test_a_revert_reports_all_conflicts(catalog):
    version = change(catalog, *CHANGES["alter"])
    change(catalog, lambda t: t.drop_namespace(ns("a"), cascade=True))
    with pytest.raises(RevertConflict) as caught:
        revert(catalog, version)
    assert sorted((one["object"], one["name"]) for one in caught.value.conflicts) == [
        ("namespace", "a"),
        ("table", "t0"),
        ("view", "v"),
    ]


def test_a_revert_does_not_duplicate_an_object_restored_elsewhere(catalog):
    version = change(catalog, lambda t: t.drop_table(table("a.t0")))
    old = catalog.snapshot(AtVersion(1)).table(table("a.t0"))
    change(catalog, lambda t: t.restore(old, 1))
    change(catalog, lambda t: t.rename_table(table("a.t0"), table("b.home")))
    with pytest.raises(RevertConflict) as caught:
        revert(catalog, version)
    assert [one["why"] for one in caught.value.conflicts] == ["exists as b.home now"]


def test_a_reverted_namespace_rename_takes_newer_tables_along(catalog):
    version = change(catalog, *CHANGES["rename a namespace"])
    change(
        catalog,
        lambda t: t.create_table(table("c.later"), location()),
        lambda t: t.alter_table(table("c.t0"), {"k": "v"}),
        lambda t: t.drop_table(table("c.t1")),
    )
    revert(catalog, version)
    names = sorted(str(name) for name in content(catalog) if name is not None)
    assert names == ["a", "a.later", "a.t0", "a.t2", "a.v", "b"]


def test_another_writer_is_met_as_by_every_commit(catalog):
    version = change(catalog, *CHANGES["alter"])
    transaction = catalog.begin()
    stage(transaction, version)
    change(catalog, lambda t: t.create_table(table("b.other"), location()))
    assert catalog.commit(transaction).version == version + 2
    again = catalog.begin()
    stage(again, version + 2)
    change(catalog, lambda t: t.alter_table(table("a.t0"), {"x": "y"}))
    with pytest.raises(CommitConflict):
        catalog.commit(again)


def test_a_revert_joins_other_changes_in_a_distributed_transaction(catalog):
    version = change(catalog, *CHANGES["drop"])
    begun = distributed.begin(catalog)
    begun.transaction.create_table(table("a.mine"), location())
    stage(begun.transaction, version)
    begun.save()
    done = distributed.load(catalog, begun.id).commit("both")
    assert [action.type_name for action in done.actions] == [
        "TABLE_CREATE",
        "TABLE_RESTORE",
        "VIEW_RESTORE",
        "COMMIT_INFO",
    ]
    [entry] = log_between(catalog, None, None, 1)
    assert (entry.message, entry.reverts) == ("both", [(version, version)])
    begun = distributed.begin(catalog)
    begun.transaction.alter_table(table("a.t1"), {"k": "v"})
    with pytest.raises(RevertConflict):
        stage(begun.transaction, done.version)


@pytest.mark.parametrize(
    ("type", "payload", "words", "command"),
    [
        (ActionType.CATALOG_EXPORT, ExportDef(name="-x"), "recorded an export", ("export", "drop", "--", "-x")),
        (ActionType.CATALOG_EXPORT, ExportDef(name="x", dropped=True), "dropped the export x", ()),
        (ActionType.CATALOG_EXPIRE_MARK, ExpireDef(), "an expire", ("expire", "undo", "--dry-run")),
        (ActionType.CATALOG_EXPIRE_PURGE, ExpireDef(), "an expire", ()),
        (ActionType.CATALOG_REPAIR, RepairDef(), "a repair", ("rollback", "--dry-run", "v8")),
        (ActionType.CATALOG_CREATE, ExpireDef(), "CATALOG_CREATE", ()),
        (4711, ExpireDef(), "4711", ()),
    ],
)
def test_a_version_that_needs_another_command_is_not_reverted(type, payload, words, command):
    with pytest.raises(NotRevertible, match=words) as caught:
        check_revertible(9, [Action(type, None, b"", payload.SerializeToString())])
    assert caught.value.command == command


def test_rollbacks_and_the_beginning(catalog):
    change(catalog, *CHANGES["drop"])
    change(catalog, lambda t: t.roll_back(1))
    for first, last in ((3, 3), (2, 3), (1, 3)):
        with pytest.raises(NotRevertible, match="v3 is a rollback to v1") as caught:
            revert(catalog, first, last)
        assert caught.value.command == ("rollback", "v2")
    with pytest.raises(NotRevertible, match="v0 created the catalog"):
        revert(catalog, 0)
    with pytest.raises(VersionNotFound):
        revert(catalog, 4)
    # what a rollback has passed over is undone already
    assert revert(catalog, 2).actions == ()


def test_a_compact_is_nothing_to_take_back(catalog):
    for number in range(9):
        change(catalog, lambda t, n=number: t.create_namespace(ns(f"n{n}")))
    version = change(catalog, lambda t: t.do(Action(ActionType.CATALOG_COMPACT)))
    before = content(catalog)
    assert revert(catalog, version).actions == ()
    revert(catalog, version - 1, version)
    assert set(before) - set(content(catalog)) == {ns("n8")}


@pytest.mark.parametrize("seed", range(6))
def test_random_versions_taken_back_in_turn_lead_to_the_beginning(catalog, seed):
    """Version after version is taken back, the newest first: what is left is what was there before all of them."""
    draw = random.Random(seed)
    before, first = content(catalog), catalog.snapshot().version + 1
    names = list(CHANGES)
    versions = []
    for _ in range(8):
        transaction = catalog.begin()
        try:
            for statement in CHANGES[draw.choice(names)]:
                statement(transaction)
        except Exception:
            continue  # it does not fit what the others left
        versions.append(catalog.commit(transaction).version)
    if seed % 2:
        revert(catalog, first, catalog.snapshot().version)
    else:
        for version in reversed(dict.fromkeys(versions)):
            revert(catalog, version)
    assert content(catalog) == before


def test_newer_table_at_a_former_name_is_a_conflict(catalog):
    version = change(
        catalog,
        lambda t: t.rename_namespace(ns("a"), ns("c")),
        lambda t: t.rename_table(table("c.t1"), table("b.t2")),
    )
    change(catalog, lambda t: t.create_table(table("c.t1"), location(9)))
    with pytest.raises(RevertConflict) as stopped:
        revert(catalog, version)
    assert [(one["namespace"], one["name"]) for one in stopped.value.conflicts] == [("c", "t1")]


def test_a_revert_does_not_restore_a_table_dropped_since(catalog):
    version = change(catalog, *CHANGES["another namespace takes the name"])
    change(catalog, lambda t: t.drop_table(table("a.t1")))
    revert(catalog, version)
    assert {str(name) for name in catalog.snapshot().tables()} == {"a.t0", "a.t2"}


def _any_statement(draw: random.Random):
    """A statement on four namespaces and a few tables, half of which are renames of namespaces; it may not fit."""
    (one, other), (this, that) = draw.choices("abcd", k=2), draw.choices(["t0", "t1", "t2"], k=2)
    return draw.choice(
        [
            *[lambda t: t.rename_namespace(ns(one), ns(other))] * 4,
            lambda t: t.create_namespace(ns(one)),
            lambda t: t.drop_namespace(ns(one), cascade=True),
            lambda t: t.rename_table(table(f"{one}.{this}"), table(f"{other}.{that}")),
            lambda t: t.create_table(table(f"{one}.{this}"), location(9)),
            lambda t: t.alter_table(table(f"{one}.{this}"), {"k": other}, (), location(8)),
        ]
    )


def _random_version(catalog: Catalog, draw: random.Random) -> None:
    transaction = catalog.begin()
    for _ in range(draw.randint(1, 6)):
        with suppress(OlympiaError):
            _any_statement(draw)(transaction)
    catalog.commit(transaction)


@pytest.mark.parametrize("part", range(4))
def test_any_changes_of_namespaces_can_be_reverted(part):
    """Exchanges, circles, names that others have taken: with nothing since, nothing stands in the way."""
    for seed in range(part, 240, 4):
        draw, catalog = random.Random(seed), _two_namespaces()
        before, first = content(catalog), catalog.snapshot().version + 1
        for _ in range(draw.randint(1, 2)):
            _random_version(catalog, draw)
        if catalog.snapshot().version >= first:
            revert(catalog, first, catalog.snapshot().version)
            assert content(catalog) == before, seed


@pytest.mark.parametrize("part", range(4))
def test_later_changes_conflict_with_a_revert_or_stay(part):
    outcomes = Counter()
    for seed in range(part, 240, 4):
        draw, catalog = random.Random(seed), _two_namespaces()
        first = catalog.snapshot().version + 1
        _random_version(catalog, draw)
        last = catalog.snapshot().version
        _random_version(catalog, draw)
        try:
            if last >= first:
                revert(catalog, first, last)
                outcomes["taken back"] += 1
        except RevertConflict:
            outcomes["conflict"] += 1
        check_catalog(catalog.store)
    assert min(outcomes.values()) > 2


def _two_namespaces() -> Catalog:
    catalog = Catalog.create(MemoryStore(), order=4)
    names = ["a.t0", "a.t1", "b.t0"]
    change(
        catalog,
        lambda t: t.create_namespace(ns("a"), {"owner": "ann"}),
        lambda t: t.create_namespace(ns("b")),
        *(lambda t, name=name: t.create_table(table(name), location()) for name in names),
        lambda t: t.create_view(view("a.v"), select("select 1")),
    )
    return catalog
