"""Dump of one node file row by row, with all its problems. It accepts any bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged, InvalidName, InvalidOption, OlympiaError
from olympia_cli.format.actions import decode_action
from olympia_cli.format.codec import CREATED_AT_MILLIS, N_KEYS, PREVIOUS_ROOT, ROLLBACK_FROM_ROOT
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec, utf16_units
from olympia_cli.format.node import Sizes
from olympia_cli.format.paths import check_pointer, parse_root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, CommitInfoDef
from olympia_cli.format.salvage import LOST, Cell, Lost, Problem, Salvage, salvage
from olympia_cli.names import NamespaceName, ObjectName, TableName, ViewName, parse_table, plural
from olympia_cli.ops.fsck import read_actions
from olympia_cli.ops.inspect.actions import describe_action
from olympia_cli.ops.inspect.describe import describe_known, describe_name
from olympia_cli.ops.inspect.node_target import NodeBytes, catalog_sizes, find_node
from olympia_cli.ops.walk import (
    OBJECT_KEY,
    DigestState,
    Flaw,
    NodeRules,
    Sections,
    digest_state,
    is_action,
    number_in,
)

# Keys in readable form: names, or the raw key with its padding as counts.

_PADDING = re.compile(" +")
_COUNT = re.compile(r"\+([0-9]{1,6})")
_RAW = re.compile("[A-Za-z0-9+-]===|catalog_def$")


def compact_key(key: str) -> str:
    """Return the key with each run of padding as ` +95`. Names have no spaces, so this is unambiguous."""
    return _PADDING.sub(lambda match: f" +{len(match[0])} ", key).rstrip(" ")


def expand_key(text: str) -> str:
    """Return the key of a compact one. A complete key is returned unchanged."""
    parts = text.split(" ")
    if "" in parts or not all(_COUNT.fullmatch(part) for part in parts[1::2]):
        return text
    return "".join(" " * int(part[1:]) if at % 2 else part for at, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class KeyTarget:
    """The user's target: a raw key, or the names that the text may mean, the most probable first."""

    text: str
    raw: str | None
    names: tuple[ObjectName, ...]

    @classmethod
    def parse(cls, text: str) -> KeyTarget:
        if _RAW.match(text):
            return cls(text, expand_key(text), ())
        names: list[ObjectName] = []
        try:
            table = parse_table(text)
            names += [table, ViewName(table.namespace, table.name)]
        except InvalidName:
            pass
        inner = text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' else text
        try:
            names.append(NamespaceName(inner.replace('""', '"') if inner is not text else text))
        except InvalidName:
            if not names:
                raise
        return cls(text, None, tuple(names))

    def matches(self, key: str | None, name: ObjectName | None) -> bool:
        if self.raw is not None:
            return key is not None and key.rstrip(" ") == self.raw.rstrip(" ")
        return name is not None and name in self.names

    def keys(self, codec: KeyCodec) -> Iterable[tuple[str, ObjectName | None]]:
        """Return the keys to search for, each with its name."""
        if self.raw is not None:
            return [(self.raw, None)]
        keys = []
        refused: InvalidName | None = None
        for name in self.names:
            try:
                keys.append((codec.encode(name), name))
            except InvalidName as error:
                refused = refused or error
        if not keys:
            raise refused or InvalidOption(f"{self.text[:60]!a} names no object", hint="pass NS or NS.T")
        return keys

    @property
    def is_table(self) -> bool:
        return any(isinstance(name, TableName) for name in self.names)


# The parts of the dump of a node file.


@dataclass(frozen=True, slots=True)
class PivotRow:
    """A row of the pivot table. `lost` names the columns that cannot be read, and therefore are None here."""

    at: int
    key: str | None
    value: str | None
    pnode: str | None
    name: ObjectName | None = None
    lost: tuple[str, ...] = ()

    @property
    def object(self) -> str:
        """The object of the key, for display."""
        if self.name is not None:
            return f"{self.name.kind.word} {self.name}"
        return "NULL" if self.key is None and "key" not in self.lost else "?"

    def describe(self) -> dict[str, Any]:
        row = {"key": self.key, "value": self.value, "pnode": self.pnode, **describe_known(self.name)}
        return {**row, "lost": list(self.lost)} if self.lost else row


