"""Pages for objects: a list with search, a namespace, a table, a view."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, cast

from starlette.responses import Response

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import InvalidName, OlympiaError
from olympia_cli.iceberg.data_files import files_of
from olympia_cli.iceberg.locations import ANYWHERE
from olympia_cli.masking import masked
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName, time_text
from olympia_cli.ops.look.describe import describe_object
from olympia_cli.ops.look.history import history
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import Failure, bad_request
from olympia_cli.rest.page import look
from olympia_cli.rest.page.html import Content, Html, code, document, facts, link, table, tag
from olympia_cli.rest.page.look import object_link, page
from olympia_cli.rest.served import ServedCatalog
from olympia_cli.rest.service import Located

PAGE = 100
LOOKED_AT = 100_000
"""The maximum number of names searched for one page. The next page continues from there."""
FILES = 200
REVISIONS = 50
VERSIONS = 500
"""The maximum number of versions searched for the history of an object. Each version costs a read."""
KINDS = {"namespace": Kind.NAMESPACE, "table": Kind.TABLE, "view": Kind.VIEW}


@page
def objects(call: Call) -> Response:
    """List the objects of a kind, or those with a text in their names."""
    at, wanted, word = look.at(call), call.query.get("q", "").strip(), call.query.get("kind", "") or "namespace"
    if word not in KINDS:
        raise bad_request("there is no such kind of object")
    snapshot, kind = look.snapshot(call), KINDS[word]
    after = _after(call, kind)
    found, last, is_end = _search(snapshot.entries(kind, after=after), wanted)
    query = {"q": wanted, "kind": word, "at": at}
    shown = [[tag("span", name.kind.word, class_="quiet"), object_link(name, at)] for name in found]
    content: list[Content] = [
        tag(
            "p",
            f"{snapshot.store.uri} · version {snapshot.version} · {time_text(snapshot.created_at_millis)}",
            class_="where",
        ),
        _form(wanted, word, at),
        table(["kind", "name"], shown),
        tag("p", f"Searched names up to {last}.", class_="quiet") if not is_end and len(found) < PAGE else None,
        _next(query, last) if not is_end and last is not None else None,
    ]
    return document("Objects", *content, at=at, here="/")


def _search(entries: Iterator[tuple[ObjectName, str]], wanted: str) -> tuple[list[ObjectName], ObjectName | None, bool]:
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


def _form(wanted: str, word: str, at: str) -> Html:
    options = [tag("option", f"{name}s", value=name, selected=name == word) for name in KINDS]
    return tag(
        "form",
        tag("input", type="search", name="q", value=wanted, placeholder="part of a name", aria_label="Part of a name"),
        tag("select", options, name="kind", aria_label="Kind of object"),
        tag("input", name="at", value=at, placeholder="version, time, export", aria_label="Version, time or export"),
        tag("button", "Search"),
        role="search",
    )


def _next(query: Mapping[str, object], last: ObjectName) -> Html:
    position = {"after_ns": last.namespace, "after": last.name}
    return tag("p", link("Next page", "/", {**query, **position}, rel="next"))


def _after(call: Call, kind: Kind) -> ObjectName | None:
    namespace, name = call.query.get("after_ns", ""), call.query.get("after", "")
    if not namespace:
        return None
    try:
        if kind is Kind.NAMESPACE:
            return NamespaceName(namespace)
        return (TableName if kind is Kind.TABLE else ViewName)(namespace, name)
    except InvalidName as error:
        raise bad_request(str(error)) from None


@page
def namespace(call: Call) -> Response:
    at, snapshot = look.at(call), look.snapshot(call)
    try:
        name = NamespaceName(call.query.get("ns", ""))
    except InvalidName as error:
        raise bad_request(str(error)) from None
    shown = describe_object(snapshot.namespace(name), snapshot.version)
    content: list[Content] = [_facts(shown, ("id", "definition", "version")), _properties(shown["properties"])]
    for kind, title in ((Kind.TABLE, "Tables"), (Kind.VIEW, "Views")):
        after = _after(call, kind) if call.query.get("of") == kind.word else None
        found = list(islice(snapshot.entries(kind, name.namespace, after), PAGE + 1))
        content += [tag("h2", title), table(["name"], [[object_link(one, at, one.name)] for one, _ in found[:PAGE]])]
        if len(found) > PAGE:
            last = found[PAGE - 1][0]
            query = {"ns": name.namespace, "at": at, "of": kind.word, "after_ns": last.namespace, "after": last.name}
            content.append(tag("p", link(f"More {title.lower()}", "/namespace", query, rel="next")))
    return document(f"Namespace {name}", *content, at=at, here="/")


@page
def table_page(call: Call) -> Response:
    """Show a table: its definition in the catalog and its metadata."""
    at, snapshot = look.at(call), look.snapshot(call)
    name = cast(TableName, look.named(call, TableName))
    found = snapshot.table(name)
    shown = describe_object(found, snapshot.version)
    keys = ("id", "format", "metadata_location", "previous_metadata_location", "definition", "version")
    content: list[Content] = [_up(name, at), _facts(shown, keys), _properties(shown["properties"])]
    try:
        metadata = call.service.read_metadata(_located(call, name, found.definition.iceberg_metadata_location))
        content += [*_schema(metadata), *_snapshots(metadata)]
        content.append(tag("p", link("Its data files", "/files", {"ns": name.namespace, "name": name.name, "at": at})))
    except (OlympiaError, Failure) as error:
        content.append(tag("p", f"Its metadata cannot be shown: {error}", class_="verdict open"))
    content += [tag("h2", "History"), *_history(snapshot, name)]
    return document(f"Table {name}", *content, at=at, here="/")


@page
def files(call: Call) -> Response:
    """Show the data and delete files of a table's current snapshot."""
    at, snapshot = look.at(call), look.snapshot(call)
    name = cast(TableName, look.named(call, TableName))
    skip = look.number(call, "skip", 0, 10_000_000)
    location = snapshot.table(name).definition.iceberg_metadata_location
    metadata = call.service.read_metadata(_located(call, name, location))
    reach = ServedCatalog.of_call(call, "").reach(name.namespace)
    # metadata in the caller's own folders may be the caller's work, and name any file
    within = reach if reach.holds(location) else ANYWHERE
    listed_files = files_of(call.service.files, metadata, location, statistics=False, reach=within)
    found = list(islice(listed_files, skip, skip + FILES + 1))
    rows = [
        [str(file.content), code(masked(file.location)), f"{file.records:,}", look.bytes_text(file.size)]
        for file in found[:FILES]
    ]
    query = {"ns": name.namespace, "name": name.name, "at": at, "skip": skip + FILES}
    more = tag("p", link("Next page", "/files", query, rel="next")) if len(found) > FILES else None
    listed = table(["content", "location", "records", "size"], rows, ("records", "size"))
    return document(f"Files of {name}", tag("p", object_link(name, at)), listed, more, at=at, here="/")


