"""Node files: what we write, what others may write, and what damage does."""

import hashlib
import json
import random
from itertools import pairwise
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, Unsupported
from olympia_cli.format.codec import decode_action_rows, decode_node, decode_root, digest, encode_node, encode_root
from olympia_cli.format.node import Node, Root, Sizes
from olympia_cli.names import NamespaceName
from olympia_cli.storage.memory import MemoryStore

QUICK = settings(max_examples=100, deadline=None, derandomize=True)
FLIPS = (0x01, 0x10, 0x80, 0xFF)
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string()), ("pnode", pa.string())])

LEAF = Node(("B===a ", "B===b ", "B===é"), ("def/ns/1", "def/ns/2", "def/ns/3"))
INNER = Node(("B===a ", "B===b "), ("def/ns/1", "def/ns/2"), ("node/1", "node/2", "node/3"))
ROOT = Root(INNER, "def/catalog/x", 1_794_744_000_123, "vn/1", "vn/2", Sizes(128, 2, 4, 8))
ACTIONS = [("catalog_def", "AAAA"), ("B===a ", "BBBB"), ("B===a ", "CCCC")]
LEAF_ROWS = [
    ("created_at_millis", "5", None),
    ("n_keys", "3", None),
    (None, None, None),
    ("B===a ", "def/ns/1", None),
    ("B===b ", "def/ns/2", None),
    ("B===é", "def/ns/3", None),
]
ROOT_ROWS = [
    ("catalog_def", "def/catalog/x", None),
    ("created_at_millis", "1794744000123", None),
    ("previous_root", "vn/1", None),
    ("rollback_from_root", "vn/2", None),
    ("n_keys", "2", None),
    (None, None, "node/1"),
    ("B===a ", "def/ns/1", "node/2"),
    ("B===b ", "def/ns/2", "node/3"),
]
ACTION_ROWS = [(key, value, None) for key, value in ACTIONS]


