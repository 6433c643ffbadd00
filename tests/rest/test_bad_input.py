"""Whatever is wrong with a request: the status that is documented, an error of the protocol, a line in the log, and a
catalog that is as it was."""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from olympia_cli.iceberg.catalog import view_definition
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.storage.local import LocalStore
from tests.helpers.patience import wait_until
from tests.helpers.places import quiet_environment
from tests.helpers.serving import Served, serving
from tests.rest.test_protocol import REPRESENTATION, SCHEMA

T = "/v1/namespaces/s/tables"
KNOWN = f"{T}/t"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    locations = (f"{folder}/data", "s3://olympia-none")
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(LocalStore(folder), max_body_bytes=20_000, locations=locations) as found,
    ):
        quiet_environment(patch)
        found.post("/v1/namespaces", {"namespace": ["s"], "properties": {"a": "b"}})
        found.post(T, {"name": "t", "schema": SCHEMA})
        found.post(T, {"name": "u", "schema": SCHEMA})
        (folder / "data/no.json").write_text("no")
        (folder / "data/object.json").write_text(json.dumps({"location": f"{folder}/data/x", "format-version": 2}))
        os.mkfifo(folder / "data/pipe")
        yield found


def commit(*updates: object, requirements: tuple[object, ...] = ()) -> dict[str, object]:
    return {"requirements": list(requirements), "updates": list(updates)}


def properties(**updates: str) -> dict[str, object]:
    return {"action": "set-properties", "updates": updates}


STALE = {"type": "assert-table-uuid", "uuid": str(uuid.uuid4())}
SNAPSHOT = {
    "snapshot-id": 1,
    "timestamp-ms": 1,
    "sequence-number": 1,
    "summary": {"operation": "append"},
    "schema-id": 0,
}
SECOND = {"id": 1, "name": "second", "required": False, "type": "int"}
TERM = {"source-id": 77, "transform": "identity"}
OUTSIDE = "file:///etc/passwd"
IDENTIFIER = {"namespace": ["s"], "name": "t"}
NEW = {"namespace": ["s"], "name": "new"}

