"""Endpoints for views in Iceberg's format. Views in other formats are listed, but cannot be loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from pydantic import Field
from pyiceberg.catalog.rest import CreateViewRequest
from pyiceberg.view.metadata import ViewMetadata
from starlette.responses import Response

from olympia_cli.errors import ViewNotFound
from olympia_cli.format.pb.objects_pb2 import ViewDef, ViewFormat
from olympia_cli.iceberg.catalog import check_no_table, view_definition
from olympia_cli.iceberg.changes import TableChanges
from olympia_cli.iceberg.locations import folders_of
from olympia_cli.names import Kind, ViewName
from olympia_cli.ops.verify_metadata import parse_view_metadata
from olympia_cli.rest.call import Call, answer, check_reachable, nothing
from olympia_cli.rest.failures import Failure, bad_request, objects, parsed
from olympia_cli.rest.served import ServedCatalog, check_code, check_properties, check_registered
from olympia_cli.rest.tables import listed

# Apply updates to a view's metadata: pure functions on JSON objects.

Json = dict[str, Any]
LAST = -1
"""Instead of an id: the most recently added one."""


def check_requirements(metadata: Json, requirements: Sequence[Json]) -> None:
    """Raise Failure unless the view meets the requirements."""
    for requirement in requirements:
        if requirement.get("type") != "assert-view-uuid":
            raise bad_request("the only requirement of a view is assert-view-uuid")
        if requirement.get("uuid") != metadata["view-uuid"]:
            raise Failure(409, "CommitFailedException", "the view is another one than it was: its uuid differs")


def update_view(metadata: Json, updates: Sequence[Json], now_millis: int) -> Json:
    """Return the metadata after the updates, applied in order."""
    state = _State({**metadata, "properties": dict(metadata.get("properties") or {})}, now_millis)
    for update in updates:
        action = _ACTIONS.get(str(update.get("action")))
        if action is None:
            raise bad_request(f"there is no update {str(update.get('action'))[:60]!a} of a view")
        action(state, update)
    if not any(one.get("version-id") == state.view["current-version-id"] for one in state.view["versions"]):
        raise bad_request("the current version of a view must be one of its versions")
    return state.view


def check_dialects(version: Json) -> None:
    """Raise Failure if a view version has several queries for one SQL dialect."""
    seen: set[str] = set()
    for one in version.get("representations") or ():
        dialect = str(one.get("dialect")).lower() if isinstance(one, dict) else ""
        if dialect in seen:
            raise Failure(
                400,
                "IllegalArgumentException",
                f"Invalid view version: Cannot add multiple queries for dialect {dialect}",
            )
        seen.add(dialect)


def filled(version: Json, now_millis: int) -> Json:
    """Return a view version with the fields that readers require but writers may omit."""
    return {"timestamp-ms": now_millis, "summary": {}, **version}


class _State:
    def __init__(self, view: Json, now_millis: int) -> None:
        self.view = view
        self.now = now_millis
        self.last_schema: int | None = None
        self.last_version: int | None = None


def _assign_uuid(state: _State, update: Json) -> None:
    if update.get("uuid") != state.view["view-uuid"]:
        raise bad_request("a view keeps its uuid")


def _upgrade(state: _State, update: Json) -> None:
    if update.get("format-version") != 1:
        raise bad_request("the only format of views is 1")


def _add_schema(state: _State, update: Json) -> None:
    schema = update.get("schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise bad_request("add-schema has no schema")
    schemas: list[Json] = list(state.view["schemas"])
    same = [one for one in schemas if _fields(one) == _fields(schema)]
    if same:
        state.last_schema = same[0].get("schema-id", 0)
        return
    state.last_schema = max((one.get("schema-id", 0) for one in schemas), default=-1) + 1
    state.view["schemas"] = [*schemas, {**schema, "schema-id": state.last_schema}]


def _fields(schema: Json) -> object:
    return schema.get("fields"), schema.get("identifier-field-ids") or []


def _add_version(state: _State, update: Json) -> None:
    version = update.get("view-version")
    if not isinstance(version, dict) or not isinstance(version.get("representations"), list):
        raise bad_request("add-view-version has no version")
    check_dialects(version)
    version = filled(version, state.now)
    versions: list[Json] = list(state.view["versions"])
    schema = state.last_schema if version.get("schema-id") == LAST else version.get("schema-id")
    if schema is None or not any(one.get("schema-id", 0) == schema for one in state.view["schemas"]):
        raise bad_request("a version of a view has a schema that the view does not have")
    same = [one for one in versions if _content({**version, "schema-id": schema}) == _content(one)]
    if same:
        state.last_version = same[0]["version-id"]
        return
    id = version.get("version-id")
    if type(id) is not int or any(one.get("version-id") == id for one in versions):
        id = max((one["version-id"] for one in versions), default=0) + 1
    state.last_version = id
    state.view["versions"] = [*versions, {**version, "version-id": id, "schema-id": schema}]


def _content(version: Json) -> Json:
    """Return a view version without its id and time."""
    return {key: value for key, value in version.items() if key not in ("version-id", "timestamp-ms") and value}


def _set_current(state: _State, update: Json) -> None:
    id = update.get("view-version-id")
    id = state.last_version if id == LAST else id
    if not any(one.get("version-id") == id for one in state.view["versions"]):
        raise bad_request("the view has no such version")
    if id != state.view["current-version-id"]:
        log = list(state.view.get("version-log") or [])
        state.view["version-log"] = [*log, {"timestamp-ms": state.now, "version-id": id}]
    state.view["current-version-id"] = id


def _set_location(state: _State, update: Json) -> None:
    if not isinstance(update.get("location"), str):
        raise bad_request("set-location has no location")
    state.view["location"] = update["location"]


def _set_properties(state: _State, update: Json) -> None:
    updates = update.get("updates")
    if not isinstance(updates, dict) or not all(isinstance(value, str) for value in updates.values()):
        raise bad_request("set-properties has no updates")
    state.view["properties"].update(updates)


def _remove_properties(state: _State, update: Json) -> None:
    removals = update.get("removals")
    if not isinstance(removals, list):
        raise bad_request("remove-properties has no removals")
    for key in removals:
        state.view["properties"].pop(key, None)


_ACTIONS: dict[str, Callable[[_State, Json], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_version,
    "set-current-view-version": _set_current,
}


_METADATA_PATH = "write.metadata.path"


class _CreateView(CreateViewRequest):
    """PyIceberg's request, with optional fields that other clients omit."""

    location: str | None = None
    properties: dict[str, str] = Field(default_factory=dict)


