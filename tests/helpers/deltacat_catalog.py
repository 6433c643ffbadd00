"""DeltaCAT catalogs: those that DeltaCAT itself wrote, and a small writer of others, whole or broken."""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.helpers.archives import unpack_archive

FOLDER = Path(__file__).parent.parent / "deltacat"
SMALL, LEGACY = "small", "legacy-flat"
ROOT = "/srv/lake/made"
UNPARTITIONED = "deadbeef-7277-49a4-a195-fdc8ed235d42"
Object = tuple[str, ...]


def unpack(name: str, into: Path) -> tuple[Path, dict[str, Any]]:
    """The catalog in a folder below `into`, and what DeltaCAT says of it."""
    unpack_archive(FOLDER / f"{name}.tar.gz", into)
    expected: dict[str, Any] = json.loads((into / name / "expected.json").read_text(encoding="utf-8"))
    return into / name / "catalog", expected


def pack(value: Any) -> bytes:
    """Encode as MessagePack, always in the longest form: readers must accept it."""
    if value is None or isinstance(value, bool):
        return bytes([{None: 0xC0, False: 0xC2, True: 0xC3}[value]])
    if isinstance(value, int):
        return struct.pack(">Bq", 0xD3, value) if value < 2**63 else struct.pack(">BQ", 0xCF, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, str | bytes):
        data = value.encode() if isinstance(value, str) else value
        return struct.pack(">BI", 0xDB if isinstance(value, str) else 0xC6, len(data)) + data
    if isinstance(value, dict):
        return struct.pack(">BI", 0xDF, len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())
    return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(pack, value))


class Transaction:
    """Writes one transaction. Objects are given as the folders that lead to them."""

    def __init__(self, catalog: DeltacatWriter, began_at: int) -> None:
        self.catalog = catalog
        self.id = f"{began_at}_{uuid.uuid4()}"
        self.operations: list[dict[str, Any]] = []

    def put(self, object: Object, body: dict[str, Any], operation: str = "create") -> Path:
        number = self.catalog.numbers[object] = self.catalog.numbers.get(object, 0) + 1
        name = f"{number:020}_{operation}_{self.id}.mpk"
        path = "/".join([*object, "rev", *self.catalog.folders, name])
        self.operations.append({"type": operation, "dest_metafile": {"id": object[-1]}, "metafile_write_paths": [path]})
        return self.catalog.write(path, pack({**body, "ancestor_ids": list(object[:-1])}))

    def name(self, parent: Object, name: str, id: str, operation: str = "create") -> Path:
        digest = hashlib.sha1(name.encode()).hexdigest()
        number = self.catalog.numbers[*parent, digest] = self.catalog.numbers.get((*parent, digest), 0) + 1
        path = "/".join([*parent, digest, *self.catalog.folders, f"{number:020}_{operation}_{self.id}.{id}"])
        return self.catalog.write(path, b"")

    def namespace(self, name: str, properties: dict[str, Any] | None = None) -> Object:
        id = str(uuid.uuid4())
        self.put((id,), {"namespaceLocator": {"namespace": name}, "properties": properties, "id": id})
        self.name((), name, id)
        return (id,)

    def table(
        self,
        namespace: Object,
        name: str,
        schema: pa.Schema | None,
        keys: Sequence[dict[str, Any]] = (),
        version: str = "1",
    ) -> Object:
        """A table with one active version and its stream; the stream is returned."""
        table = (*namespace, str(uuid.uuid4()))
        self.put(table, table_body(table, name, version))
        self.name(namespace, name, table[-1])
        return self.version(table, version, schema, keys)

    def version(
        self,
        table: Object,
        version: str,
        schema: pa.Schema | None,
        keys: Sequence[dict[str, Any]] = (),
        state: str = "active",
        operation: str = "create",
    ) -> Object:
        self.put((*table, version), version_body(version, schema, keys, state), operation)
        return (*table, version) if operation == "update" else self.stream((*table, version))

    def stream(self, version: Object, format: str = "deltacat", state: str = "committed") -> Object:
        stream = (*version, str(uuid.uuid4()))
        self.put(stream, {"streamLocator": {"streamId": stream[-1], "format": format}, "state": state})
        return stream

    def partition(
        self,
        stream: Object,
        values: list[Any] | None = None,
        state: str = "committed",
        scheme: str | None = None,
    ) -> Object:
        partition = (*stream, str(uuid.uuid4()))
        locator = {"partitionValues": values, "partitionId": partition[-1]}
        scheme = scheme or ("by" if values else UNPARTITIONED)
        self.put(partition, {"partitionLocator": locator, "state": state, "partitionSchemeId": scheme})
        return partition

    def delta(
        self,
        partition: Object,
        position: int,
        rows: pa.Table | bytes,
        type: str = "append",
        entry_type: str = "data",
        content_type: str = "application/parquet",
        meta: dict[str, Any] | None = None,
        **more: Any,
    ) -> str:
        """A delta of one file, whose path is returned; what is no table is written as it is."""
        path = f"data/{partition[-1]}/{uuid.uuid4()}.pq"
        file = self.catalog.write(path, b"" if isinstance(rows, pa.Table) else rows)
        if isinstance(rows, pa.Table):
            pq.write_table(rows, file)
        count = rows.num_rows if isinstance(rows, pa.Table) else 1
        meta = {
            "record_count": count,
            "content_length": file.stat().st_size,
            "content_type": content_type,
            "content_encoding": "identity",
            "entry_type": entry_type,
            **(meta or {}),
        }
        body = {
            "deltaLocator": {"streamPosition": position},
            "type": type,
            "previousStreamPosition": None if type == "add" else position - 1,
            "manifest": {"entries": [{"url": path, "meta": meta} | more]},
        }
        self.put((*partition, str(position)), body)
        return path


