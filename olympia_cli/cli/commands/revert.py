from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.boundary import confirm
from olympia_cli.cli.options import Atomic, DryRun, InTxn, Message, RetryFor, Yes, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.output.log import conflict_line, say_plan
from olympia_cli.cli.session import Changed, Session
from olympia_cli.errors import InvalidOption, RevertConflict
from olympia_cli.ops import inspect

EXAMPLES = [
    "olympia revert v12 --dry-run",
    "olympia revert latest -m 'wrong table'",
    "olympia revert v5..v7 --yes",
    "olympia revert v5 --to latest~1 --dry-run --json",
]


def run(
    ctx: typer.Context,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF",
            help="The version to revert; A..B for all versions from A to B.",
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="REF", help="Revert all versions up to this one."),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    atomic: Atomic = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Undo the changes of a version, and keep later changes.

    This makes one new version that undoes the changes of another one, or of a range including both ends. An object that
    was changed again later is a conflict: all conflicts are named, and nothing is written. A rollback, a repair, an
    expire or an export cannot be reverted; each has a command of its own to undo it.
    """
    from olympia_cli.catalog import distributed
    from olympia_cli.catalog.references import at_version
    from olympia_cli.format.pb.objects_pb2 import CatalogDef
    from olympia_cli.ops.revert import apply_revert, plan_revert

    start, dots, end = reference.partition("..")
    if dots and to is not None:
        raise InvalidOption("A..B and --to do not go together", hint="give one or the other")
    session, seconds = Session(ctx), parse_seconds(retry_for)
    open_transaction = None if txn is None else distributed.load(session.catalog, txn)
    transaction = session.catalog.begin() if open_transaction is None else open_transaction.transaction
    base, staged = transaction.base, len(transaction.actions)
    first = session.resolve(start, base).version
    last = session.resolve(end or "latest" if dots else to or start, base).version
    if first > last:
        raise InvalidOption(f"v{first} came after v{last}", hint="name the older version first")
    try:
        plan = plan_revert(transaction, first, last, lambda version: at_version(version, base))
    except RevertConflict as conflict:
        for description in conflict.conflicts:
            session.say(f"  {conflict_line(description)}")
        raise
    before = CatalogDef()
    before.CopyFrom(transaction.draft.catalog)
    apply_revert(transaction, plan)
    actions = tuple(transaction.actions[staged:])
    say_plan(session, plan.changes, inspect.changed_fields(before, transaction.draft.catalog))
    versions = f"v{first}" if first == last else f"v{first} to v{last}"
    change = Changed(base.version if open_transaction is None else None, txn, actions)
    if not dry_run and open_transaction is not None:
        open_transaction.save()
    elif not dry_run and actions:
        confirm(f"Take back {versions}?", yes)
        committed = session.catalog.commit(transaction, message, retry_for=seconds, atomic=atomic)
        change = Changed(committed.version, None, committed.actions)
    text = f"would take back {versions} in a new version" if dry_run else f"took back {versions}"
    render.changed(session, change, text, reverts={"first": first, "last": last}, dry_run=dry_run)
