"""fsck on Spark finds what the local engine finds, finding for finding."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.format.codec import DIGEST_KEY, decode_node
from olympia_cli.format.node import Node
from olympia_cli.format.paths import new_definition_path, new_node_path, parse_root_path, root_path, transaction_path
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.iceberg.data_checks import IcebergDataChecks
from olympia_cli.names import Kind
from olympia_cli.ops.fsck import FsckRequest, Level, Report
from olympia_cli.ops.fsck import definitions as definition_rules
from olympia_cli.ops.repair.promote import apply_promotion, open_copy, plan_promotion
from olympia_cli.ops.repair.salvage import salvage_catalog
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.fsck import spark_fsck
from olympia_cli.spark.pipelines.place import CatalogPlace
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers import java_catalog
from tests.helpers.clock import DAY, START, FakeClock
from tests.helpers.damage import (
    add_node,
    cut_behind_id,
    digest_in,
    rewrite_definition,
    rewrite_node,
    spoil,
    with_child,
    without_key,
)
from tests.helpers.damage_sample import make_sample
from tests.helpers.fsck import codes, fsck
from tests.helpers.names import ns, table
from tests.helpers.table_versions import make_table_versions
from tests.spark.conftest import Losing

NOW = time.time_ns() // 1_000_000
"""After the versions were committed of samples that have a clock of their own, and of those that have not."""


def engine_at(spark, uri: str) -> SparkEngine:
    """An engine whose driver reads nothing that tasks can read."""
    return SparkEngine(spark, CatalogPlace.at(uri), 2, alone=0)


def same(spark, folder: Path | str, **asked) -> Report:
    """Return the report of both engines, which must be the same."""
    local = fsck(LocalStore(str(folder)), clock=FakeClock(NOW), **asked)
    found = spark_fsck(engine_at(spark, str(folder)), FsckRequest(clock=FakeClock(NOW), **asked))
    assert list(found.findings) == list(local.findings)
    assert found == local
    return found


def write(store: MemoryStore, folder: Path) -> Path:
    """Write the files of a memory store to disk, for Spark's workers."""
    for file in list(store.list(temporary=True)):
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.read(file.path))
    return folder


def test_orphans_and_unknown_files_in_sound_catalogs_are_found(spark, tmp_path):
    sample = make_sample(expired=True)
    store = sample.store()
    for number in range(25):
        store.create(f"notes/{number}.txt", b"?" * number)
    store.create(new_node_path(), b"an orphan")
    store.create(new_definition_path(Kind.TABLE, table("a.orphan")), b"another")
    folder = write(store, tmp_path)
    (folder / "node" / f".tmp-{uuid.uuid4()}").write_bytes(b"half")
    found = same(spark, folder, level=Level.FULL, all_versions=True)
    assert not found.damaged
    told = [one.code for one in found.findings]
    assert told.count("F903") == 21
    assert {"F901", "F905", "F906"} <= set(told)
    assert found.checked["exports"] == 1
    assert found.checked["transactions"] >= 1


def test_damaged_files_of_many_kinds_at_once(spark, tmp_path):
    sample = make_sample()
    store = sample.store()
    entries = {str(sample.name(key)): found for key, found in sample.tree().entries.items()}
    spoil(store, entries["a.t10"][1], "truncated")
    spoil(store, entries["d.v"][1], "missing")
    spoil(store, entries["b.t00"][0], "flipped")
    spoil(store, entries["b.t01"][0], "empty")
    spoil(store, entries["b.t02"][0], "missing")
    spoil(store, root_path(5), "flipped")
    for path in (sample.save, transaction_path(sample.open_transaction)):
        spoil(store, path, "empty")
    found = same(spark, write(store, tmp_path), level=Level.FULL, all_versions=True)
    assert {"F201", "F204", "F206", "F301", "F302", "F304", "F501"} <= set(codes(found))


def test_whole_files_that_do_not_fit_together(spark, tmp_path):
    sample = make_sample()
    store = sample.store()
    entries = {str(sample.name(key)): (key, *found) for key, found in sample.tree().entries.items()}
    id = TableDef.FromString(store.read(entries["a.t00"][1])).id
    rewrite_definition(store, entries["b.t04"][1], lambda one: setattr(one, "id", id))
    # a namespace that only some versions have lost, as seen from those that have it
    key, _, holder = entries["d"]
    rewrite_node(store, holder, without_key(key))
    found = same(spark, write(store, tmp_path), level=Level.FULL, all_versions=True)
    assert {"F305", "F306"} <= set(codes(found))


