"""The definitions that trees name. Each is read once, and then known by a small number."""

from __future__ import annotations

import os
import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from olympia_cli.format.definitions import Definition
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.findings import WithData, with_data
from olympia_cli.ops.fsck.graph import Graph, Mark, Numbering
from olympia_cli.ops.walk import (
    INNER_NODES,
    PATH_DIGEST_BYTES,
    DefinitionName,
    Files,
    Flaw,
    NodeFacts,
    Place,
    look_at_definition,
    path_digest,
)

# The definitions that an earlier fsck has verified, so that the next one need not read them again.
#
# Definitions are the main cost: there is one per object, and about a hundred per node. Nodes are always read, as trees
# are checked edge by edge. A record has 28 bytes:
#
# - The digest of the catalog's location and the path. The location matters, as a copy of a catalog has the same id and
#   paths.
# - The digest of the object's id, so that two objects with one id are still found.
# - The time of the check, in seconds.

_HEAD = b"olympia fsck-verified 1\n"
_RECORD = struct.Struct("<16s8sI")


class Verified:
    """Verified files, stored below `state` in one folder per catalog."""

    def __init__(self, state: Path, now_millis: int, max_age_millis: int | None = None) -> None:
        self._state = state
        self._now = now_millis // 1000
        self._oldest = 0 if max_age_millis is None else self._now - max_age_millis // 1000
        self._file: Path | None = None
        self._where = b""
        self._records = b""
        self._count = 0
        self._new: dict[bytes, bytes] = {}

    def open(self, catalog_id: str, uri: str) -> None:
        """Read the records of a catalog. Ignore a file that cannot be read."""
        # the id comes from the catalog, and must not lead out of the folder
        name = catalog_id if re.fullmatch(r"[0-9A-Za-z-]{1,64}", catalog_id) else _digest(catalog_id.encode(), 16).hex()
        self._file = self._state / "olympia" / name / "fsck-verified"
        self._where = uri.encode("utf-8", "surrogatepass") + b"\0"
        try:
            data = self._file.read_bytes()
        except OSError:
            return
        body = data[len(_HEAD) : -16]
        if data.startswith(_HEAD) and len(body) % _RECORD.size == 0 and data[-16:] == _digest(body, 16):
            self._records, self._count = body, len(body) // _RECORD.size

    def find(self, path: str) -> bytes | None:
        """Return the digest of the id in a definition that was verified recently, or None."""
        key = self._key(path)
        at = bisect_left(range(self._count), key, key=self._key_at)
        if at >= self._count or self._key_at(at) != key:
            return None
        _, id, seconds = _RECORD.unpack_from(self._records, at * _RECORD.size)
        return bytes(id) if self._oldest <= seconds <= self._now else None

    def add(self, path: str, id: bytes) -> None:
        """Record a verified definition."""
        self._new[self._key(path)] = id

    def save(self) -> None:
        """Write the records atomically. Ignore errors, such as a full disk."""
        if self._file is None or not self._new:
            return
        records = [
            record
            for at in range(self._count)
            if (record := self._records[at * _RECORD.size : (at + 1) * _RECORD.size])[:16] not in self._new
            and self._oldest <= _RECORD.unpack(record)[2] <= self._now
        ]
        records += [_RECORD.pack(key, id, self._now) for key, id in self._new.items()]
        records.sort()
        body = b"".join(records)
        scratch = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_bytes(_HEAD + body + _digest(body, 16))
            scratch.replace(self._file)
        except OSError:
            with suppress(OSError):
                scratch.unlink(missing_ok=True)

    def _key(self, path: str) -> bytes:
        return _digest(self._where + path.encode("utf-8", "surrogatepass"), 16)

    def _key_at(self, at: int) -> bytes:
        start = at * _RECORD.size
        return self._records[start : start + 16]


def state_home() -> Path:
    """Return the folder for the state of programs, by the XDG standard."""
    home = os.environ.get("XDG_STATE_HOME")
    return Path(home) if home else Path.home() / ".local" / "state"


def _digest(data: bytes, size: int) -> bytes:
    return blake2b(data, digest_size=size).digest()


