"""Metadata files of DeltaCAT from bytes: what is sound is read, and of anything else it is said what is wrong."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from olympia_cli.importers.deltacat import index, metadata
from tests.helpers.deltacat_catalog import FOLDER, LEGACY, SMALL, pack, unpack

TXN = "1794787399012244117_ecfbe3bb-aae5-4d74-9e1e-291bf8abe83b"
FILE = f"{1:020}_create_{TXN}"
QUICK = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@QUICK
@given(VALUES)
def test_values_come_back(value):
    assert metadata.decode(pack(value)) == value


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_refused(data):
    try:
        metadata.decode(data)
    except metadata.Malformed:
        return


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x7f", 127),
        (b"\xff", -1),
        (b"\xe0", -32),
        (b"\xcc\xff", 255),
        (b"\xcd\x01\x00", 256),
        (b"\xd1\xff\x00", -256),
        (b"\xa3abc", "abc"),
        (b"\xd9\x03abc", "abc"),
        (b"\xc4\x01\x00", b"\0"),
        (b"\x92\x01\x90", [1, []]),
        (b"\x81\xa1a\x01", {"a": 1}),
        (b"\xdc\x00\x01\xc0", [None]),
        (b"\xde\x00\x01\xa1a\xc3", {"a": True}),
        (b"\xca\x3f\x80\x00\x00", 1.0),
    ],
)
def test_short_forms(data, value):
    assert metadata.decode(data) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "cut short"),
        (b"\xdd\xff\xff\xff\xff", "cut short"),
        (b"\xdf\xff\xff\xff\xff", "cut short"),
        (b"\xdb\xff\xff\xff\xffabc", "cut short"),
        (b"\x01\x02", "1 bytes follow"),
        (b"\xc1", "0xc1"),
        (b"\xd4\x01\x00", "0xd4"),
        (b"\xa1\xff", "UTF-8"),
        (b"\x81\x90\x01", "key"),
        (b"\x91" * 100 + b"\x90", "deeply"),
    ],
)
def test_malformed_msgpack_is_reported_with_its_reason(data, why):
    with pytest.raises(metadata.Malformed, match=why):
        metadata.decode(data)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (f"n/rev/1000000/1000/{FILE}.mpk", index.ObjectFile(("n",), 1, "create", TXN)),
        (f"n/t/1/s/p/7/rev/{FILE}.json", index.ObjectFile(("n", "t", "1", "s", "p", "7"), 1, "create", TXN)),
        (f"{'a' * 40}/{FILE}.x", index.NameEntry((), "a" * 40, 1, "create", TXN, "x")),
        (f"n/{'a' * 40}/1/{FILE}.x", index.NameEntry(("n",), "a" * 40, 1, "create", TXN, "x")),
        (f"txn/success/2026/11/16/00/03/{TXN}/17", index.TransactionFile(TXN, "success", 17)),
        (f"txn/success/{TXN}/17", index.TransactionFile(TXN, "success", 17)),
        (f"txn/failed/2026/11/16/00/03/{TXN}", index.TransactionFile(TXN, "failed")),
        (f"txn/running/{TXN}", index.TransactionFile(TXN, "running")),
        (f"txn/paused/{TXN}", index.TransactionFile(TXN, "paused")),
        ("data/p/x.pq", index.Elsewhere("data")),
        ("version/2.0.0.post4.1", index.Elsewhere("version")),
        (f"a/b/c/d/e/f/g/rev/{FILE}.mpk", None),
        (f"rev/{FILE}.mpk", None),
        (f"n/rev/{FILE}.txt", None),
        (f"n/rev/{'9' * 20}_create_{TXN}.mpk", None),
        (f"txn/success/{TXN}", None),
        (f"txn/success/{TXN}/{'9' * 20}", None),
        ("txn/other/x", None),
        ("README.md", None),
    ],
)
def test_paths(path, found):
    assert index.parse(path) == found


def shown(value):
    """Convert a value to the form of the dump, which has the length and the beginning of bytes."""
    if isinstance(value, dict):
        return {key: shown(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shown(inner) for inner in value]
    return f"<{len(value)} bytes {value[:24]!r}>" if isinstance(value, bytes) else value


def test_every_file_of_the_real_catalogs_is_read(tmp_path):
    read = {}
    for name in (SMALL, LEGACY):
        folder, _ = unpack(name, tmp_path)
        for file in (one for one in folder.rglob("*") if one.is_file()):
            path = file.relative_to(folder).as_posix()
            found = index.parse(path)
            assert found is not None, path
            if isinstance(found, index.ObjectFile):
                body = metadata.read_body(file.read_bytes(), path, len(found.object))
                read[type(body).__name__] = read.get(type(body).__name__, 0) + 1
            elif isinstance(found, index.TransactionFile):
                log = metadata.read_log(file.read_bytes(), path)
                assert (log.id, log.began_at) == (found.id, index.began_at(found.id))
                assert log.root in ("/srv/lake/small", "/srv/lake/legacy")
    assert read == {"Namespace": 9, "Table": 13, "TableVersion": 10, "Stream": 12, "Partition": 34, "Delta": 15}


def test_values_are_those_of_another_decoder(tmp_path):
    """The dump was not made with ours."""
    folder, _ = unpack(SMALL, tmp_path)
    dump = gzip.decompress((FOLDER / "small.dump.txt.gz").read_bytes()).decode()
    entries = re.findall(r"^## (\S+) \d+\n(.*?)(?=^## |\Z)", dump, re.DOTALL | re.MULTILINE)
    assert len(entries) == 65 + 19
    for path, text in entries:
        assert shown(metadata.read_map((folder / path).read_bytes(), path)) == json.loads(text), path


def body(**fields):
    return pack(fields)


@pytest.mark.parametrize(
    ("data", "depth", "why"),
    [
        (b"", 1, "it is empty"),
        (pack([1]), 1, "not a map"),
        (body(tableLocator={}), 1, "it is of a table, and its folder is that of a namespace"),
        (body(x=1), 1, "of a foreign thing"),
        (body(namespaceLocator={}, id="x"), 1, "it has no namespace"),
        (body(namespaceLocator=[], id="x"), 1, "its namespaceLocator is no dict"),
        (body(namespaceLocator={"namespace": 3}, id="x"), 1, "its namespace is no str"),
        (body(tableVersionLocator={"tableVersion": "1"}, schema="x"), 3, "its schema is no bytes"),
        (body(tableVersionLocator={"tableVersion": "1"}, partitionScheme={"keys": [1]}), 3, "a key of its partition"),
        (body(deltaLocator={"streamPosition": 1}, type="append", manifest={"entries": [1]}), 6, "a file in its"),
    ],
)
def test_a_body_that_is_none_is_refused(data, depth, why):
    with pytest.raises(metadata.Malformed, match=why):
        metadata.read_body(data, "x.mpk", depth)


def test_json_is_read_too():
    data = json.dumps({"namespaceLocator": {"namespace": "a"}, "id": "x"}).encode()
    assert metadata.read_body(data, "x.json", 1) == metadata.Namespace("x", "a", {})
    for broken in (b"{", b"[" * 100_000):
        with pytest.raises(metadata.Malformed, match="not JSON"):
            metadata.read_body(broken, "x.json", 1)
