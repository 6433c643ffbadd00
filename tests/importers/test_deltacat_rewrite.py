"""Upserts, deletes and data that is not Parquet: the rewritten rows are those that DeltaCAT would show."""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import gzip
import io
import os
import random
import resource
import signal
import struct
import zlib
from collections import Counter

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.importers.deltacat import rewrite
from olympia_cli.importers.deltacat.imports import DeltacatImport
from olympia_cli.importers.deltacat.index import FOREVER
from olympia_cli.importers.deltacat.metadata import DeltaFile, TableVersion
from olympia_cli.importers.deltacat.rewrite import WHOLE, DeltaFiles, Piece, PieceFile, merged
from olympia_cli.importers.deltacat.rows import read_rows, survives
from olympia_cli.importers.deltacat.schemas import Unfit
from olympia_cli.importers.deltacat.source import DeltacatSource
from olympia_cli.importers.footers import SourceFolder
from olympia_cli.importers.objects import Renaming
from olympia_cli.importers.result import ImportAdvice
from olympia_cli.storage.local import LocalStore
from tests.helpers.adopting import RewritesHere
from tests.helpers.avro_file import write_avro
from tests.helpers.check import check_catalog
from tests.helpers.deltacat_catalog import DeltacatWriter, numbered, version_body
from tests.importers.test_parquet import FATAL, SOUND

COLUMNS = (("id", pa.int64()), ("name", pa.string()))
SCHEMA = numbered(*COLUMNS, keys=["id"])
FATAL_ORC = zlib.decompress(
    base64.b64decode(
        "eNqF0r1u1EAQB/DxruNbnEO6OIAWg1ByhOT4Ct4Pf13DSSlAQiGniD4iCgUF/zdAsqCliKh4AXiO1DwFBQ9AQUHJ4hsiAkhZS/ubmdXaI2v29nfS"
        "JIuVndNgNRVE2UVls4Gi0aF+vzqnVKeSQnVF2fFyKlBkAq3+IMLJZhpRtq5sfu0C8Vrp966ZXe2DjbezOZ0YEgNxsiVrFDCwcPAoUaFGgxYmFA2M"
        "hXEwHqaEqWBqmAamhS1gwx0L62A9bAlbwdawDWwLV8AZuPBKB+fhSrgKroZr4Fr4At7AW/jwRQ9fwlfwNXwD39KZ9eXhwm/sD5ZmC2JWsUN2xGbs"
        "JfYKq9mcvc7eYNfYdXbM3mQ32FvsJrvFTtjb7B32LnuPvc9usw/YYmHHkul93RnOLZ+z5DhnyXPOUsk5SxXnLNW//ExdzXkz+z0waaKSEWnVG+nL"
        "vULnvVJPglGox0ER6kk6CLnQ76I+kPpYhiGmEYVd/LGHSi4f7T5Ln6T9jKd/Tfd/xvr8iVZy9HUpXw4c6E/x2sHEjnM1zGQkZC5eHuUxnr96kUdH"
        "azShgsZKxafR4DRKFlFhp31j07ONTf9tbHp+Y7Pjp4+jwyW7HR71MQr/s+visaDhZLdI3nyXcm9/R/8EI6B4mw=="
    )
)
"""An ORC file with four wrong bytes or fewer, found by chance, that Arrow does not survive."""
REWRITE = ("import", "deltacat", "--rewrite", "made")
COMPACT = ImportAdvice("let DeltaCAT compact the partition, which keeps its rows, and import again", REWRITE)
DELETE = {"type": "delete", "entry_type": "equality_delete"}


def data(*rows, schema=SCHEMA):
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)


class World:
    def __init__(self, folder):
        self.made = DeltacatWriter(folder / "source")
        self.store = LocalStore(str(folder / "c"))
        Catalog.create(self.store)

    def importing(self, rewriter, dry_run):
        source = DeltacatSource(LocalStore(str(self.made.folder)), "made")
        catalog, renaming = OlympiaCatalog.of(Catalog(self.store)), Renaming(Catalog(self.store).snapshot().sizes)
        return DeltacatImport(source, SourceFolder(f"file://{self.made.folder}"), catalog, renaming, rewriter, dry_run)

    def bring(self, rewrite=True, dry_run=False):
        """Import, and return the outcome and the version; `self.written` is the number of rewritten partitions."""
        properties = OlympiaCatalog.of(Catalog(self.store)).properties
        rewriter = RewritesHere(f"file://{self.made.folder}", {}, properties) if rewrite else None
        done, version = self.importing(rewriter, dry_run).run(FOREVER, "")
        self.written = rewriter.written if rewriter else 0
        return done, version

    def rows(self, name="n.t"):
        found = OlympiaCatalog.of(Catalog(self.store)).load_table(name).scan().to_arrow()
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)

    def files(self, name="n.t"):
        table = OlympiaCatalog.of(Catalog(self.store)).load_table(name)
        return {task.file.file_path for task in table.scan().plan_files()}


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    check_catalog(world.store)


