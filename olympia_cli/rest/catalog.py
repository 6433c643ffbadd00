"""PyIceberg's interface to the catalog for one request. It reads the version of the request, and uses group commit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.io import FileIO
from pyiceberg.table.update import (
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Properties

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidLocation, OlympiaError
from olympia_cli.iceberg import (
    LOADS_CODE,
    MetadataFiles,
    OlympiaCatalog,
    PlannedUpdate,
    Reach,
    TableChanges,
    TableState,
    barred_folders,
    check_property_locations,
    folder_of,
    parse_location,
    plan_update,
    read_document,
    translated,
)
from olympia_cli.names import ObjectName, TableName
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import ErrorResponse, bad_request, forbidden, parsed
from olympia_cli.rest.service import Located
from olympia_cli.rest.updates import check_added, check_keys, fitted

R = TypeVar("R")
Update = tuple[TableName, Sequence[TableRequirement], Sequence[TableUpdate]]


class ServedCatalog(OlympiaCatalog):
    """The catalog for one request."""

    _call: Call
    _what: str
    _seen: Snapshot | Transaction | None
    _reaches: dict[str | None, Reach]

    @classmethod
    def of_call(cls, call: Call, what: str) -> ServedCatalog:
        """Create it. `what` is the message of commits."""
        made = cls.__new__(cls)
        made._begin(call.service.catalog, "olympia", call.service.io_properties)
        made._call, made._what, made._seen, made._reaches = call, what, None, {}
        return made

    def _view(self, *names: ObjectName) -> Snapshot | Transaction:
        if self._seen is None:
            self._seen = self._call.look()
        return self._seen

    def change(self, about: ObjectName | None, do: Callable[[TableChanges], R], *names: ObjectName) -> R:
        """Commit a change, with the changes of other clients.

        First read the objects in `names` in the version of the request. What is cached then takes no time of the
        others.
        """
        view = self._view()
        if isinstance(view, Snapshot):
            for name in names:
                # the change raises the error again if it needs the object: a drop needs no sound definition
                with contextlib.suppress(OlympiaError):
                    view.get(name)
        return self._call.change(lambda changes: _told(about, lambda: do(changes)), self._what)

    def commit(self, updates: Sequence[Update]) -> list[TableState]:
        """Update several tables, all of them or none.

        Each update is planned here, on the version of the request. The group commit stages the plan, and plans again
        only if the table has changed since.
        """
        planned: dict[TableName, PlannedUpdate] = {}
        view = self._view()
        if isinstance(view, Snapshot) and self._call.prefix.at is None:
            for update in updates:
                # a second update of the same table needs the state after the first
                if update[0] not in planned:
                    planned[update[0]] = _told(None, partial(self._plan_ahead, view, update))

        def staged(changes: TableChanges, update: Update) -> TableState:
            plan = planned.pop(update[0], None)
            if plan is None or not changes.still_fits(plan):
                current = changes.state(update[0], self.reach(update[0].namespace))
                plan = self._plan(changes.transaction, current, update, changes.places)
            return changes.apply(plan)

        return self.change(None, lambda changes: [staged(changes, update) for update in updates])

    @property
    def metadata_files(self) -> MetadataFiles:
        return self._call.service.kept

    def open_files(self, location: str) -> FileIO:
        """Return a FileIO without access to files. PyIceberg requires one for a table, but the server never uses it."""
        return _NO_FILES

    # Checks of names in requests

    def _plan_ahead(self, view: Snapshot, update: Update) -> PlannedUpdate:
        return self._plan(view, None if view.find(update[0]) is None else self.state(update[0]), update)

    def _plan(
        self, view: Snapshot | Transaction, current: TableState | None, update: Update, unwritten: Sequence[str] = ()
    ) -> PlannedUpdate:
        """Plan the update of a table. Raise an error if the caller is not allowed to make it."""
        name, requirements, updates = update
        if current is not None:
            check_code(current.metadata.properties)
            # no update adds or removes keys, so a staged file has those of the version of the request
            if current.location not in unwritten:
                check_keys(updates, lambda: read_document(self.metadata_files, current, self.reach(name.namespace)))
        for one in updates:
            if isinstance(one, SetPropertiesUpdate):
                check_code(one.updates)
        files, reach = self.metadata_files, self.reach(name.namespace)
        plan = plan_update(view, files, name, current, requirements, updates, fitted, reach, unwritten)
        check_added(plan.after.metadata, updates)
        return plan

    def reach(self, namespace: str | None = None) -> Reach:
        """Return the folders where this caller's tables may be, including the namespace's location."""
        if namespace not in self._reaches:
            self._reaches[namespace] = self._reach_of(namespace)
        return self._reaches[namespace]

    def _reach_of(self, namespace: str | None) -> Reach:
        caller, settings = self._call.caller, self._call.service.settings
        barred = barred_folders(self.store_catalog.store.uri)
        own = ""
        with contextlib.suppress(NoSuchNamespaceError):
            own = self.load_namespace_properties((namespace,)).get("location", "") if namespace else ""
        if self._is_anywhere:
            return Reach(barred=barred).also([self._tables_location(), own])
        if caller.locations is not None:
            folders = list(caller.locations)
        else:
            folders = list(settings.locations) or [self._tables_location()]
            if caller.namespaces is not None:
                # a token for some namespaces must not register tables of others by their files
                folders = [
                    f"{folder.rstrip('/')}/{folder_of(name)}" for folder in folders for name in caller.namespaces
                ]
        return Reach(tuple([*folders, own] if own else folders), barred=barred)

    @property
    def _is_anywhere(self) -> bool:
        caller, settings = self._call.caller, self._call.service.settings
        return caller.locations is None and settings.tokens is None and not settings.locations

    def located(self, namespace: str, location: str) -> Located:
        """Return the location of an existing metadata file. Links out of the caller's reach are not followed."""
        try:
            place = parse_location(location) if self._is_anywhere else self.reach(namespace).existing(location)
        except InvalidLocation as error:
            # the location is in the catalog, so it is not the client's mistake
            raise ErrorResponse(
                500, "InternalServerError", f"the metadata file cannot be read: {error.message}"
            ) from None
        return Located(location, place)


