"""Definitions and actions that are whole, and wrong."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.storage.protocol import Store
from tests.damage.case import (
    Wanted,
    case,
    catalog_def,
    definition,
    leaf_of_tables,
    many,
    names,
    wanted,
)
from tests.helpers.damage import (
    Raw,
    cut_behind_id,
    reversed_keys,
    rewrite_definition,
    rewrite_node,
    rewrite_raw,
    with_action,
    with_key,
    with_value,
    without_key,
)
from tests.helpers.damage_sample import Sample

# Definitions


@case
def definition_without_id(s: Sample, store: Store) -> Wanted:
    path = definition(s, "table")
    rewrite_definition(store, path, lambda found: found.ClearField("id"))
    return wanted("F302", path, versions=s.hit(path), objects=s.defined_by(path))


@case
def definition_that_does_not_parse(s: Sample, store: Store) -> Wanted:
    path = definition(s, "view")
    store.overwrite(path, b"\x0a\xff\xff\xff\xff\x0f" + store.read(path))
    return wanted("F303", path, versions=s.hit(path), objects=s.defined_by(path))


@case
def definition_that_its_digest_denies(s: Sample, store: Store) -> Wanted:
    path = definition(s, "table")
    store.overwrite(path, store.read(path).replace(b"metadata.json", b"metadata.jsoN"))
    return wanted("F304", path, versions=s.hit(path), objects=s.defined_by(path))


@case
def definition_copied(s: Sample, store: Store) -> Wanted:
    """The file is a whole definition, and its first field names another file."""
    one, other = [value for value, _ in s.tree().entries.values() if value.startswith("def/table/")][:2]
    store.overwrite(one, store.read(other))
    return wanted("F304", one, versions=s.hit(one), objects=s.defined_by(one))


@case
def definition_whose_digest_is_not_its_first_field(s: Sample, store: Store) -> Wanted:
    """Another program wrote it: the log still says that another location was written."""
    path = definition(s, "table")
    rewrite_definition(store, path, lambda found: setattr(found, "iceberg_metadata_location", "s3://b/x.json"))
    data = store.read(path)
    head = len(data) - TableDef.FromString(data).integrity.size
    store.overwrite(path, data[head:] + data[:head])
    return wanted("F304", path, versions=s.hit(path), objects=s.defined_by(path))


@case
def two_objects_with_one_id(s: Sample, store: Store) -> Wanted:
    tree = s.tree()
    one, other = [key for key, (value, _) in tree.entries.items() if value.startswith("def/table/")][:2]
    taken = _id(store, tree.entries[one][0])
    path = tree.entries[other][0]
    rewrite_definition(store, path, lambda found: setattr(found, "id", taken))
    both = {version for version in s.hit(path) if version in s.hit(tree.entries[one][0])}
    return wanted("F305", path, tree.entries[one][0], versions=both, objects=names(s, [one, other]))


@case
def one_id_in_versions_before_other_damage(s: Sample, store: Store) -> Wanted:
    """The newest versions are damaged otherwise; in those before, two objects still have one id."""
    tree = s.tree()
    one, newer = next((value, holder) for value, holder in tree.entries.values() if holder in tree.inner)
    other, _ = tree.entries[s.keys.encode(ViewName("a", "v0"))]
    rewrite_definition(store, one, lambda found: setattr(found, "id", _id(store, other)))
    rewrite_node(store, newer, reversed_keys)
    both = s.hit(one) & s.hit(other)
    assert both - s.hit(newer)
    return wanted("F305", versions=both - s.hit(newer))


@case
def object_with_the_id_of_the_catalog(s: Sample, store: Store) -> Wanted:
    path = definition(s, "ns")
    taken = _id(store, catalog_def(s))
    rewrite_definition(store, path, lambda found: setattr(found, "id", taken))
    return wanted("F305", path, catalog_def(s), versions=s.hit(path))


def _id(store: Store, path: str) -> str:
    found: list[str] = []
    data = store.read(path)
    rewrite_definition(store, path, lambda definition: found.append(definition.id))
    store.overwrite(path, data)
    return found[0]


@case
def two_objects_with_one_definition(s: Sample, store: Store) -> Wanted:
    path = leaf_of_tables(s)
    node = s.tree().nodes[path]
    assert node.values[1] is not None
    rewrite_node(store, path, with_value(0, node.values[1]))
    return wanted("F305", node.values[1], path, versions=s.hit(path), objects=names(s, node.keys[:2]))


@case
def definition_of_a_table_under_the_key_of_a_view(s: Sample, store: Store) -> Wanted:
    """Only version 7 misuses it; all others rightly take it for a table's."""
    tree = s.tree(7)
    path, at = next(
        (path, at)
        for path, node in tree.nodes.items()
        if s.hit(path) == {7}
        for at, key in enumerate(node.keys)
        if key.startswith("D===")
    )
    table = tree.entries[s.keys.encode(TableName("b", "t05"))][0]
    rewrite_node(store, path, with_value(at, table))
    return wanted("F303|F305", table, versions={7})


