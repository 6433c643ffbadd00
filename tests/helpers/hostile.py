"""Forged files: well-formed, with correct checksums, and full of content that no program writes.

`rot` only breaks files; here their structure is known and used.
"""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa

from olympia_cli.format.arrow import block_layout, footer_blocks
from olympia_cli.format.codec import COLUMNS
from olympia_cli.format.paths import LATEST, OLDEST, FileKind, file_kind, root_path
from olympia_cli.storage.local import LocalStore
from tests.helpers.damage import OUTSIDE, Raw, cut_behind_id, rewrite_definition, rewrite_raw

NUMBERS = ("0", "-1", "\u00b2", "9" * 18, "9" * 5000, "4294967295", "4294967296", "1e9", "", " 7", "NaN")
TEXTS = ("", " ", "\0", "\x1b[2J\u202e", "x" * 70_000, "\U0010ffff", "a" * 5000 + "\n", "=1+2", "null", *OUTSIDE)
DEEP = "[" * 100_000
JSONS = (DEEP, "{}", "[]", "null", "1" * 5000, '{"files": 1}', '[{"version": -1}]', '"' + "x" * 70_000 + '"')

Mutation = Callable[[random.Random, LocalStore], str]
"""Does something to a catalog, and says what."""

MUTATIONS: list[Mutation] = []


def mutation(change: Mutation) -> Mutation:
    MUTATIONS.append(change)
    return change


def _files(store: LocalStore, *kinds: FileKind) -> list[str]:
    return sorted(file.path for file in store.list() if file_kind(file.path) in kinds)


def _any(draw: random.Random, store: LocalStore, *kinds: FileKind) -> str:
    return draw.choice(_files(store, *kinds))


@mutation
def grown(draw: random.Random, store: LocalStore) -> str:
    """A file of terabytes that takes no room."""
    path = draw.choice(sorted(file.path for file in store.list()))
    size = draw.choice([2**20 + 1, 2**28 + 1, 2**40])
    os.truncate(os.path.join(store.uri, path), size)
    return f"{path} of {size} bytes"


@mutation
def bomb(draw: random.Random, store: LocalStore) -> str:
    """A node that unpacks to very many rows, or to one very long value."""
    path = _any(draw, store, FileKind.NODE, FileKind.ROOT)
    store.overwrite(path, _bomb(draw.choice(["zstd", "lz4"]), draw.choice([True, False])))
    return f"{path} is a bomb"


@cache
def _bomb(codec: str, rows: bool) -> bytes:
    nulls, schema = (
        pa.nulls(3_000_000 if rows else 1, pa.string()),
        pa.schema([(name, pa.string()) for name in COLUMNS]),
    )
    columns = [nulls if rows else pa.array(["x" * 2**25]), nulls, nulls]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return bytes(sink.getvalue())


@mutation
def claim(draw: random.Random, store: LocalStore) -> str:
    """A buffer that says that it unpacks to something else than it does."""
    path = _any(draw, store, FileKind.NODE, FileKind.ROOT)
    data = store.read(path)
    body, layout = block_layout(data, draw.choice(footer_blocks(data)[1]))
    offset, _ = draw.choice([buffer for buffer in layout.buffers if buffer[1]])
    size = draw.choice([-2, 0, 1, 2**31, 2**40, 2**63 - 1, -(2**63)])
    store.overwrite(path, data[: body + offset] + struct.pack("<q", size) + data[body + offset + 8 :])
    return f"{path} claims {size} bytes"


@mutation
def system_row(draw: random.Random, store: LocalStore) -> str:
    path, key = (
        _any(draw, store, FileKind.ROOT),
        draw.choice(["n_keys", "created_at_millis", "previous_root", "catalog_def"]),
    )
    value = draw.choice((*NUMBERS, *TEXTS))
    rewrite_raw(store, path, lambda raw: raw.set(key, value))
    return f"{path} has {key} {value[:40]!a}"


@mutation
def pivot_row(draw: random.Random, store: LocalStore) -> str:
    path, at, value = _any(draw, store, FileKind.NODE, FileKind.ROOT), draw.randrange(3), draw.choice(TEXTS)

    def change(raw: Raw) -> None:
        row = draw.randrange(len(raw.pivot))
        cells = list(raw.pivot[row])
        cells[at] = value
        raw.pivot[row] = (cells[0], cells[1], cells[2])

    rewrite_raw(store, path, change)
    return f"{path} has {COLUMNS[at]} {value[:40]!a}"


