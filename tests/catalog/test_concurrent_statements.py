"""Two writers at once, every pair of statements: the outcome is that of one after the other, or a conflict."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import CommitConflict, NamespaceNotFound, TableNotFound, ViewNotFound
from olympia_cli.format.pb.objects_pb2 import IsolationLevel, ViewDef
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName
from olympia_cli.storage.memory import MemoryStore


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
def test_serializable_reads_conflict_with_what_would_have_changed_them(read, write, conflicts):
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
