"""Exports on Spark: the same files, the same errors and the same findings as those of the local engine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged, OlympiaError, PathTaken
from olympia_cli.format.codec import decode_node, decode_root, encode_node
from olympia_cli.format.paths import EXPORT_NOTE, WIDTH, root_path
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import AtVersion
from olympia_cli.ops.export.export import create_export, resume_export
from olympia_cli.ops.export.files import CopyFiles, Mode, scope
from olympia_cli.ops.export.verify import ExportEngine, local_engine, note_of, verify_export
from olympia_cli.ops.fsck import Chain, errors_of, examine_version
from olympia_cli.spark.engine import SparkEngine, place_for
from olympia_cli.spark.pipelines.export import SparkExport
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.open import open_store
from tests.cli.conftest import run_here
from tests.helpers.check import check_catalog
from tests.helpers.clock import FakeClock
from tests.helpers.damage import rewrite_definition
from tests.helpers.exports import files, make_catalog, own_files
from tests.helpers.metrics import measured
from tests.helpers.places import BUCKET, quiet_environment
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.stores import CuttingStore, PowerCut, WrappedStore
from tests.spark.conftest import Losing

FULL, MINIMAL = scope(Mode.FULL), scope(Mode.MINIMAL)
NODES = scope(Mode.PARTIAL, None, definitions=False)
ONE_LEVEL, TWO_LEVELS = scope(Mode.PARTIAL, 1), scope(Mode.PARTIAL, 2)
SCOPES = {"full": FULL, "minimal": MINIMAL, "nodes": NODES, "one-level": ONE_LEVEL}


def local(folder: Path) -> LocalStore:
    return LocalStore(folder, durable=False)


@pytest.fixture
def on_spark(spark):
    """The engine for exports of a catalog to a destination."""

    def made(catalog, dest, source_options=None, dest_options=None) -> SparkExport:
        engine = SparkEngine(spark, place_for(catalog.store.uri, source_options), 2, alone=0)
        return SparkExport(engine, place_for(dest.uri, dest_options))

    return made


def test_the_same_files_with_the_same_bytes(on_spark, tmp_path):
    catalog = make_catalog(local(tmp_path / "catalog"), tables=5, order=16)
    seen = []
    for name, wanted in SCOPES.items():
        here, there = local(tmp_path / f"{name}-here"), local(tmp_path / f"{name}-there")
        expected = create_export(catalog, here, f"{name}-here", wanted, at=AtVersion(3))
        engine = on_spark(catalog, there)
        done = create_export(catalog, there, f"{name}-there", wanted, at=AtVersion(3), engine=engine)
        assert own_files(there) == own_files(here)
        assert set(files(there)) == set(files(here))
        assert done.count == expected.count
        seen.append(frozenset(own_files(there)))
    # the scopes are a test of something only if each copies something else
    assert len(set(seen)) == len(SCOPES)
    recorded = catalog.snapshot().definition.exported_snapshots
    assert sorted(recorded) == sorted(f"{name}-{where}" for name in SCOPES for where in ("here", "there"))


def test_to_a_bucket_and_back(on_spark, tmp_path, monkeypatch):
    """Each side has options of its own. The catalog has an export already, so a full one has another definition."""
    quiet_environment(monkeypatch)
    catalog = make_catalog(local(tmp_path / "catalog"), tables=5, order=16)
    create_export(catalog, local(tmp_path / "before"), "before", MINIMAL)
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        options = {"endpoint_url": server.url, "key": "key", "secret": "secret", "region": "us-east-1"}
        bucket = open_store(f"s3://{BUCKET}/there", options)
        done = create_export(catalog, bucket, "there", FULL, engine=on_spark(catalog, bucket, None, options))
        there = own_files(bucket)
        assert (done.count.files, done.count.bytes) == (len(there), sum(map(len, there.values())))
        assert done.note.definition in there
        check_catalog(bucket)
        again, back = Catalog(bucket, FakeClock()), local(tmp_path / "back")
        before = server.requests["GET"]
        create_export(again, back, "back", FULL, engine=on_spark(again, back, options))
        # each file once; the rest is what this process reads to begin and to record
        assert server.requests["GET"] - before < len(there) * 5 / 3
        assert own_files(back) == there
        bucket.close()


def test_resume_on_spark_finishes_an_interrupted_local_export(on_spark, tmp_path):
    """By another engine than the one that began it. What was there stays as it was."""
    catalog = make_catalog(local(tmp_path / "catalog"), tables=5, order=16)
    whole, dest = local(tmp_path / "whole"), local(tmp_path / "dest")
    total = CuttingStore(whole)
    create_export(catalog, total, "whole", FULL, at=AtVersion(3))
    with pytest.raises(PowerCut):
        create_export(catalog, CuttingStore(dest, total.writes // 2), "friday", FULL, at=AtVersion(3))
    begun = {path: os.stat(tmp_path / "dest" / path).st_ino for path in own_files(dest)}
    assert 5 < len(begun) < len(own_files(whole)) - 5
    # of a definition that is there the catalog's own is not read again
    away = min(path for path in begun if path.startswith("def/ns/"))
    (tmp_path / "catalog" / away).rename(tmp_path / "away")
    done = resume_export(catalog, dest, "friday", engine=on_spark(catalog, dest))
    (tmp_path / "away").rename(tmp_path / "catalog" / away)
    assert {path: os.stat(tmp_path / "dest" / path).st_ino for path in begun} == begun
    assert own_files(dest) == own_files(whole)
    assert done.count.files == len(own_files(dest))


# What is wrong


def told(action) -> tuple[type, str, str]:
    with pytest.raises(OlympiaError) as raised:
        action()
    return type(raised.value), raised.value.message, raised.value.hint


def test_damage_of_a_version_is_the_same_error(on_spark, tmp_path):
    catalog = make_catalog(local(tmp_path / "catalog"), tables=5, order=16)
    places = iter(range(10))

    def export(where: Path, spark: bool) -> None:
        dest = local(where)
        engine: ExportEngine = on_spark(catalog, dest) if spark else local_engine
        create_export(Catalog(local(tmp_path / "catalog"), FakeClock()), dest, "friday", FULL, engine=engine)

    def both() -> tuple[type, str, str]:
        number = next(places)
        expected = told(lambda: export(tmp_path / f"{number}-here", False))
        assert told(lambda: export(tmp_path / f"{number}-there", True)) == expected
        assert not (tmp_path / f"{number}-there" / root_path(3)).exists()
        return expected

    def damaged(path: str, data: bytes | None) -> tuple[type, str, str]:
        file = tmp_path / "catalog" / path
        whole = file.read_bytes()
        file.unlink()
        if data is not None:
            file.write_bytes(data)
        try:
            return both()
        finally:
            file.write_bytes(whole)

    node = catalog.snapshot().root.node.children[0]
    assert damaged(node, None)[1] == f"{node}: it is missing"
    definition = min(path for path in files(catalog.store) if path.startswith("def/view/"))
    kind, message, hint = damaged(definition, b"\xff" * 50)
    advice = "nothing was recorded; export a sound version, and check the damage of this one"
    assert (kind, hint) == (Damaged, f"{advice}: olympia fsck --level full")
    assert message.startswith(definition)
    assert catalog.snapshot().version == 3


class Racing(WrappedStore):
    """Another process writes a file to the place as soon as the export has begun."""

    def __init__(self, store, path: str) -> None:
        super().__init__(store)
        self._path = path

    def create(self, path, data):
        super().create(path, data)
        if path == EXPORT_NOTE:
            self.inner.create(self._path, b"somebody else's")


def test_both_engines_report_the_same_destination_errors(on_spark, tmp_path):
    catalog = make_catalog(local(tmp_path / "catalog"), tables=5, order=16)
    node = catalog.snapshot().root.node.children[0]

    def both(act) -> tuple[type, str, str]:
        """The same action on both engines, each with a destination of its own, which the result does not name."""
        results = []
        for place, spark in (("here", False), ("there", True)):
            dest = local(tmp_path / place)
            kind, *texts = told(lambda dest=dest, s=spark: act(dest, on_spark(catalog, dest) if s else local_engine))
            results.append((kind, *(text.replace(dest.uri, "DEST") for text in texts)))
        assert results[0] == results[1]
        return results[0]

    taken = both(lambda dest, engine: create_export(catalog, Racing(dest, node), "friday", FULL, engine=engine))
    assert taken[0] is PathTaken
    assert taken[1] == f"another process writes to the destination: {node} in DEST is taken"
    # a file that is there is left alone, and found to be no copy
    not_whole = both(lambda dest, engine: resume_export(catalog, dest, "friday", engine=engine))
    assert not_whole[0] is Damaged
    assert not_whole[1].startswith(f"DEST/{node}: the copy is damaged: ")
    assert "resume" in not_whole[2]
    assert not (tmp_path / "there" / root_path(3)).exists()
    assert "friday" not in catalog.snapshot().definition.exported_snapshots


# Verifying


def break_all(store, path: str) -> None:
    """Some of everything that can be wrong below a root of four levels: files, pointers, nodes that do not fit."""

    def at(path):
        return decode_node(store.read(path), path).node

    def below(paths):
        return [child for path in paths for child in at(path).children]

    root = decode_root(store.read(path), path)
    second = root.node.children
    third = below(second)
    changes = [
        lambda one: replace(one, children=(one.children[1], *one.children[1:])),
        lambda one: replace(one, children=()),
        lambda one: replace(one, values=("../outside", *one.values[1:])),
        lambda one: replace(one, children=(second[0], *one.children[1:])),
        lambda one: replace(one, children=("/etc/passwd", *one.children[1:])),
        lambda one: replace(one, values=(root.catalog_def, *one.values[1:])),
    ]
    assert len(third) > len(changes) + 2
    leaves = below(third[len(changes) :])
    assert len(leaves) >= 6
    defined = [value for path in (*third[-2:], *leaves[-3:-1]) for value in at(path).values]
    for path, change in zip(third, changes, strict=False):
        store.overwrite(path, encode_node(change(at(path)), 1))
    last = at(leaves[-1])
    store.overwrite(leaves[-1], encode_node(replace(last, keys=(*last.keys[:-1], "ZZZZ")), 1))
    store.delete_many([leaves[0], defined[0]])
    store.overwrite(leaves[1], b"")
    store.overwrite(leaves[2], store.read(leaves[2])[:-1])
    store.overwrite(defined[1], b"\xff" * 50)
    store.overwrite(defined[2], b"")
    store.overwrite(root.catalog_def, store.read(root.catalog_def)[:-1])


EXPECTED = {"F201", "F202", "F204", "F209", "F210", "F212", "F214", "F215", "F301", "F302", "F303", "F307"}


def test_the_same_findings(on_spark, tmp_path, monkeypatch):
    """The findings cover all kinds of damage, in copied and in shared files, and more than are printed."""
    catalog = make_catalog(local(tmp_path / "catalog"), tables=90)
    dest, sharing = local(tmp_path / "dest"), local(tmp_path / "sharing")
    create_export(catalog, dest, "friday", FULL, at=AtVersion(3))
    create_export(catalog, sharing, "shared", TWO_LEVELS, at=AtVersion(3), engine=on_spark(catalog, sharing))
    create_export(catalog, beside := local(tmp_path / "beside"), "beside", TWO_LEVELS, at=AtVersion(3))
    assert own_files(sharing) == own_files(beside)

    whole: dict[tuple[LocalStore, str], bytes] = {}
    break_all(dest, root_path(3))
    expected = verify_export(dest, note_of(dest, None), None)
    assert {one.code for one in expected.findings} >= EXPECTED
    assert verify_export(dest, note_of(dest, None), None, engine=on_spark(catalog, dest)) == expected

    version = catalog.snapshot(AtVersion(3))
    lost = str(version.root.node.children[-1])
    shared = [str(version.find(name)) for name in version.tables()]
    for store, path in ((sharing, lost), (catalog.store, shared[3]), (catalog.store, shared[5])):
        whole[store, path] = store.read(path)
        store.overwrite(path, whole[store, path][:-3])
    one, other = shared[7:9]
    whole[catalog.store, one] = catalog.store.read(one)
    taken = TableDef.FromString(catalog.store.read(other)).id
    rewrite_definition(catalog.store, one, lambda definition: setattr(definition, "id", taken))
    expected = verify_export(sharing, note_of(sharing, None), catalog.store)
    # which of two that share an id is named goes by their paths, and whether it is shared by that
    assert {one.code for one in expected.findings} - {"F305"} == {"F204", "F503"}
    found = verify_export(sharing, note_of(sharing, None), catalog.store, engine=on_spark(catalog, sharing))
    assert found == expected
    for (store, path), data in whole.items():
        store.overwrite(path, data)

    break_all(catalog.store, root_path(3))
    monkeypatch.setattr("olympia_cli.ops.export.verify.MAX_FINDINGS", 7)
    sharing.delete_many([min(path for path in own_files(sharing) if path.startswith("def/"))])
    expected = verify_export(sharing, note_of(sharing, None), catalog.store)
    assert {one.code for one in expected.findings} == {"F210", "F503"}
    assert len(expected.findings) == 7 < expected.findings_total
    found = verify_export(sharing, note_of(sharing, None), catalog.store, engine=on_spark(catalog, sharing))
    assert found == expected


def test_copies_that_executors_lose_are_repeated(spark, on_spark, tmp_path):
    catalog = make_catalog(local(tmp_path / "catalog"), tables=5, order=16)
    snapshot, dest, losing = catalog.snapshot(), local(tmp_path / "dest"), Losing(spark)
    copied = CopyFiles(FULL, catalog.store, dest, fresh=True, replaced=None, progress=losing)
    copier = on_spark(catalog, dest)(copied)
    chain = Chain([0, 1, 2, 3], WIDTH, reference=snapshot.definition, reference_version=3, sizes=snapshot.sizes)
    _, verdict = examine_version(copied, chain, 3, copier)
    assert losing.lost
    assert not errors_of(verdict)
    assert copied.copied.files == len(list(dest.list()))


# The commands


def test_the_commands(spark, tmp_path):
    """On the session that is running already."""
    catalog = make_catalog(local(tmp_path / "catalog"), tables=5, order=16)
    dest = tmp_path / "a dest"

    def export(word: str, *args: object):
        return run_here("-c", tmp_path / "catalog", "export", word, *args, "--json")

    chosen = ("--engine", "spark", "--parallelism", "2")
    made = export("create", "friday", "--dest", dest, *chosen).ok()
    assert made.stderr == ""
    assert made.json["files"] == len(own_files(local(dest)))
    assert made.json["version"] == catalog.snapshot().version == 4
    assert measured(export("resume", "friday", "--dest", dest, *chosen).ok().json) == measured(made.json)
    sound = export("verify", "friday", *chosen).ok()
    assert (sound.json["files"], sound.json["shared_files"]) == (made.json["files"], 0)
    (dest / min(path for path in own_files(local(dest)) if path.startswith("def/table/"))).unlink()
    found = export("verify", "friday", *chosen)
    assert (found.exit_code, found.stderr) == (50, "")
    assert measured(found.json) == export("verify", "friday", "--engine", "local").json
    # by its place alone, without a catalog
    assert measured(run_here("export", "verify", "--dest", dest, *chosen, "--json").json) == measured(found.json)
