"""Pages for objects: a list with search, a namespace, a table with its data files, a view."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Any, cast

from starlette.responses import Response

from olympia_cli.catalog.references import oldest_version
from olympia_cli.errors import OlympiaError
from olympia_cli.iceberg import ANYWHERE, files_of
from olympia_cli.masking import masked
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName, plural
from olympia_cli.ops.inspect import describe_object, history, log
from olympia_cli.pages import ago, moment, size_text
from olympia_cli.rest.call import Call
from olympia_cli.rest.catalog import ServedCatalog
from olympia_cli.rest.failures import ErrorResponse, bad_request
from olympia_cli.rest.page import document as pages
from olympia_cli.rest.page.document import document, object_url
from olympia_cli.rest.page.versions import timeline_item
from olympia_cli.rest.service import Located

PAGE = 100
LOOKED_AT = 100_000
"""The maximum number of names searched for one page. The next page continues from there."""
FILES = 200
REVISIONS = 50
RECENT = 6
VERSIONS = 500
"""The maximum number of versions searched for the history of an object. Each version costs a read."""
NAMES = {Kind.NAMESPACE: NamespaceName, Kind.TABLE: TableName, Kind.VIEW: ViewName}
KINDS = {"all": tuple(NAMES), "namespace": (Kind.NAMESPACE,), "table": (Kind.TABLE,), "view": (Kind.VIEW,)}


def objects(call: Call) -> Response:
    """List the objects of some kinds, or those with a text in their names."""
    at, wanted, word = pages.at(call), call.query.get("q", "").strip(), call.query.get("kind", "")
    shown = word or ("all" if wanted else "namespace")
    first = call.query.get("of", "") or shown
    if shown not in KINDS or first not in KINDS:
        raise bad_request("there is no such kind of object")
    kinds = KINDS[shown] if first == "all" else [kind for kind in KINDS[shown] if kind >= KINDS[first][0]]
    snapshot = pages.snapshot(call)
    after = pages.name(call, NAMES[kinds[0]], "after") if kinds and call.query.get("after_ns") else None
    entries = chain.from_iterable(snapshot.entries(kind, after=after if kind == kinds[0] else None) for kind in kinds)
    found, last, is_end = _search(entries, wanted)
    is_front = not at and not wanted and after is None
    return document(
        call,
        "objects.html",
        here="/",
        at=at,
        snapshot=snapshot,
        found=found,
        title="Found" if wanted else "Objects" if shown == "all" else f"{shown.capitalize()}s",
        wanted=wanted,
        kinds=KINDS,
        kind=word or "all",
        looked_up_to=last if not is_end and len(found) < PAGE else "",
        next_query=None if is_end or last is None else {"q": wanted, "kind": shown, "at": at, **_position(last)},
        figures=_figures(call) if is_front else {},
        recent=[timeline_item(entry, most=3) for entry in islice(log(snapshot, oldest_version(snapshot)), RECENT)]
        if is_front
        else [],
    )


def _figures(call: Call) -> dict[str, str]:
    current = pages.health(call).status
    if current is None:
        return {}
    values = current.values
    checked = next((run.finished_at_millis for run in reversed(current.runs) if run.sound), None)
    return {
        "kept versions": f"v{values['oldest_version']} to v{call.latest.version}",
        "tree": plural(values["depth"], "level"),
        "open transactions": f"{values['open_transactions']:,}",
        "exports": f"{values['exports']:,}",
        "checked": "never" if checked is None else ago(checked, call.service.catalog.clock.now_millis()),
    }


def _search(entries: Iterable[tuple[ObjectName, str]], wanted: str) -> tuple[list[ObjectName], ObjectName | None, bool]:
    """Return the names of a page, the last name searched, and True if no names are left."""
    found: list[ObjectName] = []
    last, folded = None, wanted.casefold()
    for looked_at, (name, _) in enumerate(entries):
        if len(found) == PAGE or looked_at == LOOKED_AT:
            return found, last, False
        last = name
        if not folded or folded in str(name).casefold():
            found.append(name)
    return found, last, True


def _position(last: ObjectName) -> dict[str, str]:
    """Return the part of a query that continues a list after a name."""
    return {"of": last.kind.word, "after_ns": last.namespace, "after": last.name}


def namespace(call: Call) -> Response:
    at, snapshot = pages.at(call), pages.snapshot(call)
    name = cast(NamespaceName, pages.name(call, NamespaceName))
    described = describe_object(snapshot.namespace(name), snapshot.version)
    lists = []
    for kind, title in ((Kind.TABLE, "Tables"), (Kind.VIEW, "Views")):
        after = pages.name(call, NAMES[kind], "after") if call.query.get("of") == kind.word else None
        found = [entry for entry, _ in islice(snapshot.entries(kind, name.namespace, after), PAGE + 1)]
        query = {"ns": name.namespace, "at": at, **_position(found[PAGE - 1])} if len(found) > PAGE else None
        lists.append((title, found[:PAGE], query))
    return _object(call, name, described, lists=lists, revisions=None)


def table(call: Call) -> Response:
    """Show a table: its definition in the catalog and its metadata."""
    snapshot = pages.snapshot(call)
    name = cast(TableName, pages.name(call, TableName))
    found = snapshot.table(name)
    shown: dict[str, Any] = {}
    try:
        metadata = call.service.read_metadata(_located(call, name, found.definition.iceberg_metadata_location))
        shown = _table(metadata)
    except (OlympiaError, ErrorResponse) as error:
        shown["problem"] = f"Its metadata cannot be shown: {error}"
    return _object(call, name, describe_object(found, snapshot.version), **shown)


def view(call: Call) -> Response:
    snapshot = pages.snapshot(call)
    name = cast(ViewName, pages.name(call, ViewName))
    described = describe_object(snapshot.view(name), snapshot.version)
    columns = [
        [str(column["id"]), column["name"], column["type"], "" if column["nullable"] else "required"]
        for column in described["schema"]
    ]
    described["referenced_objects"] = [
        f"{other['namespace']}.{other['name']}" for other in described["referenced_objects"]
    ]
    return _object(call, name, described, tables=[("Schema", ["#id", "column", "type", "null"], columns)])


def _object(call: Call, name: ObjectName, described: Mapping[str, Any], **values: Any) -> Response:
    at, snapshot = pages.at(call), pages.snapshot(call)
    facts = {
        key: value
        for key, value in described.items()
        if key not in ("namespace", "name", "properties", "schema", "version")
    }
    shown = {"lists": [], "figures": {}, "tables": [], "problem": "", "note": "", **values}
    if "revisions" not in values:
        back_to = max(0, snapshot.version - VERSIONS)
        shown["revisions"] = list(islice(history(snapshot, name, back_to), REVISIONS))
        shown["earlier"] = object_url(name, f"v{back_to}") if back_to else ""
    return document(
        call, "object.html", here="/", at=at, name=name, facts=facts, properties=described["properties"], **shown
    )


def files(call: Call) -> Response:
    """Show the data and delete files of a table's current snapshot."""
    at, snapshot = pages.at(call), pages.snapshot(call)
    name = cast(TableName, pages.name(call, TableName))
    skip = pages.number(call, "skip", 0, 10_000_000)
    location = snapshot.table(name).definition.iceberg_metadata_location
    metadata = call.service.read_metadata(_located(call, name, location))
    reach = ServedCatalog.of_call(call, "").reach(name.namespace)
    # metadata in the caller's own folders may be the caller's work, and name any file
    within = reach if reach.holds(location) else ANYWHERE
    listed_files = files_of(call.service.files, metadata, location, statistics=False, reach=within)
    found = list(islice(listed_files, skip, skip + FILES + 1))
    rows = [
        [str(file.content), masked(file.location), f"{file.records:,}", size_text(file.size)] for file in found[:FILES]
    ]
    query = {"ns": name.namespace, "name": name.name, "at": at, "skip": skip + FILES}
    return document(
        call, "files.html", here="/", at=at, name=name, rows=rows, next_query=query if len(found) > FILES else None
    )