# Find missing definitions without reading them: compare the names in nodes with one listing.
#
# A listing returns a thousand files per request. If a catalog has far more definitions than its nodes suggest, the
# listing is given up, and the report says so.

FOLDER = "def/"
MOST_NAMED = 200_000
"""The largest number of definitions to remember by name."""

LISTED_AT_ONCE, MOST_LISTS = 1000, 10
"""Files per request, and the number of requests that are always acceptable."""

MOST_MISSING = 1000
"""The largest number of missing definitions that are checked again one by one: they may have been committed after the
listing.
"""


@dataclass(slots=True)
class Named:
    """The definitions that each node names. `looked_for` is False if there are too many to look for. Only this class
    decides that.
    """

    looked_for: bool = True
    by_node: dict[str, tuple[str, ...]] = field(default_factory=dict)
    count: int = 0
    missing: set[str] = field(default_factory=set)
    _known_nodes: set[str] = field(default_factory=set)
    """The nodes whose definitions were looked for."""

    def note(self, facts: NodeFacts) -> None:
        self.add(facts.path, tuple(path for path, _, _ in listed_names(facts)))

    def add(self, node: str, names: tuple[str, ...]) -> None:
        self.count += len(names)
        if names and self.has_room():
            self.by_node[node] = names

    def has_room(self, more: int = 0) -> bool:
        """Return whether `more` further names fit."""
        return self.count + more <= MOST_NAMED

    def leave(self, number: int) -> None:
        """Count names that another process found and did not return, for lack of room."""
        self.count += number

    def look_for(self, files: Files, graph: Graph) -> None:
        """Mark the nodes that name missing definitions. May be called again after more nodes."""
        new = {path: names for path, names in self.by_node.items() if path not in self._known_nodes}
        candidates = {name for names in new.values() for name in names}
        self.looked_for = self.looked_for and self.has_room()
        if not candidates or not self.looked_for or files.out_of_time:
            return
        self._known_nodes.update(new)
        store = files.store
        most = LISTED_AT_ONCE * (MOST_LISTS + graph.read_count)
        for number, file in enumerate(store.list(FOLDER)):
            candidates.discard(file.path)
            if number >= most:
                self.looked_for = False
                return
        self.missing.update(path for path in sorted(candidates)[:MOST_MISSING] if not store.exists(path))
        for path, names in new.items():
            graph.marks += [Mark(graph.numbers[path], name, _MISSING) for name in names if name in self.missing]


def listed_names(facts: NodeFacts) -> tuple[DefinitionName, ...]:
    """Return the names of a node that a listing can confirm. None for a damaged node, as the names may be wrong."""
    return tuple(name for name in facts.names if name[0].startswith(FOLDER)) if facts.readable else ()


_MISSING = Flaw("F301", "it is missing")


READS_AT_ONCE = 8192
NO_ID = 0
_ID_BYTES = 8
MAX_UNVERIFIED = 10_000
"""The limit of remembered definitions without a digest. They are compared with the action log later."""


@dataclass(frozen=True, slots=True)
class BadDefinition:
    """A damaged definition."""

    path: str
    flaw: Flaw


def is_damage(code: str, *, doubtful: bool) -> bool:
    """Return whether the flaw counts as damage. A missing definition that only damaged nodes name does not: its path
    may be wrong.
    """
    return code != "F301" or not doubtful