CASES: dict[str, tuple[str, str, object, int, str]] = {
    "no such namespace": ("GET", "/v1/namespaces/no", None, 404, "NoSuchNamespaceException"),
    "a namespace of two levels": ("GET", "/v1/namespaces/a%1Fb", None, 404, "NoSuchNamespaceException"),
    "to make one of two levels": ("POST", "/v1/namespaces", {"namespace": ["a", "b"]}, 400, "BadRequestException"),
    "a name with a space": ("POST", "/v1/namespaces", {"namespace": ["a b"]}, 400, "BadRequestException"),
    "a namespace that clients fold away": ("POST", "/v1/namespaces", {"namespace": [".."]}, 400, "BadRequestException"),
    "a table that clients fold away": ("POST", T, {"name": ".", "schema": SCHEMA}, 400, "BadRequestException"),
    "a table that would be folded away": (
        "POST",
        "/v1/tables/rename",
        {"source": IDENTIFIER, "destination": {**IDENTIFIER, "name": ".."}},
        400,
        "BadRequestException",
    ),
    "a name that is too long": ("POST", "/v1/namespaces", {"namespace": ["x" * 500]}, 400, "BadRequestException"),
    "a table in one that is too long": (
        "POST",
        f"/v1/namespaces/{'x' * 500}/tables",
        {"name": "t", "schema": SCHEMA},
        400,
        "BadRequestException",
    ),
    "a namespace that is text": ("POST", "/v1/namespaces", {"namespace": "a"}, 400, "BadRequestException"),
    "a namespace that is there": ("POST", "/v1/namespaces", {"namespace": ["s"]}, 409, "AlreadyExistsException"),
    "properties that are numbers": (
        "POST",
        "/v1/namespaces",
        {"namespace": ["n"], "properties": {"a": 1}},
        400,
        "BadRequestException",
    ),
    "a namespace that is not empty": ("DELETE", "/v1/namespaces/s", None, 409, "NamespaceNotEmptyException"),
    "a property twice": (
        "POST",
        "/v1/namespaces/s/properties",
        {"removals": ["a"], "updates": {"a": "b"}},
        422,
        "UnprocessableEntityException",
    ),
    "children of none": ("GET", "/v1/namespaces?parent=no", None, 404, "NoSuchNamespaceException"),
    "a page of no size": ("GET", "/v1/namespaces?pageSize=0", None, 400, "BadRequestException"),
    "a token of nobody": ("GET", "/v1/namespaces?pageToken=%00%ff!", None, 400, "BadRequestException"),
    "no such table": ("GET", f"{T}/no", None, 404, "NoSuchTableException"),
    "a table in one of two levels": ("GET", "/v1/namespaces/s%1Ft/tables/files", None, 404, "NoSuchTableException"),
    "a view in one of two levels": ("GET", "/v1/namespaces/s%1Ft/views/files", None, 404, "NoSuchViewException"),
    "tables of one of two levels": ("GET", "/v1/namespaces/s%1Ft/tables", None, 404, "NoSuchNamespaceException"),
    "a table whose name cannot be": ("GET", f"{T}/a%20b", None, 404, "NoSuchTableException"),
    "a name that is no text": ("GET", f"{T}/%ff%fe", None, 404, "NoSuchTableException"),
    "snapshots of another kind": ("GET", f"{KNOWN}?snapshots=some", None, 400, "BadRequestException"),
    "a table that is there": ("POST", T, {"name": "t", "schema": SCHEMA}, 409, "AlreadyExistsException"),
    "a table in none": (
        "POST",
        "/v1/namespaces/no/tables",
        {"name": "t", "schema": SCHEMA},
        404,
        "NoSuchNamespaceException",
    ),
    "to stage a table that is there": (
        "POST",
        T,
        {"name": "t", "schema": SCHEMA, "stage-create": True},
        409,
        "AlreadyExistsException",
    ),
    "a table without a schema": ("POST", T, {"name": "n"}, 400, "BadRequestException"),
    "a schema of nonsense": ("POST", T, {"name": "n", "schema": {"type": "struct"}}, 400, "BadRequestException"),
    "a type that is none": (
        "POST",
        T,
        {"name": "n", "schema": {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "type": "no"}]}},
        400,
        "BadRequestException",
    ),
    "a table elsewhere": (
        "POST",
        T,
        {"name": "n", "schema": SCHEMA, "location": "file:///etc"},
        403,
        "ForbiddenException",
    ),
    "a table in a bucket of others": (
        "POST",
        T,
        {"name": "n", "schema": SCHEMA, "location": "s3://x/y"},
        403,
        "ForbiddenException",
    ),
    "code to load": (
        "POST",
        T,
        {"name": "n", "schema": SCHEMA, "properties": {"py-io-impl": "os.path"}},
        403,
        "ForbiddenException",
    ),
    "metadata elsewhere": (
        "POST",
        T,
        {"name": "n", "schema": SCHEMA, "properties": {"write.metadata.path": "/etc"}},
        403,
        "ForbiddenException",
    ),
    "a namespace elsewhere": (
        "POST",
        "/v1/namespaces/s/properties",
        {"updates": {"location": "/etc"}},
        403,
        "ForbiddenException",
    ),
    "to register what is elsewhere": (
        "POST",
        "/v1/namespaces/s/register",
        {"name": "n", "metadata-location": OUTSIDE},
        403,
        "ForbiddenException",
    ),
    "to register over a parent": (
        "POST",
        "/v1/namespaces/s/register",
        {"name": "n", "metadata-location": "{data}/../../../../etc/passwd"},
        400,
        "BadRequestException",
    ),
    "to register what is missing": (
        "POST",
        "/v1/namespaces/s/register",
        {"name": "n", "metadata-location": "{data}/s/none.json"},
        400,
        "BadRequestException",
    ),
    "to register what is no JSON": (
        "POST",
        "/v1/namespaces/s/register",
        {"name": "n", "metadata-location": "{data}/no.json"},
        400,
        "BadRequestException",
    ),
    "to register what is no table": (
        "POST",
        "/v1/namespaces/s/register",
        {"name": "n", "metadata-location": "{data}/object.json"},
        400,
        "BadRequestException",
    ),
    "to register a folder": (
        "POST",
        "/v1/namespaces/s/register",
        {"name": "n", "metadata-location": "{data}/s"},
        400,
        "BadRequestException",
    ),
    "to register a pipe": (
        "POST",
        "/v1/namespaces/s/register",
        {"name": "n", "metadata-location": "{data}/pipe"},
        400,
        "BadRequestException",
    ),
    "a view that is no JSON": (
        "POST",
        "/v1/namespaces/s/register-view",
        {"name": "n", "metadata-location": "{data}/no.json"},
        400,
        "BadRequestException",
    ),
    "a view that is none": (
        "POST",
        "/v1/namespaces/s/register-view",
        {"name": "n", "metadata-location": "{data}/object.json"},
        400,
        "BadRequestException",
    ),
    "a view that is a pipe": (
        "POST",
        "/v1/namespaces/s/register-view",
        {"name": "n", "metadata-location": "{data}/pipe"},
        400,
        "BadRequestException",
    ),
    "a view in a bucket that nobody opens": (
        "POST",
        "/v1/namespaces/s/register-view",
        {"name": "n", "metadata-location": "s3://olympia-none/view.json"},
        400,
        "BadRequestException",
    ),
    "to register without a location": ("POST", "/v1/namespaces/s/register", {"name": "n"}, 400, "BadRequestException"),
    "a commit to none": ("POST", f"{T}/no", commit(properties(a="b")), 404, "NoSuchTableException"),
    "an update that is none": ("POST", KNOWN, commit({"action": "no"}), 400, "BadRequestException"),
    "a requirement that is none": (
        "POST",
        KNOWN,
        commit(properties(a="b"), requirements=({"type": "no"},)),
        400,
        "BadRequestException",
    ),
    "a stale requirement": (
        "POST",
        KNOWN,
        commit(properties(a="b"), requirements=(STALE,)),
        409,
        "CommitFailedException",
    ),
    "to create what is there": (
        "POST",
        KNOWN,
        commit(properties(a="b"), requirements=({"type": "assert-create"},)),
        409,
        "CommitFailedException",
    ),
    "a table made of too little": (
        "POST",
        f"{T}/little",
        commit(properties(a="b"), requirements=({"type": "assert-create"},)),
        400,
        "BadRequestException",
    ),
    "the identifier of another": (
        "POST",
        KNOWN,
        {**commit(properties(a="b")), "identifier": {"namespace": ["s"], "name": "u"}},
        400,
        "BadRequestException",
    ),
    "a schema that is not there": (
        "POST",
        KNOWN,
        commit({"action": "set-current-schema", "schema-id": 77}),
        400,
        "BadRequestException",
    ),
    "to move a table elsewhere": (
        "POST",
        KNOWN,
        commit({"action": "set-location", "location": "file:///etc"}),
        403,
        "ForbiddenException",
    ),
    "metadata to elsewhere": (
        "POST",
        KNOWN,
        commit(properties(**{"write.metadata.path": "/etc"})),
        403,
        "ForbiddenException",
    ),
    "a provider to load": (
        "POST",
        KNOWN,
        commit(properties(**{"write.py-location-provider.impl": "os.path"})),
        403,
        "ForbiddenException",
    ),
    "a manifest list elsewhere": (
        "POST",
        KNOWN,
        commit({"action": "add-snapshot", "snapshot": {**SNAPSHOT, "manifest-list": OUTSIDE}}),
        403,
        "ForbiddenException",
    ),
    "a table nowhere": ("POST", KNOWN, commit({"action": "set-location", "location": ""}), 400, "BadRequestException"),
    "a number that no file could hold": (
        "POST",
        KNOWN,
        commit({"action": "add-snapshot", "snapshot": {**SNAPSHOT, "snapshot-id": 2**71, "manifest-list": "{data}/l"}}),
        400,
        "BadRequestException",
    ),
    "half a character": ("POST", KNOWN, commit(properties(a="\ud800")), 400, "BadRequestException"),
    "two columns of one number": (
        "POST",
        KNOWN,
        commit({"action": "add-schema", "schema": {**SCHEMA, "fields": [*SCHEMA["fields"], SECOND]}}),
        400,
        "BadRequestException",
    ),
    "a default before its time": (
        "POST",
        T,
        {"name": "n", "schema": {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "initial-default": 1}]}},
        400,
        "BadRequestException",
    ),
    "a partitioning by no column": (
        "POST",
        KNOWN,
        commit({"action": "add-spec", "spec": {"spec-id": 1, "fields": [{**TERM, "field-id": 1000, "name": "x"}]}}),
        400,
        "BadRequestException",
    ),
    "an order by no column": (
        "POST",
        KNOWN,
        commit(
            {
                "action": "add-sort-order",
                "sort-order": {"order-id": 1, "fields": [{**TERM, "direction": "asc", "null-order": "nulls-first"}]},
            }
        ),
        400,
        "BadRequestException",
    ),
    "a format of no number": (
        "POST",
        T,
        {"name": "n", "schema": SCHEMA, "properties": {"format-version": "x"}},
        400,
        "BadRequestException",
    ),
    "a type of a later format": (
        "POST",
        T,
        {"name": "n", "schema": {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "type": "timestamp_ns"}]}},
        400,
        "BadRequestException",
    ),
    "no changes of tables": ("POST", "/v1/transactions/commit", {"table-changes": []}, 400, "BadRequestException"),
    "changes that are text": ("POST", "/v1/transactions/commit", {"table-changes": ["x"]}, 400, "BadRequestException"),
    "to rename none": (
        "POST",
        "/v1/tables/rename",
        {"source": NEW, "destination": {**NEW, "name": "x"}},
        404,
        "NoSuchTableException",
    ),
    "to rename to what is there": (
        "POST",
        "/v1/tables/rename",
        {"source": IDENTIFIER, "destination": {"namespace": ["s"], "name": "u"}},
        409,
        "AlreadyExistsException",
    ),
    "to rename into none": (
        "POST",
        "/v1/tables/rename",
        {"source": IDENTIFIER, "destination": {"namespace": ["no"], "name": "u"}},
        404,
        "NoSuchNamespaceException",
    ),
    "to rename nothing": ("POST", "/v1/tables/rename", {"source": IDENTIFIER}, 400, "BadRequestException"),
    "to purge a little": ("DELETE", f"{KNOWN}?purgeRequested=some", None, 400, "BadRequestException"),
    "to drop none": ("DELETE", f"{T}/no", None, 404, "NoSuchTableException"),
    "no such view": ("GET", "/v1/namespaces/s/views/no", None, 404, "NoSuchViewException"),
    "to replace no view": (
        "POST",
        "/v1/namespaces/s/views/no",
        {"requirements": [], "updates": []},
        404,
        "NoSuchViewException",
    ),
    "no such version": ("GET", "/v1/at/v9999/namespaces", None, 404, "NoSuchVersionException"),
    "a reference that is none": ("GET", "/v1/at/a%20b/namespaces", None, 400, "BadRequestException"),
    "to change an older version": ("POST", "/v1/at/v1/namespaces", {"namespace": ["n"]}, 403, "ForbiddenException"),
    "to drop in an older version": ("DELETE", "/v1/at/v3/namespaces/s/tables/u", None, 403, "ForbiddenException"),
    "no such transaction": ("GET", f"/v1/txn/{uuid.uuid4()}/namespaces", None, 404, "NoSuchTransactionException"),
    "an id that is none": (
        "POST",
        "/v1/txn/..%2F..%2Fvn/namespaces",
        {"namespace": ["n"]},
        404,
        "NoSuchTransactionException",
    ),
    "to commit no transaction": ("POST", "/v1/commit", {}, 400, "BadRequestException"),
    "another warehouse": ("GET", "/v1/config?warehouse=other", None, 400, "BadRequestException"),
    "nothing there": ("GET", "/v2/namespaces", None, 404, "NoSuchEndpointException"),
    "another method": ("PUT", "/v1/namespaces", None, 405, "MethodNotAllowedException"),
    "a body that is a list": ("POST", "/v1/namespaces", [1], 400, "BadRequestException"),
    "a body that is too large": (
        "POST",
        "/v1/namespaces",
        {"namespace": ["x" * 30_000]},
        413,
        "RequestTooLargeException",
    ),
}


