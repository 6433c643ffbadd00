"""Another writer, who is there at the worst moment: just before a command creates its root."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.format.paths import parse_root_path
from olympia_cli.storage import open as storage
from olympia_cli.storage.protocol import Store
from tests.helpers.stores import WrappedStore

Statement = Callable[[Transaction], None]


class RacedStore(WrappedStore):
    """Lets others commit before each of the first roots that go through it, one statement a root."""

    def __init__(self, store: Store, others: list[Statement]) -> None:
        super().__init__(store)
        self.others = others

    def create(self, path: str, data: bytes) -> None:
        if parse_root_path(path) is not None and self.others:
            statement = self.others.pop(0)
            with Catalog(self.inner).transaction("the other writer") as transaction:
                statement(transaction)
        super().create(path, data)


def race(patch: pytest.MonkeyPatch, *others: Statement) -> None:
    """From now on commands of this process have company."""
    waiting = list(others)
    wrap_store(patch, lambda store: RacedStore(store, waiting))


def wrap_store(patch: pytest.MonkeyPatch, wrap: Callable[[Store], Store]) -> None:
    """From now on commands of this process work on a wrapped store."""

    opened = storage._opened
    patch.setattr(storage, "_opened", lambda uri, options: wrap(opened(uri, options)))
