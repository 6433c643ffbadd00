"""Which files of a folder were ever part of the table that is made of it.

What is deleted, overwritten or compacted here takes files out of the table, and the folder has them still: they are no
new ones. The snapshots tell of them; how many there were is noted in the table, for snapshots expire.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

FILES = "olympia.import.parquet.files"
"""Of a table that was made from Parquet files: how many of its folder's files were ever part of it."""


@dataclass(slots=True)
class KnownFiles:
    """The data files that a table has, and those that it had once, with their sizes. `count` is how many of them are of
    the folder, and `is_all` whether those are all that there ever were."""

    present: dict[str, int] = field(default_factory=dict)
    past: dict[str, int] = field(default_factory=dict)
    count: int = 0
    is_all: bool = True
    _seen: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, table: Table, location: str) -> KnownFiles:
        """Those of a table of the folder at `location`. The past is read only if the present is not all of it."""
        known, current = cls(), table.current_snapshot()
        noted = table.properties.get(FILES, "")
        if current is not None:
            known._read(table, current, known.present)
        known._count(location)
        if noted == str(known.count):
            return known
        is_lost = False
        for snapshot in table.snapshots():
            try:
                known._read(table, snapshot, known.past)
            except FileNotFoundError:
                # somebody has tidied up: what others tell may be all the same
                is_lost = True
        for path in known.present:
            known.past.pop(path, None)
        known._count(location)
        if noted.isascii() and noted.isdigit() and len(noted) < 19 and known.count <= int(noted):
            known.is_all = known.count == int(noted)
        else:
            # others have added files of the folder, or there is no note: then no snapshot may be missing
            known.is_all = not is_lost and _goes_back_to_the_first(table)
        return known

    def __contains__(self, path: str) -> bool:
        return path in self.present or path in self.past

    def _count(self, location: str) -> None:
        self.count = sum(path.startswith(f"{location}/") for files in (self.present, self.past) for path in files)

    def _read(self, table: Table, snapshot: Snapshot, into: dict[str, int]) -> None:
        """The manifests of a snapshot that were not read yet. One that takes files out tells of them too."""
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in self._seen:
                continue
            self._seen.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                files = self.past if entry.status is ManifestEntryStatus.DELETED else into
                files[entry.data_file.file_path] = entry.data_file.file_size_in_bytes


def _goes_back_to_the_first(table: Table) -> bool:
    """Whether no snapshot before the current one is missing. Who expires a parent may let its child forget it, so that
    the oldest one counts only if it has the first number."""
    snapshot = table.current_snapshot()
    while snapshot is not None and snapshot.parent_snapshot_id is not None:
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id)
    return snapshot is not None and snapshot.sequence_number == 1
