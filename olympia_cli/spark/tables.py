"""The tables of a catalog that Spark can read: their columns, how each is divided, and how a part is read.

Nothing here needs Spark: a part is a plain value, and its rows are dictionaries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from olympia_cli.errors import VersionNotFound
from olympia_cli.spark import files, nodes, objects, versions
from olympia_cli.spark.options import ReadOptions
from olympia_cli.spark.pins import Pin, open_pinned, pin
from olympia_cli.storage.protocol import Store

COLUMNS: dict[str, dict[str, str]] = {
    "objects": objects.COLUMNS,
    "versions": versions.VERSION_COLUMNS,
    "actions": versions.ACTION_COLUMNS,
    "nodes": nodes.COLUMNS,
    "files": files.COLUMNS,
}
Part = objects.ObjectPart | versions.VersionPart | nodes.NodePart | files.FilePart


def plan(store: Store, options: ReadOptions, pinned: Pin | None) -> Sequence[Part]:
    """Return the parts of the table that the options name; they cover the table and do not overlap."""
    number, conditions = options.partitions, options.conditions
    if pinned is None:
        return files.plan_files(options.catalog, conditions, number)
    if options.what == "objects":
        return objects.plan_objects(open_pinned(store, pinned), conditions, number)
    if options.what == "nodes":
        first = pinned.version if options.since is None else _since(store, options, pinned)
        return nodes.plan_nodes(open_pinned(store, pinned), pinned.root, first, number)
    if pinned.version < pinned.oldest:
        raise VersionNotFound(
            f"the versions up to {pinned.version} do not exist any more: the oldest is {pinned.oldest}", hint=""
        )
    first = pinned.oldest if options.since is None else _since(store, options, pinned)
    return versions.plan_versions(first, pinned.version, pinned.width, number)


def _since(store: Store, options: ReadOptions, pinned: Pin) -> int:
    assert options.since is not None
    return min(pin(store, options.since).version, pinned.version + 1)


def read(store: Store, options: ReadOptions, part: Part, columns: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one part."""
    if isinstance(part, objects.ObjectPart):
        return objects.read_objects(store, part, options.conditions, columns)
    if isinstance(part, nodes.NodePart):
        return nodes.read_nodes(store, part)
    if isinstance(part, files.FilePart):
        return files.read_files(store, part, options.conditions)
    if options.what == "actions":
        return versions.read_actions(store, part, options.conditions)
    return versions.read_versions(store, part)
