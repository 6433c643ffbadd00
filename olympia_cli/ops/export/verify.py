"""Verify an export: read every copied file at its destination, and every shared file in the catalog."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from olympia_cli.catalog.retained import ExportRecord
from olympia_cli.errors import Damaged, ExportNotFound, InvalidLocation, PathMissing
from olympia_cli.format.paths import WIDTH, root_path
from olympia_cli.ops.export.files import ExportFiles, FileCount, Mode, Note, Scope, read_note
from olympia_cli.ops.fsck import (
    Chain,
    ChainReader,
    Engine,
    Finding,
    LocalEngine,
    Severity,
    Trees,
    examine_version,
    inside,
    look_at_versions,
)
from olympia_cli.ops.progress import SILENT, Progress, Within
from olympia_cli.ops.walk import Files, Place, failures_pass
from olympia_cli.storage.protocol import Store

MAX_FINDINGS = 1000
"""A limit, so that an export without files does not fill the memory with findings."""

ExportEngine = Callable[[Files], Engine]
"""Creates the engine that reads the files of an export, and copies them if they are to be copied."""


def local_engine(files: Files) -> Engine:
    return LocalEngine()


@dataclass(frozen=True, slots=True)
class VerifiedExport:
    """The result of a verification. `shared` counts the files in the catalog."""

    copied: FileCount
    shared: FileCount
    findings: tuple[Finding, ...]
    findings_total: int

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]

    @property
    def damaged(self) -> bool:
        return bool(self.errors)


def note_of(dest: Store, record: ExportRecord | None) -> Note:
    """Return the note of an export.

    If the note of a full export is lost, the record is enough, as everything else is known.
    """
    try:
        note = read_note(dest)
    except Damaged:
        if record is None or record.mode != Mode.FULL:
            raise
        note = None
    if note is None and record is not None and record.mode == Mode.FULL:
        scope = Scope(Mode.FULL, None, True)
        note = Note("", "", record.name, record.version, scope, record.expires_at_millis, None)
    if note is None:
        raise ExportNotFound(f"there is no export at {dest.uri}", hint="check the location")
    if record is not None and (note.version, note.scope.mode) != (record.version, record.mode):
        raise ExportNotFound(
            f"{dest.uri} holds a {note.scope.mode} export of version {note.version}, "
            f"and {record.name} is a {record.mode} export of version {record.version}",
            hint="pass its location with --dest",
        )
    return note


def verify_export(
    dest: Store, note: Note, source: Store | None, progress: Progress = SILENT, engine: ExportEngine = local_engine
) -> VerifiedExport:
    """Verify an export: its version and its hints are checked as fsck checks a catalog.

    `source` is the catalog, which an export with shared files needs.
    """
    if note.scope.shares and source is None:
        raise InvalidLocation(
            f"the export {note.name} shares files with its catalog, and no catalog is given",
            hint=f"add -c {shlex.quote(note.source)}",
        )
    progress.phase("checking the export")
    files = ExportFiles(note.scope, dest, source, Within(progress))
    with failures_pass():
        chain, of_versions = _look_at_versions(dest, note, source)
        _keep_own_definition(files, chain, note.version)
        trees, verdict = examine_version(files, chain, note.version, engine(files), of_versions)
        is_gap = any(gap.code == "F101" and inside(note.version, gap.versions) for gap in of_versions)
        # a missing root is reported once
        gap_root = ("F201", chain.path(note.version)) if is_gap else None
        all_findings = verdict.findings()
        findings = [
            _placed(finding, trees, files)
            for finding in verdict.with_hints(all_findings, verdict.last_sound(all_findings))
            if finding.severity is not Severity.INFO and (finding.code, finding.path) != gap_root
        ]
    with suppress(PathMissing):
        path = root_path(note.version)
        files.tally(Place(path, 1), 1, dest.stat(path).size, is_node=True)
    return VerifiedExport(files.copied, files.shared, tuple(findings[:MAX_FINDINGS]), len(findings))


def _look_at_versions(dest: Store, note: Note, source: Store | None) -> tuple[Chain, list[Finding]]:
    """Return the versions and the findings about hints.

    A full export is a catalog of its own, and may have later versions. An export with shared files has one version.
    """
    opened = None if note.scope.shares else look_at_versions(Files(dest))
    if opened is not None and not opened[0].java:
        return opened
    chain = Chain([note.version], WIDTH, oldest=note.version)
    ChainReader(ExportFiles(note.scope, dest, source), chain).find_reference()
    return chain, []


def _keep_own_definition(files: ExportFiles, chain: Chain, version: int) -> None:
    """Count the export's own catalog definition as read, and forget the other definitions."""
    root = chain.ahead[version].root if version in chain.ahead else None
    own = None if root is None else chain.catalogs.get(root.catalog_def)
    chain.catalogs = {}
    if root is not None and own is not None:
        chain.catalogs[root.catalog_def] = own
        files.tally(Place(root.catalog_def, 1), bool(own.size), own.size, is_node=False)


def _placed(error: Finding, trees: Trees, files: ExportFiles) -> Finding:
    """Return the finding. If its file is in the catalog, say so under the code F503."""
    graph, definitions = trees.graph, trees.definitions
    assert definitions is not None
    if error.path in graph:
        copied = files.scope.copies(graph.level[graph.numbers[error.path]], is_node=True)
    elif error.path in trees.chain.catalogs:
        copied = files.scope.copies(1, is_node=False)
    else:
        number = definitions.number(error.path)
        copied = number is None or files.scope.copies(definitions.level[number], is_node=False)
    if copied:
        return error
    message = f"in the catalog, with which the export shares the file: {error.message}"
    return replace(error, code="F503", message=message)
