"""Register the tables of another Iceberg catalog, or of a folder of tables, in one transaction.

A later import follows the source: a table whose metadata moved on there, and not here, moves on here. A table that was
changed here, or another table of the same name, is left as it is, and reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidLocation, InvalidName, InvalidOption, OlympiaError, PathMissing, command_words
from olympia_cli.iceberg import LOADS_CODE, Location, Reach, TableFiles, parse_location, without_code
from olympia_cli.importers.result import ImportedTable, ImportResult, Omission
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.ops.verify_metadata import parse_metadata
from olympia_cli.storage.open import open_store, scheme_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_METADATA = re.compile(
    r"(?P<table>.+)/metadata/(?:v(?P<v>\d+)|(?P<n>\d+)(?:-[^/]*)?)(?:\.gz)?\.metadata\.json(?:\.gz)?"
)

# the counts of a table without snapshots
_EMPTY = {"total-data-files": "0", "total-records": "0"}


def tables_of_catalog(name: str, properties: Mapping[str, str]) -> Iterator[ImportedTable | Omission]:
    """Yield the tables of a catalog that PyIceberg knows by name, or by these properties."""
    catalog = _load_catalog(name, properties)
    waiting = sorted(catalog.list_namespaces())
    while waiting:
        namespace = waiting.pop(0)
        for identifier in sorted(catalog.list_tables(namespace)):
            shown = ".".join(identifier)
            try:
                name_here = _name(identifier[:-1], identifier[-1])
                table = catalog.load_table(identifier)
            except Exception as error:
                # an unreadable table does not stop the others
                yield Omission(shown, " ".join(str(error).split()) or type(error).__name__)
                continue
            past = frozenset(entry.metadata_file for entry in table.metadata.metadata_log)
            current = table.current_snapshot()
            summary = _EMPTY if current is None else current.summary or {}
            yield ImportedTable(name_here, shown, table.metadata_location, past, *_counts(summary))
        # a catalog with one level of namespaces lists the same ones again, or none
        waiting += [inner for inner in catalog.list_namespaces(namespace) if len(inner) > len(namespace)]


def _load_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    configured = Config().get_catalog_config(name)
    try:
        catalog = load_catalog(name, **properties)
        _load_no_code(catalog, {**(configured or {}), **properties})
        return catalog
    except ValueError as error:
        if properties or configured:
            # the rest is advice about options that this program does not have
            text = " ".join(str(error).split()).partition(", please ")[0]
            raise InvalidOption(
                f"PyIceberg cannot open the catalog {name!a}: {text}", hint="check its properties"
            ) from error
        reason = f"PyIceberg knows no catalog {name!a}"
        if os.path.isdir(name):
            command = command_words("import", "iceberg", names=[os.path.join(".", name)])
            raise InvalidOption(reason, hint="a folder is written with a slash", command=command) from error
        hint = "name it in .pyiceberg.yaml, or give its properties with --property; a folder is written with a slash"
        raise InvalidOption(reason, hint=hint) from error


def _load_no_code(catalog: Catalog, settings: Mapping[str, object]) -> None:
    """Keep a catalog from loading code that its server or its tables name, unless the user's settings name it."""
    from olympia_cli.iceberg import change_file_properties

    change_file_properties(catalog, without_code)
    for key in LOADS_CODE:
        if key not in settings:
            catalog.properties.pop(key, None)