@dataclass(frozen=True, slots=True)
class ActionRow:
    """A row of the action log: its key, and the action as the log describes it."""

    key: str
    action: dict[str, Any]


@dataclass(slots=True)
class NodeDump:
    """The dump of a node file."""

    path: str
    size: int
    java: bool = False
    kind: Literal["root", "node"] = "node"
    system: dict[str, str] = field(default_factory=dict)
    sizes: Sizes | None = None
    pivot: list[PivotRow] = field(default_factory=list)
    actions: list[ActionRow] = field(default_factory=list)
    digest: DigestState = "absent"
    actions_digest: DigestState = "absent"
    problems: list[Problem] = field(default_factory=list)
    unsupported: str = ""

    @property
    def version(self) -> int | None:
        """The version whose root this file is, by the file's name alone, in any folder."""
        return parse_root_path("vn/" + self.path.rpartition("/")[2])

    @property
    def keys(self) -> int:
        return sum(row.at > 0 for row in self.pivot)

    @property
    def children(self) -> int:
        return sum(row.pnode is not None for row in self.pivot)

    @property
    def missing_rows(self) -> int:
        """The number of rows that are NULL and not stored. The table of the Java SDK has as many rows as the order."""
        return max(0, self.sizes.order - len(self.pivot)) if self.sizes is not None and self.pivot else 0

    def describe(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "kind": self.kind,
            "version": self.version,
            "bytes": self.size,
            "order": self.sizes.order if self.sizes is not None else None,
            "system": self.system,
            "pivot": [row.describe() for row in self.pivot],
            "buffer": [],
            "actions": [row.action for row in self.actions],
            "digest": self.digest,
            "actions_digest": self.actions_digest,
            "problems": [asdict(problem) for problem in self.problems],
        }

    def summary(self) -> str:
        """The first problem, and the number of the others."""
        if self.unsupported:
            return self.unsupported
        more = len(self.problems) - 1
        return f"{self.problems[0]}" + (f", and {plural(more, 'more problem')}" if more > 0 else "")


def dump_node(file: NodeBytes, sizes: Sizes | None = None) -> NodeDump:
    """Dump a node file. `sizes` are the sizes of its catalog if they are known. A root holds its own."""
    remains = salvage(file.data, sizes)
    dump = NodeDump(file.path, len(file.data), file.java, problems=list(remains.problems))
    dump.sizes = remains.sizes or sizes
    if remains.unknown_columns:
        names = ", ".join(remains.unknown_columns)
        dump.unsupported = f"it has columns that this program does not know: {names!a}"
    _Reader(dump, remains).read()
    if not dump.problems and not dump.unsupported:
        _check_strictly(dump, file)
    return dump


def read_target(catalog: Catalog, target: str) -> NodeDump:
    """Dump the node file that a target names."""
    file = find_node(catalog, target)
    return dump_node(file, catalog_sizes(catalog.store, file))


def _check_strictly(dump: NodeDump, file: NodeBytes) -> None:
    """Add the problems that fsck's rules find, so that both commands agree on damage."""
    sizes = dump.sizes
    keys, order = (None, None) if sizes is None else (KeyCodec.of(sizes, java=file.java), sizes.order)
    rules = NodeRules(keys, order, file.java, names=False)
    is_root = dump.kind == "root"
    facts = rules.look_at_root_file(file.path, file.data) if is_root else rules.look(file.path, file.data)
    flaws = [flaw for path, flaw in facts.marks if path == file.path]
    if is_root and not file.java and isinstance(actions := read_actions(file.data, file.path), Flaw):
        flaws.append(actions)
    for flaw in flaws:
        if flaw.newer:
            dump.unsupported = flaw.reason
        else:
            dump.problems.append(Problem(flaw.reason))


