"""Printing what a DeltaCAT catalog holds, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import plural, visible
from olympia_cli.cli.params import Output
from olympia_cli.names import time_text

if TYPE_CHECKING:
    from olympia_cli.importers.deltacat.inspecting import Told
    from olympia_cli.importers.iceberg import Imported
    from olympia_cli.ops.fsck.findings import Finding

_FIELDS = ["severity", "code", "path", "message"]


def print_inspected(session: Session, done: Imported, transactions: Iterable[Told]) -> None:
    """The tables, then the log, the newest transaction last; what an import would leave out is told on stderr."""
    from olympia_cli.cli.import_render import print_imported

    log = [_describe(one) for one in transactions]
    if session.output not in (Output.JSON, Output.JSONL) and not session.quiet:
        with session.out(paged=True) as out:
            for table in done.created:
                skipped = f"  {plural(len(table.skipped), 'sort')} left out" if table.skipped else ""
                files = "" if table.files is None else plural(table.files, "file")
                rows = "" if table.rows is None else plural(table.rows, "row")
                out.write(visible(f"{table.source}  {files}  {rows}{skipped}") + "\n")
            for one in log:
                words = one["problem"] or ", ".join(_counted(one["operations"])) or "nothing written"
                said = f"  {one['message']}" if one["message"] else ""
                ended = one["ended_at"] or one["began_at"]
                out.write(visible(f"{ended}  {one['state']}  {one['id']}  {words}{said}") + "\n")
    print_imported(session, done, 0, True, "part", transactions=log)


def _counted(operations: Sequence[str]) -> list[str]:
    return [f"{operations.count(type)} {type}" for type in dict.fromkeys(operations)]


def _describe(told: Told) -> dict[str, Any]:
    return {
        "id": told.id,
        "state": told.state,
        "began_at": _time(told.began_at),
        "ended_at": None if told.ended_at is None else _time(told.ended_at),
        "message": told.message,
        "operations": list(told.operations),
        "problem": told.problem,
    }


def _time(nanos: int) -> str:
    return time_text(nanos // 1_000_000)


def print_checked(session: Session, source: str, checked: dict[str, int], findings: Sequence[Finding]) -> int:
    """One finding a line, and the verdict; the exit code."""
    from olympia_cli.ops.fsck.findings import Severity, describe_finding

    damaged = any(one.is_damage for one in findings)
    if session.output is Output.JSON:
        told = [describe_finding(one) for one in findings]
        render.document(session, {"source": source, "checked": checked, "findings": told, "damaged": damaged})
        return 50 if damaged else 0
    with session.out(paged=True) as out:
        if session.output is Output.JSONL:
            out.writelines(render.json_text(session, describe_finding(one)) + "\n" for one in findings)
        elif session.output is Output.CSV:
            render.csv_rows(session, out, _FIELDS, map(describe_finding, findings))
        else:
            for one in findings:
                out.write("\t".join(map(visible, (str(one.severity), one.code, one.path, one.message))) + "\n")
            counts = ((sum(one.severity is severity for one in findings), str(severity)) for severity in Severity)
            words = ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing found"
            looked = ", ".join(
                plural(count, noun.removesuffix("s").replace("_", " ")) for noun, count in checked.items()
            )
            out.write(f"{'DAMAGED' if damaged else 'SOUND'}  {looked}; {words}\n")
    return 50 if damaged else 0