def arrow(rows, cuts=(), schema=SCHEMA, compression=None, metadata=None):
    """An Arrow file of the rows, with record batches that end at the cuts."""
    schema = schema.with_metadata(metadata)
    edges = [0, *sorted(cuts), len(rows)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for start, end in pairwise(edges):
            columns = [[row[at] for row in rows[start:end]] for at in range(len(schema))]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
    return sink.getvalue().to_pybytes()


def rows_of(data):
    """The rows of a file, and what its schema says of them."""
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return [tuple(row.values()) for row in table.to_pylist()], metadata


def digest_as_defined(rows):
    """The digest by its definition, in other words than the program's."""
    parts = [len(rows).to_bytes(4, "little", signed=True)]
    for at in range(3):
        for row in rows:
            length = -1 if row[at] is None else len(row[at].encode())
            parts.append(length.to_bytes(4, "little", signed=True))
        parts.extend(row[at].encode() for row in rows if row[at] is not None)
    return hashlib.sha256(b"".join(parts)).hexdigest()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEYS = st.lists(TEXT, unique=True, max_size=12).map(lambda keys: tuple(sorted(keys)))


@st.composite
def nodes(draw):
    keys = draw(KEYS)
    values = tuple(draw(st.one_of(TEXT, st.none())) for _ in keys)
    children = tuple(draw(TEXT) for _ in range(len(keys) + 1)) if draw(st.booleans()) else ()
    return Node(keys, values, children)


@st.composite
def roots(draw):
    numbers = st.integers(0, 10**17)
    pointers = st.one_of(st.none(), TEXT)
    sizes = st.one_of(st.none(), st.builds(Sizes, st.integers(3, 2**20), *[st.integers(1, 2**16)] * 3))
    return Root(draw(nodes()), draw(TEXT), draw(numbers), draw(pointers), draw(pointers), draw(sizes))


class TestRoundTrips:
    @QUICK
    @given(nodes(), st.integers(0, 10**17))
    def test_a_node_reads_back(self, node, millis):
        file = decode_node(encode_node(node, millis), "node/x")
        assert file.node == node
        assert file.system == {"created_at_millis": str(millis), "n_keys": str(len(node.keys))}
        assert file.verified
        assert file.sizes is None

    @QUICK
    @given(roots(), st.lists(st.tuples(TEXT, TEXT), max_size=6))
    def test_a_root_and_its_actions_read_back(self, root, actions):
        data = encode_root(root, actions)
        assert decode_root(data, "vn/x") == root
        assert decode_action_rows(data, "vn/x") == actions

    def test_the_rows_are_those_of_the_format(self):
        rows, metadata = rows_of(encode_node(LEAF, 5))
        assert rows == LEAF_ROWS
        assert set(metadata) == {"olympia.sha256"}
        rows, metadata = rows_of(encode_root(ROOT, ACTIONS))
        assert rows == ROOT_ROWS + ACTION_ROWS
        assert json.loads(metadata["olympia.sizes"]) == {"order": 128, "namespace": 2, "table": 4, "view": 8}

    def test_many_actions_are_in_batches_and_have_the_digest_of_all_their_rows(self):
        """Actions may come one by one: a commit may have a hundred thousand, and never has all of them as text."""
        actions = [("catalog_def", "")] + [(f"B==={number} é", f"é{uuid4()}" * (number % 9)) for number in range(9999)]
        data = encode_root(ROOT, iter(actions))
        reader = pa.ipc.open_file(data)
        counts = [reader.get_batch(at).num_rows for at in range(reader.num_record_batches)]
        assert counts == [len(ROOT_ROWS), 4096, 4096, 1808]
        assert decode_root(data, "vn/x") == ROOT
        assert decode_action_rows(data, "vn/x") == actions
        rows, metadata = rows_of(data)
        assert metadata["olympia.actions-sha256"] == digest_as_defined(rows[len(ROOT_ROWS) :])

    def test_version_0_names_no_other_version(self):
        rows, _ = rows_of(encode_root(Root(Node((), ()), "def/catalog/x", 7), []))
        assert rows == [
            ("catalog_def", "def/catalog/x", None),
            ("created_at_millis", "7", None),
            ("n_keys", "0", None),
            (None, None, None),
        ]

    def test_the_columns_are_nullable_strings(self):
        schema = pa.ipc.open_file(pa.py_buffer(encode_root(ROOT, ACTIONS))).schema
        assert schema.remove_metadata() == SCHEMA
        assert all(field.nullable for field in schema)

    def test_equal_nodes_give_equal_bytes(self):
        assert encode_root(ROOT, ACTIONS) == encode_root(ROOT, ACTIONS)

    def test_a_node_with_children_without_paths_is_not_encoded(self):
        with pytest.raises(ValueError, match="after its children have paths"):
            encode_node(Node(("a",), ("b",), (LEAF, "node/x")), 5)


class TestDigest:
    @QUICK
    @given(st.lists(st.tuples(*[st.one_of(st.none(), TEXT)] * 3), max_size=8))
    def test_the_digest_follows_its_definition_in_the_format(self, rows):
        assert digest(rows) == digest_as_defined(rows)

    def test_a_file_carries_one_for_the_tree_and_one_for_the_actions(self):
        _, metadata = rows_of(encode_root(ROOT, ACTIONS))
        assert metadata["olympia.sha256"] == digest_as_defined(ROOT_ROWS)
        assert metadata["olympia.actions-sha256"] == digest_as_defined(ACTION_ROWS)
        _, metadata = rows_of(encode_node(LEAF, 5))
        assert metadata["olympia.sha256"] == digest_as_defined(LEAF_ROWS)

    @pytest.mark.parametrize("at", range(len(LEAF_ROWS)))
    @pytest.mark.parametrize("column", range(3))
    def test_no_cell_can_be_exchanged(self, at, column):
        row = list(LEAF_ROWS[at])
        row[column] = "4" if row[column] is None else row[column] + "x"
        rows = [*LEAF_ROWS[:at], tuple(row), *LEAF_ROWS[at + 1 :]]
        with pytest.raises(Damaged):
            decode_node(arrow(rows, metadata={"olympia.sha256": digest_as_defined(LEAF_ROWS)}), "node/x")

    @pytest.mark.parametrize("value", ["", "x", "0" * 64, "é" * 32])
    def test_a_wrong_digest_is_damage(self, value):
        with pytest.raises(Damaged, match="checksum mismatch"):
            decode_node(arrow(LEAF_ROWS, metadata={"olympia.sha256": value}), "node/x")
        with pytest.raises(Damaged, match="checksum mismatch"):
            decode_action_rows(arrow(ROOT_ROWS + ACTION_ROWS, metadata={"olympia.actions-sha256": value}), "vn/x")

    def test_a_node_without_a_digest_is_unverified_not_damaged(self):
        file = decode_node(arrow(LEAF_ROWS), "node/x")
        assert file.node == LEAF
        assert not file.verified


class TestFilesOfOtherPrograms:
    @pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
    @pytest.mark.parametrize("with_digest", [False, True])
    def test_batches_may_be_cut_anywhere_and_compressed(self, compression, with_digest):
        rows = ROOT_ROWS + ACTION_ROWS
        metadata = {
            "olympia.sha256": digest_as_defined(ROOT_ROWS),
            "olympia.actions-sha256": digest_as_defined(ACTION_ROWS),
            "olympia.sizes": json.dumps({"order": 128, "namespace": 2, "table": 4, "view": 8}),
        }
        cuts = [[], [0], [len(rows)], [3, 3, 3], range(len(rows)), *([at] for at in range(len(rows)))]
        cuts += [random.Random(seed).sample(range(len(rows)), 3) for seed in range(10)]
        for cut in cuts:
            data = arrow(rows, cut, compression=compression, metadata=metadata if with_digest else None)
            root = decode_root(data, "vn/x")
            assert (root.node, root.catalog_def, root.previous_root) == (INNER, "def/catalog/x", "vn/1")
            assert root.sizes == (ROOT.sizes if with_digest else None)
            assert decode_action_rows(data, "vn/x") == ACTIONS

    def test_system_rows_may_come_in_any_order_and_unknown_ones_are_kept(self):
        system = [*ROOT_ROWS[:5], ("n_actions", "3", None), ("é", "", None)]
        for seed in range(20):
            random.Random(seed).shuffle(system)
            data = arrow(system + ROOT_ROWS[5:] + ACTION_ROWS)
            assert decode_root(data, "vn/x") == Root(INNER, "def/catalog/x", 1_794_744_000_123, "vn/1", "vn/2")
            found = decode_node(data, "vn/x").system
            assert found["n_actions"] == "3"
            assert found["é"] == ""
            assert decode_action_rows(data, "vn/x") == ACTIONS

    @pytest.mark.parametrize("padding", [1, 3, 100])
    @pytest.mark.parametrize("cut", [False, True])
    def test_padding_rows_behind_the_pivot_table_are_skipped(self, padding, cut):
        empty = [(None, None, None)] * padding
        cuts = [len(LEAF_ROWS)] if cut else []
        assert decode_node(arrow(LEAF_ROWS + empty, cuts), "node/x").node == LEAF
        assert decode_action_rows(arrow(LEAF_ROWS + empty, cuts), "node/x") == []
        for rows in (ROOT_ROWS + empty + ACTION_ROWS, ROOT_ROWS + ACTION_ROWS + empty):
            data = arrow(rows, [len(ROOT_ROWS)] if cut else [])
            assert decode_root(data, "vn/x").node == INNER
            assert decode_action_rows(data, "vn/x") == ACTIONS

    def test_padding_does_not_change_the_digest_of_the_tree(self):
        metadata = {"olympia.sha256": digest_as_defined(LEAF_ROWS)}
        file = decode_node(arrow([*LEAF_ROWS, (None, None, None)], metadata=metadata), "node/x")
        assert file.node == LEAF
        assert file.verified

    def test_a_null_value_is_a_tombstone(self):
        rows = [*LEAF_ROWS[:4], ("B===b ", None, None), LEAF_ROWS[5]]
        assert decode_node(arrow(rows), "node/x").node.values == ("def/ns/1", None, "def/ns/3")

    def test_unknown_metadata_is_ignored(self):
        assert decode_node(arrow(LEAF_ROWS, metadata={"writer": "another", "\x00": ""}), "node/x").node == LEAF

    @pytest.mark.parametrize(
        "sizes",
        [
            *["", "x", "[]", "null", "1", "{}", '{"order":1}', '{"order":9,"namespace":9,"table":9}', "[" * 10**5],
            *(
                f'{{"order":{order},"namespace":9,"table":9,"view":9}}'
                for order in ("[]", '"x"', "1e999", "NaN", "null")
            ),
        ],
        ids=lambda sizes: sizes[:30],
    )
    def test_sizes_that_cannot_be_read_are_damage(self, sizes):
        with pytest.raises(Damaged, match="sizes"):
            decode_root(arrow(ROOT_ROWS, metadata={"olympia.sizes": sizes}), "vn/x")

    @pytest.mark.parametrize("size", [-1, 0, 10**12, 10**30])
    @pytest.mark.parametrize("field", ["order", "namespace", "table", "view"])
    def test_sizes_that_no_catalog_has_are_damage(self, field, size):
        # keys are padded to them before the catalog definition is there to compare
        sizes = json.dumps({"order": 9, "namespace": 9, "table": 9, "view": 9, field: size})
        with pytest.raises(Damaged, match="sizes"):
            decode_root(arrow(ROOT_ROWS, metadata={"olympia.sizes": sizes}), "vn/x")


class TestColumns:
    @pytest.mark.parametrize("extra", [["txn"], ["txn", "more"], ["\n"], ["é"]])
    def test_columns_of_a_newer_program_are_not_supported(self, extra):
        schema = pa.schema([*SCHEMA, *((name, pa.string()) for name in extra)])
        data = arrow([(*row, *([None] * len(extra))) for row in LEAF_ROWS], schema=schema)
        for decode in (decode_node, decode_root, decode_action_rows):
            with pytest.raises(Unsupported) as caught:
                decode(data, "node/x")
            assert caught.value.exit_code == 41
            assert str(caught.value).isprintable()

    @pytest.mark.parametrize(
        "schema",
        [
            pa.schema([]),
            pa.schema([("key", pa.string()), ("value", pa.string())]),
            pa.schema([("key", pa.string()), ("value", pa.string()), ("txn", pa.string())]),
            pa.schema([("value", pa.string()), ("key", pa.string()), ("pnode", pa.string())]),
            pa.schema([("Key", pa.string()), ("value", pa.string()), ("pnode", pa.string())]),
            pa.schema([("key", pa.string()), ("key", pa.string()), ("pnode", pa.string())]),
            pa.schema([*SCHEMA, ("pnode", pa.string())]),
            pa.schema([("key", pa.large_string()), ("value", pa.string()), ("pnode", pa.string())]),
            pa.schema([("key", pa.string()), ("value", pa.binary()), ("pnode", pa.string())]),
            pa.schema([("key", pa.string()), ("value", pa.string()), ("pnode", pa.null())]),
            pa.schema(
                [("key", pa.string()), ("value", pa.dictionary(pa.int32(), pa.string())), ("pnode", pa.string())]
            ),
        ],
        ids=str,
    )
    def test_other_names_or_types_are_damage(self, schema):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema):
            pass
        data = sink.getvalue().to_pybytes()
        for decode in (decode_node, decode_root, decode_action_rows):
            with pytest.raises(Damaged, match="columns are not key, value and pnode"):
                decode(data, "node/x")

    def test_column_names_that_are_not_utf8_are_damage(self):
        # the schema stands twice: at the beginning of the file, and in its footer, which is what readers use
        data = encode_node(LEAF, 5).replace(b"pnode", b"p\xffode")
        for decode in (decode_node, decode_root, decode_action_rows):
            with pytest.raises(Damaged):
                decode(data, "node/x")


