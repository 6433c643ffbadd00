"""Names and references as people write them."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from olympia_cli.errors import InvalidName, InvalidReference
from olympia_cli.names import (
    Ago,
    AtExport,
    AtTime,
    AtVersion,
    Kind,
    Latest,
    NamespaceName,
    Oldest,
    TableName,
    ViewName,
    check_export_name,
    parse_duration,
    parse_reference,
    parse_table,
    parse_time,
    parse_view,
    span_text,
)

QUICK = settings(max_examples=200, deadline=None, derandomize=True)
FORBIDDEN = [chr(code) for code in (*range(0x21), 0x7F)]
SURROGATES = [chr(code) for code in (0xD800, 0xDBFF, 0xDC80, 0xDFFF)]
CHARACTERS = st.one_of(
    st.sampled_from(".\"/\\'%=~-_aAzZ0é漢\U0001f600\uffff\U0010ffff\x80\xa0\u2028"),
    st.characters(exclude_categories=["Cs"], exclude_characters=FORBIDDEN),
)
NAMES = st.text(CHARACTERS, min_size=1, max_size=20)

PARTS = st.text('a."', min_size=1, max_size=3)


class TestFullNames:
    @QUICK
    @given(NAMES, NAMES)
    @example(".", '"')
    @example('""', "..")
    @example('".".', '."')
    def test_a_printed_name_parses_to_the_same_name(self, namespace, name):
        assert parse_table(str(TableName(namespace, name))) == TableName(namespace, name)
        assert parse_view(str(ViewName(namespace, name))) == ViewName(namespace, name)

    @QUICK
    @given(st.tuples(PARTS, PARTS), st.tuples(PARTS, PARTS))
    def test_two_names_are_printed_alike_only_when_they_are_the_same(self, one, other):
        one, other = TableName(*one), TableName(*other)
        assert (str(one) == str(other)) == (one == other)

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("a.b", ("a", "b")),
            ('"a".b', ("a", "b")),
            ('a."b.c"', ("a", "b.c")),
            ('"a.b"."c.d"', ("a.b", "c.d")),
            ('"say_""hi"""."."', ('say_"hi"', ".")),
            ("a/b./c", ("a/b", "/c")),
            ("é.漢\U0001f600", ("é", "漢\U0001f600")),
            ("'a'.b", ("'a'", "b")),
        ],
    )
    def test_parts_are_quoted_only_when_they_must_be(self, text, parts):
        assert parse_table(text) == TableName(*parts)

    @pytest.mark.parametrize(
        "text",
        [
            *["", "a", ".", "..", "a.", ".b", "a..b", "a.b.", ".a.b", "a.b.c", "a.b.c.d", 'a."b".'],
            *['"', '""', '"".b', 'a.""', '"a', 'a"', '"a.b', 'a."b', 'a.b"', 'a"b.c', '"a"b.c', '"a" .b', '"a"".b'],
            *['"a.b"', '"a"."b"."c"', '"a"."b"x', "a b.c", "a. b", "a.b ", " a.b", "a.b\n", "a\t.b", "a.\x7f"],
            *['" ".b', 'a."\0"', "\ud800.b", "a.\udfff", '"a.\ud800".b'],
        ],
    )
    def test_anything_else_is_no_full_name(self, text):
        for parse in (parse_table, parse_view):
            with pytest.raises(InvalidName) as caught:
                parse(text)
            assert caught.value.exit_code == 2
            # what was typed is shown so that any terminal can print it
            assert str(caught.value).isprintable()

    @pytest.mark.parametrize("text", ["x" * 1_000_000, '"' * 1_000_001, "." * 1_000_000, ("y" * 1_000_000) + "\0.b"])
    def test_very_long_text_gives_a_short_message(self, text):
        with pytest.raises(InvalidName) as caught:
            parse_table(text)
        assert len(str(caught.value)) < 300

    def test_a_message_says_how_a_table_or_a_view_is_written(self):
        with pytest.raises(InvalidName, match=r"write namespace\.table"):
            parse_table("a")
        with pytest.raises(InvalidName, match=r"write namespace\.view"):
            parse_view("a")


