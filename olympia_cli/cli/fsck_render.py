"""Printing what fsck found: blocks for people, lines for pipes, JSON and CSV for programs, and the verdict last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import plural, visible
from olympia_cli.cli.params import Output

if TYPE_CHECKING:
    from olympia_cli.cli.fsck_advice import NextCommand
    from olympia_cli.names import ObjectName
    from olympia_cli.ops.fsck.findings import Finding
    from olympia_cli.ops.fsck.fsck import Report

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
    """Print it. `commands` are what to do next; `to_repair` says that a plan to mend something follows, and `more`
    goes into the JSON document beside what is always there."""
    from olympia_cli.ops.fsck.findings import describe_finding
    from olympia_cli.ops.fsck.fsck import describe_report

    if session.output is Output.JSON:
        told = [command.describe() for command in commands]
        render.document(session, {**describe_report(report), "next": told, **(more or {})})
        return
    with session.out(paged=True) as out:
        if session.output is Output.JSONL:
            for one in report.findings:
                out.write(render.json_text(session, describe_finding(one)) + "\n")
        elif session.output is Output.CSV:
            render.csv_rows(session, out, _CSV, map(describe_finding, report.findings))
        elif session.output is Output.NAME:
            for path in dict.fromkeys(one.path for one in report.findings if one.path):
                out.write(visible(path) + "\n")
        else:
            for one in report.findings:
                write_finding(session, out, one)
            out.write(_verdict(session, report, to_repair) + "\n")


def write_finding(session: Session, out: TextIO, found: Finding) -> None:
    """A block for people, a line for pipes."""
    (_write_block if session.is_tty else _write_line)(session, out, found)


def versions_text(ranges: Sequence[tuple[int, int]], dash: str = "-") -> str:
    """The versions that are hit: `v3, v9-v12`; of very many ranges the newest."""
    parts = [f"v{first}" if first == last else f"v{first}{dash}v{last}" for first, last in ranges]
    return ", ".join(parts if len(parts) <= 8 else [f"{len(parts) - 8} ranges more", *parts[-8:]])


def objects_text(found: Finding) -> str:
    """The objects that are hit: by name when there are few, else as numbers."""
    if not found.objects:
        return ""
    if found.objects_total <= 3:
        return ", ".join(f"{one.kind.word} {one}" for one in found.objects)
    if found.objects_total > len(found.objects):
        return f"{found.objects_total:,} objects, the first of them {_word(found.objects[0])}"
    kinds = Counter(one.kind.word for one in found.objects)
    inside = {one.namespace for one in found.objects}
    where = f" in {next(iter(inside))}" if len(inside) == 1 else f" in {len(inside):,} namespaces"
    return ", ".join(plural(count, word) for word, count in kinds.items()) + where


def _word(name: ObjectName) -> str:
    return f"{name.kind.word} {name}"


def _write_line(session: Session, out: TextIO, found: Finding) -> None:
    """One record a line: severity, code, file, what, versions, objects, and the next command or that it is known."""
    names = ", ".join(map(_word, found.objects)) if session.output is Output.WIDE else objects_text(found)
    cells = [str(found.severity), found.code, found.path, found.message, versions_text(found.versions), names]
    cells.append("acknowledged" if found.acknowledged else found.hint)
    out.write("\t".join(map(visible, cells)) + "\n")


def _write_block(session: Session, out: TextIO, found: Finding) -> None:
    severity = str(found.severity)
    out.write(f"{_colored(session, severity.ljust(8), _COLORS[severity])} {found.code}  {visible(found.message)}\n")
    for title, lines in _parts(session, found):
        for at, line in enumerate(lines):
            out.write(f"{(title if not at else '').rjust(7)}  {visible(line)}\n")


def _parts(session: Session, found: Finding) -> Iterator[tuple[str, list[str]]]:
    if found.path:
        yield "file", [found.path]
    hits = []
    if found.versions:
        hits.append(f"{versions_text(found.versions, '…')} ({plural(found.versions_total, 'version')})")
    if session.output is Output.WIDE:
        hits += map(_word, found.objects)
    elif found.objects:
        hits.append(objects_text(found))
    if hits:
        yield "hits", hits
    if found.acknowledged:
        yield "known", ["acknowledged"]
    elif found.hint:
        yield "next", [found.hint]


def _verdict(session: Session, report: Report, to_repair: bool) -> str:
    from olympia_cli.ops.fsck.findings import Severity

    counts = [(report.count(severity), str(severity)) for severity in Severity]
    told = ", ".join(f"{count:,} info" if word == "info" else plural(count, word) for count, word in counts if count)
    known = sum(found.acknowledged for found in report.findings)
    told += f" ({known:,} acknowledged)" if known else ""
    checked = ", ".join(
        plural(report.checked[key], key.removesuffix("s"))
        for key in ("versions", "roots", "nodes", "definitions")
        if report.checked.get(key)
    )
    if report.damaged:
        last = "none" if report.last_sound_version is None else f"v{report.last_sound_version}"
        # who asks for one older version is told of that one alone
        tail = "" if last == "none" and report.version != report.latest else f".  Last sound version: {last}"
        return f"{_colored(session, 'DAMAGED', '1;31')}  {told}{tail}"
    if to_repair:
        return f"{_colored(session, 'TO REPAIR', '1;33')}  {checked}; {told or 'nothing found'}"
    if not report.complete:
        return f"{_colored(session, 'INCOMPLETE', '1;33')}  {checked} so far; {told or 'nothing found'}"
    return f"{_colored(session, 'SOUND', '1;32')}  {checked}; {told or 'nothing found'}"


def _colored(session: Session, text: str, color: str) -> str:
    return f"\x1b[{color}m{text}\x1b[0m" if session.color else text
