"""The page with the health of the catalog: status, the last runs, and the quarantine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from olympia_cli.names import plural
from olympia_cli.ops.expire import list_marks
from olympia_cli.ops.inspect import Reason
from olympia_cli.pages import moment, size_text
from olympia_cli.rest.call import Call
from olympia_cli.rest.page import document as pages
from olympia_cli.rest.page.document import Link, document, url

DAY_MILLIS = 86_400_000


def health(call: Call) -> Response:
    current = pages.health(call, fresh=True).status
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
