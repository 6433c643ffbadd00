"""The versions of a catalog and their actions. A partition is a range of versions; each version is one root."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from olympia_cli.catalog.replay import rollback_target
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import PathMissing
from olympia_cli.format.actions import changes, commit_info
from olympia_cli.format.paths import parse_root_path, root_path
from olympia_cli.format.pb.actions_pb2 import CommitInfoDef
from olympia_cli.ops.executor import divide
from olympia_cli.ops.inspect import describe_action
from olympia_cli.spark.options import Conditions
from olympia_cli.spark.pins import gone
from olympia_cli.storage.protocol import Store

VERSION_COLUMNS = {
    "version": "long",
    "created_at": "timestamp",
    "previous_version": "long",
    "rollback_from": "long",
    "rollback_to": "long",
    "transaction_id": "string",
    "by": "string",
    "message": "string",
    "program": "string",
    "program_version": "string",
    "actions": "int",
    "root": "string",
    "catalog_definition": "string",
    "bytes": "long",
}
ACTION_COLUMNS = {
    "version": "long",
    "created_at": "timestamp",
    "position": "int",
    "type": "string",
    "object": "string",
    "namespace": "string",
    "name": "string",
    "id": "string",
    "detail": "string",
    "transaction_id": "string",
    "by": "string",
    "message": "string",
}
PARTITIONS = 16
FEWEST = 64
"""A task gets at least this many versions, unless the caller sets the number of parts."""


@dataclass(frozen=True, slots=True)
class VersionPart:
    """Versions, oldest first."""

    width: int
    versions: Sequence[int]


def plan_versions(first: int, last: int, width: int, partitions: int | None) -> list[VersionPart]:
    """Divide the versions from `first` to `last`, both included, into parts of about equal size."""
    versions = range(first, last + 1)
    most = partitions or min(PARTITIONS, -(-len(versions) // FEWEST))
    return [VersionPart(width, part) for part in divide(versions, most)]


def read_versions(store: Store, part: VersionPart) -> Iterator[dict[str, Any]]:
    """Yield a row per version."""
    for snapshot in snapshots(store, part):
        actions, root = snapshot.actions(), snapshot.root
        info = commit_info(actions)
        yield {
            **_common(snapshot, info),
            "previous_version": root.previous_root and parse_root_path(root.previous_root),
            "rollback_from": root.rollback_from_root and parse_root_path(root.rollback_from_root),
            "rollback_to": rollback_target(actions),
            "program": info.program if info is not None else None,
            "program_version": info.program_version if info is not None else None,
            "actions": len(changes(actions)),
            "root": snapshot.file.path,
            "catalog_definition": root.catalog_def,
            "bytes": len(snapshot.file.data),
        }


def read_actions(store: Store, part: VersionPart, conditions: Conditions) -> Iterator[dict[str, Any]]:
    """Yield a row per action in log order, with the author and message of its commit."""
    for snapshot in snapshots(store, part):
        actions = snapshot.actions()
        common = _common(snapshot, commit_info(actions))
        for position, action in enumerate(changes(actions)):
            row = {**common, "position": position, **describe_action(action), "id": action.id or None}
            if all(conditions.accept(column, row[column]) for column in ("type", "object", "namespace", "name")):
                row["detail"] = json.dumps(row["detail"], ensure_ascii=False)
                yield row


def snapshots(store: Store, part: VersionPart) -> Iterator[Snapshot]:
    """Yield the versions of a part; a bounded number of roots is read ahead."""
    near: Snapshot | None = None
    paths = (root_path(version, part.width) for version in part.versions)
    for version, (path, data) in zip(part.versions, store.read_many(paths), strict=True):
        if isinstance(data, PathMissing):
            raise gone(store, version, path)
        if isinstance(data, Exception):
            raise data
        near = Snapshot(store, RootFile.of(version, part.width, data), near)
        yield near


def _common(snapshot: Snapshot, info: CommitInfoDef | None) -> dict[str, Any]:
    return {
        "version": snapshot.version,
        "created_at": snapshot.created_at_millis,
        "transaction_id": info.transaction_id if info is not None else None,
        "by": info.by if info is not None else None,
        "message": info.message if info is not None else None,
    }
