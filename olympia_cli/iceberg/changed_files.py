"""The files that a snapshot added to a table and removed from it, according to its own manifests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from olympia_cli.iceberg.avro import AvroRecords

ReadFile = Callable[[str], bytes]

# fields of a manifest list: manifest_path, partition_spec_id, added_snapshot_id
_LIST = (500, 502, 503)
# fields of a manifest: status, data_file
_ENTRY = (0, 2)
# content, file_path, file_format, record_count, file_size_in_bytes
_FILE = {134: "content", 100: "file-path", 101: "file-format", 103: "record-count", 104: "file-size-in-bytes"}
_PARTITION = 102
_CONTENTS = ("data", "position-deletes", "equality-deletes")
_ADDED, _DELETED = 1, 2


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The added and removed files as JSON objects: location, content, partition and size."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def changed_files(read: ReadFile, manifest_list: str, snapshot_id: int) -> ChangedFiles:
    """Read the manifest list and the manifests that the snapshot wrote. Manifests of its parents are skipped."""
    found = ChangedFiles()
    for manifest in AvroRecords(read(manifest_list), manifest_list, _LIST):
        path, spec_id, added_by = (manifest.get(number) for number in _LIST)
        if not isinstance(path, str) or (added_by is not None and added_by != snapshot_id):
            continue
        _look(read(path), path, spec_id or 0, found)
    return found


def _look(data: bytes, location: str, spec_id: int, found: ChangedFiles) -> None:
    """Collect the added and deleted entries of a manifest. Entries taken over from a parent have the status
    "existing".
    """
    partition = AvroRecords(data, location, ()).fields_of(_PARTITION)
    wanted = (*_ENTRY, *_FILE, _PARTITION, *(number for number, _ in partition))
    for entry in AvroRecords(data, location, wanted):
        status, file = (entry.get(number) for number in _ENTRY)
        if not isinstance(file, dict):
            continue
        if status == _ADDED:
            found.added.append(_shown(file, spec_id, partition))
        elif status == _DELETED:
            found.removed.append(_shown(file, spec_id, partition))


def _shown(file: dict[int, Any], spec_id: int, partition: list[tuple[int, str]]) -> str:
    shown: dict[str, Any] = {name: file.get(number) for number, name in _FILE.items()}
    content = shown["content"] or 0
    shown["content"] = _CONTENTS[content] if content in range(len(_CONTENTS)) else str(content)
    shown["file-format"] = str(shown["file-format"] or "").lower()
    shown["spec-id"] = spec_id
    values = file.get(_PARTITION)
    if partition and isinstance(values, dict):
        shown["partition"] = {name: values.get(number) for number, name in partition}
    return json.dumps(shown, separators=(",", ":"), default=_text)


def _text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
