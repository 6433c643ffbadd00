"""Transactions, exports and quarantines that are garbled, and what is only worth telling."""

from __future__ import annotations

import json
from collections.abc import Callable

from olympia_cli.format.node import Node
from olympia_cli.format.paths import root_path, transaction_path
from olympia_cli.storage.protocol import Store
from tests.damage.case import (
    CASES,
    Case,
    Wanted,
    case,
    catalog_def,
    expired_case,
    leaf,
    many,
    wanted,
)
from tests.helpers.damage import (
    add_node,
    rewrite_definition,
    rewrite_raw,
    set_property,
    with_action,
)
from tests.helpers.damage_sample import Sample

# Transactions and exports


def transaction_that_says(field: str, value: object) -> tuple[Callable[[Sample, Store], Wanted], ...]:
    """A save that cannot be: alone, so that its copy serves, and with a copy that says the same."""

    def save(s: Sample, store: Store) -> Wanted:
        rewrite_definition(store, s.save, lambda found: setattr(found, field, value))
        return wanted("F505", s.save, damaged=False)

    def save_and_copy(s: Sample, store: Store) -> Wanted:
        for path in (s.save, transaction_path(s.open_transaction)):
            rewrite_definition(store, path, lambda found: setattr(found, field, value))
        return wanted("F501", s.save)

    return save, save_and_copy


for _name, _field, _value in (
    ("of-another-id", "id", "00000000-0000-4000-8000-000000000000"),
    ("that-began-nowhere", "beginning_root_node_file_path", "node/x"),
    ("without-a-beginning", "beginning_root_node_file_path", ""),
    ("without-an-end", "expire_at_millis", 0),
):
    _save, _both = transaction_that_says(_field, _value)
    CASES += [Case(f"transaction-{_name}", _save), Case(f"transaction-{_name}-nor-its-copy", _both)]


@case
def copy_of_a_transaction_alone_that_is_garbage(s: Sample, store: Store) -> Wanted:
    """The content of the file is unknown, so it may be a live transaction."""
    prefix, copy = f"dtxn/{s.open_transaction}.", transaction_path(s.open_transaction)
    store.delete_many([file.path for file in store.list(prefix) if file.path != copy])
    store.overwrite(copy, b"\xff")
    return wanted("F501", copy)


@case
def node_that_only_a_transaction_reaches(s: Sample, store: Store) -> Wanted:
    kept = set().union(*(tree.files for tree in s.trees().values()))
    path = min(path for path in s.tree(s.running).nodes if path not in kept)
    store.delete_many([path])
    return wanted("F502", path, s.running, s.save)


@case
def definition_that_only_a_transaction_reaches(s: Sample, store: Store) -> Wanted:
    kept = set().union(*(tree.files for tree in s.trees().values()))
    path = min(path for path in s.tree(s.running).files - kept if path.startswith("def/table/"))
    store.overwrite(path, b"")
    return wanted("F502", path, s.running, s.save)


@case
def running_root_with_actions_that_do_not_decode(s: Sample, store: Store) -> Wanted:
    rewrite_raw(store, s.running, with_action("!!"))
    return wanted("F502|F401", s.running)


@expired_case
def definition_that_only_an_export_pins(s: Sample, store: Store) -> Wanted:
    kept = set().union(*(tree.files for tree in s.trees().values()))
    path = min(path for path in s.tree(s.pin).files - kept if path != s.pin)
    store.delete_many([path])
    return wanted("F503", path, s.pin)


def export_record(record: str) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        set_property(store, catalog_def(s), "olympia.export.friday", record)
        return wanted("F504|F503|F212", versions=None)

    return do


