"""The facts about one node file and its own flaws, and the rows that can be read in a damaged one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, TypeGuard

from olympia_cli.catalog.snapshot import Snapshot, check_supported
from olympia_cli.errors import Damaged, OlympiaError, PathMissing, PathOutside, StoreError, Unsupported
from olympia_cli.format.codec import N_KEYS, Row, decode_node, decode_root, digest
from olympia_cli.format.definitions import CLASSES, Definition, examine
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec, kind_of_key
from olympia_cli.format.node import Node, Root, Sizes
from olympia_cli.format.paths import FileKind, all_plain, check_pointer, file_kind, parse_root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.salvage import LOST, Cells, Salvage, salvage
from olympia_cli.names import Kind, plural
from olympia_cli.tree.edit import max_keys, min_keys

# The flaw of one file.


@dataclass(frozen=True, slots=True)
class Flaw:
    """The code of a flaw, and its description. With `newer`, a newer program may be able to read the file. `hint` is
    the advice where fsck has none of its own.
    """

    code: str
    reason: str
    newer: bool = False
    hint: str | None = None

    def error(self, path: str) -> OlympiaError:
        """Return the flaw as an exception, for callers that cannot continue."""
        return Unsupported(self.reason) if self.newer else Damaged(self.code, path, self.reason, hint=self.hint)


def flaw_of(error: Exception, missing: str = "F201") -> Flaw:
    """Return the flaw that an error from reading or decoding a file means. `missing` is the code for a missing file."""
    if isinstance(error, Damaged):
        return Flaw(error.code, error.reason)
    if isinstance(error, PathMissing):
        return Flaw(missing, "it is missing")
    if isinstance(error, PathOutside):
        return Flaw("F212", error.message, hint=error.hint)
    if isinstance(error, Unsupported):
        return Flaw("F207", error.message, newer=True)
    if isinstance(error, OlympiaError):
        return Flaw("F205", f"it cannot be read: {error.message}")
    if isinstance(error, MemoryError):
        raise error  # a fault of this machine, not of the file
    # decoders should raise only the errors above; any other error also means that the file is damaged
    return Flaw("F205", f"it cannot be decoded: {type(error).__name__}: {str(error)[:100]}")


# The rows of a node file, sound or damaged: where its sections begin, and what a salvage can read.

OBJECT_KEY = re.compile("[BCD]===")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

DigestState = Literal["verified", "mismatch", "absent"]


@dataclass(frozen=True, slots=True)
class Sections:
    """The sections of a node file: system rows, then the pivot table from `start` to `end`, then action rows.

    `leftmost` is the index of the row without a key that precedes the first key. If there is none, it is the index of
    the row before the first key.
    """

    start: int
    leftmost: int
    end: int

    @classmethod
    def of(cls, rows: Sequence[Cells], java: bool = False) -> Sections:
        """Determine the most probable sections: by `n_keys`, unless the rows contradict it."""
        total = len(rows)
        start = next((at for at, (key, _, _) in enumerate(rows) if not _is_system(key)), total)
        leftmost = start if start == total or rows[start][0] is None else start - 1
        if java:
            return cls(start, leftmost, total)
        first = leftmost + 1
        end = next((at for at in range(first, total) if is_action(rows[at])), total)
        while end > first and rows[end - 1] == (None, None, None):
            end -= 1
        counted = number_in(system_rows(rows[:start]).get(N_KEYS, ""))
        if counted is not None and first + counted < end and not any(map(_is_pivot, rows[first + counted : end])):
            end = first + counted
        return cls(start, leftmost, end)


def system_rows(rows: Sequence[Cells]) -> dict[str, str]:
    """Return the values of the system rows. Of two rows with one name the first counts."""
    return {key: value for key, value, _ in reversed(rows) if isinstance(key, str) and isinstance(value, str)}


def number_in(text: str) -> int | None:
    """Return the number in a system row, or None if it holds none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def is_action(row: Cells) -> bool:
    """Return whether a row after the leftmost one is an action row rather than a row of the pivot table."""
    key, value, pnode = row
    if key == CATALOG_DEF:
        return True
    if not isinstance(value, str) or isinstance(pnode, str) or value.startswith("def/"):
        return False
    return len(value) % 4 == 0 and _BASE64.fullmatch(value) is not None


