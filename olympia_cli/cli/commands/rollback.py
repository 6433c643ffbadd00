from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.boundary import confirm, confirm_unknown
from olympia_cli.cli.options import DryRun, Message, RetryFor, Yes, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.output.log import say_plan
from olympia_cli.cli.session import Session
from olympia_cli.errors import Damaged
from olympia_cli.names import parse_reference, plural
from olympia_cli.ops import inspect

EXAMPLES = ["olympia rollback v12 --dry-run", "olympia rollback 2h -m 'bad load'", "olympia rollback latest~1 --yes"]


def run(
    ctx: typer.Context,
    reference: Annotated[str, typer.Argument(metavar="REF", help="The version to return to.")],
    yes: Yes = False,
    even_if_unknown: Annotated[
        bool, typer.Option("--even-if-unknown", help="Roll back even if the changes cannot be computed.")
    ] = False,
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Return the catalog to an older version.

    This makes a new version with the content of the older one: nothing is lost, and the rollback can be rolled back.
    The restored content is read first; if some of it is missing or damaged, nothing is written.

    If the latest version is damaged, the changes of a rollback may be unknown. Then --yes is not enough. `fsck --repair
    --prefer rollback` rolls back too, and names the losses.
    """
    from olympia_cli.catalog.retained import keep_protection

    session, seconds = Session(ctx), parse_seconds(retry_for)
    transaction = session.catalog.begin()
    current = transaction.base
    target = session.catalog.snapshot(parse_reference(reference))
    transaction.roll_back(target.version)
    changes, unknown = 0, ""
    try:
        after = keep_protection(target.definition, current.definition)
        changes = say_plan(session, inspect.diff(current, target), inspect.changed_fields(current.definition, after))
    except Damaged as damaged:
        unknown = damaged.message
        session.say(f"  the changes cannot be shown: {unknown}")
    summary = "unknown changes" if unknown else plural(changes, "change")
    session.say(f"v{current.version} → content of v{target.version}: {summary}")
    version = current.version
    if dry_run:
        words = f"rollback v{target.version}{' --even-if-unknown' if unknown else ''}"
        session.say(f"to do it: {session.command(words)}")
    elif unknown and not even_if_unknown:
        risk = f"the losses of a rollback to v{target.version} are unknown"
        command = ("fsck", "--repair", "--prefer", "rollback", "--dry-run")
        confirm_unknown(risk, session.location.uri, "add --even-if-unknown, or see the losses", command)
    else:
        confirm(f"Roll back to v{target.version}?", yes)
    if not dry_run:
        version = session.catalog.commit(transaction, message, retry_for=seconds).version
    value = {"version": version, "rolled_back_from": current.version, "rolled_back_to": target.version}
    did = "would roll back" if dry_run else "rolled back"
    text = f"v{version}  {did} from v{current.version} to v{target.version}"
    render.outcome(session, {**value, "dry_run": dry_run, "changes": None if unknown else changes}, text)
