"""A writer of preserved catalogs of IOx as version 19 has them, or as older ones did, with all that can be wrong."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

NIL = UUID(int=0)
SECOND = 1_000_000_000


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while True:
        out.append((value & 0x7F) | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def number(at: int, value: int) -> bytes:
    """Encode a number as protobuf does, which omits 0."""
    return varint(at << 3) + varint(value) if value else b""


def text(at: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(at << 3 | 2) + varint(len(data)) + data if data else b""


def message(at: int, *parts: bytes) -> bytes:
    data = b"".join(parts)
    return varint(at << 3 | 2) + varint(len(data)) + data


def timestamp(at: int, nanos: int) -> bytes:
    return message(at, number(1, nanos // SECOND), number(2, nanos % SECOND))


def path_message(path: str) -> bytes:
    *folders, name = path.split("/")
    return message(1, *(text(1, folder) for folder in folders), text(2, name))


def scalar(value: Any, older: bool) -> bytes:
    match value:
        case bool():
            return message(3, varint(1 << 3) + varint(value))
        case int():
            return message(3, varint(2 << 3) + varint(value))
        case float():
            return message(3, varint((4 if older else 3) << 3 | 1) + struct.pack("<d", value))
        case _:
            data = value.encode()
            return message(3, varint((5 if older else 4) << 3 | 2) + varint(len(data)) + data)


@dataclass
class DataFile:
    """A Parquet file that was written: its path in the store, its size and footer, and the chunk that it is."""

    path: str
    size: int
    footer: bytes
    chunk: tuple[str, str, UUID]


@dataclass
class IoxCatalog:
    """Writes below a folder. `head` is the last transaction: its revision and id. `older` writes ids of transactions as
    texts, those of chunks as numbers, and values with an unsigned number among their types."""

    folder: Path
    version: int = 19
    older: bool = False
    head: tuple[int, UUID] | None = None
    live: dict[str, DataFile] = field(default_factory=dict)
    tombstones: list[bytes] = field(default_factory=list)
    nanos: int = 1_700_000_000 * SECOND

    def data(
        self,
        table: str,
        rows: pa.Table,
        partition: str = "2022-01-01",
        *,
        chunk: int = 0,
        order: int = 1,
        compressed: bool = True,
        says: str | None = None,
        write: bool = True,
    ) -> DataFile:
        """Write a Parquet file; the catalog does not know it yet. `says` is another table that its footer names."""
        id = UUID(int=chunk or len(self.live) + 1)
        known = id.int if self.older else id.bytes
        own = b"".join(
            (
                number(1, 10),
                timestamp(2, self.nanos),
                text(3, table if says is None else says),
                text(4, partition),
                number(5, known) if isinstance(known, int) else b"",
                number(10, order),
                text(11, known) if isinstance(known, bytes) else b"",
            )
        )
        schema = rows.schema.with_metadata({"IOX:metadata": base64.b64encode(own)})
        sink = pa.BufferOutputStream()
        pq.write_table(rows.cast(schema), sink, compression="zstd")
        data = sink.getvalue().to_pybytes()
        length = struct.unpack("<I", data[-8:-4])[0]
        thrift = data[-8 - length : -8]
        path = f"data/{_part(table)}/{_part(partition)}/{id}.parquet"
        if write:
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        footer = pa.compress(thrift, "zstd", asbytes=True) if compressed else thrift
        return DataFile(path, len(data), footer, (table, partition, id))

    # Actions

    def add(self, file: DataFile) -> bytes:
        self.live[file.path] = file
        return _action(2, path_message(file.path), text(2, file.footer), number(3, file.size))

    def remove(self, file: DataFile) -> bytes:
        self.live.pop(file.path, None)
        return _action(3, path_message(file.path))

    def delete(self, files: Iterable[DataFile], start: int, end: int, *where: tuple[str, str, Any]) -> bytes:
        comparisons = [
            message(5, text(1, column), number(2, {"=": 1, "!=": 2}[operator]), scalar(value, self.older))
            for column, operator, value in where
        ]
        predicate = message(1, message(4, number(1, start), number(2, end)), *comparisons)
        chunks = [message(2, *self._chunk(file)) for file in files]
        made = _action(4, predicate, *chunks)
        self.tombstones.append(made)
        return made

    def _chunk(self, file: DataFile) -> list[bytes]:
        table, partition, id = file.chunk
        known = number(3, id.int) if self.older else text(4, id.bytes)
        return [text(1, table), text(2, partition), known]

    # Transactions

    def commit(self, *actions: bytes, uuid: int | None = None, seconds: int = 60) -> Path:
        """The next transaction; each is a minute later than the one before."""
        revision = 0 if self.head is None else self.head[0] + 1
        previous = None if self.head is None else self.head[1]
        id = UUID(int=revision + 1000 if uuid is None else uuid)
        self.nanos += seconds * SECOND
        self.head = (revision, id)
        return self.write(revision, id, previous, actions)

    def checkpoint(self, revision: int | None = None) -> Path:
        """All that is there with the last transaction, or as if it were with another."""
        assert self.head is not None
        at = self.head[0] if revision is None else revision
        actions = [_action(2, path_message(f.path), text(2, f.footer), number(3, f.size)) for f in self.live.values()]
        return self.write(at, self.head[1], None, [*actions, *self.tombstones], is_full=True)

    def write(
        self,
        revision: int,
        uuid: UUID,
        previous: UUID | None,
        actions: Sequence[bytes],
        *,
        is_full: bool = False,
        said: tuple[int, UUID] | None = None,
        encoding: int | None = None,
        version: int | None = None,
    ) -> Path:
        """A file as it is told: what it says may be other than what its path does."""
        file = self.path(revision, uuid, is_full)
        file.parent.mkdir(parents=True, exist_ok=True)
        said = said or (revision, uuid)
        file.write_bytes(
            encode(
                self.version if version is None else version,
                *said,
                previous,
                self.nanos,
                actions,
                (2 if is_full else 1) if encoding is None else encoding,
                self.older,
            )
        )
        return file

    def path(self, revision: int, uuid: UUID, is_full: bool = False) -> Path:
        return self.folder / f"transactions/{revision:020}/{uuid}.{'ckpt' if is_full else 'txn'}"


def encode(
    version: int,
    revision: int,
    uuid: UUID,
    previous: UUID | None,
    nanos: int,
    actions: Sequence[bytes],
    encoding: int,
    older: bool = False,
) -> bytes:
    before = () if previous is None else (previous,)
    if older:
        ids = (text(4, str(uuid)), *(text(5, str(one)) for one in before))
    else:
        ids = (text(8, uuid.bytes), *(text(9, one.bytes) for one in before))
    return b"".join(
        (
            number(1, version),
            *(message(2, action) for action in actions),
            number(3, revision),
            timestamp(6, nanos),
            number(7, encoding),
            *ids,
        )
    )


def _action(at: int, *parts: bytes) -> bytes:
    return message(at, *parts)


def _part(name: str) -> str:
    """A part of a path as IOx encodes it for a store."""
    return quote(name, safe=" !$&'()+,;=:@-._") if name.strip(".") else name.replace(".", "%2E")


def rows(times: Sequence[int], **columns: Any) -> pa.Table:
    """Rows as IOx writes them: tags are dictionaries, and the time is in nanoseconds."""
    given = {
        name: pa.array(values).dictionary_encode() if _is_text(values) else values for name, values in columns.items()
    }
    return pa.table({**given, "time": pa.array(times, pa.timestamp("ns"))})


def _is_text(values: Any) -> bool:
    return isinstance(values, list) and any(isinstance(value, str) for value in values)