@pytest.fixture
def partition(world):
    """A table n.t with one partition, and a way to add deltas to it, each in a transaction."""
    with world.made.transaction() as txn:
        found = txn.partition(txn.table(txn.namespace("n"), "t", SCHEMA))

    def delta(position, rows, **more):
        with world.made.transaction() as txn:
            return txn.delta(found, position, rows, **more)

    return delta


@contextlib.contextmanager
def small_memory():
    """128 MiB more than this process has already."""
    usual = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as said:
        mine = int(said.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mine + 2**27, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, usual)


def why(done):
    return [one.reason for table in (*done.created, *done.moved_on) for one in table.skipped] + [
        one.reason for one in done.left_out
    ]


def test_deltas_are_applied_in_their_order(world, partition):
    partition(1, data((1, "a"), (2, "b"), (None, "e")))
    partition(2, data((1, "x"), (3, "c"), (3, "d"), (None, "f")), type="upsert")
    partition(3, data((1, "again")))
    partition(4, data((2, None)), **DELETE)
    partition(5, data((2, "new")))
    [found], version = world.bring()[0].created, 1
    assert world.rows() == [(1, "again"), (1, "x"), (2, "new"), (3, "d"), (None, "f")]
    assert (found.files, found.rows, found.skipped) == (1, 5, ())
    assert world.bring() == (world.bring()[0], version)
    assert (world.written, world.bring()[0].unchanged) == (0, 2)


def halved(chosen):
    """Shares that are a whole together, some of them halved again."""
    waiting = [WHOLE]
    while waiting:
        share = waiting.pop()
        if share.of < 16 and chosen.random() < 0.6:
            waiting += share.halves()
        else:
            yield share


def test_merging_deltas_equals_applying_them_in_order():
    """Against the rules said plainly, in dictionaries and lists."""
    chosen, columns, compared = random.Random(7), (("a", pa.int64()), ("b", pa.string()), ("v", pa.int64())), 0
    for _ in range(400):
        keys = chosen.choice([["a"], ["b"], ["a", "b"]])
        schema = numbered(*columns, keys=keys)
        version = TableVersion("1", "active", None, schema.serialize().to_pybytes(), (), (), None)
        files, steps, left = {}, [], []
        for number in range(chosen.randint(0, 8)):
            type = chosen.choice(["append", "add", "upsert", "upsert", "delete"])
            by = chosen.choice([(), ("a",), ("b", "a"), (2,)]) if type == "delete" else ()
            step, come = [], []
            for part in range(chosen.randint(1, 3)):
                values = [[None, 1, 2, 3], [None, "", "x"], range(100)]
                rows = [tuple(map(chosen.choice, values)) for _ in range(chosen.randint(0, 5))]
                path = f"{number}.{part}"
                files[path] = pa.Table.from_pylist(
                    [dict(zip(schema.names, row, strict=True)) for row in rows], schema.remove_metadata()
                )
                step.append(PieceFile(path, 1, DeltaFile(path, None, None, "", "", "data", by)))
                come += rows
            steps.append(DeltaFiles(type, tuple(step)))
            at = [{"a": 0, "b": 1}.get(key, key) for key in by or keys]

            def key(row, at=at, type=type):
                return tuple(row[one] or "" if one == 1 and type == "upsert" else row[one] for one in at)

            last = {key(row): row for row in come}
            if type in ("upsert", "delete"):
                left = [row for row in left if key(row) not in last]
            left += {"upsert": list(last.values()), "delete": []}.get(type, come)
        try:
            found = merged(Piece(tuple(steps)), version, lambda file, _, files=files: files[file.path])
        except Unfit:
            assert any(len(step.files[0].entry.keys or keys) > 1 for step in steps if step.type == "delete")
        else:
            compared += 1
            assert Counter(tuple(row.values()) for row in found.to_pylist()) == Counter(left)
            shares = (
                merged(Piece(tuple(steps)), version, lambda file, _, files=files: files[file.path], share)
                for share in halved(chosen)
            )
            assert Counter(tuple(row.values()) for found in shares for row in found.to_pylist()) == Counter(left)
    assert compared > 300


def test_a_delete_says_by_which_columns(world, partition):
    partition(1, data((1, "a"), (2, "a"), (3, "b")))
    partition(2, data((None, "a")), **DELETE, meta={"entry_params": {"equality_field_locators": ["name"]}})
    partition(3, data((4, "a")))
    partition(4, pa.table({"id": [4]}), **DELETE, meta={"entry_params": {"equality_field_locators": [0]}})
    world.bring()
    assert world.rows() == [(3, "b")]


