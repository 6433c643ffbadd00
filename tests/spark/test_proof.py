"""The proof that a process sees the driver's files: a file that the driver writes. Without Spark."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import traceback

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import ExecutorUnprepared, StorageDenied
from olympia_cli.format.paths import EXPORT_NOTE, FileKind, file_kind
from olympia_cli.names import AtVersion, NamespaceName
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.spark import proof as proofs
from olympia_cli.spark.failures import explain
from olympia_cli.spark.options import parse_options
from olympia_cli.spark.pipelines.place import CatalogPlace
from olympia_cli.spark.proof import Proof, leaving
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.stores import WrappedStore


class ReadOnly(WrappedStore):
    def create(self, path, data):
        raise StorageDenied(f"{self.uri}/{path}: read only")


@pytest.fixture
def another(monkeypatch):
    """This process becomes another one, which has seen nothing yet."""
    return lambda: monkeypatch.setattr(proofs, "_checked_proofs", set())


@pytest.fixture
def notes() -> list[str]:
    return []


def test_the_proof_is_a_temporary_file_while_needed(notes):
    store = Catalog.create(MemoryStore("lake")).store
    before = [file.path for file in store.list(temporary=True)]
    with leaving(store, notes.append) as driver:
        assert [file.path for file in store.list(temporary=True)] == before, "as long as nobody is sent there"
        proof = pickle.loads(pickle.dumps(driver))
        assert pickle.loads(pickle.dumps(driver)) == proof
        [path] = [file.path for file in store.list(temporary=True) if file.path not in before]
        assert path == proof.path
        assert file_kind(path) is FileKind.TEMPORARY
    assert [file.path for file in store.list(temporary=True)] == before
    assert notes == []


def test_executor_that_sees_another_location_is_refused(notes, another):
    store, elsewhere = (Catalog.create(MemoryStore(name)).store for name in ("lake", "elsewhere"))
    with leaving(store, notes.append) as driver:
        proof = driver.proof
        another()
        proof.check(store)
        with pytest.raises(ExecutorUnprepared, match=f"the executor on {socket.gethostname()} does not see") as raised:
            proof.check(elsewhere)
        # a file of that name that is not the one
        elsewhere.create(proof.path, b"x")
        with pytest.raises(ExecutorUnprepared):
            proof.check(elsewhere)
    assert raised.value.exit_code == 2
    # once in each process: what it has seen it need not see again
    proof.check(store)
    assert Proof.parse(str(proof)) == proof


def test_an_existing_root_proves_a_read_only_location(notes, another):
    catalog = Catalog.create(MemoryStore("lake"))
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("a"))
    dest = MemoryStore("dest")
    create_export(Catalog(MemoryStore("lake", dict(catalog.store._files))), dest, "minimal", scope(Mode.MINIMAL))
    for store, path in ((catalog.store, catalog.snapshot().file.path), (dest, dest_root(dest))):
        with leaving(ReadOnly(store), notes.append) as driver:
            proof = driver.proof
            assert proof.path == path
            another()
            proof.check(store)
            with pytest.raises(ExecutorUnprepared):
                proof.check(MemoryStore("empty"))
    assert notes[0].startswith("cannot write a file at memory://lake (memory://lake/.tmp-")
    assert notes[0].endswith(f"read only): executors must see {catalog.snapshot(AtVersion(1)).file.path} instead")


def dest_root(store) -> str:
    return next(file.path for file in store.list("vn/"))


def test_an_export_under_way_has_its_note(notes):
    """The root is written last."""
    store = MemoryStore("dest")
    store.create(EXPORT_NOTE, b"{}")
    with leaving(ReadOnly(store), notes.append) as driver:
        assert driver.proof.path == EXPORT_NOTE


def test_a_missing_location_gets_no_proof_and_no_folder(tmp_path, notes):
    with leaving(LocalStore(str(tmp_path / "nowhere")), notes.append) as driver:
        assert pickle.loads(pickle.dumps(driver)) is None
    assert not (tmp_path / "nowhere").exists()


def test_a_process_of_its_own_looks_before_it_has_the_store(tmp_path):
    """The pickled store contains the proof, and errors return to the driver."""
    catalog = Catalog.create(LocalStore(str(tmp_path / "lake")))
    code = "import pickle, sys; print(len(list(pickle.loads(bytes.fromhex(sys.argv[1])).store.list('vn/'))))"
    with CatalogPlace.at(catalog.store.uri).proven() as place:
        words = [sys.executable, "-c", code, pickle.dumps(place).hex()]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.stdout == f"{len(list(catalog.store.list('vn/')))}\n", done.stderr
        os.rename(tmp_path / "lake", tmp_path / "other")
        (tmp_path / "lake").mkdir()
        blind = subprocess.run(words, capture_output=True, text=True)
        # the driver itself is not asked
        assert place.store.uri == catalog.store.uri
    assert blind.returncode == 1
    error = explain(RuntimeError(blind.stderr))
    assert isinstance(error, ExecutorUnprepared)
    assert error.hint.startswith("mount the same folder")


def test_the_data_source_checks_the_proof_too(tmp_path, another):
    catalog = Catalog.create(LocalStore(str(tmp_path / "lake")))
    with CatalogPlace.at(catalog.store.uri).proven() as place:
        asked = parse_options({"catalog": place.uri, "path": "versions", "proof": str(place.proof.proof)})
        assert asked.proof == place.proof.proof
    another()
    from olympia_cli.spark.pins import store_of

    with pytest.raises(ExecutorUnprepared) as raised:
        store_of(asked)
    assert "olympia: {" in "".join(traceback.format_exception(raised.value)), "as it is carried to the driver"