def tables_below(
    prefix: str, options: Mapping[str, object] | None, files: TableFiles, namespace: str | None = None
) -> Iterator[ImportedTable | Omission]:
    """Yield the tables whose metadata files lie below a prefix, with the newest file of each. A table is named after
    its folder and the folder above, unless `namespace` is set."""
    store = open_store(prefix, options)
    newest: dict[str, tuple[int, list[str]]] = {}
    for file in store.list():
        if found := _METADATA.fullmatch(file.path):
            number = int(found["v"] or found["n"])
            highest, paths = newest.get(found["table"], (-1, []))
            if number >= highest:
                newest[found["table"]] = (number, [*paths, file.path] if number == highest else [file.path])
    if not newest:
        raise PathMissing(
            f"no table's metadata is below {prefix}", hint="name a place with TABLE/metadata/….metadata.json below it"
        )
    base = store.uri if scheme_of(prefix) == "file" else prefix.rstrip("/")
    named: list[ImportedTable] = []
    for folder, (number, paths) in sorted(newest.items()):
        parent, _, name = f"{base}/{folder}".rpartition("/")
        try:
            name_here = _name((namespace or parent.rpartition("/")[2].removesuffix(".db"),), name)
        except InvalidName as error:
            yield Omission(folder, error.message)
            continue
        if len(paths) > 1:
            # a failed commit may have left one of them
            yield Omission(folder, f"{len(paths)} metadata files have the number {number}: register the right one")
        else:
            named.append(ImportedTable(name_here, folder, f"{base}/{paths[0]}"))
    # a link in the source may lead outside of it
    read = files.read([one.location for one in named], Reach((base,)))
    for table, (location, data) in zip(named, read, strict=True):
        try:
            if isinstance(data, OlympiaError):
                raise data
            yield _described(table, parse_metadata(data, location))
        except OlympiaError as error:
            yield Omission(table.source, error.message)


def stage_tables(found: Iterable[ImportedTable | Omission], transaction: Transaction) -> ImportResult:
    """Stage the tables in a transaction."""
    done = ImportResult()
    for table in found:
        if isinstance(table, Omission):
            done.left_out.append(table)
            continue
        try:
            _bring(table, transaction, done)
        except (InvalidName, InvalidOption) as error:
            done.left_out.append(Omission(str(table.name), error.message))
    return done


def _bring(table: ImportedTable, transaction: Transaction, done: ImportResult) -> None:
    name = table.name
    if transaction.exists(name):
        present = transaction.table(name).definition.iceberg_metadata_location
        if _place(present) == _place(table.location):
            done.unchanged += 1
        elif _place(present) in {_place(one) for one in table.past}:
            transaction.alter_table(name, metadata_location=table.location, expected_metadata_location=present)
            done.moved_on.append(table)
        else:
            done.left_out.append(Omission(str(name), "it was changed here, or another table has that name"))
        return
    namespace = NamespaceName(name.namespace)
    if not transaction.exists(namespace):
        transaction.create_namespace(namespace)
        done.namespaces += 1
    transaction.create_table(name, table.location)
    done.created.append(table)


def _place(location: str) -> Location | str:
    """Return the file that a location means: `/x` and `file:///x` are the same."""
    try:
        return parse_location(location)
    except InvalidLocation:
        return location


def _name(namespace: tuple[str, ...], name: str) -> TableName:
    if len(namespace) != 1:
        raise InvalidName(f"the namespace {'.'.join(namespace)!a} has {len(namespace)} levels, and here they have one")
    return TableName(namespace[0], name)


def _described(table: ImportedTable, metadata: Mapping[str, Any]) -> ImportedTable:
    log = metadata.get("metadata-log")
    past = [entry.get("metadata-file") for entry in log if isinstance(entry, dict)] if isinstance(log, list) else []
    files, rows = _counts(_summary(metadata))
    return replace(table, past=frozenset(one for one in past if isinstance(one, str)), files=files, rows=rows)


def _summary(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    snapshots, current = metadata.get("snapshots"), metadata.get("current-snapshot-id")
    for snapshot in snapshots if isinstance(snapshots, list) else ():
        if isinstance(snapshot, dict) and snapshot.get("snapshot-id") == current:
            summary = snapshot.get("summary")
            return summary if isinstance(summary, dict) else {}
    return _EMPTY


def _counts(summary: Any) -> tuple[int | None, int | None]:
    """Return the numbers of data files and rows in a snapshot's summary."""
    texts = [str(summary.get(name)) for name in _EMPTY]
    files, rows = (int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None for text in texts)
    return files, rows
