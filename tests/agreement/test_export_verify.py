"""`export verify` beside fsck of the folder that the export is: the same codes at the same files, and as bad.

A full export is a catalog, hints and all. Of an export that shares files with its catalog, the folder is what was
copied and what it shares, together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import VersionNotFound
from olympia_cli.format.paths import EXPORT_NOTE, LATEST, OLDEST, root_path
from olympia_cli.names import AtVersion
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, Note, Scope, read_note, scope
from olympia_cli.ops.export.verify import verify_export
from olympia_cli.ops.fsck import Finding, Level, Report, Severity, finding
from olympia_cli.storage.memory import MemoryStore
from tests.agreement.catalogs import (
    Files,
    clock,
    errors_of,
    every_rot,
    files_of,
    hits,
    in_memory,
    lying_catalogs,
    roles,
    seeded_rot,
    shown,
    small_sample,
    spoiled_catalogs,
    suite_catalogs,
)
from tests.agreement.disagreements import Disagreement, say_the_same
from tests.helpers.damage_sample import Sample
from tests.helpers.fsck import fsck
from tests.helpers.names import ns

SCOPES = {
    "full": scope(Mode.FULL),
    "minimal": scope(Mode.MINIMAL),
    "two levels": scope(Mode.PARTIAL, 2),
    "no definitions": scope(Mode.PARTIAL, None, False),
}
MOVES_FILES = ("child", "value", "add", "drop", "twin", "whole-node", "catalog")
"""Lies by which a pointer leads to a file that belongs to another place."""


@dataclass(frozen=True)
class Export:
    """An export of a sample's latest version. `shared` is what it does not copy."""

    sample: Sample
    note: Note
    copied: Files
    shared: Files

    @property
    def as_sample(self) -> Sample:
        """All that belongs to it, as a catalog of one version."""
        version = self.note.version
        hints = {LATEST: str(version).encode(), OLDEST: str(version).encode()}
        return Sample({**self.shared, **self.copied, **hints}, "", "", oldest=version, latest=version)


@dataclass(frozen=True)
class DamagedExport:
    name: str
    export: Export
    files: Files
    """All that belongs to the export, damaged, wherever it lies."""

    @cached_property
    def report(self) -> Report:
        store, at = in_memory(self.files), AtVersion(self.export.note.version)
        try:
            return fsck(store, level=Level.FULL, at=at, clock=clock())
        except VersionNotFound:
            # a hint says that it does not count
            return fsck(store, level=Level.FULL, clock=clock())

    @property
    def errors(self) -> list[Finding]:
        return errors_of(self.report)

    def stores(self) -> tuple[MemoryStore, MemoryStore]:
        """Return the stores of the destination and of the catalog."""
        shared = {path: data for path, data in self.files.items() if path in self.export.shared}
        copied = {path: data for path, data in self.files.items() if path not in self.export.shared}
        return in_memory(copied), in_memory(shared)


@cache
def _export(sample: Sample, scope: Scope) -> Export:
    store, dest = in_memory(sample.files), MemoryStore("dest")
    create_export(Catalog(store, clock=clock()), dest, "copy", scope)
    note, copied = read_note(dest), files_of(dest)
    assert note is not None
    del copied[EXPORT_NOTE]
    tree = sample.tree(note.version).files
    return Export(sample, note, copied, {path: sample.files[path] for path in tree if path not in copied})


def _lies(export: Export, count: int) -> Iterator[DamagedExport]:
    for damaged in lying_catalogs(export.as_sample, count, most=1 if export.shared else 3):
        # how deep a file lies says where it is: one that is moved is looked for elsewhere
        if not export.shared or not any(f": {how}" in damaged.name for how in MOVES_FILES):
            yield DamagedExport(damaged.name, export, damaged.files)


def _spoiled(export: Export) -> Iterator[DamagedExport]:
    for damaged in spoiled_catalogs(export.as_sample):
        yield DamagedExport(damaged.name, export, damaged.files)


def _rotten(export: Export, count: int) -> Iterator[DamagedExport]:
    files = export.as_sample.files
    for role, path in roles(export.as_sample).items():
        for how, data in seeded_rot(files[path], count, f"export {role}"):
            yield DamagedExport(f"{role}, {how}", export, {**files, path: data})


def _rotten_throughout(export: Export) -> Iterator[DamagedExport]:
    """A leaf, the root and a definition, at one place after the other."""
    files = export.as_sample.files
    for role, flip, step in (
        ("leaf", 0x10, 1),
        ("leaf", None, 8),
        ("latest root", 0x80, 8),
        ("latest root", None, 64),
        ("table", 0x01, 1),
        ("table", None, 1),
    ):
        path = roles(export.as_sample)[role]
        for how, data in every_rot(files[path], (flip,), step):
            yield DamagedExport(f"{role}, {how}", export, {**files, path: data})