class _Reader:
    """Interpret rows in the most probable way, and note the problems."""

    def __init__(self, dump: NodeDump, remains: Salvage) -> None:
        self._dump = dump
        self._remains = remains
        self._rows = remains.rows
        self._parts = Sections.of(remains.rows, dump.java)
        self._codec = KeyCodec.of(dump.sizes, java=dump.java) if dump.sizes is not None else None

    def read(self) -> None:
        if not self._rows:
            if not self._dump.problems:
                self._note("it has no rows")
            self._dump.kind = "root" if self._dump.version is not None else "node"
            return
        self._system()
        self._check_count()
        self._pivot()
        self._check_pivot()
        self._actions()
        self._digests()

    def _note(self, message: str, row: int | None = None) -> None:
        self._dump.problems.append(Problem(message, row=row))

    # System rows

    def _system(self) -> None:
        dump, start = self._dump, self._parts.start
        for at, (key, value, pnode) in enumerate(self._rows[:start]):
            assert isinstance(key, str)
            if isinstance(value, str) and key not in dump.system:
                dump.system[key] = value
            elif value is not LOST:
                self._note(f"its system row {key[:60]!a} is empty or there twice", at)
            if isinstance(pnode, str):
                self._note(f"its system row {key[:60]!a} points to a node", at)
        if start == len(self._rows):
            self._note("it ends before its pivot table", start)
        elif self._parts.leftmost < start:
            self._note("its pivot table has no leftmost row", start)
        is_root = dump.version is not None
        if is_root and CATALOG_DEF not in dump.system:
            self._note("it names no catalog definition, as a root must")
        dump.kind = "root" if is_root or CATALOG_DEF in dump.system else "node"
        if number_in(dump.system.get(CREATED_AT_MILLIS, "")) is None:
            self._note(f"its {CREATED_AT_MILLIS} is missing or not a number")
        for name in (CATALOG_DEF, PREVIOUS_ROOT, ROLLBACK_FROM_ROOT):
            if name in dump.system:
                self._check_pointer(dump.system[name], None)

    # The pivot table

    def _check_count(self) -> None:
        text, parts = self._dump.system.get(N_KEYS), self._parts
        if self._dump.java:
            return
        if text is None or (counted := number_in(text)) is None:
            self._note(f"its {N_KEYS} is missing" if text is None else f"its {N_KEYS} is {text[:40]!a}, not a number")
        elif counted != (there := parts.end - parts.leftmost - 1) and parts.start < len(self._rows):
            self._note(f"its pivot table has {plural(max(0, there), 'key')}, but {N_KEYS} says {counted:,}")

    def _pivot(self) -> None:
        padding, leftmost = 0, self._parts.leftmost
        for at in range(self._parts.start, self._parts.end):
            key, value, pnode = self._rows[at]
            cells = zip(("key", "value", "pnode"), (key, value, pnode), strict=True)
            lost = tuple(name for name, cell in cells if cell is LOST)
            if at > leftmost and (key, value, pnode) == (None, None, None):
                padding += 1
                continue
            name = self._name(key, at) if isinstance(key, str) else None
            row = PivotRow(at - leftmost - padding, _plain(key), _plain(value), _plain(pnode), name, lost)
            self._dump.pivot.append(row)
            for pointer in (row.value, row.pnode):
                if pointer is not None:
                    self._check_pointer(pointer, at)
            if at > leftmost and key is None:
                self._note("a row of its pivot table has no key", at)
        if padding and not self._dump.java:
            self._note(f"{plural(padding, 'row')} between its keys, NULL in all columns")

    def _check_pivot(self) -> None:
        dump, start = self._dump, self._parts.leftmost
        rows = [row for row in dump.pivot if row.at > 0]
        if any(row.at == 0 and row.value is not None for row in dump.pivot):
            self._note("its leftmost row has a value", start)
        keys = [(row.at, utf16_units(row.key) if dump.java else row.key) for row in rows if row.key is not None]
        leaf = not any(row.pnode is not None for row in dump.pivot)
        if not (dump.java and leaf):
            for (_, before), (at, key) in pairwise(keys):
                if before >= key:
                    self._note("its keys are not in order, or one is there twice", start + at)
                    break
        pointers = ["pnode" not in row.lost and row.pnode is None for row in dump.pivot]
        if not dump.java and not leaf and any(pointers):
            self._note("some of its rows point to a child and some do not", start + dump.pivot[pointers.index(True)].at)

    def _name(self, key: str, at: int) -> ObjectName | None:
        """Decode a key of the pivot table. Note a problem if that fails."""
        name = self._parse(key)
        if name is None and not OBJECT_KEY.match(key):
            self._note(f"the key {key[:60]!a} is of no known type", at)
        elif name is None and self._codec is not None:
            self._note(f"the key {key[:60]!a} is not padded as the catalog's sizes say", at)
        return name

    def _parse(self, key: str) -> ObjectName | None:
        """Decode a key. Names have no spaces, so padded keys can be decoded without the sizes."""
        parts = _PADDING.split(key[4:].rstrip(" "))
        try:
            if self._codec is not None:
                return self._codec.decode(utf16_units(key) if self._dump.java else key, self._dump.path)
            if key.startswith("B===") and len(parts) == 1:
                return NamespaceName(parts[0])
            if key.startswith("C===") and len(parts) == 2:
                return TableName(*parts)
            if key.startswith("D===") and len(parts) == 2:
                return ViewName(*parts)
        except (Damaged, InvalidName):
            pass
        return None

    def _check_pointer(self, pointer: str, at: int | None) -> None:
        try:
            check_pointer(pointer, self._dump.path)
        except Damaged as error:
            self._note(error.reason, at)

    # Action rows

    def _actions(self) -> None:
        if self._dump.java:
            return
        for at in range(self._parts.end, len(self._rows)):
            key, value, pnode = self._rows[at]
            if (key, value, pnode) == (None, None, None):
                continue
            if self._dump.kind == "node":
                self._note("it has rows behind its pivot table, and is not a root", at)
                self._dump.kind = "root" if is_action(self._rows[at]) else "node"
            if isinstance(key, str) and isinstance(value, str) and not isinstance(pnode, str):
                self._dump.actions.append(self._action(key, value, at))
            elif LOST in (key, value):
                # the lost cell was noted before
                self._dump.actions.append(self._unreadable(_plain(key), "it cannot be read"))
            else:
                self._note("a row after the pivot table is not an action row", at)
                self._dump.actions.append(self._unreadable(_plain(key), "it is not an action row"))

    def _action(self, key: str, value: str, at: int) -> ActionRow:
        try:
            action = decode_action(key, value, self._dump.path)
            shown = describe_action(action)
            if action.type == ActionType.COMMIT_INFO:
                info = action.parse_payload(CommitInfoDef)
                detail = {"by": info.by, "message": info.message, "transaction_id": info.transaction_id}
                detail["program"] = f"{info.program} {info.program_version}".strip()
                shown["detail"] = {name: text for name, text in detail.items() if text}
            return ActionRow(key, shown)
        except Damaged as error:
            self._note(error.reason, at)
        except (OlympiaError, ValueError, TypeError, KeyError) as error:
            self._note(f"its action row for {key.strip()[:60]!a} cannot be decoded: {type(error).__name__}", at)
        return self._unreadable(key, "it cannot be decoded")

    def _unreadable(self, key: str | None, reason: str) -> ActionRow:
        """Return an action of which at most the object is known."""
        description = describe_known(self._parse(key) if key is not None else None)
        named = describe_name(None) if key == CATALOG_DEF else description
        return ActionRow(key or "", {"type": "unreadable", **named, "detail": {"key": key, "reason": reason}})

    # Digests

    def _digests(self) -> None:
        dump, end = self._dump, self._parts.end
        dump.digest = digest_state(self._rows[:end], self._remains.digest)
        dump.actions_digest = digest_state(self._rows[end:], self._remains.actions_digest)
        if dump.digest == "mismatch":
            self._note("checksum mismatch")
        if dump.actions_digest == "mismatch":
            self._note("checksum mismatch in its action rows")


def _plain(cell: Cell) -> str | None:
    return None if isinstance(cell, Lost) else cell
