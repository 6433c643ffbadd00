"""The columns in a table's metadata file. Other programs write it, so nothing in it is trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `name` includes the names of the enclosing columns. `type` is Iceberg's, without nested fields."""

    name: str
    type: str


def current_schema(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the table's current schema, or None if the metadata has no valid one."""
    current = metadata.get("current-schema-id")
    listed = metadata.get("schemas")
    for schema in listed if isinstance(listed, list) else ():
        if isinstance(schema, dict) and current is not None and schema.get("schema-id") == current:
            return schema
    # tables of format version 1 have a single schema
    only = metadata.get("schema")
    return only if isinstance(only, dict) else None


def partition_spec(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the current partition spec, as it is in the metadata."""
    default = metadata.get("default-spec-id")
    listed = metadata.get("partition-specs")
    for spec in listed if isinstance(listed, list) else ():
        if isinstance(spec, dict) and default is not None and spec.get("spec-id") == default:
            return spec
    return None


def columns_of(metadata: Mapping[str, Any]) -> dict[int, Column]:
    """Return the columns of all schemas by id, because data files may be older than the schema.

    Renamed columns have their current names.
    """
    listed = metadata.get("schemas")
    schemas = [*(listed if isinstance(listed, list) else ()), metadata.get("schema"), current_schema(metadata)]
    found: dict[int, Column] = {}
    for schema in schemas:
        found.update(_columns(schema))
    return found


def _columns(schema: object) -> Iterator[tuple[int, Column]]:
    # iterative, because a foreign file may be nested arbitrarily deep
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
    """Yield id, name and type of the direct fields of a struct, list or map."""
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
