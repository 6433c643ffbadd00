"""Ways to damage a catalog on any store: bytes that rot, and files that are whole but say what cannot be.

The second kind is written with the codecs, digests included, so that only what they say is wrong.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from olympia_cli.format import definitions
from olympia_cli.format.codec import (
    ACTIONS_DIGEST_KEY,
    CATALOG_DEF,
    DIGEST_KEY,
    N_KEYS,
    SIZES_KEY,
    Row,
    decode_action_rows,
    decode_node,
    digest,
    encode_node,
)
from olympia_cli.format.definitions import CLASSES
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.format.paths import new_node_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef, DistributedTransactionDef
from olympia_cli.names import Kind
from olympia_cli.storage.protocol import Store

# Bytes


def truncated(data: bytes) -> bytes:
    """The first third of the file."""
    return data[: len(data) // 3]


def cut_behind_id(data: bytes) -> bytes:
    """The definition up to the end of its id: this can still be parsed. One without a UUID for an id stays whole."""
    found = re.search(rb"\n\$[0-9a-f-]{36}", data)
    return data if found is None else data[: found.end()]


def empty(data: bytes) -> bytes:
    return b""


def flipped(data: bytes, at: int | None = None, bit: int = 4) -> bytes:
    """Flip one bit, in the middle or at a given byte."""
    at = len(data) // 2 if at is None else at
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def parquet(data: bytes) -> bytes:
    """A file of another program: Parquet, which the ecosystem is full of."""
    return _parquet()


def text(data: bytes) -> bytes:
    return b"this is a note that somebody copied to the wrong place\n" * 20


def zeros(data: bytes) -> bytes:
    """Replace all bytes by zeros, as a file system may leave a file after a crash."""
    return bytes(len(data))


def arrow_stream(data: bytes) -> bytes:
    """An Arrow file whose columns are another program's."""
    sink = io.BytesIO()
    table = pa.table({"id": [1, 2, 3], "name": ["x", "y", "z"]})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@cache
def _parquet() -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"id": [1, 2, 3]}), sink)
    return sink.getvalue()


def flipped_meaning(data: bytes, path: str) -> bytes:
    """Flip the first bit behind the middle that changes the meaning of the file."""
    for at in range(len(data) // 2, len(data)):
        found = flipped(data, at)
        if not _reads_as(data, found, path):
            return found
    raise ValueError(f"no bit of {path} matters")


def _reads_as(data: bytes, other: bytes, path: str) -> bool:
    try:
        if path.endswith(".binpb"):
            return False
        before, after = decode_node(data, path), decode_node(other, path)
        if (before.node, before.system) != (after.node, after.system):
            return False
        return CATALOG_DEF not in before.system or decode_action_rows(data, path) == decode_action_rows(other, path)
    except Exception:
        return False


def spoil(store: Store, path: str, how: str) -> None:
    """Damage one file: one of FILE_DAMAGE, by its name."""
    if how == "missing":
        store.delete_many([path])
    elif how == "flipped":
        store.overwrite(path, flipped_meaning(store.read(path), path))
    else:
        store.overwrite(path, _BYTES[how](store.read(path)))


_BYTES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": truncated,
    "empty": empty,
    "parquet": parquet,
    "text": text,
    "zeros": zeros,
}
FILE_DAMAGE = (*_BYTES, "flipped", "missing")


# Node files


@dataclass
class Raw:
    """The rows of a node file as they stand, whatever they mean."""

    system: list[Row]
    pivot: list[Row]
    actions: list[Row]
    metadata: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, str]:
        return {key or "": value or "" for key, value, _ in self.system}

    def set(self, key: str, value: str | None) -> None:
        """Give a system row another value, or take it away."""
        self.system = [row for row in self.system if row[0] != key]
        if value is not None:
            self.system.append((key, value, None))

    def count(self) -> None:
        """Let n_keys say what is there."""
        self.set(N_KEYS, str(len(self.pivot) - 1))


def read_raw(store: Store, path: str) -> Raw:
    reader = pa.ipc.open_file(pa.py_buffer(store.read(path)))
    rows: list[Row] = []
    for at in range(reader.num_record_batches):
        columns = [column.to_pylist() for column in reader.get_batch(at).columns]
        rows += list(zip(*columns, strict=True))
    start = next(at for at, row in enumerate(rows) if row[0] is None)
    n_keys = int(next(value for key, value, _ in rows[:start] if key == N_KEYS) or 0)
    end = start + 1 + n_keys
    return Raw(rows[:start], rows[start:end], rows[end:], dict(reader.schema.metadata or {}))


def encode_raw(raw: Raw, *, with_digest: bool = True, extra_column: bool = False, column_type: Any = None) -> bytes:
    """The file, with digests over just the rows that a reader takes for the tree and for actions."""
    rows = raw.system + raw.pivot + raw.actions
    n_keys = raw.values.get(N_KEYS, "")
    end = len(raw.system) + len(raw.pivot)
    if n_keys.isascii() and n_keys.isdigit() and len(n_keys) < 20:
        end = min(len(raw.system) + 1 + int(n_keys), len(rows))
    metadata = {key: value for key, value in raw.metadata.items() if key == SIZES_KEY}
    if with_digest:
        metadata[DIGEST_KEY] = digest(rows[:end]).encode()
        if rows[end:]:
            metadata[ACTIONS_DIGEST_KEY] = digest(rows[end:]).encode()
    names = ["key", "value", "pnode"]
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    arrays = [pa.array(column, pa.string()) for column in columns]
    if column_type is not None:
        arrays = [array.cast(column_type) for array in arrays]
    if extra_column:
        names.append("txn")
        arrays.append(pa.nulls(len(rows), pa.string()))
    schema = pa.schema([pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)], metadata)
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return sink.getvalue()


