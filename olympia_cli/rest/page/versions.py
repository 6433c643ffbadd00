"""Pages for versions: the log as a timeline, one version, and the difference of two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from starlette.responses import Response

from olympia_cli.catalog.references import oldest_version
from olympia_cli.format.actions import Action
from olympia_cli.names import ObjectName, quote_part, time_text
from olympia_cli.ops.look.describe import describe_action
from olympia_cli.ops.look.diff import ObjectChange, diff
from olympia_cli.ops.look.log import LogEntry, log
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import bad_request
from olympia_cli.rest.page import look
from olympia_cli.rest.page.html import Content, Html, code, document, facts, link, table, tag
from olympia_cli.rest.page.look import object_link, page, version_link

PAGE = 50
ACTIONS = 8
CHANGES = 500


@page
def versions(call: Call) -> Response:
    """Show the log, newest version first. Versions undone by a rollback are drawn beside the line."""
    until = look.version(call, call.query.get("until", ""))
    counts = look.number(call, "counts", until.version, until.version)
    undoing = look.number(call, "undoing", 0, 2**32) or None
    entries = list(islice(log(until, oldest_version(until), counts, undoing), PAGE + 1))
    items = [_item(entry) for entry in entries[:PAGE]]
    older = None
    if len(entries) > PAGE:
        for entry in entries[:PAGE]:
            if entry.undone_by is None:
                counts = entry.version - 1 if entry.rollback_to is None else entry.rollback_to
                undoing = None if entry.rollback_to is None else entry.version
        query = {"until": f"v{entries[PAGE].version}", "counts": counts, "undoing": undoing}
        older = tag("p", link("Older versions", "/versions", query, rel="next"))
    jump = tag(
        "form",
        tag(
            "input",
            name="until",
            placeholder="from this version or time back",
            aria_label="From this version or time back",
        ),
        tag("button", "Go"),
    )
    return document("Versions", jump, tag("ol", items, class_="log"), older, here="/versions")


def _item(entry: LogEntry) -> Html:
    kind = "undone" if entry.undone_by is not None else "rollback" if entry.rollback_to is not None else None
    head: list[Content] = [tag("strong", version_link(entry.version)), " "]
    if entry.created_at_millis is not None:
        head.append(tag("time", time_text(entry.created_at_millis), datetime=time_text(entry.created_at_millis)))
    head += [" ", tag("span", entry.by, class_="quiet")]
    if entry.rollback_to is not None:
        head += [" rollback to ", version_link(entry.rollback_to)]
    if entry.undone_by is not None:
        head += [" undone by ", version_link(entry.undone_by)]
    lines: list[Content] = [tag("div", head)]
    if entry.message:
        lines.append(tag("div", entry.message))
    if entry.unreadable:
        lines.append(tag("div", entry.unreadable, class_="dropped"))
    lines.append(_actions(entry.changes[:ACTIONS], len(entry.changes) - ACTIONS, entry.version))
    return tag("li", lines, class_=kind)


def _actions(actions: Sequence[Action], more: int, version: int) -> Html:
    shown = [tag("li", _action(action)) for action in actions]
    if more > 0:
        shown.append(tag("li", link(f"and {more:,} more", "/version", {"v": version})))
    return tag("ul", shown)


def _action(action: Action) -> list[Content]:
    described = describe_action(action)
    words: list[Content] = [action.type_name.lower().replace("_", " "), " "]
    if action.name is not None:
        words.append(code(_plain(action.name)))
    to = described["detail"].get("to")
    if isinstance(to, dict):
        words += [" to ", code(f"{to['namespace']}.{to['name']}")]
    return words


def _plain(name: ObjectName) -> str:
    return f"{quote_part(name.namespace)}.{quote_part(name.name)}" if name.name else name.namespace


@page
def version(call: Call) -> Response:
    """Show one version: author, message and actions."""
    number = call.query.get("v", "")
    if not number.isascii() or not number.isdigit():
        raise bad_request("v is not a version")
    snapshot = look.version(call, f"v{number}")
    entry = next(log(snapshot, snapshot.version))
    values: list[tuple[str, Content]] = [
        ("at", time_text(snapshot.created_at_millis)),
        ("by", entry.by or None),
        ("message", entry.message or None),
        ("previous", version_link(entry.previous_version)),
        ("rollback to", version_link(entry.rollback_to)),
        ("transaction", code(entry.transaction_id) if entry.transaction_id else None),
        ("root", link(snapshot.file.path, "/node", {"path": snapshot.file.path})),
    ]
    links: list[Content] = [link("The objects in this version", "/", {"at": f"v{number}"})]
    if entry.previous_version is not None:
        links += [" · ", link("What it changed", "/diff", {"from": f"v{entry.previous_version}", "to": f"v{number}"})]
    rows = [[_action(action), _detail(describe_action(action)["detail"])] for action in entry.changes[:CHANGES]]
    more = tag("p", f"and {len(entry.changes) - CHANGES:,} more") if len(entry.changes) > CHANGES else None
    listed = [tag("h2", "Actions"), table(["action", "detail"], rows), more]
    return document(f"Version {number}", facts(values), tag("p", links), *listed, here="/versions")


def _detail(detail: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in detail.items() if value not in (None, [], {}))[:500]


@page
def diff_page(call: Call) -> Response:
    """Show the objects created, altered, renamed and dropped between two versions."""
    new = look.version(call, call.query.get("to", ""))
    before = call.query.get("from", "") or (
        f"v{new.version - 1}" if new.version > oldest_version(new) else f"v{new.version}"
    )
    old = look.version(call, before)
    form = tag(
        "form",
        tag("input", name="from", value=f"v{old.version}", aria_label="From version, time or export"),
        tag("input", name="to", value=f"v{new.version}", aria_label="To version, time or export"),
        tag("button", "Compare"),
    )
    changes = list(islice(diff(old, new), CHANGES + 1))
    rows = [list(_change(change, f"v{old.version}", f"v{new.version}")) for change in changes[:CHANGES]]
    more = (
        tag("p", f"Only the first {CHANGES:,} are shown; olympia diff shows all.") if len(changes) > CHANGES else None
    )
    title = f"From v{old.version} to v{new.version}"
    return document(title, form, table(["", "change", "kind", "name", "what"], rows), more, here="/diff")


_SIGNS = {"created": "+", "dropped": "-", "altered": "~", "renamed": ">"}


def _change(change: ObjectChange, old: str, new: str) -> Iterator[Content]:
    yield tag("span", _SIGNS[change.change], class_=f"sign {change.change}", aria_hidden="true")
    yield change.change
    yield change.name.kind.word
    yield object_link(change.name, old if change.change == "dropped" else new)
    renamed: list[Content] = ["from ", code(_plain(change.old_name))] if change.change == "renamed" else []
    fields = [
        tag("div", f"{field}: ", code(str(before)), " → ", code(str(after)))
        for field, (before, after) in list(change.fields().items())[:20]
    ]
    yield [*renamed, *fields]