def _located(call: Call, name: TableName, location: str) -> Located:
    return ServedCatalog.of_call(call, "").located(name.namespace, location)


def _table(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures and the tables on the page of a table. A metadata file may hold anything."""
    fields = _dicts(_current(metadata, "schemas", "schema-id", "current-schema-id", "schema").get("fields"))
    columns = {str(field.get("id")): field.get("name") for field in fields}
    snapshots = _dicts(metadata.get("snapshots"))
    current = next((one for one in snapshots if one.get("snapshot-id") == metadata.get("current-snapshot-id")), {})
    summary = _dict(current.get("summary"))
    refs = {str(_dict(ref).get("snapshot-id")): name for name, ref in _dict(metadata.get("refs")).items()}
    schema = [
        [
            field.get("id"),
            field.get("name"),
            _type(field.get("type")),
            "required" if field.get("required") else "",
            field.get("doc"),
        ]
        for field in fields
    ]
    layout = [
        [use, columns.get(str(part.get("source-id")), part.get("source-id")), part.get("transform"), part.get(last)]
        for use, last, spec in (
            ("partition", "name", _current(metadata, "partition-specs", "spec-id", "default-spec-id")),
            ("sort", "direction", _current(metadata, "sort-orders", "order-id", "default-sort-order-id")),
        )
        for part in _dicts(spec.get("fields"))
    ]
    return {
        "figures": {
            "format": f"Iceberg v{metadata.get('format-version')}",
            "columns": len(fields),
            "records": _count(summary.get("total-records")),
            "data files": _count(summary.get("total-data-files")),
            "size": size_text(int(size)) if (size := str(summary.get("total-files-size"))).isdecimal() else None,
            "snapshots": len(snapshots),
        },
        "tables": [
            ("Schema", ["#id", "column", "type", "null", "comment"], schema),
            ("Partitioning and sort order", ["use", "column", "transform", "name or direction"], layout),
            (
                "Snapshots",
                ["snapshot", "at", "operation", "#added", "#records", "ref"],
                [_snapshot(one, refs) for one in reversed(snapshots[-REVISIONS:])],
            ),
        ],
    }


def _snapshot(one: Mapping[str, Any], refs: Mapping[str, str]) -> list[Any]:
    summary, id, when = _dict(one.get("summary")), str(one.get("snapshot-id")), one.get("timestamp-ms")
    counts = [_count(summary.get(key)) for key in ("added-records", "total-records")]
    return [id, moment(when) if isinstance(when, int) else "", summary.get("operation"), *counts, refs.get(id)]


def _current(metadata: Mapping[str, Any], key: str, id: str, current: str, single: str = "") -> dict[str, Any]:
    """Return the current schema, partition spec or sort order. Old metadata has a single schema."""
    found = (one for one in _dicts(metadata.get(key)) if one.get(id) == metadata.get(current))
    return next(found, _dict(metadata.get(single)))


def _count(value: object) -> str:
    return f"{int(text):,}" if (text := str(value)).isdecimal() and len(text) < 20 else ""


def _type(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)[:200]


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
