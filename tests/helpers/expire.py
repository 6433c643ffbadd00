"""The commits of an expire, without its changes of files."""

from __future__ import annotations

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import expired_before
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType, ExpireDef, ExportDef


def mark(catalog: Catalog, oldest: int) -> int:
    """From now on this is the oldest version that counts. The version that says so."""
    former = expired_before(catalog.snapshot().definition)
    return _commit(catalog, ActionType.CATALOG_EXPIRE_MARK, ExpireDef(oldest=oldest, former_oldest=former))


def undo(catalog: Catalog, oldest: int) -> int:
    return _commit(catalog, ActionType.CATALOG_EXPIRE_UNDO, ExpireDef(oldest=oldest))


def purge(catalog: Catalog, oldest: int) -> int:
    return _commit(catalog, ActionType.CATALOG_EXPIRE_PURGE, ExpireDef(oldest=oldest, purged=oldest))


def record_export(transaction: Transaction, name: str, version: int) -> None:
    payload = ExportDef(name=name, location=f"file:///exports/{name}", mode="full", version=version)
    transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString()))


def _commit(catalog: Catalog, type: ActionType, payload: ExpireDef) -> int:
    transaction = catalog.begin()
    transaction.do(Action(type, None, b"", payload.SerializeToString()))
    return catalog.commit(transaction).version