class DeltacatWriter:
    """A catalog in a folder. Transactions end one second after the other."""

    def __init__(self, folder: Path, flat: bool = False) -> None:
        self.folder = folder
        self.folders = () if flat else ("1000000", "1000")
        self.numbers: dict[Object, int] = {}
        self.now = 1_794_000_000_000_000_000

    def write(self, path: str, data: bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    @contextmanager
    def transaction(self, message: str | None = None, state: str | None = "success") -> Iterator[Transaction]:
        """Write a transaction that ends in a state; with None it leaves no file but those that it wrote."""
        made = Transaction(self, self.now)
        yield made
        self.now += 1_000_000_000
        log = {
            "id": made.id,
            "start_time": self.now - 1_000_000_000,
            "end_time": self.now - 1,
            "commit_message": message,
            "catalog_root_normalized": ROOT,
            "operations": made.operations,
        }
        if state is not None:
            days = "" if not self.folders or state in ("running", "paused") else "2026/11/06/21/20/"
            end = f"/{self.now - 1}" if state == "success" else ""
            self.write(f"txn/{state}/{days}{made.id}{end}", pack(log))


def table_body(table: Object, name: str, active: str | None = "1", **more: Any) -> dict[str, Any]:
    locator = {"namespaceLocator": {"namespace": table[-1]}, "tableName": name}
    return {"tableLocator": locator, "properties": {}, "latest_active_table_version": active, "id": table[-1], **more}


def version_body(
    version: str, schema: pa.Schema | None, keys: Sequence[dict[str, Any]] = (), state: str = "active"
) -> dict[str, Any]:
    data = None if schema is None else schema.serialize().to_pybytes()
    scheme = {"keys": list(keys) or None, "id": "by" if keys else UNPARTITIONED}
    return {
        "tableVersionLocator": {"tableVersion": version},
        "schema": data,
        "schemas": [data],
        "partitionScheme": scheme,
        "state": state,
    }


def numbered(*fields: tuple[str, pa.DataType], keys: Sequence[str] = ()) -> pa.Schema:
    """A schema whose columns have ids from 0, as DeltaCAT gives them; `keys` are its merge keys."""
    key = {"DELTACAT:merge_key": "True"}
    return pa.schema(
        [
            pa.field(name, type, metadata={"PARQUET:field_id": str(id), **(key if name in keys else {})})
            for id, (name, type) in enumerate(fields)
        ]
    )