def test_partitions_without_upserts_are_not_rewritten(world):
    with world.made.transaction() as txn:
        stream = txn.table(txn.namespace("n"), "t", SCHEMA)
        whole, merged = txn.partition(stream), txn.partition(stream)
        plain = txn.delta(whole, 1, data((1, "a")))
        old = txn.delta(merged, 1, data((2, "b")))
        txn.delta(merged, 2, data((2, "c")), type="upsert")
    world.bring()
    assert world.rows() == [(1, "a"), (2, "c")]
    files = world.files()
    assert f"file://{world.made.folder}/{plain}" in files
    assert not any(old in file for file in files)
    assert len(files) == 2


def test_new_deltas_of_a_rewritten_table_need_another_rewrite(world, partition):
    partition(1, data((1, "a")))
    partition(2, data((1, "b")), type="upsert")
    world.bring()
    first = world.files()
    partition(3, data((2, "c")), type="upsert")
    done, _ = world.bring(rewrite=False)
    assert why(done) == ["its rows were rewritten here, and it has newer data at the source"]
    assert done.left_out[0].advice is not None
    assert world.rows() == [(1, "b")]
    done, version = world.bring()
    assert (len(done.moved_on), world.rows()) == (1, [(1, "b"), (2, "c")])
    assert not first & world.files()
    assert world.bring()[1] == world.bring(rewrite=False)[1] == version


def test_one_that_came_without(world, partition):
    partition(1, data((1, "a")))
    partition(2, data((1, "b")), type="upsert")
    partition(3, data((2, "c")))
    done, _ = world.bring(rewrite=False)
    assert world.rows() == [(2, "c")]
    assert all(one.advice is not None for one in done.created[0].skipped)
    done, version = world.bring()
    assert (world.rows(), version, why(done)) == ([(1, "b"), (2, "c")], 2, [])


def test_a_dry_run_writes_nothing(world, partition):
    partition(1, data((1, "a")), type="upsert")
    before = sorted(file.path for file in world.store.list())
    [found] = world.bring(dry_run=True)[0].created
    assert (found.files, found.rows, world.written) == (None, None, 0)
    assert sorted(file.path for file in world.store.list()) == before


def optional(type):
    """Return the type of a column that may hold NULL, in the order of polars."""
    return [type, "null"]


def packed(table, kind):
    sink = io.BytesIO()
    plain = table.replace_schema_metadata()
    if kind == "application/avro":
        rows = [tuple(row.values()) for row in table.to_pylist()]
        return write_avro({"id": optional("long"), "name": optional("string")}, rows)
    if kind == "application/orc":
        pyarrow.orc.write_table(plain, sink)
    elif kind == "application/feather":
        pyarrow.feather.write_feather(table, sink)
    elif kind == "text/csv":
        pyarrow.csv.write_csv(plain, sink, pyarrow.csv.WriteOptions(include_header=False))
    else:
        sink.write(b'{"id": 1, "name": "a"}\n{"id": 2, "name": null}\n')
    return sink.getvalue()


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize(
    "kind", ["application/orc", "application/feather", "text/csv", "application/json", "application/avro"]
)
def test_files_of_other_formats_are_rewritten(world, partition, kind, encoding):
    content = packed(data((1, "a"), (2, None)), kind)
    meta = {"record_count": 2, "content_encoding": encoding}
    partition(1, content if encoding == "identity" else gzip.compress(content), content_type=kind, meta=meta)
    partition(2, data((3, "")), type="add")
    assert why(world.bring(rewrite=False)[0])
    assert why(world.bring()[0]) == []
    assert world.rows() == [(1, "a"), (2, None), (3, "")]


AVRO = {
    "flag": (pa.bool_(), "boolean", [True, False]),
    "small": (pa.int8(), "int", [-5, 127]),
    "half": (pa.float32(), "float", [0.5, -2.0]),
    "whole": (pa.float64(), "double", [0.1, 1e300]),
    "raw": (pa.binary(), "bytes", [b"\0\xff", b""]),
    "day": (pa.date32(), {"type": "int", "logicalType": "date"}, [20_000, -1]),
    "at": (pa.timestamp("us"), {"type": "long", "logicalType": "local-timestamp-micros"}, [1_700_000_000_000_001, -1]),
    "utc": (pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}, [1, 2]),
    "clock": (pa.time64("us"), {"type": "long", "logicalType": "time-micros"}, [1, 2]),
    "price": (
        pa.decimal128(20, 2),
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
        [b"\xff\x85", (10**19 + 1).to_bytes(9, "big")],
    ),
    "key": (pa.binary(4), {"type": "fixed", "name": "f", "size": 4}, [b"abcd", b"\0\0\0\0"]),
    "colour": (pa.string(), {"type": "enum", "name": "e", "symbols": ["red", "green"]}, ["green", "red"]),
    "tags": (pa.list_(pa.string()), {"type": "array", "items": ["string", "null"]}, [["a", None], []]),
    "of": (pa.map_(pa.string(), pa.int64()), {"type": "map", "values": "long"}, [{"x": 1}, {}]),
    "place": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "x", "type": ["long", "null"]}, {"name": "y", "type": "string"}],
        },
        [{"x": None, "y": "b"}, {"x": 2**62, "y": "é"}],
    ),
}
"""Columns of Avro: the type of the table, the one in the file, and two values as Avro stores them."""


