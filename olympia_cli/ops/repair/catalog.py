"""Recover the catalog's own definition from versions and logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from olympia_cli.catalog.protection import keep_protection
from olympia_cli.catalog.replay import catalog_after
from olympia_cli.errors import OlympiaError
from olympia_cli.format.actions import Action
from olympia_cli.format.definitions import definition_id, sizes_of
from olympia_cli.format.pb.actions_pb2 import ActionType as T
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.sound import LatestVersion
from olympia_cli.ops.repair.files import RepairFiles
from olympia_cli.ops.repair.nodes import ReadRoot


@dataclass(frozen=True, slots=True)
class FormerCatalog:
    """The catalog's definition, and the version that it is from. `exact` is true if it includes all later changes."""

    definition: CatalogDef
    version: int
    exact: bool
    path: str | None
    """The path of the definition, if it is the latest version's own sound one."""


def newest_catalog(files: RepairFiles, versions: Sequence[int], latest: LatestVersion) -> FormerCatalog | None:
    """Return the newest definition with the id and the sizes that most versions share, as these never change."""
    newest = catalog = find_catalog(files, versions)
    reference = latest.chain.reference
    while catalog is not None and reference is not None and not _same_catalog(catalog.definition, reference):
        catalog = find_catalog(files, [version for version in versions if version < catalog.version])
    if newest is None or catalog is None or catalog is newest:
        return newest
    return FormerCatalog(keep_protection(catalog.definition, newest.definition), catalog.version, False, None)


def _same_catalog(definition: CatalogDef, other: CatalogDef) -> bool:
    return definition.id == other.id and sizes_of(definition) == sizes_of(other)


def find_catalog(files: RepairFiles, versions: Sequence[int]) -> FormerCatalog | None:
    """Return the newest readable definition of the catalog, with the later changes in the log."""
    since: list[tuple[int, tuple[Action, ...] | None]] = []
    exact = True
    for version in reversed(versions):
        root = files.root(version)
        definition = _definition_of(files, root)
        if definition is not None and version == max(versions):
            return FormerCatalog(definition, version, True, root.catalog_def)
        if definition is None and (logged := _logged(root.actions or ())) is not None:
            definition, rest = logged
            since.append((version, rest))
        if definition is None:
            since.append((version, root.actions or None))
            continue
        for later, actions in reversed(since):
            if actions is None:
                exact = False
                continue
            definition, whole = _catalog_after(files, definition, later, actions)
            exact = exact and whole
        return FormerCatalog(definition, version, exact, None)
    return None


def _definition_of(files: RepairFiles, root: ReadRoot) -> CatalogDef | None:
    if root.catalog_def is None:
        return None
    definition = files.definition(Kind.CATALOG, root.catalog_def)
    if not isinstance(definition, CatalogDef):
        return None
    if root.sizes is not None and root.sizes.order != definition.order:
        return None
    return definition


def _logged(actions: Sequence[Action]) -> tuple[CatalogDef, tuple[Action, ...]] | None:
    """Return the definition that a version's actions carry, and the actions after it. Creating and altering the catalog
    carry it.
    """
    for at in reversed(range(len(actions))):
        action = actions[at]
        if action.type in (T.CATALOG_ALTER, T.CATALOG_CREATE) and definition_id(Kind.CATALOG, action.definition):
            return CatalogDef.FromString(action.definition), tuple(actions[at + 1 :])
    return None


def _catalog_after(
    files: RepairFiles, definition: CatalogDef, version: int, actions: tuple[Action, ...]
) -> tuple[CatalogDef, bool]:
    """Return the definition after a version's actions, and whether all of them could be applied."""
    whole = True
    for action in actions:
        try:
            definition = catalog_after(
                definition, action, version, lambda target: _definition_of(files, files.root(target))
            )
        except OlympiaError:
            whole = False
    return definition, whole
