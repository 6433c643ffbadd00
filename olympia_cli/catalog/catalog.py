"""A catalog at a location: create it, open it, read any version, commit changes."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from olympia_cli.catalog.clock import Clock, Moment, SystemClock, moment
from olympia_cli.catalog.commit import Author, Committed, check_writable, commit, newer_versions, retry
from olympia_cli.catalog.properties import check_catalog_settings, check_properties
from olympia_cli.catalog.references import check_no_gap, open_head, open_snapshot
from olympia_cli.catalog.snapshot import MAJOR_VERSION, Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import what_remains, write_latest
from olympia_cli.errors import (
    CatalogExists,
    InvalidOption,
    LocationNotEmpty,
    OlympiaError,
    PathMissing,
    PathTaken,
    StoreError,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, encode_action
from olympia_cli.format.arrow import MAX_NODE_BYTES
from olympia_cli.format.codec import encode_root
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import EMPTY, Root
from olympia_cli.format.paths import (
    MAX_FILE_NAME_BYTES,
    MAX_VERSION,
    FileKind,
    file_kind,
    new_definition_path,
    new_node_path,
    root_path,
    size_limit,
)
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.format.pb.objects_pb2 import CatalogDef, IsolationLevel
from olympia_cli.names import Kind, Latest, ObjectName, Reference, new_uuid
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import Store

# A cache of the latest version.

SURE_FOR_MILLIS = 60_000
"""The time after a full lookup during which a missing next root proves that the known version is the latest. An expire
deletes a version after an hour of quarantine at the earliest, so the next version cannot have come and gone."""


class Known(NamedTuple):
    """A version that was the latest, and a moment before it was looked up."""

    snapshot: Snapshot
    looked_at: Moment


class Head:
    """Looks up the latest version. Every result was the latest at some moment after the call began.

    Files never change, so the next version reuses the cached files of the last one. Thread-safe.
    """

    def __init__(self, store: Store, clock: Clock, remembers: bool = True) -> None:
        """Create the cache. Without `remembers`, every call looks up the latest version from the store."""
        self.remembers = remembers
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Known | None = None
        self.made: Snapshot | None = None
        """The version last committed here. Only set without `remembers`."""

    def look(self, names: Sequence[ObjectName] = ()) -> Snapshot:
        """Return the latest version. Nodes on the way to the objects in `names` are read in the same round trips."""
        found = self.still(names) or self._newer()
        if found is None:
            at = moment(self._clock)
            found = open_snapshot(self._store, Latest(), at.wall, names, self._near())
            self._keep(found, at)
        return found

    def look_to_commit(self, at: Moment, names: Sequence[ObjectName] = ()) -> Snapshot:
        """Like `look`, for a commit that begins now, `at` this moment. Raise Damaged if a commit would close a gap in
        the history, or take the name of a lost version.
        """
        found = self._still_there(names)
        if found is not None and (found.hint or 0) > found.version:
            # a hint ahead tells of a lost version, so read it again, with all checks
            found = None
        if found is None and (found := self._newer()) is not None:
            check_no_gap(found)
        if found is None:
            found = open_head(self._store, at.wall, names, self._near())
            self._keep(found, at)
        return found

    def still(self, names: Sequence[ObjectName] = ()) -> Snapshot | None:
        """Return the known version if the next root is missing, which proves that it is still the latest."""
        known = self._sure()
        if known is None or known.version >= MAX_VERSION:
            return None
        after = root_path(known.version + 1, known.file.width)
        wanted = _wanted(known, names)
        if wanted:
            found = dict(self._store.read_many([after, *wanted]))
            _take(known, found, wanted)
            is_last = isinstance(found[after], PathMissing)
        else:
            is_last = not self._store.exists(after)
        # check again: the process may have been suspended before the answer
        return known if is_last and self._sure() is not None else None

    def _still_there(self, names: Sequence[ObjectName]) -> Snapshot | None:
        """Like `still`, for a commit: the next two roots are missing, and the version's own root is unchanged.

        This prevents a commit on a version that is gone, after a forced expire or a restored backup.
        """
        known = self._sure()
        if known is None or known.version + 2 > MAX_VERSION:
            return None
        after = [root_path(known.version + number, known.file.width) for number in (1, 2)]
        wanted = _wanted(known, names)
        found = dict(self._store.read_many([*after, known.file.path, *wanted]))
        _take(known, found, wanted)
        is_last = all(isinstance(found[path], PathMissing) for path in after)
        is_there = found[known.file.path] == known.file.data
        return known if is_last and is_there and self._sure() is not None else None

    def advance(self, done: Committed) -> None:
        """Take a version that was just committed on the version before it."""
        if not self.remembers:
            self.made = done.made or self.made
        known = self._known
        if known is not None and done.made is not None:
            self._keep(done.made, known.looked_at)

    def _newer(self) -> Snapshot | None:
        """Return the latest version if newer versions follow the known one, else None."""
        known = self._known
        if known is None or self._sure() is None:
            return None
        try:
            newer = list(newer_versions(known.snapshot))
        except OlympiaError:
            # a full lookup raises the error
            return None
        if not newer or self._sure() is None:
            return None
        self._keep(newer[-1], known.looked_at)
        return newer[-1]

    def _keep(self, found: Snapshot, at: Moment) -> None:
        if not self.remembers:
            return
        if found.file.beside:
            # files that were missing then may exist at the next lookup
            found.file = replace(found.file, beside={})
        with self._lock:
            known = self._known
            newer = known is None or at.elapsed > known.looked_at.elapsed or found.version > known.snapshot.version
            if newer:
                self._known = Known(found, at)

    def _near(self) -> Snapshot | None:
        return None if self._known is None else self._known.snapshot

    def _sure(self) -> Snapshot | None:
        """Return the known version as long as a missing next root proves it the latest."""
        known = self._known
        if known is None:
            return None
        now, at = moment(self._clock), known.looked_at
        is_sure = now.elapsed - at.elapsed < SURE_FOR_MILLIS and 0 <= now.wall - at.wall < SURE_FOR_MILLIS
        return known.snapshot if is_sure else None


def _take(known: Snapshot, found: Mapping[str, bytes | StoreError], wanted: Sequence[str]) -> None:
    for path in wanted:
        if isinstance(data := found[path], bytes):
            known.keep(path, data)


def _wanted(known: Snapshot, names: Sequence[ObjectName]) -> list[str]:
    try:
        return known.next_paths(names)
    except OlympiaError:
        # raised when the object is looked up
        return []


DAY_MILLIS = 86_400_000

StoreOrUri = Store | str | os.PathLike[str]
"""A store, its URI, or a folder. `options` configure the store of a URI: endpoint_url, region, …"""


class Catalog:
    """A catalog at a location.

    With `remembers`, it caches what it has read, since files never change, and checks whether a newer version exists.
    Without, every call looks up the latest version from the store, as maintenance must.
    """

    def __init__(self, store: Store, clock: Clock | None = None, *, remembers: bool = False) -> None:
        self.store = store
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.head = Head(store, self.clock, remembers)

    @classmethod
    def open(
        cls, location: StoreOrUri, clock: Clock | None = None, *, options: Mapping[str, object] | None = None
    ) -> Catalog:
        """Open the catalog at a location, with caches. Raise CatalogNotFound if there is none."""
        catalog = cls(_store_at(location, options), clock, remembers=True)
        catalog.snapshot()
        return catalog

    @classmethod
    def create(
        cls,
        location: StoreOrUri,
        *,
        order: int = 128,
        namespace_name_max_bytes: int = 100,
        table_name_max_bytes: int = 100,
        view_name_max_bytes: int = 100,
        node_file_max_bytes: int = 1_048_576,
        txn_ttl_millis: int = 3 * DAY_MILLIS,
        isolation: IsolationLevel = IsolationLevel.SNAPSHOT,
        properties: Mapping[str, str] | None = None,
        author: Author | None = None,
        clock: Clock | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Catalog:
        """Create a catalog with version 0. Check first that the store supports exclusive creation."""
        # imported here, because no other operation needs it
        from olympia_cli.storage.probe import check_exclusive_create

        check_properties(properties or {})
        check_catalog_settings(properties or {}, (), txn_ttl_millis)
        definition = CatalogDef(
            id=new_uuid(),
            major_version=MAJOR_VERSION,
            order=_in_range("order", order, 3, 2**20),
            namespace_name_max_size_bytes=_in_range("namespace name size", namespace_name_max_bytes, 1, 2**16),
            table_name_max_size_bytes=_in_range("table name size", table_name_max_bytes, 1, 2**16),
            view_name_max_size_bytes=_in_range("view name size", view_name_max_bytes, 1, 2**16),
            node_file_max_size_bytes=_in_range("node file size", node_file_max_bytes, 1, 2**31),
            properties=properties,
            txn_ttl_millis=txn_ttl_millis,
            txn_isolation_level=isolation,
        )
        _check_node_size(definition)
        store = _store_at(location, options)
        catalog = cls(store, clock)
        check_free(store)
        check_exclusive_create(store)
        catalog._write_first(definition, author if author is not None else Author(by=who()))
        return catalog

    def remembering(self) -> Catalog:
        """Return a handle with caches, for repeated reads."""
        return self if self.head.remembers else Catalog(self.store, self.clock, remembers=True)

    def anew(self) -> Catalog:
        """Return a handle without caches, for operations that must see the store as it is now."""
        return Catalog(self.store, self.clock) if self.head.remembers else self

    def snapshot(self, reference: Reference | None = None, names: Sequence[ObjectName] = ()) -> Snapshot:
        """Return a version: the latest, or the one that the reference means.

        Nodes on the way to the objects in `names` are read in the same round trips.
        """
        if reference is None or reference == Latest():
            return self.head.look(names)
        return open_snapshot(self.store, reference, self.clock.now_millis(), names)

    def begin(self, isolation: IsolationLevel | None = None, names: Sequence[ObjectName] = ()) -> Transaction:
        """Begin a transaction on the latest version. `names` as for `snapshot`."""
        return self.begin_as(isolation, None, names)

    def begin_as(
        self, isolation: IsolationLevel | None, id: str | None, names: Sequence[ObjectName] = ()
    ) -> Transaction:
        """Like `begin`, with the caller's transaction id."""
        opened_at = moment(self.clock)
        base = self.head.look_to_commit(opened_at, names)
        check_writable(base)
        return Transaction(base, self.clock, isolation=isolation, id=id, opened_at=opened_at)

    def commit(
        self,
        transaction: Transaction,
        message: str = "",
        *,
        by: str | None = None,
        retry_for: float = 60.0,
        atomic: bool = False,
    ) -> Committed:
        """Commit a transaction of this catalog."""
        author = Author(by=who() if by is None else by, message=message)
        done = commit(transaction, author, retry_for=retry_for, atomic=atomic)
        self.head.advance(done)
        return done

    def change(
        self,
        do: Callable[[Transaction], None],
        names: Sequence[ObjectName] = (),
        message: str = "",
        *,
        retry_for: float = 60.0,
        atomic: bool = False,
        again: bool = False,
    ) -> Committed:
        """Commit a change of the latest version.

        With `again`, retry it after a conflict: `do` is called with a new transaction each time.
        """

        def change() -> Committed:
            transaction = self.begin(names=names)
            do(transaction)
            return self.commit(transaction, message, retry_for=retry_for, atomic=atomic)

        return retry(change) if again else change()

    @contextmanager
    def transaction(self, message: str = "", isolation: IsolationLevel | None = None) -> Iterator[Transaction]:
        """A transaction that is committed at the end of the block. An error in the block discards it."""
        transaction = self.begin(isolation)
        yield transaction
        self.commit(transaction, message)

    def _write_first(self, definition: CatalogDef, author: Author) -> None:
        """Write version 0 in this order:

        1. The catalog's definition.
        2. Root 0, created exclusively. From here on the catalog exists.
        3. `vn/latest`.
        """
        content = definitions.body(definition)
        path = new_definition_path(Kind.CATALOG, None)
        sizes = sizes_of(definition)
        keys = KeyCodec.of(sizes)
        actions = [Action(ActionType.CATALOG_CREATE, None, content), author.sign(new_uuid())]
        root = Root(EMPTY, path, self.clock.now_millis(), sizes=sizes)
        data = encode_root(root, [encode_action(action, keys) for action in actions])
        self.store.create(path, definitions.encode(content, path))
        try:
            self.store.create(root_path(0), data)
        except PathTaken:
            raise _catalog_exists(self.store) from None
        write_latest(self.store, 0)


