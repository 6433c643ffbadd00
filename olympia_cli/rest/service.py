"""State shared by all requests: the catalog, its latest version, caches, group commit, tokens and log."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TextIO, TypeVar

from pyiceberg.table.metadata import TableMetadata

from olympia_cli.catalog.catalog import Catalog, who
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, OlympiaError, PathMissing, PathOutside, Refused, StorageFailed, Unsupported
from olympia_cli.iceberg import LOCAL, Delete, Location, TableFiles, create_in, io_properties, to_json
from olympia_cli.masking import masked
from olympia_cli.names import TableName, time_text
from olympia_cli.ops.verify_metadata import check_registrable, parse_metadata, parse_view_metadata
from olympia_cli.rest.access import Access, Caller
from olympia_cli.rest.failures import ErrorResponse, bad_request
from olympia_cli.rest.group_commit import GroupCommit
from olympia_cli.rest.settings import Settings
from olympia_cli.storage.open import open_store

# A cache of immutable responses, limited in bytes.


class ByteCache:
    """An LRU cache of bytes. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: dict[Hashable, bytes] = {}
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        return self._size

    def get(self, key: Hashable) -> bytes | None:
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found
            return found

    def put(self, key: Hashable, value: bytes) -> None:
        # a single entry must not evict all others
        if len(value) > self._limit // 4:
            return
        with self._lock:
            former = self._kept.pop(key, None)
            self._size += len(value) - len(former or b"")
            self._kept[key] = value
            while self._size > self._limit:
                self._size -= len(self._kept.pop(next(iter(self._kept))))


# Metadata files and manifests of the server, read and created with its own settings, and cached.


class KeptFiles:
    """Files on our stores. The content of recent metadata files and manifests is cached, because they never change."""

    def __init__(self, files: TableFiles, cache_bytes: int) -> None:
        self._files = files
        self._kept = ByteCache(cache_bytes)

    def read(self, location: Location) -> bytes:
        # the root is part of the key: with another root, a link to the file may be forbidden
        key = (location, location.root)
        content = self._kept.get(key)
        if content is None:
            found = self._files.fetch(location)
            if isinstance(found, PathOutside):
                raise outside(location.text)
            if isinstance(found, PathMissing) or (isinstance(found, StorageFailed) and found.is_no_file):
                # a FIFO, for example, which would block a reader
                raise FileNotFoundError(f"{location.text} is not a file")
            if isinstance(found, OlympiaError):
                raise found
            content = found
            self._kept.put(key, content)
        return content

    def create(self, location: Location, content: bytes) -> Delete:
        try:
            return create_in(*self._files.opened(location), content)
        except PathOutside:
            raise outside(location.text) from None


def outside(location: str) -> Refused:
    """Return the error for a link out of a caller's folders. The message omits the link's target."""
    return Refused(f"{location} leads outside of what you may use here", hint="")


# The latest version, looked up once for simultaneous requests.

QUICK = 0.0003
"""Seconds. A store that answers faster is local, and asking it on the event loop costs less than a thread."""
SLOW = 0.05
"""Seconds. A store that takes longer is asked in a thread, until it answers within QUICK again."""

R = TypeVar("R")
S = TypeVar("S", Snapshot, Snapshot | None)


