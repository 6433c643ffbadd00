"""Pages for versions: the log as a timeline, one version, and the difference of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from typing import Any

from starlette.responses import Response

from olympia_cli.catalog.references import at_version, oldest_version
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import OlympiaError
from olympia_cli.format.actions import ALTERS, CREATES, DROPS, RENAMES, RESTORES, Action
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName, full_name, plural
from olympia_cli.ops.inspect.describe import describe_action
from olympia_cli.ops.inspect.diff import ObjectChange, diff
from olympia_cli.ops.inspect.log import LogEntry, log
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import bad_request
from olympia_cli.rest.page import document as pages
from olympia_cli.rest.page.document import document, page

PAGE = 30
ACTIONS = 8
CHANGES = 500
DIFFED = 40
"""The number of actions up to which the list of versions shows the difference that a version made."""
FOLD_FROM = 4
"""The number of similar actions from which one line stands for all of them."""
MEMBERS = 100
"""The number of objects that such a line names when it is opened."""
DIFFS = 8
"""The number of differences that are read at the same time."""
_KINDS = (("created", CREATES), ("restored", RESTORES), ("dropped", DROPS), ("renamed", RENAMES), ("altered", ALTERS))
_FILES = ("added_files", "removed_files", "deleted_files", "unnamed_files")


@page
def versions(call: Call) -> Response:
    """Show the log, newest version first. Versions undone by a rollback are drawn beside the line."""
    until = pages.version(call, call.query.get("until", ""))
    counts = pages.number(call, "counts", until.version, until.version)
    undoing = pages.number(call, "undoing", 0, 2**32) or None
    oldest = oldest_version(until)
    entries = list(islice(log(until, oldest, counts, undoing), PAGE + 1))
    query = None
    if len(entries) > PAGE:
        for entry in entries[:PAGE]:
            if entry.undone_by is None:
                counts = entry.version - 1 if entry.rollback_to is None else entry.rollback_to
                undoing = None if entry.rollback_to is None else entry.version
        query = {"until": f"v{entries[PAGE].version}", "counts": counts, "undoing": undoing}
    with ThreadPoolExecutor(DIFFS) as executor:
        near = {entry.version: entry.snapshot for entry in entries}
        changes = executor.map(lambda entry: _changes(entry, oldest, near), entries[:PAGE])
        items = [timeline_item(entry, changed) for entry, changed in zip(entries, changes, strict=False)]
    return document(call, "versions.html", here="/versions", items=items, next_query=query)


def timeline_item(
    entry: LogEntry, changes: Mapping[ObjectName, ObjectChange] | None = None, most: int = ACTIONS
) -> dict[str, Any]:
    """Return a version as the timeline shows it. The actions of the objects in `changes` unfold to their fields."""
    kinds = {
        "undone": entry.undone_by is not None,
        "reverted": entry.reverted_by is not None,
        "rollback": entry.rollback_to is not None,
        "unreadable": bool(entry.unreadable),
    }
    lines = list(islice(_lines(entry.changes, changes or {}), most + 1))
    return {
        "entry": entry,
        "css": " ".join(kind for kind, holds in kinds.items() if holds),
        "lines": lines[:most],
        "more": len(entry.changes) - sum(line["count"] for line in lines[:most]),
    }


def _changes(entry: LogEntry, oldest: int, near: Mapping[int, Snapshot | None]) -> dict[ObjectName, ObjectChange]:
    """Return the changes of a version by the new and the old names. Return none if they are many or unreadable.

    `near` holds the snapshots of versions that are read already.
    """
    previous, snapshot = entry.previous_version, entry.snapshot
    if snapshot is None or previous is None or previous < oldest or entry.rollback_to is not None:
        return {}
    if not 0 < len(entry.changes) <= DIFFED:
        return {}
    try:
        before = near.get(previous) or at_version(previous, snapshot)
        changes = list(islice(diff(before, snapshot), DIFFED))
    except OlympiaError:
        return {}
    return {name: change for change in changes for name in (change.name, change.old_name)}


def _lines(actions: Sequence[Action], changes: Mapping[ObjectName, ObjectChange]) -> Iterator[dict[str, Any]]:
    """Yield a line per action. Many neighbours that were created or dropped in one namespace share a line."""
    for (change, kind, _), group in groupby(actions, key=_alike):
        alike = list(group)
        if change not in ("created", "dropped") or len(alike) < FOLD_FROM:
            for action in alike:
                yield {**_line(action), "diff": None if action.name is None else changes.get(action.name)}
            continue
        words = f"{change} {plural(len(alike), Kind(kind).word)}"
        members = [str(action.name) for action in alike[:MEMBERS]]
        last = alike[-1].name
        name = f"{members[0]} … {last.namespace if isinstance(last, NamespaceName) else last and last.name}"
        fold = {"words": words, "name": name, "detail": "", "members": members, "count": len(alike)}
        yield {**_line(alike[0]), **fold}


def _alike(action: Action) -> tuple[str, int, str]:
    name = action.name
    kind = 0 if name is None else name.kind
    return _change(action), kind, name.namespace if isinstance(name, TableName | ViewName) else ""


def _change(action: Action) -> str:
    if action.type in RESTORES and describe_action(action)["detail"].get("replaces"):
        # the object was there, with other content
        return "altered"
    return next((change for change, types in _KINDS if action.type in types), "")


def _line(action: Action) -> dict[str, Any]:
    described, change = describe_action(action), _change(action)
    detail, to, kind = described["detail"], described["detail"].get("to"), described["object"]
    if change:
        fields = [field.removeprefix("iceberg_").replace("_", " ") for field in detail.get("fields", ())]
        fields += [*detail.get("set", ()), *(f"−{key}" for key in detail.get("unset", ()))]
        fields += [f"+column {column}" for column in detail.get("added_columns", ())]
        fields += [f"−column {column}" for column in detail.get("removed_columns", ())]
        fields += [f"column {names['from']} → {names['to']}" for names in detail.get("renamed_columns", ())]
        fields += [plural(detail[key], key.removesuffix("s").replace("_", " ")) for key in _FILES if detail.get(key)]
        if "from_version" in detail:
            fields.append(f"from v{detail['from_version']}")
    else:
        values = {key.replace("_", " "): value for key, value in detail.items() if value not in (None, [], {})}
        fields = [key if value is True else f"{key} {value}" for key, value in values.items() if value is not False]
    return {
        "change": change,
        "words": f"{change} {kind}" if change else action.type_name.lower().replace("_", " "),
        "name": action.name or "",
        "to": "" if not to else to["name"] if kind == "namespace" else full_name(to["namespace"], to["name"]),
        "detail": ", ".join(field for field in map(str, fields) if field != "previous metadata location"),
        "diff": None,
        "members": (),
        "count": 1,
    }


@page
def version(call: Call) -> Response:
    """Show one version: author, message, actions, and the difference to the previous version."""
    number = call.query.get("v", "")
    if not number.isascii() or not number.isdigit():
        raise bad_request("v is not a version")
    snapshot = pages.version(call, f"v{number}")
    entry = next(log(snapshot, snapshot.version))
    previous, changes, problem = entry.previous_version, [], ""
    if previous is not None and previous >= oldest_version(call.latest):
        try:
            changes = _first_changes(at_version(previous, snapshot), snapshot)
        except OlympiaError as error:
            problem = str(error)
    return document(
        call,
        "version.html",
        here="/versions",
        number=snapshot.version,
        entry=entry,
        root=snapshot.file.path,
        changes=changes[:CHANGES],
        is_cut=len(changes) > CHANGES,
        problem=problem,
        item=timeline_item(entry, most=CHANGES),
    )


def _first_changes(old: Snapshot, new: Snapshot) -> list[ObjectChange]:
    return list(islice(diff(old, new), CHANGES + 1))


@page
def compare(call: Call) -> Response:
    """Show the objects created, altered, renamed and dropped between two versions."""
    new = pages.version(call, call.query.get("to", ""))
    before = call.query.get("from", "") or (
        f"v{new.version - 1}" if new.version > oldest_version(new) else f"v{new.version}"
    )
    old = pages.version(call, before)
    changes = _first_changes(old, new)
    return document(
        call,
        "diff.html",
        here="/diff",
        old=f"v{old.version}",
        new=f"v{new.version}",
        changes=changes[:CHANGES],
        is_cut=len(changes) > CHANGES,
        most=CHANGES,
    )