@case
def definitions_swapped(s: Sample, store: Store) -> Wanted:
    """Each is whole, and neither is the one that the log says was written."""
    one, other = [value for value, _ in s.tree().entries.values() if value.startswith("def/table/")][:2]
    data = store.read(one)
    store.overwrite(one, store.read(other))
    store.overwrite(other, data)
    return wanted("F304", one, other, versions=s.hit(one) | s.hit(other))


@case
def definition_cut_behind_its_id(s: Sample, store: Store) -> Wanted:
    """The rest can be parsed, and is a definition with less in it."""
    path = definition(s, "table")
    store.overwrite(path, cut_behind_id(store.read(path)))
    return wanted("F304", path, versions=s.hit(path), objects=s.defined_by(path))


@case
def table_without_its_namespace(s: Sample, store: Store) -> Wanted:
    """The key of the namespace b is gone; its eight tables are there."""
    tree = s.tree()
    key = s.keys.encode(NamespaceName("b"))
    holder = tree.entries[key][1]
    if tree.nodes[holder].is_leaf:
        rewrite_node(store, holder, without_key(key))
    else:
        # an inner node keeps its shape: the key becomes another namespace's
        at = tree.nodes[holder].keys.index(key)
        rewrite_node(store, holder, with_key(at, s.keys.encode(NamespaceName("b0"))))
    inside = {s.name(key) for key in tree.entries if s.name(key).namespace == "b"} - {NamespaceName("b")}
    return wanted("F306", versions=s.hit(holder), objects=inside)


@case
def missing_definition_of_a_dropped_table(s: Sample, store: Store) -> Wanted:
    """Only versions before the change reach it."""
    old = {value for value, _ in s.tree(3).entries.values()} - {value for value, _ in s.tree().entries.values()}
    path = min(old)
    store.delete_many([path])
    return wanted("F301", path, versions=s.hit(path), objects=s.defined_by(path))


def catalog_settings(change: Callable[[Any], None]) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = catalog_def(s)
        rewrite_definition(store, path, change)
        return wanted("F105|F307", path, *(root_path(version) for version in s.hit(path)), versions=s.hit(path))

    return do


def catalog_id(id: str) -> Callable[[Sample, Store], Wanted]:
    """The other checker takes each version for itself, and no version alone shows this."""

    def do(s: Sample, store: Store) -> Wanted:
        path = catalog_def(s)
        rewrite_definition(store, path, lambda found: setattr(found, "id", id))
        return wanted("F105|F307", sound=False)

    return do


many(catalog_id, ("none", ""), ("other", "00000000-0000-4000-8000-000000000000"))
many(
    catalog_settings,
    ("order-0", lambda found: setattr(found, "order", 0)),
    ("other-order", lambda found: setattr(found, "order", 5)),
    ("other-sizes", lambda found: setattr(found, "table_name_max_size_bytes", 17)),
    ("no-sizes", lambda found: found.ClearField("namespace_name_max_size_bytes")),
)


# Actions


def action_rows(change: Callable[[Raw], None]) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = root_path(8)
        rewrite_raw(store, path, change)
        return wanted("F401|F207", path, versions={8})

    return do


def _pointer_in_an_action(raw: Raw) -> None:
    raw.actions[0] = (raw.actions[0][0], raw.actions[0][1], "node/x.arrow")


def _nameless(raw: Raw) -> None:
    # a table without a name, in a namespace without a name
    raw.actions[0] = (raw.actions[0][0], base64.b64encode(b"\x0a\x02\x08\x02").decode(), None)


many(
    action_rows,
    ("no-base64", with_action("!!not base64!!")),
    ("no-message", with_action(base64.b64encode(b"\xff" * 20).decode())),
    ("null", with_action(None)),
    ("no-ascii", with_action("Ä")),
    ("pointer", _pointer_in_an_action),
    ("nameless", _nameless),
)
