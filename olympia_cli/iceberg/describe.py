"""Describe an Iceberg table by its metadata file: fields, partitioning, sort order, snapshots.

Other programs write the file, so invalid parts are skipped, and the depth is limited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from olympia_cli.iceberg.schemas import columns_of, current_schema, partition_spec
from olympia_cli.masking import masked
from olympia_cli.names import time_text
from olympia_cli.ops.look.describe import describe_properties

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

DEEPEST = 32
"""The maximum nesting depth of structs, lists and maps that is shown."""


def describe_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table as plain values. Times are text, and types are in Iceberg's notation, such as `list<string>`."""
    schema = current_schema(metadata) or {}
    location, properties = metadata.get("location"), metadata.get("properties")
    names = {id: column.name for id, column in columns_of(metadata).items()}
    return {
        "schema": {"id": schema.get("schema-id", 0), "fields": list(_fields(schema))},
        "partitioning": [
            {
                "name": field.get("name"),
                "transform": str(field.get("transform")),
                "source": _source(field, names),
            }
            for field in _dicts((partition_spec(metadata) or {}).get("fields"))
        ],
        "sort_order": [
            {
                "source": _source(field, names),
                "transform": str(field.get("transform")),
                "direction": field.get("direction"),
                "null_order": field.get("null-order"),
            }
            for field in _dicts(_sort_order(metadata).get("fields"))
        ],
        "snapshots": list(_snapshots(metadata)),
        "iceberg": {
            "format_version": metadata.get("format-version"),
            "table_uuid": metadata.get("table-uuid"),
            "location": masked(location) if isinstance(location, str) else location,
            "last_updated_at": _time(metadata.get("last-updated-ms")),
            "current_snapshot_id": metadata.get("current-snapshot-id"),
            "properties": describe_properties(properties) if isinstance(properties, dict) else {},
        },
    }


def columns_told(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return the names and types of the columns of a schema, as `describe_metadata` writes them."""
    return tuple(_column(field.name, _told(field.field_type)) for field in schema.fields)


def _told(type: IcebergType) -> str:
    return str(type) if type.is_primitive else type_text(type.model_dump(mode="json"))


@lru_cache(maxsize=2**16)
def _column(name: str, type: str) -> tuple[str, str]:
    # an import holds the columns of a hundred thousand tables, most of them alike
    return name, type


def type_text(type: object, depth: int = 0) -> str:
    """Return a type in one line."""
    if not isinstance(type, dict):
        return str(type)
    if depth == DEEPEST:
        return "…"
    kind = type.get("type")
    if kind == "list":
        return f"list<{type_text(type.get('element'), depth + 1)}>"
    if kind == "map":
        return f"map<{type_text(type.get('key'), depth + 1)}, {type_text(type.get('value'), depth + 1)}>"
    fields = (f"{field.get('name')}: {type_text(field.get('type'), depth + 1)}" for field in _dicts(type.get("fields")))
    return f"struct<{', '.join(fields)}>"


def _fields(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for field in _dicts(schema.get("fields")):
        yield {
            "id": field.get("id"),
            "name": field.get("name"),
            "type": type_text(field.get("type")),
            "required": bool(field.get("required")),
            "doc": field.get("doc"),
        }


def _sort_order(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    default = metadata.get("default-sort-order-id")
    orders = (order for order in _dicts(metadata.get("sort-orders")) if order.get("order-id") == default)
    return next(orders, {})


def _snapshots(metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    current = metadata.get("current-snapshot-id")
    for snapshot in _dicts(metadata.get("snapshots")):
        summary = snapshot.get("summary") if isinstance(snapshot.get("summary"), dict) else {}
        yield {
            "snapshot_id": snapshot.get("snapshot-id"),
            "parent_id": snapshot.get("parent-snapshot-id"),
            "created_at": _time(snapshot.get("timestamp-ms")),
            "operation": (summary or {}).get("operation"),
            "current": snapshot.get("snapshot-id") == current,
            "summary": {key: str(value) for key, value in (summary or {}).items() if key != "operation"},
        }


def _source(field: Mapping[str, Any], names: Mapping[int, str]) -> str:
    """Return the source column of a partition field or sort field."""
    id = field.get("source-id")
    return names.get(id, f"column {id}") if isinstance(id, int) else ""


def _time(millis: object) -> str | None:
    return time_text(millis) if isinstance(millis, int) and not isinstance(millis, bool) else None


def _dicts(values: object) -> Iterator[dict[str, Any]]:
    return (value for value in (values if isinstance(values, list) else ()) if isinstance(value, dict))
