"""Revert of versions: undo their changes, and keep the later ones.

A revert consists of ordinary actions on the objects that those versions changed. Conflicts with other writers, retries
and distributed transactions work as for every commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from olympia_cli.catalog.lineage import living_names
from olympia_cli.catalog.properties import PROTECTING
from olympia_cli.catalog.replay import moved, rollback_target, touched
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import Damaged, NotRevertible, RevertConflict, VersionNotFound, command_words
from olympia_cli.format.actions import EXPIRES, Action
from olympia_cli.format.definitions import body
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, ExportDef, RollbackDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName, plural
from olympia_cli.ops.inspect import ObjectChange, describe_name, diff, log

T = ActionType
Found = CatalogObject[ObjectDefinition]
_INVERSE = {"created": "dropped", "dropped": "created", "altered": "altered", "renamed": "renamed"}


@dataclass(frozen=True, slots=True)
class Conflict:
    """An object that cannot be reverted, and the reason. `name` is None for the catalog itself."""

    name: ObjectName | None
    why: str


@dataclass(slots=True)
class RevertPlan:
    """The changes of a revert, in the order in which they are displayed, and the changes of the catalog's properties
    and settings.
    """

    first: int
    last: int
    before: Snapshot
    changes: list[ObjectChange] = field(default_factory=list)
    set_properties: dict[str, str] = field(default_factory=dict)
    unset_properties: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    stays: list[ObjectName] = field(default_factory=list)
    """Tables and views that keep their names although the namespaces around them are exchanged."""
    conflicts: list[Conflict] = field(default_factory=list)

    @property
    def changes_catalog(self) -> bool:
        return bool(self.set_properties or self.unset_properties or self.settings)


def plan_revert(transaction: Transaction, first: int, last: int, at: Callable[[int], Snapshot]) -> RevertPlan:
    """Plan the revert of the versions `first` to `last`, both included, on the state that the transaction sees.

    `at` opens versions. Raise RevertConflict with all objects that were changed again since. Raise NotRevertible if one
    of the versions has actions that only another command can undo.
    """
    if first == 0:
        raise NotRevertible("v0 created the catalog", hint="no version precedes it")
    after = at(last)
    try:
        before = at(first - 1)
    except VersionNotFound as error:
        reason = f"the state before v{first} is unknown: {error.message}"
        raise VersionNotFound(reason, hint=error.advice, command=error.command) from None
    for entry in log(after, first):
        if entry.unreadable:
            raise Damaged(
                "F401", root_path(entry.version, after.file.width), "the actions of this version cannot be read"
            )
        check_revertible(entry.version, entry.changes)
    plan = _Planner(transaction, RevertPlan(first, last, before), after).make()
    if plan.conflicts:
        raise _conflict(plan, after, transaction.base)
    return plan


def apply_revert(transaction: Transaction, plan: RevertPlan) -> None:
    """Apply the plan in this order:

    1. Rename namespaces back. One that is to be dropped, and has the former name of another one, takes a free name.
    2. Drop views and tables.
    3. Restore namespaces.
    4. Rename tables and views back.
    5. Restore tables and views.
    6. Drop namespaces, which are empty now.
    7. Change the catalog's properties and settings.
    """
    version, changes = plan.before.version, plan.changes
    renamed = [change for change in changes if change.change == "renamed"]
    # sorted by kind, views first and namespaces last
    gone = sorted((change.name for change in changes if change.change == "dropped"), key=lambda name: -name.kind)
    back = [change.new for change in changes if change.new is not None and _comes_back(change)]
    coming = {change.name for change in changes if change.change != "dropped"}
    moves = []
    for name in gone:
        if isinstance(name, NamespaceName) and name in coming:
            moves += _rename_all(transaction, {name: _free_name(transaction, name, coming)}, coming)
    spaces = {change.old_name: change.name for change in renamed if isinstance(change.name, NamespaceName)}
    moves += _rename_all(transaction, spaces, coming)

    def today(name: ObjectName) -> ObjectName:
        for old, new in moves:
            name = moved(name, old, new)
        return name

    for name in gone:
        if not isinstance(name, NamespaceName):
            _drop(transaction, today(name))
    transaction.restore_all([former for former in back if isinstance(former.name, NamespaceName)], version)
    renames = {today(name): name for name in plan.stays}
    renames |= {today(old): change.name for change in renamed if (old := change.old_name) not in spaces}
    _rename_all(transaction, renames, coming)
    transaction.restore_all([former for former in back if not isinstance(former.name, NamespaceName)], version)
    for name in gone:
        if isinstance(name, NamespaceName):
            _drop(transaction, today(name))
    if plan.changes_catalog:
        transaction.alter_catalog(plan.set_properties, plan.unset_properties, **plan.settings)
    if transaction.has_writes:
        transaction.note_revert(plan.first, plan.last)


def _rename_all(
    transaction: Transaction, renames: Mapping[ObjectName, ObjectName], coming: Collection[ObjectName]
) -> list[tuple[ObjectName, ObjectName]]:
    """Rename objects in an order in which each new name is free. An object in a circle takes a free name in between.
    Return the renames in order.
    """
    moves: list[tuple[ObjectName, ObjectName]] = []
    waiting = {old: new for old, new in renames.items() if old != new}
    while waiting:
        old = next((old for old, new in waiting.items() if new not in waiting), None)
        if old is not None:
            new = waiting.pop(old)
        else:
            old = next(iter(waiting))
            new = _free_name(transaction, old, coming)
            waiting[new] = waiting.pop(old)
        _rename(transaction, old, new)
        moves.append((old, new))
    return moves


def _free_name(transaction: Transaction, near: ObjectName, coming: Collection[ObjectName]) -> ObjectName:
    """Return a name in the same namespace that no object has and that none in `coming` gets."""
    names = (_named(near, f"~{number or ''}") for number in count())
    return next(name for name in names if name not in coming and not transaction.draft.find(name))


def _named(near: ObjectName, text: str) -> ObjectName:
    return NamespaceName(text) if isinstance(near, NamespaceName) else type(near)(near.namespace, text)


def check_revertible(version: int, actions: Sequence[Action]) -> None:
    """Raise NotRevertible if the version has actions that only another command can undo."""
    target = rollback_target(actions)
    for action in actions:
        if action.type == T.CATALOG_ROLLBACK:
            former_version = action.parse_payload(RollbackDef).from_version
            raise NotRevertible(
                f"v{version} is a rollback to v{target}",
                hint="roll back to the version before it",
                command=("rollback", f"v{former_version}"),
            )
        if action.type == T.CATALOG_EXPORT:
            export = action.parse_payload(ExportDef)
            if export.dropped:
                raise NotRevertible(f"v{version} dropped the export {export.name}", hint="export again")
            words = command_words("export", "drop", names=[export.name])
            raise NotRevertible(f"v{version} recorded an export", hint="drop the export", command=words)
        if action.type == T.CATALOG_EXPIRE_MARK:
            raise NotRevertible(
                f"v{version} is an expire", hint="undo the expire", command=("expire", "undo", "--dry-run")
            )
        if action.type in EXPIRES:
            raise NotRevertible(f"v{version} is an expire", hint="an expire cannot be reverted")
        if action.type == T.CATALOG_REPAIR:
            words = ("rollback", "--dry-run", f"v{version - 1}")
            raise NotRevertible(
                f"v{version} is a repair", hint="check with a dry run whether a rollback is possible", command=words
            )
        if action.name is None and action.type not in (T.CATALOG_ALTER, T.CATALOG_COMPACT):
            raise NotRevertible(
                f"v{version} has an action that cannot be reverted: {action.type_name}", hint="see the log"
            )


class _Planner:
    """Compare three states of every changed object: before the versions, after them, and now."""

    def __init__(self, transaction: Transaction, plan: RevertPlan, after: Snapshot) -> None:
        self._transaction = transaction
        self._plan = plan
        self._after = after
        changes = list(diff(plan.before, after))
        around = [change for change in changes if change.change == "renamed" and isinstance(change.name, NamespaceName)]
        self._came: dict[ObjectName, str] = {}
        """The ids of objects by the names to which their namespaces took them."""
        self._left: dict[ObjectName, str] = {}
        """The same by their former names."""
        own: list[ObjectChange] = []
        for change in changes:
            if _follows(change, around):
                self._came[change.name] = self._left[change.old_name] = change.id
            else:
                own.append(change)
        self._changes = own
        self._was: dict[ObjectName, Found | None] = {}
        self._became: dict[ObjectName, Found | None] = {}
        for change in self._changes:
            for name in (change.name, change.old_name):
                self._was.setdefault(name, None)
                self._became.setdefault(name, None)
            if change.old is not None:
                self._was[change.old_name] = change.old
            if change.new is not None:
                self._became[change.name] = change.new
        self._now = self._read_now()

    def make(self) -> RevertPlan:
        plan = self._plan
        self._compare_catalogs(plan.before.definition, self._after.definition, self._transaction.draft.catalog)
        for change in self._changes:
            names = dict.fromkeys((change.old_name, change.name))
            touched_since = [name for name in names if not self._is(name, self._became[name], self._came)]
            if not touched_since:
                inverse = _INVERSE[change.change]
                plan.changes.append(ObjectChange(inverse, change.old_name, change.name, change.new, change.old))
            elif not all(self._is(name, self._was[name], self._left) for name in names):
                plan.conflicts += [Conflict(name, self._why(name)) for name in touched_since]
        plan.stays = list(self._stays())
        plan.conflicts = list(dict.fromkeys([*plan.conflicts, *self._misplaced()]))
        return plan

    def _read_now(self) -> dict[ObjectName, Found | None]:
        base = self._transaction.base
        paths = [path for name in self._became if (path := base.find(name)) is not None]
        # read all definitions in one round trip; errors are raised by `find` below
        for _ in base.definitions.read(paths):
            pass
        return {name: self._transaction.find(name) for name in self._became}

    def _is(self, name: ObjectName, expected: Found | None, followers: Mapping[ObjectName, str]) -> bool:
        """Return whether the name has the expected object now. An object that follows its namespace counts as none."""
        now = self._now[name]
        if expected is None and now is not None and now.id == followers.get(name):
            return True
        return _same(now, expected)

    def _stays(self) -> Iterator[ObjectName]:
        """Yield the tables and views that keep their names although their namespaces were exchanged."""
        before, after = self._plan.before, self._after
        spaces = {name for change in self._plan.changes for name in (change.name, change.old_name)}
        for space, was in self._was.items():
            became = self._became[space]
            if not isinstance(space, NamespaceName) or was is None or became is None or was.id == became.id:
                continue
            if space not in spaces:
                continue  # that is not taken back
            for kind in (Kind.TABLE, Kind.VIEW):
                for found in before.objects(kind, space.namespace):
                    later, now = after.get(found.name), self._transaction.find(found.name)
                    if later is not None and now is not None and later.id == now.id == found.id:
                        yield found.name

    def _why(self, name: ObjectName) -> str:
        now = self._now[name]
        if now is None:
            return "dropped or renamed since"
        became = self._became[name]
        if became is None or became.id != now.id:
            return "another object has the name now"
        return "altered since"

    def _misplaced(self) -> Iterator[Conflict]:
        """Yield the conflicts about places: objects whose name is in use or whose namespace is gone, and namespaces to
        drop that hold later objects.
        """
        changes, draft = self._plan.changes, self._transaction.draft
        leaving = {change.old_name for change in changes if change.change in ("dropped", "renamed")}
        leaving.update(self._plan.stays)
        coming = {change.name for change in changes if change.change != "dropped"}
        spaces = [change for change in changes if change.change == "renamed" and isinstance(change.name, NamespaceName)]
        back = [change.new for change in changes if change.change == "created" and change.new is not None]
        lives = living_names(
            {former.id: former.name for former in back},
            self._plan.before.version,
            draft.base,
            self._transaction.actions,
        )
        for former in back:
            now = lives[former.id]
            if now is not None and now != former.name and now not in leaving:
                yield Conflict(former.name, f"exists as {now} now")
        for name in sorted(coming, key=str):
            around = NamespaceName(name.namespace)
            if around not in coming and (around in leaving or not draft.find(around)):
                yield Conflict(name, f"the namespace {around} is gone")
            for space in spaces:
                there = moved(name, space.name, space.old_name)
                if there != name and there not in leaving and draft.find(there):
                    yield Conflict(there, "another object has the name now")
        for change in changes:
            if change.change == "dropped" and isinstance(change.name, NamespaceName):
                within = (name for kind in (Kind.TABLE, Kind.VIEW) for name in draft.names(kind, change.name.namespace))
                if more := [name for name in within if name not in leaving]:
                    yield Conflict(change.name, f"holds {more[0].kind.word} {more[0]}, which is newer")

    def _compare_catalogs(self, was: CatalogDef, became: CatalogDef, now: CatalogDef) -> None:
        plan = self._plan
        for key in sorted({*was.properties, *became.properties}):
            old, new, present = (definition.properties.get(key) for definition in (was, became, now))
            if old == new or key.startswith(PROTECTING) or present == old:
                continue
            if present != new:
                plan.conflicts.append(Conflict(None, f"its property {key} was changed since"))
            elif old is None:
                plan.unset_properties.append(key)
            else:
                plan.set_properties[key] = old
        for setting, option in (("txn_ttl_millis", "txn_ttl_millis"), ("txn_isolation_level", "isolation")):
            old, new, present = (getattr(definition, setting) for definition in (was, became, now))
            if old != new and present == new:
                plan.settings[option] = old
            elif old != new and present != old:
                plan.conflicts.append(Conflict(None, f"its {setting} was changed since"))


def _conflict(plan: RevertPlan, after: Snapshot, latest: Snapshot) -> RevertConflict:
    """Return the error, with the last version that touched each of the objects."""
    last: dict[ObjectName | None, int] = {}
    for entry in log(latest, after.version + 1):
        names = {name for action in entry.changes for name in touched(action)}
        for conflict in plan.conflicts:
            around = None if conflict.name is None else NamespaceName(conflict.name.namespace)
            if conflict.name not in last and (
                conflict.name in names or around in names or entry.rollback_to is not None
            ):
                last[conflict.name] = entry.version
    versions = f"v{plan.first}" if plan.first == plan.last else f"v{plan.first} to v{plan.last}"
    count = len(plan.conflicts)
    what = f"{plural(count, 'object')} {'was' if count == 1 else 'were'} changed again"
    error = RevertConflict(
        f"{versions} cannot be reverted, and nothing was written: {what}",
        hint="show the later changes",
        command=("diff", f"v{plan.last}..latest"),
    )
    error.conflicts = [
        {**describe_name(conflict.name), "why": conflict.why, "version": last.get(conflict.name)}
        for conflict in plan.conflicts
    ]
    return error


def _follows(change: ObjectChange, around: Sequence[ObjectChange]) -> bool:
    """Return whether the rename only follows from a rename of its namespace. Reverting that one reverts it too."""
    if change.change != "renamed" or isinstance(change.name, NamespaceName) or change.fields():
        return False
    return any(moved(change.old_name, move.old_name, move.name) == change.name for move in around)


def _same(this: Found | None, other: Found | None) -> bool:
    if this is None or other is None:
        return this is other
    return this.path == other.path != "" or body(this.definition) == body(other.definition)


def _comes_back(change: ObjectChange) -> bool:
    """Return whether the older definition must be restored."""
    return change.change in ("created", "altered") or (change.change == "renamed" and bool(change.fields()))


def _drop(transaction: Transaction, name: ObjectName) -> None:
    if isinstance(name, NamespaceName):
        transaction.drop_namespace(name)
    elif isinstance(name, TableName):
        transaction.drop_table(name)
    else:
        transaction.drop_view(name)


def _rename(transaction: Transaction, old: ObjectName, new: ObjectName) -> None:
    if isinstance(old, NamespaceName) and isinstance(new, NamespaceName):
        transaction.rename_namespace(old, new)
    elif isinstance(old, TableName) and isinstance(new, TableName):
        transaction.rename_table(old, new)
    elif isinstance(old, ViewName) and isinstance(new, ViewName):
        transaction.rename_view(old, new)
