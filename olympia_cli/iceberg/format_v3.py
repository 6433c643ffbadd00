"""Metadata of tables of format version 3, which PyIceberg models and updates but does not write yet.

Engines served by `olympia serve` do write it. This module adds what PyIceberg lacks.
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
    """Return the metadata as the content of its file."""
    # PyIceberg's model of format 3 refuses to be written, but its fields are like those of other versions
    write = (
        metadata.model_dump_json
        if metadata.format_version != V3
        else partial(IcebergBaseModel.model_dump_json, metadata)
    )
    # the Java library rejects fields with null
    return write(exclude_none=True)


def with_row_ids(metadata: TableMetadata, before: TableMetadata | None = None) -> TableMetadata:
    """Return the metadata with `next_row_id`, which format 3 requires: the current, the former or 0."""
    if metadata.format_version != V3 or getattr(metadata, "next_row_id", None) is not None:
        return metadata
    known = getattr(before, "next_row_id", None)
    return metadata.model_copy(update={"next_row_id": 0 if known is None else known})


def with_defaults(metadata: TableMetadata, given: Schema) -> TableMetadata:
    """Return the metadata of a new table with the columns' defaults, which PyIceberg drops when it assigns field
    ids.
    """
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
    """Return the metadata, upgraded to format 3 if the updates ask for it, and the remaining updates."""
    rest = tuple(
        one for one in updates if not (isinstance(one, UpgradeFormatVersionUpdate) and one.format_version == V3)
    )
    if len(rest) == len(updates) or metadata.format_version == V3:
        return metadata, rest
    newer = metadata.model_copy(update={"format_version": V3, "next_row_id": 0})
    if metadata.schemas:
        # an update without effect: it marks the metadata as changed, whatever the other updates do
        rest = (SetLocationUpdate(location=metadata.location), *rest)
    return TableMetadataUtil._construct_without_validation(newer), rest


def check_known(document: Mapping[str, Any], read: TableMetadata, metadata: TableMetadata, location: str) -> None:
    """Raise InvalidOption if PyIceberg would lose parts of a document that it does not know."""
    names = {field.alias or name for name, field in type(metadata).model_fields.items()}
    lost, kept = sorted(document.keys() - names), json.loads(to_json(read))
    # at the top level compare names only: a known field may not be written, such as the id of no snapshot
    for name in document.keys() & kept.keys():
        lost.extend(_lost(document[name], kept[name], name))
    if lost:
        raise InvalidOption(f"{location} has {lost[0]!a}, which a commit through PyIceberg would lose", hint="")


def _lost(document: Any, kept: Any, where: str) -> Iterator[str]:
    """Yield the paths of values in a document that are missing in `kept`."""
    match document, kept:
        case dict(), dict():
            for name, value in document.items():
                if name in kept:
                    yield from _lost(value, kept[name], f"{where}.{name}")
                # PyIceberg reads a single source, and writes it under another name
                elif value is not None and not (name == "source-ids" and value == [kept.get("source-id")]):
                    yield f"{where}.{name}"
        case list(), list():
            for number, pair in enumerate(zip(document, kept, strict=False)):
                yield from _lost(*pair, f"{where}[{number}]")
