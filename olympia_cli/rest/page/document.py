"""A page as a response: its frame with the state of the catalog, its errors, and the links on it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from starlette.responses import Response

from olympia_cli.catalog.references import resolve
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import InvalidName, OlympiaError
from olympia_cli.names import NamespaceName, ObjectName, parse_reference, plural
from olympia_cli.ops.expire import list_marks
from olympia_cli.ops.inspect import Reason, Standing, Status, standing_of, status
from olympia_cli.pages import moment, size_text, template
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import ErrorResponse, bad_request, failure_of
from olympia_cli.rest.service import Service

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
TEMPLATES = Path(__file__).parents[1] / "templates"
REFRESH_MILLIS = 10_000
"""The time for which pages show the same health, because its computation reads several files."""

Page = Callable[[Call], Response]


class Link(NamedTuple):
    """A cell of a table that leads to another page."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Health:
    """The health in the header of all pages. `status` is None if the catalog cannot be opened."""

    word: str
    status: Status | None
    until: int

    @property
    def css(self) -> str:
        if self.word == Standing.SOUND:
            return "sound"
        return "open" if self.status is not None and not self.status.damaged else "damaged"


_HEALTH: WeakKeyDictionary[Service, Health] = WeakKeyDictionary()


def health(call: Call, *, fresh: bool = False) -> Health:
    catalog, now = call.service.catalog, call.service.catalog.clock.elapsed_millis()
    known = _HEALTH.get(call.service)
    if known is not None and not fresh and now < known.until:
        return known
    try:
        current = status(catalog)
        word = str(current.standing)
    except OlympiaError as error:
        if fresh:
            raise
        current, word = None, str(standing_of(error))
    found = _HEALTH[call.service] = Health(word, current, now + REFRESH_MILLIS)
    return found


def with_error_page(show: Page) -> Page:
    """Return a page that shows its errors as a page, too."""

    @wraps(show)
    def shown(call: Call) -> Response:
        try:
            return show(call)
        except (OlympiaError, ErrorResponse) as error:
            failure = failure_of(error)
            return document(call, "error.html", status=failure.status, message=failure.message)

    return shown


def document(
    call: Call, name: str, /, *, here: str = "", at: str = "", status: int = 200, fresh: bool = False, **values: object
) -> Response:
    """Return a page. With `at`, its links keep that version. With `fresh`, its health is computed now."""
    uri = call.latest.store.uri
    frame = {
        "catalog": uri.rstrip("/").rpartition("/")[2] or uri,
        "uri": uri,
        "latest": call.latest,
        "now": call.service.catalog.clock.now_millis(),
        "standing": health(call, fresh=fresh),
        "here": here,
        "at": at,
        "url": url,
        "object_url": object_url,
    }
    text = template(name, TEMPLATES).render({**frame, **values})
    return Response(text + "\n", status, HEADERS, media_type="text/html")


def sheet() -> Response:
    text = template("style.css").render()
    return Response(text, headers={"X-Content-Type-Options": "nosniff"}, media_type="text/css")


def url(path: str, /, **query: object) -> str:
    given = {key: str(value) for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogatepass')}" if given else path


def object_url(name: ObjectName, at: str = "", path: str = "") -> str:
    return url(path or f"/{name.kind.word}", ns=name.namespace, name=name.name, at=at)


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


def name(call: Call, kind: type[ObjectName], prefix: str = "") -> ObjectName:
    """Return the name of an object in the query."""
    namespace, name = call.query.get("after_ns" if prefix else "ns", ""), call.query.get(prefix or "name", "")
    try:
        return NamespaceName(namespace) if kind is NamespaceName else kind(namespace, name)  # type: ignore[call-arg]
    except InvalidName as error:
        raise bad_request(str(error)) from None


# The page with the health of the catalog: status, the last runs, and the quarantine.

DAY_MILLIS = 86_400_000


def health_page(call: Call) -> Response:
    current = health(call, fresh=True).status
    assert current is not None
    values, uri = current.values, call.latest.store.uri
    lag = values["hint_lag"]
    facts = {
        "id": values["id"],
        "versions": f"v{values['oldest_version']} to v{values['version']}",
        "committed": moment(call.latest.created_at_millis),
        "tree": f"{plural(values['depth'], 'level')} of order {values['order']:,}",
        "hint": "missing" if lag is None else "right" if not lag else _lag(lag),
        "transactions": _transactions(values),
        "exports": ", ".join(values["export_names"]) or "none",
        "read only": "a catalog of the Java SDK, which is never written to" if values["read_only"] else "",
    }
    marks = [
        [
            Link(f"v{mark['version']}", url("/version", v=mark["version"])),
            *((mark[key] or "")[:19].replace("T", " ") for key in ("marked_at", "purge_after")),
            len(mark["expired_versions"]),
            mark["files"],
            None if mark["bytes"] is None else size_text(mark["bytes"]),
            mark["problem"],
        ]
        for mark in list_marks(call.latest, DAY_MILLIS)
    ]
    return document(
        call,
        "health.html",
        here="/health",
        reasons=[(reason.text, _command(reason, uri)) for reason in current.reasons],
        # the details of a sound check would contradict damage that another check found
        checked=[
            run for run in reversed(current.runs) if run.sound and run.version is not None and not current.damaged
        ],
        facts=facts,
        runs=[(title, _record(values[key])) for key, title in _RUNS],
        marks=marks,
    )


_RUNS = (("last_fsck", "Last fsck"), ("last_expire", "Last expire"), ("last_export", "Last export"))


def _command(reason: Reason, uri: str) -> str:
    """Return the command that a reason recommends. One for another catalog names it first."""
    if reason.shell:
        return shlex.join(reason.words)
    return shlex.join(("olympia", *(() if reason.words[0] == "-c" else ("-c", uri)), *reason.words))


def _lag(lag: int) -> str:
    return f"{plural(abs(lag), 'version')} {'behind' if lag > 0 else 'ahead'}"


def _transactions(values: Mapping[str, Any]) -> str:
    counts = {word: values[f"{word}_transactions"] for word in ("open", "stale", "unreadable")}
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count) or "none"


def _record(record: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return what a run noted about itself. A time is shortened for reading."""
    return {
        key: value[:19].replace("T", " ") if key.endswith("_at") and isinstance(value, str) else value
        for key, value in (record or {}).items()
        if value is not None
    }