def contents(served: Served) -> list[str]:
    """Every file of the catalog and of its tables."""
    return sorted(file.path for file in served.catalog.store.list())


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_and_changes_nothing(served, case):
    method, path, body, status, type = CASES[case]
    before = contents(served)
    text = None if body is None else json.dumps(body).replace("{data}", f"{served.catalog.store.uri}/data")
    headers = {"Content-Type": "application/json"} if text else {}
    answer = served.http.request(method, path, content=text, headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, type), answer.text
    assert answer.json()["error"]["code"] == status
    assert contents(served) == before
    line = served.lines()[-1]
    assert (line["status"], line["method"]) == (status, method)
    assert line["error"].startswith(type)


POSTED = ["/v1/namespaces", "/v1/namespaces/s/properties", T, KNOWN, "/v1/tables/rename", "/v1/transactions/commit",
          "/v1/namespaces/s/register", "/v1/namespaces/s/views", "/v1/namespaces/s/register-view",
          "/v1/views/rename"]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff\xfe", b"null", b'"x"', b"[" * 10_000, b"1" * 5000, b'{"a": NaN',
        b'{"a": NaN}', b'{"a": 1e999}', b'{"a": "\xed\xa0\x80"}', b'{"name": "n", "name": "n"}',
        '{"a": 1}'.encode("utf-16"), '{"a": "\\ud800"}'.encode("utf-16"),
    ],
)  # fmt: skip
def test_a_body_that_is_no_document(served, body):
    before = contents(served)
    for path in POSTED:
        answer = served.http.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException"), path
    assert contents(served) == before