@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize("some", [["id"], ["id", *AVRO]], ids=["one column", "every type"])
def test_every_type_of_an_avro_file(codec, some):
    columns = {"id": (pa.int64(), "long", [1, -(2**63)]), **AVRO}
    schema = numbered(*((name, columns[name][0]) for name in some))
    values = [columns[name][2] for name in some]
    rows = [*zip(*values, strict=True), tuple(None for _ in some)]
    content = write_avro({name: optional(columns[name][1]) for name in some}, rows, codec, rows_a_block=2)
    version = TableVersion("1", "active", None, schema.serialize().to_pybytes(), (), (), None)
    found = read_rows(content, DeltaFile("x", 3, len(content), "application/avro", "identity", "data"), version, ())
    assert found.schema == schema.remove_metadata()
    stored = {
        "price": [decimal.Decimal("-1.23"), decimal.Decimal("100000000000000000.01")],
        "of": [[("x", 1)], []],
        "day": [datetime.date(2024, 10, 4), datetime.date(1969, 12, 31)],
    }
    for name, type in zip(some, schema.types, strict=True):
        if name in stored:
            assert found[name].to_pylist() == [*stored[name], None]
        else:
            assert found[name].combine_chunks().equals(pa.array([*columns[name][2], None], type)), name


def test_an_avro_file_that_another_program_wrote(world, partition):
    """PyIceberg's writer stands for others: its types are not in a union with null where a column is required."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType(), required=False)
    )
    file = world.made.folder / "other.avro"
    with AvroOutputFile(PyArrowFileIO().new_output(str(file)), schema, "r", record_schema=schema) as out:
        out.write_block([Record(1, "a"), Record(2, None)])
    partition(1, file.read_bytes(), content_type="application/avro", meta={"record_count": 2})
    file.unlink()
    assert why(world.bring()[0]) == []
    assert world.rows() == [(1, "a"), (2, None)]


def test_a_damaged_avro_file_never_crashes_the_import():
    """Any byte that is flipped gives other values, or an error that names the file; nothing else."""
    schema = numbered(*((name, type) for name, (type, _, _) in AVRO.items()))
    rows = list(zip(*(values for _, _, values in AVRO.values()), strict=True))
    content = write_avro({name: optional(type) for name, (_, type, _) in AVRO.items()}, rows)
    version = TableVersion("1", "active", None, schema.serialize().to_pybytes(), (), (), None)
    entry, told = DeltaFile("x", None, None, "application/avro", "identity", "data"), 0
    for at in range(len(content)):
        for damaged in (content[:at], content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]):
            try:
                read_rows(damaged, entry, version, ())
            except Unfit:
                told += 1
    assert told > len(content)


@pytest.mark.parametrize(
    "type",
    [
        ["string", "long"],
        {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long"}, {"name": "x", "type": "long"}]},
    ],
    ids=["a choice", "two of one name"],
)
def test_an_avro_file_of_types_that_are_not_read(world, partition, type):
    content = write_avro({"id": type}, [])
    partition(1, content, content_type="application/avro", meta={"record_count": 0})
    [said] = why(world.bring()[0])
    assert "cannot be read: it has a type that is not read here" in said or "two of its columns have one name" in said


# Files whose ids are wrong


def swapped(*rows, ids=("0", "0")):
    """Parquet rows of id and name, in columns with these ids."""
    fields = [
        field.with_metadata({"PARQUET:field_id": id} if id else {}) for field, id in zip(SCHEMA, ids, strict=True)
    ]
    return data(*rows, schema=pa.schema(fields))


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (("0", "0"), "two of its columns have one id"),
        (("0", None), "some of its columns have ids, and some have none"),
        (("1", "0"), "its column 'id' has the id of 'name'"),
    ],
)
def test_file_with_wrong_ids_is_read_by_column_names(world, partition, ids, reason):
    """DeltaCAT reads it so. Without --rewrite it is left out, the advice brings it, and other files stay plain."""
    plain = partition(1, data((1, "a")))
    odd = partition(2, swapped((2, "b"), (3, "c"), ids=ids))
    done, _ = world.bring(rewrite=False)
    [left_out] = done.created[0].skipped
    assert (left_out.part, left_out.reason) == (odd, reason)
    assert left_out.advice is not None
    assert left_out.advice == ImportAdvice("import it too: merge and rewrite its rows on Spark", REWRITE)
    assert world.rows() == [(1, "a")]
    done, version = world.bring()
    assert (why(done), world.rows(), world.written) == ([], [(1, "a"), (2, "b"), (3, "c")], 1)
    assert f"file://{world.made.folder}/{plain}" in world.files()
    assert f"file://{world.made.folder}/{odd}" not in world.files()
    assert world.bring()[1] == world.bring(rewrite=False)[1] == version
    partition(3, data((4, "d")))
    done, _ = world.bring(rewrite=False)
    assert why(done) == ["its rows were rewritten here, and it has newer data at the source"]
    assert (why(world.bring()[0]), len(world.rows())) == ([], 4)


@pytest.mark.parametrize("table", [True, False], ids=["the table has ids", "it has none"])
@pytest.mark.parametrize("file", [True, False], ids=["the file has ids", "it has none"])
def test_files_and_tables_with_ids_and_without_are_merged(world, table, file):
    """A file with ids in a table without is read by its names: by its ids all of it would be empty."""
    without = pa.schema(
        [field.with_metadata({"DELTACAT:merge_key": "True"} if field.name == "id" else {}) for field in SCHEMA]
    )
    with world.made.transaction() as txn:
        found = txn.partition(txn.table(txn.namespace("n"), "t", SCHEMA if table else without))
        txn.delta(found, 1, data((1, "a"), (2, "b"), schema=SCHEMA if file else without))
        txn.delta(found, 2, data((1, "x"), schema=SCHEMA if file else without), type="upsert")
    assert why(world.bring()[0]) == []
    assert world.rows() == [(1, "x"), (2, "b")]


def test_a_file_with_wrong_ids_among_upserts_is_read(world, partition):
    partition(1, swapped((1, "a"), (2, "b")))
    partition(2, swapped((1, "x"), ids=("1", "0")), type="upsert")
    assert why(world.bring()[0]) == []
    assert world.rows() == [(1, "x"), (2, "b")]


@pytest.mark.parametrize("delta", [{}, {"type": "upsert"}], ids=["append", "upsert"])
def test_file_with_wrong_ids_and_names_is_left_out(world, partition, delta):
    """A column of a strange name may be one that was renamed: nothing is guessed. What is sound comes all the same."""
    columns = [field.with_name(name) for field, name in zip(swapped((1, "a")).schema, ("id", "what"), strict=True)]
    partition(1, data((1, "a")))
    odd = partition(2, data((2, "b"), schema=pa.schema(columns)), **delta)
    done, _ = world.bring()
    if delta:
        why_not = "the ids of its columns are wrong, and the table has no column 'what'"
        assert why(done) == [f"it is not rewritten: {odd} cannot be read: {why_not}"]
        assert world.rows() == []
    else:
        assert [(one.part, one.advice) for one in done.created[0].skipped] == [(odd, None)]
        assert (world.rows(), world.written) == ([(1, "a")], 0)


def test_inspect_and_import_agree(world, partition):
    """The import does what inspect lists: for sound files, odd files and unreadable ones."""
    partition(1, data((1, "a")))
    partition(2, swapped((2, "b")))
    partition(3, b"junk", content_type="application/parquet")
    partition(4, packed(data((4, "d")), "application/avro"), content_type="application/avro")
    (world.made.folder / partition(5, data((5, "e")))).unlink()
    shown, _ = world.importing(None, dry_run=True).inspect(FOREVER)
    done, _ = world.bring(rewrite=False)
    assert shown.created[0].skipped == done.created[0].skipped
    told = [(one.name, one.files, one.rows, one.size, one.columns) for one in (*shown.created, *done.created)]
    assert told[0] == told[1]
    assert told[0][1:3] == (1, 1)
    assert len(done.created[0].skipped) == 4


def test_an_orc_file_that_arrow_does_not_survive(world, partition):
    """The file is named, and crashes neither this process nor a Spark worker, whose death would end the job."""
    path = partition(1, FATAL_ORC, content_type="application/orc")
    with world.made.transaction() as txn:
        other = txn.partition(txn.table(txn.namespace("m"), "u", SCHEMA))
        txn.delta(other, 1, packed(data((1, "a")), "application/orc"), content_type="application/orc")
    [said] = why(world.bring()[0])
    assert said == f"it is not rewritten: {path} cannot be read: it is damaged, and reading it crashes the reader"
    assert (world.rows(), world.rows("m.u")) == ([], [(1, "a")])


def test_names_of_a_csv_are_those_of_the_schema_that_it_was_written_with(world):
    old = SCHEMA.with_metadata({"DELTACAT:schema_id": "0"})
    new = pa.schema([SCHEMA.field(1).with_name("title"), SCHEMA.field(0)])
    with world.made.transaction() as txn:
        stream = txn.table(txn.namespace("n"), "t", old)
        partition = txn.partition(stream)
        txn.delta(partition, 1, b'1,"a"\n', content_type="text/csv", meta={"schema_id": 0})
    with world.made.transaction() as txn:
        body = version_body("1", new.with_metadata({"DELTACAT:schema_id": "1"}))
        body["schemas"] = [old.serialize().to_pybytes(), *body["schemas"]]
        txn.put(stream[:3], body, "update")
    assert why(world.bring()[0]) == []
    assert world.rows() == [("a", 1)]


@pytest.mark.parametrize("default", [b"\x07", b"Bw=="])
def test_a_value_for_older_files(world, partition, default):
    """Also in a table that has them already, and that takes nothing any more otherwise."""
    partition(1, data((1, "a")))
    world.bring(rewrite=False)
    new = SCHEMA.append(pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "2", "DELTACAT:past_default": default}))
    with world.made.transaction() as txn:
        [table] = {file.parts[-6] for file in world.made.folder.glob("*/*/1/rev/*/*/*.mpk")}
        [namespace] = {file.parts[-7] for file in world.made.folder.glob("*/*/1/rev/*/*/*.mpk")}
        txn.version((namespace, table), "1", new, operation="update")
    partition(2, data((2, "b", 5), schema=new))
    done, _ = world.bring(rewrite=False)
    assert [one.advice is None for one in done.left_out] == [False]
    assert why(world.bring()[0]) == []
    assert world.rows() == [(1, "a", 7), (2, "b", 5)]


@pytest.mark.parametrize("harm", ["damaged", "gone"])
def test_damage_at_the_source_takes_no_written_rows_away(world, partition, harm):
    """The table stays as it is until all of it can be read, as with plain files."""
    path = world.made.folder / partition(1, data((1, "a"), (2, "b")))
    partition(2, data((1, "x")), type="upsert")
    world.bring()
    sound = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(len(sound)))
    partition(3, data((3, "c")), type="upsert")
    done, _ = world.bring()
    assert (world.rows(), done.moved_on) == ([(1, "x"), (2, "b")], [])
    assert any("it is not rewritten" in one for one in why(done))
    path.write_bytes(sound)
    world.bring()
    assert world.rows() == [(1, "x"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("rewrite", [True, False])
def test_an_unreadable_new_delta_keeps_the_rewritten_rows(world, partition, rewrite):
    partition(1, data((1, "a"), (2, "b")))
    partition(2, data((1, "x")), type="upsert")
    world.bring()
    partition(3, data((3, "c")), content_type="application/x-unknown")
    done, _ = world.bring(rewrite)
    assert (world.rows(), done.moved_on) == ([(1, "x"), (2, "b")], [])
    assert any("which is not read here" in one for one in why(done))


def test_words_of_a_csv_are_text(world, partition):
    """Not all of DeltaCAT's writers put text in quotes."""
    partition(1, b'1,NA\n2,null\n3,\n4,""\n', content_type="text/csv", meta={"record_count": 4})
    world.bring()
    assert world.rows() == [(1, "NA"), (2, "null"), (3, None), (4, "")]