def rewrite_raw(store: Store, path: str, change: Callable[[Raw], None], **how: Any) -> None:
    """Change the rows of a node file in place; its digest is right again afterwards."""
    raw = read_raw(store, path)
    change(raw)
    store.overwrite(path, encode_raw(raw, **how))


def rewrite_node(store: Store, path: str, change: Callable[[Node], Node]) -> None:
    """Change the node in a file, a root's or any other, in place; all else in the file stays."""
    node = change(decode_node(store.read(path), path).node)
    raw = read_raw(store, path)
    first: str | None = str(node.children[0]) if node.children else None
    raw.pivot = [(None, None, first)]
    for at, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
        raw.pivot.append((key, value, str(node.children[at + 1]) if node.children else None))
    raw.count()
    store.overwrite(path, encode_raw(raw))


def digest_in(data: bytes, key: bytes) -> bytes:
    """The digest that a node file carries, as it stands in the file."""
    return bytes(pa.ipc.open_file(pa.py_buffer(data)).schema.metadata[key])


def add_node(store: Store, node: Node, path: str | None = None) -> str:
    """Write one more node file."""
    path = new_node_path() if path is None else path
    store.create(path, encode_node(node, 0))
    return path


def add_chain(store: Store, nodes: Sequence[Node]) -> str:
    """Write nodes of which each is all the children of the one after it; the path of the last."""
    files: dict[str, bytes] = {}
    below = ""
    for at, node in enumerate(nodes):
        path = new_node_path()
        files[path] = encode_node(replace(node, children=(below,) * (len(node.keys) + 1)) if at else node, 0)
        below = path
    store.create_many(files)
    return below


# Changes of a node, for rewrite_node


def with_child(at: int, child: str) -> Callable[[Node], Node]:
    return lambda node: replace(node, children=_put(node.children, at, child))


def with_value(at: int, value: str | None) -> Callable[[Node], Node]:
    return lambda node: replace(node, values=_put(node.values, at, value))


def with_key(at: int, key: str) -> Callable[[Node], Node]:
    return lambda node: replace(node, keys=_put(node.keys, at, key))


def without_key(key: str) -> Callable[[Node], Node]:
    """A leaf without one of its keys."""

    def change(node: Node) -> Node:
        at = node.keys.index(key)
        return Node(node.keys[:at] + node.keys[at + 1 :], node.values[:at] + node.values[at + 1 :])

    return change


def reversed_keys(node: Node) -> Node:
    return replace(node, keys=node.keys[::-1])


def doubled_key(node: Node) -> Node:
    """A leaf whose first key is there twice."""
    return Node((node.keys[0], *node.keys), (node.values[0], *node.values))


def with_children(children: Iterable[str]) -> Callable[[Node], Node]:
    return lambda node: replace(node, children=tuple(children))


def no_keys(node: Node) -> Node:
    """A leaf without keys, or an inner node with one child and no key."""
    return Node((), (), node.children[:1])


def crowded(keys: KeyCodec, count: int) -> Callable[[Node], Node]:
    """A leaf of tables or views with more keys, all of them behind its first one and before its second."""

    def change(node: Node) -> Node:
        # the padding makes room: a longer name sorts right behind the shorter one
        name = node.keys[0].rstrip(" ")
        more = tuple((name + chr(ord("a") + at)).ljust(len(node.keys[0])) for at in range(count))
        return Node(
            (node.keys[0], *more, *node.keys[1:]), (node.values[0], *(node.values[0],) * count, *node.values[1:])
        )

    return change


def _put(values: Sequence[Any], at: int, value: Any) -> tuple[Any, ...]:
    changed = list(values)
    changed[at] = value
    return tuple(changed)


def with_action(value: str | None) -> Callable[[Raw], None]:
    """For rewrite_raw: the first action row of a root says something else."""

    def change(raw: Raw) -> None:
        raw.actions[0] = (raw.actions[0][0], value, None)

    return change


# Definitions

_FOLDERS = {"catalog": Kind.CATALOG, "ns": Kind.NAMESPACE, "table": Kind.TABLE, "view": Kind.VIEW}


def rewrite_definition(store: Store, path: str, change: Callable[[Any], None], *, with_digest: bool = True) -> None:
    """Change a definition or a save of a transaction in place; its digest is right again afterwards."""
    saved = path.startswith("dtxn/")
    cls: Any = DistributedTransactionDef if saved else CLASSES[_FOLDERS[path.split("/")[1]]]
    definition = cls.FromString(store.read(path))
    change(definition)
    content = definitions.body(definition)
    store.overwrite(path, definitions.encode(content, path) if with_digest else content)


def set_property(store: Store, catalog_def: str, key: str, value: str | None) -> None:
    """Give the catalog definition in a file another property, behind the program's back."""

    def change(definition: CatalogDef) -> None:
        if value is None:
            definition.properties.pop(key, None)
        else:
            definition.properties[key] = value

    rewrite_definition(store, catalog_def, change)


OUTSIDE = (
    "../secret",
    "/etc/passwd",
    "s3://elsewhere/node.arrow",
    "file:///etc/passwd",
    "node/../../secret",
    "node//x.arrow",
    "./node/x.arrow",
    "node\\x.arrow",
    "node/\0.arrow",
    "",
)
"""Pointers that lead out of the catalog, or would on some store."""
