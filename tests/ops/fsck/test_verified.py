"""fsck that is out of time, and what it remembers of earlier runs."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format import definitions
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import parse_table
from olympia_cli.ops.fsck import Verified
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.big_catalog import make_big_catalog
from tests.helpers.clock import FakeClock
from tests.helpers.damage import rewrite_node, with_child
from tests.helpers.fsck import READS, everything, make, nodes_of
from tests.helpers.stores import CountingStore


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore("fsck")
    make(store)
    return store


def test_fsck_out_of_time_is_incomplete_without_damage(store):
    class Slow(FakeClock):
        def elapsed_millis(self) -> int:
            self.advance(50)
            return super().elapsed_millis()

    whole = everything(store)
    for limit in (0.0, 0.1, 0.2, 0.4, 0.8):
        report = everything(store, clock=Slow(), max_duration=limit)
        assert not report.damaged
        assert report.checked["bytes"] <= whole.checked["bytes"]
    report = everything(store, clock=Slow(), max_duration=0.0)
    assert (report.complete, report.last_sound_version) == (False, None)


def test_verified_definitions_are_not_read_again(store, tmp_path):
    now = 1_700_000_000_000
    first = everything(store, verified=Verified(tmp_path, now))
    assert first.checked["skipped"] == 0
    [file] = tmp_path.rglob("fsck-verified")
    counting = CountingStore(store)
    second = everything(counting, verified=Verified(tmp_path, now + 1000))
    assert second.findings == ()
    assert second.checked["skipped"] == first.checked["definitions"] - 1  # the catalog's own is always read
    assert not [path for path in counting.paths(*READS) if path.startswith(("def/table", "def/ns"))]
    third = everything(store, verified=Verified(tmp_path, now + 3_600_000, max_age_millis=1000))
    assert third.checked["skipped"] == 0
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert everything(store, verified=Verified(tmp_path, now)).checked["skipped"] == 0


def test_a_verified_definition_that_disappears_is_missing(store, tmp_path):
    everything(store, verified=Verified(tmp_path, 1000))
    path = Catalog(store).snapshot().find(parse_table("a.t020"))
    assert path is not None
    store.delete_many([path])
    [found] = everything(store, verified=Verified(tmp_path, 1000)).findings
    assert (found.code, found.path, [str(one) for one in found.objects]) == ("F301", path, ["a.t020"])


def test_a_verified_definition_named_as_node_needs_no_request(store, tmp_path):
    path = Catalog(store).snapshot().find(parse_table("a.t020"))
    assert path is not None
    rewrite_node(store, nodes_of(store, Catalog(store).snapshot().version)[0], with_child(0, path))
    first = everything(store, verified=Verified(tmp_path, 1000))
    counting = CountingStore(store)
    assert everything(counting, verified=Verified(tmp_path, 1000)).findings == first.findings
    assert path not in counting.paths("exists")


def test_duplicate_ids_of_verified_definitions_are_found(store, tmp_path):
    everything(store, verified=Verified(tmp_path, 1000))
    snapshot = Catalog(store).snapshot()
    one, other = (snapshot.find(parse_table(name)) for name in ("a.t001", "a.t002"))
    assert one is not None
    assert other is not None
    twin = TableDef.FromString(store.read(one))
    twin.ClearField("integrity")
    store.overwrite(other, definitions.encode(definitions.body(twin), other))
    assert not everything(store, verified=Verified(tmp_path, 1000)).damaged, "the state says that it is whole"
    [found] = [one for one in everything(store).findings if one.code == "F305"]
    assert [str(name) for name in found.objects] == ["a.t001", "a.t002"]
    assert twin.id in found.message


def test_a_copy_of_the_catalog_is_not_taken_for_it(store, tmp_path):
    everything(store, verified=Verified(tmp_path, 1000))
    copy = MemoryStore("copy")
    copy.create_many({file.path: store.read(file.path) for file in store.list()})
    assert everything(copy, verified=Verified(tmp_path, 1000)).checked["skipped"] == 0


def test_an_id_of_a_catalog_does_not_lead_out_of_the_folder(tmp_path):
    state = Verified(tmp_path / "state", 1000)
    state.open("../../../etc", "memory://x")
    state.add("def/table/x", b"12345678")
    state.save()
    [file] = tmp_path.rglob("fsck-verified")
    assert file.parent.parent == tmp_path / "state" / "olympia"


def test_fsck_out_of_time_continues_in_the_next_run(tmp_path):
    store = MemoryStore("many")
    make_big_catalog(store, 3, 700, own=True)
    total = everything(store).checked["definitions"]

    class Ticking(FakeClock):
        def elapsed_millis(self) -> int:
            self.advance(100)
            return super().elapsed_millis()

    skipped, runs = 0, 0
    while True:
        report = everything(store, clock=Ticking(), max_duration=1.0 + runs, verified=Verified(tmp_path, 1000))
        assert report.checked["skipped"] >= skipped
        assert not report.damaged
        skipped, runs = report.checked["skipped"], runs + 1
        if report.complete:
            break
    assert runs > 1
    assert report.checked["skipped"] + report.checked["definitions"] == total
