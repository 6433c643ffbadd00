"""`tree` and `dump-node` find what fsck finds in the nodes of a version, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import OlympiaError
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.names import AtVersion
from olympia_cli.ops.fsck import Finding, Level
from olympia_cli.ops.inspect import find_root, read_target, tree_shape
from tests.agreement.catalogs import DamagedCatalog, clock, errors_of, hits, shown
from tests.agreement.disagreements import Disagreement, say_the_same
from tests.helpers.fsck import fsck

BETWEEN_NODES = {"F201", "F209", "F210", "F213", "F214"}
"""Findings that a single node does not show."""


def test_tree_reports_the_damage_that_fsck_reports(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same(damaged_catalogs, _of_trees)


def test_dump_node_reports_the_damage_that_fsck_reports(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same(damaged_catalogs, _of_files)


def _in_nodes(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.code.startswith("F2")]


def _of_trees(damaged: DamagedCatalog) -> Iterator[Disagreement]:
    store = damaged.store()
    for version in damaged.sample.versions:
        try:
            file = find_root(Catalog(store, clock=clock()), AtVersion(version))
            report = fsck(store, level=Level.STRUCTURE, at=AtVersion(version), clock=clock())
        except OlympiaError:
            continue  # there is no root to draw, or the version does not count
        shape = tree_shape(store, file, depth=None, max_children=None)
        there = [one for one in errors_of(report) if hits(one, version)]
        errors = _in_nodes(there)
        found = {node.path: node.code for node in shape.damaged}
        if found and not errors and any(one.code == "F105" for one in there):
            continue  # the root gives other sizes than the catalog, and its own tree is held to them
        if bool(found) != bool(errors):
            yield Disagreement(f"tree of v{version}", damaged.name, shown(errors), str(found or "sound"))


def _of_files(damaged: DamagedCatalog) -> Iterator[Disagreement]:
    store = damaged.store()
    catalog = Catalog(store, clock=clock())
    errors = _in_nodes(damaged.errors)
    bad = {one.path for one in errors if one.code not in BETWEEN_NODES and "stands inside a tree" not in one.message}
    elsewhere = {one.path for one in errors} - bad
    for path in sorted(set(damaged.changes()) | bad):
        is_node = file_kind(path) in (FileKind.NODE, FileKind.ROOT)
        if path in elsewhere or path not in damaged.files or not is_node:
            continue
        try:
            dump = read_target(catalog, path)
        except OlympiaError as error:
            yield Disagreement("dump-node fails", damaged.name, shown(errors), str(error))
            continue
        if path in bad and not dump.problems and not dump.unsupported:
            yield Disagreement("dump-node finds nothing", damaged.name, shown(errors), path)
