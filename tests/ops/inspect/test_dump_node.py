"""Reading a node file whatever happened to it: all that can be read, and what is wrong, and never an exception."""

import json
import random
from itertools import pairwise

import pyarrow as pa
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.arrow import unpack_prefix
from olympia_cli.format.codec import digest
from olympia_cli.format.salvage import LOST, salvage
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.ops.inspect import KeyTarget, NodeBytes, compact_key, dump_node, read_target
from olympia_cli.ops.inspect.node_dump import expand_key
from olympia_cli.ops.inspect.node_target import catalog_sizes
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.java_catalog import sample

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string()), ("pnode", pa.string())])
LEAF = [
    ("created_at_millis", "1794744000123", None),
    ("n_keys", "3", None),
    (None, None, None),
    ("B===a   ", "def/ns/1", None),
    ("B===b   ", "def/ns/2", None),
    ("C===a   t   ", "def/table/3", None),
]


def arrow(rows, cuts=(), schema=SCHEMA, compression="lz4", metadata=None):
    schema = schema.with_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for start, end in pairwise([0, *cuts, len(rows)]):
            columns = [[row[at] for row in rows[start:end]] for at in range(len(schema))]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
    return sink.getvalue().to_pybytes()


def dump(data, path="node/x", **more):
    return dump_node(NodeBytes(path, data, **more))


def problems(data, path="node/x"):
    return " | ".join(str(problem) for problem in dump(data, path).problems)


@pytest.fixture(scope="module")
def files():
    """A real root and a real node, with their sizes."""
    store = MemoryStore()
    catalog = Catalog.create(store, order=8)
    with catalog.transaction("load") as transaction:
        for namespace in ("sales", "finance"):
            transaction.create_namespace(NamespaceName(namespace))
            for at in range(12):
                name = TableName(namespace, f"table{at}")
                transaction.create_table(name, f"s3://bucket/{namespace}/{at}.json")
    root = catalog.snapshot().file
    sizes = catalog_sizes(store, NodeBytes(root.path, root.data))
    node = catalog.snapshot().root.node.children[0]
    return {"root": NodeBytes(root.path, root.data), "node": NodeBytes(node, store.read(node))}, sizes


def test_a_sound_file_has_no_problems(files) -> None:
    both, sizes = files
    for kind, file in both.items():
        found = dump_node(file, sizes)
        assert found.kind == kind
        assert found.problems == []
        assert found.digest == "verified"
        assert found.keys == int(found.system["n_keys"]) == len(found.pivot) - 1
        assert all(row.name is not None for row in found.pivot[1:])
        assert found.missing_rows == 8 - len(found.pivot)
    assert dump_node(both["root"]).actions_digest == "verified"
    assert dump_node(both["root"]).actions[0].action["type"] == "NAMESPACE_CREATE"
    assert dump_node(both["root"]).actions[-1].action["detail"]["message"] == "load"


def test_names_can_be_read_without_the_sizes(files) -> None:
    both, sizes = files
    assert [row.name for row in dump_node(both["node"]).pivot] == [
        row.name for row in dump_node(both["node"], sizes).pivot
    ]


@pytest.mark.parametrize("kind", ["root", "node"])
def test_every_readable_cell_of_a_cut_file_is_shown(files, kind) -> None:
    both, sizes = files
    file = both[kind]
    whole = salvage(file.data)
    last = -1
    for length in range(0, len(file.data), 13):
        left = file.data[:length]
        found = dump_node(NodeBytes(file.path, left), sizes)
        json.dumps(found.describe())
        assert found.problems, length
        rows = salvage(left).rows
        # every cell is the one that was there, or lost
        for row, original in zip(rows, whole.rows, strict=False):
            assert all(cell is LOST or cell == there for cell, there in zip(row, original, strict=True)), length
        known = sum(cell is not LOST for row in rows for cell in row)
        assert known >= last, "a longer file shows no less"
        last = known
    assert salvage(file.data[:-200]).rows == whole.rows


