"""Locations that clients name: nothing outside of a token's folders is read, written or deleted by way of one."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import TableName
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.open import open_store
from tests.fuzz.locations import DOORS, LONG, MARK, SCHEMA, World, spellings, world
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.serving import serving

UP = 40 * "/.."


@pytest.fixture(scope="module")
def here() -> Iterator[World]:
    with world() as found:
        yield found


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("cut", ["?", "#"])
@pytest.mark.parametrize("scheme", ["file://", "file:", "FILE://", ""])
def test_a_failed_write_deletes_no_file_of_others(here: World, door: str, cut: str, scheme: str) -> None:
    """The location is inside when it is read as a path, and a file of others when it is read as a URL."""
    targets = ("../../../victim/secret.txt", "../../vn/latest", "../hr")
    for target in targets:
        location = f"{scheme}{here.own}/{target}{cut}{UP}{here.own}/{LONG}"
        answer = DOORS[door](here, location)
        assert (answer.status_code, here.harm()) == (400, []), answer.text
        assert MARK not in answer.text


def test_random_spellings_lead_nowhere_else(here: World) -> None:
    for number, location in enumerate(itertools.islice(spellings(here, 2026), 640)):
        answer = DOORS[list(DOORS)[number % len(DOORS)]](here, location)
        assert answer.status_code not in (500, 504), (location, answer.text)
        assert MARK not in answer.text, location
    assert here.harm() == []


@pytest.mark.parametrize(
    ("end", "named"),
    [
        ("a?b", "'?'"),
        ("a#b", "'#'"),
        ("a\\b", "'\\\\'"),
        ("a\nb", "'\\n'"),
        ("a\x7fb", "'\\x7f'"),
        ("a\x85b", "'\\x85'"),
        ("../x", "'..'"),
        ("./x", "'.'"),
        ("a//b", "'//'"),
        ("a%2Fb", "'%2F'"),
        ("a%5cb", "'%5c'"),
        ("%2e%2e/b", "'%2e'"),
        ("a%252Fb", "'%252F'"),
    ],
)
def test_the_answer_names_the_character_that_is_refused(here: World, end: str, named: str) -> None:
    for door in ("the location of a new table", "set-location", "register", "the location of a namespace"):
        answer = DOORS[door](here, f"{here.own}/{end}")
        assert answer.status_code == 400, answer.text
        assert named in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "location",
    [
        *("s3://u:p@bucket/a", "s3://bucket:80/a", "S3://bucket/a", "s3:/bucket/a"),
        *("file://host/a", "file://u@/a", "a/b", " /a"),
    ],
)  # fmt: skip
def test_an_address_that_programs_read_differently_is_refused(here: World, location: str) -> None:
    answer = DOORS["the location of a new table"](here, location)
    assert answer.status_code == 400
    assert "p@" not in answer.text


def test_a_folder_may_end_in_a_slash(here: World) -> None:
    answer = DOORS["the location of a new table"](here, f"{here.own}/mine/")
    assert answer.status_code == 200
    assert answer.json()["metadata"]["location"] == f"{here.own}/mine"


def test_a_link_in_the_folder_of_a_token_leads_nowhere_else(here: World) -> None:
    """Engines that write files of tables may put links beside them."""
    [theirs] = (here.top / "catalog/data/hr").rglob("*.metadata.json")
    os.symlink(theirs, f"{here.own}/link.metadata.json")
    os.symlink(here.top / "victim", f"{here.own}/away")
    answer = DOORS["register"](here, f"{here.own}/link.metadata.json")
    assert (answer.status_code, MARK in answer.text) == (400, False)
    for door in ("the location of a new table", "the location of a new view", "write.metadata.path of a new table"):
        answer = DOORS[door](here, f"{here.own}/away/t")
        assert (answer.status_code, here.harm()) == (403, []), answer.text
        assert "victim" not in answer.text


def test_tables_that_are_in_a_doubtful_place_already_can_be_changed(tmp_path: Path) -> None:
    """Their locations are read literally, as Iceberg's library in Java writes them."""
    with serving(LocalStore(tmp_path / "catalog")) as served:
        served.post("/v1/namespaces", {"namespace": ["n"]})
        made = served.post("/v1/namespaces/n/tables", {"name": "t", "schema": SCHEMA}).json()
        folder = tmp_path / "a?b#c d%2Fe"
        folder.mkdir()
        metadata = {**made["metadata"], "location": f"file://{folder}"}
        (folder / "v1.metadata.json").write_text(json.dumps(metadata))
        catalog = Catalog(served.catalog.store)
        with catalog.transaction() as transaction:
            transaction.create_table(TableName("n", "old"), f"file://{folder}/v1.metadata.json")
        assert served.http.get("/v1/namespaces/n/tables/old").status_code == 200
        update = {"action": "set-properties", "updates": {"a": "b"}}
        changed = served.post("/v1/namespaces/n/tables/old", {"requirements": [], "updates": [update]})
        assert changed.status_code == 200, changed.text
        assert changed.json()["metadata-location"].startswith(f"file://{folder}/metadata/")
        assert len(list((folder / "metadata").iterdir())) == 1
        assert sorted(os.listdir(tmp_path)) == ["a?b#c d%2Fe", "catalog"]


def test_a_catalog_in_a_folder_with_a_doubtful_name(tmp_path: Path) -> None:
    """A client sends back the location that the server chose for a table."""
    with serving(LocalStore(tmp_path / "lake #1?")) as served:
        client = served.client()
        client.create_namespace("a/b")
        served.post("/v1/namespaces", {"namespace": ["c%2F."]})
        for namespace in ("a%2Fb", "c%252F."):
            body = {"name": "t", "schema": SCHEMA, "stage-create": True}
            staged = served.post(f"/v1/namespaces/{namespace}/tables", body).json()["metadata"]
            again = served.post(f"/v1/namespaces/{namespace}/tables", {**body, "location": staged["location"]})
            assert again.status_code == 200, again.text
            made = served.post(
                f"/v1/namespaces/{namespace}/tables",
                {"name": "t", "schema": SCHEMA, "location": staged["location"]},
            )
            assert made.status_code == 200, made.text


def test_a_bucket_takes_what_it_is_asked_for_and_nothing_else() -> None:
    """There a key with `..` or `//` is a key like any other: whatever is taken, every reader finds it."""
    with StrictS3() as server, pytest.MonkeyPatch.context() as patch:
        quiet_environment(patch)
        server.create_bucket(BUCKET)
        options = s3_options(server.url)
        store = open_store(f"s3://{BUCKET}/lake", options)
        with serving(store, options) as served:
            served.post("/v1/namespaces", {"namespace": ["n"]})
            before = _keys(server.url)
            for number, end in enumerate(("../x", "a//b", "a?b", "a#1", "a*", "[a]", "a b", "a%20b", "a;b", "a\u00e9")):
                body = {"name": f"t{number}", "schema": SCHEMA, "location": f"s3://{BUCKET}/lake/data/n/{end}"}
                answer = served.post("/v1/namespaces/n/tables", body)
                assert answer.status_code == (400 if number < 4 else 200), (end, answer.text)
                if answer.status_code == 200:
                    assert served.http.get(f"/v1/namespaces/n/tables/t{number}").status_code == 200
                    assert answer.json()["metadata-location"].removeprefix(f"s3://{BUCKET}/") in _keys(server.url)
            assert before <= _keys(server.url)


def _keys(url: str) -> set[str]:
    return {info.path for info in open_store(f"s3://{BUCKET}", s3_options(url)).list()}
