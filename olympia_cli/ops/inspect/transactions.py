"""Distributed transactions as plain values, for lists and for single ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.distributed import Saved, State, UnreadableSave
from olympia_cli.catalog.java_transactions import JavaSaved, find_saved_by_java, saved_by_java
from olympia_cli.catalog.references import at_version
from olympia_cli.errors import Damaged, PathOutside, TransactionExpired
from olympia_cli.format.actions import Action, changes
from olympia_cli.names import time_text
from olympia_cli.ops.inspect.actions import describe_actions
from olympia_cli.ops.inspect.changes import told_changes
from olympia_cli.ops.inspect.describe import isolation_word


def list_transactions(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """Yield every transaction that has saves. Ended ones are included until an expire removes their saves."""
    for saved in saved_transactions(catalog, catalog.snapshot().file.java):
        yield describe_saved(saved, catalog)


def saved_transactions(catalog: Catalog, java: bool) -> Iterator[Saved | UnreadableSave]:
    """Yield the transactions of a catalog. The Java SDK stores its own in another format."""
    return saved_by_java(catalog.store) if java else distributed.saved_transactions(catalog.store)


def show_transaction(catalog: Catalog, id: str) -> dict[str, Any]:
    """Describe a transaction with its staged actions."""
    latest = catalog.snapshot()
    saved = find_saved_by_java(catalog.store, id) if latest.file.java else distributed.find(catalog.store, id)
    actions: Iterable[Action] = ()
    if saved.state(catalog.clock) is State.OPEN and isinstance(saved, JavaSaved):
        actions = told_changes(at_version(saved.began_at_version, latest), saved.staged(catalog.store))
    elif saved.state(catalog.clock) is State.OPEN:
        actions = distributed.load(catalog, id).transaction.actions
    return {**describe_saved(saved, catalog), "actions": describe_actions(actions)}


def count_staged(catalog: Catalog, id: str) -> int | None:
    """Return the number of staged actions, or None if the transaction cannot be loaded."""
    try:
        return len(changes(distributed.load(catalog, id).transaction.actions))
    except (Damaged, PathOutside, TransactionExpired):
        return None


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
