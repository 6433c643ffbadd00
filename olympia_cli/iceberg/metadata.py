"""The snapshots in a table's metadata file. Only the fields that lead to files are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from olympia_cli.errors import Damaged

_HINT = "look at the table's older metadata"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot: its manifest list or, in old tables without one, its manifests."""

    snapshot_id: int
    manifest_list: str
    manifests: tuple[str, ...] = ()


def current_snapshot(metadata: Mapping[str, Any], location: str) -> Snapshot | None:
    """Return the current snapshot, or None if the table has none."""
    current = _current_id(metadata, location)
    return None if current is None else _snapshots(metadata, {current}, location)[0]


def referenced_snapshots(metadata: Mapping[str, Any], location: str) -> list[Snapshot]:
    """Return the current snapshot and those of branches and tags. Iceberg may expire the others."""
    wanted = {_current_id(metadata, location)}
    refs = metadata.get("refs") or {}
    if not isinstance(refs, dict):
        raise Damaged("F602", location, "its branches and tags are not an object", hint=_HINT)
    for ref in refs.values():
        wanted.add(_id(ref.get("snapshot-id") if isinstance(ref, dict) else None, "a branch or tag", location))
    return _snapshots(metadata, {one for one in wanted if one is not None}, location)


def _current_id(metadata: Mapping[str, Any], location: str) -> int | None:
    current = metadata.get("current-snapshot-id")
    # old writers use -1 for none
    return None if current is None or current == -1 else _id(current, "the current snapshot", location)


def _id(value: object, what: str, location: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Damaged("F602", location, f"{what} has no id", hint=_HINT)
    return value


def _snapshots(metadata: Mapping[str, Any], wanted: set[int], location: str) -> list[Snapshot]:
    """Return the snapshots with these ids, in the order of the file."""
    listed = metadata.get("snapshots") or []
    if not isinstance(listed, list):
        raise Damaged("F602", location, "its snapshots are not a list", hint=_HINT)
    found = {}
    for entry in listed:
        snapshot_id = entry.get("snapshot-id") if isinstance(entry, dict) else None
        if isinstance(snapshot_id, int) and snapshot_id in wanted:
            found[snapshot_id] = _snapshot(entry, snapshot_id, location)
    missing = sorted(wanted - found.keys())
    if missing:
        raise Damaged("F602", location, f"snapshot {missing[0]} is referred to and not in it", hint=_HINT)
    return list(found.values())


def _snapshot(entry: Mapping[str, Any], snapshot_id: int, location: str) -> Snapshot:
    manifest_list = entry.get("manifest-list")
    if isinstance(manifest_list, str) and manifest_list:
        return Snapshot(snapshot_id, manifest_list)
    manifests = entry.get("manifests")
    if isinstance(manifests, list) and all(isinstance(one, str) and one for one in manifests):
        return Snapshot(snapshot_id, "", tuple(manifests))
    raise Damaged("F602", location, f"snapshot {snapshot_id} names no manifests", hint=_HINT)
