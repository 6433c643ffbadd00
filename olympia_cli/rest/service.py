"""State shared by all requests: the catalog, its latest version, cached responses, and the group commit."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyiceberg.table.metadata import TableMetadata

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, OlympiaError, PathMissing, PathOutside, StorageFailed, Unsupported
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.format_v3 import to_json
from olympia_cli.iceberg.locations import LOCAL, Location
from olympia_cli.iceberg.settings import io_properties
from olympia_cli.names import TableName
from olympia_cli.ops.verify_metadata import check_registrable, parse_metadata, parse_view_metadata
from olympia_cli.rest.cache import ByteCache
from olympia_cli.rest.failures import Failure, bad_request
from olympia_cli.rest.files import KeptFiles, outside
from olympia_cli.rest.group_commit import GroupCommit
from olympia_cli.rest.latest import Latest
from olympia_cli.rest.settings import Settings
from olympia_cli.rest.tokens import Caller
from olympia_cli.storage.open import open_store

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
        self, catalog: Catalog, settings: Settings, options: dict[str, object] | None = None, scheme: str = ""
    ) -> None:
        """Open the files. `options` are the storage options for tables on stores of `scheme`."""
        self.catalog = catalog = catalog.remembering()
        self.settings = settings
        # twice the number of requests: a load may wait for a commit, which needs a thread of its own
        self.executor = ThreadPoolExecutor(2 * settings.max_requests, thread_name_prefix="serve")
        self.latest = Latest(catalog, self.executor)
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
            raise Failure(404, "NotFoundException", f"Failed to open input stream for file: {location}")
        if isinstance(data, OlympiaError):
            raise Failure(500, "InternalServerError", f"the metadata file cannot be read: {data.message}")
        return parse(data, location)

    def read_named(self, location: Location, parse: Parse) -> dict[str, Any]:
        """Read metadata that the client names. A missing or damaged file is a bad request."""
        try:
            metadata = self._parsed(location.text, self.files.fetch(location), parse)
            check_registrable(metadata, location.text)
            return metadata
        except (Failure, Damaged, Unsupported) as error:
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
