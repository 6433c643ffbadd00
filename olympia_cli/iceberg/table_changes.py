"""Changes of Iceberg tables as one commit of the catalog.

`TableChanges` stages them in a transaction and writes nothing; `commit` writes, in an order that leaves no metadata
file without a name:

1 the definitions, which name the new metadata files, and the nodes: nobody sees them yet
2 the metadata files
3 the root, created exclusively: THE COMMIT

When it fails and nothing was committed, the metadata files are removed again; one that cannot be removed is named in
the error. When nobody knows whether it was committed they stay, and the error names them. After a crash the definitions
of step 1 name them: fsck lists those that no version reaches.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import Any, TypeVar

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io import PY_IO_IMPL, FileIO
from pyiceberg.serializers import Compressor, FromByteStream, FromInputFile
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertCreate, TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import Properties

from olympia_cli.catalog.commit import Author, Committed, commit
from olympia_cli.catalog.distributed import DistributedTransaction
from olympia_cli.catalog.file_writer import FileWriter
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import (
    CommitUnknown,
    Damaged,
    InvalidLocation,
    InvalidName,
    OlympiaError,
    OutcomeUnknown,
    PathTaken,
)
from olympia_cli.iceberg.format_v3 import V3, check_known, to_json, upgraded, with_row_ids
from olympia_cli.iceberg.identifiers import dotted
from olympia_cli.iceberg.locations import LOCAL, place_of
from olympia_cli.iceberg.new_files import NewFiles
from olympia_cli.iceberg.table_actions import actions_of
from olympia_cli.names import TableName, ViewName
from olympia_cli.ops.verify_metadata import parse_metadata
from olympia_cli.storage.open import open_store

OpenIO = Callable[[Properties, str], FileIO]
"""PyIceberg's files for a table's properties and a location."""

Fit = Callable[[TableMetadata | None, Sequence[TableUpdate]], Sequence[TableUpdate]]
"""Updates as they are meant on a table; None is one that is to be made."""

R = TypeVar("R")
_WORKERS, _AT_ONCE = 16, 1024
_KEPT = 64
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableState:
    """A table's metadata, and where it is or will be."""

    metadata: TableMetadata
    location: str


