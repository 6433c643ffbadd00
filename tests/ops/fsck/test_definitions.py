"""The numbers of definitions that nodes name."""

from __future__ import annotations

from dataclasses import replace

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import AtVersion, Kind
from olympia_cli.ops.fsck import Definitions, Level
from olympia_cli.ops.walk import INNER_NODES, Files, NodeFacts
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.damage import rewrite_definition, rewrite_node
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, select, table, view

TABLE, OTHER, VIEW = "def/table/a", "def/table/b", "def/view/c"


def new_definitions():
    return Definitions(Files(MemoryStore()), None, None, data=False)


def node(*names, readable=True, children=()):
    return NodeFacts("node/x", readable, names=names, children=children)


def test_a_path_has_one_number_for_each_kind_that_names_it():
    definitions = new_definitions()
    # the second name of a path comes before paths that are new, too
    names = [(TABLE, Kind.TABLE, "k1"), (TABLE, Kind.VIEW, "k2"), (OTHER, Kind.TABLE, "k3"), (VIEW, Kind.VIEW, "k4")]
    numbers = list(definitions.note(node(*names), level=2))
    assert sorted(numbers) == [0, 1, 2, 3] == list(range(len(definitions)))
    assert definitions.waiting == 4
    again = node(*reversed(names), ("def/table/d", Kind.TABLE, "k5"))
    assert list(definitions.note(again, level=3)) == [*reversed(numbers), 4]
    assert definitions.waiting == 5
    assert [*definitions.level] == [2, 2, 2, 2, 3]
    assert [definitions.number(path) for path in (TABLE, OTHER, VIEW)] == [numbers[0], numbers[2], numbers[3]]


def test_definition_named_by_a_sound_node_is_not_doubtful():
    definitions = new_definitions()
    one, other = (TABLE, Kind.TABLE, "k1"), (OTHER, Kind.TABLE, "k2")
    assert list(definitions.note(node(one, other, readable=False, children=("node/a",)))) == [0, 1]
    assert definitions.doubtful == {0, 1}
    definitions.note(node(one, (VIEW, Kind.VIEW, "k3")))
    assert definitions.doubtful == {1}
    definitions.note(node(other, readable=False))
    assert definitions.doubtful == {1}
    # an inner node of another version, whose names are the damaged one's
    assert list(definitions.note(node(one, other, children=("node/b",)))) == [0, 1]
    assert definitions.doubtful == set()


def test_inner_nodes_are_remembered_while_they_are_few():
    definitions = new_definitions()
    nodes = [node((f"def/table/{at}", Kind.TABLE, "k"), children=("node/a",)) for at in range(2 * INNER_NODES + 1)]
    for _ in range(2):
        assert [list(definitions.note(one)) for one in nodes] == [[at] for at in range(len(nodes))]
    assert definitions.waiting == len(definitions) == len(nodes)


def test_duplicate_id_is_found_despite_keys_of_another_kind():
    """In version 1, which is read first, the keys of a table and of a view name each other's definitions."""
    store = MemoryStore()
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        transaction.create_table(table("a.t"), location(1))
        transaction.create_view(view("a.v"), select())
    with catalog.transaction() as transaction:
        transaction.create_table(table("a.u"), location(2))
    one, other = (str(catalog.snapshot().find(table(name))) for name in ("a.t", "a.u"))
    taken = TableDef.FromString(store.read(one)).id
    rewrite_definition(store, other, lambda found: setattr(found, "id", taken))
    rewrite_node(store, root_path(1), lambda node: replace(node, values=(node.values[0], *node.values[:0:-1])))
    findings = fsck(store, level=Level.FULL, all_versions=True).findings
    [found] = [found for found in findings if found.code == "F305"]
    assert (found.versions, [str(name) for name in found.objects]) == (((2, 2),), ["a.t", "a.u"])


def test_duplicate_id_has_the_same_path_for_any_version():
    """Both objects are altered again and again, and renamed, so that other definitions and names come first."""
    store = MemoryStore()
    catalog = Catalog.create(store, order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for name in "bcdmnuvw":
            transaction.create_table(table(f"a.{name}"), location(1))
    clashing = ["a.m", "a.n"]
    for number in range(8):
        name = clashing[number % 2]
        with catalog.transaction() as transaction:
            if number == 4:
                transaction.rename_table(table(name), table("a.zz"))
                clashing[0] = "a.zz"
            else:
                transaction.alter_table(table(name), {"number": str(number)}, (), location(number))
    latest = catalog.snapshot().version
    taken = TableDef.FromString(store.read(str(catalog.snapshot().find(table("a.zz"))))).id
    for at in range(2, latest + 1):
        path = str(catalog.snapshot(AtVersion(at)).find(table("a.n")))
        rewrite_definition(store, path, lambda found: setattr(found, "id", taken))
    found: dict[int, set[str]] = {}
    for one in fsck(store, level=Level.FULL, all_versions=True).findings:
        if one.code == "F305":
            assert [name.namespace for name in one.objects] == ["a", "a"]
            for first, last in one.versions:
                for version in range(first, last + 1):
                    found.setdefault(version, set()).add(one.path)
    assert all(len(paths) == 1 for paths in found.values())
    assert len({path for paths in found.values() for path in paths}) > 1, "the test has to have something to tell"
    for version in range(1, latest + 1):
        findings = fsck(store, level=Level.FULL, at=AtVersion(version)).findings
        same = [one for one in findings if one.code == "F305"]
        hit = {one.path for one in same if any(first <= version <= last for first, last in one.versions)}
        assert hit == found.get(version, set()), version