class Definitions:
    """All definitions found so far: their numbers, the numbers of their objects' ids, and the damaged ones."""

    def __init__(self, files: Files, keys: KeyCodec | None, verified: Verified | None, data: bool) -> None:
        self._files = files
        self._keys = keys
        self._verified = verified
        self._data = data
        self._numbers = Numbering(PATH_DIGEST_BYTES)
        self._ids = Numbering(_ID_BYTES)
        self._kinds = array("B")
        self._waiting: list[tuple[Place, int, Kind, str]] = []
        self._known_digests: set[bytes] = set()
        self._inner: dict[tuple[DefinitionName, ...], array[int]] = {}
        """A cache: the numbers of the definitions that some inner nodes name."""
        self.id_of = array("I")
        self.level = bytearray()
        """The level of the node that first named each definition."""
        self.bad: dict[int, BadDefinition] = {}
        self.more_bad: dict[str, tuple[int, set[int]]] = {}
        """By code: the number of further damaged definitions that are not listed, and the nodes that name them."""
        self.doubtful: set[int] = set()
        """Definitions that only damaged nodes name."""
        self.unread = array("B")
        """1 for a definition that was not read: it was verified in an earlier run, or time ran out."""
        self.read_count = self.skipped = self.without_digest = 0
        self.unverified: dict[int, tuple[str, Kind, str]] = {}
        self.noted: list[tuple[Place, int, Kind, str]] | None = None
        """All definitions with all keys that name them, if another process may have to read them."""
        self.by_location: dict[bytes, array[int]] = {}

    def __contains__(self, path: str) -> bool:
        return path_digest(path) in self._numbers

    def __len__(self) -> int:
        return len(self.id_of)

    def number(self, path: str, kind: Kind | None = None) -> int | None:
        """Return the number of a definition, as it was first found, or as keys of this kind name it."""
        number = self._numbers.get(path_digest(path))
        if kind is None or number is None or self._kinds[number] == kind:
            return number
        return self._numbers.get(_digest_as(kind, path))

    @property
    def ids(self) -> int:
        """The number of ids, with `NO_ID`."""
        return len(self._ids) + 1

    def id_number(self, id: str) -> int:
        return self._ids.add(_id_digest(id)) + 1

    @property
    def waiting(self) -> int:
        """The number of definitions to read."""
        return len(self._waiting)

    def leave(self) -> None:
        """Clear the queue: another reader takes these."""
        self._waiting = []

    def note(self, facts: NodeFacts, level: int = 0) -> array[int]:
        """Return the numbers of the definitions that a node names. New ones are queued for reading.

        The versions of a node name nearly the same definitions, so this is optimised for known ones.
        """
        names, doubtful = facts.names, not facts.readable
        kinds, known_too = self._kinds, self._data or self.noted is not None or doubtful or bool(self.doubtful)
        if facts.children and not known_too and (numbers := self._inner.get(names)) is not None:
            return numbers
        numbers = self._numbers.add_all([path_digest(path) for path, _, _ in names])
        of_two_kinds = []
        for at, (number, (path, kind, key)) in enumerate(zip(numbers, names, strict=True)):
            if number == len(kinds):
                self._append(kind, level)
                self._note(Place(path, level), number, kind, key, True, doubtful)
            elif kinds[number] != kind:
                of_two_kinds.append(at)
            elif known_too:
                self._note(Place(path, level), number, kind, key, False, doubtful)
        for at in of_two_kinds:
            path, kind, key = names[at]
            numbers[at], new = self._numbered(path, kind, level)
            self._note(Place(path, level), numbers[at], kind, key, new, doubtful)
        if facts.children:
            if len(self._inner) >= INNER_NODES:
                self._inner.clear()
            self._inner[names] = numbers
        return numbers

    def _note(self, place: Place, number: int, kind: Kind, key: str, new: bool, doubtful: bool) -> None:
        # a renamed table or view keeps its definition, which is read again for the new name
        renamed = self._data and kind in (Kind.TABLE, Kind.VIEW)
        other_name = (renamed or self.noted is not None) and self._is_new(place.path, key)
        named = (place, number, kind, key)
        if other_name and self.noted is not None:
            self.noted.append(named)
        if new or (renamed and other_name):
            self._waiting.append(named)
        if new and doubtful:
            self.doubtful.add(number)
        elif not doubtful and self.doubtful:
            self.doubtful.discard(number)

    def known(self, path: str, kind: Kind, level: int) -> int:
        """Return the number of a definition that another process has read."""
        number, _ = self._numbered(path, kind, level)
        self.unread[number] = 0
        return number

    def _numbered(self, path: str, kind: Kind, level: int) -> tuple[int, bool]:
        number = self.number(path, kind)
        if number is not None:
            return number, False
        number = self._numbers.add(_digest_as(kind, path) if path in self else path_digest(path))
        self._append(kind, level)
        return number, True

    def _append(self, kind: Kind, level: int) -> None:
        """Add a definition under the next number."""
        self.id_of.append(NO_ID)
        self._kinds.append(kind)
        self.unread.append(1)
        self.level.append(min(level, 255))

    def set_id(self, number: int, digest: bytes) -> None:
        self.id_of[number] = self._ids.add(digest) + 1

    def note_metadata(self, number: int, location: str) -> None:
        """Record the metadata location of a table or view."""
        self.by_location.setdefault(_id_digest(location), array("I")).append(number)

    def _is_new(self, file: str, key: str) -> bool:
        """Return whether this definition or metadata location is new for this key."""
        digest = _id_digest(f"{file}\0{key}")
        new = digest not in self._known_digests
        self._known_digests.add(digest)
        return new

    def read(self) -> Iterator[WithData]:
        """Read the queued definitions. At level `data`, yield each table and Iceberg view, once per metadata location
        and name.
        """
        waiting, self._waiting = self._waiting, []
        if self._verified is not None:
            waiting = [entry for entry in waiting if not self._known(*entry)]
        for start in range(0, len(waiting), 1024):
            if self._files.out_of_time:
                return
            batch = waiting[start : start + 1024]
            contents = self._files.definitions([place for place, *_ in batch])
            ids: list[tuple[int, bytes]] = []
            for (_, number, kind, key), (place, data) in zip(batch, contents, strict=True):
                facts = look_at_definition(kind, data, place.path)
                if self.unread[number]:
                    self._files.looked_at(place, data, facts if isinstance(facts, Flaw) else None, is_node=False)
                    self._take(place.path, facts, number, kind, key, ids)
                elif isinstance(data, bytes):
                    # it is read a second time, but counted once
                    self._files.tally(place, 0, -len(data), is_node=False)
                with_data = self._with_data(facts, key)
                if with_data is not None:
                    yield with_data
            for (number, _), id in zip(ids, self._ids.add_all([digest for _, digest in ids]), strict=True):
                self.id_of[number] = id + 1

    def _known(self, place: Place, number: int, kind: Kind, key: str) -> bool:
        """Return whether an earlier run has verified the definition. Objects with data are always read, as data is
        checked again.
        """
        assert self._verified is not None
        if self._data and kind in (Kind.TABLE, Kind.VIEW):
            return False
        id = self._verified.find(place.path)
        if id is None:
            return False
        self.set_id(number, id)
        self.skipped += 1
        return True

    def _take(
        self,
        path: str,
        facts: tuple[Definition, bool] | Flaw,
        number: int,
        kind: Kind,
        key: str,
        ids: list[tuple[int, bytes]],
    ) -> None:
        self.unread[number] = 0
        self.read_count += 1
        self._files.progress.advance()
        if isinstance(facts, Flaw):
            self.bad[number] = BadDefinition(path, facts)
            return
        definition, verified = facts
        digest = _id_digest(definition.id)
        ids.append((number, digest))
        if not verified:
            self.without_digest += 1
            if len(self.unverified) < MAX_UNVERIFIED:
                self.unverified[number] = (path, kind, key)
        elif self._verified is not None:
            self._verified.add(path, digest)
        if self._data and isinstance(definition, TableDef | ViewDef) and definition.iceberg_metadata_location:
            self.note_metadata(number, definition.iceberg_metadata_location)

    def _with_data(self, facts: tuple[Definition, bool] | Flaw, key: str) -> WithData | None:
        """Return the table or view of a key, if its data is to be checked, and was not checked yet."""
        definition = None if isinstance(facts, Flaw) else facts[0]
        if not self._data or not isinstance(definition, TableDef | ViewDef) or self._keys is None:
            return None
        location = definition.iceberg_metadata_location
        if not location or not self._is_new(location, key):
            return None
        return with_data(self._keys.name(key), definition)

    def at_locations(self, locations: Iterable[str]) -> Iterator[int]:
        """Yield the definitions of tables and views with this metadata."""
        return (number for location in locations for number in self.by_location.get(_id_digest(location), ()))


def _digest_as(kind: Kind, path: str) -> bytes:
    """Return the digest for a file that keys of two kinds name. At least one key is wrong, so the file is checked as
    both.
    """
    return path_digest(f"{kind.word} {path}")


def _id_digest(id: str) -> bytes:
    return blake2b(id.encode("utf-8", "surrogatepass"), digest_size=_ID_BYTES).digest()
