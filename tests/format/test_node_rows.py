"""Columns that are read from Arrow's buffers at once are what they are value by value, whatever the file holds."""

import hashlib
import random
import struct
from operator import lt

import pyarrow as pa
import pytest

from olympia_cli.errors import Damaged
from olympia_cli.format.arrow import (
    Nonsense,
    TooMuch,
    block_layout,
    check_batch,
    footer_blocks,
    root_bounds,
    tree_bounds,
)
from olympia_cli.format.codec import (
    ACTIONS_DIGEST_KEY,
    DIGEST_KEY,
    SCHEMA,
    NodeRows,
    decode_action_rows,
    decode_commit,
    decode_node,
    decode_root,
    decode_sizes,
    encode_node,
    encode_root,
)
from olympia_cli.format.node import Node, Root, Sizes
from olympia_cli.format.paths import root_path

NODE, ROOT = "node/x.arrow", root_path(7)
NULL = (None, None, None)
SIZES = Sizes(128, 8, 8, 8)


# The same, row by row and as simply as it can be said


def read_rows(data, path):
    """An iterator over the rows, which fails where the file does; with its digests."""
    try:
        reader = pa.ipc.open_file(pa.py_buffer(data))
        names, metadata = reader.schema.names, reader.schema.metadata or {}
    except (pa.ArrowException, OSError, ValueError):
        raise Damaged("not Arrow", path, "") from None
    if names != ["key", "value", "pnode"] or any(field.type != pa.string() for field in reader.schema):
        raise Damaged("F203", path, "it is an Arrow file, but its columns are not key, value and pnode")
    sizes = decode_sizes(metadata.get(b"olympia.sizes"), path)
    bounds = tree_bounds(None) if path == NODE else root_bounds(sizes, len(data))

    def rows(bounds):
        for at in range(reader.num_record_batches):
            try:
                blocks = footer_blocks(data)
                if blocks[0]:
                    raise Nonsense("it has dictionaries, and columns without")
                bounds = check_batch(data, *block_layout(data, blocks[1][at]), bounds)
                batch = reader.get_batch(at)
                batch.validate(full=True)
                columns = [[value.as_py() for value in column] for column in batch.columns]
            except (pa.ArrowException, OSError, ValueError, Nonsense, TooMuch) as error:
                reason = " ".join(str(error).split())[:200]
                raise Damaged("F205", path, f"its record batch {at} cannot be read: {reason}") from None
            yield from zip(*columns, strict=True)

    return rows(bounds), metadata


def digest_of(rows):
    hashed = hashlib.sha256(struct.pack("<i", len(rows)))
    for at in range(3):
        column = [None if row[at] is None else row[at].encode() for row in rows]
        hashed.update(b"".join(struct.pack("<i", -1 if value is None else len(value)) for value in column))
        hashed.update(b"".join(value for value in column if value is not None))
    return hashed.hexdigest().encode()


def read_tree(data, path):
    """The system rows, the pivot table, and an iterator over what follows it."""
    rows, metadata = read_rows(data, path)
    system = {}
    for key, value, pnode in rows:
        if key is None:
            pivot = [(key, value, pnode)]
            break
        if value is None or key in system:
            raise Damaged("F207", path, f"its system row {key[:60]!a} is empty or there twice")
        system[key] = value, pnode
    else:
        raise Damaged("F207", path, "it ends before its pivot table")
    number, _ = system.get("n_keys", (None, None))
    if number is None:
        raise Damaged("F207", path, "it has no system row n_keys")
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        raise Damaged("F207", path, f"its n_keys is {number[:40]!a}, not a number")
    return system, pivot, int(number), rows, metadata


def reference_node(data, path):
    system, pivot, n_keys, rows, metadata = read_tree(data, path)
    while len(pivot) <= n_keys and (row := next(rows, None)) is not None:
        pivot.append(row)
    if len(pivot) != n_keys + 1:
        raise Damaged("F207", path, f"its pivot table has {len(pivot) - 1} keys, but n_keys says {n_keys}")
    if "catalog_def" not in system and any(row != NULL for row in list(rows)):
        raise Damaged("F207", path, "it has rows after its pivot table, but is not a root")
    tree = [(key, value, pnode) for key, (value, pnode) in system.items()] + pivot
    wanted = metadata.get(DIGEST_KEY)
    if wanted is not None and digest_of(tree) != wanted:
        raise Damaged("F206", path, "checksum mismatch")
    keys, values, children = zip(*pivot, strict=True)
    if values[0] is not None or None in keys[1:]:
        raise Damaged("F207", path, "its pivot table is not a leftmost row and rows with keys")
    if not all(map(lt, keys[1:], keys[2:])):
        raise Damaged("F208", path, "its keys are not in order")
    if None in children and any(child is not None for child in children):
        raise Damaged("F207", path, "some of its rows point to a child and some do not")
    return Node(keys[1:], values[1:], () if None in children else children), {k: v for k, (v, _) in system.items()}


