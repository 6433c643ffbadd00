"""Printing the findings of fsck: blocks for people, lines for pipes, JSON and CSV for programs; the verdict last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render, visible
from olympia_cli.cli.session import Session
from olympia_cli.names import plural
from olympia_cli.ops import fsck

if TYPE_CHECKING:
    from olympia_cli.cli.fsck_actions import NextCommand
    from olympia_cli.names import ObjectName
    from olympia_cli.ops.fsck import Finding, Report

_COLORS = {"error": "31", "warning": "33", "info": "36"}
_CSV = ["severity", "code", "path", "message", "version_ranges", "objects", "objects_total", "hint", "acknowledged"]


def print_report(
    session: Session,
    report: Report,
    commands: Sequence[NextCommand] = (),
    *,
    to_repair: bool = False,
    more: dict[str, Any] | None = None,
) -> None:
    """Print a report.

    `commands` are the next commands. With `to_repair`, a plan of a repair follows. `more` has further keys of the JSON
    document.
    """
    if session.output is Output.JSON:
        steps = [command.describe() for command in commands]
        render.document(session, {**report.describe(), "next": steps, **(more or {})})
        return
    with session.out(paged=True) as out:
        if session.output is Output.JSONL:
            for finding in report.findings:
                out.write(render.json_text(session, fsck.describe_finding(finding)) + "\n")
        elif session.output is Output.CSV:
            render.csv_rows(session, out, _CSV, map(fsck.describe_finding, report.findings))
        elif session.output is Output.NAME:
            for path in dict.fromkeys(fsck.shown(finding).path for finding in report.findings if finding.path):
                out.write(visible(path) + "\n")
        else:
            news = [finding for finding in report.findings if not session.quiet or is_news(finding)]
            for finding in news:
                write_finding(session, out, finding)
            if news or not session.quiet or report.damaged or not report.complete:
                out.write(_verdict(session, report, to_repair) + "\n")


def is_news(finding: Finding) -> bool:
    """Return whether --quiet prints the finding."""
    return finding.severity is not fsck.Severity.INFO and not finding.acknowledged


def write_finding(session: Session, out: TextIO, finding: Finding) -> None:
    """Print a finding, as a block for people or as a line for pipes."""
    (_write_block if session.is_tty else _write_line)(session, out, fsck.shown(finding))


def versions_text(ranges: Sequence[tuple[int, int]], dash: str = "-") -> str:
    """Format the affected versions: `v3, v9-v12`; of very many ranges the newest."""
    parts = [f"v{first}" if first == last else f"v{first}{dash}v{last}" for first, last in ranges]
    return ", ".join(parts if len(parts) <= 8 else [plural(len(parts) - 8, "older range"), *parts[-8:]])


def objects_text(finding: Finding) -> str:
    """Format the affected objects: the names of up to three, else numbers."""
    if not finding.objects:
        return ""
    if finding.objects_total <= 3:
        return ", ".join(f"{name.kind.word} {name}" for name in finding.objects)
    if finding.objects_total > len(finding.objects):
        return f"{finding.objects_total:,} objects, the first of them {_word(finding.objects[0])}"
    kinds = Counter(name.kind.word for name in finding.objects)
    inside = {name.namespace for name in finding.objects}
    where = f" in {next(iter(inside))}" if len(inside) == 1 else f" in {len(inside):,} namespaces"
    return ", ".join(plural(count, word) for word, count in kinds.items()) + where


def _word(name: ObjectName) -> str:
    return f"{name.kind.word} {name}"


def _write_line(session: Session, out: TextIO, finding: Finding) -> None:
    """Print one line: severity, code, file, message, versions, objects, and the next command or `acknowledged`."""
    names = ", ".join(map(_word, finding.objects)) if session.output is Output.WIDE else objects_text(finding)
    cells = [str(finding.severity), finding.code, finding.path, finding.message, versions_text(finding.versions), names]
    cells.append("acknowledged" if finding.acknowledged else finding.hint)
    out.write("\t".join(map(visible, cells)) + "\n")


def _write_block(session: Session, out: TextIO, finding: Finding) -> None:
    severity = str(finding.severity)
    out.write(f"{_colored(session, severity.ljust(8), _COLORS[severity])} {finding.code}  {visible(finding.message)}\n")
    for title, lines in _parts(session, finding):
        for at, line in enumerate(lines):
            out.write(f"{(title if not at else '').rjust(7)}  {visible(line)}\n")


def _parts(session: Session, finding: Finding) -> Iterator[tuple[str, list[str]]]:
    if finding.path:
        yield "file", [finding.path]
    hits = []
    if finding.versions:
        hits.append(f"{versions_text(finding.versions, '…')} ({plural(finding.versions_total, 'version')})")
    if session.output is Output.WIDE:
        hits += map(_word, finding.objects)
    elif finding.objects:
        hits.append(objects_text(finding))
    if hits:
        yield "hits", hits
    if finding.acknowledged:
        yield "known", ["acknowledged"]
    elif finding.hint:
        yield "next", [finding.hint]


def _verdict(session: Session, report: Report, to_repair: bool) -> str:
    counts = [(report.count(severity), str(severity)) for severity in fsck.Severity]
    summary = ", ".join(
        [f"{count:,} info" if word == "info" else plural(count, word) for count, word in counts if count]
    )
    acknowledged_count = sum(finding.acknowledged for finding in report.findings)
    summary += f" ({acknowledged_count:,} acknowledged)" if acknowledged_count else ""
    checked = ", ".join(
        [
            plural(report.checked[key], key.removesuffix("s"))
            for key in ("versions", "roots", "nodes", "definitions")
            if report.checked.get(key)
        ]
    )
    if report.damaged:
        last = "none" if report.last_sound_version is None else f"v{report.last_sound_version}"
        # an fsck of one older version does not look for a sound one
        tail = "" if last == "none" and report.version != report.latest else f".  Last sound version: {last}"
        return f"{_colored(session, 'DAMAGED', '1;31')}  {summary}{tail}"
    if to_repair:
        return f"{_colored(session, 'TO REPAIR', '1;33')}  {checked}; {summary or 'nothing found'}"
    if not report.complete:
        return f"{_colored(session, 'INCOMPLETE', '1;33')}  {checked} so far; {summary or 'nothing found'}"
    unread = ", ".join(f"{part} ({option})" for part, option in fsck.not_read(report))
    scope = f"{checked}; not read: {unread}" if unread else checked
    return f"{_colored(session, 'SOUND', '1;32')}  {scope}; {summary or 'nothing found'}"


def _colored(session: Session, text: str, color: str) -> str:
    return f"\x1b[{color}m{text}\x1b[0m" if session.color else text


# The HTML page of a report of fsck, in one file.

NAMED = 200
"""The number of objects of a finding to name on the page."""


def report_page(report: Report, uri: str, now_millis: int, commands: Sequence[tuple[str, str, str]] = ()) -> str:
    """Return the page.

    `commands` are the next steps, each with its loss and its reason.
    """
    counts = [f"{report.count(severity):,} {severity}" for severity in fsck.Severity if report.count(severity)]
    from olympia_cli.pages import template

    page = template("fsck.html").render(
        command="fsck",
        uri=uri,
        now=now_millis,
        report=report,
        commands=commands,
        counts=", ".join(counts),
        last_sound="none was found" if report.last_sound_version is None else f"v{report.last_sound_version}",
        left=", ".join(f"{part} ({option})" for part, option in fsck.not_read(report)),
        findings=[fsck.shown(finding) for finding in report.findings],
        codes=fsck.CODES,
        most=NAMED,
    )
    return f"{page}\n"
