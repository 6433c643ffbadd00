"""Changes of several tables through PyIceberg, committed together, in this process or in a distributed transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from pyiceberg.exceptions import NoSuchTableError

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import who
from olympia_cli.catalog.commit import Author, Committed, retry
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import SavedElsewhere
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.changes import TableChanges, TableState
from olympia_cli.iceberg.conversion import dotted, translated
from olympia_cli.names import ObjectName, Reference, TableName

R = TypeVar("R")


class CatalogTransaction(OlympiaCatalog):
    """A catalog whose changes are staged: visible here at once, and to others after the commit.

    Data files and manifests that PyIceberg writes are not deleted if the commit fails.
    """

    _changes: TableChanges

    @classmethod
    def begin(cls, catalog: OlympiaCatalog) -> CatalogTransaction:
        made = cls.__new__(cls)
        made._begin(catalog.store_catalog, catalog.name, catalog.properties)
        made.retry_for = catalog.retry_for
        made._changes = TableChanges(catalog.store_catalog.begin(), made.metadata_files)
        return made

    @property
    def version(self) -> int:
        """The version that the transaction is based on."""
        return self._changes.transaction.base.version

    @property
    def staged(self) -> Transaction:
        """The underlying transaction, for further changes."""
        return self._changes.transaction

    def stage(self, state: TableState) -> str:
        """Stage metadata of a table that was created without PyIceberg. Return its location."""
        return self._changes.stage(state.metadata, state.location).location

    def commit(self, message: str = "") -> Committed:
        """Commit the staged changes."""
        with translated():
            done = self._changes.commit(Author(by=who(), message=message), self.retry_for)
        self._committed(done)
        return done

    def transaction(self, message: str = "") -> NoReturn:
        raise ValueError("A transaction has no transactions inside")

    def at(self, reference: str | Reference) -> NoReturn:
        raise ValueError("A transaction has a version of its own")

    def _view(self, *names: ObjectName) -> Transaction:
        return self._changes.transaction

    def state(self, name: TableName) -> TableState:
        with translated(name):
            state = self._changes.state(name)
        if state is None:
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
        return state

    def _staged_file(self, location: str) -> bytes | None:
        return self._changes.staged_file(location)

    def change(self, about: ObjectName | None, do: Callable[[TableChanges], R], *names: ObjectName) -> R:
        # a failed change is undone, so that the caller can go on and commit the others
        with translated(about), self._changes.whole(keep_reads=True):
            return do(self._changes)


class DistributedCatalog(OlympiaCatalog):
    """A catalog inside a distributed transaction. It shows the staged changes, and saves each change.

    The commit of the transaction commits them all. Under SERIALIZABLE, reads are saved with the next change.
    """

    _id: str
    _looked: Transaction
    """The last loaded state, with all reads so far."""

    @classmethod
    def load(cls, catalog: OlympiaCatalog, id: str) -> DistributedCatalog:
        made = cls.__new__(cls)
        made._begin(catalog.store_catalog, catalog.name, catalog.properties)
        made._looked = distributed.load(catalog.store_catalog, id).transaction
        made._id = made._looked.id
        return made

    @property
    def version(self) -> int:
        """The version that the transaction is based on."""
        return self._view().base.version

    def transaction(self, message: str = "") -> NoReturn:
        raise ValueError("A transaction has no transactions inside")

    def at(self, reference: str | Reference) -> NoReturn:
        raise ValueError("A transaction has a version of its own")

    def _view(self, *names: ObjectName) -> Transaction:
        found = distributed.load(self.store_catalog, self._id).transaction
        found.take_reads(self._looked.reads)
        self._looked = found
        return found

    def change(self, about: ObjectName | None, do: Callable[[TableChanges], R], *names: ObjectName) -> R:
        def change() -> R:
            found = distributed.load(self.store_catalog, self._id)
            before = len(found.transaction.actions)
            changes = TableChanges(found.transaction, self.metadata_files)
            with found.statements() as transaction:
                transaction.take_reads(self._looked.reads)
                result = do(changes)
            changes.save(found)
            self.last_version, self.last_actions = None, tuple(transaction.actions[before:])
            return result

        with translated(about):
            clock = self.store_catalog.clock
            return retry(change, is_conflict=lambda error: isinstance(error, SavedElsewhere), clock=clock)
