"""A catalog for PyIceberg: `py-catalog-impl: olympia_cli.iceberg.OlympiaCatalog`.

Each change is one commit. `transaction` commits several changes together. `at` returns a read-only catalog of one
version.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.catalog import PropertiesUpdateSummary
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.types import transform_dict_value_to_str

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.checks import check_places
from olympia_cli.iceberg.failures import translated
from olympia_cli.iceberg.identifiers import dotted, identifier_of, namespace_name, table_name
from olympia_cli.iceberg.settings import store_options
from olympia_cli.iceberg.table_changes import TableChanges, TableState, check_no_view, read_metadata
from olympia_cli.iceberg.views import IcebergViews
from olympia_cli.names import Kind, NamespaceName, Reference, parse_reference

if TYPE_CHECKING:
    import pyarrow

    from olympia_cli.iceberg.catalog_transaction import CatalogTransaction, DistributedCatalog

_CLEANING = TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED
_log = logging.getLogger(__name__)


class OlympiaCatalog(IcebergViews):
    """An Olympia catalog for PyIceberg. The property `warehouse` is its URI; others are PyIceberg's settings for the
    store.
    """

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
        from olympia_cli.iceberg.catalog_transaction import CatalogTransaction

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
        from olympia_cli.iceberg.catalog_transaction import DistributedCatalog

        self._check_writable()
        return DistributedCatalog.load(self, transaction_id)

    @property
    def version(self) -> int:
        """The version that this catalog shows: the fixed one, or the latest."""
        return (self._fixed or self.store_catalog.snapshot()).version

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
        self._check_for_overlap(removals=removals, updates=given)

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
            return changes.create(name, staged.metadata, staged.metadata_location, self._reach(name.namespace))

        return self._table(name, self.change(name, create, NamespaceName(name.namespace), name))

    def load_table(self, identifier: str | Identifier) -> Table:
        name = table_name(identifier, NoSuchTableError)
        return self._table(name, self._state(name))

    def table_exists(self, identifier: str | Identifier) -> bool:
        try:
            return self._exists(table_name(identifier, NoSuchTableError))
        except (NoSuchTableError, NoSuchNamespaceError):
            return False

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Register a table by its metadata location. The metadata is read first, so that it is known to be readable."""
        name = table_name(identifier)
        place = self._reach(name.namespace).existing(metadata_location)
        metadata = read_metadata(self.metadata_files, metadata_location, place)

        def register(changes: TableChanges) -> None:
            check_no_view(changes.transaction, name)
            if overwrite and changes.transaction.exists(name):
                changes.transaction.alter_table(name, metadata_location=metadata_location)
            else:
                changes.transaction.create_table(name, metadata_location)

        self.change(name, register, NamespaceName(name.namespace), name)
        return self._table(name, TableState(metadata, metadata_location))

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
        return self._table(new, state)

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
            lambda changes: changes.update(name, requirements, updates, reach=self._reach(name.namespace)),
            NamespaceName(name.namespace),
            name,
        )
        response = {"metadata": self._trusted(state.metadata), "metadata-location": state.location}
        return CommitTableResponse.model_validate(response)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        name = namespace_name(namespace, NoSuchNamespaceError)
        with translated(name):
            return self._list(Kind.TABLE, name)

    # Other methods of PyIceberg's interface

    def supports_server_side_planning(self) -> bool:
        return False

    def _delete_old_metadata(  # type: ignore[override]
        self, io: FileIO, base: TableMetadata, metadata: TableMetadata
    ) -> None:
        """Delete nothing, because retained versions refer to the older metadata files."""
        before, after = ({entry.metadata_file for entry in one.metadata_log} for one in (base, metadata))
        if before - after and metadata.properties.get(_CLEANING, "").lower() == "true":
            _log.info("%s is not done: versions that are kept name the older metadata files", _CLEANING)

    def close(self) -> None:
        self.store_catalog.store.close()


def _texts(properties: Properties) -> dict[str, str]:
    """Return the properties as strings. Raise ValueError for the key None."""
    if None in properties:
        raise ValueError("None type is not a supported name of a property")
    return transform_dict_value_to_str(properties)
