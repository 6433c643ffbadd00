"""An update of a table is made once, before its turn in the group commit, and again only if the table has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import NamespaceExists
from olympia_cli.iceberg.changes import PlannedUpdate, TableChanges
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.rest import catalog
from olympia_cli.storage.local import LocalStore
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.serving import Served, serving

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


@pytest.fixture
def served(tmp_path) -> Iterator[Served]:
    with serving(LocalStore(tmp_path)) as found:
        found.post("/v1/namespaces", {"namespace": ["s"]})
        for name in ("t", "u"):
            found.post("/v1/namespaces/s/tables", {"name": name, "schema": SCHEMA})
        yield found


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[PlannedUpdate]:
    """The updates that were made, in order."""
    made: list[PlannedUpdate] = []
    plan = catalog.plan_update

    def noted(*given: Any) -> PlannedUpdate:
        made.append(plan(*given))
        return made[-1]

    monkeypatch.setattr(catalog, "plan_update", noted)
    return made


def names(planned: list[PlannedUpdate]) -> list[str]:
    return [update.name.name for update in planned]


def set_property(key: str, requirements: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"requirements": [*requirements], "updates": [{"action": "set-properties", "updates": {key: "1"}}]}


def together(served: Served, requests: list[tuple[str, object]], *first: Callable[[TableChanges], Any]) -> list[Any]:
    """Return the responses to requests that wait for the same commit, after the changes in `first`."""
    commits, gate = served.running.service.commits, threading.Event()

    def leads(changes: TableChanges) -> None:
        changes.transaction.create_namespace(NamespaceName("leads"))
        assert gate.wait(PATIENCE)

    with ThreadPoolExecutor(8) as pool:
        leader = pool.submit(commits.commit, leads, "ann", "leads")
        wait_until(lambda: commits._is_led and not commits._waiting, "led")
        waiting: list[Future[Any]] = []
        for change in first:
            waiting.append(pool.submit(commits.commit, change, "bob", "first"))
            wait_until(lambda: len(commits._waiting) == len(waiting), "waiting")
        for request in requests:
            waiting.append(pool.submit(served.post, *request))
            wait_until(lambda: len(commits._waiting) == len(waiting), "waiting")
        gate.set()
        leader.result()
        return [future.exception() or future.result() for future in waiting]


def properties(served: Served, name: str) -> dict[str, str]:
    found: dict[str, str] = served.http.get(f"/v1/namespaces/s/tables/{name}").json()["metadata"]["properties"]
    return found


def test_an_update_is_made_once(served, planned):
    assert served.post("/v1/namespaces/s/tables/t", set_property("a")).status_code == 200
    assert names(planned) == ["t"]
    assert properties(served, "t") == {"a": "1"}


def test_updates_of_different_tables_in_one_commit_are_made_once_each(served, planned):
    version = served.version
    answers = together(served, [(f"/v1/namespaces/s/tables/{name}", set_property("a")) for name in "tu"])
    assert [answer.status_code for answer in answers] == [200, 200]
    assert sorted(names(planned)) == ["t", "u"]
    assert served.version == version + 2


def test_updates_of_one_table_in_one_commit_are_both_kept(served, planned):
    answers = together(served, [("/v1/namespaces/s/tables/t", set_property(key)) for key in "ab"])
    assert [answer.status_code for answer in answers] == [200, 200]
    assert names(planned) == ["t", "t", "t"]
    assert properties(served, "t") == {"a": "1", "b": "1"}


def test_removal_of_a_missing_key_reads_no_staged_metadata(served):
    """The file that another client's change has staged does not exist yet."""
    removal = {"action": "remove-encryption-key", "key-id": "none"}
    change = set_property("b")
    change["updates"].append(removal)
    answers = together(served, [("/v1/namespaces/s/tables/t", each) for each in (set_property("a"), change)])
    assert [answer.status_code for answer in answers] == [200, 200]
    assert properties(served, "t") == {"a": "1", "b": "1"}


def test_an_update_is_checked_again_if_the_table_has_changed(served):
    schema = {"type": "assert-current-schema-id", "current-schema-id": 0}
    more = {**SCHEMA, "fields": [*SCHEMA["fields"], {"id": 2, "name": "b", "required": False, "type": "string"}]}
    add = {"action": "add-schema", "schema": {**more, "schema-id": 1}}
    change = {"requirements": [schema], "updates": [add, {"action": "set-current-schema", "schema-id": -1}]}
    requests = [("/v1/namespaces/s/tables/t", change), ("/v1/namespaces/s/tables/t", set_property("a", (schema,)))]
    changed, refused = together(served, requests)
    assert (changed.status_code, refused.status_code) == (200, 409)
    assert refused.json()["error"]["type"] == "CommitFailedException"
    assert properties(served, "t") == {}


def test_an_update_fails_as_before_if_the_table_was_dropped_in_the_same_commit(served):
    def drop(changes: TableChanges) -> None:
        changes.transaction.drop_table(TableName("s", "t"))

    _, answer = together(served, [("/v1/namespaces/s/tables/t", set_property("a"))], drop)
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchTableException")


def test_several_updates_of_one_table_in_one_request_follow_each_other(served, planned):
    entries = [{"identifier": {"namespace": ["s"], "name": "t"}, **set_property(key)} for key in "ab"]
    assert served.post("/v1/transactions/commit", {"table-changes": entries}).status_code == 204
    assert names(planned) == ["t", "t"]
    assert properties(served, "t") == {"a": "1", "b": "1"}


def test_a_commit_that_is_tried_again_writes_another_metadata_file(served, planned, tmp_path):
    """The first file may still be there: its deletion may fail."""

    def overtaken(changes: TableChanges) -> None:
        other = Catalog(LocalStore(tmp_path))
        if not other.snapshot().find(NamespaceName("taken")):
            with other.transaction() as transaction:
                transaction.create_namespace(NamespaceName("taken"))
        changes.transaction.create_namespace(NamespaceName("taken"))

    error, answer = together(served, [("/v1/namespaces/s/tables/t", set_property("a"))], overtaken)
    assert isinstance(error, NamespaceExists)
    assert answer.status_code == 200
    first, second = planned
    assert first.after.location != second.after.location == answer.json()["metadata-location"]
    assert not Path(first.after.location.removeprefix("file://")).exists()