def _is_pivot(row: Cells) -> bool:
    """Return whether a row certainly belongs to the pivot table."""
    _, value, pnode = row
    return isinstance(pnode, str) or (isinstance(value, str) and value.startswith("def/"))


def _is_system(key: object) -> bool:
    return isinstance(key, str) and not OBJECT_KEY.match(key)


def digest_state(rows: Sequence[Cells], expected: str | None) -> DigestState:
    if expected is None:
        return "absent"
    return "verified" if _is_whole(rows) and digest(rows) == expected else "mismatch"


def _is_whole(rows: Sequence[Cells]) -> TypeGuard[Sequence[Row]]:
    return not any(LOST in row for row in rows)


@dataclass(slots=True)
class Remains:
    """The readable part of a damaged node: its system rows, its keys and values, and its children."""

    system: dict[str, str] = field(default_factory=dict)
    entries: list[tuple[str, str | None]] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    complete: bool = False
    """True if `entries` holds as many keys as the node declares."""
    actions: list[tuple[str, str]] = field(default_factory=list)
    """The action rows, if their digest is correct."""
    sizes: Sizes | None = None


def remains_of_node(data: bytes, keys: KeyCodec | None = None, sizes: Sizes | None = None) -> Remains:
    """Return what can be read of a node that cannot be decoded. With `keys`, keep only keys that objects can have."""
    try:
        return _remains(salvage(data, sizes), keys)
    except Exception:
        # `salvage` should never raise; if it does, the rest of the run must not fail
        return Remains()


def _remains(salvaged: Salvage, keys: KeyCodec | None) -> Remains:
    rows, parts = salvaged.rows, Sections.of(salvaged.rows, keys is not None and keys.java)
    system, behind = system_rows(rows[: parts.start]), rows[parts.end :]
    entries = [
        (key, value if isinstance(value, str) else None)
        for key, value, _ in rows[parts.start : parts.end]
        if isinstance(key, str) and (keys is None or keys.name(key) is not None)
    ]
    expected = number_in(system.get(N_KEYS, ""))
    whole = digest_state(behind, salvaged.actions_digest) == "verified"
    return Remains(
        system,
        entries,
        [child for _, _, child in rows if isinstance(child, str) and file_kind(child) is FileKind.NODE],
        expected is not None and len({key for key, _ in entries}) >= expected,
        [(key, value) for key, value, _ in behind if whole and isinstance(key, str) and isinstance(value, str)],
        salvaged.sizes,
    )


# The facts about one node file, and its own flaws: a function of its bytes alone.
#
# Nothing here depends on other nodes, so nodes can be examined on any machine, in any order.

_ROOT_INSIDE = "it is the root of a version, and stands inside a tree"

DefinitionName = tuple[str, Kind, str]
"""The path of a definition, the kind of its object, and the key of its object."""

FlawedPath = tuple[str, Flaw]
"""A path, and the flaw of its file."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts about one node. If it is not `readable`, they are what the salvage of the damaged file found.

    An item of `children` is None if its pointer cannot be followed. `has` holds the namespaces whose keys are in the
    node, `needs` the namespaces of its tables and views.
    """

    path: str
    readable: bool
    verified: bool = True
    is_leaf: bool = False
    keys: tuple[str, ...] = ()
    children: tuple[str | None, ...] = ()
    has: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    names: tuple[DefinitionName, ...] = ()
    marks: tuple[FlawedPath, ...] = ()

    @property
    def flaw(self) -> Flaw | None:
        """The first flaw, or None if the node by itself is sound."""
        return self.marks[0][1] if self.marks else None


