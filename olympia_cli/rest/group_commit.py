"""Changes of several clients that come together become one commit.

A commit costs several round trips to the store, one after the other, and there is one next version: without this the
catalog would take no more changes a second than a round trip allows. Whoever finds nobody committing commits all that
wait, himself first; then one of those who came meanwhile does.
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
from olympia_cli.catalog.commit import Author, check_writable
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import CommitConflict, InvalidOption, StorageFailed, TransactionTooLarge
from olympia_cli.iceberg.metadata_files import MetadataFiles
from olympia_cli.iceberg.table_changes import TableChanges, unknown

_log = logging.getLogger(__name__)

LARGEST_GROUP = 64
ATTEMPTS = 5

R = TypeVar("R")
Change = Callable[[TableChanges], R]
"""Statements on a transaction. They may be done more than once, each time on another version."""


@dataclass(slots=True, eq=False)
class _Job:
    change: Change[Any]
    by: str
    what: str
    turn: threading.Event = field(default_factory=threading.Event)
    finished: bool = False
    files: list[str] = field(default_factory=list)
    """Those that are written for it."""
    result: Any = None
    error: Exception | None = None

    def end(self, error: Exception | None = None) -> None:
        self.error, self.finished = error, True


class GroupCommit:
    """Commits changes, each as a whole or not at all. Safe for several threads."""

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
        """Do a change and commit it; what the statements returned. An error of theirs is raised here, and leaves
        the changes beside it alone."""
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
        """Commit what can be done of a group. What does not go together with another process's commit is done anew on
        what that one left, each change by itself, and succeeds there or says why not; so is what was refused for what
        then was not committed."""
        alone = len(group) == 1
        for attempt in range(ATTEMPTS if alone else 1):
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
            except CommitConflict as error:
                if alone and attempt == ATTEMPTS - 1:
                    staged[0].end(error)
                continue
            except CommitStateUnknownException as error:
                for job in staged:
                    # whose files the others' are is not this one's business
                    job.end(unknown(error.__cause__, job.files))
                break
            except Exception as error:
                # what one of them cannot have written, or is too large together, the others need not bear
                if changes.unwritten or isinstance(error, InvalidOption | TransactionTooLarge):
                    if not alone:
                        break
                    if isinstance(error, OSError):
                        error = StorageFailed(f"the metadata of a table cannot be written: {error}")
                for job in staged:
                    job.end(changes.error_of(error, job.files))
                break
            self._warn_of_lost_hints()
            self.groups += 1
            self.changes += len(staged)
            for job in staged:
                job.end()
            # what they were refused for stands now
            _end_all(refused)
            return
        if not alone:
            for job in group:
                if not job.finished:
                    self._commit([job])

    def _warn_of_lost_hints(self) -> None:
        """Log once that commits have no hint: other readers need more requests."""
        # a copy: other threads write hints meanwhile
        lost = {path: error.message for path, error in self._catalog.store.lost_hints.copy().items()}
        if lost != self._lost_hints:
            for path, message in lost.items():
                _log.warning("the hint %s could not be written, and readers do without it: %s", path, message)
            self._lost_hints = lost

    def _begin(self) -> TableChanges:
        opened_at = moment(self._catalog.clock)
        base = self._catalog.head.look_to_commit()
        check_writable(base)
        return TableChanges(Transaction(base, self._catalog.clock, opened_at=opened_at), self._files)


def _stage(job: _Job, changes: TableChanges) -> Exception | None:
    """Do the statements of a change. One that fails takes back those before it in the same change."""
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
    """Who commits and why, for the log: in a group each change with its author."""
    authors = list(dict.fromkeys(job.by for job in jobs))
    if len(jobs) == 1:
        return jobs[0].by, jobs[0].what
    if len(authors) == 1:
        return authors[0], "; ".join(job.what for job in jobs)
    return ", ".join(authors), "; ".join(f"{job.by}: {job.what}" for job in jobs)
