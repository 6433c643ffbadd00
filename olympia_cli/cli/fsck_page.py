"""The HTML page of a report of fsck, in one file."""

from __future__ import annotations

from collections.abc import Sequence

from olympia_cli.ops.fsck.findings import CODES, Severity, shown
from olympia_cli.ops.fsck.fsck import Report, not_read
from olympia_cli.pages import template

NAMED = 200
"""The number of objects of a finding to name on the page."""


def report_page(report: Report, uri: str, now_millis: int, commands: Sequence[tuple[str, str, str]] = ()) -> str:
    """Return the page.

    `commands` are the next steps, each with its loss and its reason.
    """
    counts = [f"{report.count(severity):,} {severity}" for severity in Severity if report.count(severity)]
    page = template("fsck.html").render(
        command="fsck",
        uri=uri,
        now=now_millis,
        report=report,
        commands=commands,
        counts=", ".join(counts),
        last_sound="none was found" if report.last_sound_version is None else f"v{report.last_sound_version}",
        left=", ".join(f"{part} ({option})" for part, option in not_read(report)),
        findings=[shown(finding) for finding in report.findings],
        codes=CODES,
        most=NAMED,
    )
    return f"{page}\n"
