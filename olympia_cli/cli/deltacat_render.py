"""Printing the content of a DeltaCAT catalog, and its damage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import visible
from olympia_cli.cli.params import Output
from olympia_cli.names import plural, time_text

if TYPE_CHECKING:
    from olympia_cli.importers.deltacat.inspecting import Told
    from olympia_cli.importers.iceberg import Imported
    from olympia_cli.ops.fsck.findings import Finding

_FIELDS = ["severity", "code", "path", "message"]


def print_inspected(session: Session, outcome: Imported, transactions: Iterable[Told]) -> None:
    """Print the log, the newest transaction last, then the tables. Warn of data that an import would leave out."""
    from olympia_cli.cli.import_render import print_imported

    log = [_describe(entry) for entry in transactions]
    if session.output not in (Output.JSON, Output.JSONL) and not session.quiet:
        with session.out(paged=True) as out:
            for entry in log:
                words = entry["problem"] or ", ".join(_counted(entry["operations"])) or "nothing written"
                message = f"  {entry['message']}" if entry["message"] else ""
                ended = entry["ended_at"] or entry["began_at"]
                out.write(visible(f"{ended}  {entry['state']}  {entry['id']}  {words}{message}") + "\n")
    print_imported(session, outcome, 0, True, "part", transactions=log)


def _counted(operations: Sequence[str]) -> list[str]:
    return [f"{operations.count(type)} {type}" for type in dict.fromkeys(operations)]


def _describe(transaction: Told) -> dict[str, Any]:
    return {
        "id": transaction.id,
        "state": transaction.state,
        "began_at": _time(transaction.began_at),
        "ended_at": None if transaction.ended_at is None else _time(transaction.ended_at),
        "message": transaction.message,
        "operations": list(transaction.operations),
        "problem": transaction.problem,
    }


def _time(nanos: int) -> str:
    return time_text(nanos // 1_000_000)


def print_checked(session: Session, source: str, checked: dict[str, int], findings: Sequence[Finding]) -> int:
    """Print one finding per line, then the verdict. Return the exit code."""
    from olympia_cli.ops.fsck.findings import Severity, describe_finding

    damaged = any(finding.is_damage for finding in findings)
    if session.output is Output.JSON:
        rows = [describe_finding(finding) for finding in findings]
        render.document(session, {"source": source, "checked": checked, "findings": rows, "damaged": damaged})
        return 50 if damaged else 0
    with session.out(paged=True) as out:
        if session.output is Output.JSONL:
            out.writelines(render.json_text(session, describe_finding(finding)) + "\n" for finding in findings)
        elif session.output is Output.CSV:
            render.csv_rows(session, out, _FIELDS, map(describe_finding, findings))
        elif findings or not session.quiet:
            for finding in findings:
                out.write(
                    "\t".join(map(visible, (str(finding.severity), finding.code, finding.path, finding.message))) + "\n"
                )
            counts = (
                (sum(finding.severity is severity for finding in findings), str(severity)) for severity in Severity
            )
            words = ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing found"
            files = ", ".join(
                plural(count, noun.removesuffix("s").replace("_", " ")) for noun, count in checked.items()
            )
            out.write(f"{'DAMAGED' if damaged else 'SOUND'}  {files}; {words}\n")
    return 50 if damaged else 0
