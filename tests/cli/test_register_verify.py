"""`table register --verify` opens the metadata before it is registered."""

from __future__ import annotations

import gzip
import json

import pytest

METADATA = {"format-version": 2, "table-uuid": "u", "location": "s3://lake/t", "last-column-id": 1, "schemas": []}


@pytest.fixture
def register(olympia):
    return lambda location: olympia(
        "table", "register", "sales.verified", "--metadata-location", str(location), "--verify"
    )


@pytest.mark.parametrize("compress", [False, True])
def test_metadata_is_registered(register, olympia, tmp_path, compress):
    data = json.dumps(METADATA).encode()
    (tmp_path / "v1.metadata.json").write_bytes(gzip.compress(data) if compress else data)
    register(tmp_path / "v1.metadata.json").ok()
    shown = olympia("table", "show", "sales.verified", "--json").ok().json
    assert shown["metadata_location"] == str(tmp_path / "v1.metadata.json")


def test_half_of_a_character(register, tmp_path):
    """PyIceberg could not open the table."""
    for text, code in (("\ud800", 40), ("\U0001f600", 0)):
        (tmp_path / "v1.metadata.json").write_text(json.dumps({**METADATA, "properties": {"comment": text}}))
        done = register(tmp_path / "v1.metadata.json")
        assert done.exit_code == code
        assert ("is half of a character" in done.stderr) == bool(code)


def test_missing_metadata_is_not_registered(register, olympia, tmp_path):
    register(tmp_path / "nothing.json").failed(10, "no metadata at")
    olympia("table", "show", "sales.verified").failed(10)


@pytest.mark.parametrize(
    "data",
    [b"", b"junk", b"[]", b"{}", b"\x1f\x8bjunk", b'{"format-version": 9}', b'{"format-version": 2}', b"[" * 100_000],
)
def test_invalid_metadata_is_not_registered(register, tmp_path, data):
    (tmp_path / "x.json").write_bytes(data)
    register(tmp_path / "x.json").failed(40)


def test_a_place_that_is_no_file(register):
    register("nowhere").failed(2)
    register("ftp://host/x.json").failed(2)