def list_all(call: Call) -> Response:
    return listed(call, Kind.VIEW)


def create(call: Call) -> Response:
    request = parsed(_CreateView.model_validate, call.document())
    name = ViewName(call.namespace, request.name)
    check_reachable(name.name)
    served = ServedCatalog.of_call(call, f"create view {name}")
    check_code(request.properties)
    place = served._new_place(name, request.location, request.properties)
    reach = served.reach(name.namespace).also([place])
    document = call.document()
    # field ids are the client's; a new view has one schema and one version, so their ids are fixed
    schema, version = (
        {**document["schema"], "schema-id": 0},
        {**document["view-version"], "version-id": 1, "schema-id": 0},
    )
    version = filled(version, call.service.catalog.clock.now_millis())
    check_dialects(version)
    metadata = {
        "view-uuid": str(uuid4()),
        "format-version": 1,
        "location": place,
        "schemas": [schema],
        "current-version-id": 1,
        "versions": [version],
        "version-log": [{"timestamp-ms": version["timestamp-ms"], "version-id": 1}],
        "properties": request.properties,
    }
    content = _written(metadata)
    location = _metadata_location(metadata)

    def change(changes: TableChanges) -> None:
        check_no_table(changes, name)
        changes.add_file(location, content, reach)
        changes.transaction.create_view(name, view_definition(location))

    served.change(None, change)
    return _view(location, metadata)