class TestRows:
    @pytest.mark.parametrize(
        "value",
        ["", "x", "-1", "+3", " 3", "3 ", "3.0", "0x3", "3\n", "٣", "³", "1_0", "9" * 19, "9" * 5000, "1e1", "\0"],
        ids=lambda value: ascii(value[:20]),
    )
    @pytest.mark.parametrize("key", ["n_keys", "created_at_millis"])
    def test_a_number_that_is_none_is_damage(self, key, value):
        rows = [(name, value if name == key else cell, pnode) for name, cell, pnode in ROOT_ROWS]
        with pytest.raises(Damaged, match=rf"its {key} is .*, not a number") as caught:
            decode_root(arrow(rows), "vn/x")
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 300

    @pytest.mark.parametrize("key", ["n_keys", "created_at_millis", "catalog_def"])
    def test_a_root_needs_its_system_rows(self, key):
        with pytest.raises(Damaged):
            decode_root(arrow([row for row in ROOT_ROWS if row[0] != key]), "vn/x")

    @pytest.mark.parametrize("n_keys", ["4", "7", "1000000", "9" * 18])
    @pytest.mark.parametrize("padding", [0, 2])
    def test_n_keys_too_large_is_damage(self, n_keys, padding):
        rows = [LEAF_ROWS[0], ("n_keys", n_keys, None), *LEAF_ROWS[2:], *[(None, None, None)] * padding]
        with pytest.raises(Damaged):
            decode_node(arrow(rows), "node/x")

    @pytest.mark.parametrize("n_keys", ["0", "1", "2"])
    def test_n_keys_too_small_hides_no_keys(self, n_keys):
        # only a root has rows behind its pivot table
        rows = [LEAF_ROWS[0], ("n_keys", n_keys, None), *LEAF_ROWS[2:]]
        with pytest.raises(Damaged):
            decode_node(arrow(rows, metadata={"olympia.sha256": digest_as_defined(rows)}), "node/x")
        with pytest.raises(Damaged):
            decode_node(arrow(rows), "node/x")

    def test_n_keys_too_small_in_a_root_shows_in_its_action_rows(self):
        rows = [*ROOT_ROWS[:4], ("n_keys", "1", None), *ROOT_ROWS[5:], *ACTION_ROWS]
        with pytest.raises(Damaged, match="not an action row"):
            decode_action_rows(arrow(rows), "vn/x")

    @pytest.mark.parametrize("row", [(None, "v", None), (None, None, "p"), ("k", None, None), ("k", "v", "p")])
    def test_rows_behind_the_pivot_table_are_action_rows_or_damage(self, row):
        with pytest.raises(Damaged, match="not an action row"):
            decode_action_rows(arrow([*ROOT_ROWS, *ACTION_ROWS, row]), "vn/x")

    @pytest.mark.parametrize(
        "keys",
        [
            ("b", "a"),
            ("a", "a"),
            ("a", "b", "b"),
            ("a", "c", "b"),
            ("\U00010000", "\uffff"),
            ("", ""),
            ("a", None),
            (None,),
        ],
        ids=ascii,
    )
    def test_keys_out_of_order_twice_or_missing_are_damage(self, keys):
        rows = [*LEAF_ROWS[:1], ("n_keys", str(len(keys)), None), LEAF_ROWS[2], *((key, "v", None) for key in keys)]
        with pytest.raises(Damaged):
            decode_node(arrow(rows), "node/x")
        with pytest.raises(Damaged):
            decode_node(arrow(rows, metadata={"olympia.sha256": digest_as_defined(rows)}), "node/x")

    @pytest.mark.parametrize("missing", [{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}])
    def test_some_children_and_some_none_are_damage(self, missing):
        pivot = [(key, value, None if at in missing else child) for at, (key, value, child) in enumerate(ROOT_ROWS[5:])]
        with pytest.raises(Damaged, match="some of its rows point to a child and some do not"):
            decode_root(arrow(ROOT_ROWS[:5] + pivot), "vn/x")

    def test_the_leftmost_row_has_no_value(self):
        with pytest.raises(Damaged, match="leftmost row"):
            decode_node(arrow([*LEAF_ROWS[:2], (None, "v", None), *LEAF_ROWS[3:]]), "node/x")

    @pytest.mark.parametrize(
        "rows",
        [
            [],
            LEAF_ROWS[:1],
            LEAF_ROWS[:2],
            [(None, None, None)],
            [LEAF_ROWS[0], *LEAF_ROWS],
            [("é", None, None), *LEAF_ROWS],
            [("created_at_millis", "6", None), *LEAF_ROWS],
        ],
    )
    def test_system_rows_missing_empty_or_twice_are_damage(self, rows):
        with pytest.raises(Damaged):
            decode_node(arrow(rows), "node/x")

    def test_a_node_is_no_root(self):
        with pytest.raises(Damaged, match="not a root"):
            decode_root(encode_node(LEAF, 5), "node/x")