VERSION = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1,
    "default-namespace": ["s"],
    "representations": [REPRESENTATION],
    "else": "@",
}
DEFAULTS = {**SCHEMA, "fields": [{"id": 1, "name": "x", "required": False, "type": "double", "write-default": "@"}]}
HOLDERS = {
    "/v1/namespaces/s/views": {"name": "holder", "schema": SCHEMA, "view-version": VERSION},
    T: {"name": "staged", "schema": DEFAULTS, "properties": {"format-version": "3"}, "stage-create": True},
    KNOWN: commit({"action": "set-properties", "updates": {}, "else": "@"}),
    "/v1/namespaces/s/properties": {"updates": {"a": "b"}, "else": "@"},
}
"""Requests with a field that may have any content, even one that the server ignores."""


def test_json_that_other_readers_reject_is_not_stored(served):
    def asked(path: str, value: str) -> httpx.Response:
        text = json.dumps(HOLDERS[path]).replace('"@"', value)
        return served.http.post(path, content=text, headers={"Content-Type": "application/json"})

    before = contents(served)
    for path in HOLDERS:
        for value in ("1e999", "-1e999", "NaN", "Infinity", '"\\ud800"', str(2**63), '{"a": 1, "a": 2}'):
            answer = asked(path, value)
            assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException"), (path, value)
            assert "JSON" in answer.json()["error"]["message"]
    assert contents(served) == before
    # it is the value that is refused
    assert {asked(path, "1.5").status_code for path in HOLDERS} == {200}


