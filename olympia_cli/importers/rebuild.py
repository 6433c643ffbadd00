"""Rebuild a catalog without its tree, from what is left: definitions, and the metadata files of its tables.

Of each id the newest definition counts, and of a table the newest metadata that follows the metadata in its definition.
The path of a definition has the name of the object at the time of writing: later renames and drops are not visible.
Objects whose state is ambiguous are left out, and reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot, check_supported, read_object
from olympia_cli.errors import CatalogExists, Damaged, InvalidLocation, OlympiaError, Refused
from olympia_cli.format.definitions import decode
from olympia_cli.format.paths import DEFINITION_FOLDERS, name_in, parse_root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef, TableDef
from olympia_cli.iceberg import Location, parse_location
from olympia_cli.importers.result import ImportResult, Omission
from olympia_cli.names import Kind, ObjectName, as_found
from olympia_cli.ops.inspect import ObjectChange
from olympia_cli.ops.verify_metadata import parse_metadata
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import Store

_METADATA = re.compile(r"(?:v(\d{1,9})|(\d{1,9})-[^/]*)(?:\.gz)?\.metadata\.json(?:\.gz)?")


@dataclass(frozen=True, slots=True)
class _Left:
    """A remaining definition, and the time of its writing by the store's clock."""

    kind: Kind
    path: str
    written_at_millis: int
    definition: ObjectDefinition

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: a later definition has a higher metadata number; the store's clock decides between equal ones."""
        return _number(_location(self.definition)), self.written_at_millis


def check_gone(store: Store) -> None:
    """Raise Refused if the location has versions: they hold more than definitions do."""
    for file in store.list("vn/"):
        if parse_root_path(file.path) is not None:
            raise Refused(
                f"{store.uri} has versions of its own",
                hint="find the damage, and repair it",
                command=("-c", store.uri, "fsck"),
            )


def check_target(here: Snapshot, changes: Iterable[ObjectChange]) -> None:
    """Raise CatalogExists for a catalog with other objects, which would be mixed. An empty catalog, or one with an
    object of this rebuild, is accepted: an earlier rebuild made it."""
    ids = {(change.name.kind, change.id) for change in changes}
    is_empty = True
    for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW):
        for found in here.objects(kind):
            if (kind, found.id) in ids:
                return
            is_empty = False
    if not is_empty:
        raise CatalogExists(
            f"{here.store.uri} is already a catalog with other objects", hint="choose an empty location"
        )


def newest_catalog(store: Store) -> CatalogDef | None:
    """Return the newest readable definition of the catalog itself."""
    for file in sorted(store.list("def/catalog/"), key=lambda file: -file.modified_at_millis):
        try:
            definition = decode(CatalogDef, store.read(file.path), file.path)
        except OlympiaError:
            continue
        check_supported(definition, file.path)
        return definition
    return None


def objects_left(
    store: Store, options: Callable[[str], Mapping[str, object] | None], done: ImportResult
) -> Iterator[ObjectChange]:
    """Yield the objects in definitions as newly created, namespaces first. `options` returns the storage options of a
    location."""
    namespaces: set[str] = set()
    for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW):
        named: dict[ObjectName, _Left] = {}
        for left in sorted(_newest(store, kind, done), key=lambda left: -left.written_at_millis):
            name = name_in(left.path, left.kind, namespaces)
            if isinstance(name, str):
                done.left_out.append(Omission(left.path, name))
            elif name in named:
                why = f"{named[name].path} had the name {name} later"
                done.left_out.append(Omission(left.path, why))
            else:
                named[name] = left
        if kind is Kind.NAMESPACE:
            namespaces = {name.namespace for name in named}
        for name, left in sorted(named.items(), key=lambda pair: (pair[0].namespace, pair[0].name)):
            definition = left.definition
            if isinstance(definition, TableDef) and definition.iceberg_metadata_location:
                _follow(name, definition, options, done)
            yield ObjectChange("created", name, name, None, CatalogObject(name, left.path, definition))


def _newest(store: Store, kind: Kind, done: ImportResult) -> Iterator[_Left]:
    """Yield the newest definition of each id."""
    listed = {file.path: file for file in store.list(f"def/{DEFINITION_FOLDERS[kind]}/")}
    found: list[_Left] = []
    for path, data in store.read_many(sorted(listed)):
        try:
            if isinstance(data, Exception):
                raise data
            definition = read_object(as_found(kind, "?", "?"), path, data).definition
        except OlympiaError as error:
            why = error.reason if isinstance(error, Damaged) else error.message
            done.left_out.append(Omission(path, why))
            continue
        found.append(_Left(kind, path, listed[path].modified_at_millis, definition))
    found.sort(key=lambda left: (left.definition.id, left.order))
    for _, same in groupby(found, key=lambda left: left.definition.id):
        *older, newest = same
        number = _number(_location(newest.definition))
        twins = {_location(left.definition) for left in older if _number(_location(left.definition)) == number >= 0}
        for location in sorted(twins - {_location(newest.definition)}):
            why = f"{_location(newest.definition)} has the same number, and was named later"
            done.left_out.append(Omission(location, why))
        yield newest


def _follow(
    name: ObjectName, table: TableDef, options: Callable[[str], Mapping[str, object] | None], done: ImportResult
) -> None:
    """Move a table on to the newest metadata that follows its own, if that has a number as in Iceberg."""
    location = table.iceberg_metadata_location
    if _number(location) < 0:
        return
    folder = location.rpartition("/")[0]
    try:
        place = parse_location(location)
        above = Location(place.store, place.path.rpartition("/")[0])
        if not above.path:
            # a whole disk or bucket is too large to list
            raise InvalidLocation(f"{location} lies in no folder")
        store = open_store(above.text, options(above.text))
        numbers = {file.path: _number(file.path) for file in store.list() if "/" not in file.path}
        highest = max(numbers.values(), default=-1)
        newest = sorted(path for path, number in numbers.items() if number == highest)
        if highest <= _number(location):
            return
        following = [path for path in newest if _follows(store.read(path), f"{folder}/{path}", location)]
    except OlympiaError as error:
        done.left_out.append(Omission(f"metadata of {name}", error.message))
        return
    if len(following) == 1:
        table.iceberg_previous_metadata_location = location
        table.iceberg_metadata_location = f"{folder}/{following[0]}"
        return
    which = "none of them follows" if not following else "several follow"
    why = f"there are newer files than {location}, and {which} it: {', '.join(following or newest)[:200]}"
    done.left_out.append(Omission(f"metadata of {name}", why))


def _follows(data: bytes, path: str, location: str) -> bool:
    log = parse_metadata(data, path).get("metadata-log")
    return isinstance(log, list) and any(
        isinstance(entry, dict) and entry.get("metadata-file") == location for entry in log
    )


def _location(definition: ObjectDefinition) -> str:
    return definition.iceberg_metadata_location if isinstance(definition, TableDef) else ""


def _number(location: str) -> int:
    """Return the number in the name of a metadata file; -1 if there is none."""
    found = _METADATA.fullmatch(location.rpartition("/")[2])
    return -1 if found is None else int(found[1] or found[2])