def reference_actions(data, path):
    try:
        _, _, n_keys, rows, metadata = read_tree(data, path)
        found = list(rows)[n_keys:]
    except Damaged as error:
        raise Damaged("F401", path, error.reason) from None
    wanted = metadata.get(ACTIONS_DIGEST_KEY)
    if wanted is not None and digest_of(found) != wanted:
        raise Damaged("F401", path, "checksum mismatch in its action rows")
    found = [row for row in found if row != NULL]
    if any(key is None or value is None or pnode is not None for key, value, pnode in found):
        raise Damaged("F401", path, "a row after the pivot table is not an action row")
    return [(key, value) for key, value, _ in found]


# Files


def tree_rows(keys, values, children=None, **system):
    rows = [(key, value, None) for key, value in {**system, "n_keys": str(len(keys))}.items()]
    children = children or [None] * (len(keys) + 1)
    return rows + list(zip((None, *keys), (None, *values), children, strict=True))


def column_with_bytes_in_nulls(values):
    """Lay out a column as another program may: NULL values have bytes between their offsets."""
    texts = [b"junk" if value is None else value.encode() for value in values]
    offsets = [0]
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    bits = sum(1 << at for at, value in enumerate(values) if value is not None)
    buffers = [
        bits.to_bytes(len(values) // 8 + 1, "little"),
        struct.pack(f"<{len(offsets)}i", *offsets),
        b"".join(texts),
    ]
    return pa.Array.from_buffers(pa.string(), len(values), [pa.py_buffer(buffer) for buffer in buffers])


def file_of(
    tree, actions=(), cuts=None, compression=None, make=lambda values: pa.array(values, pa.string()), told=None
):
    """An Arrow file of the rows, cut into batches, with the digests of the rows that it is `told` to have."""
    rows = [*tree, *actions]
    metadata = {DIGEST_KEY: digest_of(told or tree)} | ({ACTIONS_DIGEST_KEY: digest_of(actions)} if actions else {})
    schema = SCHEMA.with_metadata(metadata)
    sink = pa.BufferOutputStream()
    ends = [*(cuts if cuts is not None else [len(tree)]), len(rows)]
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for start, end in zip([0, *ends], ends, strict=False):
            columns = [make([row[at] for row in rows[start:end]]) for at in range(3)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    return bytes(sink.getvalue())


def file_whose_offsets_begin_later():
    """The first key has two bytes before it that no offset leads to."""
    tree = LEAF
    data = bytearray(file_of([("xx" + tree[0][0], *tree[0][1:]), *tree[1:]], told=tree))
    body, layout = block_layout(bytes(data), footer_blocks(bytes(data))[1][0])
    at = body + layout.buffers[1][0]
    assert data[at : at + 4] == bytes(4)
    data[at] = 2
    return bytes(data)


KEYS = [f"B===n{number:03}".ljust(12) for number in range(40)]
PATHS = [f"def/ns/{number}" for number in range(40)]
LEAF = tree_rows(KEYS, PATHS, created_at_millis="5")
INNER = tree_rows(KEYS, PATHS, [f"node/{number}" for number in range(41)], created_at_millis="5")
WIDE = tree_rows([*KEYS[:5], "B===é", "B===\U0001f3d4"], [*PATHS[:5], "", "def/ns/ü"], created_at_millis="5")
TOMBSTONES = tree_rows(KEYS[:9], [None, *PATHS[:4], None, None, "", None], created_at_millis="5")
LARGE = tree_rows(["B===" + "a" * 70_000, "B===" + "b" * 9], ["def/" + "c" * 90_000, "def/x"], created_at_millis="5")
TOP = tree_rows(KEYS, PATHS, catalog_def="def/catalog/x", created_at_millis="5", previous_root=root_path(6))
ACTIONS = [("catalog_def", "AAAA", None), (KEYS[0], "B" * 300, None), NULL, (KEYS[1], "é", None)]
BATCHES = [1, 2, 3, 3, 20, len(TOP), len(TOP) + 1]

FILES = {
    "a leaf of ours": (NODE, encode_node(Node(tuple(KEYS), tuple(PATHS)), 5)),
    "a root of ours": (
        ROOT,
        encode_root(
            Root(Node(tuple(KEYS), tuple(PATHS)), "def/catalog/x", 5, root_path(6), None, SIZES),
            [("catalog_def", "AAAA"), ("B===é", "BBBB")],
        ),
    ),
    "a leaf": (NODE, file_of(LEAF)),
    "an inner node": (NODE, file_of(INNER)),
    "an inner node, zstd": (NODE, file_of(INNER, compression="zstd")),
    "characters of several bytes": (NODE, file_of(WIDE)),
    "tombstones": (NODE, file_of(TOMBSTONES)),
    "no keys": (NODE, file_of(tree_rows([], [], created_at_millis="5"))),
    "large values": (NODE, file_of(LARGE, compression="lz4")),
    "bytes in NULLs": (NODE, file_of(TOMBSTONES, make=column_with_bytes_in_nulls)),
    "offsets that begin later": (NODE, file_whose_offsets_begin_later()),
    "padding": (NODE, file_of([*LEAF, NULL, NULL], told=LEAF)),
    "several batches": (NODE, file_of(LEAF, cuts=[1, 1, 2, 10, 30])),
    "a root": (ROOT, file_of(TOP, ACTIONS)),
    "a root of one batch": (ROOT, file_of(TOP, ACTIONS, cuts=[])),
    "a root of several batches": (ROOT, file_of(TOP, ACTIONS, cuts=BATCHES, compression="lz4")),
    "a root with bytes in NULLs": (ROOT, file_of(TOP, ACTIONS, make=column_with_bytes_in_nulls)),
}


def outcome(read, *arguments):
    try:
        return read(*arguments)
    except Damaged as error:
        return error.code, error.reason


def by_columns(data, path):
    file = outcome(decode_node, data, path)
    return (
        file if isinstance(file, tuple) else (file.node, file.system),
        outcome(decode_action_rows, data, path) if path == ROOT else None,
    )


def by_rows(data, path):
    return outcome(reference_node, data, path), outcome(reference_actions, data, path) if path == ROOT else None


def assert_same(data, path):
    ours, theirs = by_columns(data, path), by_rows(data, path)
    for one, other in zip(ours, theirs, strict=True):
        # what no Arrow library opens has texts of its own, which other tests hold
        assert one == other or (other is not None and ("not Arrow" in other or other == ("F401", ""))), (one, other)


def damaged(data, seed):
    """Cut anywhere, or with a few other bytes anywhere."""
    drawn = random.Random(seed)
    if drawn.random() < 0.1:
        return data[: drawn.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(drawn.choice((1, 1, 1, 2, 8))):
        changed[drawn.randrange(len(data))] ^= drawn.choice((0x01, 0x04, 0x10, 0x80, 0xFF))
    return bytes(changed)


@pytest.mark.parametrize("name", FILES)
class TestRowByRow:
    def test_a_sound_file_is_the_same(self, name):
        path, data = FILES[name]
        node, actions = by_columns(data, path)
        assert isinstance(node[0], Node)
        assert path == NODE or isinstance(actions, list)
        assert_same(data, path)

    def test_damaged_file_gives_the_same_outcome_row_by_row(self, name):
        path, data = FILES[name]
        for seed in range(150):
            assert_same(damaged(data, seed), path)

    def test_one_with_another_digest_is_damaged(self, name):
        """Each value counts: the digest of other rows is refused, whichever way it is taken."""
        path, data = FILES[name]
        rows = NodeRows(data, path)
        wanted = rows.digest.encode()
        wrong = data.replace(wanted, hashlib.sha256(b"other").hexdigest().encode())
        assert wrong != data
        assert outcome(decode_node, wrong, path) == ("F206", "checksum mismatch")


def test_the_digest_of_a_batch_is_taken_from_its_buffers():
    """The tests above depend on this."""
    usual = {name for name, (path, data) in FILES.items() if _packed(path, data) is not None}
    assert usual == set(FILES) - {
        "bytes in NULLs",
        "a root with bytes in NULLs",
        "padding",
        "several batches",
        "a root of one batch",
        "a root of several batches",
    }


def _packed(path, data):
    rows = NodeRows(data, path)
    system = rows.system()
    rows.reach()
    return rows.packed(0, len(system) + 1 + int(system["n_keys"]))


def test_a_commit_is_its_root_and_its_actions():
    path, data = FILES["a root of ours"]
    root, actions = decode_commit(data, path)
    assert (root, actions()) == (decode_root(data, path), decode_action_rows(data, path))
