"""Object keys: what sorts and finds everything in the tree."""

from contextlib import suppress
from itertools import repeat

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from olympia_cli.errors import Damaged, InvalidName
from olympia_cli.format.keys import KeyCodec, after_prefix, encode_type_id, utf16_units
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName

QUICK = settings(max_examples=200, deadline=None, derandomize=True)
FORBIDDEN = [chr(code) for code in (*range(0x21), 0x7F)]
LEGAL_ASCII = [chr(code) for code in range(0x21, 0x7F)]
CHARACTERS = st.one_of(
    st.sampled_from("aAbz!~=\x80\xa0é\u07ff\u0800漢\ud7ff\ue000\ufffd\ufffe\uffff\U00010000\U0001f600\U0010ffff"),
    st.characters(exclude_categories=["Cs"], exclude_characters=FORBIDDEN),
)
NAMES = st.text(CHARACTERS, min_size=1, max_size=12)
EIGHT = KeyCodec(8, 8, 8)


def objects(namespaces=NAMES, names=NAMES):
    return st.one_of(
        st.builds(NamespaceName, namespaces),
        st.builds(TableName, namespaces, names),
        st.builds(ViewName, namespaces, names),
    )


def units(name, java):
    """The length of a name as the format counts it, and as the Java SDK does."""
    return len(name.encode("utf-16-le", "surrogatepass")) // 2 if java else len(name.encode())


class TestTypeIds:
    @pytest.mark.parametrize(
        ("type_id", "encoded"),
        [
            *[(0, "A==="), (1, "B==="), (2, "C==="), (3, "D==="), (4, "E===")],
            *[(25, "Z==="), (26, "a==="), (51, "z==="), (52, "0==="), (61, "9==="), (62, "+==="), (63, "-===")],
            *[
                (64, "BA=="),
                (65, "BB=="),
                (64 * 64 - 1, "--=="),
                (64 * 64, "BAA="),
                (64**3, "BAAA"),
                (64**4 - 1, "----"),
            ],
        ],
    )
    def test_type_ids_are_in_base_64_with_padding(self, type_id, encoded):
        assert encode_type_id(type_id) == encoded


