"""Make a small lake to try the catalog on: one Iceberg table of a few orders in a folder, written with pyarrow alone.

    python examples/lake.py [FOLDER]

It prints the location of the table's metadata for `olympia table register`. Real tables come from Spark, Flink,
PyIceberg and others. This script writes only what the format requires: a data file, a manifest that lists it with its
statistics, a manifest list, and the metadata.
"""

from __future__ import annotations

import json
import struct
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {"id": (1, "long", pa.int64()), "customer": (2, "string", pa.string()), "cents": (3, "long", pa.int64())}
ORDERS = {"id": [1, 2, 3, 4], "customer": ["ann", "bob", "ann", "eve"], "cents": [1250, 499, 3000, 8725]}
SNAPSHOT, MILLIS = 1, 1_794_744_000_000


def field(id: int, name: str, type: Any, optional: bool = False) -> dict[str, Any]:
    """Return a field of an Avro record, with its Iceberg field id."""
    return (
        {"name": name, "type": ["null", type], "default": None, "field-id": id}
        if optional
        else {
            "name": name,
            "type": type,
            "field-id": id,
        }
    )


def map_of(key: int, value: int, type: str) -> dict[str, Any]:
    """Return the schema of an Iceberg map with integer keys: an array of pairs."""
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [field(key, "key", "int"), field(value, "value", type)],
    }
    return {"type": "array", "logicalType": "map", "items": pair}


DATA_FILE = {
    "type": "record",
    "name": "r2",
    "fields": [
        field(134, "content", "int"),
        field(100, "file_path", "string"),
        field(101, "file_format", "string"),
        field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
        field(103, "record_count", "long"),
        field(104, "file_size_in_bytes", "long"),
        field(109, "value_counts", map_of(119, 120, "long"), optional=True),
        field(110, "null_value_counts", map_of(121, 122, "long"), optional=True),
        field(125, "lower_bounds", map_of(126, 127, "bytes"), optional=True),
        field(128, "upper_bounds", map_of(129, 130, "bytes"), optional=True),
    ],
}
ENTRY = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        field(0, "status", "int"),
        field(1, "snapshot_id", "long", optional=True),
        field(3, "sequence_number", "long", optional=True),
        field(4, "file_sequence_number", "long", optional=True),
        field(2, "data_file", DATA_FILE),
    ],
}
MANIFEST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        field(500, "manifest_path", "string"),
        field(501, "manifest_length", "long"),
        field(502, "partition_spec_id", "int"),
        field(517, "content", "int"),
        field(515, "sequence_number", "long"),
        field(516, "min_sequence_number", "long"),
        field(503, "added_snapshot_id", "long"),
        field(504, "added_files_count", "int"),
        field(505, "existing_files_count", "int"),
        field(506, "deleted_files_count", "int"),
        field(512, "added_rows_count", "long"),
        field(513, "existing_rows_count", "long"),
        field(514, "deleted_rows_count", "long"),
    ],
}


def encode(schema: Any, value: Any) -> bytes:
    """Encode a value as Avro."""
    if isinstance(schema, list):
        return encode("long", 0) if value is None else encode("long", 1) + encode(schema[1], value)
    match schema if isinstance(schema, str) else schema["type"]:
        case "int" | "long":
            number, out = (value << 1) ^ (value >> 63), bytearray()
            while number > 0x7F:
                out.append(number & 0x7F | 0x80)
                number >>= 7
            return bytes([*out, number])
        case "string":
            return encode("bytes", value.encode())
        case "bytes":
            return encode("long", len(value)) + value
        case "record":
            return b"".join(encode(one["type"], value[one["name"]]) for one in schema["fields"])
        case "array":
            items = b"".join(encode(schema["items"], item) for item in value)
            return (encode("long", len(value)) + items if value else b"") + encode("long", 0)
        case other:
            raise ValueError(other)


def write_avro(path: Path, schema: dict[str, Any], record: Mapping[str, Any], more: Mapping[str, str]) -> int:
    """Write an Avro file of one record, and return its length."""
    head = {"avro.schema": json.dumps(schema), "avro.codec": "null", **more}
    pairs = b"".join(encode("string", key) + encode("string", value) for key, value in head.items())
    sync, body = uuid.uuid4().bytes, encode(schema, record)
    opening = b"Obj\x01" + encode("long", len(head)) + pairs + encode("long", 0) + sync
    return path.write_bytes(opening + encode("long", 1) + encode("bytes", body) + sync)


def pairs(values: Mapping[int, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def bound(value: int | str) -> bytes:
    return value.encode() if isinstance(value, str) else struct.pack("<q", value)


def make_table(folder: Path) -> Path:
    """Write the table, and return the path of its metadata."""
    for name in ("data", "metadata"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    ids = {name: id for name, (id, _, _) in COLUMNS.items()}
    arrow = pa.schema([pa.field(n, t, metadata={"PARQUET:field_id": str(i)}) for n, (i, _, t) in COLUMNS.items()])
    data, rows = folder / "data" / "00000.parquet", len(ORDERS["id"])
    pq.write_table(pa.table(ORDERS, schema=arrow), data)

    fields = [{"id": id, "name": name, "required": False, "type": type} for name, (id, type, _) in COLUMNS.items()]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    file = {
        "content": 0,
        "file_path": str(data),
        "file_format": "PARQUET",
        "partition": {},
        "record_count": rows,
        "file_size_in_bytes": data.stat().st_size,
        "value_counts": pairs(dict.fromkeys(ids.values(), rows)),
        "null_value_counts": pairs(dict.fromkeys(ids.values(), 0)),
        "lower_bounds": pairs({ids[name]: bound(min(values)) for name, values in ORDERS.items()}),
        "upper_bounds": pairs({ids[name]: bound(max(values)) for name, values in ORDERS.items()}),
    }
    entry = {"status": 1, "snapshot_id": SNAPSHOT, "sequence_number": 1, "file_sequence_number": 1, "data_file": file}
    manifest = folder / "metadata" / "manifest.avro"
    about = {"schema": json.dumps(schema), "partition-spec": "[]", "partition-spec-id": "0"}
    length = write_avro(manifest, ENTRY, entry, {**about, "format-version": "2", "content": "data"})
    listed = {
        "manifest_path": str(manifest),
        "manifest_length": length,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": 1,
        "min_sequence_number": 1,
        "added_snapshot_id": SNAPSHOT,
        "added_files_count": 1,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": rows,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
    }
    manifests = folder / "metadata" / "manifests.avro"
    write_avro(manifests, MANIFEST, listed, {"snapshot-id": str(SNAPSHOT), "format-version": "2"})
    snapshot = {
        "snapshot-id": SNAPSHOT,
        "sequence-number": 1,
        "timestamp-ms": MILLIS,
        "manifest-list": str(manifests),
        "summary": {"operation": "append", "added-records": str(rows)},
        "schema-id": 0,
    }
    metadata = {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": str(folder),
        "last-sequence-number": 1,
        "last-updated-ms": MILLIS,
        "last-column-id": len(COLUMNS),
        "current-schema-id": 0,
        "schemas": [schema],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": SNAPSHOT,
        "snapshots": [snapshot],
        "refs": {"main": {"snapshot-id": SNAPSHOT, "type": "branch"}},
    }
    path = folder / "metadata" / "00000.metadata.json"
    path.write_text(json.dumps(metadata, indent=2))
    return path


if __name__ == "__main__":
    print(make_table(Path(sys.argv[1] if len(sys.argv) > 1 else "lake").resolve() / "orders"))
