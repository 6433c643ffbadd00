"""What a table's metadata file says of its columns. It is somebody else's file, so nothing in it is taken on trust."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is that of the column with those of the columns it lies in before it; `type` as Iceberg writes it, without
    what lies in the column itself."""

    name: str
    type: str


def current_schema(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema that the table has now; None where the metadata has none that can be understood."""
    current = metadata.get("current-schema-id")
    listed = metadata.get("schemas")
    for schema in listed if isinstance(listed, list) else ():
        if isinstance(schema, dict) and current is not None and schema.get("schema-id") == current:
            return schema
    # tables of the first format have one schema
    only = metadata.get("schema")
    return only if isinstance(only, dict) else None


def partition_spec(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How the table is partitioned now, as the metadata has it."""
    default = metadata.get("default-spec-id")
    listed = metadata.get("partition-specs")
    for spec in listed if isinstance(listed, list) else ():
        if isinstance(spec, dict) and default is not None and spec.get("spec-id") == default:
            return spec
    return None


def columns_of(metadata: Mapping[str, Any]) -> dict[int, Column]:
    """The columns of all the table's schemas by id: data files may be older than the schema. Where a column was renamed
    its present name is the one given."""
    listed = metadata.get("schemas")
    schemas = [*(listed if isinstance(listed, list) else ()), metadata.get("schema"), current_schema(metadata)]
    found: dict[int, Column] = {}
    for schema in schemas:
        found.update(_columns(schema))
    return found


def _columns(schema: object) -> Iterator[tuple[int, Column]]:
    # not by recursion: nobody says how deep a file from elsewhere goes
    waiting: list[tuple[str, object]] = [("", schema)]
    while waiting:
        above, outer = waiting.pop()
        for id, name, type in _within(outer):
            if isinstance(id, int) and isinstance(name, str):
                full = f"{above}.{name}" if above else name
                word = type.get("type") if isinstance(type, dict) else type
                yield id, Column(full, str(word))
                if isinstance(type, dict):
                    waiting.append((full, type))


def _within(outer: object) -> Iterator[tuple[object, object, object]]:
    """Id, name and type of what lies right in a struct, list or map."""
    if not isinstance(outer, dict):
        return
    if outer.get("type") == "list":
        yield outer.get("element-id"), "element", outer.get("element")
    elif outer.get("type") == "map":
        yield outer.get("key-id"), "key", outer.get("key")
        yield outer.get("value-id"), "value", outer.get("value")
    else:
        fields = outer.get("fields")
        for field in fields if isinstance(fields, list) else ():
            if isinstance(field, dict):
                yield field.get("id"), field.get("name"), field.get("type")