class TestKeys:
    @pytest.mark.parametrize(
        ("name", "key"),
        [
            (NamespaceName("default"), "B===default "),
            (TableName("default", "table"), "C===default table   "),
            (ViewName("default", "view"), "D===default view    "),
            (NamespaceName("12345678"), "B===12345678"),
            (TableName("12345678", "x"), "C===12345678x       "),
            (NamespaceName("é"), "B===é      "),
            (NamespaceName("漢漢"), "B===漢漢  "),
            (NamespaceName("\U0001f600\U0001f600"), "B===\U0001f600\U0001f600"),
        ],
    )
    def test_the_examples_of_the_format_with_sizes_of_8(self, name, key):
        assert EIGHT.encode(name) == key
        assert EIGHT.decode(key, "node/x") == name

    def test_each_kind_has_its_own_size(self):
        keys = KeyCodec(3, 4, 5)
        assert keys.encode(NamespaceName("n")) == "B===n  "
        assert keys.encode(TableName("n", "t")) == "C===n  t   "
        assert keys.encode(ViewName("n", "v")) == "D===n  v    "

    @pytest.mark.parametrize("character", ["a", "é", "漢", "\U0001f600", "\U0010ffff"], ids=ascii)
    @pytest.mark.parametrize("java", [False, True])
    def test_a_name_fits_up_to_the_last_unit_and_not_one_more(self, character, java):
        name = character * 7
        size = units(name, java)
        keys = KeyCodec(size, size, size, java)
        for of in (NamespaceName(name), TableName(name, name), ViewName(name, name)):
            key = keys.encode(of)
            assert " " not in key
            assert keys.decode(key, "node/x") == of
        for of in (NamespaceName(name + "a"), TableName("n", name + "a"), ViewName("n", name + "a")):
            with pytest.raises(InvalidName, match=f"this catalog allows {size}") as caught:
                keys.encode(of)
            assert caught.value.exit_code == 2
        with pytest.raises(InvalidName):
            keys.prefix(Kind.TABLE, name + "a")

    def test_a_name_far_too_long_gives_a_short_message(self):
        with pytest.raises(InvalidName) as caught:
            EIGHT.encode(NamespaceName("\U0001f600" * 1_000_000))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1_000

    @pytest.mark.parametrize("character", LEGAL_ASCII)
    def test_every_legal_ascii_character_can_stand_in_a_name(self, character):
        for text in (character, character * 8, f"a{character}", f"{character}a"):
            for name in (NamespaceName(text), TableName(text, text), ViewName(text, text)):
                assert EIGHT.decode(EIGHT.encode(name), "node/x") == name

    @QUICK
    @given(objects(), st.integers(0, 5), st.booleans())
    def test_keys_read_back_as_the_names_they_came_from(self, name, room, java):
        sizes = (units(part, java) + room for part in (name.namespace, name.name or "t", name.name or "v"))
        keys = KeyCodec(*sizes, java=java)
        key = keys.encode(name)
        assert keys.decode(key, "node/x") == name
        # all keys of a kind are equally long, in the unit that the codec counts
        assert units(key, java) == 4 + keys.namespace_size + (0 if name.kind is Kind.NAMESPACE else keys.table_size)

    @pytest.mark.parametrize(
        ("name", "ours", "javas"),
        [
            ("é", "B===é  ", "B===é   "),
            ("漢", "B===漢 ", "B===漢   "),
            ("\U0001f600", "B===\U0001f600", "B===\U0001f600  "),
        ],
    )
    def test_the_java_sdk_counts_utf_16_units(self, name, ours, javas):
        assert KeyCodec(4, 4, 4).encode(NamespaceName(name)) == ours
        # compared as booleans: keys of that kind hold lone surrogates, which no report can carry
        assert (KeyCodec(4, 4, 4, java=True).encode(NamespaceName(name)) == utf16_units(javas)) is True
        if ours != javas:
            with pytest.raises(Damaged):
                KeyCodec(4, 4, 4).decode(javas, "node/x")
            with pytest.raises(Damaged):
                KeyCodec(4, 4, 4, java=True).decode(utf16_units(ours), "node/x")


class TestOrder:
    @QUICK
    @given(objects(), objects())
    @example(NamespaceName("\uffff"), NamespaceName("\U00010000"))
    @example(NamespaceName("!"), NamespaceName("\U0010ffff"))
    @example(NamespaceName("\ud7ff"), NamespaceName("\ue000"))
    @example(NamespaceName("a"), NamespaceName("a!"))
    def test_text_and_its_bytes_sort_alike(self, one, other):
        keys = KeyCodec(48, 48, 48)
        first, second = keys.encode(one), keys.encode(other)
        assert (first < second) == (first.encode() < second.encode())

    @QUICK
    @given(NAMES, NAMES)
    def test_namespaces_sort_by_the_bytes_of_their_names(self, one, other):
        keys = KeyCodec(48, 48, 48)
        assert (keys.encode(NamespaceName(one)) < keys.encode(NamespaceName(other))) == (one.encode() < other.encode())

    def test_kinds_sort_one_after_the_other(self):
        names = [NamespaceName("z"), TableName("a", "b"), ViewName("a", "b")]
        assert [EIGHT.encode(name) for name in names] == sorted(EIGHT.encode(name) for name in names)