class TestNames:
    @pytest.mark.parametrize("character", [*FORBIDDEN, *SURROGATES], ids=ascii)
    def test_forbidden_characters_are_refused_wherever_they_stand(self, character):
        for name in (character, "a" + character, character + "b", f"a{character}b"):
            for make in (
                lambda: NamespaceName(name),  # noqa: B023
                lambda: TableName(name, "t"),  # noqa: B023
                lambda: TableName("n", name),  # noqa: B023
                lambda: ViewName("n", name),  # noqa: B023
            ):
                with pytest.raises(InvalidName):
                    make()

    def test_an_empty_name_is_refused(self):
        for make in (lambda: NamespaceName(""), lambda: TableName("", "t"), lambda: ViewName("n", "")):
            with pytest.raises(InvalidName, match="must not be empty"):
                make()

    @QUICK
    @given(NAMES)
    def test_a_namespace_is_taken_literally(self, name):
        namespace = NamespaceName(name)
        assert (str(namespace), namespace.namespace, namespace.name) == (name, name, "")

    def test_kinds_are_the_numbers_of_the_format(self):
        kinds = [NamespaceName("n").kind, TableName("n", "t").kind, ViewName("n", "v").kind]
        assert [(int(kind), kind.word) for kind in [Kind.CATALOG, *kinds]] == [
            (0, "catalog"),
            (1, "namespace"),
            (2, "table"),
            (3, "view"),
        ]

    def test_a_table_is_not_the_view_of_the_same_name(self):
        assert TableName("a", "b") != ViewName("a", "b")


NOON = 1_794_744_000_000  # 2026-11-15 12:00 UTC


