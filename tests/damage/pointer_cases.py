"""Pointers that lead out of the catalog, or to files of another kind."""

from __future__ import annotations

import json
from collections.abc import Callable

from olympia_cli.format.codec import CATALOG_DEF, PREVIOUS_ROOT
from olympia_cli.format.paths import root_path
from olympia_cli.storage.protocol import Store
from tests.damage.case import (
    Wanted,
    catalog_def,
    definition,
    inner,
    leaf_of_tables,
    many,
    names,
    wanted,
)
from tests.helpers.damage import (
    OUTSIDE,
    rewrite_definition,
    rewrite_node,
    rewrite_raw,
    set_property,
    with_child,
    with_value,
)
from tests.helpers.damage_sample import FAR, Sample


def pointer_to_a_child(pointer: str) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = inner(s)
        rewrite_node(store, path, with_child(0, pointer))
        return wanted("F212", path, versions=s.hit(path))

    return do


def pointer_to_a_definition(pointer: str) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = leaf_of_tables(s)
        key = s.tree().nodes[path].keys[0]
        rewrite_node(store, path, with_value(0, pointer))
        return wanted("F212", path, versions=s.hit(path), objects=names(s, [key]))

    return do


def pointer_to_the_catalog_definition(pointer: str) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = root_path(s.latest)
        rewrite_raw(store, path, lambda raw: raw.set(CATALOG_DEF, pointer))
        return wanted("F212|F307", path, versions={s.latest})

    return do


def pointer_to_the_previous_root(pointer: str) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = root_path(7)
        rewrite_raw(store, path, lambda raw: raw.set(PREVIOUS_ROOT, pointer))
        return wanted("F104|F212", path, versions={7})

    return do


def pointer_to_a_running_root(pointer: str) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        rewrite_definition(store, s.save, lambda found: setattr(found, "running_root_node_file_path", pointer))
        return wanted("F212|F501|F502", s.save)

    return do


def pointer_to_a_pin(pointer: str) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = catalog_def(s)
        record = {"version": 4, "mode": "minimal", "expires_at": FAR, "pin": pointer}
        set_property(store, path, "olympia.export.friday", json.dumps(record))
        return wanted("F212|F503|F504")

    return do


_POINTERS = [(f"outside{at}", pointer) for at, pointer in enumerate(OUTSIDE)]
many(pointer_to_a_child, *_POINTERS)
many(pointer_to_a_definition, *_POINTERS)
many(pointer_to_the_catalog_definition, *_POINTERS[:3])
many(pointer_to_the_previous_root, *_POINTERS[:3])
many(pointer_to_a_running_root, *_POINTERS[:3])
many(pointer_to_a_pin, *_POINTERS[:3])


def child_of_another_kind(kind: str) -> Callable[[Sample, Store], Wanted]:
    """A pointer inside the catalog, to a file that is no node."""

    def do(s: Sample, store: Store) -> Wanted:
        target = {
            "definition": definition(s, "table"),
            "hint": "vn/latest",
            "save": s.save,
            "folder": "node",
            "nothing": "node/00000000-0000-4000-8000-000000000000.arrow",
            "running-root": s.running,
            "odd-name": "node/\U0001f600 \x7f.arrow",
        }[kind]
        path = inner(s)
        rewrite_node(store, path, with_child(0, target))
        return wanted("F201|F203|F205|F207|F209|F210|F212|F214", versions=s.hit(path))

    return do


many(
    child_of_another_kind,
    *[(kind, kind) for kind in ("definition", "hint", "save", "folder", "nothing", "running-root", "odd-name")],
)
