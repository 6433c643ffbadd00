"""Changes of a table's columns and properties, as the command line names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType

from olympia_cli.catalog.checks import check_places
from olympia_cli.errors import InvalidOption, quoted
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.catalog_transaction import DistributedCatalog
from olympia_cli.iceberg.identifiers import identifier_of
from olympia_cli.iceberg.schema_text import parse_schema
from olympia_cli.iceberg.table_changes import TableChanges
from olympia_cli.names import TableName, nearest

_SHOWN = 8
_ONE_COLUMN = "write 'name type', once for each"


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column to add. The name `a.b` means a column b in the struct a."""

    name: str
    type: IcebergType
    required: bool


@dataclass(frozen=True, slots=True)
class Alteration:
    """Changes of a table. `set` and `unset` are for properties in the metadata, `catalog_…` for those in the
    catalog.
    """

    add: Sequence[NewColumn] = ()
    drop: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    catalog_set: Mapping[str, str] = field(default_factory=dict)
    catalog_unset: Sequence[str] = ()


def parse_column(text: str) -> NewColumn:
    """Parse `name type` or `name type not null`."""
    try:
        fields = parse_schema(text).fields
    except InvalidOption as error:
        hint = error.hint if "is not a type" in error.message else _ONE_COLUMN
        raise InvalidOption(f"{quoted(text)} is not a column: {error.message}", hint=hint) from None
    if len(fields) != 1:
        raise InvalidOption(f"{quoted(text)} is not one column", hint=_ONE_COLUMN)
    return NewColumn(fields[0].name, fields[0].field_type, fields[0].required)


def alter(catalog: OlympiaCatalog, name: TableName, change: Alteration) -> None:
    """Apply all changes in one commit. In a distributed transaction, apply them as separate changes."""
    if isinstance(catalog, DistributedCatalog):
        _alter(catalog, name, change)
        return
    with catalog.transaction(catalog.message) as together:
        _alter(together, name, change)
    catalog.last_version, catalog.last_actions = together.last_version, together.last_actions


def _alter(catalog: OlympiaCatalog, name: TableName, change: Alteration) -> None:
    check_places(change.set)
    table = catalog.load_table(identifier_of(name))
    if absent := [key for key in change.unset if key not in table.properties]:
        raise InvalidOption(
            f"the metadata of the table has no property {quoted(absent[0])}", hint=_meant(absent[0], table.properties)
        )
    _check_columns(table.schema(), change)
    properties = {key: value for key, value in change.set.items() if table.properties.get(key) != value}
    with table.transaction() as transaction:
        if change.add or change.drop or change.rename:
            with transaction.update_schema(allow_incompatible_changes=False) as update:
                for column in change.drop:
                    update.delete_column(column)
                for old, new in change.rename.items():
                    update.rename_column(old, new)
                for added in change.add:
                    update.add_column(added.name, added.type, required=added.required)
        if properties:
            transaction.set_properties(properties)
        if change.unset:
            transaction.remove_properties(*change.unset)

    def keep(changes: TableChanges) -> None:
        changes.transaction.alter_table(name, change.catalog_set, change.catalog_unset)

    if change.catalog_set or change.catalog_unset:
        catalog.change(name, keep, name)


def _check_columns(schema: Schema, change: Alteration) -> None:
    """Raise InvalidOption for impossible column changes, with clearer messages than PyIceberg's."""
    there = set(schema.column_names)
    for column in (*change.drop, *change.rename):
        if column not in there:
            raise InvalidOption(f"the table has no column {quoted(column)}", hint=_meant(column, schema.column_names))
    there -= {*change.drop, *change.rename}
    for old, new in change.rename.items():
        parent, dot, _ = old.rpartition(".")
        _check_free(f"{parent}{dot}{new}", there)
    for added in change.add:
        _check_free(added.name, there)
        if added.required:
            raise InvalidOption(
                f"the column {quoted(added.name)} cannot be not null: the rows that are there have no value in it",
                hint="leave out not null",
            )


def _check_free(name: str, there: set[str]) -> None:
    if name in there:
        raise InvalidOption(f"the table has a column {quoted(name)} already", hint="choose another name")
    there.add(name)


def _meant(name: str, known: Iterable[str]) -> str:
    """Return advice for a missing name: the similar name, or the existing ones."""
    known = list(known)
    found = nearest(name, known)
    if found is not None:
        return f"did you mean {quoted(found)}?"
    more = ", …" if len(known) > _SHOWN else ""
    return f"there are {', '.join(map(quoted, known[:_SHOWN]))}{more}" if known else "there are none"
