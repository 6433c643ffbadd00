"""Helpers for all pages: the version of a request, and links to objects and versions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from starlette.responses import Response

from olympia_cli.catalog.references import resolve
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import InvalidName, OlympiaError
from olympia_cli.names import NamespaceName, ObjectName, TableName, ViewName, parse_reference
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import Failure, bad_request, failure_of
from olympia_cli.rest.page.html import Html, document, link, tag

Page = Callable[[Call], Response]


def page(show: Page) -> Page:
    """Decorate a page so that errors are shown as a page, too."""

    @wraps(show)
    def shown(call: Call) -> Response:
        try:
            return show(call)
        except (OlympiaError, Failure) as error:
            failure = failure_of(error)
            return document("That did not work", tag("p", failure.message), status=failure.status)

    return shown


def at(call: Call) -> str:
    """Return the reference of the request, or an empty string for the latest version."""
    return call.query.get("at", "").strip()


def snapshot(call: Call) -> Snapshot:
    return version(call, at(call))


def version(call: Call, reference: str) -> Snapshot:
    """Return the version that a reference means."""
    if not reference or reference == "latest":
        return call.latest
    return resolve(parse_reference(reference), call.latest, call.service.catalog.clock.now_millis())


def number(call: Call, key: str, default: int, most: int) -> int:
    given = call.query.get(key, "")
    if not given:
        return default
    if not given.isascii() or not given.isdigit() or len(given) > 12:
        raise bad_request(f"{key} is not a number")
    return min(int(given), most)


def named(call: Call, kind: type[TableName] | type[ViewName]) -> TableName | ViewName:
    try:
        return kind(call.query.get("ns", ""), call.query.get("name", ""))
    except InvalidName as error:
        raise bad_request(str(error)) from None


def object_link(name: ObjectName, at: str = "", label: str | None = None) -> Html:
    query = {"ns": name.namespace, "name": name.name, "at": at}
    path = "/namespace" if isinstance(name, NamespaceName) else f"/{name.kind.word}"
    return link(str(name) if label is None else label, path, query)


def version_link(number: int | None) -> Html | None:
    return None if number is None else link(f"v{number}", "/version", {"v": number})


def bytes_text(size: int | None) -> str:
    if size is None:
        return ""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{size:,} B" if unit == "B" else f"{value:,.1f} {unit}"