def test_keys_survive_a_cut_in_the_values(files) -> None:
    file = files[0]["node"]
    whole = dump_node(file)
    middle = next(
        length
        for length in range(len(file.data))
        if len(rows := salvage(file.data[:length]).rows) == len(salvage(file.data).rows)
        and all(row[0] is not LOST for row in rows)
    )
    found = dump_node(NodeBytes(file.path, file.data[:middle]))
    assert [row.key for row in found.pivot] == [row.key for row in whole.pivot]
    assert found.digest == "mismatch"
    assert "cut short" in str(found.problems[0])
    assert any(problem.offset is not None and problem.batch == 0 for problem in found.problems)


@pytest.mark.parametrize("kind", ["root", "node"])
def test_flipped_bits_raise_nothing(files, kind) -> None:
    both, sizes = files
    file = both[kind]
    rnd = random.Random(7)
    seen = 0
    for _ in range(600):
        data = bytearray(file.data)
        for _ in range(rnd.choice((1, 1, 3))):
            data[rnd.randrange(len(data))] ^= 1 << rnd.randrange(8)
        found = dump_node(NodeBytes(file.path, bytes(data)), sizes)
        json.dumps(found.describe(), ensure_ascii=False).encode()
        seen += bool(found.problems)
    assert seen > 300


def test_rows_after_a_damaged_block_are_shown(files) -> None:
    file = files[0]["root"]
    data = bytearray(file.data)
    # the header of the first record batch; the actions are in the second
    start = data.index(b"\xff\xff\xff\xff", 16)
    data[start : start + 64] = bytes(64)
    found = dump_node(NodeBytes(file.path, bytes(data[:-30])))
    assert found.actions or found.pivot
    assert any(problem.offset == start for problem in found.problems)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (bytes(4096), "it holds nothing but zeros: 4,096 bytes"),
        (b"PAR1" + bytes(50), "a Parquet file"),
        (b"hello, world, this is text", "not an Arrow file"),
        (b"ARROW1", "cut short after 6 bytes"),
        (b"ARROW1\0\0", "cut short after 8 bytes"),
        (b"\xff" * 5000, "not an Arrow file"),
    ],
)
def test_foreign_files(data, said) -> None:
    assert said in problems(data)


def test_a_zeroed_tail_is_recognised(files) -> None:
    data = files[0]["root"].data
    found = dump(data[:1200] + bytes(3000))
    assert found.problems


def test_an_arrow_stream_is_shown() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        columns = [pa.array(column, pa.string()) for column in zip(*LEAF, strict=True)]
        writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
    found = dump(sink.getvalue().to_pybytes())
    assert found.keys == 3
    assert "an Arrow stream" in str(found.problems[0])


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("cuts", [(), (1,), (2, 3, 5)])
def test_other_batches_and_codecs(compression, cuts) -> None:
    data = arrow(LEAF, cuts, compression=compression)
    assert dump(data).problems == []
    assert salvage(data[:-60]).rows == LEAF
    assert dump(data).digest == "absent"


def replaced(at, row):
    return [*LEAF[:at], row, *LEAF[at + 1 :]]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (replaced(1, ("n_keys", "9", None)), "has 3 keys, but n_keys says 9"),
        (replaced(1, ("n_keys", "2", None)), "has 3 keys, but n_keys says 2"),
        (replaced(1, ("n_keys", "many", None)), "not a number"),
        ([LEAF[0], *LEAF[2:]], "n_keys is missing"),
        (replaced(0, ("created_at_millis", None, None)), "empty or there twice"),
        ([LEAF[0], *LEAF], "there twice"),
        (LEAF[:2], "ends before its pivot table"),
        ([*LEAF[:2], *LEAF[3:]], "no leftmost row"),
        (replaced(2, (None, "def/ns/1", None)), "leftmost row has a value"),
        (replaced(4, (None, "def/ns/2", None)), "has no key"),
        (replaced(4, ("B===a   ", "def/ns/2", None)), "not in order"),
        (replaced(4, ("B===Z   ", "def/ns/2", None)), "not in order"),
        (replaced(4, ("B===b   ", "../../etc/passwd", None)), "points outside the catalog"),
        (replaced(4, ("B===b   ", "def/ns/2", "s3://x/y")), "points outside the catalog"),
        (replaced(4, ("B===b   ", "def/ns/2", "node/1")), "some of its rows point to a child"),
        (replaced(5, ("Q===x   ", "def/ns/2", None)), "no known type"),
        ([*LEAF, ("B===a   ", "AAAA", None)], "rows behind its pivot table"),
    ],
)
def test_wrong_rows_are_shown_and_named(rows, said) -> None:
    found = dump(arrow(rows))
    assert said in problems(arrow(rows))
    assert len(found.pivot) + len(found.system) >= min(2, len(rows) - 1)
    json.dumps(found.describe())