class TestReferences:
    @pytest.mark.parametrize(
        ("text", "reference"),
        [
            ("0", AtVersion(0)),
            ("12", AtVersion(12)),
            ("v12", AtVersion(12)),
            ("007", AtVersion(7)),
            ("999999999999", AtVersion(999_999_999_999)),
            ("latest", Latest()),
            ("latest~0", Latest(0)),
            ("latest~3", Latest(3)),
            ("oldest", Oldest()),
            ("5ms", Ago(5)),
            ("90s", Ago(90_000)),
            ("3m", Ago(180_000)),
            ("3min", Ago(180_000)),
            ("2h", Ago(7_200_000)),
            ("3d", Ago(259_200_000)),
            ("1w", Ago(604_800_000)),
            ("0s", Ago(0)),
            ("2026-11-15", AtTime(NOON - 12 * 3_600_000)),
            ("2026-11-15T12:00:00", AtTime(NOON)),
            ("2026-11-15T12:00:00Z", AtTime(NOON)),
            ("2026-11-15t12:00:00z", AtTime(NOON)),
            ("2026-11-15 12:00:00", AtTime(NOON)),
            ("2026-11-15T12:00", AtTime(NOON)),
            ("2026-11-15T12:00:00+00:00", AtTime(NOON)),
            ("2026-11-15T14:30:00+02:30", AtTime(NOON)),
            ("2026-11-15T04:00:00-08:00", AtTime(NOON)),
            ("2026-11-16T02:00:00+14:00", AtTime(NOON)),
            ("2026-11-15T12:00:00.5Z", AtTime(NOON + 500)),
            ("2026-11-15T12:00:00.001999Z", AtTime(NOON + 1)),
            ("2026-11-15T12:00:00.001999999Z", AtTime(NOON + 1)),
            ("1970-01-01", AtTime(0)),
            ("1969-12-31T23:59:59.999Z", AtTime(-1)),
            ("0001-01-01T00:00:00+14:00", AtTime(-62_135_647_200_000)),
            ("9999-12-31T23:59:59-14:00", AtTime(253_402_351_199_000)),
            ("2024-02-29", AtTime(1_709_164_800_000)),
            ("nightly", AtExport("nightly")),
            ("release-2026.1", AtExport("release-2026.1")),
            ("é漢\U0001f600", AtExport("é漢\U0001f600")),
            ("v", AtExport("v")),
            ("12x", AtExport("12x")),
            ("latest~x", AtExport("latest~x")),
        ],
    )
    def test_every_kind_is_read(self, text, reference):
        assert parse_reference(text) == reference

    @pytest.mark.parametrize(
        "text",
        [
            *["", " ", "a b", "12 ", " 12", "latest ", "latest\n", "12\n", "\0", "a\x7f", "2 h", "1\tw"],
            *["2026-13-01", "2026-02-30", "2025-02-29", "0000-01-01", "2026-11-15T", "2026-11-15Tnoon"],
            *["2026-11-15T25:00", "2026-11-15T12:60", "2026-11-15T12:00:00X", "2026-11-15T12:00:00+25:00"],
            *["2026-11-15T12:00:00Z\n", "2026-11-15T\ud800", "2026-11-15 "],
        ],
        ids=ascii,
    )
    def test_garbage_is_refused(self, text):
        with pytest.raises(InvalidReference) as caught:
            parse_reference(text)
        assert caught.value.exit_code == 2
        assert str(caught.value).isprintable()

    @pytest.mark.parametrize(
        "text", ["\ud800", "night\udcffly", "latest~\udc80"], ids=["alone", "inside", "behind latest~"]
    )
    def test_text_that_is_not_unicode_is_no_reference(self, text):
        # undecodable bytes on a command line come as lone surrogates; no definition can hold them
        with pytest.raises(InvalidReference):
            parse_reference(text)

    @pytest.mark.parametrize("digits", ["1" * 13, "9" * 5_000, "0" * 1_000_000])
    def test_huge_numbers_are_refused_at_once_and_in_few_words(self, digits):
        for text in (digits, "v" + digits, "latest~" + digits, digits + "w", digits + "ms"):
            with pytest.raises(InvalidReference, match="too large") as caught:
                parse_reference(text)
            assert len(str(caught.value)) < 300

    @QUICK
    @given(st.text(max_size=30))
    def test_any_text_is_a_reference_or_refused(self, text):
        try:
            reference = parse_reference(text)
        except InvalidReference:
            return
        assert not isinstance(reference, AtExport) or reference.name == text

    @QUICK
    @given(st.datetimes())
    def test_a_time_is_the_milliseconds_since_1970(self, time):
        millis = parse_time(time.isoformat())
        assert parse_time(time.isoformat(sep=" ")) == parse_time(time.isoformat().lower() + "z") == millis
        assert (millis - parse_time("1970-01-01T00:00")) % 1000 == time.microsecond // 1000
        assert millis // 86_400_000 == time.toordinal() - 719_163

    @pytest.mark.parametrize("text", ["", "2", "h", "2y", "2H", "-2h", "1.5h", "2h30m", " 2h", "٢h", "2h\n"])
    def test_an_invalid_duration_is_refused(self, text):
        with pytest.raises(InvalidReference, match="is not a duration"):
            parse_duration(text)


class TestExportNames:
    @pytest.mark.parametrize("name", ["nightly", "2026-q3", "before.the.fix", "latest-good", "é", "v1-rc", "x" * 200])
    def test_words_name_exports(self, name):
        check_export_name(name)
        assert parse_reference(name) == AtExport(name)

    @pytest.mark.parametrize(
        "name",
        [
            *["0", "12", "v12", "latest", "latest~0", "latest~3", "oldest", "2h", "3d", "1w", "5ms", "3min"],
            *["2026-11-15", "2026-11-15T12:00:00Z", "2026-11-15t12:00"],
        ],
    )
    def test_an_export_name_like_another_reference_is_refused(self, name):
        with pytest.raises(InvalidName, match="reads as another reference") as caught:
            check_export_name(name)
        assert caught.value.exit_code == 2

    @pytest.mark.parametrize("name", ["", " ", "a b", "a\n", "\x7f", "2026-13-01", "1" * 20, "v" + "9" * 20, "\ud800"])
    def test_an_invalid_export_name_is_refused(self, name):
        with pytest.raises(InvalidName):
            check_export_name(name)


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "0 minutes"),
        (60_000, "1 minute"),
        (3_599_999, "59 minutes"),
        (3_600_000, "1 hour"),
        (86_400_000, "1 day"),
        (400 * 86_400_000 + 5, "400 days"),
        (1_000_000 * 86_400_000, "1,000,000 days"),
    ],
)
def test_spans(millis, text):
    assert span_text(millis) == text
