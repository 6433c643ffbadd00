"""Permissions of clients: tokens, scopes, namespaces, locations, read-only access, TLS."""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import json
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pyiceberg.exceptions import ForbiddenError, OAuthError, UnauthorizedError
from pyiceberg.manifest import ManifestFile, write_manifest_list

from olympia_cli.errors import InvalidOption
from olympia_cli.format.actions import commit_info
from olympia_cli.names import NamespaceName
from olympia_cli.rest.access import MAX_BYTES, Tokens
from olympia_cli.rest.settings import Settings
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.clock import HOUR, SECOND, FakeClock
from tests.helpers.serving import Served, serving
from tests.rest.test_protocol import REPRESENTATION, SCHEMA


def entry(name: str, *more: str) -> str:
    digest = hashlib.sha256(f"secret-{name}".encode()).hexdigest()
    return "\n".join(["[[token]]", f'name = "{name}"', f'sha256 = "{digest}"', *more, ""])


TOKENS = "\n".join(
    [
        entry("admin", 'scopes = ["read", "write"]'),
        entry("reader", 'scopes = ["read"]'),
        entry("sales", 'scopes = ["read", "write"]', 'namespaces = ["sales"]'),
        entry("nowhere", 'scopes = ["write"]', "locations = []"),
    ]
)


NAMES = (
    "manifest_length", "partition_spec_id", "content", "sequence_number", "min_sequence_number", "added_files_count",
    "existing_files_count", "deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count",
    "partitions", "key_metadata",
)  # fmt: skip
"""The fields of a manifest in a manifest list."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    tokens = folder / "tokens.toml"
    tokens.write_text(TOKENS)
    with serving(LocalStore(folder / "catalog"), tokens=str(tokens)) as found:
        for namespace in ("sales", "hr"):
            found.post("/v1/namespaces", {"namespace": [namespace]}, **bearer("admin"))
            found.post(f"/v1/namespaces/{namespace}/tables", {"name": "t", "schema": SCHEMA}, **bearer("admin"))
        yield found


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer secret-{name}"}


def get(served: Served, path: str, name: str = "") -> httpx.Response:
    return served.http.get(path, headers=bearer(name) if name else {})


@pytest.mark.parametrize("headers", [{}, bearer("nobody"), {"Authorization": "Bearer"}, {"Authorization": "x"},
                                     {"Authorization": "Basic OnNlY3JldC1hZG1pbg=="}])  # fmt: skip
def test_requests_without_a_valid_token_are_refused(served, headers):
    for path in ("/v1/config", "/v1/namespaces", "/v1/namespaces/sales/tables/t"):
        answer = served.http.get(path, headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (401, "NotAuthorizedException")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert served.post("/v1/namespaces", {"namespace": ["x"]}, **headers).status_code == 401
    assert served.lines()[-1]["status"] == 401
    assert served.http.get("/healthz").status_code == 200


def test_no_token_is_in_the_log(served):
    get(served, "/v1/config", "admin")
    get(served, "/v1/config", "wrong")
    assert "secret-" not in served.log.getvalue()
    assert served.lines()[-2]["by"] == "admin"


def test_a_token_that_only_reads_cannot_write(served):
    assert get(served, "/v1/namespaces/hr/tables/t", "reader").status_code == 200
    before = served.version
    answer = served.post("/v1/namespaces", {"namespace": ["x"]}, **bearer("reader"))
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ForbiddenException")
    assert served.http.delete("/v1/namespaces/hr/tables/t", headers=bearer("reader")).status_code == 403
    assert served.version == before
    endpoints = get(served, "/v1/config", "reader").json()["endpoints"]
    assert not any(endpoint.startswith("DELETE") for endpoint in endpoints)


def test_a_token_for_a_namespace_sees_and_changes_nothing_else(served):
    assert get(served, "/v1/namespaces", "sales").json()["namespaces"] == [["sales"]]
    assert get(served, "/v1/namespaces/sales/tables/t", "sales").status_code == 200
    before = served.version
    for path in ("/v1/namespaces/hr", "/v1/namespaces/hr/tables", "/v1/namespaces/hr/tables/t"):
        assert get(served, path, "sales").status_code == 403
    there = {"namespace": ["sales"], "name": "t"}
    away = {"source": there, "destination": {"namespace": ["hr"], "name": "u"}}
    assert served.post("/v1/tables/rename", away, **bearer("sales")).status_code == 403
    both = [
        {"identifier": {"namespace": [name], "name": "t"}, "requirements": [], "updates": []}
        for name in ("sales", "hr")
    ]
    assert served.post("/v1/transactions/commit", {"table-changes": both}, **bearer("sales")).status_code == 403
    # the table of another namespace is not brought in by its metadata either
    location = get(served, "/v1/namespaces/hr/tables/t", "admin").json()["metadata-location"]
    body = {"name": "stolen", "metadata-location": location}
    assert served.post("/v1/namespaces/sales/register", body, **bearer("sales")).status_code == 403
    # nor is a transaction ended that may hold anything
    assert served.post("/v1/transactions", {}, **bearer("sales")).status_code == 403
    # a page shows the whole catalog
    assert get(served, "/", "sales").status_code == 403
    assert get(served, "/metrics", "sales").status_code == 403
    assert served.version == before
    made = served.post("/v1/namespaces/sales/tables", {"name": "mine", "schema": SCHEMA}, **bearer("sales"))
    assert made.status_code == 200
    info = commit_info(served.catalog.snapshot().actions())
    assert info is not None
    assert info.by == "sales"


def test_a_namespace_with_its_own_location_puts_tables_there(served, tmp_path):
    """The place is the administrator's to give."""
    with served.catalog.transaction() as transaction:
        transaction.alter_namespace(NamespaceName("sales"), {"location": f"{tmp_path}/own"})
    body = {"name": "staged", "schema": SCHEMA, "stage-create": True}
    staged = served.post("/v1/namespaces/sales/tables", body, **bearer("sales")).json()["metadata"]
    assert staged["location"].startswith(f"{tmp_path}/own/")
    updates = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "add-schema", "schema": staged["schemas"][0], "last-column-id": 1},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": staged["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
    ]
    commit = {"requirements": [{"type": "assert-create"}], "updates": updates}
    made = served.post("/v1/namespaces/sales/tables/staged", commit, **bearer("sales"))
    assert made.status_code == 200, made.text
    moved = {"updates": {"location": f"{tmp_path}/elsewhere"}}
    assert served.post("/v1/namespaces/sales/properties", moved, **bearer("sales")).status_code == 403


