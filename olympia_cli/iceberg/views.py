"""Iceberg views, with metadata files as tables have them.

PyIceberg supports views from 0.11 on. Older versions can only list and drop them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchViewError, TableAlreadyExistsError
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import TableProperties
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from olympia_cli.format.pb.objects_pb2 import ViewDef, ViewFormat
from olympia_cli.iceberg.access import CatalogAccess
from olympia_cli.iceberg.failures import translated
from olympia_cli.iceberg.identifiers import dotted, identifier_of, namespace_name, view_name
from olympia_cli.iceberg.table_changes import TableChanges
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.view import View
    from pyiceberg.view.metadata import ViewMetadata, ViewVersion


class IcebergViews(CatalogAccess):
    """PyIceberg's methods for views."""

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
        fresh = assign_fresh_schema_ids(self._convert_schema_if_needed(schema))
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
            changes.add_file(where, content, self._reach(name.namespace).also([place]))
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
            staged = self.metadata_files.read(self._reach(name.namespace).existing(location))
        return ViewMetadata.model_validate_json(staged)

    def _view_of(self, name: ViewName, metadata: ViewMetadata) -> View:
        from pyiceberg.view import View

        return View(identifier_of(name), metadata)


def view_definition(location: str) -> ViewDef:
    """Return the definition of a view with this metadata location."""
    return ViewDef(view_format=ViewFormat.ICEBERG_VIEW, iceberg_metadata_location=location)


def check_no_table(changes: TableChanges, name: ViewName) -> None:
    """Raise TableAlreadyExistsError if a table has the name: in Iceberg, tables and views share their names."""
    if changes.transaction.exists(TableName(name.namespace, name.name)):
        raise TableAlreadyExistsError(f"Table {dotted(name)} already exists")