def test_lines_in_the_text_of_a_csv(world, partition):
    """A file is read in parts, and none of them ends within a text."""
    rows = data(*((number, "\n,a" * (number % 50)) for number in range(20_000)))
    content = packed(rows, "text/csv")
    assert len(content) > 2**20
    partition(1, content, content_type="text/csv", meta={"record_count": rows.num_rows})
    assert why(world.bring()[0]) == []
    assert sorted(world.rows()) == [tuple(row.values()) for row in rows.to_pylist()]


def test_all_types(world):
    values = {
        "b": pa.array([True, None]),
        "i8": pa.array([1, None], pa.int8()),
        "i16": pa.array([-1, None], pa.int16()),
        "f": pa.array([1.5, None], pa.float32()),
        "d": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(9, 2)),
        "day": pa.array([datetime.date(2026, 1, 2), None]),
        "at": pa.array([datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), None], pa.timestamp("us", "UTC")),
        "ms": pa.array([datetime.datetime(2026, 1, 2), None], pa.timestamp("ms")),
        "text": pa.array(["x", None], pa.large_string()),
        "raw": pa.array([b"x", None], pa.binary()),
    }
    schema = numbered(("id", pa.int64()), *((name, value.type) for name, value in values.items()), keys=["id", "text"])
    rows = pa.table([pa.array([1, 2]), *values.values()], schema=schema)
    with world.made.transaction() as txn:
        partition = txn.partition(txn.table(txn.namespace("n"), "t", schema))
        txn.delta(partition, 1, rows)
        txn.delta(partition, 2, rows, type="upsert")
        txn.delta(partition, 3, rows.slice(0, 1), type="upsert")
    assert why(world.bring()[0]) == []
    table = OlympiaCatalog.of(Catalog(world.store)).load_table("n.t")
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == rows.to_pylist()


