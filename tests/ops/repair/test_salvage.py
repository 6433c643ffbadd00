"""A new catalog from whatever is left of a damaged one: what is in it, and what the report says is not."""

from __future__ import annotations

from typing import Any

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.errors import CatalogNotFound, InvalidLocation, LocationNotEmpty, StorageFailed
from olympia_cli.format.paths import root_path
from olympia_cli.names import ObjectName, TableName
from olympia_cli.ops.inspect import log_between
from olympia_cli.ops.repair.plan import SalvageReport, describe_salvage
from olympia_cli.ops.repair.repair import plan_repair
from olympia_cli.ops.repair.salvage import salvage_catalog
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.helpers import damage
from tests.helpers.check import check_catalog, check_versions, plain, replay
from tests.helpers.clock import HOUR, START, FakeClock
from tests.helpers.damage_sample import Sample, make_sample
from tests.helpers.names import location, ns, table, view
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut, WrappedStore

pytestmark = pytest.mark.usefixtures("decoded_once")

Objects = dict[ObjectName, dict[str, Any]]
AUTHOR = Author(by="mender@test")
CLOCK = FakeClock(START + 100 * HOUR)


@pytest.fixture(scope="module")
def sample() -> Sample:
    return make_sample()


@pytest.fixture(params=["memory", "local"])
def dest(request, tmp_path) -> Store:
    return MemoryStore("dest") if request.param == "memory" else LocalStore(tmp_path / "dest", durable=False)


def files_of(store: Store) -> dict[str, bytes]:
    return {file.path: store.read(file.path) for file in store.list()}


def contents(store: Store) -> Objects:
    found = check_catalog(store)
    return {name: plain(definition) for name, definition in found[max(found)].items()}


def held(sample: Sample, version: int | None = None) -> Objects:
    """Return the content of a version of the sound sample."""
    copy = MemoryStore()
    newest = sample.latest if version is None else version
    copy.create_many(
        {
            path: data
            for path, data in sample.files.items()
            if not path.startswith("dtxn/") and path not in {root_path(one) for one in range(newest + 1, 20)}
        }
    )
    return contents(copy)


def save(store: Store, dest: Store) -> SalvageReport:
    """Salvage, and see that the source was only read and that the result is a sound catalog of its own."""
    before = files_of(store)
    report = salvage_catalog(store, dest, CLOCK, AUTHOR)
    assert files_of(store) == before
    assert report.objects == len(contents(dest)) == sum(report.origins.values()) + _made_anew(report)
    assert plan_repair(dest).nothing_to_do
    describe_salvage(report)
    return report


def _made_anew(report: SalvageReport) -> int:
    """Namespaces that came with leftovers; those of versions are counted with their objects."""
    return sum(
        "created again, for the tables or views in it" in note and "without" not in note for note in report.notes
    )


def test_a_sound_catalog_comes_out_as_it_is(sample, dest):
    report = save(sample.store(), dest)
    assert contents(dest) == held(sample)
    assert report.complete
    assert (report.lost, report.unreadable, report.doubtful) == ((), (), ())
    assert report.from_version == sample.latest
    [version] = check_versions(dest)
    source = Catalog(sample.store()).snapshot().definition
    assert (version.catalog.id, version.catalog.order) == (source.id, source.order)
    assert dict(version.catalog.properties) == {"team": "data"}, "what is about the old versions and exports is gone"
    assert "exports that are no longer recorded: friday" in report.notes


@pytest.mark.parametrize("how", damage.FILE_DAMAGE)
def test_any_single_file_can_go(sample, how):
    before = held(sample)
    for path in sorted(sample.tree().files - {root_path(sample.latest)}):
        store = sample.store()
        damage.spoil(store, path, how)
        dest = MemoryStore()
        report = save(store, dest)
        assert contents(dest) == before, (how, path)
        assert report.complete, (how, path)
        if how != "truncated" or not path.startswith("def/"):
            # a definition that is cut where a field ends can be read, and the log tells that it is not what it was
            assert path in dict(report.unreadable), (how, path)


@pytest.mark.parametrize("missing", [[11], [3, 4], [0, 1, 2, 3], [5, 7, 9]])
def test_a_gap_in_the_versions(sample, dest, missing):
    store = sample.store()
    store.delete_many([root_path(version) for version in missing])
    report = save(store, dest)
    assert contents(dest) == held(sample), "the highest version is whole"
    assert report.missing_versions == tuple(version for version in missing if missing[0] > 0)


