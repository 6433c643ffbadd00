"""The result of an import, and the parts of the source that were left out."""

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
