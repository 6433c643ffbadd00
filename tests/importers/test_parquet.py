"""An import of Parquet files is whole or leaves orphans; each file is opened once; two imports do not add it twice."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import PY_IO_IMPL

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.properties import PARQUET_FILES
from olympia_cli.errors import OlympiaError
from olympia_cli.format.node import Sizes
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.importers.footers import MOST_BYTES, LocalFooters, open_io, read_footer
from olympia_cli.importers.objects import Renaming
from olympia_cli.importers.parquet import find_folders
from olympia_cli.importers.parquet_tables import ParquetImport
from olympia_cli.importers.result import ImportResult
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.protocol import FileInfo
from tests.helpers.adopting import CountingIO, CuttingIO, write_parquet
from tests.helpers.check import check_catalog
from tests.helpers.names import ns, view
from tests.helpers.stores import CuttingStore, PowerCut

IO = "tests.helpers.adopting."
SOUND = base64.b64decode(
    "UEFSMRUAFSwVLCwVBBUAFQYVBhwYCAIAAAAAAAAAGAgBAAAAAAAAABYAKAgCAAAAAAAAABgIAQAAAAAAAAAREQAAAAIAAAAEAQEAAAAAAAAAAgAA"
    "AAAAAAAVBBksNQAYBnNjaGVtYRUCABUEJQIYAXYAFgQZHBkcJgAcFQQZJQYAGRgBdhUAFgQWqgEWqgEmCDwYCAIAAAAAAAAAGAgBAAAAAAAAABYA"
    "KAgCAAAAAAAAABgIAQAAAAAAAAAREQAZHBUAFQAVAgA8KQYZJgAEAAAAFqoBFgQmCBaqAQAoIHBhcnF1ZXQtY3BwLWFycm93IHZlcnNpb24gMjYu"
    "MC4xGRwcAAAArAAAAFBBUjE="
)
"""A Parquet file of one column."""
FOOTER = struct.unpack("<I", SOUND[-8:-4])[0]
FATAL = [(124, 68), (109, 73), (202, 64)]
"""Places in it, and the byte there that makes a file of it which Arrow does not survive: another type in the group of
rows, a column that is not optional any more, other depths."""


@pytest.fixture
def raw(tmp_path):
    for table in ("t", "u"):
        for number in range(3):
            write_parquet(tmp_path / "raw" / table / f"{number}.parquet", v=[number])
    return tmp_path / "raw"


class World:
    """A catalog of its own, and imports of what is in raw/."""

    def __init__(self, folder, raw, io="PyArrowFileIO"):
        self.raw, self.store = raw, LocalStore(str(folder))
        Catalog.create(self.store)
        self.properties = {} if io == "PyArrowFileIO" else {PY_IO_IMPL: IO + io}

    def bring(self, store=None, footers=None, at_once=1024, dry_run=False):
        base, done = f"file://{self.raw}", ImportResult()
        folders, done.left_out = find_folders(LocalStore(str(self.raw)).list())
        catalog = OlympiaCatalog.of(Catalog(store or self.store), **self.properties)
        catalog.retry_for = 0
        footers = footers or LocalFooters(base, open_io(base, self.properties), at_once)
        importing = ParquetImport(base, footers, Renaming(Sizes(128, 100, 100, 100)), catalog)
        return done, importing.run(folders, done, "", dry_run)

    def rows(self, name):
        found = OlympiaCatalog.of(Catalog(self.store)).load_table(name).scan().to_arrow()
        return sorted(found["v"].to_pylist())

    @property
    def tables(self):
        return [str(one) for one in Catalog(self.store).snapshot().tables()]


def check_whole_or_nothing(world):
    check_catalog(world.store)
    assert world.tables in ([], ["raw.t", "raw.u"])
    world.bring()
    assert (world.rows("raw.t"), world.rows("raw.u")) == ([0, 1, 2], [0, 1, 2])
    assert Catalog(world.store).snapshot().version == 1
    check_catalog(world.store)


def test_cut_at_every_write_to_the_catalog(raw, tmp_path):
    whole = World(tmp_path / "whole", raw)
    counting = CuttingStore(whole.store)
    whole.bring(counting)
    assert counting.writes > 4
    for number in range(counting.writes):
        world = World(tmp_path / str(number), raw)
        with pytest.raises((PowerCut, OlympiaError)):
            world.bring(CuttingStore(world.store, number))
        check_whole_or_nothing(world)


def test_cut_at_every_file_of_a_table(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(CuttingIO, "outputs", 0)
    World(tmp_path / "whole", raw, "CuttingIO").bring()
    # a manifest, a list of manifests and one metadata file a table
    assert CuttingIO.outputs == 6
    for number in range(6):
        CuttingIO.outputs = 0
        monkeypatch.setattr(CuttingIO, "cut_at", number)
        world = World(tmp_path / str(number), raw, "CuttingIO")
        with pytest.raises(PowerCut):
            world.bring()
        assert world.tables == []
        monkeypatch.setattr(CuttingIO, "cut_at", None)
        check_whole_or_nothing(world)


@pytest.mark.parametrize("at_once", [1, 1024])
def test_each_file_is_opened_once(raw, tmp_path, at_once, monkeypatch):
    monkeypatch.setattr(CountingIO, "opened", CountingIO.opened.__class__())
    world = World(tmp_path / "c", raw, "CountingIO")
    done, version = world.bring(at_once=at_once)
    assert ([one.files for one in done.created], done.left_out, version) == ([3, 3], [], 1)
    parquet = {where: count for where, count in CountingIO.opened.items() if where.endswith(".parquet")}
    assert parquet == {f"{raw}/{table}/{number}.parquet": 1 for table in "tu" for number in range(3)}
    CountingIO.opened.clear()
    done, version = world.bring(at_once=at_once)
    assert (done.created, done.moved_on, done.unchanged, version) == ([], [], 2, 1)
    assert not [where for where in CountingIO.opened if where.endswith(".parquet")]
    # what is known of a table is read once, too
    assert set(CountingIO.opened.values()) == {1}


def test_files_added_by_a_concurrent_import_are_not_repeated(raw, tmp_path):
    world = World(tmp_path / "c", raw)
    world.bring()
    write_parquet(raw / "t" / "3.parquet", v=[3])
    base = f"file://{raw}"
    own = LocalFooters(base, open_io(base, {}))

    class Slow:
        at_once = 1

        def read(self, files):
            if files:
                assert world.bring()[1] == 2
            return own.read(files)

    with pytest.raises(CommitFailedException):
        world.bring(footers=Slow())
    assert world.rows("raw.t") == [0, 1, 2, 3]
    assert world.bring()[1] == 2


def test_a_file_that_arrow_does_not_survive_is_left_out(raw, tmp_path):
    damaged = bytearray(SOUND)
    damaged[FATAL[0][0]] = FATAL[0][1]
    (raw / "t" / "0.parquet").write_bytes(damaged)
    world = World(tmp_path / "c", raw)
    done, _ = world.bring()
    assert [one.part for one in done.left_out] == ["t/0.parquet"]
    assert (world.rows("raw.t"), world.rows("raw.u")) == ([1, 2], [0, 1, 2])


def test_a_view_of_that_name(raw, tmp_path):
    world = World(tmp_path / "c", raw)
    with Catalog(world.store).transaction() as transaction:
        transaction.create_namespace(ns("raw"))
        transaction.create_view(view("raw.t"), ViewDef(substrait_read_rel=b"plan"))
    done, _ = world.bring()
    assert [(one.part, one.reason) for one in done.left_out] == [("t", "a view has the name raw.t")]
    assert [str(one.name) for one in done.created] == ["raw.u"]


class TestFolders:
    def found(self, *paths, size=9):
        folders, left_out = find_folders([FileInfo(path, size, 0) for path in paths])
        return {one.folder: [file.path for file in one.files] for one in folders}, {
            one.part: one.reason for one in left_out
        }

    @pytest.mark.parametrize(
        ("inside", "what"),
        [("metadata/00000-x.metadata.json", "Iceberg"), ("_delta_log/0.json", "Delta"), (".hoodie/x", "Hudi")],
    )
    @pytest.mark.parametrize("folder", ["", "a/t/"])
    def test_a_table_of_another_format_is_its_own_at_every_depth(self, inside, what, folder):
        paths = [f"{folder}{inside}", f"{folder}data/p.parquet", f"{folder}p.parquet"]
        folders, left_out = self.found(*paths)
        assert folders == {}
        assert list(left_out) == [folder.rstrip("/") or "."]
        assert what in left_out[folder.rstrip("/") or "."]

    def test_a_folder_that_only_resembles_delta_is_imported(self):
        folders, left_out = self.found("my_delta_log/p.parquet", "a/t2/p.parquet", "a/t/_delta_log/0.json")
        assert sorted(folders) == ["a/t2", "my_delta_log"]
        assert list(left_out) == ["a/t"]

    def test_nothing(self):
        assert self.found() == self.found("a.csv", "_x.parquet") == ({}, {})


class TestFooters:
    @pytest.fixture
    def read(self, tmp_path):
        def read(data, size=None):
            file = tmp_path / "f.parquet"
            if isinstance(data, bytes):
                file.write_bytes(data)
            [found], _ = find_folders([FileInfo("f.parquet", file.stat().st_size if size is None else size, 0)])
            return read_footer(open_io(f"file://{tmp_path}", {}), f"file://{tmp_path}", found.files[0])

        return read

    @pytest.fixture
    def data(self, tmp_path):
        return write_parquet(tmp_path / "whole", v=list(range(100))).read_bytes()

    def test_one_that_is_whole(self, read, data):
        assert read(data).metadata.num_rows == 100

    def test_one_with_a_long_footer(self, read, tmp_path):
        columns = {f"a_rather_long_name_of_a_column_{number}": [1] for number in range(2000)}
        assert read(write_parquet(tmp_path / "w", **columns).read_bytes()).metadata.num_columns == 2000

    @pytest.mark.parametrize("length", [1, 4, 7, 8, 11, 12, 100])
    def test_one_that_was_cut(self, read, data, length):
        assert "not written to its end" in read(data[:length])
        assert "not written to its end" in read(data[:-length] if length < 8 else data[:-length] + b"junk")

    @pytest.mark.parametrize("claimed", [2**31, 2**32 - 1, 10**6])
    def test_one_that_claims_more_than_it_has(self, read, data, claimed):
        assert "not written to its end" in read(data[:-8] + struct.pack("<I", claimed) + b"PAR1")

    def test_a_file_with_an_enormous_footer_is_left_out(self, read, data, tmp_path):
        with open(tmp_path / "f.parquet", "wb") as file:
            file.truncate(2 * MOST_BYTES)
            file.seek(2 * MOST_BYTES - 8)
            file.write(struct.pack("<I", MOST_BYTES + 1) + b"PAR1")
        assert "its footer has" in read(None)

    def test_junk_between_the_marks(self, read, data):
        junk = b"PAR1" + b"\xff" * 1000 + struct.pack("<I", 900) + b"PAR1"
        assert "it cannot be read" in read(junk)

    @pytest.mark.parametrize(("at", "byte"), FATAL, ids=str)
    def test_one_that_arrow_does_not_survive(self, read, at, byte):
        """Arrow ends the program when it looks at the group of rows of one of these."""
        assert read(SOUND).metadata.num_rows == 2
        damaged = bytearray(SOUND)
        damaged[at] = byte
        assert "it cannot be read" in read(bytes(damaged))

    @pytest.mark.parametrize("length", [7, 1, 0])
    def test_a_bound_that_is_cut_short(self, read, length):
        """This, too, when it reads the bound: the former one only where there is no other."""
        bound = struct.pack("<q", 2)
        parts = SOUND[-8 - FOOTER : -8].split(b"\x08" + bound)
        assert len(parts) == 3
        cut = bytes([length]) + bound[:length]
        for former, new, is_sound in ((cut, cut, False), (b"\x08" + bound, cut, False), (cut, b"\x08" + bound, True)):
            footer = parts[0] + former + parts[1] + new + parts[2]
            found = read(SOUND[: -8 - FOOTER] + footer + struct.pack("<I", len(footer)) + b"PAR1")
            if is_sound:
                assert found.metadata.row_group(0).column(0).statistics.max == 2
            else:
                assert "cut short" in found

    def test_one_that_grows(self, read, data):
        assert "was listed with 7" in read(data, size=7)


class TestWhatWasChangedHere:
    """A file comes once: what is deleted, overwritten or compacted here is not new at the source."""

    @pytest.fixture
    def world(self, raw, tmp_path):
        world = World(tmp_path / "c", raw)
        world.bring()
        return world

    def table(self, world):
        return OlympiaCatalog.of(Catalog(world.store)).load_table("raw.t")

    def expire(self, world):
        """Only the current snapshot is left."""
        table = self.table(world)
        current = table.current_snapshot().snapshot_id
        with table.maintenance.expire_snapshots() as expire:
            expire.by_ids([one.snapshot_id for one in table.snapshots() if one.snapshot_id != current])

    def add_and_bring(self, world):
        write_parquet(world.raw / "t" / "new.parquet", v=[7])
        return world.bring()[0]

    @pytest.mark.parametrize("change", ["delete", "compact", "empty", "append"])
    def test_only_new_files_come(self, world, change):
        table = self.table(world)
        rows = table.scan().to_arrow()
        if change == "delete":
            table.delete("v = 1")
        elif change == "append":
            table.append(rows.slice(0, 1))
        else:
            table.overwrite(rows if change == "compact" else rows.slice(0, 0))
        left = world.rows("raw.t")
        done, _ = world.bring()
        assert (world.rows("raw.t"), done.moved_on, done.unchanged, done.left_out) == (left, [], 2, [])
        done = self.add_and_bring(world)
        assert ([one.files for one in done.moved_on], done.left_out) == ([1], [])
        assert world.rows("raw.t") == sorted([*left, 7])
        # the next one goes by what is noted, though the snapshots are gone
        self.expire(world)
        write_parquet(world.raw / "t" / "newer.parquet", v=[8])
        done, _ = world.bring()
        is_known = change == "append"
        assert ([one.part for one in done.left_out], len(done.moved_on)) == ([] if is_known else ["t"], int(is_known))
        assert world.rows("raw.t") == sorted([*left, 7, *([8] if is_known else [])])

    def test_a_table_without_the_note_goes_by_its_snapshots(self, world):
        with self.table(world).transaction() as transaction:
            transaction.remove_properties(PARQUET_FILES)
        self.table(world).delete("v = 1")
        assert [one.files for one in self.add_and_bring(world).moved_on] == [1]
        with self.table(world).transaction() as transaction:
            transaction.remove_properties(PARQUET_FILES)
        self.expire(world)
        write_parquet(world.raw / "t" / "newer.parquet", v=[8])
        assert [one.part for one in world.bring()[0].left_out] == ["t"]
        assert world.rows("raw.t") == [0, 2, 7]

    @pytest.mark.parametrize("is_noted", [True, False])
    def test_table_with_lost_iceberg_manifest_lists_is_left_out(self, world, is_noted):
        [first] = self.table(world).snapshots()
        self.table(world).overwrite(self.table(world).scan().to_arrow().slice(0, 1))
        assert self.add_and_bring(world).left_out == []
        if not is_noted:
            with self.table(world).transaction() as transaction:
                transaction.remove_properties(PARQUET_FILES)
        for one in (first, *self.table(world).snapshots()[1:-1]):
            Path(one.manifest_list.removeprefix("file://")).unlink()
        write_parquet(world.raw / "t" / "newer.parquet", v=[8])
        assert [one.part for one in world.bring()[0].left_out] == ["t"]
        assert world.rows("raw.t") == [0, 7]

    def test_files_of_the_folder_that_others_added(self, world):
        """The files are known as well. Without snapshots it is unknown whether they are all."""
        file = write_parquet(world.raw / "t" / "theirs.parquet", v=[9])
        self.table(world).add_files([f"file://{file}"])
        assert [one.files for one in self.add_and_bring(world).moved_on] == [1]
        assert world.rows("raw.t") == [0, 1, 2, 7, 9]

    def test_another_file_in_the_place_of_one_that_was_taken_out(self, world):
        self.table(world).delete("v = 1")
        write_parquet(world.raw / "t" / "1.parquet", v=list(range(1000)))
        [told] = world.bring()[0].left_out
        assert told.reason == "it was part of the table once, and is another file by now"
        assert world.rows("raw.t") == [0, 2]