@pytest.mark.parametrize("kind", ["table", "view"])
def test_metadata_of_ones_own_making_leads_nowhere_else(served, tmp_path, kind):
    """A table may continue to use its locations, so these must exist when it is registered."""
    folder = Path(served.catalog.store.uri) / "data/sales"
    version = {"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "default-namespace": ["sales"]}
    version["representations"] = [REPRESENTATION]
    view = {"name": "made", "schema": SCHEMA, "view-version": version}
    made = {"table": ("tables/t", None), "view": ("views", view)}[kind]
    path = f"/v1/namespaces/sales/{made[0]}"
    answer = get(served, path, "sales") if made[1] is None else served.post(path, made[1], **bearer("sales"))
    sound = answer.json()["metadata"]
    register = {"table": "register", "view": "register-view"}[kind]
    before = served.version
    for number, wrong in enumerate(
        (
            {"location": str(tmp_path)},
            {"properties": {"write.metadata.path": str(tmp_path)}},
            {"properties": {"write.data.path": "s3://others/x"}},
            {"properties": {"py-io-impl": "os.path"}},
        )
    ):
        location = folder / f"{kind}-{number}.metadata.json"
        location.write_text(json.dumps({**sound, **wrong}))
        body = {"name": f"own_{kind}", "metadata-location": str(location)}
        answer = served.post(f"/v1/namespaces/sales/{register}", body, **bearer("sales"))
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ForbiddenException"), wrong
    assert served.version == before
    assert not list(tmp_path.iterdir())


def test_a_manifest_of_others_is_not_opened(served):
    """A manifest list comes from the client, and so do its manifests: the server would print their names in the log."""
    whole, mine = (served.client(token=f"secret-{name}") for name in ("admin", "sales"))
    rows = pa.table({"id": pa.array([1], pa.int64())})
    theirs, table = whole.load_table("hr.t"), mine.load_table("sales.t")
    theirs.append(rows)
    table.append(rows)
    listed = table.current_snapshot()
    their_manifest = theirs.current_snapshot().manifests(theirs.io)[0].manifest_path
    path = Path(listed.manifest_list)
    (own,) = listed.manifests(table.io)
    # a list with the manifest of the other table in place of its own, as if the same snapshot had written it
    listing = f"{path.parent}/of-others.avro"
    forged = ManifestFile.from_args(
        2,
        **{name: getattr(own, name) for name in NAMES},
        manifest_path=their_manifest,
        added_snapshot_id=7,
    )
    with write_manifest_list(2, table.io.new_output(listing), 7, listed.snapshot_id, 9, "null") as writer:
        writer.add_manifests([forged])
    snapshot = {
        "snapshot-id": 7,
        "parent-snapshot-id": listed.snapshot_id,
        "sequence-number": 9,
        "timestamp-ms": listed.timestamp_ms + 1,
        "manifest-list": listing,
        "summary": {"operation": "append", "added-data-files": "1"},
        "schema-id": 0,
    }
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
    ]
    answer = served.post("/v1/namespaces/sales/tables/t", {"requirements": [], "updates": updates}, **bearer("sales"))
    assert answer.status_code == 200, answer.text
    assert not any(b"/hr/" in action.payload for action in served.catalog.snapshot().actions())