class LatestLookup:
    """Looks up the latest version for requests.

    Every request gets a version that was the latest at some moment after it arrived. Simultaneous requests share a
    lookup.
    """

    def __init__(self, catalog: Catalog, executor: Executor) -> None:
        self._head = catalog.remembering().head
        self._executor = executor
        self._lock = threading.Lock()
        self._is_quick = False
        self._running: asyncio.Task[Snapshot] | None = None
        self._next: asyncio.Task[Snapshot] | None = None

    async def snapshot(self) -> Snapshot:
        known = self._look_here() if self._is_quick else None
        if known is not None:
            return known
        # a lookup that began before this request may miss a commit in between
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._look_after(self._running))
        return await asyncio.shield(self._next)

    async def run(self, work: Callable[[], R]) -> R:
        """Run blocking work in a thread."""

        def done() -> R:
            try:
                return work()
            except StopIteration as error:
                # a Future cannot hold StopIteration, and its waiter would never return
                raise RuntimeError("something ended too early") from error

        return await asyncio.get_running_loop().run_in_executor(self._executor, done)

    async def _look_after(self, running: asyncio.Task[Snapshot] | None) -> Snapshot:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await self.run(self.look)

    def _look_here(self) -> Snapshot | None:
        """Return the known version if a single request proves that it is still the latest."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._timed(self._head.still)
        except OlympiaError:
            # the next lookup raises the error
            return None
        finally:
            self._lock.release()

    def look(self) -> Snapshot:
        """Look up the latest version in this thread."""
        with self._lock:
            return self._timed(self._head.look)

    def _timed(self, ask: Callable[[], S]) -> S:
        began = time.perf_counter()
        found = ask()
        took = time.perf_counter() - began
        self._is_quick = took < QUICK or (self._is_quick and took < SLOW)
        return found


NAMES_KEPT = 10_000
GC_ENABLED = "gc.enabled"
Parse = Callable[[bytes, str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Located:
    """A metadata file: its location in the catalog, and the location with the caller's root, which no link may
    leave.
    """

    text: str
    place: Location

    @property
    def key(self) -> tuple[str, str]:
        """The cache key. It includes the root, so that a cached file is only used for callers with the same root."""
        return self.text, self.place.root


class Service:
    """The served catalog with its caches. Thread-safe."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        record: Record,
        options: Mapping[str, object] | None = None,
        scheme: str = "",
    ) -> None:
        """Read the tokens, and open the files. `options` are the storage options for tables on stores of `scheme`."""
        self.catalog = catalog = catalog.remembering()
        self.settings = settings
        self.record = record
        self.access = Access(settings, who(), catalog.clock)
        # twice the number of requests: a load may wait for a commit, which needs a thread of its own
        self.executor = ThreadPoolExecutor(2 * settings.max_requests, thread_name_prefix="serve")
        self.latest = LatestLookup(catalog, self.executor)
        self.files = TableFiles(options, scheme, gives_up=False)
        self.io_properties = {"warehouse": catalog.store.uri, **io_properties(catalog.store.uri, options or {})}
        self.kept = KeptFiles(self.files, settings.cache_bytes)
        self.commits = GroupCommit(catalog, self.kept, retry_for=settings.request_timeout / 2)
        self.bodies = ByteCache(settings.cache_bytes)
        self._on_disk = open_store(LOCAL)
        self._lock = threading.Lock()
        self._located: tuple[Snapshot | None, dict[tuple[TableName, Caller], Located]] = (None, {})

    def close(self, seconds: float) -> bool:
        """Wait up to `seconds` for requests in progress. Return True if all have finished."""
        ending = threading.Thread(target=self.executor.shutdown, kwargs={"cancel_futures": True}, daemon=True)
        ending.start()
        ending.join(seconds)
        if ending.is_alive():
            return False
        self.files.close()
        self.catalog.store.close()
        return True

    # Metadata files never change, so responses made from them stay valid.

    def located(self, snapshot: Snapshot, name: TableName, caller: Caller) -> Located | None:
        """Return the location of the table's metadata for a caller, if it is cached for this version."""
        version, names = self._located
        return names.get((name, caller)) if version is snapshot else None

    def note_located(self, snapshot: Snapshot, name: TableName, caller: Caller, found: Located) -> None:
        """Cache the location of the table's metadata in a version."""
        with self._lock:
            version, names = self._located
            if version is not snapshot or len(names) >= NAMES_KEPT:
                names = {}
            names[name, caller] = found
            self._located = (snapshot, names)

    def is_there(self, found: Located) -> bool:
        """Return True if the metadata file still exists, or if the check would need a request.

        A cached response for a deleted file would hide that the table can no longer be written.
        """
        place = found.place
        return place.store != LOCAL or self._on_disk.exists(place.path)

    def known_body(self, found: Located, only_refs: bool) -> bytes | None:
        return self.bodies.get((*found.key, only_refs))

    def table_body(self, found: Located, only_refs: bool = False) -> bytes:
        """Return the response to a load of the table with this metadata file."""
        body = self.known_body(found, only_refs) if self.is_there(found) else None
        if body is None:
            metadata = self.read_metadata(found)
            shown = _with_snapshots_of_refs(metadata) if only_refs else metadata
            body = table_answer(found.text, json.dumps(self._kept(shown), separators=(",", ":")))
            self.bodies.put((*found.key, only_refs), body)
        return body

    def keep_body(self, found: Located, metadata: TableMetadata) -> bytes:
        """Return and cache the response for metadata that was just written."""
        body = table_answer(found.text, self.shown(metadata))
        self.bodies.put((*found.key, False), body)
        return body

    def shown(self, metadata: TableMetadata) -> str:
        """Return metadata as clients see it."""
        text = to_json(metadata)
        return json.dumps(self._kept(json.loads(text)), separators=(",", ":")) if self.settings.keep_files else text

    def _kept(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Set `gc.enabled` to false, unless the table sets it: engines then neither expire snapshots nor purge the
        table.
        """
        if not self.settings.keep_files:
            return metadata
        return {**metadata, "properties": {GC_ENABLED: "false", **(metadata.get("properties") or {})}}

    def read_metadata(self, found: Located, parse: Parse = parse_metadata) -> dict[str, Any]:
        """Read a metadata file of the catalog. If it is missing or damaged, the client is not at fault."""
        return self._parsed(found.text, self.files.fetch(found.place, found.text), parse)

    def _parsed(self, location: str, data: bytes | OlympiaError, parse: Parse) -> dict[str, Any]:
        if isinstance(data, StorageFailed) and not data.is_no_file:
            raise data
        if isinstance(data, PathOutside):
            raise outside(location)
        if isinstance(data, PathMissing):
            # the message of Iceberg's Java library, which distinguishes it from a missing table
            raise ErrorResponse(404, "NotFoundException", f"Failed to open input stream for file: {location}")
        if isinstance(data, OlympiaError):
            raise ErrorResponse(500, "InternalServerError", f"the metadata file cannot be read: {data.message}")
        return parse(data, location)

    def read_named(self, location: Location, parse: Parse) -> dict[str, Any]:
        """Read metadata that the client names. A missing or damaged file is a bad request."""
        try:
            metadata = self._parsed(location.text, self.files.fetch(location), parse)
            check_registrable(metadata, location.text)
            return metadata
        except (ErrorResponse, Damaged, Unsupported) as error:
            raise bad_request(error.message) from None

    def read_view(self, found: Located) -> dict[str, Any]:
        """Like `read_metadata`, for a view, with a cache."""
        kept = self.bodies.get((*found.key, None))
        if kept is not None:
            return dict(json.loads(kept))
        metadata = self.read_metadata(found, parse_view_metadata)
        self.bodies.put((*found.key, None), json.dumps(metadata).encode())
        return metadata


def table_answer(location: str | None, metadata: str) -> bytes:
    """Return the response for a table. A staged table has no metadata location yet."""
    shown = "" if location is None else f'"metadata-location":{json.dumps(location)},'
    return f'{{{shown}"metadata":{metadata},"config":{{}}}}'.encode()


@lru_cache(maxsize=10_000)
def etag_of(location: str, only_refs: bool = False) -> str:
    """Return the ETag for a metadata file and the kind of response."""
    digest = hashlib.sha256(location.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f'"{digest}{"-refs" if only_refs else ""}"'


def _with_snapshots_of_refs(metadata: dict[str, Any]) -> dict[str, Any]:
    refs = metadata.get("refs")
    named = (
        {ref.get("snapshot-id") for ref in refs.values() if isinstance(ref, dict)} if isinstance(refs, dict) else set()
    )
    named.add(metadata.get("current-snapshot-id"))
    snapshots = metadata.get("snapshots")
    kept = [one for one in snapshots or [] if isinstance(one, dict) and one.get("snapshot-id") in named]
    return {**metadata, "snapshots": kept} if isinstance(snapshots, list) else metadata


# The log of requests, one JSON line each, and metrics for Prometheus.

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Record:
    """Writes the log and counts requests. The metrics name no objects, because many people may read them."""

    def __init__(self, now_millis: Callable[[], int], stream: TextIO | None = None) -> None:
        self._now = now_millis
        self._stream = stream
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self.under_way = 0

    def event(self, event: str, **values: object) -> None:
        """Log an event that is not a request."""
        self._write({"time": time_text(self._now()), "event": event, **values})

    def request(self, method: str, path: str, operation: str, status: int, seconds: float, **values: object) -> None:
        # methods of unknown operations are counted together, so that clients cannot grow the metrics
        counted = method if operation != "none" else "other"
        with self._lock:
            self._requests[counted, operation, status] += 1
            self._seconds[operation] += seconds  # type: ignore[assignment]
            for bound in BUCKETS:
                if seconds <= bound:
                    self._buckets[operation, bound] += 1
        known = {key: value for key, value in values.items() if value is not None}
        line = {"time": time_text(self._now()), "method": method, "path": path[:2000], "operation": operation}
        self._write({**line, "status": status, "millis": round(seconds * 1000, 2), **known})

    def _write(self, line: dict[str, object]) -> None:
        line = {key: masked(value) if isinstance(value, str) else value for key, value in line.items()}
        # ASCII only, because a path may contain control characters for a terminal
        stream = sys.stderr if self._stream is None else self._stream
        try:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
        except (OSError, ValueError):
            return  # a closed log must not stop the server

    def prometheus(self, gauges: dict[str, tuple[str, float]]) -> str:
        """Return all metrics in Prometheus's format."""
        lines = ["# HELP olympia_requests_total Requests answered.", "# TYPE olympia_requests_total counter"]
        with self._lock:
            for (method, operation, status), count in sorted(self._requests.items()):
                labels = f'method="{method}",operation="{operation}",status="{status}"'
                lines.append(f"olympia_requests_total{{{labels}}} {count}")
            lines += [
                "# HELP olympia_request_seconds Duration of requests.",
                "# TYPE olympia_request_seconds histogram",
            ]
            for operation in sorted(self._seconds):
                for bound in BUCKETS:
                    count = self._buckets[operation, bound]
                    lines.append(f'olympia_request_seconds_bucket{{operation="{operation}",le="{bound}"}} {count}')
                total = sum(count for (_, name, _), count in self._requests.items() if name == operation)
                lines.append(f'olympia_request_seconds_bucket{{operation="{operation}",le="+Inf"}} {total}')
                lines.append(f'olympia_request_seconds_sum{{operation="{operation}"}} {self._seconds[operation]:.6f}')
                lines.append(f'olympia_request_seconds_count{{operation="{operation}"}} {total}')
        for name, (help, value) in gauges.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP olympia_{name} {help}", f"# TYPE olympia_{name} {kind}", f"olympia_{name} {value:g}"]
        return "\n".join(lines) + "\n"
