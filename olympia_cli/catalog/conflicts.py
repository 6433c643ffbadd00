"""Conflict rules between actions of concurrent commits: pure functions of two actions and an isolation level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from olympia_cli.catalog.replay import alter_of, touched
from olympia_cli.format.actions import ALTERS, CREATES, DROPS, EXPIRES, READS, RENAMES, RESTORES, Action, renamed
from olympia_cli.format.pb.actions_pb2 import ActionType, ExportDef
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.names import Kind, NamespaceName, ObjectName

T = ActionType


class ConflictVerdict(Enum):
    CLEAR = "clear"
    """No conflict: the pending action is applied to the newer version."""
    MERGED = "merged"
    """The committed action has already done the same as the pending one."""
    CONFLICT = "conflict"


_SILENT = EXPIRES | {T.COMMIT_INFO, T.CATALOG_COMPACT}
"""Action types that never conflict with a pending action.

Expire checks its own conditions, and a compaction changes no content.
"""

_SWEEPING = frozenset({T.CATALOG_ROLLBACK, T.CATALOG_REPAIR, T.CATALOG_CREATE})
"""Action types that replace the whole tree, and so conflict with every write."""

_CATALOG_WRITES = frozenset({T.CATALOG_ALTER, T.CATALOG_EXPORT})
_EXISTENCE = CREATES | RESTORES | DROPS | RENAMES
_DESCRIBES = frozenset({T.NAMESPACE_DESCRIBE, T.TABLE_DESCRIBE, T.TABLE_SELECT, T.VIEW_DESCRIBE})
_OBJECT_READS = _DESCRIBES | {T.NAMESPACE_EXISTS, T.TABLE_EXISTS, T.VIEW_EXISTS}


def judge(pending: Action, committed: Action, level: IsolationLevel) -> ConflictVerdict:
    """Return the verdict for a pending action against an action that was committed since the transaction began."""
    if committed.type in _SILENT or committed.type in READS or pending.type in _SILENT - {T.CATALOG_COMPACT}:
        return ConflictVerdict.CLEAR
    if pending.type in READS:
        return _judge_read(pending, committed) if level == IsolationLevel.SERIALIZABLE else ConflictVerdict.CLEAR
    if pending.type in _SWEEPING or committed.type in _SWEEPING:
        # a compaction can be repeated on any tree, even after a rollback
        return ConflictVerdict.CLEAR if pending.type == T.CATALOG_COMPACT else ConflictVerdict.CONFLICT
    if pending.type == T.CATALOG_COMPACT:
        return ConflictVerdict.CLEAR
    if not (_known(pending) and _known(committed)):
        return _judge_unknown(pending, committed)
    if pending.name is None or committed.name is None:
        both = pending.name is None and committed.name is None
        return _merge_alters(pending, committed) if both else ConflictVerdict.CLEAR
    creates = CREATES | RESTORES
    if pending.type in creates and committed.type in creates and pending.id and pending.id == committed.id:
        return ConflictVerdict.CONFLICT
    if pending.type in DROPS and pending.type == committed.type and pending.name == committed.name:
        return _judge_drops(pending, committed)
    if touched(pending) & touched(committed):
        return _merge_alters(pending, committed)
    return _judge_namespaces(pending, pending.name, committed, committed.name)


def _judge_read(pending: Action, committed: Action) -> ConflictVerdict:
    """Under SERIALIZABLE: return a conflict if the committed action changed the result of the read."""
    if committed.type in _SWEEPING or not _known(committed):
        return ConflictVerdict.CONFLICT
    if committed.name is None:
        return ConflictVerdict.CLEAR
    if pending.type not in _DESCRIBES and committed.type not in _EXISTENCE:
        return ConflictVerdict.CLEAR
    if pending.type in _OBJECT_READS and pending.name is not None:
        written = touched(committed)
        # renaming a namespace moves the objects in it
        moved = committed.type == T.NAMESPACE_RENAME and NamespaceName(pending.name.namespace) in written
        return ConflictVerdict.CONFLICT if pending.name in written or moved else ConflictVerdict.CLEAR
    if pending.type == T.CATALOG_SNOW_NAMESPACES:
        return ConflictVerdict.CONFLICT if committed.kind is Kind.NAMESPACE else ConflictVerdict.CLEAR
    shown = Kind.TABLE if pending.type == T.NAMESPACE_SHOW_TABLES else Kind.VIEW
    namespaces = {name.namespace for name in touched(committed)}
    in_range = pending.name is None or pending.name.namespace in namespaces
    return ConflictVerdict.CONFLICT if in_range and committed.kind in (shown, Kind.NAMESPACE) else ConflictVerdict.CLEAR


def _judge_unknown(pending: Action, committed: Action) -> ConflictVerdict:
    """Treat an action of a newer program as a write of its object, or of everything if it names none."""
    if pending.name is None or committed.name is None:
        return ConflictVerdict.CONFLICT
    shared = touched(pending) & touched(committed)
    around = {pending.name.namespace} & {committed.name.namespace}
    holds = Kind.NAMESPACE in (pending.kind, committed.kind)
    return ConflictVerdict.CONFLICT if shared or (around and holds) else ConflictVerdict.CLEAR


def _judge_drops(pending: Action, committed: Action) -> ConflictVerdict:
    same = not pending.id or not committed.id or pending.id == committed.id
    return ConflictVerdict.MERGED if same else ConflictVerdict.CONFLICT


def _judge_namespaces(
    pending: Action, pending_name: ObjectName, committed: Action, committed_name: ObjectName
) -> ConflictVerdict:
    """Apply the rules between a namespace and the objects in it, in either order of commits."""
    if pending.kind is Kind.NAMESPACE and committed.kind is Kind.NAMESPACE:
        return ConflictVerdict.CLEAR
    if committed.kind is Kind.NAMESPACE:
        gone = _namespaces_taken(committed)
        if pending.type in DROPS:
            # a drop is compatible with a cascade, but a rename has moved the object elsewhere
            return (
                ConflictVerdict.CONFLICT
                if committed.type in RENAMES and pending_name.namespace in gone
                else ConflictVerdict.CLEAR
            )
        inside = {name.namespace for name in touched(pending)}
        return ConflictVerdict.CONFLICT if inside & gone else ConflictVerdict.CLEAR
    if pending.kind is Kind.NAMESPACE:
        if committed.type in DROPS:
            return ConflictVerdict.CLEAR
        inside = {name.namespace for name in touched(committed)}
        if committed.type in RENAMES and pending.type in DROPS:
            # an object renamed out of the namespace does not prevent dropping it
            inside = {renamed(committed).namespace}
        return ConflictVerdict.CONFLICT if inside & _namespaces_taken(pending) else ConflictVerdict.CLEAR
    return ConflictVerdict.CLEAR


def _namespaces_taken(action: Action) -> set[str]:
    """Return the namespaces that an action drops, renames, or renames to."""
    if action.type in DROPS | RENAMES:
        return {name.namespace for name in touched(action)}
    return set()


def _merge_alters(pending: Action, committed: Action) -> ConflictVerdict:
    """Two changes of one object are compatible only if both name the changed parts, and these differ."""
    a, b = _changed_parts(pending), _changed_parts(committed)
    return ConflictVerdict.CLEAR if a and b and not a & b else ConflictVerdict.CONFLICT


def _changed_parts(action: Action) -> set[str]:
    """Return the properties and fields that an action changes, or an empty set if it may change anything."""
    if action.type == T.CATALOG_EXPORT:
        return {f"property olympia.export.{action.parse_payload(ExportDef).name}"}
    if action.type in ALTERS or action.type == T.CATALOG_ALTER:
        change = alter_of(action)
        keys = {f"property {key}" for key in (*change.set_properties, *change.unset_properties)}
        return keys | {f"field {field}" for field in change.fields}
    return set()


def _known(action: Action) -> bool:
    return action.type in ALTERS | _EXISTENCE | _CATALOG_WRITES | _SWEEPING | _SILENT | READS


@dataclass(frozen=True, slots=True)
class Clash:
    """Two conflicting actions, and the index of the commit with the committed one."""

    pending: Action
    committed: Action
    index: int


def settle(
    pending: Sequence[Action], commits: Iterable[Sequence[Action]], level: IsolationLevel
) -> list[Action] | Clash:
    """Return the pending actions, with those marked as merged that need no repetition, or the first conflict.

    Merged actions are still compared with later commits: an object that is created again under the name is not the one
    to be dropped.
    """
    merged: set[int] = set()
    facing = _Index(pending)
    for index, actions in enumerate(commits):
        for committed in actions:
            for at in facing.candidates(committed):
                verdict = judge(pending[at], committed, level)
                if verdict is ConflictVerdict.CONFLICT and not _can_reapply(pending[at], committed):
                    return Clash(pending[at], committed, index)
                if verdict is ConflictVerdict.MERGED:
                    merged.add(at)
    return [replace(action, merged=True) if at in merged else action for at, action in enumerate(pending)]


_LOCATIONS = {"field iceberg_metadata_location", "field iceberg_previous_metadata_location"}


def _can_reapply(pending: Action, committed: Action) -> bool:
    """Return True if two changes of a table's data conflict in nothing else, and the pending one can be repeated."""
    if pending.reapply is None or committed.type not in ALTERS or pending.name != committed.name:
        return False
    a, b = _changed_parts(pending), _changed_parts(committed)
    return bool(a and b) and a & b <= _LOCATIONS