def load(call: Call) -> Response:
    location = _definition(call, call.view).iceberg_metadata_location
    found = ServedCatalog.of_call(call, "").located(call.namespace, location)
    return _view(location, call.service.read_view(found))


def exists(call: Call) -> Response:
    name = call.view
    if not call.exists(name):
        raise ViewNotFound(f"there is no view {name}", hint="")
    return nothing()


def drop(call: Call) -> Response:
    name = call.view
    ServedCatalog.of_call(call, f"drop view {name}").drop_view((name.namespace, name.name))
    return nothing()


def rename(call: Call) -> Response:
    document = call.document()
    old, new = call.view_identifier(document.get("source")), call.view_identifier(document.get("destination"))
    check_reachable(new.name)
    served = ServedCatalog.of_call(call, f"rename view {old} to {new}")
    served.rename_view((old.namespace, old.name), (new.namespace, new.name))
    return nothing()


def register(call: Call) -> Response:
    document = call.document()
    location, given = document.get("metadata-location"), document.get("name")
    if not isinstance(location, str) or not isinstance(given, str):
        raise bad_request("a register has a name and a metadata-location")
    name = ViewName(call.namespace, given)
    check_reachable(given)
    served = ServedCatalog.of_call(call, f"register view {name}")
    reach = served.reach(name.namespace)
    place = reach.named(location, "the metadata's location")
    served.load_namespace_properties((name.namespace,))
    metadata = call.service.read_named(place, parse_view_metadata)
    parsed(ViewMetadata.model_validate, metadata)
    check_registered(metadata, reach, "the view's location")
    served.register_view((name.namespace, name.name), location)
    return _view(location, metadata)


def replace(call: Call) -> Response:
    """Update a view, based on its state at the commit."""
    document, name = call.document(), call.view
    requirements, updates = objects(document, "requirements"), objects(document, "updates")
    served = ServedCatalog.of_call(call, f"replace view {name}")
    reach = served.reach(name.namespace)

    def change(changes: TableChanges) -> tuple[str, dict[str, Any]]:
        definition = _iceberg(changes.transaction.view(name).definition, name)
        former = definition.iceberg_metadata_location
        staged = changes.staged_file(former)
        found = served.located(name.namespace, former)
        current = json.loads(staged) if staged is not None else call.service.read_view(found)
        check_requirements(current, requirements)
        metadata = update_view(current, updates, call.service.catalog.clock.now_millis())
        # locations that the view already has are not checked against the caller's folders
        folders = folders_of(str(current.get("location") or ""), current.get("properties") or {})
        here = reach.of_object(former, folders)
        check_properties(metadata["properties"], here)
        here.named(metadata["location"], "the view's location")
        location = _metadata_location(metadata)
        new = view_definition(location)
        new.iceberg_previous_metadata_location = former
        new.properties.update(definition.properties)
        changes.add_file(location, _written(metadata), here)
        changes.transaction.replace_view(name, new)
        return location, metadata

    return _view(*served.change(None, change))


def _metadata_location(metadata: dict[str, Any]) -> str:
    folder = metadata["properties"].get(_METADATA_PATH) or f"{str(metadata['location']).rstrip('/')}/metadata"
    return f"{folder.rstrip('/')}/{uuid4()}.metadata.json"


def _written(metadata: dict[str, Any]) -> bytes:
    """Return the content of the metadata file, after a check that others can load it."""
    content = json.dumps(metadata, separators=(",", ":"))
    parsed(partial(ViewMetadata.model_validate_json, strict=True), content)
    return content.encode()


def _definition(call: Call, name: ViewName) -> ViewDef:
    return _iceberg(call.read(lambda view: view.view(name)).definition, name)


def _iceberg(definition: ViewDef, name: ViewName) -> ViewDef:
    if definition.view_format != ViewFormat.ICEBERG_VIEW:
        raise ViewNotFound(f"the view {name} is a Substrait plan, not an Iceberg view", hint="")
    return definition


def _view(location: str, metadata: dict[str, Any]) -> Response:
    return answer({"metadata-location": location, "metadata": metadata, "config": {}})
