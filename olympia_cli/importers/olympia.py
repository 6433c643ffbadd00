"""Import another Olympia catalog, usually one of the Java SDK: its latest version, or each version as a commit.

Definitions are copied with their ids; the metadata and data of tables stay where they are. A property of the catalog
records the imported version, in the same commit. The next import compares with that version. An object that changed at
the source, and not here, changes here, too; an object that was dropped there is dropped. An object that was changed
here is left as it is, and reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.properties import IMPORTED
from olympia_cli.catalog.references import oldest_version, open_snapshot
from olympia_cli.catalog.snapshot import Snapshot, read_object
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import Damaged, InvalidOption, OlympiaError, VersionNotFound
from olympia_cli.format.node import Sizes
from olympia_cli.format.paths import check_pointer
from olympia_cli.format.strict_json import read_json
from olympia_cli.importers.objects import AT_ONCE, KINDS, ObjectImport, PresentObjects, Renaming, count, of_source
from olympia_cli.importers.result import ImportResult, Omission
from olympia_cli.names import AtVersion, Kind, time_text
from olympia_cli.ops.inspect import ObjectChange, diff


@dataclass(frozen=True, slots=True)
class ImportNote:
    """The version of a source that was imported last, and the namespace that it was imported into, if one was given."""

    version: int
    into: str | None

    def encode(self) -> str:
        return json.dumps({"version": self.version, "into": self.into}, sort_keys=True)


def read_note(transaction: Transaction, source_id: str) -> ImportNote | None:
    """Return the note of an earlier import; None if it is missing or unreadable. Then objects are compared by their
    content."""
    try:
        fields = read_json(transaction.base.definition.properties.get(IMPORTED + source_id, ""))
        version, into = fields["version"], fields["into"]
    except (ValueError, KeyError, TypeError):
        return None
    known = isinstance(version, int) and version >= 0 and isinstance(into, str | None)
    return ImportNote(version, into) if known else None


Commit = Callable[[Callable[[Transaction], ImportResult], str], tuple[ImportResult, int]]
"""Runs a function in a transaction and commits it with this message. Returns the result and the version."""


def import_catalog(
    source: Catalog, wanted: Snapshot, into: str | None, history: bool, here: Catalog, commit: Commit
) -> tuple[ImportResult, int]:
    """Import a version of the source or, with `history`, each version up to it that was not imported yet, one commit
    per version.

    Each commit contains the note of its version, so an interrupted import continues where it stopped.
    """
    done, version = ImportResult(), 0
    note = read_note(here.begin(), wanted.definition.id) if history else None
    for step in _history(source, wanted, note) if history else [wanted]:
        if isinstance(step, Omission):
            done.left_out.append(step)
            continue
        about = f"v{step.version} of {source.store.uri}, {time_text(step.created_at_millis)}"
        try:
            brought, version = commit(partial(_bring, source, step, into, step is wanted), about)
        except Damaged as error:
            if step is wanted:
                raise
            done.left_out.append(Omission(f"v{step.version}", error.message))
            continue
        done.add(brought, is_last=step is wanted)
    return done, version


def _bring(
    source: Catalog, wanted: Snapshot, into: str | None, is_last: bool, transaction: Transaction
) -> ImportResult:
    """Stage the content of a version of the source, and the note."""
    done, note = ImportResult(), read_note(transaction, wanted.definition.id)
    _check_note(note, wanted, into)
    renaming = _renaming(wanted, transaction.base.sizes, into)
    objects = ObjectImport(PresentObjects.of(transaction), wanted, renaming, done)
    taken: set[str] = set()
    if note is not None and note.version != wanted.version:
        try:
            with of_source(wanted):
                before = open_snapshot(source.store, AtVersion(note.version), source.clock.now_millis(), near=wanted)
            objects.take(_noted(_there(_changes(before, wanted), wanted), taken))
        except (Damaged, VersionNotFound) as error:
            # the content of that version is lost, so objects that differ are not touched
            done.left_out.append(Omission(f"v{note.version}", error.message))
            is_last = True
    if note is None or is_last:
        objects.take_present(_there(present(wanted, done, taken), wanted))
    new = ImportNote(wanted.version, into)
    if note != new:
        transaction.note_import(wanted.definition.id, new.encode())
    done.left_out = list(dict.fromkeys(done.left_out))
    return done


def _there(changes: Iterable[ObjectChange], source: Snapshot) -> Iterator[ObjectChange]:
    """Yield the same changes; errors while reading them are about the source."""
    with of_source(source):
        yield from changes


def _renaming(source: Snapshot, sizes: Sizes, into: str | None) -> Renaming:
    return Renaming(sizes, into, keeps_legal=not source.file.java)


def _check_note(note: ImportNote | None, wanted: Snapshot, into: str | None) -> None:
    if note is not None and note.version > wanted.version:
        raise InvalidOption(
            f"version {note.version} of that catalog was imported already, and {wanted.version} is older",
            hint=f"leave out --at, or name a version from {note.version} on",
        )
    check_into(note, into)


def check_into(note: ImportNote | None, into: str | None) -> None:
    """Raise InvalidOption if an import names another namespace than before."""
    if note is not None and note.into != into:
        before = "without --into" if note.into is None else f"--into {note.into}"
        raise InvalidOption(f"that catalog was imported {before} before", hint="import it in the same way again")


def _history(source: Catalog, wanted: Snapshot, note: ImportNote | None) -> Iterator[Snapshot | Omission]:
    """Yield the versions of the source that were not imported yet, oldest first, up to `wanted`."""
    first = oldest_version(wanted) if note is None else max(note.version + 1, oldest_version(wanted))
    for version in range(first, wanted.version):
        try:
            yield source.snapshot(AtVersion(version))
        except (Damaged, VersionNotFound) as error:
            yield Omission(f"v{version}", error.message)
    yield wanted


def inspect_source(wanted: Snapshot, into: str | None) -> ImportResult:
    """Return what an import would find, with the names in a catalog of the same sizes."""
    done = ImportResult()
    renaming = _renaming(wanted, wanted.sizes, into)
    for change in present(wanted, done):
        count(done, renaming, change)
    return done


def _changes(before: Snapshot, wanted: Snapshot) -> Iterator[ObjectChange]:
    """Yield the changes between two versions. A namespace that moves takes its objects along. So objects that stay
    under its former name, in a namespace that has that name now, are yielded too."""
    changes = list(diff(before, wanted))
    yield from changes
    told = {(change.name.kind, change.id) for change in changes}
    of_namespaces = (change for change in changes if change.old is not None and change.name.kind is Kind.NAMESPACE)
    for namespace in {
        change.old_name for change in of_namespaces if change.new is None or change.name != change.old_name
    }:
        for kind in KINDS[1:] if wanted.find(namespace) is not None else ():
            for found in wanted.read_objects(wanted.scan(kind, namespace.namespace)):
                if (kind, found.id) not in told:
                    yield ObjectChange("renamed", found.name, found.name, found, found)


def _noted(changes: Iterable[ObjectChange], taken: set[str]) -> Iterator[ObjectChange]:
    """Yield the same changes, and record the definitions that were read for them."""
    for change in changes:
        if change.new is not None:
            taken.add(change.new.path)
        yield change


def present(snapshot: Snapshot, done: ImportResult, taken: Container[str] = ()) -> Iterator[ObjectChange]:
    """Yield all objects of a version except `taken` as newly created, namespaces first. Unreadable objects are left
    out."""
    for kind in KINDS:
        entries = ((name, path) for name, path in snapshot.scan(kind) if path not in taken)
        while batch := list(islice(entries, AT_ONCE)):
            read = snapshot.definitions.read([check_pointer(path, snapshot.file.path) for _, path in batch])
            for (name, path), data in zip(batch, read, strict=True):
                try:
                    if isinstance(data, Exception):
                        raise data
                    found = read_object(name, path, data)
                except OlympiaError as error:
                    done.left_out.append(Omission(f"{kind.word} {name}", error.message))
                    continue
                yield ObjectChange("created", name, name, None, found)
