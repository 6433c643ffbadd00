"""Endpoints for tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field, TypeAdapter
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import RemoveSnapshotsUpdate, TableRequirement, TableUpdate
from starlette.responses import Response

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import TableExists, TableNotFound
from olympia_cli.iceberg import TableChanges, TableState, check_no_view
from olympia_cli.names import Kind, TableName, ViewName, plural
from olympia_cli.ops.verify_metadata import parse_metadata
from olympia_cli.rest.call import Call, View, answer, check_reachable, nothing, page
from olympia_cli.rest.catalog import ServedCatalog, Update, check_code, check_registered
from olympia_cli.rest.failures import ErrorResponse, bad_request, objects, parsed
from olympia_cli.rest.service import etag_of, table_answer
from olympia_cli.rest.updates import check_columns, remove_key, with_field_numbers

_REQUIREMENTS: TypeAdapter[tuple[TableRequirement, ...]] = TypeAdapter(tuple[TableRequirement, ...])
_UPDATES: TypeAdapter[tuple[TableUpdate, ...]] = TypeAdapter(tuple[TableUpdate, ...])


class _CreateTable(CreateTableRequest):
    """PyIceberg's request, with optional fields that other clients omit."""

    location: str | None = None
    partition_spec: PartitionSpec | None = Field(alias="partition-spec", default=None)
    write_order: SortOrder | None = Field(alias="write-order", default=None)


def list_all(call: Call) -> Response:
    return listed(call, Kind.TABLE)


def listed(call: Call, kind: Kind) -> Response:
    """List the tables or views of a namespace."""
    namespace = call.namespace
    found, token = call.read(
        lambda view: page(call.query, lambda after: _names(view, kind, namespace, after), lambda name: name)
    )
    identifiers = [{"namespace": [namespace], "name": name} for name in found]
    return answer({"identifiers": identifiers, "next-page-token": token})


def _names(view: View, kind: Kind, namespace: str, after: str | None) -> Iterator[str]:
    if isinstance(view, Snapshot):
        last = None if after is None else (TableName if kind is Kind.TABLE else ViewName)(namespace, after)
        return (name.name for name, _ in view.entries(kind, namespace, last))
    inside = view.tables(namespace) if kind is Kind.TABLE else view.views(namespace)
    return (name.name for name in inside if after is None or name.name > after)