def test_merge_keys_are_compared_as_text_in_which_null_is_empty(world):
    """DeltaCAT does so for merge keys; it compares values of deletes unchanged."""
    schema = numbered(*COLUMNS, keys=["name"])
    with world.made.transaction() as txn:
        partition = txn.partition(txn.table(txn.namespace("n"), "t", schema))
        txn.delta(partition, 1, data((1, None), (2, "a"), schema=schema))
        txn.delta(partition, 2, data((3, None), (4, ""), schema=schema), type="upsert")
        txn.delta(partition, 3, data((0, None), schema=schema), **DELETE)
    assert why(world.bring()[0]) == []
    assert world.rows() == [(2, "a"), (4, "")]
    with world.made.transaction() as txn:
        txn.delta(partition, 4, data((5, None), schema=schema), type="upsert")
    assert why(world.bring()[0]) == []
    assert world.rows() == [(2, "a"), (5, None)]


@pytest.mark.parametrize("is_known", [True, False])
def test_deletes_by_several_columns(world, is_known):
    """DeltaCAT would delete (1, "b") together with (1, "a") and (2, "b").

    If there is such a row, the intention is unknown.
    """
    schema = numbered(*COLUMNS, keys=["id", "name"])
    with world.made.transaction() as txn:
        partition = txn.partition(txn.table(txn.namespace("n"), "t", schema))
        rows = [(1, "a"), (2, "b"), (None, "c"), (3, "b")] + ([] if is_known else [(1, "b")])
        txn.delta(partition, 1, data(*rows, schema=schema))
        txn.delta(partition, 2, data((1, "a"), (2, "b"), (None, "c"), schema=schema), **DELETE)
    said = "".join(why(world.bring()[0]))
    assert ("" if is_known else "deleted by id and name, and DeltaCAT deletes more") in said
    assert (world.rows(), bool(said)) == ([(3, "b")] if is_known else [], not is_known)