@dataclass(frozen=True, slots=True)
class NodeRules:
    """The rules for the nodes of a catalog. `keys` and `order` are None if the catalog's sizes are unknown. `names` is
    true if the facts must include definitions.
    """

    keys: KeyCodec | None
    order: int | None
    java: bool
    names: bool

    @classmethod
    def of(cls, snapshot: Snapshot) -> NodeRules:
        """Return the rules of a version's catalog, definitions included."""
        return cls(snapshot.keys, snapshot.sizes.order, snapshot.file.java, names=True)

    @property
    def sizes(self) -> Sizes | None:
        if self.keys is None or self.order is None:
            return None
        return Sizes(self.order, self.keys.namespace_size, self.keys.table_size, self.keys.view_size)

    def look(self, path: str, data: bytes | StoreError) -> NodeFacts:
        """Examine a file that is inside a tree."""
        if isinstance(data, Exception):
            return self._remains(path, b"", [(path, flaw_of(data))])
        try:
            file = decode_node(data, path, self.java, self.sizes)
        except Exception as error:
            # any exception of a decoder means damage
            return self._remains(path, data, [(path, flaw_of(error))])
        is_root = parse_root_path(path) is not None
        marks = []
        if CATALOG_DEF in file.system and not is_root:
            marks.append((path, Flaw("F207", _ROOT_INSIDE)))
        return self._facts(path, file.node, is_root, file.verified, marks)

    def look_at_root(self, path: str, node: Node | bytes) -> NodeFacts:
        """Examine the root of a tree, given as its bytes if it cannot be decoded."""
        return self._remains(path, node, []) if isinstance(node, bytes) else self._facts(path, node, True, True, [])

    def look_at_root_file(self, path: str, root: bytes | Root) -> NodeFacts:
        """Examine a root file, decoded or not. The names include the catalog's definition."""
        try:
            root = decode_root(root, path, self.java) if isinstance(root, bytes) else root
            check_pointer(root.catalog_def, path)
        except Exception as error:
            # any exception of a decoder means damage
            return NodeFacts(path, False, marks=((path, flaw_of(error)),))
        facts = self.look_at_root(path, root.node)
        return replace(facts, names=((root.catalog_def, Kind.CATALOG, ""), *facts.names))

    def _facts(self, path: str, node: Node, is_root: bool, verified: bool, marks: list[FlawedPath]) -> NodeFacts:
        marks += self._check_fill(node, path, is_root)
        is_leaf = not node.children
        read = entries if is_leaf else entries_of_inner
        has, needs, names, flaws = read(self.keys, node.keys, node.values) if self.keys is not None else _NO_ENTRIES
        marks += [(path, flaw) for flaw in flaws]
        children: list[str | None] = []
        plain = is_leaf or all_plain([child for child in node.children if isinstance(child, str)])
        for child in node.children:
            if not isinstance(child, str) or not (plain or _leads_inside(child, path, marks)):
                children.append(None)  # the Java SDK writes NULL for some pointers
                continue
            if parse_root_path(child) is not None:
                marks.append((child, Flaw("F207", _ROOT_INSIDE)))
            children.append(child)
        return NodeFacts(
            path,
            True,
            verified,
            is_leaf,
            node.keys,
            tuple(children),
            has,
            needs,
            names if self.names else (),
            tuple(marks),
        )

    def _check_fill(self, node: Node, path: str, is_root: bool) -> Iterable[FlawedPath]:
        if self.order is None or self.java:
            return
        count, (fewest, most) = len(node.keys), _key_limits(self.order)
        reason = ""
        if count > most:
            reason = f"it has {plural(count, 'key')}, and a node of order {self.order} at most {most}"
        elif is_root and not count and not node.is_leaf:
            reason = "it is a root with a single child"
        elif not is_root and count < fewest:
            reason = f"it has {plural(count, 'key')}, and a node of order {self.order} at least {fewest}"
        if reason:
            yield path, Flaw("F211", reason)

    def _remains(self, path: str, data: bytes, marks: list[FlawedPath]) -> NodeFacts:
        """Salvage a damaged node, so that the files below it count neither as lost nor as orphans."""
        remains = remains_of_node(data, self.keys, self.sizes)
        entries = remains.entries if self.names and self.keys is not None else ()
        names = [
            (value, kind_of_key(key, ""), key)
            for key, value in entries
            if value is not None and file_kind(value) is FileKind.DEFINITION
        ]
        return NodeFacts(path, False, children=tuple(remains.children), names=tuple(names), marks=tuple(marks))


