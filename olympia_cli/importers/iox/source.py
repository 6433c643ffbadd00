"""A folder of IOx: its transactions by revision, and a walk from state to state.

Each file is read once. The footers of Parquet files, which are most of a checkpoint, are kept in a temporary file;
memory holds only their positions.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from olympia_cli.errors import (
    CatalogNotFound,
    Damaged,
    FileTooLarge,
    InvalidReference,
    StoreError,
    Unsupported,
    VersionNotFound,
    command_words,
    quoted,
)
from olympia_cli.importers.iox.transactions import (
    VERSIONS,
    Action,
    AddFile,
    Chunk,
    IoxTransaction,
    IoxTransactionFile,
    Predicate,
    RemoveFile,
    Tombstone,
    Upgrade,
    decode,
    decoded_part,
    parse_path,
)
from olympia_cli.importers.wire import Garbled
from olympia_cli.names import AtExport, AtTime, AtVersion, Latest, Oldest, SettledReference, time_text
from olympia_cli.storage.protocol import Store

FOLDER, DATA = "transactions/", "data/"
LARGEST = 2**31
"""Highest number of bytes of a checkpoint, which holds the footers of all files."""
NIL = UUID(int=0)
_SHOWN, _LOOKED_AT = 5, 100_000
_WHERE = "name the folder that holds transactions/ and data/"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A Parquet file of the catalog, its table by its path, and the position of its footer in the temporary file."""

    path: str
    size: int
    table: str
    at: int
    length: int


