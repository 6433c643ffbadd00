"""A catalog for PyIceberg: `py-catalog-impl: olympia_cli.iceberg.OlympiaCatalog`."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote
from uuid import uuid4

from pyiceberg.catalog import MetastoreCatalog, PropertiesUpdateSummary
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, NoSuchViewError, TableAlreadyExistsError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import CommitTableResponse, StagedTable, Table, TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.types import transform_dict_value_to_str

from olympia_cli.catalog.catalog import Catalog, who
from olympia_cli.catalog.commit import Author, Committed, retry
from olympia_cli.catalog.properties import ONE_SDK, TABLE_LOCATION, check_places
from olympia_cli.catalog.snapshot import Snapshot, namespace_for_new
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidName
from olympia_cli.format.actions import Action
from olympia_cli.format.paths import DATA
from olympia_cli.format.pb.objects_pb2 import ViewDef, ViewFormat
from olympia_cli.iceberg.changes import TableChanges, TableState, check_no_view, check_property_locations, read_metadata
from olympia_cli.iceberg.conversion import dotted, identifier_of, namespace_name, table_name, translated, view_name
from olympia_cli.iceberg.files import MetadataFiles, PyIcebergFiles
from olympia_cli.iceberg.format_v3 import with_defaults, with_row_ids
from olympia_cli.iceberg.internals import to_schema
from olympia_cli.iceberg.locations import Reach, barred_folders
from olympia_cli.iceberg.settings import same_sdk, store_options, trusted
from olympia_cli.names import Kind, NamespaceName, ObjectName, Reference, TableName, ViewName, parse_reference
from olympia_cli.storage.open import check_opens, scheme_of

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.view import View
    from pyiceberg.view.metadata import ViewMetadata, ViewVersion

    from olympia_cli.iceberg.transaction import CatalogTransaction, DistributedCatalog

R = TypeVar("R")
_CLEANING = TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED
_log = logging.getLogger(__name__)


class OlympiaCatalog(MetastoreCatalog):
    """An Olympia catalog for PyIceberg. The property `warehouse` is its URI; others are PyIceberg's settings for the
    store.

    Each change is one commit. `transaction` commits several changes together. `at` returns a read-only catalog of one
    version.
    """

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

    def __init__(self, name: str, **properties: str) -> None:
        warehouse = properties.get("warehouse")
        if not warehouse:
            raise ValueError("Give the catalog's URI as warehouse")
        self._begin(Catalog.open(warehouse, options=store_options(warehouse, properties) or None), name, properties)

    @classmethod
    def of(cls, catalog: Catalog, name: str = "olympia", **properties: str) -> OlympiaCatalog:
        """Return PyIceberg's view of an open catalog."""
        made = cls.__new__(cls)
        made._begin(catalog, name, {"warehouse": catalog.store.uri, **properties})
        return made

    def _begin(self, catalog: Catalog, name: str, properties: Properties) -> None:
        MetastoreCatalog.__init__(self, name, **properties)
        self.store_catalog = catalog.remembering()
        self.message, self.retry_for = "", 60.0
        self.last_version, self.last_actions = None, ()
        self._fixed = None
        self._ios = {}

    def at(self, reference: str | Reference) -> OlympiaCatalog:
        """Return a read-only catalog of a version, a time or an export."""
        wanted = parse_reference(reference) if isinstance(reference, str) else reference
        made = OlympiaCatalog.of(self.store_catalog, self.name, **self.properties)
        made._fixed = self.store_catalog.snapshot(wanted)
        return made

    @contextmanager
    def transaction(self, message: str = "") -> Iterator[CatalogTransaction]:
        """A catalog whose changes are committed together at the end of the block.

        An error in the block discards all of them. Raise CommitFailedException after a conflict with another writer.
        """
        from olympia_cli.iceberg.transaction import CatalogTransaction

        self._check_writable()
        made = CatalogTransaction.begin(self)
        try:
            yield made
            made.commit(message)
        finally:
            # later changes raise an error, because they would be lost
            made.staged.open = False

    def inside(self, transaction_id: str) -> DistributedCatalog:
        """Return the catalog inside a distributed transaction, which other processes may use too."""
        from olympia_cli.iceberg.transaction import DistributedCatalog

        self._check_writable()
        return DistributedCatalog.load(self, transaction_id)

    @property
    def version(self) -> int:
        """The version that this catalog shows: the fixed one, or the latest."""
        return (self._fixed or self.store_catalog.snapshot()).version

    def close(self) -> None:
        self.store_catalog.store.close()

    # Namespaces

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        name = namespace_name(namespace)
        given = _texts(properties)
        self.change(name, lambda changes: changes.transaction.create_namespace(name, given), name)

    def drop_namespace(self, namespace: str | Identifier) -> None:
        name = namespace_name(namespace, NoSuchNamespaceError)
        self.change(name, lambda changes: changes.transaction.drop_namespace(name), name)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        if namespace:
            self.load_namespace_properties(namespace)
            # namespaces have one level
            return []
        return [identifier_of(name) for name in self._view().namespaces()]

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        name = namespace_name(namespace, NoSuchNamespaceError)
        with translated(name):
            return self._view(name).namespace(name).properties

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        try:
            return self._exists(namespace_name(namespace, NoSuchNamespaceError))
        except NoSuchNamespaceError:
            return False

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        name = namespace_name(namespace, NoSuchNamespaceError)
        given = _texts(updates)
        if both := given.keys() & (removals or ()):
            raise ValueError(f"Updates and deletes have an overlap: {both}")

        def change(changes: TableChanges) -> PropertiesUpdateSummary:
            before = changes.transaction.namespace(name).properties
            removed = sorted(set(removals or ()) & before.keys())
            if given or removed:
                changes.transaction.alter_namespace(name, given, removed)
            return PropertiesUpdateSummary(removed, sorted(given), sorted(set(removals or ()) - before.keys()))

        return self.change(name, change, name)

    # Tables

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pyarrow.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        check_places(properties)
        staged = self._create_staged_table(identifier, schema, location, partition_spec, sort_order, properties)
        name = table_name(staged.name())

        def create(changes: TableChanges) -> TableState:
            check_no_view(changes.transaction, name)
            return changes.create(name, staged.metadata, staged.metadata_location, self.reach(name.namespace))

        return self.table_of(name, self.change(name, create, NamespaceName(name.namespace), name))

    def load_table(self, identifier: str | Identifier) -> Table:
        name = table_name(identifier, NoSuchTableError)
        return self.table_of(name, self.state(name))

    def table_exists(self, identifier: str | Identifier) -> bool:
        try:
            return self._exists(table_name(identifier, NoSuchTableError))
        except (NoSuchTableError, NoSuchNamespaceError):
            return False

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Register a table by its metadata location. The metadata is read first, so that it is known to be readable."""
        name = table_name(identifier)
        place = self.reach(name.namespace).existing(metadata_location)
        metadata = read_metadata(self.metadata_files, metadata_location, place)

        def register(changes: TableChanges) -> None:
            check_no_view(changes.transaction, name)
            if overwrite and changes.transaction.exists(name):
                changes.transaction.alter_table(name, metadata_location=metadata_location)
            else:
                changes.transaction.create_table(name, metadata_location)

        self.change(name, register, NamespaceName(name.namespace), name)
        return self.table_of(name, TableState(metadata, metadata_location))

    def register_tables(self, locations: Mapping[Identifier, str]) -> None:
        """Register many tables in one commit, without reading their metadata."""
        names = {table_name(identifier): location for identifier, location in locations.items()}

        def register(changes: TableChanges) -> None:
            for name, location in names.items():
                with translated(name):
                    changes.transaction.create_table(name, location)

        self.change(None, register)

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        old, new = table_name(from_identifier, NoSuchTableError), table_name(to_identifier)

        def rename(changes: TableChanges) -> TableState | None:
            with translated(old):
                changes.transaction.table(old)
            check_no_view(changes.transaction, new)
            changes.transaction.rename_table(old, new)
            return changes.state(new)

        state = self.change(new, rename, old, NamespaceName(new.namespace), new)
        assert state is not None
        return self.table_of(new, state)

    def drop_table(self, identifier: str | Identifier) -> None:
        name = table_name(identifier, NoSuchTableError)
        self.change(name, lambda changes: changes.transaction.drop_table(name), name)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Drop the table, but keep its files, because retained versions still refer to them."""
        self.drop_table(identifier)
        _log.warning(
            "dropped %s without deleting its files: versions that are kept still name them, and a rollback needs them",
            dotted(table_name(identifier)),
        )

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        return self.update_table(table.name(), requirements, updates)

    def update_table(
        self,
        identifier: str | Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Like `commit_table`, by name. Raise CommitFailedException if a requirement is not met.

        After a conflict, the updates are repeated on the new state if it meets the requirements.
        """
        name = table_name(identifier, NoSuchTableError)
        state = self.change(
            name,
            lambda changes: changes.update(name, requirements, updates, reach=self.reach(name.namespace)),
            NamespaceName(name.namespace),
            name,
        )
        response = {"metadata": self._trusted(state.metadata), "metadata-location": state.location}
        return CommitTableResponse.model_validate(response)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        name = namespace_name(namespace, NoSuchNamespaceError)
        with translated(name):
            return self._list(Kind.TABLE, name)

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
        columns = to_schema(schema, _format_version(given))
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

    def supports_server_side_planning(self) -> bool:
        return False

    def _delete_old_metadata(  # type: ignore[override]
        self, io: FileIO, base: TableMetadata, metadata: TableMetadata
    ) -> None:
        """Delete nothing, because retained versions refer to the older metadata files."""
        before, after = ({entry.metadata_file for entry in one.metadata_log} for one in (base, metadata))
        if before - after and metadata.properties.get(_CLEANING, "").lower() == "true":
            _log.info("%s is not done: versions that are kept name the older metadata files", _CLEANING)

    # Views, with metadata files as tables have them. PyIceberg supports them from 0.11 on; older versions can only list
    # and drop them

    def create_view(
        self,
        identifier: str | Identifier,
        schema: Schema | pyarrow.Schema,
        view_version: ViewVersion,
        location: str | None = None,
        properties: Properties = EMPTY_DICT,
    ) -> View:
        from pyiceberg.view.metadata import ViewMetadata

        name = view_name(identifier)
        self._check_writable()
        place = self._new_place(name, location, properties)
        fresh = assign_fresh_schema_ids(to_schema(schema, _format_version({})))
        version = view_version.model_copy(update={"schema_id": fresh.schema_id})
        metadata = ViewMetadata.model_validate(
            {
                "view-uuid": str(uuid4()),
                "format-version": 1,
                "location": place,
                "schemas": [fresh],
                "current-version-id": version.version_id,
                "versions": [version],
                "version-log": [{"timestamp-ms": int(time.time() * 1000), "version-id": version.version_id}],
                "properties": dict(properties),
            }
        )
        folder = str(properties.get(TableProperties.WRITE_METADATA_PATH) or f"{place}/metadata").rstrip("/")
        where = f"{folder}/00000-{uuid4()}.metadata.json"
        content = metadata.model_dump_json(exclude_none=True, by_alias=True).encode()

        def create(changes: TableChanges) -> None:
            check_no_table(changes, name)
            changes.add_file(where, content, self.reach(name.namespace).also([place]))
            changes.transaction.create_view(name, view_definition(where))

        self.change(name, create, NamespaceName(name.namespace), name)
        return self._view_of(name, metadata)

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Register a view by its metadata location. The metadata is read first, so that it is known to be readable."""
        name = view_name(identifier)
        metadata = self._read_view(name, metadata_location)

        def register(changes: TableChanges) -> None:
            check_no_table(changes, name)
            changes.transaction.create_view(name, view_definition(metadata_location))

        self.change(name, register, NamespaceName(name.namespace), name)
        return self._view_of(name, metadata)

    def load_view(self, identifier: str | Identifier) -> View:
        name = view_name(identifier, NoSuchViewError)
        with translated(name):
            definition = self._view(name).view(name).definition
        if definition.view_format != ViewFormat.ICEBERG_VIEW:
            raise NoSuchViewError(f"View {dotted(name)} is a Substrait plan, not an Iceberg view")
        return self._view_of(name, self._read_view(name, definition.iceberg_metadata_location))

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        name = namespace_name(namespace, NoSuchNamespaceError)
        with translated(name):
            return self._list(Kind.VIEW, name)

    def view_exists(self, identifier: str | Identifier) -> bool:
        try:
            return self._exists(view_name(identifier, NoSuchViewError))
        except (NoSuchViewError, NoSuchNamespaceError):
            return False

    def drop_view(self, identifier: str | Identifier) -> None:
        name = view_name(identifier, NoSuchViewError)
        self.change(name, lambda changes: changes.transaction.drop_view(name), name)

    def rename_view(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> None:
        """Rename a view. PyIceberg has no such method, but Iceberg's REST protocol has."""
        old, new = view_name(from_identifier, NoSuchViewError), view_name(to_identifier)

        def rename(changes: TableChanges) -> None:
            with translated(old):
                changes.transaction.view(old)
            check_no_table(changes, new)
            changes.transaction.rename_view(old, new)

        self.change(new, rename, old, NamespaceName(new.namespace), new)

    def _read_view(self, name: ViewName, location: str) -> ViewMetadata:
        from pyiceberg.view.metadata import ViewMetadata

        staged = self._staged_file(location)
        if staged is None:
            staged = self.metadata_files.read(self.reach(name.namespace).existing(location))
        return ViewMetadata.model_validate_json(staged)

    def _view_of(self, name: ViewName, metadata: ViewMetadata) -> View:
        from pyiceberg.view import View

        return View(identifier_of(name), metadata)

    # Reads and changes

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

    def state(self, name: TableName) -> TableState:
        try:
            with translated(name):
                location = self._view(name).table(name).definition.iceberg_metadata_location
        except ValueError as invalid:
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}") from invalid
        place = self.reach(name.namespace).existing(location)
        return TableState(read_metadata(self.metadata_files, location, place), location)

    def table_of(self, name: TableName, state: TableState) -> Table:
        io = self.open_files(state.location)
        return Table(identifier_of(name), self._trusted(state.metadata), state.location, io, self)

    def _trusted(self, metadata: TableMetadata) -> TableMetadata:
        return trusted(metadata, self.properties, barred_folders(self.store_catalog.store.uri))

    def _staged_file(self, location: str) -> bytes | None:
        """Return the content of a file that is staged but not written yet, or None."""
        return None

    def change(self, about: ObjectName | None, do: Callable[[TableChanges], R], *names: ObjectName) -> R:
        """Apply `do` to the latest version and commit. After a conflict, retry on the new latest version.

        The retry either succeeds or raises the error that explains the conflict.
        """
        self._check_writable()

        def change() -> R:
            transaction = self.store_catalog.begin(names=names)
            changes = TableChanges(transaction, self.metadata_files)
            result = do(changes)
            self._committed(changes.commit(Author(by=who(), message=self.message), self.retry_for))
            return result

        with translated(about):
            return retry(change, clock=self.store_catalog.clock)

    def _committed(self, done: Committed) -> None:
        self.last_version, self.last_actions = done.version, done.actions
        self.store_catalog.head.advance(done)

    def _check_writable(self) -> None:
        if self._fixed is not None:
            raise ValueError(f"This catalog is as of version {self._fixed.version}, and nothing is changed through it")

    # Files and locations

    @property
    def metadata_files(self) -> MetadataFiles:
        """Access to metadata files."""
        return PyIcebergFiles(self.open_files)

    def open_files(self, location: str) -> FileIO:
        """Return PyIceberg's FileIO for a location, with the catalog's own settings only.

        Locations on the same kind of store share one FileIO and its connections.
        """
        check_opens(location)
        scheme = scheme_of(location)
        io = self._ios.get(scheme)
        if io is None:
            own = same_sdk(location) if ONE_SDK in self.properties else {}
            io = self._ios[scheme] = load_file_io({**self.properties, **own}, location)
        return io

    def reach(self, namespace: str) -> Reach:
        """Return the folders where tables and views of the namespace may be."""
        return Reach(barred=barred_folders(self.store_catalog.store.uri))

    def _new_place(self, name: TableName | ViewName, location: str | None, properties: Properties) -> str:
        """Return the location of a new table or view: the given one if it is allowed, or a new folder."""
        reach = self.reach(name.namespace)
        check_property_locations(properties, reach)
        if location:
            reach.named(location, f"the {name.kind.word}'s location")
        return location.rstrip("/") if location else self.new_folder(name)

    def new_folder(self, name: TableName | ViewName) -> str:
        """Return the default location of a new table or view: a folder that no other one has or had.

        A cleanup of orphan files in one table must not find files of another one that was dropped or renamed.
        """
        namespace = NamespaceName(name.namespace)
        view = self._view(namespace)
        with translated(namespace), namespace_for_new():
            own = view.namespace(namespace).properties.get("location")
        folder = f"{folder_of(name.name)}-{uuid4().hex[:12]}"
        if own:
            return f"{own.rstrip('/')}/{folder}"
        return f"{self._tables_location()}/{folder_of(name.namespace)}/{folder}"

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


def _format_version(properties: Properties) -> int:
    return int(properties.get(TableProperties.FORMAT_VERSION, TableProperties.DEFAULT_FORMAT_VERSION))


def _texts(properties: Properties) -> dict[str, str]:
    """Return the properties as strings. Raise ValueError for the key None."""
    if None in properties:
        raise ValueError("None type is not a supported name of a property")
    return transform_dict_value_to_str(properties)


def view_definition(location: str) -> ViewDef:
    """Return the definition of a view with this metadata location."""
    return ViewDef(view_format=ViewFormat.ICEBERG_VIEW, iceberg_metadata_location=location)


def check_no_table(changes: TableChanges, name: ViewName) -> None:
    """Raise TableAlreadyExistsError if a table has the name: in Iceberg, tables and views share their names."""
    if changes.transaction.exists(TableName(name.namespace, name.name)):
        raise TableAlreadyExistsError(f"Table {dotted(name)} already exists")


def folder_of(name: str) -> str:
    """Return a unique folder name for any object name. However a program decodes it, it leads to no other folder.

    Escapes are those of URLs, except where decoding would change the path: `/` becomes `=2F`.
    """
    if not name.strip("."):
        return name.replace(".", "=2E")
    return re.sub("%(2F|5C|25)", r"=\1", quote(name, safe=""))
