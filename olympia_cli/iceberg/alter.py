"""Changes of a table's columns and properties, as statements name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.types import IcebergType

from olympia_cli.errors import InvalidOption
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.catalog_transaction import DistributedCatalog
from olympia_cli.iceberg.identifiers import identifier_of
from olympia_cli.iceberg.schema_text import parse_schema
from olympia_cli.iceberg.table_changes import TableChanges
from olympia_cli.names import TableName


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column to add: its place is `a.b` for a column b in the struct a."""

    name: str
    type: IcebergType
    required: bool


@dataclass(frozen=True, slots=True)
class Alteration:
    """What is to change of a table. Properties are those of its metadata; `catalog_…` those that the catalog itself
    keeps of it, and `metadata_location` is where it is to be instead."""

    add: Sequence[NewColumn] = ()
    drop: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    catalog_set: Mapping[str, str] = field(default_factory=dict)
    catalog_unset: Sequence[str] = ()


def parse_column(text: str) -> NewColumn:
    """`name type`, and `not null` where it must have a value."""
    fields = parse_schema(text).fields
    if len(fields) != 1:
        raise InvalidOption(f"{text[:60]!a} is not one column", hint="write 'name type', once for each")
    return NewColumn(fields[0].name, fields[0].field_type, fields[0].required)


def alter(catalog: OlympiaCatalog, name: TableName, change: Alteration) -> None:
    """Do all of it, in one commit; in a distributed transaction, which is one itself, step by step."""
    if isinstance(catalog, DistributedCatalog):
        _alter(catalog, name, change)
        return
    with catalog.transaction(catalog.message) as together:
        _alter(together, name, change)
    catalog.last_version, catalog.last_actions = together.last_version, together.last_actions


def _alter(catalog: OlympiaCatalog, name: TableName, change: Alteration) -> None:
    table = catalog.load_table(identifier_of(name))
    if absent := [key for key in change.unset if key not in table.properties]:
        raise InvalidOption(f"the table has no property {absent[0]!a}", hint="")
    with table.transaction() as transaction:
        if change.add or change.drop or change.rename:
            with transaction.update_schema(allow_incompatible_changes=False) as update:
                for column in change.drop:
                    update.delete_column(column)
                for old, new in change.rename.items():
                    update.rename_column(old, new)
                for added in change.add:
                    update.add_column(added.name, added.type, required=added.required)
        if change.set:
            transaction.set_properties(dict(change.set))
        if change.unset:
            transaction.remove_properties(*change.unset)

    def keep(changes: TableChanges) -> None:
        changes.transaction.alter_table(name, change.catalog_set, change.catalog_unset)

    if change.catalog_set or change.catalog_unset:
        catalog.change(name, keep, name)
