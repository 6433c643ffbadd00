"""Node files that say that they unpack to more than a node has: they are refused before anything is unpacked."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import cache
from os import urandom

import pyarrow as pa
import pytest

from olympia_cli.errors import Damaged, TransactionTooLarge
from olympia_cli.format import codec
from olympia_cli.format.arrow import (
    MAX_NODE_BYTES,
    Nonsense,
    TooMuch,
    block_layout,
    check_file,
    footer_blocks,
    root_bounds,
    tree_bounds,
    unpacked_bytes,
)
from olympia_cli.format.codec import COLUMNS, decode_action_rows, decode_node, decode_root, encode_node, encode_root
from olympia_cli.format.node import EMPTY, Node, Root, Sizes
from olympia_cli.format.salvage import salvage

SIZES = Sizes(128, 100, 100, 100)
ROOT = Root(EMPTY, "def/catalog/x.binpb", 1, sizes=SIZES)
SCHEMA = pa.schema([(name, pa.string()) for name in COLUMNS])


def arrow(*columns: pa.Array, codec: str | None = "lz4", metadata: dict[str, str] | None = None) -> bytes:
    schema = SCHEMA.with_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(pa.record_batch(list(columns), schema=schema))
    return bytes(sink.getvalue())


def nulls(rows: int, codec: str, metadata: dict[str, str] | None = None) -> bytes:
    return arrow(*[pa.nulls(rows, pa.string())] * 3, codec=codec, metadata=metadata)


def claiming(data: bytes, size: int) -> bytes:
    """Return the file with a first buffer that claims a number of unpacked bytes."""
    body, layout = block_layout(data, footer_blocks(data)[1][0])
    at = body + next(offset for offset, length in layout.buffers if length)
    return data[:at] + struct.pack("<q", size) + data[at + 8 :]


LARGEST = {"olympia.sizes": '{"order":1048576,"namespace":65536,"table":65536,"view":65536}'}
BOMBS = {
    "many rows, lz4": lambda: nulls(3_000_000, "lz4"),
    "many rows, zstd": lambda: nulls(3_000_000, "zstd"),
    "many rows of a root": lambda: nulls(3_000_000, "zstd", LARGEST),
    "one long value": lambda: arrow(pa.array(["x" * 2**28]), *[pa.nulls(1, pa.string())] * 2),
    "a claim": lambda: claiming(encode_node(Node(("k",), ("v",)), 1), 2**40),
    "the largest claim": lambda: claiming(encode_node(Node(("k",), ("v",)), 1), 2**63 - 1),
}


@cache
def made(bomb: str) -> bytes:
    """Not before it is asked for: every process that collects tests would make them all."""
    return BOMBS[bomb]()


@pytest.mark.parametrize("bomb", BOMBS)
def test_it_is_refused_before_it_is_unpacked(bomb):
    data = made(bomb)
    assert len(data) < 2**21
    for decode, code in (
        (lambda: decode_node(data, "node/x", sizes=SIZES), "F205"),
        (lambda: decode_node(data, "node/x"), "F205"),
        (lambda: decode_node(data, "node/x", java=True), "F205"),
        (lambda: decode_root(data, "vn/x"), "F205"),
        (lambda: decode_action_rows(data, "vn/x"), "F401"),
    ):
        peak = pa.default_memory_pool().max_memory()
        with pytest.raises(Damaged, match=r"it unpacks to [\d,]+ rows and [\d,]+ bytes") as raised:
            decode()
        assert raised.value.code == code
        assert pa.default_memory_pool().max_memory() == peak


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("sizes", [None, SIZES])
def test_a_salvage_takes_no_more_than_a_node_has(bomb, sizes):
    data = made(bomb)
    found = salvage(data, sizes)
    bounds = root_bounds(sizes or Sizes(4096, 1024, 1024, 1024), len(data))
    assert len(found.rows) <= max(bounds.rows, root_bounds(found.sizes, len(data)).rows)
    assert sum(len(cell) for row in found.rows for cell in row if isinstance(cell, str)) <= 2**26
    assert found.problems


def test_dictionaries_count():
    schema = pa.schema([(name, pa.dictionary(pa.int32(), pa.string())) for name in COLUMNS])
    sink = pa.BufferOutputStream()
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["x" * 2**28]))
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(pa.record_batch([column] * 3, schema=schema))
    data = bytes(sink.getvalue())
    with pytest.raises(TooMuch):
        check_file(data, root_bounds(SIZES, len(data)))
    peak = pa.default_memory_pool().max_memory()
    assert salvage(data).problems
    assert pa.default_memory_pool().max_memory() == peak


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_declared_sizes_cover_the_unpacked_content(codec):
    rows = [f"key {number}" for number in range(500)]
    data = arrow(pa.array(rows), pa.array(rows), pa.nulls(500, pa.string()), codec=codec)
    body, layout = block_layout(data, footer_blocks(data)[1][0])
    assert layout.rows == 500
    assert unpacked_bytes(data, body, layout) >= 2 * sum(map(len, rows)) + 2 * 4 * 501
    check_file(data, tree_bounds(SIZES))


@pytest.mark.parametrize(
    "values",
    [
        ["v"],
        [f"{number:0300}" for number in range(500)],
        [urandom(3 * number).hex() for number in range(90)],
        ["", "ü"],
    ],
    ids=["one", "alike", "random", "empty"],
)
def test_a_root_is_taken_for_no_less_than_a_reader_finds_in_it(values, monkeypatch):
    told = []
    monkeypatch.setattr(codec, "within", lambda *batch: told.append(batch[:2]) or batch[2])
    keys = tuple(f"key {number:03}" for number in range(len(values)))
    tree = Node(keys, (*values[1:], None), ("node/x",) * (len(keys) + 1))
    data = encode_root(replace(ROOT, node=tree), list(zip(keys, values, strict=True)))
    [(rows, unpacked)] = told
    found = [block_layout(data, block) for block in footer_blocks(data)[1]]
    assert rows == sum(layout.rows for _, layout in found)
    more = unpacked - sum(unpacked_bytes(data, body, layout) for body, layout in found)
    assert 0 <= more <= sum(8 * len(layout.buffers) for _, layout in found)


@pytest.mark.parametrize("order", [3, 128, 4096])
def test_a_full_node_is_within_the_bounds_of_its_catalog(order):
    sizes = Sizes(order, 100, 100, 100)
    keys = tuple(f"{number:08}".ljust(204) for number in range(order - 1))
    node = Node(keys, ("d" * 267,) * (order - 1), ("node/" + "n" * 41,) * order)
    data = encode_node(node, 1)
    assert decode_node(data, "node/x", sizes=sizes).node == node
    check_file(data, tree_bounds(sizes))


def test_no_catalog_has_larger_nodes():
    assert tree_bounds(Sizes(2**20, 2**16, 2**16, 2**16)).bytes == MAX_NODE_BYTES
    assert tree_bounds(None).bytes == MAX_NODE_BYTES


def test_a_root_too_large_to_read_is_not_written():
    actions = [("C===" + "k" * 200, "A" * 1000)] * 200_000
    with pytest.raises(TransactionTooLarge, match=r"too large: it unpacks to 200,00\d rows and 24\d,\d{3},\d{3} bytes"):
        encode_root(ROOT, actions)


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 40, 200])
def test_a_footer_that_leads_nowhere_makes_no_sense(length):
    data = encode_node(Node(("k",), ("v",)), 1)
    with pytest.raises(Nonsense):
        footer_blocks(data[:length])
    with pytest.raises(Nonsense):
        block_layout(data[:length], footer_blocks(data)[1][0])
