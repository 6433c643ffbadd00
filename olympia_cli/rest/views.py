"""Endpoints for views in Iceberg's format. Views in other formats are listed, but cannot be loaded."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from uuid import uuid4

from pydantic import Field
from pyiceberg.catalog.rest import CreateViewRequest
from pyiceberg.view.metadata import ViewMetadata
from starlette.responses import Response

from olympia_cli.errors import ViewNotFound
from olympia_cli.format.pb.objects_pb2 import ViewDef, ViewFormat
from olympia_cli.iceberg import TableChanges, check_no_table, folders_of, view_definition
from olympia_cli.names import Kind, ViewName
from olympia_cli.ops.verify_metadata import parse_view_metadata
from olympia_cli.rest.call import Call, answer, check_reachable, nothing
from olympia_cli.rest.catalog import ServedCatalog, check_code, check_properties, check_registered
from olympia_cli.rest.failures import bad_request, objects, parsed
from olympia_cli.rest.tables import listed
from olympia_cli.rest.updates import check_dialects, check_requirements, filled, update_view

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

    served.change(None, change, name)
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

    return _view(*served.change(None, change, name))


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