def test_the_latest_version_alone_and_the_last_sound_one_before_it(spark, tmp_path):
    sample = make_sample()
    store = sample.store()
    [lost] = {value for value, _ in [sample.tree().entries[sample.keys.encode(table("a.t00"))]]}
    spoil(store, lost, "missing")
    folder = write(store, tmp_path)
    found = same(spark, folder, level=Level.FULL)
    assert found.damaged
    assert found.last_sound_version is not None
    assert found.last_sound_version < sample.latest
    shallow = same(spark, folder, level=Level.STRUCTURE)
    assert (shallow.damaged, shallow.definitions) == (True, "listed")


def test_a_definition_that_contradicts_the_log_is_found(spark, tmp_path):
    sample = make_sample(older=4)
    store = sample.store()
    path, _ = sample.tree().entries[sample.keys.encode(table("b.t00"))]
    elsewhere = "s3://elsewhere/x.json"
    rewrite_definition(store, path, lambda one: setattr(one, "iceberg_metadata_location", elsewhere), with_digest=False)
    catalog = sample.tree().root.catalog_def
    rewrite_definition(store, catalog, lambda one: one.properties.update({"x": "y"}), with_digest=False)
    found = same(spark, write(store, tmp_path), level=Level.FULL)
    assert {"F304", "F307"} <= set(codes(found))


def test_older_versions_are_held_against_the_log_too(spark, tmp_path):
    sample = make_sample(older=4)
    store = sample.store()
    path, _ = sample.tree().entries[sample.keys.encode(table("b.t03"))]
    store.overwrite(path, cut_behind_id(store.read(path)))
    spoil(store, root_path(sample.latest), "empty")
    found = same(spark, write(store, tmp_path), level=Level.FULL)
    assert "F304" in codes(found)
    assert found.last_sound_version == 3


def test_an_export_that_pins_a_version_itself(spark, tmp_path):
    sample = make_sample()
    store = sample.store()

    def pin(definition) -> None:
        for key, value in definition.properties.items():
            definition.properties[key] = value.replace(sample.pin, root_path(4))

    for path in {sample.tree(version).root.catalog_def for version in sample.versions}:
        rewrite_definition(store, path, pin)
    spoil(store, sample.tree(4).leaves[0], "missing")
    found = same(spark, write(store, tmp_path), level=Level.STRUCTURE, all_versions=True)
    assert codes(found) == ["F201"]


def test_a_level_too_many_where_only_damaged_nodes_lead(spark, tmp_path):
    sample = make_sample()
    store = sample.store()
    tree = sample.tree()
    inner = tree.inner[-1]
    leaf = tree.nodes[inner].children[-1]
    node = tree.nodes[leaf]
    keys = [(key.rstrip() + "0").ljust(len(key)) for key in (tree.nodes[inner].keys[-1], *node.keys)]
    below = tuple(add_node(store, Node((key,), node.values[:1])) for key in keys)
    rewrite_node(store, leaf, lambda one: replace(one, children=below))
    for path in (*map(root_path, sample.versions), sample.running, sample.pin):
        top = sample.tree(path) if path.startswith("node/") else sample.tree(parse_root_path(path))
        if leaf in top.nodes:
            data = store.read(path)
            digest = digest_in(data, DIGEST_KEY)
            store.overwrite(path, data.replace(digest, digest[::-1]))
    found = same(spark, write(store, tmp_path), level=Level.STRUCTURE, all_versions=True)
    assert {"F206", "F210"} <= set(codes(found))


def test_results_that_executors_lose_are_recomputed(spark, tmp_path):
    sample = make_sample()
    store = sample.store()
    spoil(store, sample.tree().leaves[0], "missing")
    folder = write(store, tmp_path)
    losing = Losing(spark)
    asked = {"level": Level.FULL, "all_versions": True, "clock": FakeClock(NOW)}
    found = spark_fsck(engine_at(spark, str(folder)), FsckRequest(progress=losing, **asked))
    assert losing.lost > 0
    assert found == fsck(LocalStore(str(folder)), **asked)


def test_the_versions_of_lost_files(spark, tmp_path):
    hits = make_table_versions(tmp_path)
    found = same(spark, tmp_path / "catalog", level=Level.DATA, all_versions=True, data=IcebergDataChecks())
    assert {(one.path, one.message): one.versions for one in found.findings} == {
        told: versions for told, (versions, _) in hits.items()
    }


def test_data_is_looked_at_once_when_older_versions_are(spark, tmp_path):
    catalog = Catalog.create(LocalStore(str(tmp_path)))
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
    with catalog.transaction() as transaction:
        transaction.create_table(table("a.t"), f"file://{tmp_path}/nowhere.metadata.json")
    found = same(spark, tmp_path, level=Level.DATA, data=IcebergDataChecks())
    assert [(one.code, one.versions) for one in found.findings] == [("F601", ((2, 2),))]


