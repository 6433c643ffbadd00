from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.options import DryRun, Message, RetryFor, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.names import plural
from olympia_cli.ops import inspect

EXAMPLES = ["olympia compact", "olympia compact --fill 80 --dry-run"]


def run(
    ctx: typer.Context,
    fill: Annotated[
        int, typer.Option(metavar="PERCENT", help="Fill factor of the nodes; the rest is room for later objects.")
    ] = 90,
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Rewrite the tree to a fill factor.

    The content stays the same. If no node would change, no version is made. Other writers are never blocked: if one of
    them commits first, the tree is rewritten again from that version.
    """
    from olympia_cli.format.actions import Action
    from olympia_cli.format.pb.actions_pb2 import ActionType, CompactDef
    from olympia_cli.ops import walk

    if not 1 <= fill <= 100:
        raise InvalidOption(f"--fill {fill} is not a percentage", hint="give a number from 1 to 100")
    session = Session(ctx)
    transaction = session.catalog.begin()
    before = transaction.base
    nodes_before = walk.count_nodes(before.reader, before.root.node)
    payload = CompactDef(fill_percent=fill).SerializeToString()
    transaction.do(Action(ActionType.CATALOG_COMPACT, None, b"", payload))
    nodes_after = walk.count_nodes(before.reader, transaction.draft.node)
    unchanged = transaction.changes_nothing
    version, actions = before.version, () if unchanged else tuple(transaction.actions)
    if not dry_run:
        commit = session.catalog.commit(transaction, message, retry_for=parse_seconds(retry_for))
        version, actions = commit.version, commit.actions
    value = {
        "version": version,
        "actions": inspect.describe_actions(actions),
        "dry_run": dry_run,
        "nodes_before": nodes_before,
        "nodes_after": nodes_after,
    }
    did = "would compact" if dry_run else "compacted"
    text = "nothing to do" if unchanged else f"{did} {plural(nodes_before, 'node')} to {nodes_after:,}"
    render.outcome(session, value, f"v{version}  {text}")
