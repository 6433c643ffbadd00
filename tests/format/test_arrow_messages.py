"""Files in the usual layout of Arrow are read faster, with the same outcome for all bytes."""

import random
from collections import Counter

import pyarrow as pa
import pytest

from olympia_cli.format import arrow
from olympia_cli.format.arrow import Nonsense, block_layout, footer_blocks
from olympia_cli.format.codec import encode_java, encode_node, encode_root
from olympia_cli.format.node import Node, Root, Sizes

NODE = Node(("a", "b"), ("def/a", "def/b"))
ROOT = Root(NODE, "def/catalog/x", 5, None, None, Sizes(128, 8, 8, 8))
FILES = {
    "a node": encode_node(NODE, 5),
    "a root without actions": encode_root(ROOT, []),
    "a root": encode_root(ROOT, [("a", "A" * 300), ("b", "B")]),
    "one of Java": encode_java(NODE, 5),
}


def repeated(data, times):
    """The first batch of a file, again and again."""
    reader, sink = pa.ipc.open_file(data), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, reader.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for _ in range(times):
            writer.write_batch(reader.get_batch(0))
    return bytes(sink.getvalue())


FILES["many batches"] = repeated(FILES["a root"], 7)
FILES["no batches"] = repeated(FILES["a root"], 0)
BLOCKS = {name: footer_blocks(data)[1] for name, data in FILES.items()}


def outcome(data, blocks):
    """Return the footer, and the batches that it names or that it named before it was damaged."""

    def said(read, *arguments):
        try:
            return read(*arguments)
        except Nonsense as error:
            return str(error)

    footer = said(footer_blocks, data)
    named = [*blocks, *(footer[1][:8] if isinstance(footer, tuple) else ())]
    return footer, [said(block_layout, data, block) for block in named]


@pytest.fixture
def step_by_step(monkeypatch):
    """The outcome when nothing is taken for usual."""

    def read(data, blocks):
        with monkeypatch.context() as patch:
            patch.setattr(arrow, "_USUAL_TABLES", (b"",) * 4)
            return outcome(data, blocks)

    return read


def damaged(data, blocks):
    """With any byte changed that says where something is; with several; and cut."""
    footer = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    headers = [at + i for at, length in blocks[:2] for i in range(length)]
    places = [*headers, *range(footer, len(data))]
    for place in places:
        for bits in (0x01, 0x04, 0x80, 0xFF):
            yield changed(data, {place: bits})
    drawn = random.Random(len(data))
    for _ in range(1000):
        yield changed(data, {drawn.choice(places): drawn.randrange(1, 256) for _ in range(drawn.choice((2, 3, 8)))})
    yield from (data[:cut] for cut in places)
    yield from (data[:cut] + data[-10:] for cut in places)


def changed(data, bits):
    other = bytearray(data)
    for place, mask in bits.items():
        other[place] ^= mask
    return bytes(other)


@pytest.mark.parametrize("name", FILES)
def test_fast_and_stepwise_reading_report_the_same_damage(name, step_by_step):
    data, blocks = FILES[name], BLOCKS[name][:2]
    outcomes = Counter[bool]()
    for other in (data, *damaged(data, blocks)):
        found = outcome(other, blocks)
        assert found == step_by_step(other, blocks)
        outcomes[isinstance(found[0], str)] += 1
    assert min(outcomes[False], outcomes[True]) > 100


@pytest.mark.parametrize("name", FILES)
def test_files_of_this_program_take_the_fast_path(name, monkeypatch):
    """The test above depends on this."""
    data, java = FILES[name], name == "one of Java"
    steps = []
    table = arrow._Table
    monkeypatch.setattr(arrow, "_Table", type("Table", (table,), {"root": lambda data: steps.append(data)}))
    assert footer_blocks(data) == ([], BLOCKS[name])
    assert not steps
    for block in BLOCKS[name]:
        if java:
            with pytest.raises(AttributeError):
                block_layout(data, block)
        else:
            block_layout(data, block)
    assert bool(steps) == java
