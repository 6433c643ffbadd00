"""Objects as plain values, for JSON and for tables.

Locations are masked, because an older program may have stored one with a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from olympia_cli.catalog.properties import PLACES, TABLE_LOCATION
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition
from olympia_cli.format.definitions import Definition
from olympia_cli.format.pb.objects_pb2 import DataType, IsolationLevel, TableDef, TableFormat, ViewDef, ViewFormat
from olympia_cli.masking import masked
from olympia_cli.names import ObjectName, TableName, ViewName

_PLACES = {*PLACES, TABLE_LOCATION}


def describe_name(name: ObjectName | None) -> dict[str, Any]:
    """Describe the object of an action or a change. A namespace has its own name in both fields."""
    if name is None:
        return {"object": "catalog", "namespace": None, "name": None}
    return {"object": name.kind.word, "namespace": name.namespace, "name": name.name or name.namespace}


def describe_known(name: ObjectName | None) -> dict[str, Any]:
    """Describe the object of a key, if the key can be decoded."""
    return dict.fromkeys(("object", "namespace", "name")) if name is None else describe_name(name)


def describe_object(
    entry: CatalogObject[ObjectDefinition], version: int | None, *, exact: bool = False
) -> dict[str, Any]:
    """Describe a namespace, table or view as `show` prints it. With `exact`, nothing is masked, for programs that open
    the locations.
    """
    name, definition = entry.name, entry.definition
    shown: dict[str, Any] = {}
    if isinstance(name, TableName | ViewName):
        shown["namespace"] = name.namespace
        shown["name"] = name.name
    else:
        shown["name"] = name.namespace
    shown["id"] = definition.id
    if isinstance(definition, TableDef):
        shown["format"] = _enum(TableFormat, definition.table_format)
        shown |= _describe_places(definition, exact)
    if isinstance(definition, ViewDef):
        shown |= _describe_view(definition, exact)
    shown["properties"] = describe_properties(definition.properties, exact)
    shown["definition"] = entry.path or None
    shown["version"] = version
    return shown


def describe_properties(properties: Mapping[str, str], exact: bool = False) -> dict[str, str]:
    """Return the properties sorted by name. Locations are masked unless `exact`."""
    hidden = set() if exact else _PLACES
    return {
        # a metadata file may hold a value that is not a string
        key: masked(value) if key in hidden and isinstance(value, str) else value
        for key, value in sorted(properties.items())
    }


def shown_field(name: str, value: Any) -> Any:
    """Return the value of a field for display. `name` is as in `changed_fields`. Locations are masked."""
    is_place = name.endswith("_location") or name.startswith("exported_snapshots.")
    is_place = is_place or name.removeprefix("properties.") in _PLACES
    return masked(value) if is_place and isinstance(value, str) else value


def describe_definition(definition: Definition) -> dict[str, Any]:
    """Return all fields of a definition that have a value, as exact plain values for comparisons."""
    shown: dict[str, Any] = {}
    for field, value in definition.ListFields():
        if field.name == "integrity":
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            shown[field.name] = dict(sorted(value.items()))
        elif field.name == "substrait_read_rel":
            # the digest distinguishes two plans of one length
            shown[field.name] = f"{len(value)} bytes, sha256 {sha256(value).hexdigest()[:16]}"
        elif field.name == "schema":
            shown[field.name] = [_column(column) for column in value.columns]
        elif field.name == "referenced_object_full_names":
            shown[field.name] = [{"namespace": name.namespace_name, "name": name.name} for name in value]
        elif field.enum_type is not None:
            enum_value = field.enum_type.values_by_number.get(value)
            shown[field.name] = enum_value.name.lower() if enum_value is not None else str(value)
        else:
            shown[field.name] = value
    return shown


def isolation_word(level: IsolationLevel) -> str:
    return _enum(IsolationLevel, level)


def _describe_places(definition: TableDef | ViewDef, exact: bool) -> dict[str, Any]:
    places = {
        "metadata_location": definition.iceberg_metadata_location,
        "previous_metadata_location": definition.iceberg_previous_metadata_location,
    }
    return {key: (value if exact else masked(value)) or None for key, value in places.items()}


def _describe_view(definition: ViewDef, exact: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"format": _enum(ViewFormat, definition.view_format)}
    if definition.view_format == ViewFormat.ICEBERG_VIEW:
        shown |= _describe_places(definition, exact)
    return shown | {
        "schema_binding": definition.schema_binding,
        "schema": [_column(column) for column in definition.schema.columns],
        "default_namespace": definition.default_namespace_name or None,
        "referenced_objects": [
            {"namespace": name.namespace_name, "name": name.name} for name in definition.referenced_object_full_names
        ],
        "plan_bytes": len(definition.substrait_read_rel),
    }


def _column(column: Any) -> dict[str, Any]:
    """Describe a column with its nested columns. Empty fields are omitted."""
    shown: dict[str, Any] = {
        "id": column.id,
        "name": column.name,
        "type": _enum(DataType, column.type),
        "nullable": column.nullable,
    }
    if column.properties:
        shown["properties"] = dict(sorted(column.properties.items()))
    if column.struct_fields:
        shown["struct_fields"] = [_column(field) for field in column.struct_fields]
    for inner in ("map_key", "map_value", "list_element"):
        if column.HasField(inner):
            shown[inner] = _column(getattr(column, inner))
    return shown


def _enum(enum: Any, value: int) -> str:
    return str(enum.Name(value)).lower() if value in enum.values() else str(value)
