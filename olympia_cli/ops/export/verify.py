"""Is an export whole? Every file that belongs to it is read: what was copied there, what it shares in the catalog."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from olympia_cli.catalog.exports import ExportRecord
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import Damaged, ExportNotFound, InvalidLocation, PathMissing
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Root
from olympia_cli.format.node_file import decode_action_rows, decode_root
from olympia_cli.format.paths import LATEST, OLDEST, root_path
from olympia_cli.names import ObjectName
from olympia_cli.ops.export.checks import Problem
from olympia_cli.ops.export.copy import Counted
from olympia_cli.ops.export.engine import LOCAL, ExportEngine, Surveyed
from olympia_cli.ops.export.note import Mode, Note, Scope, read_note
from olympia_cli.ops.export.walk import Seen
from olympia_cli.ops.fsck.findings import Finding, Severity, finding
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.storage.protocol import Store

MAX_FINDINGS = 1000
"""An export of which nothing is left must not fill the memory with findings."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at, and what is wrong with it. `shared` are the files that lie in the catalog."""

    copied: Counted
    shared: Counted
    findings: tuple[Finding, ...]
    findings_total: int

    @property
    def damaged(self) -> bool:
        return any(one.severity is Severity.ERROR for one in self.findings)


def note_of(dest: Store, record: ExportRecord | None) -> Note:
    """What the export at a place is meant to be.

    A full export says all of that itself, so where its note is lost the record is enough.
    """
    try:
        note = read_note(dest)
    except Damaged:
        if record is None or record.mode != Mode.FULL:
            raise
        note = None
    if note is None and record is not None and record.mode == Mode.FULL:
        scope = Scope(Mode.FULL, None, True)
        note = Note("", "", "", record.name, record.version, scope, record.expires_at_millis, None)
    if note is None:
        raise ExportNotFound(f"there is no export at {dest.uri}", hint="check the location")
    if record is not None and (note.version, note.scope.mode) != (record.version, record.mode):
        raise ExportNotFound(
            f"{dest.uri} holds a {note.scope.mode} export of version {note.version}, "
            f"and {record.name} is a {record.mode} export of version {record.version}",
            hint="name the place where it is with --dest",
        )
    return note


def verify_export(
    dest: Store, note: Note, source: Store | None, progress: Progress = SILENT, engine: ExportEngine = LOCAL
) -> Verified:
    """Read all of an export. `source` is the catalog, which an export that shares files cannot do without."""
    if note.scope.shares and source is None:
        raise InvalidLocation(
            f"the export {note.name} shares files with its catalog, which is not given",
            hint=f"add -c {shlex.quote(note.source)}",
        )
    progress.phase("checking the export")
    check = _Check(note, progress)
    path = root_path(note.version)
    root = check.root(path, dest)
    if root is not None:
        check.take(engine.survey(path, root, note, dest, source, MAX_FINDINGS, progress), root)
    if note.scope.mode is Mode.FULL:
        check.hints(dest)
    return check.verdict


class _Check:
    """Counts, and collects what is wrong."""

    def __init__(self, note: Note, progress: Progress) -> None:
        self._note = note
        self._progress = progress
        self._copied = self._shared = Counted()
        self._findings: list[Finding] = []
        self._total = 0

    @property
    def verdict(self) -> Verified:
        return Verified(self._copied, self._shared, tuple(self._findings[:MAX_FINDINGS]), self._total)

    def root(self, path: str, dest: Store) -> Root | None:
        try:
            data = dest.read(path)
        except PathMissing:
            self._add(Problem("F201", "the root of the export is missing"), path)
            return None
        self._copied = self._copied.plus(len(data))
        self._progress.advance()
        try:
            root = decode_root(data, path)
        except Damaged as error:
            self._add(Problem(error.code, error.reason), path)
            return None
        try:
            decode_action_rows(data, path)
        except Damaged as error:
            self._add(Problem(error.code, error.reason), path)
        return root

    def take(self, found: Surveyed, root: Root) -> None:
        self._copied += found.copied
        self._shared += found.shared
        keys = None if root.sizes is None else KeyCodec(root.sizes.namespace, root.sizes.table, root.sizes.view)
        for seen in found.wrong:
            problem = seen.problem
            assert problem is not None
            if not seen.copied:
                problem = Problem("F503", f"in the catalog, which the export shares it with: {problem.reason}")
            self._add(problem, seen.path, _objects(seen, keys))
        self._total += found.wrong_total - len(found.wrong)

    def hints(self, dest: Store) -> None:
        """Those of a full export. Later versions may have moved the first, and an expire the second."""
        hints, version = read_hints(dest), self._note.version
        if hints.latest is None:
            self._add(Problem("F111", "the hint is missing or not a version number"), LATEST)
        elif hints.latest < version:
            self._add(Problem("F113", f"it names version {hints.latest}, and the export is of {version}"), LATEST)
        if hints.oldest is None or hints.oldest < version:
            # without it readers look for the oldest version themselves
            self._add(Problem("F115", f"it does not name version {version}, which is the oldest there"), OLDEST)

    def _add(self, problem: Problem, path: str, objects: tuple[ObjectName, ...] = ()) -> None:
        self._total += 1
        version = self._note.version
        self._findings.append(
            finding(problem.code, path, problem.reason, versions=[(version, version)], objects=objects)
        )


def _objects(seen: Seen, keys: KeyCodec | None) -> tuple[ObjectName, ...]:
    if seen.key is None or keys is None:
        return ()
    try:
        return (keys.decode(seen.key, seen.path),)
    except Damaged:
        return ()