many(
    export_record,
    ("garbage", "{"),
    ("empty", ""),
    ("list", "[]"),
    ("number", "7"),
    ("null", "null"),
    ("deep", "[" * 100_000),
    ("no-version", '{"mode": "minimal", "expires_at": null, "pin": "node/x.arrow"}'),
    ("odd-version", '{"version": {"a": 1}, "mode": "minimal", "expires_at": null, "pin": 7}'),
    ("odd-pin", '{"version": 4, "mode": "minimal", "expires_at": null, "pin": ["x"]}'),
    ("missing-pin", '{"version": 4, "mode": "minimal", "expires_at": null, "pin": "node/x.arrow"}'),
    ("odd-end", '{"version": 4, "mode": "minimal", "expires_at": "soon", "pin": "node/x.arrow"}'),
    ("endless-end", '{"version": 4, "mode": "minimal", "expires_at": 1e999, "pin": "node/x.arrow"}'),
    ("not-a-number", '{"version": NaN, "mode": "minimal", "expires_at": NaN, "pin": "node/x.arrow"}'),
    ("empty-pin", '{"version": 4, "mode": "minimal", "expires_at": null, "pin": ""}'),
    ("missing-pin-of-a-full-one", '{"version": 4, "mode": "full", "expires_at": null, "pin": "node/x.arrow"}'),
    ("odd-mode", '{"version": 4, "mode": "weird", "expires_at": null}'),
    ("no-mode", '{"version": 4, "expires_at": null}'),
)


@case
def export_record_without_a_location(s: Sample, store: Store) -> Wanted:
    rewrite_definition(store, catalog_def(s), lambda found: found.exported_snapshots.pop("friday"))
    return wanted("F504")


@case
def full_export_with_a_pin(s: Sample, store: Store) -> Wanted:
    """Pinned files are kept, whatever the mode of the record."""
    record = {"version": 4, "mode": "full", "expires_at": None, "pin": s.pin}
    set_property(store, catalog_def(s), "olympia.export.friday", json.dumps(record))
    return Wanted(frozenset(), damaged=False)


def expire_settings(given: tuple[str, str]) -> Callable[[Sample, Store], Wanted]:
    """Garbled settings of expire in the catalog definition never cause an exception."""

    def do(s: Sample, store: Store) -> Wanted:
        set_property(store, catalog_def(s), f"olympia.expire.{given[0]}", given[1])
        return Wanted(frozenset(), damaged=None)

    return do


for _name, _text in (
    ("garbage", "{"),
    ("empty", ""),
    ("object", "{}"),
    ("null", "null"),
    ("deep", "[" * 100_000),
    ("numbers", "[1, 2, null]"),
    ("odd-manifest", '[{"version": 13, "oldest": 6, "former_oldest": 0, "manifest": 7}]'),
    ("outside", '[{"version": 13, "oldest": 6, "former_oldest": 0, "manifest": "../../etc/passwd"}]'),
    ("missing-manifest", '[{"version": 13, "oldest": 6, "former_oldest": 0, "manifest": "ops/expire/x.json"}]'),
    ("a-root", '[{"version": 13, "oldest": 6, "former_oldest": 0, "manifest": "' + root_path(3) + '"}]'),
):
    CASES.append(Case(f"quarantine-{_name}", expire_settings(("quarantine", _text)), expired=True, local=True))
for _name, _text in (
    ("garbage", "six"),
    ("empty", ""),
    ("negative", "-6"),
    ("large", "9" * 5000),
    ("superscript", "²"),
    ("other-digits", "٦"),
):
    CASES.append(Case(f"oldest-property-{_name}", expire_settings(("oldest", _text)), local=True))


def manifest_text(content: bytes) -> Callable[[Sample, Store], Wanted]:
    """The manifest says what an expire would take: nothing that is kept is lost with it."""

    def do(s: Sample, store: Store) -> Wanted:
        store.overwrite(s.manifest, content)
        return Wanted(frozenset(), damaged=False)

    return do


for _name, _data in (
    ("garbage", b"\xff\xfe"),
    ("deep", b"[" * 100_000),
    ("list", b"[]"),
    ("no-files", b"{}"),
    ("odd-files", b'{"files": [1, null, {"path": 7}, {"path": "../x", "bytes": -1}, {"path": "", "bytes": "x"}]}'),
    ("files-object", b'{"files": {"a": 1}}'),
    ("endless-bytes", b'{"files": [{"path": "node/x.arrow", "bytes": 1e999, "kind": "node"}]}'),
):
    CASES.append(Case(f"manifest-{_name}", manifest_text(_data), expired=True, local=True))