def create(call: Call) -> Response:
    schema = call.document().get("schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise bad_request("a table has a schema with fields")
    request = parsed(_CreateTable.model_validate, with_field_numbers(call.document(), "partition-spec"))
    name = TableName(call.namespace, request.name)
    check_reachable(name.name)
    served = ServedCatalog.of_call(call, f"create table {name}")
    check_code(request.properties)
    identifier = (name.namespace, name.name)
    spec, order = request.partition_spec or UNPARTITIONED_PARTITION_SPEC, request.write_order or UNSORTED_SORT_ORDER
    given = (identifier, request.table_schema, request.location, spec, order, request.properties)
    check_columns(request.table_schema, request.properties.get("format-version", "2") in ("1", "2"))
    if not request.stage_create:
        table = parsed(served.create_table, *given)
        return _table(call, served, name, TableState(table.metadata, table.metadata_location))
    served.load_namespace_properties((name.namespace,))
    if served.table_exists(identifier):
        raise TableExists(f"the table {name} exists already", hint="")
    if served.view_exists(identifier):
        raise ErrorResponse(409, "AlreadyExistsException", f"View with same name already exists: {name}")
    metadata = parsed(served._create_staged_table, *given).metadata
    return Response(table_answer(None, call.service.shown(metadata)), media_type="application/json")


def load_known(call: Call) -> Response | None:
    """Return the cached response for a table, if its location in the latest version is cached, too."""
    only_refs = _only_refs(call)
    if call.prefix.at is not None or call.prefix.txn is not None:
        return None
    found = call.service.located(call.latest, call.table, call.caller)
    if found is None:
        return None
    if _is_known(call, etag_of(found.text, only_refs)):
        return Response(None, 304, {"ETag": etag_of(found.text, only_refs)})
    body = call.service.known_body(found, only_refs)
    if not call.service.is_there(found):
        return None
    return None if body is None else _loaded(found.text, only_refs, body)


def load(call: Call) -> Response:
    only_refs, name = _only_refs(call), call.table
    location = call.read(lambda view: view.table(name).definition.iceberg_metadata_location)
    found = ServedCatalog.of_call(call, "").located(name.namespace, location)
    if call.prefix.at is None and call.prefix.txn is None:
        call.service.note_located(call.latest, name, call.caller, found)
    if _is_known(call, etag_of(location, only_refs)):
        return Response(None, 304, {"ETag": etag_of(location, only_refs)})
    return _loaded(location, only_refs, call.service.table_body(found, only_refs))


def _only_refs(call: Call) -> bool:
    mode = call.query.get("snapshots", "all")
    if mode not in ("all", "refs"):
        raise bad_request("snapshots is all or refs")
    return mode == "refs"


def _is_known(call: Call, etag: str) -> bool:
    known = call.request.headers.get("if-none-match", "")
    return etag in (tag.strip().removeprefix("W/") for tag in known.split(","))


def exists(call: Call) -> Response:
    name = call.table
    if not call.exists(name):
        raise TableNotFound(f"there is no table {name}", hint="")
    return nothing()


def commit(call: Call) -> Response:
    """Update one table."""
    update = _update(call.document(), call.table)
    served = ServedCatalog.of_call(call, _said([update]))
    return _table(call, served, update[0], *served.commit([update]))


def commit_all(call: Call) -> Response:
    """Update several tables, all of them or none."""
    entries = call.document().get("table-changes")
    if not isinstance(entries, list) or not entries:
        raise bad_request("table-changes is not a list of changes")
    updates: list[Update] = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise bad_request("table-changes is not a list of changes")
        updates.append(_update(entry, call.table_identifier(entry.get("identifier"))))
    ServedCatalog.of_call(call, _said(updates)).commit(updates)
    return nothing()


def _update(document: dict[str, Any], name: TableName) -> Update:
    given = document.get("identifier")
    if given is not None and given != {"namespace": [name.namespace], "name": name.name}:
        raise bad_request("the identifier in the body is not that of the path")
    requirements, updates = objects(document, "requirements"), objects(document, "updates")
    keys = [remove_key(update) for update in updates if update.get("action") == "remove-encryption-key"]
    others = [
        with_field_numbers(update, "spec") for update in updates if update.get("action") != "remove-encryption-key"
    ]
    return (
        name,
        parsed(_REQUIREMENTS.validate_python, requirements, field="requirements"),
        (*parsed(_UPDATES.validate_python, others, field="updates"), *keys),
    )


def _said(commits: Sequence[Update]) -> str:
    """Return the commit message for the log. It mentions expired snapshots, because engines delete their files."""
    shown = ", ".join(str(name) for name, _, _ in commits[:10]) + (", …" if len(commits) > 10 else "")
    updates = (update for _, _, updates in commits for update in updates)
    expired = sum(len(update.snapshot_ids) for update in updates if isinstance(update, RemoveSnapshotsUpdate))
    return f"commit to {shown}" + (
        f": {plural(expired, 'snapshot')} expired, whose files engines delete" if expired else ""
    )


def drop(call: Call) -> Response:
    """Drop a table. Its files stay even if a purge is requested, because retained versions refer to them.

    Java's library requests a purge with each drop, so the request is not rejected.
    """
    name = call.table
    purge = call.query.get("purgeRequested", "false").lower()
    if purge not in ("true", "false"):
        raise bad_request("purgeRequested is true or false")
    what = f"drop table {name}" + (", whose files stay: a purge is not done" if purge == "true" else "")
    ServedCatalog.of_call(call, what).drop_table((name.namespace, name.name))
    return nothing()


def rename(call: Call) -> Response:
    document = call.document()
    old, new = call.table_identifier(document.get("source")), call.table_identifier(document.get("destination"))
    check_reachable(new.name)

    def change(changes: TableChanges) -> None:
        changes.transaction.table(old)
        check_no_view(changes.transaction, new)
        changes.transaction.rename_table(old, new)

    served = ServedCatalog.of_call(call, f"rename table {old} to {new}")
    served.change(None, change, old, new)
    return nothing()


def register(call: Call) -> Response:
    document = call.document()
    location, given, overwrite = (document.get(key) for key in ("metadata-location", "name", "overwrite"))
    if not isinstance(location, str) or not isinstance(given, str) or not isinstance(overwrite or False, bool):
        raise bad_request("a register has a name and a metadata-location")
    name = TableName(call.namespace, given)
    check_reachable(given)
    served = ServedCatalog.of_call(call, f"register table {name}")
    reach = served.reach(name.namespace)
    place = reach.named(location, "the metadata's location")
    served.load_namespace_properties((name.namespace,))
    metadata = call.service.read_named(place, parse_metadata)
    parsed(TableMetadataUtil.parse_obj, metadata)
    check_registered(metadata, reach, "the table's location")
    served.register_table((name.namespace, name.name), location, overwrite or False)
    # the file's own content, because PyIceberg drops fields that it does not know
    return _loaded(location, False, call.service.table_body(served.located(name.namespace, location)))


def credentials(call: Call) -> Response:
    """Return no credentials: clients have their own."""
    exists(call)
    return answer({"storage-credentials": []})


def report_metrics(call: Call) -> Response:
    if not isinstance(call.document().get("report-type"), str):
        raise bad_request("report-type is missing")
    return exists(call)


def _table(call: Call, served: ServedCatalog, name: TableName, state: TableState) -> Response:
    found = served.located(name.namespace, state.location)
    return _loaded(state.location, False, call.service.keep_body(found, state.metadata))


def _loaded(location: str, only_refs: bool, body: bytes) -> Response:
    return Response(body, headers={"ETag": etag_of(location, only_refs)}, media_type="application/json")
