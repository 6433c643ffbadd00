"""Find the files of a folder that were ever part of its table.

Deletes, overwrites and compactions here remove files from the table, while the folder still has them. They are not new
files. The snapshots list them. The table also records their number, because snapshots expire.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

FILES = "olympia.import.parquet.files"
"""Property of a table from Parquet files: how many of its folder's files were ever part of it."""


@dataclass(slots=True)
class KnownFiles:
    """The present and the former data files of a table, with their sizes. `count` is the number of those in the folder,
    and `is_all` says whether they are all that there ever were."""

    present: dict[str, int] = field(default_factory=dict)
    past: dict[str, int] = field(default_factory=dict)
    count: int = 0
    is_all: bool = True
    _seen: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, table: Table, location: str) -> KnownFiles:
        """Return the files of a table for the folder at `location`. Former files are read only if the present ones are
        not all."""
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
                # a manifest was deleted; the other snapshots may still be complete
                is_lost = True
        for path in known.present:
            known.past.pop(path, None)
        known._count(location)
        if noted.isascii() and noted.isdigit() and len(noted) < 19 and known.count <= int(noted):
            known.is_all = known.count == int(noted)
        else:
            # another program has added files of the folder, or the number is missing: then no snapshot may be missing
            known.is_all = not is_lost and _goes_back_to_the_first(table)
        return known

    def __contains__(self, path: str) -> bool:
        return path in self.present or path in self.past

    def _count(self, location: str) -> None:
        self.count = sum(path.startswith(f"{location}/") for files in (self.present, self.past) for path in files)

    def _read(self, table: Table, snapshot: Snapshot, into: dict[str, int]) -> None:
        """Read the manifests of a snapshot that were not read yet, with their entries of deleted files."""
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in self._seen:
                continue
            self._seen.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                files = self.past if entry.status is ManifestEntryStatus.DELETED else into
                files[entry.data_file.file_path] = entry.data_file.file_size_in_bytes


def _goes_back_to_the_first(table: Table) -> bool:
    """Return True if no snapshot before the current one is missing. An expiry may remove the reference to a parent, so
    the oldest snapshot counts only with sequence number 1."""
    snapshot = table.current_snapshot()
    while snapshot is not None and snapshot.parent_snapshot_id is not None:
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id)
    return snapshot is not None and snapshot.sequence_number == 1
