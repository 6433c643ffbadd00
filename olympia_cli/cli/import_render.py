"""Printing what an import did, whatever it was from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import plural
from olympia_cli.cli.fsck_render import write_finding
from olympia_cli.cli.params import Output
from olympia_cli.masking import masked

if TYPE_CHECKING:
    from olympia_cli.importers.iceberg import Imported, LeftOut
    from olympia_cli.importers.iox.checks import Checked

SHOWN = 20
"""So many names of one sort are shown; JSON has all of them."""


def print_imported(
    session: Session,
    outcome: Imported,
    version: int,
    dry_run: bool,
    noun: str = "table",
    hint: str = "see the reasons: run again, it brings what they do not hold for any more",
    **more: Any,
) -> None:
    """Print it, and raise PartlyDone when something was left out. In JSON there is `more` to say."""
    from olympia_cli.errors import PartlyDone

    words = [f"{plural(len(outcome.created), 'table')} registered"]
    for count, text in (
        (len(outcome.moved_on), "moved on"),
        (outcome.unchanged, "as before"),
        (outcome.dropped, "dropped"),
    ):
        if count:
            words.append(f"{count} {text}")
    if outcome.views:
        words.insert(1, plural(outcome.views, "view"))
    would = "  nothing was done" if dry_run else ""
    value = {**_describe(session, outcome, version), **more, "dry_run": dry_run}
    render.outcome(session, value, f"v{version}  {', '.join(words)}{would}")
    for former, name in outcome.renamed[:SHOWN]:
        session.say(f"renamed {former} to {name}")
    skipped = [
        (f"of {table.name} {omission.what}", omission.why)
        for table in (*outcome.created, *outcome.moved_on)
        for omission in table.skipped
    ]
    left_out = [*((omission.what, omission.why) for omission in outcome.left_out), *skipped]
    for what, why in left_out[:SHOWN]:
        session.say(f"warning: left out {what}: {why}")
    if left_out:
        remedy = next((omission.remedy for omission in _left_out(outcome) if omission.remedy is not None), None)
        said = (hint, ()) if remedy is None else (remedy.hint, remedy.command)
        raise PartlyDone(f"{plural(len(left_out), noun)} left out", hint=said[0], command=said[1])


def _left_out(outcome: Imported) -> Iterator[LeftOut]:
    yield from outcome.left_out
    for table in (*outcome.created, *outcome.moved_on):
        yield from table.skipped


def _describe_left_out(session: Session, omission: LeftOut) -> dict[str, Any]:
    command = {} if omission.remedy is None else {"command": shlex.join((*session.program, *omission.remedy.command))}
    return {"what": masked(omission.what), "why": masked(omission.why), **command}


def _describe(session: Session, outcome: Imported, version: int) -> dict[str, Any]:
    tables: list[dict[str, Any]] = [
        {
            "name": str(table.name),
            "source": table.source,
            "files": table.files,
            "rows": table.rows,
            "skipped": [_describe_left_out(session, omission) for omission in table.skipped],
        }
        for table in (*outcome.created, *outcome.moved_on)
    ]
    return {
        "version": version,
        "namespaces": outcome.namespaces,
        "tables": tables,
        "views": outcome.views,
        "problems": [_describe_left_out(session, omission) for omission in outcome.left_out],
        "unchanged": outcome.unchanged,
        "dropped": outcome.dropped,
        "renamed": [{"from": former, "to": name} for former, name in outcome.renamed],
    }


def print_checked(session: Session, result: Checked) -> int:
    """Print what is wrong with a source; the exit code."""
    from olympia_cli.ops.fsck.findings import describe_finding

    checked = {"transactions": result.transactions, "checkpoints": result.checkpoints, "files": result.files}
    if session.output is Output.JSON:
        findings = [describe_finding(finding) for finding in result.findings]
        versions = {"oldest": result.revisions[0], "latest": result.revisions[1]}
        document = {"source_versions": versions, "checked": checked, "findings": findings, "damaged": result.is_damaged}
        render.document(session, document)
    elif session.output is Output.JSONL:
        for finding in result.findings:
            render.line(session, render.json_text(session, describe_finding(finding)))
    elif result.findings or not session.quiet:
        with session.out(paged=True) as out:
            for finding in result.findings:
                write_finding(session, out, finding)
            words = ", ".join(plural(count, noun.removesuffix("s")) for noun, count in checked.items())
            verdict = "DAMAGED" if result.is_damaged else "SOUND"
            out.write(f"{verdict}  {words}; {plural(len(result.findings), 'finding')}\n")
    return 50 if result.is_damaged else 0
