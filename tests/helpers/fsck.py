"""A small catalog of three levels, and what fsck says of it."""

from __future__ import annotations

from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import AtVersion
from olympia_cli.ops.fsck import FsckRequest, Level, Report, Severity
from olympia_cli.ops.fsck import fsck as check
from tests.helpers.names import location, ns, table

READS = ("read", "read_many", "read_range")


def make(store: Any, tables: int = 60, order: int = 4, clock: Any = None) -> Catalog:
    """Three levels, four versions: a namespace, tables, one altered, one dropped."""
    catalog = Catalog.create(store, order=order, clock=clock)
    with catalog.transaction("first") as transaction:
        transaction.create_namespace(ns("a"))
        transaction.create_namespace(ns("b"))
    with catalog.transaction("load") as transaction:
        for at in range(tables):
            transaction.create_table(table(f"a.t{at:03}"), location(at))
    with catalog.transaction("alter") as transaction:
        transaction.alter_table(table("a.t007"), {"k": "v"}, (), location(99))
    with catalog.transaction("drop") as transaction:
        transaction.drop_table(table("a.t009"))
    return catalog


def fsck(store: Any, engine: Any = None, **asked: Any) -> Report:
    return check(store, FsckRequest(**asked), engine)


def everything(store: Any, **more: Any) -> Report:
    return fsck(store, level=Level.FULL, all_versions=True, **more)


def codes(report: Report) -> list[str]:
    return sorted(one.code for one in report.findings if one.severity is not Severity.INFO)


def nodes_of(store: Any, version: int) -> list[str]:
    """The nodes below the root, those on one level beside each other."""
    found: list[str] = []
    waiting = list(Catalog(store).snapshot(AtVersion(version)).root.node.children)
    reader = Catalog(store).snapshot(AtVersion(version)).reader
    while waiting:
        path = waiting.pop(0)
        assert isinstance(path, str)
        found.append(path)
        waiting += reader.node(path).children
    return found


def leaves_of(store: Any, version: int) -> list[str]:
    reader = Catalog(store).snapshot(AtVersion(version)).reader
    return [path for path in nodes_of(store, version) if reader.node(path).is_leaf]