@expired_case
def manifest_that_names_what_is_kept(s: Sample, store: Store) -> Wanted:
    """A file that a manifest names and a kept version reaches counts as kept."""
    document = json.loads(store.read(s.manifest))
    path = leaf(s)
    document["files"].append({"path": path, "bytes": 1, "kind": "node"})
    store.overwrite(s.manifest, json.dumps(document).encode())
    store.delete_many([path])
    return wanted("F201", path, versions=s.hit(path))


# Information


@case
def sound(s: Sample, store: Store) -> Wanted:
    return Wanted(frozenset(), damaged=False)


@expired_case
def sound_with_a_quarantine(s: Sample, store: Store) -> Wanted:
    return wanted("F906", damaged=False)


@case
def orphaned_node(s: Sample, store: Store) -> Wanted:
    path = add_node(store, Node((), ()), "node/00000000-0000-4000-8000-000000000000.arrow")
    return wanted("F901", path, damaged=False)


@case
def orphan_that_is_garbage(s: Sample, store: Store) -> Wanted:
    """Orphans do no harm, whatever they contain."""
    paths = ["node/00000000-0000-4000-8000-000000000000.arrow", "def/ns/00000000-0000-4000-8000-000000000000-x.binpb"]
    for path in paths:
        store.create(path, b"\xff")
    return wanted("F901", *paths, damaged=False)


@case
def unknown_files(s: Sample, store: Store) -> Wanted:
    paths = [
        "README.md",
        "node/notes.txt",
        "vn/0101",
        "data/part-0.parquet",
        "def/\U0001f600",
        "vn/[red]x[/red]\x1b[31m",
    ]
    for path in paths:
        store.create(path, b"x")
    return wanted("F903", *paths, damaged=False)


@expired_case
def leftover_root(s: Sample, store: Store) -> Wanted:
    """Written at a name that an expire had freed; no manifest names it."""
    document = json.loads(store.read(s.manifest))
    document["files"] = [one for one in document["files"] if one["path"] != root_path(3)]
    store.overwrite(s.manifest, json.dumps(document).encode())
    return wanted("F902", root_path(3), damaged=False)


@expired_case
def leftover_root_that_is_garbage(s: Sample, store: Store) -> Wanted:
    document = json.loads(store.read(s.manifest))
    document["files"] = [one for one in document["files"] if one["path"] != root_path(3)]
    store.overwrite(s.manifest, json.dumps(document).encode())
    store.overwrite(root_path(3), b"\x00" * 100)
    return wanted("F902", root_path(3), damaged=False)


@expired_case
def file_in_quarantine_is_gone(s: Sample, store: Store) -> Wanted:
    document = json.loads(store.read(s.manifest))
    store.delete_many([document["files"][0]["path"], root_path(2)])
    return Wanted(frozenset(), damaged=False)


@case
def write_left_behind(s: Sample, store: Store) -> Wanted:
    path = "node/.tmp-00000000-0000-4000-8000-000000000000"
    store.create(path, b"half of a node")
    return wanted("F905", path, damaged=False)


@case
def stale_transaction(s: Sample, store: Store) -> Wanted:
    rewrite_definition(store, s.save, lambda found: setattr(found, "expire_at_millis", 5))
    return wanted("F907", damaged=False)


@case
def stale_transaction_that_is_broken(s: Sample, store: Store) -> Wanted:
    """The transaction can no longer be committed, so its missing files are no damage."""
    rewrite_definition(store, s.save, lambda found: setattr(found, "expire_at_millis", 5))
    store.delete_many([s.running])
    return wanted("F907", damaged=False)


@case
def last_fsck_that_is_garbage(s: Sample, store: Store) -> Wanted:
    store.overwrite("ops/last-fsck.json", b"\xff[[[[")
    return Wanted(frozenset(), damaged=False)


@case
def transaction_hint_that_is_garbage(s: Sample, store: Store) -> Wanted:
    store.overwrite(f"dtxn/{s.open_transaction}.binpb", b"\xff")
    return Wanted(frozenset(), damaged=False)