def who() -> str:
    """Return who runs the program, for the log: OLYMPIA_BY if set, else user@host."""
    if named := os.environ.get("OLYMPIA_BY"):
        return named
    given = (os.environ.get(name) for name in ("LOGNAME", "USER", "LNAME", "USERNAME"))
    return f"{next(filter(None, given), '') or _user(os.getuid())}@{socket.gethostname()}"


@lru_cache(maxsize=4)
def _user(number: int) -> str:
    """Return the name of a user id. Cached, because the lookup reads a file or asks a server."""
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except (KeyError, OSError):
        return "unknown"


def _store_at(location: StoreOrUri, options: Mapping[str, object] | None) -> Store:
    if isinstance(location, str | os.PathLike):
        return open_store(os.fspath(location), options, size_limit=size_limit)
    if options:
        raise InvalidOption(f"a store that is open takes no options: {', '.join(sorted(options))}")
    return location


def check_free(store: Store) -> None:
    """Raise an error if a catalog cannot be created here. The definition of an interrupted `create` is allowed."""
    # check root 0 first: listing a large catalog takes long
    if store.exists(root_path(0)):
        raise _catalog_exists(store)
    for file in store.list("vn/"):
        if file_kind(file.path) is FileKind.ROOT:
            raise _catalog_exists(store)
    if remains := what_remains(store):
        # another writer may have created the catalog meanwhile
        if store.exists(root_path(0)):
            raise _catalog_exists(store)
        raise LocationNotEmpty(
            f"{store.uri} has no root, but {remains}",
            hint="see what can be saved",
            command=("-c", store.uri, "fsck"),
        )
    for file in store.list():
        if file_kind(file.path) in (FileKind.UNKNOWN, FileKind.DATA):
            raise LocationNotEmpty(f"{store.uri} holds files that are not a catalog's, such as {file.path!a}")


def _catalog_exists(store: Store) -> CatalogExists:
    return CatalogExists(f"there is a catalog at {store.uri} already", hint="open it, or choose another location")


def _check_node_size(definition: CatalogDef) -> None:
    """Raise InvalidOption if the widest full node of this order exceeds the node size. The tree enforces only the
    order.
    """
    names = definition.namespace_name_max_size_bytes + max(
        definition.table_name_max_size_bytes, definition.view_name_max_size_bytes
    )
    value = len("def/catalog/") + MAX_FILE_NAME_BYTES
    widest = 4 + names + value + len(new_node_path()) + 3 * 4
    needed = (definition.order - 1) * widest + 8192
    allowed = min(definition.node_file_max_size_bytes, MAX_NODE_BYTES)
    if needed > allowed:
        raise InvalidOption(
            f"a full node of order {definition.order} may need {needed:,} bytes, more than the {allowed:,} allowed",
            hint="choose a lower order, shorter names or larger node files",
        )


def _in_range(what: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise InvalidOption(f"the {what} {value} is out of range", hint=f"choose {low} to {high}")
    return value