@page
def view(call: Call) -> Response:
    at, snapshot = look.at(call), look.snapshot(call)
    name = cast(ViewName, look.named(call, ViewName))
    shown = describe_object(snapshot.view(name), snapshot.version)
    columns = [
        [str(one["id"]), one["name"], one["type"], "" if one["nullable"] else "required"] for one in shown["schema"]
    ]
    keys = tuple(key for key in shown if key not in ("namespace", "name", "properties", "schema", "referenced_objects"))
    return document(
        f"View {name}",
        _up(name, at),
        _facts(shown, keys),
        _properties(shown["properties"]),
        tag("h2", "Schema"),
        table(["id", "column", "type", ""], columns),
        tag("h2", "History"),
        *_history(snapshot, name),
        at=at,
        here="/",
    )


def _located(call: Call, name: TableName, location: str) -> Located:
    return ServedCatalog.of_call(call, "").located(name.namespace, location)


def _up(name: TableName | ViewName, at: str) -> Html:
    return tag("p", "in namespace ", object_link(NamespaceName(name.namespace), at))


def _facts(shown: Mapping[str, Any], keys: tuple[str, ...]) -> Html:
    values = ((key, shown.get(key)) for key in keys)
    return facts((key.replace("_", " "), code(str(value))) for key, value in values if value not in (None, ""))


def _properties(properties: Mapping[str, str]) -> list[Content]:
    if not properties:
        return []
    return [tag("h2", "Properties"), facts((key, code(value)) for key, value in properties.items())]


def _schema(metadata: Mapping[str, Any]) -> list[Content]:
    current = metadata.get("current-schema-id")
    schemas = [one for one in _dicts(metadata.get("schemas")) if one.get("schema-id") == current]
    fields = _dicts((schemas[0] if schemas else _dict(metadata.get("schema"))).get("fields"))
    rows = [
        [
            str(field.get("id")),
            str(field.get("name")),
            _type(field.get("type")),
            "required" if field.get("required") else "",
            str(field.get("doc") or ""),
        ]
        for field in fields
    ]
    specs = _dicts(metadata.get("partition-specs"))
    spec = next((one for one in specs if one.get("spec-id") == metadata.get("default-spec-id")), {})
    parts = [f"{_dict(part).get('transform')}({_dict(part).get('name')})" for part in _dicts(spec.get("fields"))]
    partitioned = tag("p", "partitioned by ", ", ".join(parts)) if parts else None
    return [tag("h2", "Schema"), table(["id", "column", "type", "", "comment"], rows), partitioned]


def _snapshots(metadata: Mapping[str, Any]) -> list[Content]:
    refs = {str(_dict(ref).get("snapshot-id")): name for name, ref in _dict(metadata.get("refs")).items()}
    rows = []
    for one in reversed(_dicts(metadata.get("snapshots"))[-REVISIONS:]):
        summary, id = _dict(one.get("summary")), str(one.get("snapshot-id"))
        when = one.get("timestamp-ms")
        rows.append(
            [
                id,
                time_text(when) if isinstance(when, int) else "",
                str(summary.get("operation", "")),
                str(summary.get("added-records", "")),
                str(summary.get("total-records", "")),
                str(refs.get(id, "")),
            ]
        )
    return [
        tag("h2", "Snapshots"),
        table(["snapshot", "at", "operation", "added", "records", "ref"], rows, ("added", "records")),
    ]


def _history(snapshot: Snapshot, name: ObjectName) -> list[Content]:
    """Return the revisions in the last versions, with a link to earlier ones."""
    back_to = max(0, snapshot.version - VERSIONS)
    rows = [
        [
            look.version_link(one.entry.version),
            time_text(one.entry.created_at_millis or 0),
            one.change,
            object_link(one.name, f"v{one.entry.version}") if one.after is not None else str(one.name),
            one.entry.by,
            ", ".join(one.fields),
        ]
        for one in islice(history(snapshot, name, back_to), REVISIONS)
    ]
    older = None
    if back_to:
        older = tag(
            "p", "Only the last versions were searched; ", object_link(name, f"v{back_to}", "search older versions")
        )
    return [table(["version", "at", "change", "name", "by", "fields"], rows), older]


def _type(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)[:200]


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