@lru_cache
def _key_limits(order: int) -> tuple[int, int]:
    return min_keys(order), max_keys(order)


Entries = tuple[tuple[str, ...], tuple[str, ...], tuple[DefinitionName, ...], tuple[Flaw, ...]]
"""The namespaces with a key, the namespaces that objects need, the definitions, and the flaws."""

_NO_ENTRIES: Entries = ((), (), (), ())


def entries(codec: KeyCodec, keys: tuple[str, ...], values: tuple[str | None, ...]) -> Entries:
    """Decode the keys and values of a node."""
    has: list[str] = []
    needs: list[str] = []
    names: list[DefinitionName] = []
    bad: list[str] = []
    marks: list[FlawedPath] = []
    plain = all_plain([value for value in values if value is not None])
    at = 0
    for kind, namespace, count in _spans(codec, keys):
        some = zip(keys[at : at + count], values[at : at + count], strict=True)
        at += count
        if kind is None:
            bad += [key for key, _ in some]
            continue
        named = [(value, kind, key) for key, value in some if value is not None]
        if kind is Kind.NAMESPACE:
            has += [namespace] * len(named)
        elif named and (not needs or needs[-1] != namespace):
            needs.append(namespace)
        names += named if plain else [name for name in named if _leads_inside(name[0], "", marks)]
    flaws = [flaw for _, flaw in marks]
    if bad:
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        flaws.append(Flaw("F215", f"the key {bad[0].strip()[:60]!a} belongs to no object{more}"))
    return tuple(has), tuple(needs), tuple(names), tuple(flaws)


INNER_NODES = 128
"""The size of the cache for inner nodes. Every commit rewrites the upper nodes with new pointers to children, but the
same keys and values. Leaves are too many to cache, and seldom repeat.
"""

entries_of_inner = lru_cache(INNER_NODES)(entries)


def _spans(codec: KeyCodec, keys: Sequence[str]) -> Sequence[tuple[Kind | None, str, int]]:
    """Return the kind, the namespace and the length of each run of keys. The kind is None for a key that no object can
    have.
    """
    try:
        return codec.spans(keys, "")
    except Damaged:
        names = [codec.name(key) for key in keys]
        return [(None, "", 1) if name is None else (name.kind, name.namespace, 1) for name in names]


def _leads_inside(pointer: str, holder: str, marks: list[FlawedPath]) -> bool:
    """Return whether a pointer can be followed. If not, add the reason to `marks`."""
    try:
        check_pointer(pointer, holder)
    except Damaged as error:
        marks.append((holder, Flaw("F212", error.reason)))
        return False
    return True


def look_at_definition(kind: Kind, data: bytes | StoreError, path: str) -> tuple[Definition, bool] | Flaw:
    """Return the definition in a file and whether its digest was verified, or the file's flaw.

    Raise Unsupported for the definition of a catalog that needs a newer program.
    """
    if isinstance(data, Exception):
        return flaw_of(data, missing="F307" if kind is Kind.CATALOG else "F301")
    verified = False
    try:
        definition, verified = examine(CLASSES[kind], data, path)
        if isinstance(definition, CatalogDef):
            check_supported(definition, path)
    except Unsupported as error:
        if verified:
            raise  # the file is sound
        return Flaw("F307", error.message)
    except Damaged as error:
        return flaw_of(error)
    return definition, verified
