"""Pages for versions: the log as a timeline, one version, and the difference of two."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from starlette.responses import Response

from olympia_cli.catalog.references import at_version, oldest_version
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import OlympiaError
from olympia_cli.format.action_types import ALTERS, CREATES, DROPS, RENAMES, RESTORES
from olympia_cli.format.actions import Action
from olympia_cli.names import full_name
from olympia_cli.ops.look.describe import describe_action
from olympia_cli.ops.look.diff import ObjectChange, diff
from olympia_cli.ops.look.log import LogEntry, log
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import bad_request
from olympia_cli.rest.page import document as pages
from olympia_cli.rest.page.document import document, page

PAGE = 30
ACTIONS = 8
CHANGES = 500
DIFFED = 40
"""The number of actions up to which the list of versions shows the difference that a version made."""
DIFFS = 8
"""The number of differences that are read at the same time."""
_KINDS = (("created", CREATES), ("restored", RESTORES), ("dropped", DROPS), ("renamed", RENAMES), ("altered", ALTERS))


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
        diffs = executor.map(lambda entry: _difference(entry, oldest), entries[:PAGE])
        items = [timeline_item(entry, diff) for entry, diff in zip(entries, diffs, strict=False)]
    return document(call, "versions.html", here="/versions", items=items, next_query=query)


def timeline_item(entry: LogEntry, diff: Sequence[ObjectChange] = ()) -> dict[str, Any]:
    """Return a version as the timeline shows it."""
    kinds = {
        "undone": entry.undone_by is not None,
        "reverted": entry.reverted_by is not None,
        "rollback": entry.rollback_to is not None,
        "unreadable": bool(entry.unreadable),
    }
    return {
        "entry": entry,
        "css": " ".join(kind for kind, holds in kinds.items() if holds),
        "actions": [_action(action) for action in entry.changes[:ACTIONS]],
        "more": len(entry.changes) - ACTIONS,
        "diff": diff,
    }


def _difference(entry: LogEntry, oldest: int) -> Sequence[ObjectChange]:
    """Return the changes of a version, or nothing if they are many or cannot be read."""
    previous, snapshot = entry.previous_version, entry.snapshot
    if snapshot is None or previous is None or previous < oldest or not 0 < len(entry.changes) <= DIFFED:
        return ()
    if entry.rollback_to is not None:
        return ()
    try:
        return list(islice(diff(at_version(previous, snapshot), snapshot), DIFFED))
    except OlympiaError:
        return ()


def _action(action: Action) -> dict[str, Any]:
    described = describe_action(action)
    detail, to = described["detail"], described["detail"].get("to")
    change = next((change for change, types in _KINDS if action.type in types), "")
    if change:
        fields = [*detail.get("fields", ()), *detail.get("set", ()), *(f"−{key}" for key in detail.get("unset", ()))]
        fields += [f"+column {column}" for column in detail.get("added_columns", ())]
        fields += [f"−column {column}" for column in detail.get("removed_columns", ())]
        fields += [f"column {names['from']} → {names['to']}" for names in detail.get("renamed_columns", ())]
        fields += [f"{detail[key]:,} {key.replace('_', ' ')}" for key in detail if key.endswith("_files")]
        if "from_version" in detail:
            fields.append(f"from v{detail['from_version']}")
    else:
        fields = [f"{key.replace('_', ' ')} {value}" for key, value in detail.items() if value not in (None, [], {})]
    return {
        "change": change,
        "words": f"{change} {described['object']}" if change else action.type_name.lower().replace("_", " "),
        "name": "" if action.name is None else _plain(action.name.namespace, action.name.name),
        "to": _plain(to["namespace"], "" if described["object"] == "namespace" else to["name"]) if to else "",
        "detail": ", ".join(map(str, fields)),
    }


def _plain(namespace: str, name: str) -> str:
    return full_name(namespace, name) if name else namespace


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
        actions=[_action(action) for action in entry.changes[:CHANGES]],
        more=len(entry.changes) - CHANGES,
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
