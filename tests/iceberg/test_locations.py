"""Locations of files: the one reading of them, and that other parsers agree with it wherever it is taken."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import gcsfs
import pytest
import s3fs
from fsspec.implementations.local import LocalFileSystem
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from olympia_cli.errors import InvalidLocation, Refused
from olympia_cli.iceberg.locations import (
    LOCAL,
    Location,
    Reach,
    barred_folders,
    parse_folder,
    parse_location,
    parse_plain_location,
)


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("/w/t/m.json", Location(LOCAL, "w/t/m.json")),
        ("file:/w/t/m.json", Location(LOCAL, "w/t/m.json")),
        ("file:///w/t/m.json", Location(LOCAL, "w/t/m.json")),
        ("FILE:///w/t/m.json", Location(LOCAL, "w/t/m.json")),
        ("file://localhost/w/t/m.json", Location(LOCAL, "w/t/m.json")),
        ("file:////w//t/./m.json", Location(LOCAL, "w/t/m.json")),
        # names are literal: engines encode partition values themselves
        ("file:///w/day=2026%2D11/a b?c#d", Location(LOCAL, "w/day=2026%2D11/a b?c#d")),
        ("/w/a:b/m.json", Location(LOCAL, "w/a:b/m.json")),
        ("s3://lake/t/m.json", Location("s3://lake", "t/m.json")),
        ("s3a://lake/t/m%20.json", Location("s3://lake", "t/m%20.json")),
        ("S3N://lake/t/m.json", Location("s3://lake", "t/m.json")),
        ("gs://lake/t/m.json", Location("gs://lake", "t/m.json")),
        ("s3://lake/t//m.json", Location("s3://lake", "t//m.json")),
        ("hdfs://nn:8020/t/m.json", Location("hdfs://nn:8020", "t/m.json")),
    ],
)
def test_places(location: str, place: Location) -> None:
    assert parse_location(location) == place


@pytest.mark.parametrize(
    "location",
    [
        *("", "m.json", "w/m.json", "~/m.json", "file:m.json", "file://host/m.json"),
        *("s3://lake", "s3://lake/", "s3:lake/m", "s3://lake/w/"),
        *("/", "/w/", "/w/\0", "/w/\ud800"),
    ],
)
def test_a_location_without_a_file_is_refused(location: str) -> None:
    with pytest.raises(InvalidLocation):
        parse_location(location)


# What every other parser makes of a text: PyIceberg's two ways to files, and what they stand on


S3 = s3fs.S3FileSystem(anon=True, skip_instance_cache=True)


def _url(text: str) -> str:
    if text.startswith("/"):
        # a plain path is no URL: PyIceberg asks for its scheme alone
        assert not urlsplit(text).scheme
        return text
    found = urlsplit(text)
    assert not found.query
    assert not found.fragment
    return f"{found.netloc}{found.path}"


def _arrow(text: str) -> str:
    """PyIceberg's FileIO for Arrow. Of HDFS it gives the path alone."""
    scheme, host, path = PyArrowFileIO.parse_location(text)
    return f"{host}{path}" if scheme in ("hdfs", "viewfs") else path


def _fsspec(text: str) -> str:
    kind = {"s3": s3fs.S3FileSystem, "s3a": s3fs.S3FileSystem, "s3n": s3fs.S3FileSystem, "gs": gcsfs.GCSFileSystem}
    scheme = urlsplit(text).scheme
    if scheme not in kind:
        return str(LocalFileSystem._strip_protocol(text))
    stripped = kind[scheme]._strip_protocol(text)
    if scheme == "gs":
        bucket, key, generation = gcsfs.GCSFileSystem._split_path(text)
    else:
        bucket, key, generation = S3.split_path(text)
    assert generation is None
    assert f"{bucket}/{key}" == stripped
    return str(stripped)


def check_parsers_agree(text: str, location: Location) -> None:
    """Every parser that may see the text reads it as this location."""
    meant = f"/{location.path}" if location.store == LOCAL else f"{location.store.partition('://')[2]}/{location.path}"
    scheme = text.partition(":")[0] if location.store != LOCAL else "file"
    readers = [_url, _arrow]
    if scheme in ("file", "s3", "s3a", "s3n", "gs"):
        readers.append(_fsspec)
    for read in readers:
        assert read(text) == meant, (read.__name__, text)
    if location.store == LOCAL:
        # what Arrow itself makes of a plain path is the path; of a URI, the same decoded
        found, path = FileSystem.from_uri(f"/{location.path}")
        assert (found.type_name, path) == ("local", meant)
        assert os.path.normpath(meant) == meant