@mutation
def action_row(draw: random.Random, store: LocalStore) -> str:
    path, value = _any(draw, store, FileKind.ROOT), draw.choice([*TEXTS, "AAAA", "CAgICAgI" * 1000, "////"])

    def change(raw: Raw) -> None:
        raw.actions = [(key, value, None) for key, _, _ in raw.actions]

    rewrite_raw(store, path, change)
    return f"{path} has actions {value[:40]!a}"


@mutation
def far_version(draw: random.Random, store: LocalStore) -> str:
    version = draw.choice([100, 10_000, 2**31, 2**32 - 2, 2**32 - 1])
    source = _any(draw, store, FileKind.ROOT)
    store.overwrite(root_path(version), draw.choice([b"", store.read(source)]))
    if draw.random() < 0.5:
        store.overwrite(LATEST, str(version).encode())
    return f"version {version}, a copy of {source}"


@mutation
def hint(draw: random.Random, store: LocalStore) -> str:
    path, value = draw.choice([LATEST, OLDEST]), draw.choice([*NUMBERS, *TEXTS])
    store.overwrite(path, value.encode())
    return f"{path} says {value[:40]!a}"


@mutation
def definition_field(draw: random.Random, store: LocalStore) -> str:
    path = _any(draw, store, FileKind.DEFINITION)
    what: list[str] = []

    def change(definition: Any) -> None:
        field = draw.choice([field for field in definition.DESCRIPTOR.fields if field.name != "integrity"])
        value: Any = draw.choice(TEXTS[:8])
        if field.enum_type is not None:
            value = draw.choice([99, -1, 2**31 - 1])
        elif field.message_type is not None:
            definition.properties[draw.choice(TEXTS[3:8])] = value
            return
        elif field.cpp_type == field.CPPTYPE_BOOL:
            value = True
        elif field.cpp_type == field.CPPTYPE_BYTES or field.type == field.TYPE_BYTES:
            value = value.encode()
        elif field.cpp_type != field.CPPTYPE_STRING:
            value = draw.choice([0, 1, 2, 2**31 - 1])
        what.append(field.name)
        setattr(definition, field.name, value)

    rewrite_definition(store, path, change)
    return f"{path} has another {what}"


@mutation
def catalog_property(draw: random.Random, store: LocalStore) -> str:
    names = ("oldest", "purged", "quarantine", "purging")
    key = draw.choice([*(f"olympia.expire.{name}" for name in names), "olympia.export.x", "olympia.required-features"])
    value = draw.choice([*NUMBERS, *TEXTS, *JSONS])

    def change(definition: Any) -> None:
        definition.properties[key] = value

    for path in _files(store, FileKind.DEFINITION):
        if path.startswith("def/catalog/"):
            rewrite_definition(store, path, change)
    return f"the catalog has {key} {value[:40]!a}"


@mutation
def cut_at_a_field(draw: random.Random, store: LocalStore) -> str:
    """Cut a definition at the end of a field, so that the rest can be parsed."""
    path = _any(draw, store, FileKind.DEFINITION)
    store.overwrite(path, cut_behind_id(store.read(path)))
    return f"{path} cut behind its id"


@mutation
def save(draw: random.Random, store: LocalStore) -> str:
    saves = _files(store, FileKind.TRANSACTION)
    id = draw.choice(saves).removeprefix("dtxn/").partition(".")[0]
    number = draw.choice([7, 2**31, 10**10 - 1, 2**63, 10**100])
    path = f"dtxn/{id}.{number}.binpb"
    store.overwrite(path, draw.choice([b"", b"garbage", store.read(saves[0])]))
    return path


@mutation
def note(draw: random.Random, store: LocalStore) -> str:
    notes = ["ops/last-fsck.json", "ops/last-expire.json", "ops/export.json", *_files(store, FileKind.OPERATION)]
    path, value = draw.choice(notes), draw.choice(JSONS)
    store.overwrite(path, value.encode())
    return f"{path} holds {value[:40]!a}"


@mutation
def manifest(draw: random.Random, store: LocalStore) -> str:
    manifests = [path for path in _files(store, FileKind.OPERATION) if path.startswith("ops/expire/")]
    if not manifests:
        return "no manifest"
    document = json.loads(store.read(manifests[0]))
    where = draw.choice([document, draw.choice(document["files"])])
    key = draw.choice(sorted(where))
    where[key] = draw.choice([None, -1, 2**70, "node/notes.txt", "../x", [], {}, "\ud800"])
    store.overwrite(manifests[0], json.dumps(document).encode())
    return f"{manifests[0]} has another {key}"