class TestWhatIsNotKnown:
    """The partition stays as it would be without: no row comes that DeltaCAT would not show."""

    @pytest.mark.parametrize(
        ("schema", "delta", "reason"),
        [
            (numbered(*COLUMNS), {"type": "upsert"}, "its table has no merge keys"),
            (numbered(*COLUMNS), DELETE, "the delete names no columns"),
            (SCHEMA, {"type": "delete", "entry_type": "positional_delete"}, "holds positional_delete"),
            (
                SCHEMA,
                {**DELETE, "meta": {"entry_params": {"equality_field_locators": ["id", ["name", "first"]]}}},
                "deletes by a field inside of a column",
            ),
            (SCHEMA, {"content_type": "text/psv"}, "is 'text/psv' in 'identity'"),
            (
                pa.schema([SCHEMA.field(0), SCHEMA.field(1).with_metadata({"DELTACAT:merge_order": "x"})]),
                {"type": "upsert"},
                "merged in an order of their own",
            ),
            (
                pa.schema([SCHEMA.field(0), SCHEMA.field(1).with_metadata({"DELTACAT:event_time": "True"})]),
                {"type": "upsert"},
                "merged in an order of their own",
            ),
        ],
    )
    def test_from_the_metadata(self, world, schema, delta, reason):
        with world.made.transaction() as txn:
            partition = txn.partition(txn.table(txn.namespace("n"), "t", schema))
            txn.delta(partition, 1, data((1, "a")))
            txn.delta(partition, 2, data((2, "b")), **delta)
        done, _ = world.bring()
        [told] = [one for table in done.created for one in table.skipped if reason in one.reason]
        assert (told.advice, world.written) == (COMPACT, 0)

    def test_one_that_is_in_no_order(self, world, partition):
        partition(1, data((1, "a")), type="upsert")
        partition(7, data((2, "b")), type="add")
        assert any("is in no order with its upserts and deletes" in one for one in why(world.bring()[0]))

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"junk", "cannot be read"),
            (b'1,"a",3\n', "cannot be read"),
            (b'1,"a"\n2,"b"\n', "it has 2 of the 1 rows"),
            (b'x,"a"\n', "cannot be read"),
        ],
    )
    def test_from_the_files(self, world, partition, content, reason):
        partition(1, content, content_type="text/csv")
        done, version = world.bring()
        assert reason in "".join(why(done))
        assert (world.rows(), version) == ([], 1)
        # it is not tried again before it has moved on, and told all the same
        done, version = world.bring()
        assert (version, world.written) == (1, 0)
        assert [one.part for one in done.left_out] == ["rows of 1 partitions of table n.t"]

    def test_a_partition_too_large_for_memory_is_not_rewritten(self, world, partition):
        content = gzip.compress(b"1,a\n".ljust(2**28, b"\n"), 1)
        partition(1, content, content_type="text/csv", meta={"content_encoding": "gzip"})
        with small_memory():
            done, _ = world.bring()
        [said] = why(done)
        part = "a 64th of its rows does not fit into the memory of one task"
        assert said == f"it is not rewritten: {part}: give executors more"
        # who gives more gets them
        assert why(world.bring()[0]) == []
        assert (world.written, world.rows()) == (1, [(1, "a")])
        assert (world.bring()[0].unchanged, world.written) == (2, 0)

    def test_a_partition_larger_than_memory_is_rewritten_in_parts(self, world, partition):
        """Twelve files that fit into memory one by one, and not together; each names rows of the one before."""
        text = "x" * 2000
        for number in range(12):
            rows = data(*((at, f"{number}{text}") for at in range(number * 9_000, number * 9_000 + 10_000)))
            partition(number + 1, rows, type="upsert")
        with small_memory():
            done, _ = world.bring()
        assert why(done) == []
        assert done.created[0].rows == 109_000
        assert len(world.files()) > 1
        found = OlympiaCatalog.of(Catalog(world.store)).load_table("n.t").scan().to_arrow()
        assert sorted(
            zip(found["id"].to_pylist(), (name[:-2000] for name in found["name"].to_pylist()), strict=True)
        ) == [(at, str(min(at // 9_000, 11))) for at in range(109_000)]

    @pytest.mark.parametrize("keys", [(), ({"key": ["id"], "transform": {"name": "identity"}},)], ids=["", "by id"])
    def test_written_parts_are_deleted_after_another_part_fails(self, world, monkeypatch, keys):
        """Files that no metadata names would stay for ever."""
        monkeypatch.setattr(rewrite, "_AT_ONCE", 1)
        with world.made.transaction() as txn:
            found = txn.partition(txn.table(txn.namespace("n"), "t", SCHEMA, keys), [1] if keys else None)
        for number, content in enumerate([b"junk", b"1,a\n", b"2,b\n"]):
            with world.made.transaction() as txn:
                txn.delta(found, number + 1, content, content_type="text/csv")
        assert "cannot be read" in "".join(why(world.bring()[0]))
        assert not [file.path for file in world.store.list() if file.path.endswith(".parquet")]

    def test_a_reader_that_the_machine_ends_says_nothing_of_the_file(self):
        with pytest.raises(MemoryError):
            survives(lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert not survives(lambda: os.kill(os.getpid(), signal.SIGSEGV))
        assert survives(lambda: 1 / 0)

    def test_keys_that_arrow_does_not_compare(self, world):
        schema = numbered(("id", pa.list_(pa.int64())), ("name", pa.string()), keys=["id"])
        with world.made.transaction() as txn:
            namespace = txn.namespace("n")
            other = txn.partition(txn.table(namespace, "other", SCHEMA))
            txn.delta(other, 1, data((1, "a")), type="upsert")
            partition = txn.partition(txn.table(namespace, "t", schema))
            txn.delta(partition, 1, data(([1], "a"), schema=schema), type="upsert")
        assert "Keys of type list" in "".join(why(world.bring()[0]))
        assert (world.rows("n.other"), world.rows()) == ([(1, "a")], [])

    @pytest.mark.parametrize(
        ("old", "new"),
        [(b"some text", b"some t\xffxt"), (struct.pack("<3i", 0, 9, 13), struct.pack("<3i", 0, 2**30, 13))],
        ids=["no text", "out of the file"],
    )
    def test_a_feather_file_that_is_damaged(self, world, partition, old, new):
        """Arrow gives what is in such a file as it is, and the program does not survive a look at it."""
        sink = io.BytesIO()
        pyarrow.feather.write_feather(data((1, "some text"), (2, "more")), sink, compression="uncompressed")
        content = sink.getvalue()
        assert content.count(old) == 1
        kind = {"content_type": "application/feather", "meta": {"record_count": 2}}
        partition(1, content.replace(old, new), **kind)
        assert "cannot be read" in "".join(why(world.bring()[0]))

    def test_a_file_that_arrow_does_not_survive(self, world, partition):
        damaged = bytearray(SOUND)
        damaged[FATAL[0][0]] = FATAL[0][1]
        partition(1, bytes(damaged), type="upsert", meta={"record_count": 2})
        assert "cannot be read" in "".join(why(world.bring()[0]))

    @pytest.mark.parametrize("delta", [{"type": "upsert"}, DELETE])
    def test_one_that_lacks_the_key(self, world, partition, delta):
        """The file would be taken for rows without a key."""
        partition(1, data((None, "a"), (2, "b")))
        partition(2, pa.table({"name": ["c"]}), **delta)
        assert "it lacks the column 'id', which is a merge key" in "".join(why(world.bring()[0]))
        assert world.rows() == []

    def test_a_missing_source_file_is_reported(self, world, partition):
        path = partition(1, data((1, "a")), type="upsert")
        (world.made.folder / path).unlink()
        assert f"{path} is not there" in "".join(why(world.bring()[0]))


def test_files_of_a_rewritten_table_have_the_ids_of_its_columns(world, partition):
    partition(1, data((1, "a")), type="upsert")
    world.bring()
    [file] = world.files()
    schema = pq.read_schema(file.removeprefix("file://"))
    assert [column.metadata[b"PARQUET:field_id"] for column in schema] == [b"0", b"1"]
