"""A table's metadata file: its columns, snapshots, partitioning and sort order. Other programs write it, so nothing in
it is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from olympia_cli.errors import Damaged
from olympia_cli.masking import masked
from olympia_cli.names import time_text
from olympia_cli.ops.inspect import describe_properties

# The columns in a table's metadata file. Other programs write it, so nothing in it is trusted.


@dataclass(frozen=True, slots=True)
class SchemaColumn:
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


def columns_of(metadata: Mapping[str, Any]) -> dict[int, SchemaColumn]:
    """Return the columns of all schemas by id, because data files may be older than the schema.

    Renamed columns have their current names.
    """
    listed = metadata.get("schemas")
    schemas = [*(listed if isinstance(listed, list) else ()), metadata.get("schema"), current_schema(metadata)]
    found: dict[int, SchemaColumn] = {}
    for schema in schemas:
        found.update(_columns(schema))
    return found


def _columns(schema: object) -> Iterator[tuple[int, SchemaColumn]]:
    # iterative, because a foreign file may be nested arbitrarily deep
    waiting: list[tuple[str, object]] = [("", schema)]
    while waiting:
        above, outer = waiting.pop()
        for id, name, type in _within(outer):
            if isinstance(id, int) and isinstance(name, str):
                full = f"{above}.{name}" if above else name
                word = type.get("type") if isinstance(type, dict) else type
                yield id, SchemaColumn(full, str(word))
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


# The snapshots in a table's metadata file. Only the fields that lead to files are read.

_HINT = "look at the table's older metadata"


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A snapshot: its manifest list or, in old tables without one, its manifests."""

    snapshot_id: int
    manifest_list: str
    manifests: tuple[str, ...] = ()


def current_snapshot(metadata: Mapping[str, Any], location: str) -> TableSnapshot | None:
    """Return the current snapshot, or None if the table has none."""
    current = _current_id(metadata, location)
    return None if current is None else _snapshots(metadata, {current}, location)[0]


def referenced_snapshots(metadata: Mapping[str, Any], location: str) -> list[TableSnapshot]:
    """Return the current snapshot and those of branches and tags. Iceberg may expire the others."""
    wanted = {_current_id(metadata, location)}
    refs = metadata.get("refs") or {}
    if not isinstance(refs, dict):
        raise Damaged("F602", location, "its branches and tags are not an object", hint=_HINT)
    for ref in refs.values():
        wanted.add(_id(ref.get("snapshot-id") if isinstance(ref, dict) else None, "a branch or tag", location))
    return _snapshots(metadata, {one for one in wanted if one is not None}, location)


def _current_id(metadata: Mapping[str, Any], location: str) -> int | None:
    current = metadata.get("current-snapshot-id")
    # old writers use -1 for none
    return None if current is None or current == -1 else _id(current, "the current snapshot", location)


def _id(value: object, what: str, location: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Damaged("F602", location, f"{what} has no id", hint=_HINT)
    return value


def _snapshots(metadata: Mapping[str, Any], wanted: set[int], location: str) -> list[TableSnapshot]:
    """Return the snapshots with these ids, in the order of the file."""
    listed = metadata.get("snapshots") or []
    if not isinstance(listed, list):
        raise Damaged("F602", location, "its snapshots are not a list", hint=_HINT)
    found = {}
    for entry in listed:
        snapshot_id = entry.get("snapshot-id") if isinstance(entry, dict) else None
        if isinstance(snapshot_id, int) and snapshot_id in wanted:
            found[snapshot_id] = _snapshot(entry, snapshot_id, location)
    missing = sorted(wanted - found.keys())
    if missing:
        raise Damaged("F602", location, f"snapshot {missing[0]} is referred to and not in it", hint=_HINT)
    return list(found.values())


def _snapshot(entry: Mapping[str, Any], snapshot_id: int, location: str) -> TableSnapshot:
    manifest_list = entry.get("manifest-list")
    if isinstance(manifest_list, str) and manifest_list:
        return TableSnapshot(snapshot_id, manifest_list)
    manifests = entry.get("manifests")
    if isinstance(manifests, list) and all(isinstance(one, str) and one for one in manifests):
        return TableSnapshot(snapshot_id, "", tuple(manifests))
    raise Damaged("F602", location, f"snapshot {snapshot_id} names no manifests", hint=_HINT)


# Describe an Iceberg table by its metadata file: fields, partitioning, sort order, snapshots.
#
# Other programs write the file, so invalid parts are skipped, and the depth is limited.

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
        "snapshots": list(_described_snapshots(metadata)),
        "iceberg": {
            "format_version": metadata.get("format-version"),
            "table_uuid": metadata.get("table-uuid"),
            "location": masked(location) if isinstance(location, str) else location,
            "last_updated_at": _time(metadata.get("last-updated-ms")),
            "current_snapshot_id": metadata.get("current-snapshot-id"),
            "properties": describe_properties(properties) if isinstance(properties, dict) else {},
        },
    }


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


def _described_snapshots(metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
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
