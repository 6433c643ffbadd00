"""The protocol itself, request by request: what the definition asks for beside what PyIceberg's client does."""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import OutcomeUnknown, StorageFailed
from olympia_cli.format.actions import commit_info
from olympia_cli.names import NamespaceName
from olympia_cli.rest.routes import ICEBERG
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.serving import Served, serving
from tests.helpers.stores import WrappedStore

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}
REPRESENTATION = {"type": "sql", "sql": "select 1", "dialect": "spark"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(LocalStore(tmp_path_factory.mktemp("served"))) as found:
        found.post("/v1/namespaces", {"namespace": ["s"]})
        yield found


def make(served: Served, name: str, **more: Any) -> dict[str, Any]:
    answer = served.post("/v1/namespaces/s/tables", {"name": name, "schema": SCHEMA, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def properties_commit(uuid: str, **updates: str) -> dict[str, Any]:
    return {
        "requirements": [{"type": "assert-table-uuid", "uuid": uuid}],
        "updates": [{"action": "set-properties", "updates": updates}],
    }


def test_config_lists_endpoints_defaults_and_warehouses(served):
    config = served.http.get("/v1/config").json()
    assert "POST /v1/{prefix}/transactions/commit" in config["endpoints"]
    assert len(config["endpoints"]) == len(ICEBERG)
    assert config["defaults"]["olympia.multi-table-commit"] == "atomic"
    assert config["idempotency-key-lifetime"] == "PT30M"
    for warehouse in ("olympia", served.catalog.store.uri, served.catalog.snapshot().definition.id):
        assert served.http.get("/v1/config", params={"warehouse": warehouse}).json()["overrides"] == {}
    old = served.http.get("/v1/config", params={"warehouse": "at/latest"}).json()
    assert old["overrides"] == {"prefix": f"at/v{served.version}"}
    assert all(endpoint.startswith(("GET", "HEAD", "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics"))
               for endpoint in old["endpoints"])  # fmt: skip
    assert served.http.get("/v1/config", params={"warehouse": "s3://other"}).status_code == 400


def test_loading_an_unchanged_table_with_its_etag_gets_304(served):
    made = make(served, "etag")
    first = served.http.get("/v1/namespaces/s/tables/etag")
    tag = first.headers["etag"]
    refs = served.http.get("/v1/namespaces/s/tables/etag", params={"snapshots": "refs"})
    assert refs.headers["etag"] != tag
    for known in (tag, f'"x", {tag}', f"W/{tag}"):
        again = served.http.get("/v1/namespaces/s/tables/etag", headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
    body = properties_commit(made["metadata"]["table-uuid"], a="b")
    changed = served.post("/v1/namespaces/s/tables/etag", body)
    assert changed.headers["etag"] != tag
    after = served.http.get("/v1/namespaces/s/tables/etag", headers={"If-None-Match": tag})
    assert after.status_code == 200
    assert after.json()["metadata-location"] == changed.json()["metadata-location"]


def test_a_commit_of_another_process_is_visible_at_once(served):
    Catalog(LocalStore(served.catalog.store.uri)).begin()
    other = Catalog(LocalStore(served.catalog.store.uri))
    for number in range(3):
        with other.transaction() as transaction:
            transaction.create_namespace(NamespaceName(f"beside{number}"))
        assert served.http.head(f"/v1/namespaces/beside{number}").status_code == 204
    assert served.post("/v1/namespaces", {"namespace": ["beside0"]}).status_code == 409


def test_several_tables_are_committed_together_or_not_at_all(served):
    made = {name: make(served, name)["metadata"]["table-uuid"] for name in ("one", "two")}

    def change(name: str, uuid: str) -> dict[str, Any]:
        return {"identifier": {"namespace": ["s"], "name": name}, **properties_commit(uuid, touched="yes")}

    before = served.version
    wrong = [change("one", made["one"]), change("two", made["one"])]
    answer = served.post("/v1/transactions/commit", {"table-changes": wrong})
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "CommitFailedException")
    missing = [change("one", made["one"]), change("three", made["one"])]
    assert served.post("/v1/transactions/commit", {"table-changes": missing}).status_code == 404
    assert served.version == before
    assert "touched" not in served.http.get("/v1/namespaces/s/tables/one").json()["metadata"]["properties"]
    right = [change("one", made["one"]), change("two", made["two"])]
    assert served.post("/v1/transactions/commit", {"table-changes": right}).status_code == 204
    assert served.version == before + 1
    for name in made:
        assert served.http.get(f"/v1/namespaces/s/tables/{name}").json()["metadata"]["properties"]["touched"] == "yes"


def test_repeated_requests_with_a_key_get_the_first_answer(served):
    key = str(uuid.uuid4())
    body = {"namespace": ["once"], "properties": {"a": "b"}}
    first = served.post("/v1/namespaces", body, **{"Idempotency-Key": key})
    before = served.version
    again = served.post("/v1/namespaces", body, **{"Idempotency-Key": key})
    assert (again.status_code, again.content) == (first.status_code, first.content) == (200, first.content)
    # a failure that would be the same again is kept, too
    key = str(uuid.uuid4())
    assert served.post("/v1/namespaces", body, **{"Idempotency-Key": key}).status_code == 409
    served.http.delete("/v1/namespaces/once")
    assert served.post("/v1/namespaces", body, **{"Idempotency-Key": key}).status_code == 409
    assert served.post("/v1/namespaces", {"namespace": ["x"]}, **{"Idempotency-Key": key}).status_code == 422
    assert served.post("/v1/namespaces", body, **{"Idempotency-Key": "no"}).status_code == 400
    assert served.version == before + 1


def test_a_view_is_replaced_where_it_is_the_one_that_is_meant(served):
    version = {"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "default-namespace": ["s"]}
    version["representations"] = [REPRESENTATION]
    body = {"name": "v", "schema": SCHEMA, "view-version": version, "properties": {"p": "1"}}
    made = served.post("/v1/namespaces/s/views", body).json()
    assert made["metadata"]["versions"][0]["representations"][0]["sql"] == "select 1"
    newer = {**version, "version-id": 2, "schema-id": -1, "representations": [{**REPRESENTATION, "sql": "select 2"}]}
    more = {**SCHEMA, "fields": [*SCHEMA["fields"], {"id": 2, "name": "b", "required": False, "type": "string"}]}
    updates = [
        {"action": "add-schema", "schema": more},
        {"action": "add-view-version", "view-version": newer},
        {"action": "set-current-view-version", "view-version-id": -1},
        {"action": "set-properties", "updates": {"q": "2"}},
        {"action": "remove-properties", "removals": ["p"]},
    ]
    path = "/v1/namespaces/s/views/v"
    wrong = {"requirements": [{"type": "assert-view-uuid", "uuid": str(uuid.uuid4())}], "updates": updates}
    assert served.post(path, wrong).status_code == 409
    meant = {"requirements": [{"type": "assert-view-uuid", "uuid": made["metadata"]["view-uuid"]}], "updates": updates}
    replaced = served.post(path, meant).json()
    assert served.http.get(path).json() == replaced
    metadata = replaced["metadata"]
    assert (metadata["current-version-id"], metadata["properties"]) == (2, {"q": "2"})
    assert metadata["versions"][1]["schema-id"] == 1
    assert [entry["version-id"] for entry in metadata["version-log"]] == [1, 2]
    destination = {"namespace": ["s"], "name": "w"}
    renamed = {"source": {"namespace": ["s"], "name": "v"}, "destination": destination}
    assert served.post("/v1/views/rename", renamed).status_code == 204
    assert served.http.head("/v1/namespaces/s/views/w").status_code == 204
    assert served.http.delete("/v1/namespaces/s/views/w").status_code == 204
    location = replaced["metadata-location"]
    registered = served.post("/v1/namespaces/s/register-view", {"name": "again", "metadata-location": location})
    assert registered.json()["metadata"]["view-uuid"] == metadata["view-uuid"]


def test_metrics_and_credentials_of_a_table(served):
    make(served, "metrics")
    path = "/v1/namespaces/s/tables/metrics"
    assert served.post(f"{path}/metrics", {"report-type": "scan-report"}).status_code == 204
    assert served.http.get(f"{path}/credentials").json() == {"storage-credentials": []}
    assert served.post("/v1/namespaces/s/tables/none/metrics", {"report-type": "x"}).status_code == 404


def test_registering_over_a_table_needs_overwrite(served):
    first = make(served, "registered")["metadata-location"]
    second = make(served, "other")["metadata-location"]
    body = {"name": "registered", "metadata-location": second}
    assert served.post("/v1/namespaces/s/register", body).status_code == 409
    assert served.post("/v1/namespaces/s/register", {**body, "overwrite": True}).status_code == 200
    loaded = served.http.get("/v1/namespaces/s/tables/registered").json()
    assert loaded["metadata-location"] == second != first


def test_keep_files_disables_gc_unless_the_table_enables_it(tmp_path):
    with serving(LocalStore(tmp_path), keep_files=True) as found:
        found.post("/v1/namespaces", {"namespace": ["s"]})
        path = "/v1/namespaces/s/tables/t"
        staged = make(found, "t", **{"stage-create": True})
        made = make(found, "t", properties={"a": "b"})
        again = found.http.get(path).json()
        refs = found.http.get(path, params={"snapshots": "refs"}).json()
        for shown in (made, again, refs):
            assert shown["metadata"]["properties"] == {"a": "b", "gc.enabled": "false"}
        assert staged["metadata"]["properties"] == {"gc.enabled": "false"}
        with open(made["metadata-location"]) as file:
            assert json.load(file)["properties"] == {"a": "b"}, "the table itself does not say it"
        body = properties_commit(made["metadata"]["table-uuid"], **{"gc.enabled": "true"})
        assert found.post(path, body).json()["metadata"]["properties"] == {"a": "b", "gc.enabled": "true"}
        assert found.http.get(path).json()["metadata"]["properties"]["gc.enabled"] == "true"


def test_the_log_names_author_and_operation_of_a_request(served):
    make(served, "signed")
    info = commit_info(served.catalog.snapshot().actions())
    assert info is not None
    assert info.message == "create table s.signed"
    assert "@" in info.by


def test_health_metrics_and_a_line_for_each_request(served):
    assert served.http.get("/healthz").json() == {"status": "ok", "version": served.version}
    served.http.get("/v1/namespaces/%F0%9F%98%80/tables")
    for number in range(3):
        served.http.request(f"BREW{number}", "/tea")
    text = served.http.get("/metrics").text
    assert 'olympia_requests_total{method="other",operation="none",status="404"} 3' in text
    assert "BREW" not in text
    assert 'olympia_requests_total{method="GET",operation="listTables",status="404"}' in text
    assert f"olympia_version {served.version}" in text
    line = next(line for line in reversed(served.lines()) if line.get("operation") == "listTables")
    assert (line["status"], line["path"]) == (404, "/v1/namespaces/%F0%9F%98%80/tables")
    assert line["error"].startswith("NoSuchNamespaceException")


def test_answers_do_not_wait_for_more_to_send(served):
    """asyncio turns Nagle's algorithm off only where it knows that a socket is TCP: 40 ms a request hang on it."""
    assert served.running._socket.proto == socket.IPPROTO_TCP


def message(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["message"])


def test_error_messages_match_the_catalogs_of_iceberg(served):
    """Iceberg's compatibility kit compares these messages."""
    made, http = make(served, "words"), served.http
    path, none = "/v1/namespaces/s/tables/words", {"name": "words", "schema": SCHEMA}
    assert message(http.get("/v1/namespaces/no")) == "Namespace does not exist: no"
    assert message(http.get("/v1/namespaces?parent=a%1Fb")) == "Namespace does not exist: a.b"
    assert message(served.post("/v1/namespaces", {"namespace": ["s"]})) == "Namespace already exists: s"
    assert message(http.delete("/v1/namespaces/s")) == "Namespace s is not empty"
    assert message(http.get("/v1/namespaces/no/tables/x")) == "Table does not exist: no.x"
    assert message(served.post("/v1/namespaces/s/tables", none)) == "Table already exists: s.words"
    assert message(served.post("/v1/namespaces/no/tables", none)) == "Namespace does not exist: no"
    source, free = {"namespace": ["s"], "name": "words"}, {"namespace": ["no"], "name": "x"}
    renamed = served.post("/v1/tables/rename", {"source": source, "destination": free})
    assert message(renamed) == "Namespace does not exist: no"
    renamed = served.post("/v1/tables/rename", {"source": {**source, "name": "x"}, "destination": source})
    assert message(renamed) == "Table does not exist: s.x"
    body = {"name": "words", "metadata-location": made["metadata-location"]}
    assert message(served.post("/v1/namespaces/s/register", body)) == "Table already exists: s.words"
    version = {"schema-id": 0, "default-namespace": ["s"], "representations": [REPRESENTATION]}
    view = {**none, "view-version": version}
    assert message(served.post("/v1/namespaces/s/views", view)) == "Table with same name already exists: s.words"
    assert served.post("/v1/namespaces/s/views", {**view, "name": "words_view"}).status_code == 200
    again = served.post("/v1/namespaces/s/views", {**view, "name": "words_view"})
    assert message(again) == "View already exists: s.words_view"
    made_twice = served.post("/v1/namespaces/s/tables", {**none, "name": "words_view"})
    assert message(made_twice) == "View with same name already exists: s.words_view"
    assert message(http.get("/v1/namespaces/s/views/x")) == "View does not exist: s.x"
    for requirement, words in (
        ({"type": "assert-create"}, "table already exists"),
        ({"type": "assert-table-uuid", "uuid": str(uuid.uuid4())}, "UUID does not match"),
        ({"type": "assert-current-schema-id", "current-schema-id": 7}, "current schema changed"),
        ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 7}, "last assigned field id changed"),
        ({"type": "assert-default-spec-id", "default-spec-id": 7}, "default partition spec changed"),
        ({"type": "assert-default-sort-order-id", "default-sort-order-id": 7}, "default sort order changed"),
    ):
        answer = served.post(path, {"requirements": [requirement], "updates": []})
        assert (answer.status_code, message(answer).startswith(f"Requirement failed: {words}")) == (409, True)


def test_metadata_keeps_field_ids_and_contains_no_null(served):
    """The library in Java takes null for a value, and a view's fields by their ids."""
    fields = [{"id": 7, "name": "id", "required": True, "type": "int", "doc": "x"}]
    schema = {"type": "struct", "schema-id": 5, "fields": fields}
    version = {"version-id": 1, "schema-id": 5, "default-namespace": ["s"], "representations": [REPRESENTATION]}
    body = {"name": "as_it_is", "schema": schema, "view-version": version}
    view = served.post("/v1/namespaces/s/views", body).json()["metadata"]
    assert view["schemas"] == [{**schema, "schema-id": 0}]
    assert "null" not in json.dumps(view)
    table = make(served, "whole")
    staged = served.post("/v1/namespaces/s/tables", {"name": "staged", "schema": SCHEMA, "stage-create": True}).json()
    for shown in (table, staged, served.http.get("/v1/namespaces/s/tables/whole").json()):
        assert "null" not in json.dumps(shown["metadata"])
    assert "metadata-location" not in staged


def test_missing_metadata_is_not_hidden_by_the_cache(served):
    location = make(served, "gone")["metadata-location"]
    path = "/v1/namespaces/s/tables/gone"
    assert served.http.get(path).status_code == 200
    os.rename(location, f"{location}.away")
    answer = served.http.get(path)
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NotFoundException")
    assert message(answer) == f"Failed to open input stream for file: {location}"
    os.rename(f"{location}.away", location)
    assert served.http.get(path).status_code == 200


class Slow(WrappedStore):
    """A root is created when it may be."""

    may = threading.Event()

    def create(self, path: str, data: bytes) -> None:
        if path.startswith("vn/"):
            assert self.may.wait(PATIENCE)
        super().create(path, data)


def test_a_timed_out_request_with_a_key_runs_once():
    store = Slow(MemoryStore())
    store.may.set()
    with serving(store, request_timeout=0.5) as found:
        store.may.clear()
        body, headers = {"namespace": ["n"]}, {"Idempotency-Key": str(uuid.uuid4())}
        late = found.post("/v1/namespaces", body, **headers)
        assert (late.status_code, late.json()["error"]["type"]) == (504, "GatewayTimeoutException")
        assert found.lines()[-1]["error"].startswith("GatewayTimeoutException")
        store.may.set()
        # the version is there, or will be; the same key waits for it
        answers = []

        def is_answered() -> bool:
            answers.append(found.post("/v1/namespaces", body, **headers))
            return answers[-1].status_code != 504

        wait_until(is_answered, "answered")
        answer = answers[-1]
        assert (answer.status_code, answer.json()["namespace"]) == (200, ["n"])
        assert found.version == 1


def test_a_key_holds_where_it_was_used(served):
    """Two transactions have the same paths behind their prefixes."""
    body, headers = {"namespace": ["inside"]}, {"Idempotency-Key": str(uuid.uuid4())}
    one, two = (served.post("/v1/transactions", {}).json()["prefix"] for _ in range(2))
    assert served.post(f"/v1/{one}/namespaces", body, **headers).status_code == 200
    answer = served.post(f"/v1/{two}/namespaces", body, **headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (422, "UnprocessableEntityException")
    for prefix in (one, two):
        assert served.post(f"/v1/{prefix}/abort", {}).status_code == 204


class Unreliable(WrappedStore):
    """Fails, or does not say, when a root is to be created."""

    says: Exception | None = None

    def create(self, path: str, data: bytes) -> None:
        if self.says is not None and path.startswith("vn/"):
            raise self.says
        super().create(path, data)

    def read(self, path: str) -> bytes:
        if isinstance(self.says, OutcomeUnknown):
            raise StorageFailed("no answer")
        return super().read(path)


def test_a_store_that_fails_and_one_that_does_not_say():
    store = Unreliable(MemoryStore())
    with serving(store) as found:
        found.http.get("/v1/namespaces")
        body = {"namespace": ["n"]}
        store.says = StorageFailed("the disk is on fire")
        failed = found.post("/v1/namespaces", body)
        assert (failed.status_code, failed.headers["retry-after"]) == (503, "1")
        assert failed.json()["error"]["type"] == "ServiceUnavailableException"
        store.says = OutcomeUnknown("no answer")
        unknown = found.post("/v1/namespaces", body)
        assert (unknown.status_code, unknown.json()["error"]["type"]) == (500, "CommitStateUnknownException")
        store.says = None
        assert found.post("/v1/namespaces", body).status_code == 200