class TableChanges:
    """Changes of tables in one transaction, and the metadata files that they need."""

    def __init__(self, transaction: Transaction, open_io: OpenIO) -> None:
        self.transaction = transaction
        self._open_io = open_io
        self._staged: dict[str, TableMetadata] = {}
        self._files = NewFiles()
        self._written: list[str] = []
        self.unwritten = False
        """Whether a commit ended before it began, because a metadata file could not be written."""

    def state(self, name: TableName) -> TableState | None:
        """The table as this transaction sees it; None when there is none."""
        if not self.transaction.exists(name):
            return None
        location = self.transaction.table(name).definition.iceberg_metadata_location
        return TableState(self._staged.get(location) or self._read(location), location)

    def _read(self, location: str) -> TableMetadata:
        content = self.staged_file(location)
        return read_metadata(self._open_io, location) if content is None else decode_metadata(content, location)

    def create(self, name: TableName, metadata: TableMetadata, location: str) -> TableState:
        """A new table whose metadata is to be written."""
        self.transaction.create_table(name, location)
        return self.stage(metadata, location)

    def update(
        self,
        name: TableName,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        fit: Fit | None = None,
        may_read: Callable[[str], bool] | None = None,
    ) -> TableState:
        """Make updates of a table, or the table, where the requirements are met: CommitFailedException where not. `fit`
        has the last word on the updates, on what the table is then; `may_read` says which manifests are opened."""
        current = self.state(name)
        if current is None:
            if not any(isinstance(one, AssertCreate) for one in requirements):
                raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
            check_no_view(self.transaction, name)
        for requirement in requirements:
            requirement.validate(None if current is None else current.metadata)
        if fit is not None:
            updates = fit(None if current is None else current.metadata, updates)
        metadata = _updated(current, updates)
        if current is not None and metadata == current.metadata:
            return current
        if current is not None and metadata.format_version == V3 and current.location not in self._files.places:
            document = _document(self._open_io, current.location)
            check_known(document, current.metadata, metadata, current.location)
        number = -1 if current is None else MetastoreCatalog._parse_metadata_version(current.location)
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location(number + 1)
        io = self._open_io(metadata.properties, location)
        actions = actions_of(None if current is None else current.metadata, metadata, updates, _reader(io, may_read))
        if current is None:
            self.transaction.create_table(name, location)
        expected = None if current is None else current.location
        for action in actions:
            self.transaction.alter_table(
                name,
                metadata_location=location,
                expected_metadata_location=expected,
                type=action.type,
                payload=action.payload,
            )
            # the first action moves the table, and the others say more of it
            expected = None
        return self.stage(metadata, location)

    def add_file(self, location: str, content: bytes, properties: Properties) -> None:
        """A file that is to be written before the commit, and removed again when that fails."""
        self._files.put(location, content, properties)

    @property
    def places(self) -> list[str]:
        """Where files are to be written."""
        return list(self._files.places)

    def staged_file(self, location: str) -> bytes | None:
        """What will be at a location, if this transaction writes it."""
        return self._files.get(location)[0] if location in self._files.places else None

    @contextmanager
    def whole(self, *, keep_reads: bool = False) -> Iterator[None]:
        """Statements that are all done or not at all: what a block that fails has staged is taken back."""
        before, staged, files = self.transaction.mark(), dict(self._staged), dict(self._files.places)
        try:
            yield
        except Exception:
            self.transaction.go_back(before, keep_reads=keep_reads)
            self._staged, self._files.places = staged, files
            raise

    def commit(self, author: Author, retry_for: float = 60.0, atomic: bool = True) -> Committed:
        """Write and commit all of it, in the order that the module's text gives."""
        transaction = self.transaction
        files = FileWriter(transaction.base.store, transaction.clock)
        if transaction.has_writes and self._files.places:
            files.root(transaction.draft, (), transaction.check_alive)
        return self._written_for(lambda: commit(transaction, author, retry_for=retry_for, atomic=atomic, files=files))

    def save(self, running: DistributedTransaction) -> None:
        """As `commit`, into the distributed transaction that this one is: its save takes the place of the root."""
        if self._files.places:
            running.write_files()
        self._written_for(lambda: _save(running))

    def _written_for(self, publish: Callable[[], R]) -> R:
        """Write the metadata files, and do what makes them count; they go again when it surely did not."""
        try:
            self._write()
        except BaseException as error:
            self._discard_after(error)
            self.unwritten = True
            raise
        try:
            return publish()
        except (CommitUnknown, OutcomeUnknown) as error:
            raise unknown(error, self._written) from error
        except OlympiaError as error:
            self._discard_after(error)
            raise
        except BaseException:
            # whoever interrupts may have done so after it counted
            _log.warning("interrupted%s", _kept(self._written))
            raise

    def discard(self) -> list[str]:
        """Remove the metadata files that were written; those that could not be."""
        left = []
        for location in self._written:
            try:
                self._open_io(self._files.get(location)[1], location).delete(location)
            except FileNotFoundError:
                continue
            except Exception:
                left.append(location)
        self._written.clear()
        return left

    def _discard_after(self, error: BaseException) -> None:
        if left := self.discard():
            shown = f"left behind: {', '.join(left)}"
            if isinstance(error, OlympiaError):
                error.message += f"; {shown}"
            else:
                error.add_note(shown)

    def _write(self) -> None:
        def write(location: str) -> None:
            # noted first: a write that fails may leave something all the same
            self._written.append(location)
            content, properties = self._files.get(location)
            try:
                write_file(location, content, self._open_io(properties, location))
            except (PathTaken, FileExistsError):
                # what is there is somebody else's
                self._written.remove(location)
                raise

        if len(self._files.places) == 1:
            write(*self._files.places)
            return
        waiting = iter(self._files.places)
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="metadata") as pool:
            while batch := list(islice(waiting, _AT_ONCE)):
                for _ in pool.map(write, batch):
                    pass

    def stage(self, metadata: TableMetadata, location: str) -> TableState:
        """Metadata that is to be written, for a definition that names it."""
        if len(self._staged) >= _KEPT:
            # as an object it takes many times the bytes that it is written as
            self._staged.pop(next(iter(self._staged)))
        self._staged[location] = metadata
        self.add_file(location, encode_metadata(metadata, location), metadata.properties)
        return TableState(metadata, location)


