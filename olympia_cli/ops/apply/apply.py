"""Commit lines as one transaction, or in steps that can be resumed after an interruption."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author, Committed, commit
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged
from olympia_cli.format.actions import commit_info
from olympia_cli.format.paths import root_path
from olympia_cli.ops.apply.statements import Line
from olympia_cli.ops.look.log import log


def apply_all(
    catalog: Catalog, lines: Iterable[Line], author: Author, *, retry_for: float, atomic: bool, dry_run: bool = False
) -> Committed:
    """Commit all lines as one transaction."""
    transaction = catalog.begin()
    for line in lines:
        line.run(transaction)
    if dry_run:
        return Committed(transaction.base.version, tuple(transaction.actions))
    return commit(transaction, author, retry_for=retry_for, atomic=atomic)


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """A commit of some lines. `done_before` means that an earlier run committed it, and this run did nothing."""

    version: int
    lines: int
    done_before: bool


def apply_in_steps(
    catalog: Catalog, lines: Iterable[Line], input: Input, every: int, author: Author, retry_for: float
) -> Iterator[ApplyStep]:
    """Commit `every` lines per transaction. To resume an interrupted run, run it again on the same input.

    The id of each transaction is derived from the input and the step, so the log shows the steps of an earlier run. A
    step without changes is not in the log; it counts as done if a later step is.
    """
    steps = _Steps(catalog.snapshot(), f"{input.digest} {every}", -(-input.lines // every))
    batch: list[Line] = []
    step = 0

    def flush() -> ApplyStep:
        while True:
            if step <= steps.last:
                return ApplyStep(steps.version_of(step), len(batch), True)
            transaction = catalog.begin_as(None, steps.ids[step])
            if transaction.base.version == steps.version:
                break
            # another process has committed, perhaps the same input
            steps.look(transaction.base)
        for line in batch:
            line.run(transaction)
        version = commit(transaction, author, retry_for=retry_for, atomic=True).version
        if version == steps.version + 1:
            steps.take(step, version)
        return ApplyStep(version, len(batch), False)

    for line in lines:
        batch.append(line)
        if len(batch) == every:
            yield flush()
            batch, step = [], step + 1
    if batch:
        yield flush()


@dataclass(frozen=True, slots=True)
class Input:
    """The digest of an input, and the number of its statements."""

    digest: str
    lines: int


def digest_of(lines: Iterable[str]) -> Input:
    hashed, number = hashlib.sha256(), 0
    for line in lines:
        hashed.update(line.encode("utf-8", "surrogatepass"))
        number += bool(line.strip())
    return Input(hashed.hexdigest(), number)


class _Steps:
    """The steps in the log up to a version: those that count, and those that a rollback undid.

    `ids` are the transactions' ids. `last` is the last step that is done.
    """

    def __init__(self, latest: Snapshot, input: str, steps: int) -> None:
        self._catalog_id = latest.definition.id
        self._input = input
        self._steps = steps
        self._versions: dict[str, int] = {}
        self._undone: set[str] = set()
        self.version = oldest_version(latest) - 1
        self.ids: list[str] = []
        self.last = -1
        self.look(latest)

    def look(self, latest: Snapshot) -> None:
        """Read the log since the last call."""
        for entry in log(latest, self.version + 1):
            if entry.unreadable:
                raise Damaged("F401", root_path(entry.version), "the actions of this version cannot be read")
            info = commit_info(entry.actions)
            if info is not None and entry.undone_by is None:
                self._versions[info.transaction_id] = entry.version
            elif info is not None:
                self._undone.add(info.transaction_id)
        self.version = latest.version
        if not self.ids or not self._undone.isdisjoint(self.ids):
            self.ids = [self._id(step) for step in range(self._steps)]
        self.last = max((step for step, id in enumerate(self.ids) if id in self._versions), default=-1)

    def take(self, step: int, version: int) -> None:
        """Record that this run has committed a step."""
        self._versions[self.ids[step]] = self.version = version
        self.last = step

    def version_of(self, step: int) -> int:
        """Return the version of a step that is done. A step without changes has the version of the next one with
        changes.
        """
        return next(self._versions[id] for id in self.ids[step:] if id in self._versions)

    def _id(self, step: int) -> str:
        """Return the id of a step. A step that a rollback undid gets a new id, so that it is done again."""
        texts = (f"{self._catalog_id} {self._input} {step} {again}" for again in count())
        ids = (str(uuid.uuid5(uuid.NAMESPACE_OID, text)) for text in texts)
        return next(id for id in ids if id not in self._undone)