def test_a_view_is_moved_nowhere_else(served, tmp_path):
    """Not in two steps either, of which the first leaves its metadata where it may be."""
    version = {"version-id": 1, "schema-id": 0, "default-namespace": ["sales"], "representations": [REPRESENTATION]}
    view = {"name": "moving", "schema": SCHEMA, "view-version": version}
    made = served.post("/v1/namespaces/sales/views", view, **bearer("sales")).json()["metadata"]
    before = served.version
    updates = [
        {"action": "set-properties", "updates": {"write.metadata.path": f"{made['location']}/here"}},
        {"action": "set-location", "location": str(tmp_path)},
    ]
    body = {"requirements": [], "updates": updates}
    answer = served.post("/v1/namespaces/sales/views/moving", body, **bearer("sales"))
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ForbiddenException")
    assert served.version == before


def test_a_token_with_no_location_names_none(served):
    location = get(served, "/v1/namespaces/hr/tables/t", "admin").json()["metadata-location"]
    body = {"name": "again", "metadata-location": location}
    assert served.post("/v1/namespaces/hr/register", body, **bearer("nowhere")).status_code == 403


def test_a_browser_gives_the_token_as_a_password(served):
    asked = served.http.get("/")
    assert (asked.status_code, asked.headers["www-authenticate"][:5]) == (401, "Basic")
    words = base64.b64encode(b"anybody:secret-reader").decode()
    assert served.http.get("/", headers={"Authorization": f"Basic {words}"}).status_code == 200
    assert served.http.get("/", headers={"Authorization": "Basic !"}).status_code == 401


def test_the_client_of_pyiceberg_sends_its_token(served):
    assert ("hr",) in served.client(token="secret-reader").list_namespaces()
    with pytest.raises(UnauthorizedError):
        served.client(token="nothing")
    with pytest.raises((ForbiddenError, NotImplementedError)):
        served.client(token="secret-reader").create_namespace("x")


def test_a_token_is_taken_back_while_the_server_runs(tmp_path):
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(TOKENS)
    with serving(MemoryStore(), tokens=str(tokens)) as found:
        assert get(found, "/v1/namespaces", "reader").status_code == 200
        tokens.write_text(entry("admin", 'scopes = ["read"]'))
        assert get(found, "/v1/namespaces", "reader").status_code == 401
        assert get(found, "/v1/namespaces", "admin").status_code == 200


ONE = entry("reader", 'scopes = ["read"]')
BROKEN = [
    "nonsense", "x = 1", "[[tokens]]", "[[token]]", "[token]\n", "token = 1", "\0", "[" * 5000, "x = " + "9" * 5000,
    ONE + ONE, ONE + entry("a"), "#" * (MAX_BYTES + 1),
]  # fmt: skip
"""Invalid contents of a tokens file."""


def admitted(served: Served) -> int:
    return get(served, "/v1/namespaces", "reader").status_code


def told(served: Served) -> list[str]:
    """Return the log's new messages on the tokens file."""
    found = [line["state"] for line in served.lines() if line.get("event") == "tokens"]
    served.log.truncate(0)
    served.log.seek(0)
    return found


@pytest.mark.parametrize("text", ["", " \n", "# [[token]]\n", "token = []", None], ids=repr)
def test_an_empty_or_missing_tokens_file_admits_no_client(tmp_path, text):
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(ONE)
    with serving(MemoryStore(), tokens=str(tokens)) as found:
        assert admitted(found) == 200
        assert found.http.get("/healthz").json() == {"status": "ok", "version": 0, "tokens": "current"}
        assert told(found) == []
        if text is None:
            tokens.unlink()
        else:
            tokens.write_text(text)
        state = "missing" if text is None else "empty"
        assert (admitted(found), told(found)) == (401, [state])
        # at each request: also at one that comes to nothing
        assert found.http.get("/nothing").status_code == 404
        healthy = found.http.get("/healthz")
        assert (healthy.status_code, healthy.headers["retry-after"]) == (503, "1")
        assert healthy.json()["error"]["message"] == f"the tokens file is {state}: no token is admitted"
        assert told(found) == [state, state]
        tokens.write_text(ONE)
        assert (admitted(found), found.http.get("/healthz").status_code, told(found)) == (200, 200, [])


