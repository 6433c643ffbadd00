"""The catalog as PyIceberg's interface has it, for one request: it looks where the request looks, and commits with the
requests beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.io import FileIO
from pyiceberg.table import TableProperties
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Properties

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.iceberg.access import folder_of
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.failures import translated
from olympia_cli.iceberg.table_changes import TableChanges, TableState
from olympia_cli.names import ObjectName, TableName
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import Failure, bad_request, forbidden, parsed
from olympia_cli.rest.locations import check_location, is_allowed
from olympia_cli.rest.table_updates import check_added, fitted

LOADS_CODE = ("py-io-impl", "py-catalog-impl", TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL)
"""Properties that name a class of Python's. A client must not choose what the server loads."""
_PATHS = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
    "location",
)

R = TypeVar("R")


class ServedCatalog(OlympiaCatalog):
    """For one request."""

    _call: Call
    _what: str
    _seen: Snapshot | Transaction | None

    @classmethod
    def of_call(cls, call: Call, what: str) -> ServedCatalog:
        """`what` is done, for the log."""
        made = cls.__new__(cls)
        made._begin(call.service.catalog, "olympia", call.service.io_properties)
        made._call, made._what, made._seen = call, what, None
        return made

    def _view(self, *names: ObjectName) -> Snapshot | Transaction:
        if self._seen is None:
            self._seen = self._call.look()
        return self._seen

    def change(self, about: ObjectName | None, do: Callable[[TableChanges], R], *names: ObjectName) -> R:
        """Do statements and commit them. They are done once before, on the version that was looked at, and thrown
        away: what cannot be done fails there, and what they read is at hand when they are done in earnest, so that the
        turn of those who commit together is short."""
        view = self._view()
        if isinstance(view, Snapshot) and self._call.prefix.at is None:
            _told(about, do, TableChanges(Transaction(view, self.store_catalog.clock), self._open_io))
        return self._call.change(lambda changes: _told(about, do, changes), self._what)

    def _open_io(self, properties: Properties, location: str) -> FileIO:
        return self._call.service.open_io(properties, location)

    # What a client may name

    def update(
        self,
        changes: TableChanges,
        name: TableName,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
    ) -> TableState:
        """Updates of a table inside a change, with all that they name looked at first."""
        current = changes.state(name)
        allowed = self.allowed_locations(name.namespace)
        if current is not None:
            check_properties(current.metadata.properties, None)
            if allowed is not None:
                # what the table has already is not up to this caller
                present = [current.metadata.properties.get(key, "") for key in _PATHS]
                allowed = [*allowed, current.metadata.location, *filter(None, present)]
        for update in updates:
            if isinstance(update, SetLocationUpdate):
                check_location(update.location, allowed, "the table's location")
            elif isinstance(update, SetPropertiesUpdate):
                check_properties(update.updates, allowed)
            elif isinstance(update, AddSnapshotUpdate) and update.snapshot.manifest_list:
                # the server opens it, to say in the log which files came and went
                check_location(update.snapshot.manifest_list, allowed, "the manifest list")
        # a manifest that the list names is opened for the same purpose
        state = changes.update(name, requirements, updates, fitted, lambda location: is_allowed(location, allowed))
        check_added(state.metadata, updates)
        check_location(state.location, allowed, "the metadata's location")
        return state

    def allowed_locations(self, namespace: str | None = None) -> list[str] | None:
        """Where this caller's tables may be, those of a namespace also at the namespace's own place; None is
        anywhere."""
        caller, settings = self._call.caller, self._call.service.settings
        if caller.locations is None and settings.tokens is None and not settings.locations:
            return None
        if caller.locations is not None:
            roots = list(caller.locations)
        else:
            roots = list(settings.locations) or [self._tables_location()]
            if caller.namespaces is not None:
                # a token for some namespaces must not bring in the tables of others by their files
                roots = [f"{root.rstrip('/')}/{folder_of(name)}" for root in roots for name in caller.namespaces]
        own = ""
        with contextlib.suppress(NoSuchNamespaceError):
            own = self.load_namespace_properties((namespace,)).get("location", "") if namespace else ""
        return [*roots, own] if own else roots


def check_properties(properties: Properties, allowed: Sequence[str] | None) -> None:
    """Refuse properties that would have the server load code, and locations that are not allowed."""
    for key in LOADS_CODE:
        if key in properties:
            raise forbidden(f"the property {key} names code to load, and this server loads none")
    for key in _PATHS:
        if properties.get(key):
            check_location(properties[key], allowed, f"the property {key}")


def check_registered(metadata: Mapping[str, Any], allowed: Sequence[str] | None, what: str) -> None:
    """Refuse metadata of a client's making that names what it may not: what a table has is not asked about again."""
    check_location(str(metadata.get("location")), allowed, what)
    properties = metadata.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise bad_request("the properties of the metadata are not texts")
    check_properties(properties, allowed)


def _told(about: ObjectName | None, do: Callable[[TableChanges], R], changes: TableChanges) -> R:
    def done() -> R:
        with translated(about):
            return do(changes)

    try:
        return parsed(done)
    except FileNotFoundError as error:
        where = error.filename or error
        raise Failure(404, "NotFoundException", f"Failed to open input stream for file: {where}") from error
    except OSError as error:
        # nothing was committed: this is before
        raise Failure(503, "ServiceUnavailableException", f"a table's file cannot be read: {error}") from error
