"""Catalogs as the Java SDK lays them out, written with pyarrow and protobuf alone: none of our encoders is used.

Roots have names of 64 characters. A node file is one uncompressed record batch whose schema says nothing of itself.
Behind the system rows come only rows of the pivot table, the leftmost first. Names are padded by UTF-16 units, a
dropped object keeps its key with a NULL value, and single pointers of an inner node are NULL. Definitions are bare
messages in files that carry the names as they are.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
from google.protobuf.message import Message

from olympia_cli.format.pb.objects_pb2 import CatalogDef, NamespaceDef, TableDef, ViewDef

SIZE = 16
"""Size of every name, in UTF-16 units."""

Counting = Literal["keys", "rows", "over"]
"""The meaning of `n_keys`: the number of keys, the number of rows of the pivot table, or a higher number."""

Row = tuple[str | None, str | None, str | None]
Name = tuple[str, ...]
"""(namespace) is a namespace; (namespace, name) is a table or a view."""

_SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string()), ("pnode", pa.string())])


def key(kind: str, *names: str) -> str:
    """The key of a `namespace`, `table` or `view`."""
    prefix = {"namespace": "B===", "table": "C===", "view": "D==="}[kind]
    return prefix + "".join(name + " " * (SIZE - len(name.encode("utf-16-le")) // 2) for name in names)


def root_name(version: int) -> str:
    return "vn/" + "".join("1" if version >> bit & 1 else "0" for bit in range(64))


class JavaCatalog:
    """Writes versions, one after the other."""

    def __init__(self, folder: Path, counting: Counting = "keys") -> None:
        self.folder = folder
        self.counting = counting
        self.versions = 0
        self._numbers = itertools.count(1)
        self.catalog_def = self.definition(
            "catalog",
            (),
            CatalogDef(
                id="7d1c2a34-0000-4000-8000-000000000000",
                order=128,
                namespace_name_max_size_bytes=SIZE,
                table_name_max_size_bytes=SIZE,
                view_name_max_size_bytes=SIZE,
                node_file_max_size_bytes=1048576,
                txn_ttl_millis=259_200_000,
            ),
        )

    def write(self, path: str, data: bytes) -> str:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return path

    def definition(self, folder: str, names: Name, message: Message) -> str:
        file = "-".join([self._uuid(), *names])
        return self.write(f"def/{folder}/{file}.binpb", message.SerializeToString())

    def namespace(self, name: str, **properties: str) -> Row:
        path = self.definition("ns", (name,), NamespaceDef(id=f"id of {name}", properties=properties))
        return key("namespace", name), path, None

    def table(self, namespace: str, name: str) -> Row:
        message = TableDef(id=f"id of {namespace}.{name}", iceberg_metadata_location=f"s3://b/{name}.json")
        return key("table", namespace, name), self.definition("table", (namespace, name), message), None

    def view(self, namespace: str, name: str) -> Row:
        message = ViewDef(id=f"id of {namespace}.{name}", default_namespace_name=namespace)
        return key("view", namespace, name), self.definition("view", (namespace, name), message), None

    def node(self, rows: Sequence[Row], leftmost: str | None = None, millis: int = 1) -> str:
        """A node that is not a root."""
        return self._node_file(f"node/{self._uuid()}.arrow", {"created_at_millis": str(millis)}, rows, leftmost)

    def commit(self, millis: int, rows: Sequence[Row] = (), leftmost: str | None = None) -> int:
        """The next version, with the rows of its root."""
        version = self.versions
        system = {"created_at_millis": str(millis), "n_keys": "", "catalog_def": self.catalog_def}
        if version:
            system["previous_root"] = root_name(version - 1)
        self._node_file(root_name(version), system, rows, leftmost)
        self.hint(version)
        self.versions += 1
        return version

    def hint(self, version: int) -> None:
        self.write("vn/latest", str(version).encode())

    def _node_file(self, path: str, system: Mapping[str, str], rows: Sequence[Row], leftmost: str | None) -> str:
        counted = len(rows) + {"keys": 0, "rows": 1, "over": 7}[self.counting]
        top: list[Row] = [(name, value, None) for name, value in {**system, "n_keys": str(counted)}.items()]
        every = [*top, (None, None, leftmost), *rows]
        arrays = [pa.array([row[at] for row in every], pa.string()) for at in range(3)]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_batch(pa.record_batch(arrays, schema=_SCHEMA))
        return self.write(path, sink.getvalue().to_pybytes())

    def _uuid(self) -> str:
        return str(uuid.UUID(int=next(self._numbers), version=4))


def tombstone(row: Row) -> Row:
    """Return the row that a dropped object leaves."""
    return row[0], None, row[2]


def pointing(row: Row, child: str | None) -> Row:
    return row[0], row[1], child


Contents = dict[str, list[Name]]
EMOJI = "smile\U0001f600"


def sample(folder: Path, counting: Counting = "keys") -> dict[int, Contents]:
    """Write four versions, and return their contents by kind, in key order. The clock runs back at version 2.

    Version 3 has a tree of two levels. The child left of the first key is NULL, and so is one in the middle.
    """
    java = JavaCatalog(folder, counting)
    java.commit(1_000)
    a = java.namespace("a", owner="me")
    java.commit(3_000, [a])
    t1, t2 = java.table("a", "t1"), java.table("a", "t2")
    java.commit(2_000, [a, t1, t2])
    ab, emoji = java.namespace("ab"), java.namespace(EMOJI)
    t4, t5 = java.table("ab", "t1"), java.table(EMOJI, "é漢")
    v1, v2 = java.view("a", "v1"), java.view(EMOJI, EMOJI)
    tables = java.node([t1, tombstone(t2)], millis=5_000)
    views = java.node([v1, v2], millis=5_000)
    java.commit(
        5_000,
        [
            pointing(a, None),
            pointing(ab, None),
            pointing(emoji, tables),
            pointing(tombstone(java.table("a", "u")), None),
            pointing(t4, None),
            pointing(t5, views),
        ],
        leftmost=None,
    )
    return {
        0: {"namespace": [], "table": [], "view": []},
        1: {"namespace": [("a",)], "table": [], "view": []},
        2: {"namespace": [("a",)], "table": [("a", "t1"), ("a", "t2")], "view": []},
        3: {
            "namespace": [("a",), ("ab",), (EMOJI,)],
            "table": [("a", "t1"), ("ab", "t1"), (EMOJI, "é漢")],
            "view": [("a", "v1"), (EMOJI, EMOJI)],
        },
    }