def unreadable(path: Path, way: str) -> None:
    """Have something at the path that is there, and cannot be read."""
    path.unlink()
    match way:
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "a link to itself":
            path.symlink_to(path)
        case "a failing disk":
            # to read its first byte is an I/O error
            path.symlink_to("/proc/self/mem")
        case _:
            path.write_text(way)


@pytest.mark.parametrize(
    "way", ["a folder", "a pipe", "a link to itself", "a failing disk", *BROKEN], ids=lambda way: way[:20].strip()
)
def test_a_file_that_cannot_be_read_holds_for_a_minute(tmp_path, way):
    tokens, clock = tmp_path / "tokens.toml", FakeClock()
    tokens.write_text(ONE)
    with serving(MemoryStore(), clock=clock, tokens=str(tokens)) as found:
        clock.advance(HOUR)
        assert admitted(found) == 200
        unreadable(tokens, way)
        for _ in range(3):
            assert admitted(found) == 200
            clock.advance(20 * SECOND)
        # each request says it, also when nothing of the file has changed
        assert told(found) == ["stale"] * 3
        healthy = found.http.get("/healthz")
        assert (healthy.status_code, healthy.json()) == (200, {"status": "ok", "version": 0, "tokens": "stale"})
        # however the clock on the wall is set
        clock.set_wall(0)
        clock.advance(1)
        assert told(found) == ["stale"]
        refused = get(found, "/v1/namespaces", "reader")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert found.http.get("/healthz").status_code == 503
        assert told(found) == ["unreadable"] * 2
        # what is public is answered, and what needs a token of none is not
        assert found.http.get("/page.css").status_code == 200
        assert found.http.get("/v1/config").status_code == 503
        # nothing of the file or its place is told to those who have no token
        assert str(tmp_path) not in refused.text + found.http.get("/healthz").text
        if tokens.is_dir():
            tokens.rmdir()
        else:
            tokens.unlink()
        tokens.write_text(ONE)
        told(found)
        assert (admitted(found), found.http.get("/healthz").json()["tokens"], told(found)) == (200, "current", [])


def test_the_minute_begins_when_the_file_could_last_be_read(tmp_path):
    """Not with the first request that finds it broken: that may come much later."""
    tokens, clock = tmp_path / "tokens.toml", FakeClock()
    tokens.write_text(ONE)
    with serving(MemoryStore(), clock=clock, tokens=str(tokens)) as found:
        assert admitted(found) == 200
        tokens.write_text("nonsense")
        clock.advance(HOUR)
        assert admitted(found) == 503
        # one broken state after the other is no reading
        tokens.write_text("other nonsense")
        assert admitted(found) == 503
        tokens.write_text("")
        assert admitted(found) == 401
        # what was taken back does not come again with a file that cannot be read
        tokens.write_text("nonsense")
        assert admitted(found) == 503


def test_a_change_of_equal_size_and_time_is_noticed(tmp_path):
    """Also in place, in the same tick of the clock of a file system."""
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(ONE)
    before = tokens.stat()
    with serving(MemoryStore(), tokens=str(tokens)) as found:
        assert admitted(found) == 200
        other = hashlib.sha256(b"other").hexdigest()
        with open(tokens, "r+") as file:
            file.write(re.sub("[0-9a-f]{64}", other, ONE))
        os.utime(tokens, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = tokens.stat()
        assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
        assert admitted(found) == 401
        assert found.http.get("/v1/namespaces", headers={"Authorization": "Bearer other"}).status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        "", "token = []", *BROKEN, '[[token]]\nname = "a"\nsha256 = "b"\nscopes = ["read"]',
        entry("a"), entry("a", "scopes = []"), entry("a", 'scopes = ["all"]'), entry("a", "scopes = 1"),
        entry("a b", 'scopes = ["read"]'), entry("a", 'scopes = ["read"]', "namespaces = [1]"),
        entry("a", 'scopes = ["read"]', "else = 1"), entry("a", 'scopes = ["read"]') + entry("a", 'scopes = ["read"]'),
    ],
)  # fmt: skip
def test_a_file_of_tokens_that_is_none(tmp_path, text):
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    with pytest.raises(InvalidOption):
        Tokens(str(path))
    os.remove(path)
    with pytest.raises(InvalidOption):
        Tokens(str(path))


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "0.0.0.0"}, {"host": "example.org"}, {"host": "localhost."}, {"port": 70_000}, {"tls_cert": "x"},
        {"tls_key": "x"},
        {"tokens": "x", "without_tokens": True}, {"max_body_bytes": 0}, {"max_requests": 0}, {"request_timeout": 0.0},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_meant(wrong):
    with pytest.raises(InvalidOption):
        Settings(**wrong).check()
    for right in (
        {"host": "localhost"},
        {"host": "LOCALHOST"},
        {"host": "::1"},
        {"host": "0.0.0.0", "without_tokens": True},
    ):
        Settings(**right).check()


