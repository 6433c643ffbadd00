"""The commit of an import and the printing of its result, for all kinds of sources."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render, size, visible
from olympia_cli.cli.output.fsck import write_finding
from olympia_cli.cli.session import Session
from olympia_cli.errors import PartlyDone
from olympia_cli.masking import masked
from olympia_cli.names import plural, time_text
from olympia_cli.ops import fsck

if TYPE_CHECKING:
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.importers import ImportedTable, ImportResult, Omission
    from olympia_cli.importers.deltacat import SourceTransaction
    from olympia_cli.importers.iox import Checked
    from olympia_cli.ops.fsck import Finding

SHOWN = 20
"""Number of names of each kind to show; JSON has all of them."""

COLUMNS_SHOWN = 8
"""Number of columns per table to show on a terminal; `-o wide` and JSON have all of them."""


def commit_import(
    session: Session, bring: Callable[[Transaction], ImportResult], message: str, retry_for: str, dry_run: bool
) -> tuple[ImportResult, int]:
    """Make the changes of an import as one commit, or only stage them. Return the result and the version."""
    if dry_run:
        transaction = session.catalog.begin()
        return bring(transaction), transaction.base.version
    results: list[ImportResult] = []
    changed = session.change(
        lambda transaction: results.append(bring(transaction)),
        message=message,
        retry_for=retry_for,
        again=True,
        atomic=True,
    )
    assert changed.version is not None
    return results[-1], changed.version


def print_imported(
    session: Session,
    outcome: ImportResult,
    version: int,
    dry_run: bool,
    noun: str = "table",
    hint: str = "remove the reasons and run the import again: it adds what was left out",
    **more: Any,
) -> None:
    """Print the result, and raise PartlyDone if objects were left out. `more` has further keys for JSON."""
    if dry_run:
        _print_tables(session, outcome)
    words = [f"{plural(len(outcome.created), 'table')} {'to register' if dry_run else 'registered'}"]
    for count, text in (
        (len(outcome.moved_on), "moved on"),
        (outcome.unchanged, "as before"),
        (outcome.dropped, "dropped"),
    ):
        if count:
            words.append(f"{count} {text}")
    if outcome.views:
        words.insert(1, plural(outcome.views, "view"))
    value = {**_describe(session, outcome, version), **more, "dry_run": dry_run}
    text = ", ".join(words)
    # no version has them yet
    render.outcome(session, value, f"{text}  nothing was done" if dry_run else f"v{version}  {text}")
    for former, name in outcome.renamed[:SHOWN]:
        session.say(f"renamed {former} to {name}")
    skipped = [
        (f"of {table.name} {omission.part}", omission.reason)
        for table in (*outcome.created, *outcome.moved_on)
        for omission in table.skipped
    ]
    left_out = [*((omission.part, omission.reason) for omission in outcome.left_out), *skipped]
    for what, why in left_out[:SHOWN]:
        session.say(f"warning: left out {what}: {why}", is_problem=True)
    if left_out:
        advised = next((omission.advice for omission in _left_out(outcome) if omission.advice is not None), None)
        advice, command = (hint, ()) if advised is None else (advised.text, advised.command)
        raise PartlyDone(f"{plural(len(left_out), noun)} left out", hint=advice, command=command)


_COLUMNS = (
    render.Column("change", "CHANGE"),
    render.Column("name", "TABLE"),
    render.Column("files", "FILES", right=True),
    render.Column("rows", "ROWS", right=True),
    render.Column("bytes", "SIZE", right=True),
    render.Column("left_out", "LEFT OUT", right=True),
    render.Column("columns", "COLUMNS"),
    render.Column("source", "SOURCE", wide=True),
)


def _print_tables(session: Session, outcome: ImportResult) -> None:
    """Print the tables that would be imported, for people; JSON has them anyway."""
    if session.output not in (Output.TABLE, Output.WIDE) or session.quiet:
        return
    rows = [
        {**_describe_table(session, table, change), "left_out": len(table.skipped), "columns": _columns(session, table)}
        for table, change in _tables(outcome)
    ]
    if session.is_tty:
        for row in rows:
            row |= {"bytes": None if row["bytes"] is None else size(row["bytes"]), "left_out": row["left_out"] or None}
    # piped lines always have the same columns
    columns = [column for column in _COLUMNS if not session.is_tty or any(row[column.key] is not None for row in rows)]
    if rows:
        render.records(session, "tables", columns, rows)


def _columns(session: Session, table: ImportedTable) -> str | None:
    """Format the columns of a table on one line; on a terminal only the first ones."""
    if table.columns is None:
        return None
    most = COLUMNS_SHOWN if session.is_tty and session.output is Output.TABLE else len(table.columns)
    more = len(table.columns) - most
    columns = ", ".join(f"{name} {type}" for name, type in table.columns[:most])
    return f"{columns}, and {more} more" if more > 0 else columns


def _tables(outcome: ImportResult) -> Iterator[tuple[ImportedTable, str]]:
    """Yield each table with its change, in the words of `diff`."""
    yield from ((table, "created") for table in outcome.created)
    yield from ((table, "altered") for table in outcome.moved_on)


def _left_out(outcome: ImportResult) -> Iterator[Omission]:
    yield from outcome.left_out
    for table, _ in _tables(outcome):
        yield from table.skipped


def _describe_left_out(session: Session, omission: Omission) -> dict[str, Any]:
    command = {} if omission.advice is None else {"command": shlex.join((*session.program, *omission.advice.command))}
    return {"what": masked(omission.part), "why": masked(omission.reason), **command}


def _describe_table(session: Session, table: ImportedTable, change: str) -> dict[str, Any]:
    columns = None if table.columns is None else [{"name": name, "type": type} for name, type in table.columns]
    return {
        "name": str(table.name),
        "source": table.source,
        "files": table.files,
        "rows": table.rows,
        "skipped": [_describe_left_out(session, omission) for omission in table.skipped],
        "change": change,
        "bytes": table.size,
        "columns": columns,
    }


def _describe(session: Session, outcome: ImportResult, version: int) -> dict[str, Any]:
    return {
        "version": version,
        "namespaces": outcome.namespaces,
        "tables": [_describe_table(session, table, change) for table, change in _tables(outcome)],
        "views": outcome.views,
        "problems": [_describe_left_out(session, omission) for omission in outcome.left_out],
        "unchanged": outcome.unchanged,
        "dropped": outcome.dropped,
        "renamed": [{"from": former, "to": name} for former, name in outcome.renamed],
    }


def print_checked(session: Session, result: Checked) -> int:
    """Print the damage of a source. Return the exit code."""
    checked = {"transactions": result.transactions, "checkpoints": result.checkpoints, "files": result.files}
    if session.output is Output.JSON:
        findings = [fsck.describe_finding(finding) for finding in result.findings]
        versions = {"oldest": result.revisions[0], "latest": result.revisions[1]}
        document = {"source_versions": versions, "checked": checked, "findings": findings, "damaged": result.is_damaged}
        render.document(session, document)
    elif session.output is Output.JSONL:
        for finding in result.findings:
            render.line(session, render.json_text(session, fsck.describe_finding(finding)))
    elif result.findings or not session.quiet:
        with session.out(paged=True) as out:
            for finding in result.findings:
                write_finding(session, out, finding)
            words = ", ".join(plural(count, noun.removesuffix("s")) for noun, count in checked.items())
            verdict = "DAMAGED" if result.is_damaged else "SOUND"
            out.write(f"{verdict}  {words}; {plural(len(result.findings), 'finding')}\n")
    return 50 if result.is_damaged else 0


# Printing the content of a DeltaCAT catalog, and its damage.

_FIELDS = ["severity", "code", "path", "message"]


def print_inspected(session: Session, outcome: ImportResult, transactions: Iterable[SourceTransaction]) -> None:
    """Print the log, the newest transaction last, then the tables. Warn of data that an import would leave out."""

    log = [_describe_transaction(entry) for entry in transactions]
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


def _describe_transaction(transaction: SourceTransaction) -> dict[str, Any]:
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


def print_deltacat_checked(session: Session, source: str, checked: dict[str, int], findings: Sequence[Finding]) -> int:
    """Print one finding per line, then the verdict. Return the exit code."""
    damaged = any(finding.is_damage for finding in findings)
    if session.output is Output.JSON:
        rows = [fsck.describe_finding(finding) for finding in findings]
        render.document(session, {"source": source, "checked": checked, "findings": rows, "damaged": damaged})
        return 50 if damaged else 0
    with session.out(paged=True) as out:
        if session.output is Output.JSONL:
            out.writelines(render.json_text(session, fsck.describe_finding(finding)) + "\n" for finding in findings)
        elif session.output is Output.CSV:
            render.csv_rows(session, out, _FIELDS, map(fsck.describe_finding, findings))
        elif findings or not session.quiet:
            for finding in findings:
                out.write(
                    "\t".join(map(visible, (str(finding.severity), finding.code, finding.path, finding.message))) + "\n"
                )
            counts = (
                (sum(finding.severity is severity for finding in findings), str(severity)) for severity in fsck.Severity
            )
            words = ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing found"
            files = ", ".join(
                plural(count, noun.removesuffix("s").replace("_", " ")) for noun, count in checked.items()
            )
            out.write(f"{'DAMAGED' if damaged else 'SOUND'}  {files}; {words}\n")
    return 50 if damaged else 0