class TestPrefixes:
    def test_the_prefix_of_a_is_not_one_of_ab(self):
        prefix = EIGHT.prefix(Kind.TABLE, "a")
        assert EIGHT.encode(TableName("a", "t")).startswith(prefix)
        assert not EIGHT.encode(TableName("ab", "t")).startswith(prefix)

    @QUICK
    @given(NAMES, st.text(CHARACTERS, max_size=3), NAMES, st.sampled_from([Kind.TABLE, Kind.VIEW]), st.booleans())
    def test_a_prefix_takes_in_its_own_namespace_and_no_other(self, namespace, more, name, kind, java):
        keys = KeyCodec(64, 48, 48, java)
        make = TableName if kind is Kind.TABLE else ViewName
        prefix = keys.prefix(kind, namespace)
        assert keys.encode(make(namespace, name)).startswith(prefix)
        assert keys.encode(make(namespace + more, name)).startswith(prefix) == (not more)
        assert keys.encode(make(namespace, name)).startswith(keys.prefix(kind))

    @QUICK
    @given(NAMES, objects(), st.sampled_from([Kind.TABLE, Kind.VIEW]))
    def test_the_range_of_a_prefix_holds_exactly_its_keys(self, namespace, name, kind):
        keys = KeyCodec(48, 48, 48)
        prefix, key = keys.prefix(kind, namespace), keys.encode(name)
        assert (prefix <= key < after_prefix(prefix)) == key.startswith(prefix)

    @pytest.mark.parametrize(
        "last",
        ["a", "~", "é", "\ud7fe", "\ud7ff", "\ue000", "\uffff", "\U0001f600", "\U0010fffe", "\U0010ffff"],
        ids=ascii,
    )
    def test_a_prefix_has_an_end_for_any_last_character(self, last):
        size = len(last.encode())
        keys = KeyCodec(size, 8, 8)
        prefix = keys.prefix(Kind.TABLE, last)
        assert prefix[-1] == last
        end = after_prefix(prefix)
        end.encode()
        assert keys.encode(TableName(last, "\U0010ffff\U0010ffff")) < end
        assert end <= keys.prefix(Kind.VIEW)


class TestDamage:
    @pytest.mark.parametrize(
        "key",
        [
            *["", "B", "B===", "A===x       ", "E===x       ", "b===x       ", "B==x        ", "BA==x       "],
            *["B===default", "B===default  ", "B===default  \n", "B===default\t", "B=== default", "B===        "],
            *["B===de ault ", "B===defaul\x7f ", "B===default\0", "B===éééé ", "B===漢漢漢", "B===\U0001f600    x"],
            *[
                "C===default ",
                "C===default table  ",
                "C===default table    ",
                "C===default         ",
                "C===        table   ",
            ],
            *["C===default  table  ", "D===default view", "catalog_def", "n_keys"],
            # the cut between the names falls inside a character
            *["C===abcdefg漢x     ", "C===abcdefgétable  "],
        ],
        ids=ascii,
    )
    def test_damaged_keys_are_named_with_their_file(self, key):
        with pytest.raises(Damaged, match=r"^node/x: the key ") as caught:
            EIGHT.decode(key, "node/x")
        assert caught.value.exit_code == 40
        assert str(caught.value).isascii()

    @pytest.mark.parametrize(
        "key", ["B===abc\U0001f600", "B===\U0001f600\U0001f600 ", "C===abc\U0001f600bcd "], ids=ascii
    )
    def test_so_are_keys_of_the_java_sdk(self, key):
        with pytest.raises(Damaged):
            KeyCodec(4, 4, 4, java=True).decode(key, "node/x")

    def test_a_very_long_key_gives_a_short_message(self):
        for key in ("B===" + "x" * 1_000_000, "\U0001f600" * 1_000_000):
            with pytest.raises(Damaged) as caught:
                EIGHT.decode(key, "node/x")
            assert len(str(caught.value)) < 1_000

    @QUICK
    @given(st.text(st.one_of(CHARACTERS, st.sampled_from(" =BCD")), max_size=24), st.booleans())
    def test_every_key_that_decodes_encodes_to_itself(self, text, java):
        keys = KeyCodec(8, 8, 8, java)
        for key in (text, "B===" + text, "C===" + text):
            try:
                name = keys.decode(key, "node/x")
            except Damaged:
                continue
            assert keys.encode(name) == key

    @QUICK
    @given(objects(st.text(CHARACTERS, min_size=1, max_size=2), st.text(CHARACTERS, min_size=1, max_size=2)), st.data())
    def test_another_key_is_never_read_as_the_same_name(self, name, data):
        key = EIGHT.encode(name)
        at = data.draw(st.integers(0, len(key) - 1))
        other = key[:at] + data.draw(st.sampled_from(["", " ", "x", "  ", "é"])) + key[at + 1 :]
        assume(other != key)
        with suppress(Damaged):
            assert EIGHT.decode(other, "node/x") != name