def unknown(error: BaseException | None, written: Iterable[str]) -> CommitStateUnknownException:
    """That nobody knows whether it was committed, and which files were written for it."""
    return CommitStateUnknownException(f"{error}{_kept(written)}")


def _kept(written: Iterable[str]) -> str:
    shown = ", ".join(written)
    return f"; if the log does not have it, nothing needs these files: {shown}" if shown else ""


def check_no_view(transaction: Transaction, name: TableName) -> None:
    """Iceberg has tables and views under one roof."""
    with contextlib.suppress(InvalidName):
        if transaction.exists(ViewName(name.namespace, name.name)):
            raise TableAlreadyExistsError(f"View with same name already exists: {dotted(name)}")


def _save(running: DistributedTransaction) -> None:
    """Save; a save that stands has the changes, whatever failed after it."""
    before = running.save_number
    try:
        running.save()
    except OlympiaError as error:
        if running.save_number == before:
            raise
        raise CommitUnknown(f"saved, and then it failed: {error.message}", hint="load the transaction again") from error


def write_file(location: str, content: bytes, io: FileIO) -> None:
    """Write the file through PyIceberg; on this machine, where that leaves it to the cache of the disk, through a store
    of ours: it survives a power cut like the root that leads to it."""
    place = None
    if PY_IO_IMPL not in io.properties:
        with contextlib.suppress(InvalidLocation):
            place = place_of(location)
    if place is not None and place.store == LOCAL:
        open_store(LOCAL).create(place.path, content)
        return
    with io.new_output(location).create() as stream:
        stream.write(content)


def encode_metadata(metadata: TableMetadata, location: str) -> bytes:
    """The bytes of a metadata file; its name says whether they are compressed."""
    data = to_json(metadata).encode()
    return Compressor.get_compressor(location).bytes_compressor()(data)


def decode_metadata(data: bytes, location: str) -> TableMetadata:
    """The metadata that these bytes of a file are."""
    return FromByteStream.table_metadata(BytesIO(data), compression=Compressor.get_compressor(location))


def read_metadata(open_io: OpenIO, location: str) -> TableMetadata:
    """The metadata at a location."""
    try:
        return FromInputFile.table_metadata(open_io({}, location).new_input(location))
    except (ValidationError, ValueError):
        raise Damaged(
            "F602", location, "it is not the metadata of an Iceberg table", hint="check the location"
        ) from None


def _document(open_io: OpenIO, location: str) -> dict[str, Any]:
    """The metadata at a location, with all that is in it."""
    with open_io({}, location).new_input(location).open() as stream:
        return parse_metadata(stream.read(), location)


def _updated(current: TableState | None, updates: Sequence[TableUpdate]) -> TableMetadata:
    before = MetastoreCatalog._empty_table_metadata() if current is None else current.metadata
    base, rest = upgraded(before, updates)
    location = None if current is None else current.location
    made = update_table_metadata(base, rest, enforce_validation=current is None, metadata_location=location)
    return with_row_ids(made, base)


def _reader(io: FileIO, may_read: Callable[[str], bool] | None) -> Callable[[str], bytes]:
    def read(location: str) -> bytes:
        if may_read is not None and not may_read(location):
            raise PermissionError(f"{location} is not opened for whoever commits")
        with io.new_input(location).open() as stream:
            return stream.read()

    return read
