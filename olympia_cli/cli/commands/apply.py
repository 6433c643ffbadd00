from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.boundary import lines_of
from olympia_cli.cli.options import Atomic, DryRun, Message, RetryFor, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Changed, Session
from olympia_cli.errors import InvalidOption
from olympia_cli.names import plural

EXAMPLES = [
    "olympia apply changes.jsonl -m 'adopt the warehouse'",
    'echo \'{"do": "table drop", "name": "a.t"}\' | olympia apply -',
    "olympia apply million.jsonl --commit-every 5000",
]


def run(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with JSON lines; - for standard input.")],
    commit_every: Annotated[
        int | None,
        typer.Option(metavar="N", help="Commit every N lines. After an interruption, the same command continues."),
    ] = None,
    atomic: Atomic = False,
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Make many changes as one transaction, from JSON lines.

    Each line is a JSON object: "do" has the words of a command, and the other keys are its options. All lines are
    committed, or none. An error names the number of the line.

    \b
      {"do": "ns create", "name": "a", "properties": {"owner": "ann"}}
      {"do": "table register", "name": "a.t", "metadata_location": "s3://…"}
      {"do": "table rename", "name": "a.t", "to": "a.u"}
      {"do": "table drop", "namespace": "a.b", "name": "t", "if_exists": true}
    """
    from olympia_cli.ops.apply import apply_all, apply_in_steps, digest_of, parse_lines

    if commit_every is not None and (commit_every < 1 or atomic or dry_run):
        raise InvalidOption("--commit-every needs a number above 0, and excludes --atomic and --dry-run", hint="")
    session, seconds = Session(ctx), parse_seconds(retry_for)
    author = session.author(message)
    with lines_of(file) as lines:
        if commit_every is None:
            commit = apply_all(
                session.catalog, parse_lines(lines), author, retry_for=seconds, atomic=atomic, dry_run=dry_run
            )
            count = len([action for action in commit.actions if action.type_name != "COMMIT_INFO"])
            text = f"{'would make' if dry_run else 'made'} {plural(count, 'change')}"
            render.changed(session, Changed(commit.version, None, commit.actions), text)
            return
        input = digest_of(lines)
        lines.seek(0)
        # find a bad line before the first commit
        for _ in parse_lines(lines):
            pass
        lines.seek(0)
        version, total, skipped = session.snapshot().version, 0, 0
        try:
            for step in apply_in_steps(session.catalog, parse_lines(lines), input, commit_every, author, seconds):
                version, total = step.version, total + step.lines
                skipped += step.lines if step.done_before else 0
                session.say(f"v{step.version}  {plural(total, 'line')}{' (done before)' if step.done_before else ''}")
        except KeyboardInterrupt:
            session.say(f"{plural(total, 'line')} committed; run the same command again, with the same N, to continue")
            raise
    value = {"version": version, "actions": [], "lines": total, "done_before": skipped}
    render.outcome(session, value, f"v{version}  applied {plural(total, 'line')}")