@pytest.mark.parametrize("half", ["\ud800", "a\udfffb"])
def test_metadata_with_half_of_a_character_is_not_registered(served, half):
    """PyIceberg could not open the table. A whole character is taken, and so are the letters of an escape."""
    view_version = {**VERSION, "summary": {}}
    asked = {"name": "sound", "schema": SCHEMA}
    served.post(T, asked)
    served.post(
        "/v1/namespaces/s/views", {**asked, "name": "sound_view", "view-version": view_version, "properties": {}}
    )
    store = served.catalog.store
    for kind, sound in (("table", f"{T}/sound"), ("view", "/v1/namespaces/s/views/sound_view")):
        made = served.http.get(sound).json()["metadata"]
        for number, (text, status) in enumerate(((half, 400), ("\U0001f600 \\ud800", 200))):
            path = f"data/s/{uuid.uuid4()}.metadata.json"
            store.create(path, json.dumps({**made, "properties": {"comment": text}}).encode())
            before = contents(served)
            register = {"table": "register", "view": "register-view"}[kind]
            body = {"name": f"half_{kind}_{ord(half[0])}", "metadata-location": f"{store.uri}/{path}"}
            answer = served.post(f"/v1/namespaces/s/{register}", body)
            assert answer.status_code == status, answer.text
            if not number:
                assert answer.json()["error"]["type"] == "BadRequestException"
                assert "is half of a character" in answer.json()["error"]["message"]
                assert contents(served) == before