def test_a_root_that_rested_in_quarantine_is_not_missing(dest):
    expired = make_sample(expired=True)
    store = expired.store()
    store.delete_many([root_path(2)])
    assert save(store, dest).complete


def test_a_root_at_the_end_of_all_versions(sample, dest):
    """Thousands of millions of versions are missing before it: some are named, and none is looked for."""
    store = sample.store()
    store.create(root_path(2**32 - 1), store.read(root_path(sample.latest)))
    damage.rewrite_raw(store, root_path(2**32 - 1), lambda raw: raw.set("previous_root", root_path(2**32 - 2)))
    damage.spoil(store, sample.tree().leaves[0], "empty")
    report = save(store, dest)
    assert report.missing_versions == tuple(range(13, 1013))
    assert "4,294,967,282 versions are missing between others, and 1,000 of them are named" in report.notes


def lose_nodes(store: Store, sample: Sample, known: int) -> None:
    """The nodes of later versions are gone, too; their definitions are there, and younger than anything else."""
    old = sample.tree(known).files
    later = {path for version in range(known + 1, sample.latest + 1) for path in sample.tree(version).files}
    store.delete_many(sorted(path for path in later - old if path.startswith("node/")))
    for path in sorted(later - old):
        if path.startswith("def/"):
            data = store.read(path)
            store.delete_many([path])
            store.create(path, data)


def test_a_salvage_restores_commits_with_lost_roots(sample, dest):
    """Version 11 made a table and a view, version 12 altered a namespace."""
    store = sample.store()
    store.delete_many([root_path(11), root_path(12)])
    report = save(store, dest)
    assert (report.missing_versions, report.from_version, report.complete) == ((), 10, True)
    assert contents(dest) == held(sample)


def test_objects_of_a_lost_commit_show_in_the_definitions_that_it_left(sample):
    clock = FakeClock(START + 50 * HOUR)
    store = MemoryStore("source", {path: (data, START) for path, data in sample.files.items()}, clock.now_millis)
    store.delete_many([root_path(11), root_path(12)])
    lose_nodes(store, sample, 10)
    dest = MemoryStore("dest")
    report = save(store, dest)
    assert report.missing_versions == (11, 12)
    after, doubtful = contents(dest), dict(report.doubtful)
    assert after == held(sample)
    assert {table("d.second"), view("d.v"), ns("a")} == doubtful.keys()
    assert "only its definition" in doubtful[table("d.second")]
    assert not report.complete


@pytest.mark.parametrize("how", ["zeros", "empty"])
def test_the_last_two_roots_cannot_be_read(sample, dest, how):
    store = sample.store()
    for version in (11, 12):
        damage.spoil(store, root_path(version), how)
    report = save(store, dest)
    assert contents(dest) == held(sample)
    assert report.complete
    assert {path for path, _ in report.unreadable} >= {root_path(11), root_path(12)}


def test_without_any_root(sample, dest):
    store = sample.store()
    store.delete_many([file.path for file in store.list("vn/")])
    report = save(store, dest)
    after = contents(dest)
    assert report.from_version is None
    assert report.origins["nodes"] > 20
    live = {name for name in held(sample) if name.namespace != "e"}
    assert live <= after.keys()
    assert dict(report.doubtful).keys() >= live


def test_with_nothing_but_definitions(sample, dest):
    store = sample.store()
    store.delete_many([file.path for folder in ("vn/", "node/", "dtxn/") for file in store.list(folder)])
    report = save(store, dest)
    after = contents(dest)
    assert report.origins["versions"] == report.origins["nodes"] == 0
    found = {str(name) for name in after if isinstance(name, TableName)}
    assert "a.t00" in found
    assert "c.moved" not in found, "a definition keeps the name that it was first written under"
    by_location = {plain_["iceberg_metadata_location"] for name, plain_ in after.items() if name.kind.word == "table"}
    assert {location(number) for number in range(12)} <= by_location
    assert all("not known for sure" in reason for _, reason in report.doubtful)


def test_without_any_catalog_definition_the_sizes_are_the_roots(sample, dest):
    store = sample.store()
    store.delete_many([file.path for file in store.list("def/catalog/")])
    for version in sample.versions:
        damage.rewrite_raw(store, root_path(version), lambda raw: setattr(raw, "actions", []))
    report = save(store, dest)
    assert contents(dest) == held(sample)
    assert any("catalog definition is lost" in note for note in report.notes)
    [version] = check_versions(dest)
    assert (version.catalog.order, version.catalog.table_name_max_size_bytes) == (4, 16)