def batches_at(data):
    """Return the positions of record batches. Each message begins with this marker: the schema first, the end last."""
    found = [at for at in range(0, len(data), 8) if data[at : at + 4] == b"\xff\xff\xff\xff"]
    return found[1:-1]


class TestDamage:
    @pytest.mark.parametrize("data", [b"", b"x", b"ARROW1", b"ARROW1\0\0", b"ARROW1\0\0ARROW1", b"\0" * 1000, b"PAR1"])
    def test_a_file_that_is_not_arrow_is_damage(self, data):
        for decode in (decode_node, decode_root, decode_action_rows):
            with pytest.raises(Damaged) as caught:
                decode(data, "node/x")
            assert caught.value.exit_code == 40

    def test_an_arrow_stream_is_no_arrow_file(self):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA) as writer:
            writer.write_batch(pa.record_batch([pa.array([], pa.string())] * 3, schema=SCHEMA))
        with pytest.raises(Damaged, match="not an Arrow file"):
            decode_node(sink.getvalue().to_pybytes(), "node/x")

    def test_a_file_cut_at_any_byte_is_damage(self):
        data = encode_root(ROOT, ACTIONS)
        for length in range(len(data)):
            with pytest.raises(Damaged):
                decode_root(data[:length], "vn/x")
            with pytest.raises(Damaged):
                decode_action_rows(data[:length], "vn/x")

    @pytest.mark.parametrize("node", [LEAF, INNER, Node((), ())], ids=["leaf", "inner", "empty"])
    def test_no_flipped_byte_makes_another_node(self, node):
        data = encode_node(node, 5)
        want = decode_node(data, "node/x")
        for flipped, where in all_flips(data):
            try:
                got = decode_node(flipped, "node/x")
            except (Damaged, Unsupported):
                continue
            except Exception as error:
                pytest.fail(f"{where}: {error!r}")
            assert (got.node, got.system) == (want.node, want.system), where

    def test_no_flipped_byte_makes_another_root(self):
        data = encode_root(ROOT, ACTIONS)
        for flipped, where in all_flips(data):
            try:
                got = decode_root(flipped, "vn/x")
            except (Damaged, Unsupported):
                continue
            except Exception as error:
                pytest.fail(f"{where}: {error!r}")
            assert (got.node, got.catalog_def, got.created_at_millis) == (INNER, "def/catalog/x", 1_794_744_000_123), (
                where
            )
            assert (got.previous_root, got.rollback_from_root) == ("vn/1", "vn/2"), where

    def test_no_flipped_byte_makes_other_actions(self):
        data = encode_root(ROOT, ACTIONS)
        for flipped, where in all_flips(data):
            try:
                got = decode_action_rows(flipped, "vn/x")
            except (Damaged, Unsupported):
                continue
            except Exception as error:
                pytest.fail(f"{where}: {error!r}")
            assert got == ACTIONS, where

    def test_flipped_key_sizes_are_detected_through_the_catalog_definition(self):
        store = MemoryStore()
        with Catalog.create(store).transaction() as transaction:
            transaction.create_namespace(NamespaceName("n" * 40))
        data = store.read("vn/1" + "0" * 31)
        sizes = decode_root(data, "vn/x").sizes
        seen = 0
        for flipped, where in all_flips(data, near=b'"namespace":'):
            try:
                if decode_root(flipped, "vn/x").sizes in (None, sizes):
                    continue
            except (Damaged, Unsupported):
                continue
            seen += 1
            try:
                Snapshot(store, RootFile.of(1, 32, flipped)).find(NamespaceName("n" * 40))
            except Damaged:
                continue
            except Exception as error:
                pytest.fail(f"{where}: {error!r}")
            pytest.fail(f"{where}: nobody noticed")
        assert seen

    def test_a_lookup_does_not_decode_the_action_rows(self):
        data = encode_root(ROOT, ACTIONS)
        tree, actions = batches_at(data)
        broken = bytearray(data)
        broken[actions : actions + 16] = b"\xee" * 16
        assert tree < actions
        assert decode_root(bytes(broken), "vn/x") == ROOT
        with pytest.raises(Damaged, match="record batch 1"):
            decode_action_rows(bytes(broken), "vn/x")

    def test_damage_to_the_body_of_an_uncompressed_file_is_found(self):
        data = arrow(LEAF_ROWS, metadata={"olympia.sha256": digest_as_defined(LEAF_ROWS)})
        for flipped, where in all_flips(data):
            try:
                got = decode_node(flipped, "node/x")
            except (Damaged, Unsupported):
                continue
            except Exception as error:
                pytest.fail(f"{where}: {error!r}")
            assert got.node == LEAF, where

    @pytest.mark.parametrize("seed", range(5))
    def test_random_damage_never_gets_past_as_another_exception(self, seed):
        chance = random.Random(seed)
        data = encode_root(ROOT, ACTIONS)
        for _ in range(400):
            broken = bytearray(data)
            for _ in range(chance.randint(1, 40)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            for decode in (decode_root, decode_action_rows):
                try:
                    decode(bytes(broken), "vn/x")
                except (Damaged, Unsupported):
                    continue
                except Exception as error:
                    pytest.fail(f"{error!r}")


def all_flips(data, near=None):
    """The data with one byte changed, in every place (or only about a mark), in several ways."""
    places = range(len(data)) if near is None else range(data.rindex(near) - 40, data.rindex(near) + 60)
    for at in places:
        for flip in FLIPS:
            flipped = bytearray(data)
            flipped[at] ^= flip
            yield bytes(flipped), f"byte {at} with {flip:#x}"
