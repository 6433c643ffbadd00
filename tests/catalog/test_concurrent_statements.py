"""Two writers at once, every pair of statements: the outcome is that of one after the other, or a conflict."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Committed
from olympia_cli.errors import CommitConflict, NamespaceNotFound, OlympiaError, TableNotFound, ViewNotFound
from olympia_cli.format.pb.objects_pb2 import IsolationLevel, ViewDef
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.fsck import everything
from tests.helpers.stores import PowerCut, WrappedStore

pytestmark = pytest.mark.usefixtures("decoded_once")


def ns(name):
    return NamespaceName(name)


def table(text):
    return TableName(*text.split("."))


def view(text):
    return ViewName(*text.split("."))


STATEMENTS = {
    "create ns d": lambda t: t.create_namespace(ns("d"), {"made": "yes"}),
    "set a.p": lambda t: t.alter_namespace(ns("a"), {"p": "new"}),
    "set a.q": lambda t: t.alter_namespace(ns("a"), {"q": "new"}),
    "unset a.p": lambda t: t.alter_namespace(ns("a"), None, ["p"]),
    "rename ns a d": lambda t: t.rename_namespace(ns("a"), ns("d")),
    "rename ns b d": lambda t: t.rename_namespace(ns("b"), ns("d")),
    "drop ns empty": lambda t: t.drop_namespace(ns("empty")),
    "cascade a": lambda t: t.drop_namespace(ns("a"), cascade=True),
    "cascade empty": lambda t: t.drop_namespace(ns("empty"), cascade=True),
    "create a.new": lambda t: t.create_table(table("a.new"), "s3://new"),
    "create empty.new": lambda t: t.create_table(table("empty.new"), "s3://new"),
    "set a.t.p": lambda t: t.alter_table(table("a.t"), {"p": "new"}),
    "set a.t.q": lambda t: t.alter_table(table("a.t"), {"q": "new"}),
    "move a.t on": lambda t: t.alter_table(table("a.t"), metadata_location="s3://moved-on"),
    "rename a.t a.s": lambda t: t.rename_table(table("a.t"), table("a.s")),
    "rename a.t b.t": lambda t: t.rename_table(table("a.t"), table("b.t")),
    "rename b.u a.new": lambda t: t.rename_table(table("b.u"), table("a.new")),
    "rename b.u empty.u": lambda t: t.rename_table(table("b.u"), table("empty.u")),
    "drop a.t": lambda t: t.drop_table(table("a.t")),
    "create view a.new": lambda t: t.create_view(view("a.new"), ViewDef(substrait_read_rel=b"new")),
    "replace a.v": lambda t: t.replace_view(view("a.v"), ViewDef(substrait_read_rel=b"replaced")),
    "set a.v.p": lambda t: t.alter_view(view("a.v"), {"p": "new"}),
    "rename a.v b.v": lambda t: t.rename_view(view("a.v"), view("b.v")),
    "drop a.v": lambda t: t.drop_view(view("a.v")),
    "set catalog.p": lambda t: t.alter_catalog({"p": "new"}),
    "set catalog.q": lambda t: t.alter_catalog({"q": "new"}),
    "set ttl": lambda t: t.alter_catalog(txn_ttl_millis=123456789),
    "roll back": lambda t: t.roll_back(1),
    "swap a.t and b.u": lambda t: (
        t.rename_table(table("a.t"), table("a.tmp")),
        t.rename_table(table("b.u"), table("a.t")),
        t.rename_table(table("a.tmp"), table("b.u")),
    ),
    "replace b.u": lambda t: (t.drop_table(table("b.u")), t.create_table(table("b.u"), "s3://another")),
}


def make() -> Catalog:
    catalog = Catalog.create(MemoryStore(), order=4)
    with catalog.transaction() as t:
        for name in ("a", "b", "empty"):
            t.create_namespace(ns(name), {"p": "old"})
    with catalog.transaction() as t:
        for name in ("a.t", "b.u", *(f"a.more{number}" for number in range(8))):
            t.create_table(table(name), "s3://old", {"p": "old"})
        t.create_view(view("a.v"), ViewDef(substrait_read_rel=b"old"))
    return catalog


def copy(catalog: Catalog) -> Catalog:
    return Catalog(MemoryStore(files=dict(catalog.store._files)))


def content(catalog: Catalog, known_ids: set[str]) -> dict[str, object]:
    """All that a reader sees; ids of new objects are random, so they count only as new."""
    snapshot = catalog.snapshot()
    found: dict[str, object] = {}
    for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW):
        for entry in snapshot.objects(kind):
            definition = type(entry.definition)()
            definition.CopyFrom(entry.definition)
            definition.ClearField("integrity")
            if definition.id not in known_ids:
                definition.id = "new"
            found[f"{kind.word} {entry.name}"] = definition
    definition = snapshot.definition
    found["catalog"] = (dict(definition.properties), definition.txn_ttl_millis)
    return found


def ids(catalog: Catalog) -> set[str]:
    snapshot = catalog.snapshot()
    return {entry.id for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW) for entry in snapshot.objects(kind)}


BASE = make()
IDS = ids(BASE)


def sound(catalog: Catalog) -> bool:
    snapshot = catalog.snapshot()
    namespaces = {name.namespace for name in snapshot.namespaces()}
    inside = {name.namespace for name in (*snapshot.tables(), *snapshot.views())}
    return inside <= namespaces


@pytest.mark.parametrize("first", STATEMENTS)
def test_the_outcome_is_that_of_one_after_the_other_or_a_conflict(first):
    after_first = copy(BASE)
    with after_first.transaction() as t:
        STATEMENTS[first](t)
    for second in STATEMENTS:
        catalog, serial = copy(BASE), copy(after_first)
        one, two = catalog.begin(), catalog.begin()
        STATEMENTS[first](one)
        STATEMENTS[second](two)
        catalog.commit(one)
        try:
            catalog.commit(two)
        except CommitConflict:
            assert content(catalog, IDS) == content(serial, IDS), f"the loser of {first} / {second} left something"
            continue
        try:
            with serial.transaction() as t:
                STATEMENTS[second](t)
        except (NamespaceNotFound, TableNotFound, ViewNotFound):
            # only an equal drop may succeed where nothing is left to do
            assert {"drop", "cascade"} & set(second.split()), f"{second} succeeded after {first}"
        assert content(catalog, IDS) == content(serial, IDS), f"{first} and then {second}"
        assert sound(catalog)


def test_unrelated_statements_do_not_conflict():
    """The rules are not merely strict: what has nothing to do with each other goes together."""
    quiet = [
        "create ns d",
        "set a.p",
        "create a.new",
        "set a.t.p",
        "replace a.v",
        "set catalog.p",
        "rename b.u empty.u",
    ]
    for first, second in product(quiet, quiet):
        if first == second:
            continue
        catalog = copy(BASE)
        one, two = catalog.begin(), catalog.begin()
        STATEMENTS[first](one)
        STATEMENTS[second](two)
        catalog.commit(one)
        catalog.commit(two)


@pytest.mark.parametrize(
    ("read", "write", "conflicts"),
    [
        (lambda t: t.table(table("a.t")), "set a.t.p", True),
        (lambda t: t.table(table("a.t")), "drop a.t", True),
        (lambda t: t.table(table("a.t")), "rename ns a d", True),
        (lambda t: t.table(table("a.t")), "cascade a", True),
        (lambda t: t.table(table("a.t")), "create a.new", False),
        (lambda t: t.exists(table("a.new")), "create a.new", True),
        (lambda t: t.exists(table("a.new")), "rename b.u a.new", True),
        (lambda t: t.exists(view("a.v")), "drop a.v", True),
        (lambda t: t.namespace(ns("a")), "set a.p", True),
        (lambda t: t.namespace(ns("a")), "create a.new", False),
        (lambda t: list(t.tables("a")), "create a.new", True),
        (lambda t: list(t.tables("a")), "rename b.u a.new", True),
        (lambda t: list(t.tables("a")), "rename a.t b.t", True),
        (lambda t: list(t.tables("a")), "set a.t.p", False),
        (lambda t: list(t.tables("a")), "drop a.v", False),
        (lambda t: list(t.views("a")), "drop a.v", True),
        (lambda t: list(t.namespaces()), "create ns d", True),
        (lambda t: list(t.namespaces()), "rename ns a d", True),
        (lambda t: list(t.namespaces()), "set a.p", False),
        (lambda t: t.table(table("a.t")), "roll back", True),
    ],
)
def test_serializable_reads_conflict_with_writes_that_would_change_them(read, write, conflicts):
    for level, expected in ((IsolationLevel.SNAPSHOT, False), (IsolationLevel.SERIALIZABLE, conflicts)):
        if write == "roll back" and level == IsolationLevel.SNAPSHOT:
            continue  # a rollback conflicts with the write below at either level
        catalog = copy(BASE)
        reader, writer = catalog.begin(level), catalog.begin()
        read(reader)
        reader.create_table(table("b.result"), "s3://result")
        STATEMENTS[write](writer)
        catalog.commit(writer)
        outcome = pytest.raises(CommitConflict) if expected else nullcontext()
        with outcome:
            catalog.commit(reader)


FAILING = {
    "rename a.t b.u": lambda t: t.rename_table(table("a.t"), table("b.u")),
    "rename a.t d.t": lambda t: t.rename_table(table("a.t"), table("d.t")),
    "rename a.v b.w": lambda t: t.rename_view(view("a.v"), view("b.w")),
    "rename a.v d.v": lambda t: t.rename_view(view("a.v"), view("d.v")),
    "rename ns a b": lambda t: t.rename_namespace(ns("a"), ns("b")),
    "create d.t": lambda t: t.create_table(table("d.t"), "s3://new"),
    "create view d.v": lambda t: t.create_view(view("d.v"), ViewDef(substrait_read_rel=b"new")),
    "create b.u": lambda t: t.create_table(table("b.u"), "s3://new"),
    "expect elsewhere": lambda t: t.alter_table(table("a.t"), {"p": "x"}, expected_metadata_location="s3://moved-on"),
    "restore b.u": lambda t: t.restore(BASE.snapshot().get(table("b.u")), 2),
}


@pytest.mark.parametrize(
    ("failing", "cause"),
    [
        ("rename a.t b.u", lambda t: t.drop_table(table("b.u"))),
        ("rename a.t b.u", lambda t: t.rename_table(table("b.u"), table("b.z"))),
        ("rename a.t b.u", lambda t: t.drop_namespace(ns("b"), cascade=True)),
        ("rename a.t d.t", lambda t: t.create_namespace(ns("d"))),
        ("rename a.v b.w", lambda t: t.drop_view(view("b.w"))),
        ("rename a.v d.v", lambda t: t.create_namespace(ns("d"))),
        ("rename ns a b", lambda t: t.rename_namespace(ns("b"), ns("z"))),
        ("rename ns a b", lambda t: t.drop_namespace(ns("b"), cascade=True)),
        ("create d.t", lambda t: t.create_namespace(ns("d"))),
        ("create d.t", lambda t: t.rename_namespace(ns("empty"), ns("d"))),
        ("create view d.v", lambda t: t.create_namespace(ns("d"))),
        ("create b.u", lambda t: t.drop_namespace(ns("b"), cascade=True)),
        ("expect elsewhere", lambda t: t.alter_table(table("a.t"), metadata_location="s3://moved-on")),
        ("expect elsewhere", lambda t: t.drop_table(table("a.t"))),
        ("restore b.u", lambda t: t.drop_table(table("a.other"))),
    ],
)
def test_objects_that_a_failed_operation_looked_up_are_reads(failing, cause):
    """The statement fails, and the transaction continues; a writer that removes the cause comes before it."""
    for level in (IsolationLevel.SNAPSHOT, IsolationLevel.SERIALIZABLE):
        catalog = copy(BASE)
        with catalog.transaction() as t:
            t.create_view(view("b.w"), ViewDef())
            if failing == "restore b.u":
                t.rename_table(table("b.u"), table("a.other"))
        one, two = catalog.begin(level), catalog.begin()
        with pytest.raises(OlympiaError):
            FAILING[failing](one)
        one.create_namespace(ns("own"))
        cause(two)
        catalog.commit(two)
        with pytest.raises(CommitConflict) if level == IsolationLevel.SERIALIZABLE else nullcontext():
            catalog.commit(one)


def test_objects_that_a_failed_operation_ignored_are_no_reads():
    catalog = copy(BASE)
    one, two = catalog.begin(IsolationLevel.SERIALIZABLE), catalog.begin()
    with pytest.raises(OlympiaError):
        FAILING["rename a.t b.u"](one)
    one.create_namespace(ns("own"))
    two.alter_namespace(ns("b"), {"p": "new"})
    two.alter_table(table("b.u"), {"p": "new"})
    two.create_table(table("b.other"), "s3://other")
    catalog.commit(two)
    catalog.commit(one)


@pytest.mark.parametrize("read", [lambda t: t.exists(table("d.u")), lambda t: list(t.tables("d"))])
def test_reads_in_a_renamed_namespace_cover_its_former_name(read):
    catalog = copy(BASE)
    one, two = catalog.begin(IsolationLevel.SERIALIZABLE), catalog.begin()
    one.rename_namespace(ns("b"), ns("d"))
    read(one)
    two.drop_table(table("b.u"))
    catalog.commit(two)
    with pytest.raises(CommitConflict):
        catalog.commit(one)


LEVELS = (IsolationLevel.SNAPSHOT, IsolationLevel.SERIALIZABLE)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("saved", [False, True])
def test_an_expected_metadata_location_is_expected_of_each_version(level, saved):
    catalog = copy(BASE)
    one = distributed.begin(catalog, level)
    one.transaction.alter_table(table("a.t"), {"p": "new"}, expected_metadata_location="s3://old")
    if saved:
        one.save()
        one = distributed.load(catalog, one.id)
    with catalog.transaction() as two:
        two.alter_namespace(ns("b"), {"q": "new"})
    STATEMENTS["set a.t.q"](two := catalog.begin())
    catalog.commit(two)
    STATEMENTS["move a.t on"](two := catalog.begin())
    catalog.commit(two)
    with pytest.raises(CommitConflict, match=r"version 5.*s3://moved-on, not at s3://old"):
        one.commit()
    assert catalog.snapshot().table(table("a.t")).properties["p"] == "old"


@pytest.mark.parametrize("level", LEVELS)
def test_a_still_correct_expected_metadata_location_causes_no_conflict(level):
    catalog = copy(BASE)
    one = catalog.begin(level)
    one.alter_table(table("a.t"), metadata_location="s3://mine", expected_metadata_location="s3://old")
    one.alter_table(table("a.t"), {"p": "new"}, expected_metadata_location="s3://mine")
    STATEMENTS["set a.t.q"](two := catalog.begin())
    catalog.commit(two)
    catalog.commit(one)
    found = catalog.snapshot().table(table("a.t"))
    assert found.definition.iceberg_metadata_location == "s3://mine"
    assert found.properties == {"p": "new", "q": "new"}


def test_reapply_does_not_override_an_expected_metadata_location():
    catalog = copy(BASE)
    one = catalog.begin()
    one.alter_table(
        table("a.t"), None, (), "s3://mine", expected_metadata_location="s3://old", reapply=lambda newer: "s3://again"
    )
    STATEMENTS["move a.t on"](two := catalog.begin())
    catalog.commit(two)
    with pytest.raises(CommitConflict):
        catalog.commit(one)


class _Pausing(WrappedStore):
    """Before each root one of the others commits."""

    def __init__(self, store, others) -> None:
        super().__init__(store)
        self._others = list(others)

    def create(self, path, data):
        if path.startswith("vn/") and self._others:
            with Catalog(self.inner).transaction() as transaction:
                self._others.pop(0)(transaction)
        super().create(path, data)


DROPPED = {
    "table": (STATEMENTS["drop a.t"], lambda t: t.create_table(table("a.t"), "s3://another")),
    "renamed onto": (STATEMENTS["drop a.t"], lambda t: t.rename_table(table("b.u"), table("a.t"))),
    "view": (STATEMENTS["drop a.v"], lambda t: t.create_view(view("a.v"), ViewDef())),
    "namespace": (STATEMENTS["cascade a"], lambda t: t.create_namespace(ns("a"))),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("what", DROPPED)
def test_a_recreated_object_conflicts_with_an_already_merged_drop(level, what):
    drop, create = DROPPED[what]
    catalog = copy(BASE)
    one = Catalog(_Pausing(catalog.store, [drop, create])).begin(level)
    drop(one)
    one.create_namespace(ns("own"))
    with pytest.raises(CommitConflict):
        catalog.commit(one)
    assert catalog.snapshot().version == 4


def test_a_save_remembers_that_a_drop_was_merged():
    """A process dies between the save that claims the transaction and its root; another one goes on."""
    catalog = copy(BASE)
    one = distributed.begin(catalog)
    STATEMENTS["drop a.t"](one.transaction)
    one.transaction.create_namespace(ns("own"))
    one.save()
    STATEMENTS["drop a.t"](two := catalog.begin())
    catalog.commit(two)

    def die(transaction):
        raise PowerCut

    dying = distributed.load(Catalog(_Pausing(catalog.store, [die])), one.id)
    with pytest.raises(PowerCut):
        dying.commit()
    with catalog.transaction() as two:
        two.create_table(table("a.t"), "s3://another")
    with pytest.raises(CommitConflict):
        distributed.load(catalog, one.id).commit()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("what", DROPPED)
def test_a_commit_with_all_writes_merged_makes_no_version(level, what):
    drop, _ = DROPPED[what]
    catalog = copy(BASE)
    one, two = catalog.begin(level), catalog.begin(level)
    for transaction in (one, two):
        drop(transaction)
    done = catalog.commit(one)
    assert catalog.commit(two) == Committed(done.version, ())
    assert catalog.snapshot().version == done.version
    assert not two.open
    # as when nothing was written in the first place
    assert not everything(catalog.store).damaged


def test_a_merged_action_is_not_in_the_log():
    catalog = copy(BASE)
    one, two = catalog.begin(), catalog.begin()
    for transaction in (one, two):
        STATEMENTS["drop a.t"](transaction)
    two.create_namespace(ns("own"))
    for transaction in (one, two):
        catalog.commit(transaction)
    assert [action.type_name for action in catalog.snapshot().actions()] == ["NAMESPACE_CREATE", "COMMIT_INFO"]


def test_a_distributed_transaction_with_all_writes_merged_is_committed():
    catalog = copy(BASE)
    running = distributed.begin(catalog)
    STATEMENTS["drop a.t"](running.transaction)
    running.save()
    STATEMENTS["drop a.t"](other := catalog.begin())
    version = catalog.commit(other).version
    assert running.commit().version == catalog.snapshot().version == version
    assert distributed.find(catalog.store, running.id).committed_version == version
