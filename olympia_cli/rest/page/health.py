"""The page with the health of the catalog: status, the last fsck, and the quarantine."""

from __future__ import annotations

from starlette.responses import Response

from olympia_cli.ops.expire.marks import list_marks
from olympia_cli.ops.look.status import Standing, status
from olympia_cli.rest.call import Call
from olympia_cli.rest.page import look
from olympia_cli.rest.page.html import Content, code, document, facts, table, tag
from olympia_cli.rest.page.look import page, version_link

DAY_MILLIS = 86_400_000


@page
def health(call: Call) -> Response:
    found = status(call.service.catalog)
    look_of = "damaged" if found.damaged else "sound" if found.standing is Standing.SOUND else "open"
    reasons = "; ".join(reason.text for reason in found.reasons)
    shown = f"{found.standing}: {reasons}" if reasons else str(found.standing)
    verdict = tag("p", shown[:1].upper() + shown[1:], class_=f"verdict {look_of}")
    plain = {key: value for key, value in found.values.items() if not isinstance(value, dict | list)}
    content: list[Content] = [verdict, facts((key.replace("_", " "), str(value)) for key, value in plain.items())]
    for key, title in (("last_fsck", "Last fsck"), ("last_expire", "Last expire")):
        record = found.values.get(key)
        run = facts((name, code(str(value)[:300])) for name, value in record.items()) if record else tag("p", "Never.")
        content += [tag("h2", title), run]
    marks = [
        [
            version_link(mark["version"]),
            str(mark["marked_at"] or ""),
            str(mark["purge_after"] or ""),
            f"{len(mark['expired_versions']):,}",
            "" if mark["files"] is None else f"{mark['files']:,}",
            look.bytes_text(mark["bytes"]),
            str(mark["problem"] or ""),
        ]
        for mark in list_marks(call.latest, DAY_MILLIS)
    ]
    headings = ["marked in", "at", "purged from", "versions", "files", "size", ""]
    content += [tag("h2", "Quarantine"), table(headings, marks, ("versions", "files", "size"))]
    return document("Health", *content, here="/health")
