"""The version that a reader keeps, whatever is committed while Spark plans and works."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import pyarrow as pa

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.catalog.references import oldest_version, open_snapshot
from olympia_cli.catalog.retained import find_export
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile, read_hints
from olympia_cli.errors import Damaged, OlympiaError, PathMissing, VersionNotFound
from olympia_cli.format.paths import check_pointer, size_limit
from olympia_cli.names import AtExport, Latest, Reference
from olympia_cli.spark.failures import failures
from olympia_cli.spark.options import ReadOptions
from olympia_cli.spark.proof import Proof
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import Store

# Rows as Arrow record batches with exactly the types that Spark expects: it checks them, and converts nothing.

TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map": pa.map_(pa.string(), pa.string()),
    "binary": pa.binary(),
}
ROWS = 4096


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    return pa.schema([pa.field(name, _type(word)) for name, word in columns.items()])


def ddl(columns: Mapping[str, str]) -> str:
    """Return the columns as a Spark DDL schema."""
    return ", ".join(f"{name} {word}" for name, word in columns.items())


def _type(word: str) -> pa.DataType:
    if word.startswith("array<"):
        return pa.list_(_type(word[len("array<") : -1]))
    if word.startswith("struct<"):
        fields = (field.partition(":") for field in word[len("struct<") : -1].split(","))
        return pa.struct([(name, _type(inner)) for name, _, inner in fields])
    return TYPES[word]


def batches(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of at most ROWS rows. Timestamps in `rows` are milliseconds since 1970."""
    schema = arrow_schema(columns)
    rows = iter(rows)
    while batch := list(islice(rows, ROWS)):
        arrays = [_array([row.get(name) for row in batch], word) for name, word in columns.items()]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: list[Any], word: str) -> pa.Array:
    if word == "timestamp":
        values = [None if value is None else value * 1000 for value in values]
    elif word == "map":
        values = [None if value is None else list(value.items()) for value in values]
    elif word == "string":
        # file names may hold bytes that are not text, and Arrow's strings are text
        values = [value if value is None or value.isascii() else text(value) for value in values]
    return pa.array(values, TYPES[word])


def text(value: str) -> str:
    """Return text that Arrow can hold: `?` replaces characters that UTF-8 cannot encode."""
    return value.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Pin:
    """A version, the path of its root, and the oldest version at the time of lookup."""

    version: int
    width: int
    root: str
    oldest: int


@lru_cache(maxsize=8)
def store_at(catalog: str, storage: tuple[tuple[str, str], ...]) -> Store:
    """Open a catalog's store. A worker process runs task after task, and keeps its connections between them."""
    from pyspark import TaskContext

    store = open_store(catalog, dict(storage) or None, size_limit=size_limit)
    if TaskContext.get() is not None:
        # PySpark collects garbage after each task, which can take longer than the task when much is loaded; objects
        # that are loaded by now stay, so exclude them
        gc.freeze()
    return store


def proven_store(catalog: str, storage: tuple[tuple[str, str], ...], proof: Proof | None) -> Store:
    """Open a catalog's store, and check that it is the driver's. An error reaches the driver unchanged, wherever the
    task opens its store."""
    store = store_at(catalog, storage)
    if proof is not None:
        with failures():
            proof.check(store)
    return store


def store_of(options: ReadOptions) -> Store:
    """Open the store of the catalog that the options name."""
    return proven_store(options.catalog, options.storage, options.proof)


def pin(store: Store, reference: Reference) -> Pin:
    """Resolve a reference to a version now."""
    now = SystemClock().now_millis()
    snapshot = open_snapshot(store, reference, now)
    try:
        latest = snapshot if reference == Latest() else open_snapshot(store, Latest(), now)
    except Damaged:
        # older versions can be read although the latest cannot
        latest = snapshot
    oldest = oldest_version(latest)
    root = snapshot.file.path
    if isinstance(reference, AtExport) and snapshot.version < oldest:
        # the version is expired, and the export keeps a copy of its root
        root = check_pointer(find_export(reference.name, latest.definition).pin or root, root)
    return Pin(snapshot.version, snapshot.file.width, root, oldest)


def open_pinned(store: Store, pinned: Pin) -> Snapshot:
    """Open a pinned version, and read its catalog definition: a format that is unknown to this program is refused."""
    try:
        data = store.read(pinned.root)
    except PathMissing:
        raise gone(store, pinned.version, pinned.root) from None
    snapshot = Snapshot(store, RootFile.of(pinned.version, pinned.width, data))
    _ = snapshot.definition
    return snapshot


def gone(store: Store, version: int, path: str) -> OlympiaError:
    """Return the error for a root that existed and is missing now: the version was expired, or the root is lost."""
    oldest = read_hints(store).oldest
    if oldest is not None and version < oldest:
        return VersionNotFound(
            f"version {version} does not exist any more: the oldest is {oldest}",
            hint="it was expired meanwhile; read again",
        )
    return Damaged("F101", path, f"version {version} is missing")
