"""The HTML page of a report of fsck: self-contained, with every value escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from olympia_cli.ops.fsck.findings import CODES, Finding, Severity, shown
from olympia_cli.ops.fsck.fsck import Report, not_read
from olympia_cli.ops.page import head, text

NAMED = 200
"""The number of objects of a finding to name on the page."""


def report_page(report: Report, uri: str, now_millis: int, commands: Sequence[tuple[str, str, str]] = ()) -> str:
    """Return the page.

    `commands` are the next steps, each with its loss and its reason.
    """
    return "\n".join(_lines(report, uri, now_millis, commands)) + "\n"


def _lines(report: Report, uri: str, now_millis: int, commands: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    yield head("fsck", uri, now_millis)
    yield _verdict(report)
    if commands:
        yield '<ol class="next">'
        for command, loss, why in commands:
            yield f"<li><code>{text(command)}</code> {text(loss)}<br>{text(why)}</li>"
        yield "</ol>"
    yield "<table>"
    yield f"<tr><th>level</th><td>{text(report.level)}</td></tr>"
    if report.version is not None:
        yield f"<tr><th>version</th><td>v{report.version}</td></tr>"
    for what, count in report.checked.items():
        if count:
            yield f'<tr><th>{text(what.replace("_", " "))}</th><td class="number">{count:,}</td></tr>'
    yield "</table>"
    for finding in report.findings:
        yield from _finding(shown(finding))
    if not report.findings:
        yield "<p>Nothing was found.</p>"
    yield "<footer>Made by olympia fsck.</footer>\n</body>\n</html>"


def _verdict(report: Report) -> str:
    counts = ", ".join(f"{report.count(severity):,} {severity}" for severity in Severity if report.count(severity))
    if report.damaged:
        last = "none was found" if report.last_sound_version is None else f"v{report.last_sound_version}"
        return f'<p class="verdict damaged">Damaged: {counts}. The last sound version: {last}.</p>'
    if not report.complete:
        return f'<p class="verdict open">Not complete: the time ran out. So far: {counts or "nothing found"}.</p>'
    left = ", ".join(f"{what} ({option})" for what, option in not_read(report))
    rest = f" Not read: {left}." if left else ""
    return f'<p class="verdict sound">Sound: {counts or "nothing found"}.{rest}</p>'


def _finding(finding: Finding) -> Iterator[str]:
    yield f'<article class="{finding.severity}">'
    yield f"<h2>{finding.severity} {finding.code}: {text(CODES.get(finding.code, ''))}</h2>"
    yield f"<p>{text(finding.message)}</p>\n<dl>"
    if finding.path:
        yield f"<dt>file</dt><dd><code>{text(finding.path)}</code></dd>"
    if finding.versions:
        shown = ", ".join(f"v{a}" if a == b else f"v{a} to v{b}" for a, b in finding.versions[-20:])
        yield f"<dt>versions</dt><dd>{shown} ({finding.versions_total:,})</dd>"
    if finding.acknowledged:
        yield "<dt>known</dt><dd>acknowledged</dd>"
    elif finding.hint:
        yield f"<dt>next</dt><dd><code>{text(finding.hint)}</code></dd>"
    yield "</dl>"
    if finding.objects:
        total = finding.objects_total
        yield f"<details><summary>{total:,} object{'' if total == 1 else 's'}</summary>"
        items = (f"<li>{name.kind.word} <code>{text(str(name))}</code></li>" for name in finding.objects[:NAMED])
        yield f"<ul>{''.join(items)}</ul>"
        if total > NAMED:
            yield f"<p>and {total - min(NAMED, len(finding.objects)):,} more</p>"
        yield "</details>"
    yield "</article>"