@dataclass(slots=True)
class IoxState:
    """The content of the catalog after a transaction. `touched` are the tables that this transaction changed, as far as
    known: a checkpoint does not name tables without files."""

    revision: int = -1
    uuid: UUID = NIL
    start_millis: int = 0
    files: dict[str, LiveFile] = field(default_factory=dict)
    tombstones: dict[Chunk, list[Predicate]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    is_checkpoint: bool = False

    def tables(self) -> dict[str, list[LiveFile]]:
        """Return the files of each table; tables and files are in name order."""
        found: dict[str, list[LiveFile]] = {}
        for path in sorted(self.files):
            file = self.files[path]
            found.setdefault(file.table, []).append(file)
        return dict(sorted(found.items()))


def table_of(path: str) -> str | None:
    """Return the table in the path of a data file; None for any other path."""
    parts = path.split("/")
    return decoded_part(parts[1]) if len(parts) == 4 and parts[0] == "data" else None


class IoxSource:
    """A preserved catalog. Close it: it has a temporary file."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name = store, name
        self.revisions: dict[int, list[IoxTransactionFile]] = {}
        self.foreign: list[str] = []
        self._footers = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self._list()

    def __enter__(self) -> IoxSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._footers.close()

    def _list(self) -> None:
        for file in sorted(self.store.list(FOLDER), key=lambda file: file.path):
            found = parse_path(file.path)
            if found is None:
                self.foreign.append(file.path)
            else:
                self.revisions.setdefault(found.revision, []).append(found)
        if not self.revisions:
            raise self._none()

    def _none(self) -> CatalogNotFound:
        """Return the error for a folder without a catalog; it names catalogs in folders below."""
        places = (file.path.partition(f"/{FOLDER}") for file in islice(self.store.list(), _LOOKED_AT))
        below = sorted({place for place, folder, rest in places if folder and parse_path(FOLDER + rest)})
        more = f", and {len(below) - _SHOWN} more" if len(below) > _SHOWN else ""
        hint = f"name one of those below it: {', '.join(below[:_SHOWN])}{more}" if below else _WHERE
        return CatalogNotFound(f"{self.name} holds no preserved catalog of IOx", hint=hint)

    @property
    def latest(self) -> int:
        return max(self.revisions)

    @property
    def oldest(self) -> int:
        """The first revision whose state is known: revision 0, or the first with a checkpoint."""
        if 0 in self.revisions:
            return 0
        return min((revision for revision in self.revisions if self._checkpoint(revision)), default=min(self.revisions))

    def checkpoint_after(self, revision: int) -> int | None:
        """Return the next revision that has a checkpoint."""
        return min((one for one in self.revisions if one > revision and self._checkpoint(one)), default=None)

    def is_fork(self, revision: int) -> bool:
        return len({file.uuid for file in self.revisions.get(revision, ())}) > 1

    def footer(self, file: LiveFile) -> bytes:
        return os.pread(self._footers.fileno(), file.length, file.at)

    def damaged(self, code: str, path: str, reason: str) -> Damaged:
        return Damaged(code, path, reason, hint="list all damage", command=self._check)

    @property
    def _check(self) -> tuple[str, ...]:
        return command_words("import", "iox", "--check", names=[self.name])

    # States

    def state(self, reference: SettledReference) -> IoxState:
        """Return the state that a reference means. Raise Damaged if it cannot be computed, VersionNotFound if it does
        not exist."""
        revision = self.revision_of(reference)
        if revision is None:
            assert isinstance(reference, AtTime)
            states = self.walk(self.oldest, self.latest, until_millis=reference.millis)
        else:
            states = self.walk(revision, revision)
        last = deque(states, maxlen=1)
        if not last:
            assert isinstance(reference, AtTime)
            raise VersionNotFound(f"the catalog begins after {time_text(reference.millis)}", hint="name a later time")
        return last[0]

    def revision_of(self, reference: SettledReference) -> int | None:
        """Return the revision that a reference means; None for a time, which only the transactions tell."""
        match reference:
            case AtTime():
                return None
            case AtVersion(version):
                revision = version
            case Latest(back):
                revision = self.latest - back
            case Oldest():
                revision = self.oldest
            case AtExport(name):
                raise InvalidReference(
                    f"{quoted(name)} is no revision", hint="use a revision (12), latest, oldest, or a time"
                )
        if not self.oldest <= revision <= self.latest:
            raise VersionNotFound(
                f"there is no revision {revision}", hint=f"there are those from {self.oldest} to {self.latest}"
            )
        return revision

    def walk(
        self, first: int, last: int, until_millis: int | None = None, before: int | None = None
    ) -> Iterator[IoxState]:
        """Yield the states from revision `first` to `last`. Each file is read once. The same State object is yielded
        each time, updated.

        The walk begins with the checkpoint before `first`. If that checkpoint is damaged, it begins with an earlier
        one, because the transactions between them have the same content. `before` is a damaged checkpoint.
        """
        latest = first if before is None else before - 1
        start = max((one for one in self.revisions if one <= latest and self._checkpoint(one)), default=0)
        steps: list[IoxTransactionFile] = []
        trouble: Damaged | None = None
        for revision in range(start, last + 1):
            try:
                steps.append(self.file_of(revision, revision == start))
            except Damaged as error:
                # the states before it can still be read
                trouble = error
                break
        state = IoxState()
        read = self.store.read_many([step.path for step in steps])
        for step, (_, data) in zip(steps, read, strict=True):
            try:
                transaction = self.decode(step, data)
                if until_millis is not None and transaction.start_millis > until_millis:
                    return
                self.check(step, transaction, None if state.revision < 0 else state.uuid)
                self.apply(step, transaction, state)
            except Damaged as error:
                if not step.is_checkpoint or start == 0:
                    raise
                came = False
                try:
                    for other in self.walk(first, last, until_millis, start):
                        came = True
                        yield other
                    return
                except Damaged as later:
                    # if states were yielded, a different file ended them
                    raise (later if came else error) from None
            if step.revision >= first:
                yield state
        if trouble is not None:
            raise trouble

    def file_of(self, revision: int, is_start: bool) -> IoxTransactionFile:
        """Return the transaction file of a revision or, for the start of a walk, its checkpoint."""
        if self.is_fork(revision):
            uuids = sorted(str(file.uuid) for file in self.revisions[revision])
            raise self.damaged(
                "I101",
                f"{FOLDER}{revision:020}",
                f"a fork: two transactions have one number, {uuids[0]} and {uuids[-1]}",
            )
        found = self.revisions.get(revision, [])
        checkpoint = self._checkpoint(revision) if is_start else None
        file = checkpoint or next((one for one in found if not one.is_checkpoint), None)
        if file is None:
            raise self.damaged("I102", f"{FOLDER}{revision:020}", "a gap: the transaction with this number is missing")
        return file

    def _checkpoint(self, revision: int) -> IoxTransactionFile | None:
        return next((file for file in self.revisions.get(revision, ()) if file.is_checkpoint), None)

    def decode(self, step: IoxTransactionFile, data: bytes | StoreError) -> IoxTransaction:
        if isinstance(data, FileTooLarge):
            raise self.damaged("I106", step.path, data.reason)
        if not isinstance(data, bytes):
            raise data
        try:
            return decode(data)
        except Garbled as garbled:
            raise self.damaged("I106", step.path, f"it is not a transaction: {garbled}") from None

    def check(self, step: IoxTransactionFile, transaction: IoxTransaction, previous: UUID | None) -> None:
        """Raise unless a file holds the transaction that its path names, and follows `previous`; None means no
        predecessor."""
        if transaction.version not in VERSIONS:
            known = f"{VERSIONS[0]} to {VERSIONS[-1]}"
            raise Unsupported(f"{step.path}: it is of version {transaction.version}, and those known are {known}")
        if transaction.revision != step.revision or transaction.uuid != step.uuid:
            said = f"revision {transaction.revision}, {transaction.uuid}"
            raise self.damaged("I104", step.path, f"it holds another transaction than its path says: {said}")
        if transaction.is_full is not step.is_checkpoint:
            raise self.damaged("I105", step.path, "its path and its content disagree whether it is a checkpoint")
        if not step.is_checkpoint and transaction.previous != previous:
            raise self.damaged(
                "I103",
                step.path,
                f"its predecessor is {transaction.previous}, and the transaction before it is {previous}",
            )

    def apply(self, step: IoxTransactionFile, transaction: IoxTransaction, state: IoxState) -> None:
        state.revision, state.uuid, state.start_millis = step.revision, step.uuid, transaction.start_millis
        state.touched, state.is_checkpoint = set(), step.is_checkpoint
        try:
            for action in transaction.actions():
                self._apply(step, action, state)
        except Garbled as garbled:
            raise self.damaged("I106", step.path, f"it has a malformed action: {garbled}") from None

    def keep(self, step: IoxTransactionFile, action: AddFile) -> LiveFile:
        """Store the footer of a file in the temporary file."""
        table = table_of(action.path)
        if table is None:
            raise self.damaged(
                "I106", step.path, f"it adds a file outside of the tables' folders: {action.path[:200]!a}"
            )
        at = self._footers.seek(0, 2)
        self._footers.write(action.metadata)
        return LiveFile(action.path, action.size, table, at, len(action.metadata))

    def _apply(self, step: IoxTransactionFile, action: Action, state: IoxState) -> None:
        match action:
            case AddFile():
                if action.path in state.files:
                    raise self.damaged("I107", step.path, f"it adds a file that is there already: {action.path}")
                state.files[action.path] = file = self.keep(step, action)
                state.touched.add(file.table)
            case RemoveFile(path):
                if path not in state.files:
                    raise self.damaged("I107", step.path, f"it removes a file that is not there: {path[:200]!a}")
                state.touched.add(state.files.pop(path).table)
            case Tombstone(predicate, chunks):
                for chunk in chunks:
                    # an unknown chunk has no file here: a compaction removed it
                    state.tombstones.setdefault(chunk, []).append(predicate)
                    state.touched.add(chunk[0])
            case Upgrade(format):
                raise Unsupported(f"{step.path}: it changes the catalog to another format: {quoted(format)}")