def test_a_wrong_digest() -> None:
    right = {"olympia.sha256": digest(LEAF)}
    assert dump(arrow(LEAF, metadata=right)).digest == "verified"
    assert dump(arrow(replaced(4, ("B===b   ", "def/ns/9", None)), metadata=right)).digest == "mismatch"
    assert "checksum mismatch" in problems(arrow(LEAF, metadata={"olympia.sha256": "00"}))


def test_wrong_columns() -> None:
    numbers = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert "not key, value and pnode: a int64, b string" in problems(arrow([(1, "x")], schema=numbers))
    named = pa.schema([("kex", pa.string()), ("value", pa.string()), ("pnode", pa.string())])
    assert dump(arrow(LEAF, schema=named)).keys == 3
    large = pa.schema([("key", pa.large_string()), ("value", pa.string()), ("pnode", pa.string())])
    assert dump(arrow(LEAF, schema=large)).keys == 3
    assert "not plain strings" in problems(arrow(LEAF, schema=large))
    more = pa.schema([*SCHEMA, ("txn", pa.string())])
    found = dump(arrow([(*row, None) for row in LEAF], schema=more))
    assert (found.keys, found.problems) == (3, [])
    assert "txn" in found.unsupported


def test_actions_that_cannot_be_decoded() -> None:
    rows = [("catalog_def", "def/catalog/x", None), *LEAF, ("B===a   ", "!!!!", None), ("catalog_def", "AAAA", None)]
    found = dump(arrow(rows), "vn/" + "0" * 32)
    assert [row.action["type"] for row in found.actions] == ["unreadable", "unreadable"]
    assert [problem.row for problem in found.problems] == [7, 8]
    assert found.actions[0].action["namespace"] == "a"


def test_a_java_catalog_is_sound(tmp_path) -> None:
    sample(tmp_path, "over")
    catalog = Catalog(LocalStore(tmp_path))
    found = read_target(catalog, "latest")
    assert (found.problems, found.version, found.digest) == ([], 3, "absent")
    child = next(row.pnode for row in found.pivot if row.pnode is not None)
    assert read_target(catalog, child).problems == []
    assert read_target(catalog, "1").version == 1


def test_compact_keys_paste_back() -> None:
    for key in (
        "C===sales" + " " * 95 + "orders" + " " * 94,
        "B===é" + " " * 3,
        "C===full+5 ",
        "C===a  +5   ",
        "B===x",
    ):
        assert expand_key(compact_key(key)) == key
    assert compact_key("C===sales" + " " * 95 + "orders" + " " * 94) == "C===sales +95 orders +94"
    assert expand_key("C===sales" + " " * 95 + "orders") == "C===sales" + " " * 95 + "orders"
    assert KeyTarget.parse("a.t").names[0] == TableName("a", "t")
    assert KeyTarget.parse('"a.b"').names == (NamespaceName("a.b"),)


def test_lz4_prefixes() -> None:
    text = b"".join(b"def/table/%d-%d " % (n, n * 7) for n in range(9000))
    packed = pa.Codec("lz4").compress(text, asbytes=True)
    assert unpack_prefix(packed, len(text)) == text
    assert unpack_prefix(packed, 100) == text[:100]
    for length in range(0, len(packed), 997):
        assert text.startswith(unpack_prefix(packed[:length], len(text)))
    assert len(unpack_prefix(packed[: len(packed) // 2], len(text))) > len(text) // 4