def test_nodes_out_of_place(spark, tmp_path):
    sample = make_sample()
    store = sample.store()
    root = root_path(sample.latest)
    children = sample.tree().root.node.children
    rewrite_node(store, root, with_child(0, children[1]))
    found = same(spark, write(store, tmp_path), level=Level.STRUCTURE, all_versions=True)
    assert {"F209", "F214"} & set(codes(found))


def test_more_lost_definitions_than_anybody_wants_to_read(spark, tmp_path):
    store = LocalStore(str(tmp_path), durable=False)
    catalog = Catalog.create(store, order=64)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for number in range(1100):
            transaction.create_table(table(f"a.t{number}"), "s3://lake/t")
    for path in (tmp_path / "def" / "table").iterdir():
        path.unlink()
    found = same(spark, tmp_path, level=Level.FULL, all_versions=True)
    assert codes(found).count("F301") == 1001
    assert any("100 files more like these" in one.message for one in found.findings)


def test_definitions_named_only_by_damaged_nodes_are_not_missing(spark, tmp_path):
    store = LocalStore(str(tmp_path), durable=False)
    catalog = Catalog.create(store, order=8)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for number in range(40):
            transaction.create_table(table(f"a.t{number:02}"), "s3://lake/t")
    children = catalog.snapshot().root.node.children
    leaves = [path for path in children if path is not None and decode_node(store.read(path), path).node.is_leaf]
    names = [decode_node(store.read(leaf), leaf).node.values[0] for leaf in leaves[:4]]
    for path, how in zip(names, ("missing", "truncated", "missing", "truncated"), strict=True):
        assert path is not None
        spoil(store, path, how)
    for leaf in leaves[:2]:
        spoil(store, leaf, "flipped")
    found = same(spark, tmp_path, level=Level.FULL, all_versions=True)
    assert {one.path for one in found.findings if one.code.startswith("F3")} == set(names[1:])


@pytest.mark.parametrize(("room", "definitions"), [(0, "listed"), (-1, "no")])
def test_limit_for_listing_definitions_counts_names_that_nodes_hold(spark, tmp_path, monkeypatch, room, definitions):
    """And not by what they could name: most nodes are half full."""
    store = LocalStore(str(tmp_path), durable=False)
    catalog = Catalog.create(store, order=16)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for number in range(100):
            transaction.create_table(table(f"a.t{number:03}"), "s3://lake/t")
    snapshot = catalog.snapshot()
    names = sum(1 for kind in (Kind.NAMESPACE, Kind.TABLE) for _ in snapshot.entries(kind))
    assert snapshot.sizes.order * len(snapshot.root.node.children) > names
    missing = next(snapshot.entries(Kind.TABLE))[1]
    store.delete_many([missing])
    monkeypatch.setattr(definition_rules, "MOST_NAMED", names + room)
    for all_versions in (True, False):
        found = same(spark, tmp_path, level=Level.STRUCTURE, all_versions=all_versions)
        assert found.definitions == definitions
        assert [one.path for one in found.findings] == ([missing] if definitions == "listed" else [])


def test_catalogs_of_the_java_sdk(spark, tmp_path):
    java_catalog.sample(tmp_path)
    found = same(spark, tmp_path, level=Level.FULL, all_versions=True)
    assert found.read_only
    assert found.checked["definitions"] > 5


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_store_that_fails_is_no_damage(spark, tmp_path):
    folder = write(make_sample().store(), tmp_path)
    for path in (folder / "def" / "table").iterdir():
        path.chmod(0)
    with pytest.raises(Exception, match="Permission denied"):
        spark_fsck(engine_at(spark, str(folder)), FsckRequest(level=Level.FULL))


def test_a_promoted_catalog(spark, tmp_path):
    """Versions whose roots are lost, a damaged one, and a copy on top of them."""
    store, copy, clock = make_sample().store(), MemoryStore("copy"), FakeClock(START + DAY)
    store.delete_many([root_path(version) for version in (5, 6, 9)])
    salvage_catalog(store, copy, clock, Author())
    spoil(store, root_path(3), "truncated")
    apply_promotion(plan_promotion(store, open_copy(copy, store, clock), clock), clock, Author())
    folder = write(store, tmp_path)
    for asked in ({"level": Level.FULL, "all_versions": True}, {}):
        found = same(spark, folder, **asked)
        assert not found.damaged
        assert codes(found).count("F106") == 2