def test_a_server_that_only_reads():
    with serving(MemoryStore(), read_only=True) as found:
        answer = found.post("/v1/namespaces", {"namespace": ["x"]})
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ForbiddenException")
        assert found.version == 0
        assert not any(endpoint.startswith("DELETE") for endpoint in found.http.get("/v1/config").json()["endpoints"])


def test_tls(tmp_path):
    certificate, key = self_signed(tmp_path)
    with serving(MemoryStore(), tls_cert=str(certificate), tls_key=str(key)) as found:
        assert found.url.startswith("https://")
        known = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"{found.url}/healthz", verify=known).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{found.url}/healthz")


def self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return certificate, private


TOKENS_OF_OAUTH = "/v1/oauth/tokens"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


def exchanged(served: Served, auth: tuple[str, str] | None = None, **fields: str) -> httpx.Response:
    return served.http.post(TOKENS_OF_OAUTH, data={"grant_type": "client_credentials", **fields}, auth=auth)


def test_a_client_is_set_up_with_an_id_and_a_secret(served):
    """The id is the token's name, and the secret the token, as with most catalogs."""
    where = {"oauth2-server-uri": f"{served.url}{TOKENS_OF_OAUTH}", "scope": "catalog"}
    assert served.client(credential="sales:secret-sales", **where).list_namespaces() == [("sales",)]
    assert served.client(credential="secret-admin", **where).list_namespaces() == [("hr",), ("sales",)]
    with pytest.raises(OAuthError, match="the client or its secret is not known"):
        served.client(credential="sales:secret-reader", **where)


def test_an_answer_to_a_credential_is_that_of_oauth2(served):
    answer = exchanged(served, client_id="sales", client_secret="secret-sales")
    assert answer.headers["cache-control"] == "no-store"
    shown = answer.json()
    kind = "urn:ietf:params:oauth:token-type:access_token"
    assert shown == {"access_token": "secret-sales", "token_type": "bearer", "issued_token_type": kind}
    assert exchanged(served, ("sales", "secret-sales")).json() == shown
    # the library in Java renews a token so
    assert exchanged(served, grant_type=EXCHANGE, subject_token=shown["access_token"]).json() == shown


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"client_id": "sales", "client_secret": "wrong"}, 401, "invalid_client"),
        ({"client_id": "admin", "client_secret": "secret-sales"}, 401, "invalid_client"),
        ({"client_id": "sales"}, 401, "invalid_client"),
        ({"grant_type": "password", "username": "a", "password": "b"}, 400, "unsupported_grant_type"),
        ({"grant_type": EXCHANGE, "subject_token": "x"}, 401, "invalid_client"),
    ],
)
def test_an_unknown_credential_gets_no_token(served, fields, status, error):
    answer = exchanged(served, **fields)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert "secret-" not in answer.text


@pytest.mark.parametrize(
    "form",
    [b"", b"\xff=1", b"{}", b"client_id=a", b"grant_type=client_credentials&client_id=a&client_id=b", b"&a=b" * 30],
)
def test_a_request_for_a_token_that_is_no_form(served, form):
    answer = served.http.post(TOKENS_OF_OAUTH, content=form)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


def test_a_server_without_tokens_says_that_it_needs_no_credential(tmp_path):
    with serving(LocalStore(tmp_path)) as found:
        answer = exchanged(found, client_id="a", client_secret="b")
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
        assert "leave out the credential" in answer.json()["error_description"]


def test_a_token_that_is_taken_back_is_given_out_no_more(tmp_path):
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(TOKENS)
    with serving(LocalStore(tmp_path / "catalog"), tokens=str(tokens)) as found:
        assert exchanged(found, client_id="sales", client_secret="secret-sales").status_code == 200
        tokens.write_text(entry("admin", 'scopes = ["read"]'))
        assert exchanged(found, client_id="sales", client_secret="secret-sales").status_code == 401
        assert "secret-" not in found.log.getvalue()
