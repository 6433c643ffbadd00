"""Locations that clients name: nothing outside of a token's folders is read, written or deleted by way of one."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import root_path
from olympia_cli.names import TableName
from olympia_cli.rest.app import Endpoint
from olympia_cli.rest.routes import ICEBERG
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.open import open_store
from tests.fuzz.locations import DOORS, LONG, MARK, SCHEMA, TOKEN, VERSION, World, spellings, world
from tests.helpers.iceberg_tables import Lake, files_of
from tests.helpers.places import BUCKET, gcs_options, quiet_environment, s3_options
from tests.helpers.servers.gcs import SmallGcs
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
        # metadata that was taken already is read as it was written: this is a place inside
        expected = (200, 503) if door.endswith("that was changed") else (400,)
        assert (answer.status_code in expected, here.harm()) == (True, []), answer.text
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
    for kind in ("register", "register-view"):
        for path in ("link.metadata.json", "away/secret.txt"):
            answer = DOORS[kind](here, f"{here.own}/{path}")
            assert (answer.status_code, MARK in answer.text) == (403, False)
            assert "victim" not in answer.text
            assert "/hr/" not in answer.text
    for door in ("the location of a new table", "the location of a new view", "write.metadata.path of a new table"):
        answer = DOORS[door](here, f"{here.own}/away/t")
        assert (answer.status_code, here.harm()) == (403, []), answer.text
        assert "victim" not in answer.text


@pytest.fixture(scope="module")
def forgetful() -> Iterator[World]:
    """A server that caches nothing, as one that was started just now."""
    with world(cache_bytes=0) as found:
        yield found


CHANGE = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}


def _registered(here: World, kind: str, name: str) -> Path:
    """Metadata of the client's own making, registered: the client may change the file afterwards."""
    path = Path(here.own) / f"{name}.metadata.json"
    path.write_text(json.dumps((here.table if kind == "table" else here.view)["metadata"]))
    door = "register" if kind == "table" else "register-view"
    body = {"name": name, "metadata-location": str(path)}
    assert here.post(f"/v1/namespaces/sales/{door}", body).status_code == 200
    return path


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_link_in_place_of_registered_metadata_leads_nowhere_else(forgetful: World, kind: str) -> None:
    here = forgetful
    path = _registered(here, kind, f"linked_{kind}")
    target = here.top / "victim/theirs.metadata.json"
    theirs = json.loads(path.read_text())
    target.write_text(json.dumps({**theirs, "location": str(target.parent), "properties": {"comment": MARK}}))
    here.harm()
    path.unlink()
    os.symlink(target, path)
    whole = {"Authorization": "Bearer admin"}
    # what a token for everything has read is not given to the other
    here.served.http.get(f"/v1/namespaces/sales/{kind}s/linked_{kind}", headers=whole)
    for answer in (
        here.get(f"/v1/namespaces/sales/{kind}s/linked_{kind}"),
        here.get(f"/v1/namespaces/sales/{kind}s/linked_{kind}?snapshots=refs"),
        here.post(f"/v1/namespaces/sales/{kind}s/linked_{kind}", CHANGE),
    ):
        assert (answer.status_code, MARK in answer.text, "victim" in answer.text) == (403, False, False), answer.text
    assert here.harm() == []


@pytest.mark.parametrize("kind", ["table", "view"])
def test_linked_metadata_read_by_a_wider_token_stays_closed(here: World, kind: str) -> None:
    whole = {"Authorization": "Bearer admin"}
    theirs = json.dumps({**getattr(here, kind)["metadata"], "properties": {"comment": MARK}})
    (here.top / f"catalog/data/hr/{kind}.json").write_text(theirs)
    here.harm()
    path = Path(here.own) / f"wider-{kind}.metadata.json"
    os.symlink(here.top / f"catalog/data/hr/{kind}.json", path)
    body = {"name": f"wider_{kind}", "metadata-location": str(path)}
    door = "register" if kind == "table" else "register-view"
    assert here.served.post(f"/v1/namespaces/sales/{door}", body, **whole).status_code == 200
    for _ in range(2):
        found = here.served.http.get(f"/v1/namespaces/sales/{kind}s/wider_{kind}", headers=whole)
        assert (found.status_code, MARK in found.text) == (200, True)
        answer = here.get(f"/v1/namespaces/sales/{kind}s/wider_{kind}")
        assert (answer.status_code, MARK in answer.text) == (403, False)
        answer = here.post(f"/v1/namespaces/sales/{kind}s/wider_{kind}", CHANGE)
        assert (answer.status_code, MARK in answer.text, here.harm()) == (403, False, [])


