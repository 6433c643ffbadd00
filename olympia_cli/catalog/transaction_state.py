"""The state of a transaction: its lifetime, and the actions staged on its version.

Actions are staged one by one, can be undone back to a mark, and are applied to a newer version by a rebase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from olympia_cli.catalog.clock import Clock, Moment, moment
from olympia_cli.catalog.draft import Draft
from olympia_cli.catalog.replay import touched
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.staging import NO_LONGER_FITS, stage
from olympia_cli.catalog.transaction_reads import EXISTS, Read, TransactionReads
from olympia_cli.errors import CommitConflict, InvalidOption, TransactionExpired
from olympia_cli.format.action_types import READS, RESTORES
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.names import NamespaceName, ObjectName
from olympia_cli.uuids import new_uuid

T = ActionType
_MAY_CHANGE_NOTHING = RESTORES | {
    T.NAMESPACE_ALTER_SET_PROPERTIES,
    T.NAMESPACE_ALTER_UNSET_PROPERTIES,
    T.TABLE_ALTER,
    T.VIEW_ALTER,
    T.VIEW_REPLACE,
    T.CATALOG_ALTER,
    T.CATALOG_COMPACT,
}
_SILENT = READS | {T.COMMIT_INFO}

Mark = tuple[Draft, list[Action], set[Read], int]
"""The staged changes and reads of a transaction at one moment."""


class TransactionState(TransactionReads):
    """Actions on top of one version, to be committed together within a lifetime."""

    def __init__(
        self,
        base: Snapshot,
        clock: Clock,
        *,
        isolation: IsolationLevel | None = None,
        id: str | None = None,
        began_at_millis: int | None = None,
        expires_at_millis: int | None = None,
        opened_at: Moment | None = None,
    ) -> None:
        """Begin on `base`. `opened_at` is a moment before the base was looked up: an expire may have run since."""
        definition = base.definition
        level = definition.txn_isolation_level if isolation is None else isolation
        super().__init__(base, new_uuid() if id is None else id, level)
        self.clock = clock
        self.began_at_version = base.version
        self._opened_at = moment(clock) if opened_at is None else opened_at
        self.began_at_millis = self._opened_at.wall if began_at_millis is None else began_at_millis
        lifetime = definition.txn_ttl_millis
        self.expires_at_millis = self.began_at_millis + lifetime if expires_at_millis is None else expires_at_millis
        self.statements = 0

    @property
    def has_writes(self) -> bool:
        return next(self._writes(), None) is not None

    @property
    def changes_nothing(self) -> bool:
        """True if all staged writes are alters and restores to the state of the base. They need no new version."""
        return all(type in _MAY_CHANGE_NOTHING for type in self._writes()) and self.draft.is_unchanged()

    def _writes(self) -> Iterator[ActionType]:
        return (action.type for action in self.actions if action.type not in _SILENT and not action.merged)

    def age_millis(self) -> int:
        """Return the time since the transaction began."""
        return self._now_millis() - self.began_at_millis

    def late_by_millis(self) -> int:
        """Return the time since the end of the transaction's lifetime, negative before it.

        The time of day and the elapsed time are both measured, and the later one counts. So neither a clock set back
        nor a suspended machine extends the lifetime.
        """
        return self._now_millis() - self.expires_at_millis

    def check_alive(self) -> None:
        """Raise TransactionExpired after the end of the lifetime."""
        if self.late_by_millis() > 0:
            raise TransactionExpired(f"the transaction {self.id} is past its lifetime")

    def _now_millis(self) -> int:
        slept = self.clock.elapsed_millis() - self._opened_at.elapsed
        return max(self.clock.now_millis(), self._opened_at.wall + slept)

    def rebase(self, base: Snapshot, actions: Sequence[Action]) -> None:
        """Apply the actions to another version. If one of them fails, nothing changes."""
        draft = Draft(base)
        done = []
        for action in actions:
            try:
                done.append(stage(action, draft))
            except (*NO_LONGER_FITS, CommitConflict) as error:
                what = f"{action.type_name} {action.name or 'the catalog'}"
                raise CommitConflict(f"{what} no longer fits version {base.version}: {error.message}") from error
        self.draft, self.actions = draft, done

    def mark(self) -> Mark:
        """Return the current state, for `go_back`."""
        return self.draft.copy(), list(self.actions), set(self._reads), self.statements

    def go_back(self, mark: Mark, *, keep_reads: bool = False) -> None:
        """Undo all changes since the mark. Reads no files, so it cannot fail.

        With `keep_reads`, keep the reads, for callers that continue the transaction after an error.
        """
        reads = self.reads
        self.draft, self.actions, self._reads, self.statements = mark
        if keep_reads:
            self.take_reads(reads)

    def take_actions(self, actions: Sequence[Action]) -> None:
        """Continue from saved actions."""
        self.actions = [stage(action, self.draft) for action in actions]
        self._reads = set(self.reads)

    def do(self, action: Action, *, is_merged: bool = False) -> None:
        """Stage an action. A failed action changes nothing, but its reads are recorded.

        `is_merged` is for an alter whose definition was made from the current one.
        """
        self.check_open()
        if self.draft.tree is not self.draft.base:
            raise InvalidOption("a rollback is a transaction of its own", hint="commit it first")
        try:
            self.actions.append(stage(action, self.draft, is_merged=is_merged))
            self.statements += 1
        except NO_LONGER_FITS:
            for name in _looked_at(action):
                self._read(EXISTS[name.kind], name)
            raise


def _looked_at(action: Action) -> list[ObjectName]:
    """Return the names that decide whether an action fits: those that it names, and their namespaces."""
    names = touched(action)
    return sorted(names | {NamespaceName(name.namespace) for name in names}, key=str)
