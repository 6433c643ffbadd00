"""Group commit: simultaneous changes of several clients become one commit.

A commit takes several sequential round trips to the store, and only one commit can become the next version. Group
commit lets the catalog take more changes per second than that allows. The first client becomes the leader, and commits
its own and all waiting changes. Then one of the clients that arrived meanwhile becomes the leader.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyiceberg.exceptions import CommitStateUnknownException

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import moment
from olympia_cli.catalog.commit import Author, check_writable, retry
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import CommitConflict, InvalidOption, StorageFailed, TransactionTooLarge
from olympia_cli.iceberg import MetadataFiles, TableChanges, outcome_unknown

_log = logging.getLogger(__name__)

LARGEST_GROUP = 64
ATTEMPTS = 5

R = TypeVar("R")
Change = Callable[[TableChanges], R]
"""A function that changes a transaction. It may be called several times, on different versions."""


@dataclass(slots=True, eq=False)
class _Job:
    change: Change[Any]
    by: str
    what: str
    turn: threading.Event = field(default_factory=threading.Event)
    finished: bool = False
    files: list[str] = field(default_factory=list)
    """The files written for this change."""
    result: Any = None
    error: Exception | None = None

    def end(self, error: Exception | None = None) -> None:
        self.error, self.finished = error, True


class GroupCommit:
    """Commits changes, each completely or not at all. Thread-safe."""

    def __init__(self, catalog: Catalog, files: MetadataFiles, retry_for: float = 30.0) -> None:
        self._catalog = catalog
        self._files = files
        self._retry_for = retry_for
        self._lock = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._is_led = False
        self._lost_hints: dict[str, str] = {}
        self.groups = 0
        self.changes = 0

    def commit(self, change: Change[R], by: str, what: str) -> R:
        """Commit a change and return its result. Its error is raised here and does not affect the other changes."""
        job = _Job(change, by, what)
        with self._lock:
            self._waiting.append(job)
            leads, self._is_led = not self._is_led, True
        if not leads:
            job.turn.wait()
        if not job.finished:
            self._lead()
        if job.error is not None:
            raise job.error
        result: R = job.result
        return result

    def _lead(self) -> None:
        with self._lock:
            group = [self._waiting.popleft() for _ in range(min(LARGEST_GROUP, len(self._waiting)))]
        try:
            self._commit(group)
        except BaseException as error:
            for job in group:
                if not job.finished:
                    job.end(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))
            if not isinstance(error, Exception):
                raise
        finally:
            with self._lock:
                if self._waiting:
                    self._waiting[0].turn.set()
                else:
                    self._is_led = False
            for job in group:
                job.turn.set()

    def _commit(self, group: Sequence[_Job]) -> None:
        """Commit a group of changes.

        After a conflict with another process, each change is retried alone on the new version. It then succeeds or
        raises its own error. Changes that failed because of a change that was then not committed are retried, too.
        """
        alone = len(group) == 1
        try:
            retry(lambda: self._commit_once(group), ATTEMPTS if alone else 1)
        except CommitConflict as error:
            if alone:
                group[0].end(error)
        if not alone:
            for job in group:
                if not job.finished:
                    self._commit([job])

    def _commit_once(self, group: Sequence[_Job]) -> None:
        """Commit a group of changes on the latest version. Raise CommitConflict after a conflict.

        Jobs that are not finished afterwards must be retried alone.
        """
        changes = self._begin()
        refused = {job: error for job in group if (error := _stage(job, changes)) is not None}
        staged = [job for job in group if job not in refused]
        if not staged:
            _end_all(refused)
            return
        by, message = _signature(staged)
        try:
            done = changes.commit(Author(by=by, message=message), retry_for=self._retry_for)
            self._catalog.head.advance(done)
        except CommitConflict:
            raise
        except CommitStateUnknownException as error:
            for job in staged:
                # this client's files only, not those of the others
                job.end(outcome_unknown(error.__cause__, job.files))
            return
        except Exception as error:
            # this may be the fault of one change, or of their total size, so retry each alone
            if changes.unwritten or isinstance(error, InvalidOption | TransactionTooLarge):
                if len(group) > 1:
                    return
                if isinstance(error, OSError):
                    error = StorageFailed(f"the metadata of a table cannot be written: {error}")
            for job in staged:
                job.end(changes.error_of(error, job.files))
            return
        self._warn_of_lost_hints()
        self.groups += 1
        self.changes += len(staged)
        for job in staged:
            job.end()
        # their errors refer to changes that are now committed
        _end_all(refused)

    def _warn_of_lost_hints(self) -> None:
        """Log once that hints could not be written, so that other readers need more requests."""
        # a copy, because other threads may write hints meanwhile
        lost = {path: error.message for path, error in self._catalog.store.lost_hints.copy().items()}
        if lost != self._lost_hints:
            for path, message in lost.items():
                _log.warning("the hint %s could not be written, so readers need more requests: %s", path, message)
            self._lost_hints = lost

    def _begin(self) -> TableChanges:
        opened_at = moment(self._catalog.clock)
        base = self._catalog.head.look_to_commit(opened_at)
        check_writable(base)
        return TableChanges(Transaction(base, self._catalog.clock, opened_at=opened_at), self._files)


def _stage(job: _Job, changes: TableChanges) -> Exception | None:
    """Apply a change. If it fails, undo all of it and return the error."""
    try:
        before = len(changes.places)
        with changes.whole():
            job.result = job.change(changes)
        job.files = changes.places[before:]
    except Exception as error:
        return error
    return None


def _end_all(refused: Mapping[_Job, Exception]) -> None:
    for job, error in refused.items():
        job.end(error)


def _signature(jobs: Sequence[_Job]) -> tuple[str, str]:
    """Return author and message for the log. In a group, the message names the author of each change."""
    authors = list(dict.fromkeys(job.by for job in jobs))
    if len(jobs) == 1:
        return jobs[0].by, jobs[0].what
    if len(authors) == 1:
        return authors[0], "; ".join(job.what for job in jobs)
    return ", ".join(authors), "; ".join(f"{job.by}: {job.what}" for job in jobs)
