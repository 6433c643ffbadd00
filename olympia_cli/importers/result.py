"""The result of an import, the parts of the source that were left out, and the keys of the properties it writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from olympia_cli.names import TableName


@dataclass(frozen=True, slots=True)
class ImportAdvice:
    """Advice how to import a part that is left out otherwise, and the words of a command."""

    text: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Omission:
    """A part of the source that was not imported, and the reason."""

    part: str
    reason: str
    advice: ImportAdvice | None = None


@dataclass(frozen=True, slots=True)
class ImportedTable:
    """A table at the source. `past` has its former metadata files. `files` and `rows` are the counts in its current
    snapshot, if stated. `skipped` is what is left out of it. `size` is the bytes of the files, and `columns` has names
    and types, where the import knows them."""

    name: TableName
    source: str
    location: str
    past: frozenset[str] = frozenset()
    files: int | None = None
    rows: int | None = None
    skipped: tuple[Omission, ...] = ()
    size: int | None = None
    columns: tuple[tuple[str, str], ...] | None = None


@dataclass(slots=True)
class ImportResult:
    """The result of an import, or of a dry run. `renamed` has pairs of former and new names, where the format forbids
    the former."""

    namespaces: int = 0
    created: list[ImportedTable] = field(default_factory=list)
    moved_on: list[ImportedTable] = field(default_factory=list)
    unchanged: int = 0
    views: int = 0
    dropped: int = 0
    renamed: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[Omission] = field(default_factory=list)

    def add(self, step: ImportResult, is_last: bool = False) -> None:
        """Add the result of a later step. Only the last step counts what is unchanged, and reports what is left out:
        parts left out of earlier steps may have been imported since."""
        self.namespaces += step.namespaces
        self.created += step.created
        self.moved_on += step.moved_on
        self.unchanged = step.unchanged
        self.views += step.views
        self.dropped += step.dropped
        self.renamed += step.renamed
        if is_last:
            self.left_out += step.left_out


# The keys of the properties that imports write to tables, namespaces and snapshots.
#
# The catalog itself has a note per source, below `catalog.staging.IMPORTED`.

FORMER_NAME = "olympia.import.name"
"""The name at the source, of an object that is renamed because the format forbids that name."""

PARQUET_FOLDER = "olympia.import.parquet"
"""The folder of a table's Parquet files."""
PARQUET_FILES = "olympia.import.parquet.files"
"""The number of files in that folder that were ever part of the table."""

IOX_SOURCE = "olympia.import.iox"
"""The source of a table, and of the snapshots that imports made."""
IOX_STATE = "olympia.import.iox.state"
"""A checksum of the files and deletes from which a snapshot was made."""
IOX_REVISION = "iox.revision"
IOX_TRANSACTION = "iox.transaction"
IOX_TIME = "iox.time"

DELTACAT = "deltacat."
"""The prefix of the properties of objects from a DeltaCAT catalog."""
DELTACAT_CATALOG = f"{DELTACAT}catalog"
"""The id of the catalog, wherever it is copied to."""
DELTACAT_NAMESPACE = f"{DELTACAT}namespace"
DELTACAT_TABLE = f"{DELTACAT}table"
DELTACAT_TRANSACTION = f"{DELTACAT}transaction"
"""The last transaction that wrote to the object."""
DELTACAT_HISTORY = f"{DELTACAT}history"
"""The newest hundred revisions of the object: number, operation, transaction and time."""
DELTACAT_VERSION = f"{DELTACAT}table-version"
DELTACAT_DESCRIPTION = f"{DELTACAT}description"
DELTACAT_PROPERTY = f"{DELTACAT}property."
"""The prefix of properties at the source whose own names have another meaning here."""
DELTACAT_LEFT_OUT = f"{DELTACAT}left-out"
"""The number of groups of parts of a table that were left out."""
DELTACAT_REWRITTEN = f"{DELTACAT}rewritten"
"""`true` if rows of a table were merged and rewritten."""
DELTACAT_METADATA = f"{DELTACAT}metadata-location"
"""The metadata that the import wrote: a table with any other metadata was changed here."""
