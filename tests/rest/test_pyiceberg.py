"""PyIceberg's own REST client against the server: what it can do with a catalog, it can do with this one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table.update import AssertRefSnapshotId
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

from olympia_cli.format.actions import commit_info
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.storage.local import LocalStore
from tests.helpers.serving import Served, serving

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(LocalStore(tmp_path_factory.mktemp("served"))) as found:
        found.client().create_namespace("s")
        yield found


@pytest.fixture(scope="module")
def client(served: Served) -> RestCatalog:
    return served.client()


def types(served: Served) -> list[str]:
    snapshot = served.catalog.snapshot()
    return [action.type_name for action in snapshot.actions() if action.type != ActionType.COMMIT_INFO]


def test_namespaces(client):
    client.create_namespace("a", {"owner": "ann"})
    with pytest.raises(NamespaceAlreadyExistsError):
        client.create_namespace("a")
    assert client.load_namespace_properties("a") == {"owner": "ann"}
    found = client.update_namespace_properties("a", {"owner", "none"}, {"team": "x"})
    assert (found.removed, found.updated, found.missing) == (["owner"], ["team"], ["none"])
    assert ("a",) in client.list_namespaces()
    assert client.list_namespaces("a") == []
    assert client.namespace_exists("a")
    assert not client.namespace_exists("b")
    client.drop_namespace("a")
    with pytest.raises(NoSuchNamespaceError):
        client.drop_namespace("a")
    with pytest.raises(NoSuchNamespaceError):
        client.load_namespace_properties("a")
    with pytest.raises(NoSuchNamespaceError):
        client.list_namespaces("a")


def test_the_log_says_when_snapshots_were_expired(served, client):
    """Engines delete their files, which older versions name."""
    table = client.create_table("s.expired", SCHEMA)
    table.append(ROWS)
    table.append(ROWS)
    table.maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
    info = commit_info(served.catalog.snapshot().actions())
    assert info.message == "commit to s.expired: 1 snapshot expired, whose files engines delete"
    assert client.load_table("s.expired").scan().to_arrow().num_rows == 6
    client.drop_table("s.expired")


def test_a_table_is_made_written_read_altered_renamed_and_dropped(served, client):
    table = client.create_table("s.t", SCHEMA, properties={"k": "v"})
    assert types(served) == ["TABLE_CREATE"]
    table.append(ROWS)
    assert types(served) == ["TABLE_INSERT"]
    with table.update_schema() as update:
        update.add_column("more", StringType())
    assert "TABLE_ALTER_ADD_COLUMNS" in types(served)
    table.overwrite(pa.table({"id": pa.array([7], pa.int64()), "name": ["z"], "more": ["!"]}))
    again = client.load_table("s.t")
    assert again.scan().to_arrow().to_pylist() == [{"id": 7, "name": "z", "more": "!"}]
    assert again.properties["k"] == "v"
    with pytest.raises(TableAlreadyExistsError):
        client.create_table("s.t", SCHEMA)
    with pytest.raises(NamespaceNotEmptyError):
        client.drop_namespace("s")
    renamed = client.rename_table("s.t", "s.u")
    assert renamed.metadata.table_uuid == table.metadata.table_uuid
    assert not client.table_exists("s.t")
    assert client.list_tables("s") == [("s", "u")]
    location = renamed.metadata_location
    client.drop_table("s.u")
    with pytest.raises(NoSuchTableError):
        client.load_table("s.u")
    back = client.register_table("s.t", location)
    assert back.scan().to_arrow().num_rows == 1
    client.purge_table("s.t")
    # versions that are kept name its files, and who looks finds that they were to go
    info = commit_info(served.catalog.snapshot().actions())
    assert info is not None
    assert info.message == "drop table s.t, whose files stay: a purge is not done"
    assert served.http.get("/v1/config").json()["defaults"]["olympia.purge"] == "keeps-files"
    assert client.register_table("s.t", location).scan().to_arrow().num_rows == 1
    client.drop_table("s.t")


def test_a_table_is_created_with_its_first_rows_in_one_commit(served, client):
    before = served.version
    with client.create_table_transaction("s.ctas", schema=SCHEMA) as transaction:
        assert not client.table_exists("s.ctas")
        transaction.append(ROWS)
    assert served.version == before + 1
    assert types(served) == ["TABLE_CREATE", "TABLE_INSERT"]
    assert client.load_table("s.ctas").scan().to_arrow().num_rows == 3


def test_names_that_a_path_must_encode(client):
    name = ("a/b%2F&ü", "t/1?#é")
    client.create_namespace((name[0],))
    client.create_table(name, SCHEMA).append(ROWS)
    assert client.load_table(name).scan().to_arrow().num_rows == 3
    assert client.list_tables((name[0],)) == [name]
    client.drop_table(name)
    client.drop_namespace((name[0],))


def test_a_stale_commit_fails_and_other_tables_are_unaffected(client):
    table = client.create_table("s.stale", SCHEMA)
    stale = client.load_table("s.stale")
    other = client.create_table("s.other", SCHEMA)
    table.append(ROWS)
    other.append(ROWS)
    transaction = stale.transaction()
    transaction.set_properties(a="b")
    # an append is tried again by PyIceberg itself; what relies on there being no snapshot is not
    transaction._requirements = (*transaction._requirements, AssertRefSnapshotId(ref="main", snapshot_id=None))
    with pytest.raises(CommitFailedException):
        transaction.commit_transaction()
    assert client.load_table("s.stale").scan().to_arrow().num_rows == 3


def test_writers_at_once_all_succeed(served, client):
    for number in range(4):
        client.create_table(f"s.at_once_{number}", SCHEMA)
    client.create_table("s.shared", SCHEMA)
    errors: list[Exception] = []

    def write(number: int) -> None:
        try:
            mine = served.client()
            for name in (f"s.at_once_{number}", "s.shared"):
                for _ in range(20):
                    try:
                        mine.load_table(name).append(ROWS)
                        break
                    except CommitFailedException:
                        continue
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for number in range(4):
        assert client.load_table(f"s.at_once_{number}").scan().to_arrow().num_rows == 3
    assert client.load_table("s.shared").scan().to_arrow().num_rows == 12


def test_lists_come_in_pages(served):
    client = served.client(**{"rest-page-size": "2"})
    client.create_namespace("pages")
    for number in range(5):
        client.create_table(f"pages.t{number}", SCHEMA)
    assert client.list_tables("pages") == [("pages", f"t{number}") for number in range(5)]
    assert ("pages",) in client.list_namespaces()
    found = served.http.get("/v1/namespaces/pages/tables", params={"pageSize": 2}).json()
    assert len(found["identifiers"]) == 2
    assert found["next-page-token"]


def test_views(client):
    version = ViewVersion(
        schema_id=0,
        representations=[SQLViewRepresentation(type="sql", sql="select 1", dialect="x")],
        default_namespace=["s"],
    )
    view = client.create_view("s.v", SCHEMA, version)
    assert client.load_view("s.v").metadata.view_uuid == view.metadata.view_uuid
    assert client.list_views("s") == [("s", "v")]
    assert client.view_exists("s.v")
    with pytest.raises(TableAlreadyExistsError):
        client.create_table("s.v", SCHEMA)
    client.drop_view("s.v")
    with pytest.raises(NoSuchViewError):
        client.load_view("s.v")


def test_only_the_snapshots_of_refs(served, client):
    table = client.create_table("s.refs", SCHEMA)
    table.append(ROWS)
    table.append(ROWS)
    few = served.client(**{"snapshot-loading-mode": "refs"}).load_table("s.refs")
    assert len(few.metadata.snapshots) == 1
    assert len(client.load_table("s.refs").metadata.snapshots) == 2
    assert few.scan().to_arrow().num_rows == 6


def test_an_older_version_is_a_prefix(served, client):
    table = client.create_table("s.travel", SCHEMA)
    table.append(ROWS)
    version = served.version
    table.append(ROWS)
    client.drop_table("s.travel")
    old = served.client(warehouse=f"at/v{version}")
    assert old.load_table("s.travel").scan().to_arrow().num_rows == 3
    assert served.client(prefix=f"at%2Fv{version}").load_table("s.travel").scan().to_arrow().num_rows == 3
    with pytest.raises(NotImplementedError):
        old.create_namespace("x")
    # who asks for the latest version goes on seeing that one
    now = served.client(warehouse="at/latest")
    client.create_namespace("later")
    assert ("later",) not in now.list_namespaces()
    assert not now.table_exists("s.travel")


def test_a_distributed_transaction_is_a_prefix(served, client):
    begun = served.post("/v1/transactions", {}).json()
    inside = served.client(warehouse=begun["prefix"])
    before = served.version
    inside.create_namespace("txn")
    table = inside.create_table("txn.t", SCHEMA)
    table.append(ROWS)
    assert inside.load_table("txn.t").scan().to_arrow().num_rows == 3
    assert inside.list_tables("txn") == [("txn", "t")]
    assert not client.namespace_exists("txn")
    assert served.version == before
    done = served.post(f"/v1/{begun['prefix']}/commit", {"message": "all of it"})
    assert done.json() == {"version": before + 1}
    assert client.load_table("txn.t").scan().to_arrow().num_rows == 3
    # it is over
    assert served.http.get(f"/v1/{begun['prefix']}/namespaces").status_code == 400


def test_a_transaction_that_is_given_up_leaves_nothing(served, client):
    begun = served.post("/v1/transactions", {}).json()
    before = served.version
    served.client(warehouse=begun["prefix"]).create_namespace("given-up")
    assert served.post(f"/v1/{begun['prefix']}/abort", {}).status_code == 204
    assert served.version == before
    assert not client.namespace_exists("given-up")