class _Index:
    """An index of the pending actions by the objects they touch, to avoid comparing all pairs in large transactions."""

    def __init__(self, pending: Sequence[Action]) -> None:
        self._all = range(len(pending))
        self._catalog: list[int] = []
        self._names: dict[ObjectName, list[int]] = {}
        self._namespaces: dict[str, list[int]] = {}
        self._ids: dict[str, list[int]] = {}
        for at, action in enumerate(pending):
            if action.name is None:
                self._catalog.append(at)
            for name in touched(action):
                self._names.setdefault(name, []).append(at)
                self._namespaces.setdefault(name.namespace, []).append(at)
            if action.type in CREATES | RESTORES:
                self._ids.setdefault(action.id, []).append(at)

    def candidates(self, committed: Action) -> Iterable[int]:
        """Return the indexes of the pending actions that may conflict with a committed one."""
        if committed.type in _SILENT or committed.type in READS:
            return ()
        if committed.name is None or not _known(committed):
            return self._all
        found = set(self._catalog)
        for name in touched(committed):
            if isinstance(name, NamespaceName):
                found.update(self._namespaces.get(name.namespace, ()))
            else:
                found.update(self._names.get(name, ()))
                found.update(self._names.get(NamespaceName(name.namespace), ()))
        if committed.type in CREATES | RESTORES:
            found.update(self._ids.get(committed.id, ()))
        return sorted(found)