def answer(ask):
    """Return the result: a list, or the code and the text of the damage."""
    try:
        return list(ask())
    except Damaged as damaged:
        return damaged.code, str(damaged)


class TestLists:
    """Names of one namespace, many at a time: the same answer as one after the other, damage included."""

    RESTS = st.lists(
        st.one_of(
            NAMES.filter(lambda name: len(name.encode()) <= 8).map(lambda name: name + " " * (8 - len(name.encode()))),
            st.text(st.one_of(CHARACTERS, st.sampled_from(" \t\x1f\x85ab")), min_size=6, max_size=9),
        ),
        max_size=4,
    )

    @QUICK
    @given(st.sampled_from(["ns", "é", "eightlon"]), RESTS, st.sampled_from([Kind.TABLE, Kind.VIEW]))
    @example("ns", ["table   ", "eightlon"], Kind.TABLE)
    @example("ns", ["table\t  ", " table  "], Kind.TABLE)
    @example("ns", ["a       ", "        "], Kind.TABLE)
    @example("ns", ["a b     ", "ninelong "], Kind.TABLE)
    @example("ns", ["a       ", "ninelongs"], Kind.TABLE)
    def test_names_of_a_list_equal_its_keys_decoded_singly(self, namespace, rests, kind):
        prefix = EIGHT.prefix(kind, namespace)
        keys = [prefix + rest for rest in rests]
        expected = answer(lambda: [EIGHT.decode(key, "node/x").name for key in keys])
        assert answer(lambda: EIGHT.names(keys, prefix, "node/x")) == expected

    @QUICK
    @given(st.lists(st.tuples(st.sampled_from(["ns", "nt", "é", "eightlon"]), RESTS), max_size=4), st.booleans())
    @example([("ns", ["a       ", "b       "]), ("nt", ["a       ", "b       "])], False)
    @example([("ns", ["a       ", "\u00e9      ", "c       ", "d\t      "])], False)
    @example([("ns", ["a       ", "b       ", "ninelongs"]), ("é", ["a       "])], False)
    @example([("ns", ["a       ", "b       ", "eightlon"]), ("é", ["a b     "])], True)
    def test_keys_of_several_namespaces_too(self, namespaces, java):
        codec = KeyCodec(8, 8, 8, java)
        keys = [codec.encode(NamespaceName(namespace)) for namespace, _ in namespaces if len(namespace) < 8]
        keys += [codec.prefix(Kind.TABLE, namespace) + rest for namespace, rests in namespaces for rest in rests]
        keys += [codec.prefix(Kind.VIEW, namespace) + rest for namespace, rests in namespaces for rest in rests[:1]]
        keys.sort()
        expected = answer(lambda: [codec.decode(key, "node/x") for key in keys])
        assert answer(lambda: codec.decode_many(keys, "node/x")) == expected
        texts = answer(lambda: [(name.namespace, name.name) for name in map(codec.decode, keys, repeat("node/x"))])
        groups = answer(lambda: codec.names_by_namespace(keys, "node/x"))
        if isinstance(groups, list):
            groups = [(namespace, name) for namespace, names in groups for name in names]
        assert groups == texts
        kinds = answer(lambda: [(name.kind, name.namespace) for name in map(codec.decode, keys, repeat("node/x"))])
        spans = answer(lambda: codec.spans(keys, "node/x"))
        if isinstance(spans, list):
            spans = [(kind, namespace) for kind, namespace, count in spans for _ in range(count)]
        assert spans == kinds