@pytest.mark.parametrize("value", ["1e999", "NaN", "-Infinity", '"\xed\xa0\x80"'])
def test_metadata_that_is_no_json_is_not_registered(served, value):
    """Nor is it repeated to clients where it was put past the server."""
    served.post(T, {"name": "sound", "schema": SCHEMA})
    made = served.http.get(f"{T}/sound").json()["metadata"]
    view = {"view-uuid": str(uuid.uuid4()), "format-version": 1, "location": made["location"], "schemas": [SCHEMA]}
    view |= {"current-version-id": 1, "versions": [VERSION], "version-log": [{"timestamp-ms": 1, "version-id": 1}]}
    store = served.catalog.store
    for kind, metadata in (("table", made), ("view", view)):
        path = f"data/s/{uuid.uuid4()}.metadata.json"
        text = json.dumps({**metadata, "else": "@"}).replace('"@"', value)
        store.create(path, text.encode("latin-1"))
        before = contents(served)
        register = {"table": "register", "view": "register-view"}[kind]
        body = {"name": f"no_{kind}", "metadata-location": f"{store.uri}/{path}"}
        answer = served.post(f"/v1/namespaces/s/{register}", body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException"), answer.text
        assert "it is not JSON" in answer.json()["error"]["message"]
        assert contents(served) == before
        with served.catalog.transaction() as transaction:
            if kind == "table":
                transaction.create_table(TableName("s", "past"), f"{store.uri}/{path}")
            else:
                transaction.create_view(ViewName("s", "past_v"), view_definition(f"{store.uri}/{path}"))
        shown = {"table": f"{T}/past", "view": "/v1/namespaces/s/views/past_v"}[kind]
        assert (served.http.get(shown).status_code, "else" in served.http.get(shown).text) == (500, False)
        assert "else" not in served.post(shown, commit(properties(a="b"))).text
        # it can be dropped
        assert served.http.delete(shown).status_code == 204


def test_requests_from_pages_of_foreign_sites_are_refused(served):
    before = contents(served)
    body = json.dumps({"namespace": ["planted"]})
    for sent in ("text/plain", "application/x-www-form-urlencoded", "text/plain; application/json"):
        answer = served.http.post("/v1/namespaces", content=body, headers={"Content-Type": sent})
        assert answer.status_code == 400
    assert served.http.post("/v1/transactions").status_code == 400
    # a foreign name that resolves to this machine
    for host in (
        "evil.example", "localhost.evil.example", "evil.localhost", "localhost..", ".", "", ":80", "localhost:evil",
        "::1", "[::1].evil", "[evil]", "[localhost", "127.0.0.1.evil.example", "127.0.0.1@evil", "192.0.2.1",
    ):  # fmt: skip
        assert served.http.get("/v1/namespaces", headers={"Host": host}).status_code == 400, host
    for host in (
        "localhost", "localhost:80", "localhost:", "LOCALHOST", "LocalHost:80", "localhost.", "localhost.:80",
        "127.0.0.1:1", "127.0.0.2", "[::1]", "[::1]:5",
    ):  # fmt: skip
        assert served.http.get("/v1/namespaces", headers={"Host": host}).status_code == 200, host
    assert contents(served) == before


def test_json_is_json_however_it_is_written(served):
    for number, sent in enumerate(("Application/JSON", "application/json ; charset=utf-8")):
        body = json.dumps({"namespace": [f"json{number}"]})
        assert served.http.post("/v1/namespaces", content=body, headers={"Content-Type": sent}).status_code == 200


def test_a_body_without_a_length_is_measured_as_it_comes(served):
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    answer = served.http.post("/v1/namespaces", content=endless(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


def test_a_client_that_is_too_slow_is_let_go(tmp_path):
    head = b"POST /v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"
    answers = []
    with serving(LocalStore(tmp_path), request_timeout=0.5) as found:
        clients = []
        for sent in (b"", b"GET /v1/nam", head):
            clients.append(connection(found))
            clients[-1].sendall(sent)
        for client in clients:
            with client:
                answers.append(b"".join(iter(lambda client=client: client.recv(65_536), b"")))  # type: ignore[misc]
    # who has said what he wants is told; who has not is not
    assert answers[:2] == [b"", b""]
    assert b" 408 " in answers[2]
    assert b"RequestTimeoutException" in answers[2]


def test_a_client_that_reads_no_answers_blocks_no_others(tmp_path):
    with serving(LocalStore(tmp_path), request_timeout=0.5, max_requests=2) as found, connection(found) as deaf:
        deaf.setblocking(False)
        request = b"GET /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
        # as many as fit on the way, so that the answers do not
        sent = 0
        while sent < 200:
            try:
                deaf.send(request)
                sent += 1
            except BlockingIOError:
                break

        def is_given_up() -> bool:
            # in time, or not: it is answered
            assert found.http.get("/v1/namespaces").status_code in (200, 504)
            return any(line.get("event") == "unread" for line in found.lines())

        wait_until(is_given_up, "given up")
        wait_until(lambda: not found.running.record.under_way, "at rest")


def connection(served: Served) -> socket.socket:
    host, port = served.url.rpartition("/")[2].split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_a_connection_may_rest_between_requests(served):
    """The time that a request may take to come begins with its first byte."""
    with connection(served) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in client.recv(65_536)
        name = client.getsockname()
        ours = [one for one in served.running._server.server_state.connections if one.client == name]
        assert [one._patience for one in ours] == [None]


def test_a_request_that_is_not_http_gets_400(served):
    with connection(served) as client:
        client.sendall(b"\x16\x03\x01\x00\xff\xff\xff\r\n\r\n")
        assert b" 400 " in client.recv(65_536)
    assert served.http.get("/healthz").status_code == 200


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("request_line", ["POST /v1/namespaces", "GET /healthz", "GET /v1/namespaces", "PUT /nothing"])
@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 20",
        "Content-Length: 0\r\nTransfer-Encoding: Chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 20\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: gzip, chunked",
        "Content-Length: +5",
    ],
)
def test_a_request_with_two_ends_is_the_last_of_its_connection(served, framing, request_line, version):
    """A proxy before the server may have taken the other end, and what follows for a part of this request."""
    served.log.truncate(0)
    served.log.seek(0)
    head = f"{request_line} HTTP/{version}\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    more = f"2\r\n{{}}\r\n0\r\n\r\nGET /page.css HTTP/{version}\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
    with connection(served) as client:
        client.sendall(f"{head}Connection: keep-alive\r\n{framing}\r\n\r\n{more}".encode())
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nconnection: close\r\n" in answer.lower()
    assert "/page.css" not in served.log.getvalue()


def test_a_table_that_names_code_is_not_committed_to(served):
    """The table may have been created by another way than this server."""
    store = served.catalog.store
    loaded = served.http.get(f"{T}/u").json()
    metadata = {**loaded["metadata"], "properties": {"write.py-location-provider.impl": "tests.evil.Provider"}}
    path = "data/s/u/metadata/00009-evil.metadata.json"
    store.create(path, json.dumps(metadata).encode())
    with served.catalog.transaction() as transaction:
        transaction.create_table(TableName("s", "evil"), f"{store.uri}/{path}")
    before = contents(served)
    answer = served.post(f"{T}/evil", commit(properties(a="b")))
    assert answer.status_code == 403
    assert contents(served) == before


def test_a_pipe_is_not_waited_for(served):
    """The commit is the table's business: what cannot be read is not named in the log."""
    served.post(T, {"name": "piped", "schema": SCHEMA})
    pipe = f"{served.catalog.store.uri}/data/pipe"
    added = {"action": "add-snapshot", "snapshot": {**SNAPSHOT, "manifest-list": pipe}}
    current = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    answer = served.post(f"{T}/piped", commit(added, current))
    assert answer.json()["metadata"]["current-snapshot-id"] == 1


def test_missing_and_damaged_metadata_get_different_errors(served):
    with served.catalog.transaction() as transaction:
        transaction.create_table(TableName("s", "lost"), f"{served.catalog.store.uri}/data/lost.json")
        transaction.create_namespace(NamespaceName("x"))

    def asked() -> list[tuple[int, str]]:
        answers = (served.http.get(f"{T}/lost"), served.post(f"{T}/lost", commit(properties(a="b"))))
        return [(answer.status_code, answer.json()["error"]["type"]) for answer in answers]

    assert asked() == [(404, "NotFoundException")] * 2
    served.catalog.store.create("data/lost.json", b"nonsense")
    # no client can help it, and nothing was committed
    assert asked() == [(500, "InternalServerError"), (503, "InternalServerError")]
    # it is there, and can be dropped
    assert served.http.head(f"{T}/lost").status_code == 204
    assert served.http.delete(f"{T}/lost").status_code == 204


def test_too_many_concurrent_requests_get_retry_after(tmp_path):
    with serving(LocalStore(tmp_path), max_requests=1) as found, httpx.Client(base_url=found.url) as other:
        entered: list[Any] = []

        def slowly() -> Iterator[bytes]:
            yield b"{"
            entered.append(other.get("/v1/namespaces"))
            yield b"}"

        assert (
            found.http.post(
                "/v1/namespaces", content=slowly(), headers={"Content-Type": "application/json"}
            ).status_code
            == 400
        )
        assert (entered[0].status_code, entered[0].headers["retry-after"]) == (503, "1")
        assert entered[0].json()["error"]["type"] == "SlowDownException"
        assert found.http.get("/v1/namespaces").status_code == 200
