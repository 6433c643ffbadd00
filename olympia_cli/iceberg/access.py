"""The base of the catalog for PyIceberg: read, change and open files. `catalog.py` and `views.py` add the interface."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote
from uuid import uuid4

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable, Table, TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from olympia_cli.catalog.catalog import Catalog, who
from olympia_cli.catalog.checks import TABLE_LOCATION
from olympia_cli.catalog.commit import Author, Committed
from olympia_cli.catalog.snapshot import Snapshot, namespace_for_new
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import CommitConflict, InvalidName
from olympia_cli.format.actions import Action
from olympia_cli.format.paths import DATA
from olympia_cli.iceberg.failures import translated
from olympia_cli.iceberg.format_v3 import with_defaults, with_row_ids
from olympia_cli.iceberg.identifiers import dotted, identifier_of, table_name
from olympia_cli.iceberg.locations import Reach, barred_folders
from olympia_cli.iceberg.metadata_files import MetadataFiles, PyIcebergFiles
from olympia_cli.iceberg.settings import ONE_SDK, same_sdk, trusted
from olympia_cli.iceberg.table_changes import TableChanges, TableState, check_properties, read_metadata
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName
from olympia_cli.storage.open import check_opens, scheme_of

if TYPE_CHECKING:
    import pyarrow

ATTEMPTS = 20
R = TypeVar("R")


class CatalogAccess(MetastoreCatalog):
    """An Olympia catalog behind PyIceberg's interface."""

    store_catalog: Catalog
    message: str
    """The message of commits."""
    retry_for: float
    """The seconds for which a commit is retried after conflicts."""
    last_version: int | None
    """The version of the last change, or None if it is not committed yet."""
    last_actions: tuple[Action, ...]
    """The actions of the last change."""
    _fixed: Snapshot | None
    _ios: dict[str, FileIO]

    def _begin(self, catalog: Catalog, name: str, properties: Properties) -> None:
        MetastoreCatalog.__init__(self, name, **properties)
        self.store_catalog = catalog.remembering()
        self.message, self.retry_for = "", 60.0
        self.last_version, self.last_actions = None, ()
        self._fixed = None
        self._ios = {}

    def _view(self, *names: ObjectName) -> Snapshot | Transaction:
        """Return the state to read: the latest version, with the nodes on the way to these names, or a fixed
        version.
        """
        if self._fixed is not None:
            return self._fixed
        return self.store_catalog.snapshot(names=names)

    def _exists(self, name: ObjectName) -> bool:
        view = self._view(name)
        try:
            return view.exists(name) if isinstance(view, Transaction) else view.find(name) is not None
        except InvalidName:
            # the name is too long for this catalog
            return False

    def _list(self, kind: Kind, name: NamespaceName) -> list[Identifier]:
        view = self._view(name)
        if isinstance(view, Transaction):
            found = view.tables(name.namespace) if kind is Kind.TABLE else view.views(name.namespace)
            return [identifier_of(one) for one in found]
        namespace = name.namespace
        return [(namespace, one) for one in view.names(kind, namespace)]

    def _state(self, name: TableName) -> TableState:
        try:
            with translated(name):
                location = self._view(name).table(name).definition.iceberg_metadata_location
        except ValueError as invalid:
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}") from invalid
        place = self._reach(name.namespace).existing(location)
        return TableState(read_metadata(self.metadata_files, location, place), location)

    @property
    def metadata_files(self) -> MetadataFiles:
        """Access to metadata files."""
        return PyIcebergFiles(self.open_files)

    def _reach(self, namespace: str) -> Reach:
        """Return the folders where tables and views of the namespace may be."""
        return Reach(barred=barred_folders(self.store_catalog.store.uri))

    def _staged_file(self, location: str) -> bytes | None:
        """Return the content of a file that is staged but not written yet, or None."""
        return None

    def change(self, about: ObjectName | None, do: Callable[[TableChanges], R], *names: ObjectName) -> R:
        """Apply `do` to the latest version and commit. After a conflict, retry on the new latest version.

        The retry either succeeds or raises the error that explains the conflict.
        """
        self._check_writable()
        for attempt in range(ATTEMPTS):
            with translated(about):
                transaction = self.store_catalog.begin(names=names)
                changes = TableChanges(transaction, self.metadata_files)
                done = do(changes)
                try:
                    self._committed(changes.commit(Author(by=who(), message=self.message), self.retry_for))
                    return done
                except CommitConflict:
                    if attempt == ATTEMPTS - 1:
                        raise
            self._wait(attempt)
        raise AssertionError("unreachable")

    def _committed(self, done: Committed) -> None:
        self.last_version, self.last_actions = done.version, done.actions
        self.store_catalog.head.advance(done)

    def _wait(self, attempt: int) -> None:
        """Sleep for a random time after a conflict."""
        self.store_catalog.clock.sleep(random.uniform(0, 0.01 * min(attempt + 1, 10)))

    def _check_writable(self) -> None:
        if self._fixed is not None:
            raise ValueError(f"This catalog is as of version {self._fixed.version}, and nothing is changed through it")

    def _table(self, name: TableName, state: TableState) -> Table:
        io = self.open_files(state.location)
        return Table(identifier_of(name), self._trusted(state.metadata), state.location, io, self)

    def _trusted(self, metadata: TableMetadata) -> TableMetadata:
        return trusted(metadata, self.properties, barred_folders(self.store_catalog.store.uri))

    def open_files(self, location: str) -> FileIO:
        """Return PyIceberg's FileIO for a location, with the catalog's own settings only.

        Locations on the same kind of store share one FileIO and its connections.
        """
        check_opens(location)
        scheme = scheme_of(location)
        io = self._ios.get(scheme)
        if io is None:
            properties = same_sdk(location) if ONE_SDK in self.properties else {}
            io = self._ios[scheme] = self._load_file_io(properties, location)
        return io

    # Locations of new tables

    def _create_staged_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pyarrow.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> StagedTable:
        name = table_name(identifier)
        self._check_writable()
        place = self._new_place(name, location, properties)
        # a copy, because PyIceberg removes the format version from it
        given = dict(properties)
        columns = _converted(schema, given)
        metadata = new_table_metadata(columns, partition_spec, sort_order, location=place, properties=given)
        metadata = with_defaults(with_row_ids(metadata), columns)
        provider = load_location_provider(place, dict(properties))
        staged = TableState(metadata, provider.new_table_metadata_file_location())
        return StagedTable(
            identifier=identifier_of(name),
            metadata=staged.metadata,
            metadata_location=staged.location,
            io=self.open_files(staged.location),
            catalog=self,
        )

    def _new_place(self, name: TableName | ViewName, location: str | None, properties: Properties) -> str:
        """Return the location of a new table or view: the given one if it is allowed, or a new folder."""
        reach = self._reach(name.namespace)
        check_properties(properties, reach)
        if location:
            reach.named(location, f"the {name.kind.word}'s location")
        return self._resolve_table_location(location, name.namespace, name.name)

    def new_table_folder(self, name: TableName) -> str:
        """Return the default location of a new table."""
        return self._get_default_warehouse_location(name.namespace, name.name)

    def _get_default_warehouse_location(self, database_name: str, table_name: str) -> str:
        """Return a folder that no other table has or had.

        A cleanup of orphan files in one table must not find files of another one that was dropped or renamed.
        """
        name = NamespaceName(database_name)
        view = self._view(name)
        with translated(name), namespace_for_new():
            own = view.namespace(name).properties.get("location")
        folder = f"{folder_of(table_name)}-{uuid4().hex[:12]}"
        if own:
            return f"{own.rstrip('/')}/{folder}"
        return f"{self._tables_location()}/{folder_of(database_name)}/{folder}"

    def _tables_location(self) -> str:
        """Return the location for tables of namespaces without a location of their own."""
        view = self._view()
        definition = view.base.definition if isinstance(view, Transaction) else view.definition
        return (definition.properties.get(TABLE_LOCATION) or f"{self._warehouse()}/{DATA}").rstrip("/")

    def _warehouse(self) -> str:
        """Return the catalog's URI as the user wrote it."""
        uri, own = str(self.properties["warehouse"]), self.store_catalog.store.uri
        if scheme_of(uri) != "file":
            return uri.rstrip("/")
        # the store has decoded %20 in the URI, but locations of tables are literal
        return f"file://{own}" if "://" in uri else own


def _converted(schema: Schema | pyarrow.Schema, properties: Properties) -> Schema:
    """Return PyIceberg's schema. In newer PyIcebergs, the conversion of an Arrow schema depends on the table's format
    version.
    """
    convert = MetastoreCatalog._convert_schema_if_needed
    if len(signature(convert).parameters) == 1:
        return convert(schema)
    version = int(properties.get(TableProperties.FORMAT_VERSION, TableProperties.DEFAULT_FORMAT_VERSION))
    return convert(schema, cast(Any, version))


def folder_of(name: str) -> str:
    """Return a unique folder name for any object name. However a program decodes it, it leads to no other folder.

    Escapes are those of URLs, except where decoding would change the path: `/` becomes `=2F`.
    """
    if not name.strip("."):
        return name.replace(".", "=2E")
    return re.sub("%(2F|5C|25)", r"=\1", quote(name, safe=""))
