"""The version that a reader keeps, whatever is committed while Spark plans and works."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import lru_cache

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.catalog.exports import find_export
from olympia_cli.catalog.references import oldest_version, open_snapshot
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
    snapshot = Snapshot(store, RootFile(pinned.version, pinned.width, data))
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
