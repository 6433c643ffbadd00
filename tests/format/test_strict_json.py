"""Accepted JSON: other programs can read it, and it can be written again unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from olympia_cli.format.strict_json import read_json, read_request

NO_JSON = [
    b"", b"{", b"NaN", b"Infinity", b'{"a": -Infinity}', b"[1e999]", b"[-1e999]", b"[1e400, 1]", b"01", b"1.", b"'a'",
    b"{a: 1}", b"[1,]", b"// x\n1", b'"\n"', b"\xff\xfe", b'"\xed\xa0\x80"', b'"\xc0\xaf"', '{"a": 1}'.encode("utf-16"),
    b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"1 2", b"\0",
]  # fmt: skip
NO_REQUEST = [
    b'{"a": 1, "a": 1}', b'{"a": 1, "\\u0061": 2}', b'[{"b": {"a": 1, "c": 2, "a": 3}}]', b"[9223372036854775808]",
    b"[-9223372036854775809]", b'"\\ud800"', b'{"\\uDFFF": 1}', b'"\\ud83d \\ude00"', b'"\\ude00\\ud83d"',
]  # fmt: skip
JSON: list[Any] = [
    None, True, 0, -0.0, 1.5e300, 5e-324, 2**63 - 1, -(2**63), "", "\U0001f600", "\0\x7f", "\\ud800", [], {}, [[]],
    {"": {"a": [1, "b", None]}},
]  # fmt: skip


def told(error: pytest.ExceptionInfo[ValueError]) -> str:
    # what goes into an error must be printable
    return str(error.value).encode().decode()


@pytest.mark.parametrize("data", NO_JSON, ids=lambda data: repr(data[:20]))
def test_invalid_json_is_refused(data):
    for read in (read_json, read_request):
        with pytest.raises(ValueError) as error:  # noqa: PT011
            read(data)
        assert told(error)


@pytest.mark.parametrize("data", NO_REQUEST, ids=repr)
def test_lenient_json_is_accepted_in_files_but_not_requests(data):
    """Others read it as they can: the value can be written again."""
    value = read_json(data)
    assert read_json(json.dumps(value)) == value
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read_request(data)
    assert told(error)


@pytest.mark.parametrize("value", JSON, ids=repr)
def test_json_is_read_as_it_was_written(value):
    for escaped in (True, False):
        text = json.dumps(value, ensure_ascii=escaped)
        for data in (text, text.encode(), b"\xef\xbb\xbf" + text.encode()):
            for read in (read_json, read_request):
                assert json.dumps(read(data)) == json.dumps(value)


def test_half_of_a_character_in_a_text_that_is_no_bytes():
    with pytest.raises(ValueError, match=r"'\\ud800' is half of a character"):
        read_request('"\ud800"')


def test_depth_is_an_error_of_the_document_wherever_it_begins():
    """The check for half a character goes as deep as the reader does."""
    for depth in range(900, 1100):
        try:
            read_request("[" * depth + '"\\ud83d\\ude00"' + "]" * depth)
        except ValueError as error:
            assert "too deeply" in str(error)  # noqa: PT017
            return
    raise AssertionError("nothing was too deep")


def test_many_keys_are_compared_in_one_pass():
    """A request of 16 MiB must not keep the server busy for hours."""
    text = "{" + ",".join(f'"{number}":0' for number in range(200_000)) + ',"199999":0}'
    with pytest.raises(ValueError, match="'199999' is given twice"):
        read_request(text)