@pytest.mark.parametrize("kind", ["table", "view"])
@pytest.mark.parametrize("key", ["location", "write.metadata.path"])
def test_metadata_that_was_changed_after_it_was_registered_leads_nowhere_else(
    forgetful: World, kind: str, key: str
) -> None:
    here = forgetful
    name = f"changed_{kind}_{key.rpartition('.')[2]}"
    path = _registered(here, kind, name)
    metadata = json.loads(path.read_text())
    if key == "location":
        metadata["location"] = str(here.top / "victim")
    else:
        metadata["properties"] = {key: str(here.top / "victim/a?b")}
    path.write_text(json.dumps(metadata))
    answer = here.post(f"/v1/namespaces/sales/{kind}s/{name}", CHANGE)
    # the second place is one that programs read differently, too
    assert (answer.status_code, here.harm()) == (403 if key == "location" else 400, []), answer.text


@pytest.mark.parametrize("key", ["manifest-list", "manifests", "statistics", "partition-statistics"])
def test_registered_metadata_names_no_files_of_others(here: World, key: str) -> None:
    theirs = str(here.top / "catalog/data/hr/t/metadata/snap-1.avro")
    metadata = {**here.table["metadata"]}
    if "statistics" in key:
        metadata[key] = [{"snapshot-id": 1, "statistics-path": theirs, "file-size-in-bytes": 1,
                          "file-footer-size-in-bytes": 1, "blob-metadata": []}]  # fmt: skip
    else:
        inside = f"{here.own}/t/snap-1.avro"
        given = {"manifest-list": inside, "manifests": [theirs]} if key == "manifests" else {"manifest-list": theirs}
        snapshot = {"snapshot-id": 1, "sequence-number": 0, "timestamp-ms": 1, "summary": {"operation": "append"}}
        metadata["snapshots"] = [{**snapshot, **given}]
    path = Path(here.own) / f"names-{key}.metadata.json"
    path.write_text(json.dumps(metadata))
    body = {"name": f"names_{key}", "metadata-location": str(path)}
    answer = here.post("/v1/namespaces/sales/register", body)
    assert (answer.status_code, "outside of what you may use" in answer.text) == (403, True), answer.text


def test_the_page_of_files_reads_no_manifest_outside_of_a_token(tmp_path: Path) -> None:
    """The token may see the whole catalog, and have tables in its own folder alone."""
    digest = hashlib.sha256(b"t").hexdigest()
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "tokens.toml").write_text(
        f'[[token]]\nname = "t"\nsha256 = "{digest}"\nscopes = ["read", "write"]\nlocations = ["{own}"]\n'
    )
    with serving(LocalStore(tmp_path / "catalog"), tokens=str(tmp_path / "tokens.toml"), cache_bytes=0) as served:
        whole = {"Authorization": "Bearer t"}
        served.post("/v1/namespaces", {"namespace": ["n"]}, **whole)
        body = {"name": "t", "schema": SCHEMA, "location": f"{own}/t"}
        made = served.post("/v1/namespaces/n/tables", body, **whole).json()
        theirs = files_of(Lake(f"{tmp_path}/private").table("secrets"))
        snapshot = {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 2**42, "schema-id": 0,
                    "manifest-list": theirs.manifest_list, "summary": {"operation": "append"}}  # fmt: skip
        metadata = {**made["metadata"], "snapshots": [snapshot], "current-snapshot-id": 1}
        Path(made["metadata-location"]).write_text(json.dumps(metadata))
        page = served.http.get("/files?ns=n&name=t", headers=whole)
        assert "secrets" not in page.text
        assert "outside of what you may use here" in page.text


def test_no_table_is_among_the_files_of_the_catalog(tmp_path: Path) -> None:
    """Without tokens every location is allowed. But a folder at the name of the next root stops all commits."""
    os.symlink(tmp_path, tmp_path / "link")
    with serving(LocalStore(tmp_path / "link/catalog")) as served:
        served.post("/v1/namespaces", {"namespace": ["n"]})
        made = served.post("/v1/namespaces/n/tables", {"name": "t", "schema": SCHEMA})
        assert made.status_code == 200
        for top in (tmp_path, tmp_path / "link"):
            for path in (root_path(served.version + 1), "vn", "node/x", "def/table", "dtxn", "ops/expire"):
                place = f"file://{top}/catalog/{path}"
                given: list[dict[str, object]] = [
                    {"location": place},
                    {"properties": {"write.metadata.path": place}},
                    {"properties": {"write.data.path": place}},
                ]
                for more in given:
                    answer = served.post("/v1/namespaces/n/tables", {"name": "u", "schema": SCHEMA, **more})
                    assert (answer.status_code, "catalog's own files" in answer.text) == (403, True), answer.text
                view = {"name": "v", "schema": SCHEMA, "view-version": VERSION, "properties": {}, "location": place}
                assert served.post("/v1/namespaces/n/views", view).status_code == 403
                update = {"action": "set-location", "location": place}
                answer = served.post("/v1/namespaces/n/tables/t", {"requirements": [], "updates": [update]})
                assert answer.status_code == 403
        assert served.post("/v1/namespaces", {"namespace": ["m"]}).status_code == 200
        # beside them there is room
        body = {"name": "u", "schema": SCHEMA, "location": f"{tmp_path}/catalog/tables/u"}
        assert served.post("/v1/namespaces/n/tables", body).status_code == 200