PIECES = [
    "a", "b c", "é", "日本", "..", ".", "", "%2e", "%2F", "%252f", "%5C", "%20", "%00", "%C3%A9", "%", "?", "#", "#1",
    "*", "?versionId=1", "[a]", ";x", "::", "~", "@", ":", "file:", "s3:", "=", "&", "+", "!", "\\", "\t", "\n", "\x85",
    "\u2028", "\uff0f", "\uff0e\uff0e", "localhost", "\ud800",
]  # fmt: skip
PARTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), min_size=1, max_size=3).map("".join)
BEGINNINGS = [
    "", "/", "//", "~/", "file:", "file:/", "file://", "file:///", "file:////", "FILE:///", "file://localhost/",
    "s3://lake/", "s3a://lake/", "s3n://lake.x/", "S3://lake/", "s3://u@lake/", "s3://u:p@lake/", "s3://lake:80/",
    "s3://[::1]/", "s3://ﬁ/", "s3://.lake/", "s3:/lake/", "gs://lake/", "hdfs://nn:8020/", "viewfs://x/",
    "abfss://c@account.host/", "abfss://account.host/",
]  # fmt: skip
TEXTS = st.tuples(st.sampled_from(BEGINNINGS) | st.text(max_size=8), st.lists(PARTS, min_size=1, max_size=4)).map(
    lambda parts: parts[0] + "/".join(parts[1])
)


@settings(max_examples=1_500)
@given(TEXTS)
@example("file:///a/b;c")
@example("s3://lake/a?versionId=1")
@example("/a/%2e%2e/b")
def test_a_location_that_is_taken_from_a_client_is_one_place_to_every_parser(text: str) -> None:
    try:
        location = parse_plain_location(text)
    except InvalidLocation:
        return
    if location.path:
        check_parsers_agree(text, location)
        assert parse_location(text) == location


@settings(max_examples=1_500)
@given(TEXTS)
@example("file:///w/day=2026%2D11/a b?c#d")
@example("s3://lake/a[1]*")
def test_the_text_of_a_location_is_that_location_to_every_parser(text: str) -> None:
    """Whatever a writer left: files are opened by this text."""
    try:
        location = parse_location(text)
        plain = location.plain_text()
    except InvalidLocation:
        return
    check_parsers_agree(plain, location)
    assert parse_location(plain) == location


@settings(max_examples=1_000)
@given(TEXTS, st.sampled_from(["/lake/data/sales", "s3://lake/data/sales", "file:///lake/#1/sales", "/lake/a/../b"]))
def test_every_location_in_reach_is_below_the_given_folder(text: str, folder: str) -> None:
    reach = Reach((folder,))
    for location in (text, f"{folder}/{text}", f"{folder}{text}"):
        try:
            found = reach.named(location, "it")
        except (InvalidLocation, Refused):
            continue
        root = parse_folder(folder)
        assert found.is_below(root)
        assert found.root == root.path
        below = found.folder[1]
        assert f"{root.path}/{below}".rstrip("/") == found.path
        assert not {"..", "."} & set(below.split("/"))


def test_a_folder_is_not_its_namesake() -> None:
    reach = Reach(("/w/sales", "s3://lake/sales"))
    for text in ("/w/sales2/t", "/w/sale", "s3://lake/sales2/t", "s3://lake2/sales/t", "gs://lake/sales/t"):
        with pytest.raises(Refused):
            reach.named(text, "it")
    assert reach.named("s3a://lake/sales/t", "it") == Location("s3://lake", "sales/t")
    assert reach.named("file:/w/sales/t", "it").folder == ("/w/sales", "t")


def test_metadata_in_a_callers_own_folder_opens_no_other_folder() -> None:
    reach = Reach(("/w/sales",))
    for metadata, opened in (("/w/sales/t/m.json", False), ("/w/sales/../sales/m.json", False), ("/w/hr/m.json", True)):
        found = reach.of_object(metadata, ["/w/hr/t", "file:///w/sales/a?b", "/w/sales/c#d", ""])
        assert found.folders == reach.folders
        assert found.holds("/w/hr/t/x") is opened
        # inside, also what programs read differently is taken as it was written
        assert found.named("file:///w/sales/a?b/x", "it") == Location(LOCAL, "w/sales/a?b/x")
        assert found.named("/w/sales/c#d/x", "it") == Location(LOCAL, "w/sales/c#d/x")
        if not opened:
            with pytest.raises(Refused):
                found.named("/w/hr/t/x", "it")
            with pytest.raises(Refused):
                found.check_existing("/w/hr/t/x", "it")
        found.check_existing("/w/sales/./x", "it")


@pytest.mark.parametrize("catalog", ["/lake/catalog", "s3://lake/catalog", "memory://lake", "/lake/a?b#c d"])
def test_no_location_is_among_the_files_of_the_catalog(catalog: str) -> None:
    reach = Reach(barred=barred_folders(catalog)).also([f"{catalog}/data"])
    for path in ("vn", "vn/01", "node/x/y", "def", "dtxn/x", "ops/expire"):
        with pytest.raises((Refused, InvalidLocation)):
            reach.named(f"{catalog}/{path}", "it")
    assert reach.named(f"{catalog}/data/vn", "it").path.endswith("data/vn")
    assert reach.named("/lake/catalog2/vn", "it") == Location(LOCAL, "lake/catalog2/vn")
