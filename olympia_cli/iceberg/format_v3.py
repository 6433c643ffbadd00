"""Metadata of tables of format 3: PyIceberg has a model of it and updates it, but does not write it yet. Engines that
are served do; what is here is what it lacks for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import SetLocationUpdate, TableUpdate, UpgradeFormatVersionUpdate
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from olympia_cli.errors import InvalidOption

V3 = 3


def to_json(metadata: TableMetadata) -> str:
    """The metadata as a file has it."""
    # the model of format 3 says that it is not written; field by field it is like the others
    write = (
        metadata.model_dump_json
        if metadata.format_version != V3
        else partial(IcebergBaseModel.model_dump_json, metadata)
    )
    # a field that says null is one too many for the library in Java
    return write(exclude_none=True)


def with_row_ids(metadata: TableMetadata, before: TableMetadata | None = None) -> TableMetadata:
    """The metadata, with the number of the next row that format 3 must have: where no snapshot gave it, the one that
    was there before, or the first."""
    if metadata.format_version != V3 or getattr(metadata, "next_row_id", None) is not None:
        return metadata
    known = getattr(before, "next_row_id", None)
    return metadata.model_copy(update={"next_row_id": 0 if known is None else known})


def with_defaults(metadata: TableMetadata, given: Schema) -> TableMetadata:
    """The metadata of a new table, with the defaults of its columns: PyIceberg, which numbers them, leaves them out."""
    if all(one.initial_default is None and one.write_default is None for one in index_by_id(given).values()):
        return metadata
    fresh = metadata.schema()
    columns = zip(fresh.fields, given.fields, strict=True)
    schema = fresh.model_copy(update={"fields": tuple(_with_default(*column) for column in columns)})
    return metadata.model_copy(update={"schemas": [schema]})


def _with_default(fresh: NestedField, given: NestedField) -> NestedField:
    values = {"initial_default": given.initial_default, "write_default": given.write_default}
    return fresh.model_copy(update={**values, "field_type": _with_defaults(fresh.field_type, given.field_type)})


def _with_defaults(fresh: IcebergType, given: IcebergType) -> IcebergType:
    match fresh, given:
        case StructType(), StructType():
            fields = zip(fresh.fields, given.fields, strict=True)
            return fresh.model_copy(update={"fields": tuple(_with_default(*field) for field in fields)})
        case ListType(), ListType():
            element = _with_defaults(fresh.element_type, given.element_type)
            return fresh.model_copy(update={"element_type": element})
        case MapType(), MapType():
            key = _with_defaults(fresh.key_type, given.key_type)
            value = _with_defaults(fresh.value_type, given.value_type)
            return fresh.model_copy(update={"key_type": key, "value_type": value})
    return fresh


def upgraded(metadata: TableMetadata, updates: Sequence[TableUpdate]) -> tuple[TableMetadata, tuple[TableUpdate, ...]]:
    """The metadata as that of format 3, where the updates ask for it, and the other updates."""
    rest = tuple(
        one for one in updates if not (isinstance(one, UpgradeFormatVersionUpdate) and one.format_version == V3)
    )
    if len(rest) == len(updates) or metadata.format_version == V3:
        return metadata, rest
    newer = metadata.model_copy(update={"format_version": V3, "next_row_id": 0})
    if metadata.schemas:
        # the same place again: it says that something has changed, whatever the others do
        rest = (SetLocationUpdate(location=metadata.location), *rest)
    return TableMetadataUtil._construct_without_validation(newer), rest


def check_known(document: Mapping[str, Any], read: TableMetadata, metadata: TableMetadata, location: str) -> None:
    """Refuse to change metadata, a document that was read, of which something would be lost: PyIceberg leaves out what
    it does not know."""
    names = {field.alias or name for name, field in type(metadata).model_fields.items()}
    lost, kept = sorted(document.keys() - names), json.loads(to_json(read))
    # on top the names decide: a field may be known and not written, as the id of no snapshot is
    for name in document.keys() & kept.keys():
        lost.extend(_lost(document[name], kept[name], name))
    if lost:
        raise InvalidOption(f"{location} has {lost[0]!a}, which a commit through PyIceberg would lose", hint="")


def _lost(document: Any, kept: Any, where: str) -> Iterator[str]:
    """The places in a document that have a value, and of which nothing was kept."""
    match document, kept:
        case dict(), dict():
            for name, value in document.items():
                if name in kept:
                    yield from _lost(value, kept[name], f"{where}.{name}")
                # the one source of a field, which is all that PyIceberg reads, has a name of its own
                elif value is not None and not (name == "source-ids" and value == [kept.get("source-id")]):
                    yield f"{where}.{name}"
        case list(), list():
            for number, pair in enumerate(zip(document, kept, strict=False)):
                yield from _lost(*pair, f"{where}[{number}]")