def check_code(properties: Properties) -> None:
    """Raise ErrorResponse for properties that would make the server load code."""
    for key in LOADS_CODE:
        if key in properties:
            raise forbidden(f"the property {key} names code to load, and this server loads none")


def check_properties(properties: Properties, reach: Reach) -> None:
    """Raise an error for a client's properties that would load code or lead outside `reach`."""
    check_code(properties)
    check_property_locations(properties, reach)


def check_registered(metadata: Mapping[str, Any], reach: Reach, what: str) -> None:
    """Raise an error if a client's metadata file leads outside `reach`. It is not checked again later."""
    reach.named(str(metadata.get("location") or ""), what)
    properties = metadata.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise bad_request("the properties of the metadata are not texts")
    check_properties(properties, reach)
    for key, field, what in _NAMED_FILES:
        entries = metadata.get(key)
        for entry in entries if isinstance(entries, list) else ():
            value = entry.get(field) if isinstance(entry, dict) else None
            for location in value if isinstance(value, list) else [value]:
                if location:
                    reach.check_existing(str(location), what)


_NAMED_FILES = (
    ("snapshots", "manifest-list", "a manifest list"),
    # in old tables
    ("snapshots", "manifests", "a manifest"),
    ("statistics", "statistics-path", "the statistics"),
    ("partition-statistics", "statistics-path", "the partition statistics"),
)
"""The files that table metadata refers to: the list, the field with the location, and the name for messages."""


class _NoFiles(FileIO):
    def new_input(self, location: str) -> NoReturn:
        raise NotImplementedError(location)

    def new_output(self, location: str) -> NoReturn:
        raise NotImplementedError(location)

    def delete(self, location: object) -> NoReturn:
        raise NotImplementedError(location)


_NO_FILES = _NoFiles()


def _told(about: ObjectName | None, do: Callable[[], R]) -> R:
    """Return the result of `do`, with its errors as failures of the request."""

    def done() -> R:
        with translated(about):
            return do()

    try:
        return parsed(done)
    except FileNotFoundError as error:
        where = error.filename or error
        raise ErrorResponse(404, "NotFoundException", f"Failed to open input stream for file: {where}") from error
    except OSError as error:
        # nothing was committed yet
        raise ErrorResponse(503, "ServiceUnavailableException", f"a table's file cannot be read: {error}") from error
