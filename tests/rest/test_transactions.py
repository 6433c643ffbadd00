"""Engines inside one distributed transaction: each request is part of it, and what it saw is, too."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.storage.local import LocalStore
from tests.helpers.serving import Served, serving
from tests.rest.test_access import TOKENS, bearer
from tests.rest.test_protocol import SCHEMA

ADMIN = bearer("admin")
T = "namespaces/s/tables"


@pytest.fixture
def served(tmp_path) -> Iterator[Served]:
    (tmp_path / "tokens.toml").write_text(TOKENS)
    with serving(LocalStore(tmp_path / "catalog"), tokens=str(tmp_path / "tokens.toml")) as found:
        found.post("/v1/namespaces", {"namespace": ["s"]}, **ADMIN)
        for number in range(8):
            found.post(f"/v1/{T}", {"name": f"t{number}", "schema": SCHEMA}, **ADMIN)
        yield found


def begun(served: Served) -> str:
    return f"/v1/txn/{distributed.begin(served.catalog, IsolationLevel.SERIALIZABLE).id}"


def saves(served: Served) -> list[str]:
    return sorted(file.path for file in served.catalog.store.list("dtxn"))


def test_concurrent_reads_in_a_transaction_all_succeed(served):
    inside = begun(served)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: served.http.get(f"{inside}/{T}/t{n}", headers=ADMIN), range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    for number in range(8):
        other = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": str(number)}}]}
        assert served.post(f"{inside}/{T}/t{number}", other, **ADMIN).status_code == 200
    assert served.post(f"{inside}/commit", {}, **ADMIN).status_code == 200


@pytest.mark.parametrize(("method", "path", "body"), [
    ("GET", f"{T}/new", None), ("HEAD", f"{T}/new", None), ("GET", T, None), ("DELETE", f"{T}/new", None),
    ("POST", f"{T}/new", {"requirements": [], "updates": []}),
])  # fmt: skip
def test_a_table_created_after_its_miss_fails_the_transaction(served, method, path, body):
    inside = begun(served)
    served.http.request(method, f"{inside}/{path}", json=body, headers=ADMIN)
    assert served.post(f"{inside}/namespaces", {"namespace": ["because"]}, **ADMIN).status_code == 200
    assert served.post(f"/v1/{T}", {"name": "new", "schema": SCHEMA}, **ADMIN).status_code == 200
    answer = served.post(f"{inside}/commit", {}, **ADMIN)
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "CommitFailedException")


def test_reads_with_a_read_only_token_add_no_save(served):
    inside, reader = begun(served), bearer("reader")
    before = saves(served)
    for path in ("namespaces", "namespaces/s", T, f"{T}/t0", f"{T}/none"):
        assert served.http.get(f"{inside}/{path}", headers=reader).status_code in (200, 404)
    assert saves(served) == before


def test_a_server_that_only_reads_leaves_nothing_in_it(served):
    inside, before = begun(served), saves(served)
    with serving(served.catalog.store, read_only=True) as reading:
        assert reading.http.get(f"{inside}/{T}/t0").status_code == 200
    assert saves(served) == before
