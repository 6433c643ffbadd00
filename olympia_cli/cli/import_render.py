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

if TYPE_CHECKING:
    from olympia_cli.importers.iceberg import Imported, LeftOut
    from olympia_cli.importers.iox.checks import Checked

SHOWN = 20
"""So many names of one sort are shown; JSON has all of them."""


def print_imported(
    session: Session,
    done: Imported,
    version: int,
    dry_run: bool,
    noun: str = "table",
    hint: str = "see the reasons: run again, it brings what they do not hold for any more",
    **more: Any,
) -> None:
    """Print it, and raise PartlyDone when something was left out. In JSON there is `more` to say."""
    from olympia_cli.errors import PartlyDone

    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {**_describe(session, done, version), **more, "dry_run": dry_run})
    elif not session.quiet:
        words = [f"{plural(len(done.created), 'table')} registered"]
        for count, text in (
            (len(done.moved_on), "moved on"),
            (done.unchanged, "as before"),
            (done.dropped, "dropped"),
        ):
            if count:
                words.append(f"{count} {text}")
        if done.views:
            words.insert(1, plural(done.views, "view"))
        would = "  nothing was done" if dry_run else ""
        render.line(session, f"v{version}  {', '.join(words)}{would}")
    for former, name in done.renamed[:SHOWN]:
        session.say(f"renamed {former} to {name}")
    skipped = [
        (f"of {table.name} {one.what}", one.why) for table in (*done.created, *done.moved_on) for one in table.skipped
    ]
    left_out = [*((one.what, one.why) for one in done.left_out), *skipped]
    for what, why in left_out[:SHOWN]:
        session.say(f"warning: left out {what}: {why}")
    if left_out:
        remedy = next((one.remedy for one in _left_out(done) if one.remedy is not None), None)
        said = (hint, ()) if remedy is None else (remedy.hint, remedy.command)
        raise PartlyDone(f"{plural(len(left_out), noun)} left out", hint=said[0], command=said[1])


def _left_out(done: Imported) -> Iterator[LeftOut]:
    yield from done.left_out
    for table in (*done.created, *done.moved_on):
        yield from table.skipped


def _describe_left_out(session: Session, one: LeftOut) -> dict[str, Any]:
    command = {} if one.remedy is None else {"command": shlex.join((*session.program, *one.remedy.command))}
    return {"what": one.what, "why": one.why, **command}


def _describe(session: Session, done: Imported, version: int) -> dict[str, Any]:
    tables: list[dict[str, Any]] = [
        {
            "name": str(one.name),
            "source": one.source,
            "files": one.files,
            "rows": one.rows,
            "skipped": [_describe_left_out(session, left) for left in one.skipped],
        }
        for one in (*done.created, *done.moved_on)
    ]
    return {
        "version": version,
        "namespaces": done.namespaces,
        "tables": tables,
        "views": done.views,
        "problems": [_describe_left_out(session, one) for one in done.left_out],
        "unchanged": done.unchanged,
        "dropped": done.dropped,
        "renamed": [{"from": former, "to": name} for former, name in done.renamed],
    }


def print_checked(session: Session, found: Checked) -> int:
    """Print what is wrong with a source; the exit code."""
    from olympia_cli.ops.fsck.findings import describe_finding

    checked = {"transactions": found.transactions, "checkpoints": found.checkpoints, "files": found.files}
    if session.output is Output.JSON:
        findings = [describe_finding(one) for one in found.findings]
        versions = {"oldest": found.revisions[0], "latest": found.revisions[1]}
        document = {"source_versions": versions, "checked": checked, "findings": findings, "damaged": found.is_damaged}
        render.document(session, document)
    elif session.output is Output.JSONL:
        for one in found.findings:
            render.line(session, render.json_text(session, describe_finding(one)))
    else:
        with session.out(paged=True) as out:
            for one in found.findings:
                write_finding(session, out, one)
            words = ", ".join(plural(count, noun.removesuffix("s")) for noun, count in checked.items())
            verdict = "DAMAGED" if found.is_damaged else "SOUND"
            out.write(f"{verdict}  {words}; {plural(len(found.findings), 'finding')}\n")
    return 50 if found.is_damaged else 0
