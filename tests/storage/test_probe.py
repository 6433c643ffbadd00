"""Trying out what a store allows: each step by itself, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from olympia_cli.errors import ExclusiveCreateUnsupported, StorageDenied
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.probe import READS, WRITES, probe
from tests.helpers.stores import CountingStore, WrappedStore


class Denying(WrappedStore):
    """Denies one kind of request."""

    def __init__(self, store: MemoryStore, what: str) -> None:
        super().__init__(store)
        self._what = what

    def _check(self, what: str) -> None:
        if what == self._what:
            raise StorageDenied(f"{what} is denied")

    def read(self, path: str) -> bytes:
        self._check("read")
        return super().read(path)

    def list(self, prefix: str = "", temporary: bool = False):
        self._check("list")
        return super().list(prefix, temporary)

    def create(self, path: str, data: bytes) -> None:
        self._check("create")
        super().create(path, data)

    def delete_many(self, paths: Iterable[str]) -> None:
        self._check("delete")
        super().delete_many(paths)


class Overwriting(WrappedStore):
    """Takes every creation; `loudly` it says that it did not."""

    def __init__(self, store: MemoryStore, loudly: bool) -> None:
        super().__init__(store)
        self._loudly = loudly

    def create(self, path: str, data: bytes) -> None:
        taken = self.inner.exists(path)
        self.inner.overwrite(path, data)
        if taken and self._loudly:
            self.inner.create(path, b"other")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore("probed")


def test_a_store_that_allows_everything(store):
    probes = probe(store, write=True)
    assert probes.tried == dict.fromkeys((*READS, *WRITES))
    assert probes.stored_at_millis
    assert not list(store.list(temporary=True))


def test_without_writing(store):
    counting = CountingStore(store)
    assert probe(counting, write=False).tried == dict.fromkeys(READS)
    assert not counting.paths("create", "create_many", "overwrite", "write_hint", "delete_many")


@pytest.mark.parametrize("what", ["list", "read", "create", "delete"])
def test_a_probe_reports_exactly_the_denied_operation(store, what):
    probes = probe(Denying(store, what), write=True)
    denied = {name for name, error in probes.tried.items() if isinstance(error, StorageDenied)}
    assert what in denied
    assert denied <= {what, "create exclusively"}, "only what needs it is denied with it"
    left = [file.path for file in store.list(temporary=True)]
    assert left == ([probes.left_behind] if what == "delete" else [])


@pytest.mark.parametrize("loudly", [False, True])
def test_a_store_that_overwrites(store, loudly):
    probes = probe(Overwriting(store, loudly), write=True)
    assert isinstance(probes.tried["create exclusively"], ExclusiveCreateUnsupported)
    assert probes.tried["delete"] is None
    assert not list(store.list(temporary=True))