def test_metadata_that_unpacks_to_more_than_memory_is_refused(forgetful: World) -> None:
    path = _registered(forgetful, "table", "packed")
    # 300 MB of spaces
    path.write_bytes(gzip.compress(b" " * 300_000_000))
    answer = forgetful.post("/v1/namespaces/sales/tables/packed", CHANGE)
    assert (answer.status_code, "unpacks to more than" in answer.text) == (503, True), answer.text


def test_tables_that_are_in_a_doubtful_place_already_can_be_changed(tmp_path: Path) -> None:
    """Locations are read literally, as Iceberg's Java library writes them."""
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


@pytest.mark.parametrize(
    ("kind", "scheme", "options_for"), [(StrictS3, "s3", s3_options), (SmallGcs, "gs", gcs_options)], ids=["s3", "gcs"]
)
def test_odd_locations_in_a_bucket_are_refused_or_exact(kind: Any, scheme: str, options_for: Any) -> None:
    """There a key with `..` or `//` is a key like any other: whatever is taken, every reader finds it."""
    with kind() as server, pytest.MonkeyPatch.context() as patch:
        quiet_environment(patch)
        server.create_bucket(BUCKET)
        options, bucket = options_for(server.url), f"{scheme}://{BUCKET}"

        def keys() -> set[str]:
            return {info.path for info in open_store(bucket, options).list()}

        with serving(open_store(f"{bucket}/lake", options), options) as served:
            served.post("/v1/namespaces", {"namespace": ["n"]})
            before = keys()
            for number, end in enumerate(("../x", "a//b", "a?b", "a#1", "a*", "[a]", "a b", "a%20b", "a;b", "a\u00e9")):
                body = {"name": f"t{number}", "schema": SCHEMA, "location": f"{bucket}/lake/data/n/{end}"}
                answer = served.post("/v1/namespaces/n/tables", body)
                assert answer.status_code == (400 if number < 4 else 200), (end, answer.text)
                if answer.status_code == 200:
                    assert served.http.get(f"/v1/namespaces/n/tables/t{number}").status_code == 200
                    assert answer.json()["metadata-location"].removeprefix(f"{bucket}/") in keys()
            assert before <= keys()


def test_failures_of_one_client_do_not_close_a_bucket_for_the_others() -> None:
    """S3 refuses a key of more than 1,024 bytes, as it refuses much else that is no fault of the store."""
    with StrictS3() as server, pytest.MonkeyPatch.context() as patch:
        quiet_environment(patch)
        server.create_bucket(BUCKET)
        options = s3_options(server.url)
        with serving(open_store(f"s3://{BUCKET}/lake", options), options, cache_bytes=0) as served:
            served.post("/v1/namespaces", {"namespace": ["n"]})
            assert served.post("/v1/namespaces/n/tables", {"name": "t", "schema": SCHEMA}).status_code == 200
            body = {"name": "r", "metadata-location": f"s3://{BUCKET}/lake/data/n/{1_100 * 'x'}"}
            for _ in range(25):
                assert served.post("/v1/namespaces/n/register", body).status_code == 503
            assert served.http.get("/v1/namespaces/n/tables/t").status_code == 200


OTHERS = {"namespace": ["hr"], "name": "t"}
BODIES: dict[str, dict[str, Any]] = {
    "createTable": {"name": "u", "schema": SCHEMA},
    "registerTable": {"name": "u", "metadata-location": "METADATA"},
    "createView": {"name": "w", "schema": SCHEMA, "view-version": VERSION, "properties": {}},
    "registerView": {"name": "w", "metadata-location": "METADATA"},
    "renameTable": {"source": OTHERS, "destination": {"namespace": ["sales"], "name": "stolen"}},
    "renameView": {"source": OTHERS, "destination": {"namespace": ["sales"], "name": "stolen"}},
    "commitTransaction": {"table-changes": [{"identifier": OTHERS, "requirements": [], "updates": []}]},
    "createNamespace": {"namespace": ["hr2"]},
    "updateProperties": {"updates": {"a": "b"}},
    "reportMetrics": {"report-type": "scan-report"},
}


@pytest.mark.parametrize("operation", ICEBERG, ids=lambda operation: operation.name)
def test_every_route_keeps_a_token_in_its_namespace(here: World, operation: Endpoint) -> None:
    [theirs] = (here.top / "catalog/data/hr").rglob("*.metadata.json")
    version, path = here.served.version, operation.path.format(namespace="hr", table="t", view="t")
    body = json.loads(json.dumps(BODIES.get(operation.name, CHANGE)).replace("METADATA", str(theirs)))
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    content = json.dumps(body) if operation.method == "POST" else None
    answer = here.served.http.request(operation.method, path, content=content, headers=headers)
    if operation.name == "listNamespaces":
        assert answer.json()["namespaces"] == [["sales"]]
    else:
        assert answer.status_code == 403, answer.text
    assert (MARK in answer.text, here.served.version, here.harm()) == (False, version, [])