def test_a_salvage_names_objects_lost_for_good(dest):
    sample = make_sample(expired=True)
    store = sample.store()
    path, _ = sample.tree().entries[sample.keys.encode(table("a.t00"))]
    store.delete_many([path])
    # the roots in quarantine still have it in their log
    assert save(store, MemoryStore()).complete
    store.delete_many([root_path(version) for version in range(6)])
    report = save(store, dest)
    assert report.lost == (table("a.t00"),)
    assert not report.complete
    assert held(sample).keys() - contents(dest).keys() == {table("a.t00")}


@pytest.mark.parametrize("there", ["note.txt", "vn/latest", root_path(0), "ops/last-fsck.json", "x/y"])
def test_only_into_an_empty_place(sample, dest, there):
    dest.create(there, b"something")
    with pytest.raises(LocationNotEmpty):
        salvage_catalog(sample.store(), dest, CLOCK, AUTHOR)
    assert files_of(dest) == {there: b"something"}


def test_not_into_the_catalog_itself(sample, tmp_path):
    store = LocalStore(tmp_path / "c", durable=False)
    store.create_many(sample.files)
    (tmp_path / "c" / "inner").mkdir()
    (tmp_path / "link").symlink_to("c/inner")
    for place in (tmp_path / "c", tmp_path / "c" / "rescued", tmp_path / "link" / "rescued"):
        with pytest.raises(InvalidLocation):
            salvage_catalog(store, LocalStore(place), CLOCK, AUTHOR)
    with pytest.raises(InvalidLocation):
        salvage_catalog(sample.store(), sample.store(), CLOCK, AUTHOR)
    assert salvage_catalog(store, LocalStore(tmp_path / "cc", durable=False), CLOCK, AUTHOR).complete


def test_a_dry_run_writes_nothing(sample, dest):
    report = salvage_catalog(sample.store(), dest, CLOCK, AUTHOR, dry_run=True)
    assert report.objects == len(held(sample))
    assert files_of(dest) == {}


def test_a_salvage_without_a_catalog_is_refused(dest):
    with pytest.raises(CatalogNotFound):
        salvage_catalog(MemoryStore("nothing"), dest, CLOCK, AUTHOR)
    assert files_of(dest) == {}


def test_a_power_cut_at_any_write(sample, tmp_path):
    store = sample.store()
    damage.spoil(store, sample.tree().leaves[0], "truncated")
    before = held(sample)
    counting = CountingStore(MemoryStore())
    salvage_catalog(store, counting, CLOCK, AUTHOR)
    writes = counting.writes
    assert writes > 40
    for number in range(writes):
        dest = LocalStore(tmp_path / "dest", durable=False) if number == 20 else MemoryStore()
        with pytest.raises(PowerCut):
            salvage_catalog(store, CuttingStore(dest, number), CLOCK, AUTHOR)
        if dest.exists(root_path(0)):
            assert contents(dest) == before
            continue
        with pytest.raises(CatalogNotFound):
            Catalog.open(dest)
        salvage_catalog(store, dest, CLOCK, AUTHOR)
        assert contents(dest) == before


def test_a_disk_that_does_not_give_a_file(sample, dest):
    """Here a file that cannot be had is one that cannot be read: the source is not changed, and the report names it."""
    path = sample.tree().leaves[0]

    class Rotten(WrappedStore):
        def read(self, asked: str) -> bytes:
            if asked == path:
                raise StorageFailed("input/output error")
            return super().read(asked)

        def read_many(self, paths: Any) -> Any:
            for one, data in self.inner.read_many(paths):
                yield one, StorageFailed("input/output error") if one == path else data

    report = salvage_catalog(Rotten(sample.store()), dest, CLOCK, AUTHOR)
    assert contents(dest) == held(sample)
    assert dict(report.unreadable) == {path: "input/output error"}


def test_the_new_catalog_can_be_worked_with(sample, dest):
    store = sample.store()
    damage.spoil(store, root_path(sample.latest), "truncated")
    save(store, dest)
    catalog = Catalog(dest, FakeClock(START + 200 * HOUR))
    with catalog.transaction() as transaction:
        transaction.create_table(table("a.after"), location())
    entries = list(log_between(catalog, None, None))
    assert [entry.version for entry in entries] == [1, 0]
    assert [action.type_name for action in entries[1].changes] == ["CATALOG_CREATE", "CATALOG_REPAIR"]
    assert replay(dest).keys() == {0, 1}
