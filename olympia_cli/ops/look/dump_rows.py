"""From the rows of a node file, sound or not, to what they most probably are, and what does not fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeGuard

from olympia_cli.errors import Damaged, InvalidName, OlympiaError
from olympia_cli.format.actions import decode_action
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec, utf16_units
from olympia_cli.format.node_file import (
    CREATED_AT_MILLIS,
    N_KEYS,
    PREVIOUS_ROOT,
    ROLLBACK_FROM_ROOT,
    Row,
    digest,
)
from olympia_cli.format.paths import check_pointer
from olympia_cli.format.pb.actions_pb2 import ActionType, CommitInfoDef
from olympia_cli.format.salvage import LOST, Cell, Cells, Lost, Problem, Salvage
from olympia_cli.names import NamespaceName, ObjectName, TableName, ViewName
from olympia_cli.ops.look.describe import describe_action, describe_name
from olympia_cli.ops.look.dump_values import ActionRow, DigestState, NodeDump, PivotRow

_OBJECT_KEY = re.compile("[BCD]===")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_SPACES = re.compile(" +")


def read_rows(dump: NodeDump, remains: Salvage) -> None:
    """Fill in what the rows say."""
    _Reader(dump, remains).read()


class _Reader:
    """Takes rows for what they most probably are, and notes what does not fit."""

    def __init__(self, dump: NodeDump, remains: Salvage) -> None:
        self._dump = dump
        self._remains = remains
        self._rows = remains.rows
        self._leftmost = 0
        """The row without a key before the first key; the row before the first key where there is none."""
        self._codec: KeyCodec | None = None
        if (sizes := dump.sizes) is not None:
            self._codec = KeyCodec(sizes.namespace, sizes.table, sizes.view, java=dump.java)

    def read(self) -> None:
        if not self._rows:
            if not self._dump.problems:
                self._note("it has no rows")
            self._dump.kind = "root" if self._dump.version is not None else "node"
            return
        start = self._system()
        end = self._pivot_end(start)
        self._pivot(start, end)
        self._check_pivot()
        self._actions(end)
        self._digests(end)

    def _note(self, message: str, row: int | None = None) -> None:
        self._dump.problems.append(Problem(message, row=row))

    # System rows

    def _system(self) -> int:
        """Take the system rows; the row behind them."""
        dump = self._dump
        at = 0
        for at, (key, value, pnode) in enumerate(self._rows):
            if key is None:
                break
            if not isinstance(key, str) or _OBJECT_KEY.match(key):
                self._note("its pivot table has no leftmost row", at)
                self._leftmost = at - 1
                return self._after_system(at)
            if isinstance(value, str) and key not in dump.system:
                dump.system[key] = value
            elif value is not LOST:
                self._note(f"its system row {key[:60]!a} is empty or there twice", at)
            if isinstance(pnode, str):
                self._note(f"its system row {key[:60]!a} points to a node", at)
        else:
            at = len(self._rows)
            self._note("it ends before its pivot table", at)
        self._leftmost = at
        return self._after_system(at)

    def _after_system(self, start: int) -> int:
        dump = self._dump
        is_root = dump.version is not None
        if is_root and CATALOG_DEF not in dump.system:
            self._note("it names no catalog definition, as a root must")
        dump.kind = "root" if is_root or CATALOG_DEF in dump.system else "node"
        if not _is_number(dump.system.get(CREATED_AT_MILLIS, "")):
            self._note(f"its {CREATED_AT_MILLIS} is missing or not a number")
        for name in (CATALOG_DEF, PREVIOUS_ROOT, ROLLBACK_FROM_ROOT):
            if name in dump.system:
                self._check_pointer(dump.system[name], None)
        return start

    # The pivot table

    def _pivot_end(self, start: int) -> int:
        """The row behind the pivot table: as n_keys says, unless the rows themselves speak against it."""
        total = len(self._rows)
        if self._dump.java:
            return total
        text = self._dump.system.get(N_KEYS)
        first = self._leftmost + 1
        end = next((at for at in range(first, total) if _is_action(self._rows[at])), total)
        while end > first and self._rows[end - 1] == (None, None, None):
            end -= 1
        if text is None or not _is_number(text):
            self._note(f"its {N_KEYS} is missing" if text is None else f"its {N_KEYS} is {text[:40]!a}, not a number")
            return end
        counted = first + int(text)
        if counted < end and not any(_is_pivot(row) for row in self._rows[counted:end]):
            return counted
        if counted != end and start < total:
            self._note(f"its pivot table has {max(0, end - first):,} keys, but {N_KEYS} says {int(text):,}")
        return end

    def _pivot(self, start: int, end: int) -> None:
        padding = 0
        for at in range(start, end):
            key, value, pnode = self._rows[at]
            cells = zip(("key", "value", "pnode"), (key, value, pnode), strict=True)
            lost = tuple(name for name, cell in cells if cell is LOST)
            if at > self._leftmost and (key, value, pnode) == (None, None, None):
                padding += 1
                continue
            name = self._name(key, at) if isinstance(key, str) else None
            row = PivotRow(at - self._leftmost - padding, _plain(key), _plain(value), _plain(pnode), name, lost)
            self._dump.pivot.append(row)
            for pointer in (row.value, row.pnode):
                if pointer is not None:
                    self._check_pointer(pointer, at)
            if at > self._leftmost and key is None:
                self._note("a row of its pivot table has no key", at)
        if padding and not self._dump.java:
            self._note(f"{padding} rows that are NULL throughout stand between its keys")

    def _check_pivot(self) -> None:
        dump, start = self._dump, self._leftmost
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
        if dump.sizes is not None and not dump.java and len(rows) > dump.sizes.order - 1:
            self._note(f"it has {len(rows):,} keys, and the order allows {dump.sizes.order - 1:,}")

    def _name(self, key: str, at: int) -> ObjectName | None:
        """The name in a key of the pivot table."""
        name = self._parse(key)
        if name is None and not _OBJECT_KEY.match(key):
            self._note(f"the key {key[:60]!a} is of no known type", at)
        elif name is None and self._codec is not None:
            self._note(f"the key {key[:60]!a} is not padded as the catalog's sizes say", at)
        return name

    def _parse(self, key: str) -> ObjectName | None:
        """The name in a key. Names hold no spaces, so it can be had without the sizes, if there is any padding."""
        parts = _SPACES.split(key[4:].rstrip(" "))
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

    def _actions(self, end: int) -> None:
        if self._dump.java:
            return
        for at in range(end, len(self._rows)):
            key, value, pnode = self._rows[at]
            if (key, value, pnode) == (None, None, None):
                continue
            if self._dump.kind == "node":
                self._note("it has rows behind its pivot table, and is not a root", at)
                self._dump.kind = "root" if _is_action(self._rows[at]) else "node"
            if isinstance(key, str) and isinstance(value, str) and not isinstance(pnode, str):
                self._dump.actions.append(self._action(key, value, at))
            elif LOST in (key, value):
                # what is lost was said already
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
            self._note(f"its action row for {key.strip()[:60]!a} makes no sense: {type(error).__name__}", at)
        return self._unreadable(key, "it cannot be decoded")

    def _unreadable(self, key: str | None, reason: str) -> ActionRow:
        """An action of which only the object is known."""
        named: dict[str, Any] = {"object": None, "namespace": None, "name": None}
        if key == CATALOG_DEF:
            named = describe_name(None)
        elif key is not None and (name := self._parse(key)) is not None:
            named = describe_name(name)
        return ActionRow(key or "", {"type": "unreadable", **named, "detail": {"key": key, "reason": reason}})

    # Digests

    def _digests(self, end: int) -> None:
        dump = self._dump
        dump.digest = _compare(self._rows[:end], self._remains.digest)
        dump.actions_digest = _compare(self._rows[end:], self._remains.actions_digest)
        if dump.digest == "mismatch":
            self._note("its rows are not what its digest says")
        if dump.actions_digest == "mismatch":
            self._note("its action rows are not what their digest says")


def _compare(rows: Sequence[Cells], expected: str | None) -> DigestState:
    if expected is None:
        return "absent"
    return "verified" if _is_whole(rows) and digest(rows) == expected else "mismatch"


def _is_whole(rows: Sequence[Cells]) -> TypeGuard[Sequence[Row]]:
    return not any(LOST in row for row in rows)


def _is_action(row: Cells) -> bool:
    """Whether a row behind the leftmost one is an action row rather than a row of the pivot table."""
    key, value, pnode = row
    if key == CATALOG_DEF:
        return True
    if not isinstance(value, str) or isinstance(pnode, str) or value.startswith("def/"):
        return False
    return len(value) % 4 == 0 and _BASE64.fullmatch(value) is not None


def _is_pivot(row: Cells) -> bool:
    """Whether a row is one of the pivot table for sure."""
    _, value, pnode = row
    return isinstance(pnode, str) or (isinstance(value, str) and value.startswith("def/"))


def _plain(cell: Cell) -> str | None:
    return None if isinstance(cell, Lost) else cell


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