def _hints(name: str, export: Export, files: Files) -> Iterator[DamagedExport]:
    """Both hints, with all that can be in one."""
    for hint in (LATEST, OLDEST):
        for data in (None, b"", b"x4", b"-4", b"4\n", b"004", b"0", b"2", b"4", b"5", b"9", b"9" * 99):
            present = {path: content for path, content in {**files, hint: data}.items() if content is not None}
            yield DamagedExport(f"{name}, {hint} {data!r}", export, present)


def _worked_with(export: Export) -> Files:
    """Return the export after a commit to it."""
    store = in_memory(export.as_sample.files)
    for number in range(2):
        with Catalog(store, clock=clock()).transaction() as transaction:
            transaction.create_namespace(ns(f"new{number}"))
    return files_of(store)


def _cases() -> Iterator[DamagedExport]:
    """The suite's cases that damage nothing but nodes and definitions that were copied as they are."""
    for damaged in suite_catalogs():
        export, changes = _export(damaged.sample, SCOPES["full"]), damaged.changes()
        own = {path for path, data in export.copied.items() if data == damaged.sample.files.get(path)}
        if own & changes.keys() and all(path in own or path not in damaged.sample.files for path in changes):
            files = {**export.as_sample.files, **changes}
            present = {path: data for path, data in files.items() if data is not None}
            yield DamagedExport(damaged.name, export, present)


def test_export_verify_and_fsck_agree_on_a_full_export() -> None:
    export = _export(small_sample(), SCOPES["full"])
    damages = [*_spoiled(export), *_rotten(export, 25), *_rotten_throughout(export), *_lies(export, 200), *_cases()]
    assert len(damages) > 2500
    say_the_same(damages, _differences)


def test_export_verify_and_fsck_agree_on_hints() -> None:
    export = _export(small_sample(), SCOPES["full"])
    later = _worked_with(export)
    damages = [*_hints("alone", export, export.as_sample.files), *_hints("worked with", export, later)]
    for version in (4, 5):
        without = {path: data for path, data in later.items() if path != root_path(version)}
        damages += _hints(f"without v{version}", export, without)
    assert {"F101", "F102", "F111", "F112", "F113", "F114", "F115", "F117"} <= {
        one.code for damaged in damages for one in _told_by_fsck(damaged)
    }
    say_the_same(damages, _differences)


@pytest.mark.parametrize("scope", [name for name in SCOPES if name != "full"])
def test_export_verify_and_fsck_agree_on_sharing_exports(scope: str) -> None:
    export = _export(small_sample(), SCOPES[scope])
    assert export.shared
    say_the_same([*_spoiled(export), *_rotten(export, 10), *_lies(export, 160)], _differences)


def test_a_sound_export_is_sound() -> None:
    for extent in SCOPES.values():
        export = _export(small_sample(), extent)
        assert not DamagedExport("sound", export, export.as_sample.files).errors


def _differences(damaged: DamagedExport) -> Iterator[Disagreement]:
    dest, catalog = damaged.stores()
    export = damaged.export
    result = verify_export(dest, export.note, catalog if export.note.scope.shares else None)
    said = {(one.code, one.severity.value, one.path) for one in result.findings}
    # what lies in the catalog is to be mended there, whatever it is
    wanted = {
        ("F503" if one.path in export.shared else one.code, one.severity.value, one.path)
        for one in _told_by_fsck(damaged)
    }
    told = "; ".join(" ".join(each) for each in sorted(said)) or "sound"
    if said != wanted:
        codes = ["|".join(sorted({code for code, *_ in each})) or "nothing" for each in (said, wanted)]
        kind = f"says {codes[0]}, fsck {codes[1]}" + (" of other files" if codes[0] == codes[1] else "")
        yield Disagreement(kind, damaged.name, shown(damaged.report.findings), told)
    elif result.damaged != any(severity == Severity.ERROR for _, severity, _ in wanted):
        yield Disagreement(f"damaged is {result.damaged}", damaged.name, shown(damaged.report.findings), told)


def _told_by_fsck(damaged: DamagedExport) -> list[Finding]:
    """Return the findings of fsck, without those on a catalog of several versions.

    Those are: no root can be read, later versions are dated ahead, and a missing root makes a gap.
    """
    version = damaged.export.note.version
    told = [one for one in damaged.report.findings if one.severity is not Severity.INFO]
    findings = [one for one in told if one.code not in ("F103", "F119")]
    if root_path(version) not in damaged.files and not any(hits(one, version) for one in findings):
        findings.append(finding("F201", root_path(version), "the root is missing"))
    return findings
