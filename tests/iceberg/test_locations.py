"""What engines write as locations."""

from __future__ import annotations

import pytest

from olympia_cli.errors import InvalidLocation
from olympia_cli.iceberg.locations import LOCAL, Place, place_of


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("/w/t/m.json", Place(LOCAL, "w/t/m.json")),
        ("file:/w/t/m.json", Place(LOCAL, "w/t/m.json")),
        ("file:///w/t/m.json", Place(LOCAL, "w/t/m.json")),
        ("FILE:///w/t/m.json", Place(LOCAL, "w/t/m.json")),
        ("file://localhost/w/t/m.json", Place(LOCAL, "w/t/m.json")),
        ("file:////w//t/./m.json", Place(LOCAL, "w/t/m.json")),
        # names are literal: engines encode partition values themselves
        ("file:///w/day=2026%2D11/a b?c#d", Place(LOCAL, "w/day=2026%2D11/a b?c#d")),
        ("/w/a:b/m.json", Place(LOCAL, "w/a:b/m.json")),
        ("s3://lake/t/m.json", Place("s3://lake", "t/m.json")),
        ("s3a://lake/t/m%20.json", Place("s3://lake", "t/m%20.json")),
        ("S3N://lake/t/m.json", Place("s3://lake", "t/m.json")),
        ("gs://lake/t/m.json", Place("gs://lake", "t/m.json")),
        ("s3://lake/t//m.json", Place("s3://lake", "t//m.json")),
        ("hdfs://nn:8020/t/m.json", Place("hdfs://nn:8020", "t/m.json")),
    ],
)
def test_places(location: str, place: Place) -> None:
    assert place_of(location) == place


@pytest.mark.parametrize(
    "location",
    [
        *("", "m.json", "w/m.json", "~/m.json", "file:m.json", "file://host/m.json"),
        *("s3://lake", "s3://lake/", "s3:lake/m", "s3://lake/w/"),
        *("/", "/w/", "/w/\0", "/w/\ud800"),
    ],
)
def test_what_names_no_file(location: str) -> None:
    with pytest.raises(InvalidLocation):
        place_of(location)
