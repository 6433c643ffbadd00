"""Distributed transactions as values: for lists, and for a look inside one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.distributed import Saved, State, UnreadableSave
from olympia_cli.errors import Damaged, PathOutside, TransactionExpired
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.names import time_text
from olympia_cli.ops.look.describe import describe_action, isolation_word


def list_transactions(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """Every transaction that has saves, ended ones included until an expire removes them."""
    for saved in distributed.saved_transactions(catalog.store):
        yield describe_saved(saved, catalog)


def show_transaction(catalog: Catalog, id: str) -> dict[str, Any]:
    """A transaction with what it has staged."""
    saved = distributed.find(catalog.store, id)
    shown = describe_saved(saved, catalog)
    actions: list[dict[str, Any]] = []
    if saved.state(catalog.clock) is State.OPEN:
        actions = [describe_action(action) for action in _staged(catalog, id)]
    return {**shown, "actions": actions}


def count_staged(catalog: Catalog, id: str) -> int | None:
    """How many actions a transaction has staged; None when that cannot be loaded any more."""
    try:
        return len(_staged(catalog, id))
    except (Damaged, PathOutside, TransactionExpired):
        return None


def _staged(catalog: Catalog, id: str) -> list[Action]:
    actions = distributed.load(catalog, id).transaction.actions
    return [action for action in actions if action.type != ActionType.COMMIT_INFO]


def describe_saved(saved: Saved | UnreadableSave, catalog: Catalog) -> dict[str, Any]:
    if isinstance(saved, UnreadableSave):
        unknown = dict.fromkeys(("isolation", "began_at", "expires_at", "version", "committed_version"))
        return {"id": saved.id, "state": State.UNREADABLE.value, "saves": saved.save + 1, **unknown}
    definition = saved.definition
    return {
        "id": saved.id,
        "state": saved.state(catalog.clock).value,
        "isolation": isolation_word(definition.isolation_level),
        "began_at": time_text(definition.began_at_millis),
        "expires_at": time_text(definition.expire_at_millis),
        "version": saved.began_at_version,
        "saves": saved.save + 1,
        "committed_version": saved.committed_version,
    }
