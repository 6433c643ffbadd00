"""The commits and the expected answers of Iceberg's Java library, which its compatibility kit tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from olympia_cli.storage.local import LocalStore
from tests.helpers.serving import Served, serving
from tests.rest.test_protocol import REPRESENTATION, SCHEMA

TABLES = "/v1/namespaces/s/tables"
MORE = {"id": 2, "name": "more", "required": False, "type": "string"}
OTHER = {"id": 2, "name": "other", "required": False, "type": "date"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(LocalStore(tmp_path_factory.mktemp("served"))) as found:
        found.post("/v1/namespaces", {"namespace": ["s"]})
        yield found


def made(served: Served, name: str, **more: Any) -> dict[str, Any]:
    answer = served.post(TABLES, {"name": name, "schema": SCHEMA, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["metadata"])


def committed(served: Served, name: str, *updates: dict[str, Any], **requirement: Any) -> dict[str, Any]:
    body = {"requirements": [requirement] if requirement else [], "updates": updates}
    answer = served.post(f"{TABLES}/{name}", body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["metadata"])


def schema(*fields: dict[str, Any], id: int = 1) -> list[dict[str, Any]]:
    added = {**SCHEMA, "schema-id": id, "fields": [*SCHEMA["fields"], *fields]}
    return [{"action": "add-schema", "schema": added}, {"action": "set-current-schema", "schema-id": -1}]


def test_a_schema_with_a_taken_id_is_renumbered(served):
    made(served, "schemas")
    committed(served, "schemas", *schema(MORE))
    metadata = committed(served, "schemas", *schema(OTHER))
    assert [one["schema-id"] for one in metadata["schemas"]] == [0, 1, 2]
    assert metadata["current-schema-id"] == 2
    assert metadata["schemas"][2]["fields"][-1]["name"] == "other"
    # one that it has already is that one
    again = committed(served, "schemas", *schema(MORE, id=9))
    assert (len(again["schemas"]), again["current-schema-id"]) == (3, 1)


def test_a_snapshot_names_the_schema_that_came_with_it(served):
    made(served, "together")
    committed(served, "together", *schema(MORE))
    snapshot = {
        "snapshot-id": 1,
        "timestamp-ms": 1_900_000_000_000,
        "sequence-number": 1,
        "manifest-list": "/nowhere/list.avro",
        "summary": {"operation": "append"},
        "schema-id": 1,
    }
    metadata = committed(served, "together", *schema(OTHER), {"action": "add-snapshot", "snapshot": snapshot})
    assert metadata["snapshots"][0]["schema-id"] == 2


def test_specs_and_sort_orders_with_taken_ids_are_renumbered(served):
    made(served, "specs")

    def spec(name: str) -> list[dict[str, Any]]:
        fields = [{"source-id": 1, "field-id": 1000, "transform": "bucket[4]", "name": name}]
        return [
            {"action": "add-spec", "spec": {"spec-id": 1, "fields": fields}},
            {"action": "set-default-spec", "spec-id": -1},
        ]

    def order(direction: str) -> list[dict[str, Any]]:
        nulls = "nulls-first" if direction == "asc" else "nulls-last"
        fields = [{"source-id": 1, "transform": "identity", "direction": direction, "null-order": nulls}]
        return [
            {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": fields}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ]

    committed(served, "specs", *spec("a"), *order("asc"))
    metadata = committed(served, "specs", *spec("b"), *order("desc"))
    assert (metadata["default-spec-id"], [one["spec-id"] for one in metadata["partition-specs"]]) == (2, [0, 1, 2])
    orders = [one["order-id"] for one in metadata["sort-orders"]]
    assert (metadata["default-sort-order-id"], orders) == (2, [0, 1, 2])
    back = committed(served, "specs", *spec("a"), *order("asc"))
    assert (back["default-spec-id"], back["default-sort-order-id"], len(back["sort-orders"])) == (1, 1, 3)


def test_removal_of_missing_parts_makes_no_version(served):
    made(served, "removals", properties={"a": "b"})
    metadata = committed(served, "removals", {"action": "remove-properties", "removals": ["a", "none"]})
    assert "a" not in metadata["properties"]
    before = served.version
    committed(
        served,
        "removals",
        {"action": "remove-properties", "removals": ["none"]},
        {"action": "remove-snapshots", "snapshot-ids": [7]},
        {"action": "remove-statistics", "snapshot-id": 7},
        {"action": "remove-partition-statistics", "snapshot-id": 7},
    )
    assert served.version == before


def snapshot(id: int, sequence: int, parent: int | None, branch: str, **more: Any) -> list[dict[str, Any]]:
    added: dict[str, Any] = {
        "snapshot-id": id,
        "timestamp-ms": 1_900_000_000_000 + id,
        "sequence-number": sequence,
        "manifest-list": "/nowhere/list.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **({} if parent is None else {"parent-snapshot-id": parent}),
        **more,
    }
    ref = {"action": "set-snapshot-ref", "ref-name": branch, "type": "branch", "snapshot-id": id}
    return [{"action": "add-snapshot", "snapshot": added}, ref]


def statistics(id: int, kind: str = "statistics") -> dict[str, Any]:
    file: dict[str, Any] = {"snapshot-id": id, "statistics-path": "/nowhere/s.puffin", "file-size-in-bytes": 1}
    if kind == "statistics":
        file |= {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    return {"action": f"set-{kind}", kind: file, **({"snapshot-id": id} if kind == "statistics" else {})}


def removal(kind: str, id: int) -> dict[str, Any]:
    return {"action": f"remove-{kind}", "snapshot-id": id}


REMOVED = {"action": "remove-snapshots", "snapshot-ids": [1]}
PARTITIONS = "partition-statistics"
NOTHING_TO_DO = {
    "statistics after their snapshot": [REMOVED, removal("statistics", 1), removal(PARTITIONS, 1)],
    "statistics before their snapshot": [removal("statistics", 1), removal(PARTITIONS, 1), REMOVED],
    "a snapshot twice": [REMOVED, REMOVED],
    "a snapshot twice in one update": [{**REMOVED, "snapshot-ids": [1, 1, 9]}],
    "statistics twice": [removal("statistics", 1), removal("statistics", 1), REMOVED],
    "statistics that came in the same request": [
        statistics(9), removal("statistics", 9), statistics(9, PARTITIONS), removal(PARTITIONS, 9), REMOVED,
    ],
    "a branch after its snapshot": [REMOVED, {"action": "remove-snapshot-ref", "ref-name": "old"}],
    "a branch that is not there": [REMOVED, {"action": "remove-snapshot-ref", "ref-name": "none"}],
    "properties twice": [
        {"action": "remove-properties", "removals": ["a", "a", "none"]},
        {"action": "remove-properties", "removals": ["a"]}, REMOVED,
    ],
    "a property that came in the same request": [
        {"action": "set-properties", "updates": {"b": "c"}},
        {"action": "remove-properties", "removals": ["b"]}, REMOVED,
    ],
    "schemas and partitionings that are not there": [
        {"action": "remove-schemas", "schema-ids": [7]}, {"action": "remove-partition-specs", "spec-ids": [7]}, REMOVED,
    ],
    "empty lists": [
        {"action": "remove-schemas", "schema-ids": []}, {"action": "remove-partition-specs", "spec-ids": []},
        {"action": "remove-snapshots", "snapshot-ids": []}, {"action": "set-properties", "updates": {}}, REMOVED,
    ],
}  # fmt: skip
"""Updates of which Iceberg's library takes all but one as nothing to do: it removes the snapshot 1."""


@pytest.mark.parametrize("case", NOTHING_TO_DO)
def test_an_update_with_nothing_to_do_is_no_error(served, case):
    name = f"nothing_{list(NOTHING_TO_DO).index(case)}"
    made(served, name, properties={"a": "b"})
    committed(served, name, *snapshot(1, 1, None, "old"), *snapshot(2, 2, None, "main"))
    committed(served, name, statistics(1), statistics(2), statistics(1, PARTITIONS), statistics(2, PARTITIONS))
    metadata = committed(served, name, *NOTHING_TO_DO[case])
    assert [one["snapshot-id"] for one in metadata["snapshots"]] == [2]
    assert [one["snapshot-id"] for one in metadata["statistics"]] == [2]
    assert [one["snapshot-id"] for one in metadata["partition-statistics"]] == [2]
    assert list(metadata["refs"]) == ["main"]
    assert len(metadata["schemas"]) == len(metadata["partition-specs"]) == 1


def test_setting_equal_values_makes_no_version(served):
    metadata = made(served, "same")
    before = served.version
    committed(
        served,
        "same",
        {"action": "set-location", "location": metadata["location"]},
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "set-current-schema", "schema-id": 0},
        {"action": "set-default-spec", "spec-id": 0},
        {"action": "set-default-sort-order", "sort-order-id": 0},
        {"action": "remove-schemas", "schema-ids": []},
    )
    assert served.version == before


@pytest.mark.parametrize(
    "update", [{"action": "remove-schemas", "schema-ids": [0]}, {"action": "remove-partition-specs", "spec-ids": [0]}]
)
def test_a_schema_and_a_partitioning_in_use_stay(served, update):
    made(served, f"used_{update['action'][7]}")
    answer = served.post(f"{TABLES}/used_{update['action'][7]}", {"requirements": [], "updates": [update]})
    assert answer.status_code == 400


def test_schemas_and_partitionings_that_are_not_in_use_go(served):
    made(served, "unused")
    fields = [{"source-id": 1, "field-id": 1000, "transform": "bucket[4]", "name": "b"}]
    spec = [
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": fields}},
        {"action": "set-default-spec", "spec-id": -1},
    ]
    committed(served, "unused", *schema(MORE), *spec)
    metadata = committed(
        served,
        "unused",
        {"action": "remove-schemas", "schema-ids": [0, 7]},
        {"action": "remove-partition-specs", "spec-ids": [0, 7]},
        {"action": "remove-schemas", "schema-ids": [0]},
    )
    assert [one["schema-id"] for one in metadata["schemas"]] == [1]
    assert [one["spec-id"] for one in metadata["partition-specs"]] == [1]


@pytest.mark.parametrize("given", [{}, {"field-id": None}], ids=["missing", "null"])
def test_the_catalog_numbers_the_fields_of_a_partitioning(served, given):
    """Iceberg's REST definition has no need for their ids, and its client for Rust leaves them out."""

    def spec(*terms: tuple[int, str]) -> dict[str, Any]:
        fields = [
            {"source-id": source, "transform": how, "name": f"{how[:3]}_{source}", **given} for source, how in terms
        ]
        return {"fields": fields} if not given else {"spec-id": None, "fields": fields}

    def ids(metadata: dict[str, Any]) -> list[list[int]]:
        return [[field["field-id"] for field in one["fields"]] for one in metadata["partition-specs"]]

    name = f"numbered_{len(given)}"
    assert ids(made(served, name, **{"partition-spec": spec((1, "bucket[4]"), (1, "identity"))})) == [[1000, 1001]]
    more = {"action": "add-spec", "spec": spec((1, "identity"), (2, "identity"), (2, "truncate[3]"))}
    metadata = committed(served, name, *schema(MORE), more, {"action": "set-default-spec", "spec-id": -1})
    assert ids(metadata) == [[1000, 1001], [1001, 1002, 1003]]
    assert metadata["last-partition-id"] == 1003
    assert ids(committed(served, name, more)) == ids(metadata), "it has this one already"


@pytest.mark.parametrize("commit", [{"requirements": None}, {"updates": None}, {"identifier": None}, {}])
def test_null_and_a_missing_field_of_a_commit_are_none(served, commit):
    """Iceberg's own parser takes them so, and its client for Go sends them."""
    served.post(TABLES, {"name": "nulls", "schema": SCHEMA})
    body = {"requirements": None, "updates": None, **commit}
    assert served.post(f"{TABLES}/nulls", body).status_code == 200
    assert served.post(f"{TABLES}/nulls", commit).status_code == 200
    view(served, "null_view")
    assert served.post("/v1/namespaces/s/views/null_view", body).status_code == 200
    change = {"identifier": {"namespace": ["s"], "name": "nulls"}, "requirements": None, "updates": None}
    assert served.post("/v1/transactions/commit", {"table-changes": [change]}).status_code == 204


def test_null_fields_of_other_requests_are_missing_ones(served):
    assert served.post("/v1/namespaces", {"namespace": ["nil"], "properties": None}).status_code == 200
    new = {"name": "t", "schema": SCHEMA, "location": None, "partition-spec": None, "write-order": None}
    new |= {"properties": None, "stage-create": None}
    new["schema"] = {**SCHEMA, "schema-id": None, "identifier-field-ids": None}
    assert served.post("/v1/namespaces/nil/tables", new).status_code == 200
    changed = {"updates": {"a": "b"}, "removals": None}
    assert served.post("/v1/namespaces/nil/properties", changed).status_code == 200
    answer = view(served, "nil_view", location=None, properties=None)
    assert answer.status_code == 200, answer.text


def test_an_error_names_the_field(served):
    made(served, "fields")
    for body, said in (
        ({"requirements": 1}, "requirements is not a list of objects"),
        ({"updates": [1]}, "updates is not a list of objects"),
        ({"updates": [{"action": "set-properties"}]}, "updates.0.set-properties.updates: Field required"),
        ({"updates": [{"action": "set-properties", "updates": None}]}, "updates.0.set-properties.updates: Field"),
        ({"requirements": [{"type": "assert-table-uuid", "uuid": "x"}]}, "requirements.0.assert-table-uuid.uuid"),
    ):
        answer = served.post(f"{TABLES}/fields", body)
        assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True), answer.text


def test_a_commit_overtaken_on_another_branch_is_a_conflict(served):
    """The requirements are met, and the snapshot's number is not the next one any more: that is a conflict."""
    made(served, "branches")
    committed(served, "branches", *snapshot(1, 1, None, "main"))
    committed(served, "branches", *snapshot(2, 2, 1, "one"))
    late = served.post(f"{TABLES}/branches", {"requirements": [], "updates": snapshot(3, 2, 1, "two")})
    assert (late.status_code, late.json()["error"]["type"]) == (409, "CommitFailedException")
    committed(served, "branches", *snapshot(3, 3, 1, "two"))


def test_a_table_of_format_3(served):
    """PyIceberg does not write them; engines do, through here."""
    given = {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "initial-default": 34, "write-default": 35}]}
    inner = {"id": 3, "name": "d", "required": False, "type": "date", "initial-default": "2020-01-01"}
    place = {"id": 2, "name": "s", "required": False, "type": {"type": "struct", "fields": [inner]}}
    given["fields"].append(place)
    fresh = made(served, "three", schema=given, properties={"format-version": "3"})
    assert (fresh["format-version"], fresh["next-row-id"]) == (3, 0)
    assert fresh["schemas"][0]["fields"] == given["fields"]
    rows = {"first-row-id": 0, "added-rows": 5}
    assert committed(served, "three", *snapshot(1, 1, None, "main", **rows))["next-row-id"] == 5
    late = served.post(f"{TABLES}/three", {"requirements": [], "updates": snapshot(2, 2, 1, "main", **rows)})
    assert (late.status_code, late.json()["error"]["type"]) == (409, "CommitFailedException")
    assert committed(served, "three", {"action": "set-properties", "updates": {"a": "b"}})["next-row-id"] == 5
    assert served.http.get(f"{TABLES}/three").json()["metadata"]["schemas"][0]["fields"] == given["fields"]


def test_a_table_becomes_one_of_format_3(served):
    before = made(served, "older")
    after = committed(served, "older", {"action": "upgrade-format-version", "format-version": 3})
    assert (after["format-version"], after["next-row-id"], len(after["metadata-log"])) == (3, 0, 1)
    assert after["last-updated-ms"] > before["last-updated-ms"]
    down = {"requirements": [], "updates": [{"action": "upgrade-format-version", "format-version": 2}]}
    assert served.post(f"{TABLES}/older", down).status_code == 400
    beyond = {"requirements": [], "updates": [{"action": "upgrade-format-version", "format-version": 4}]}
    assert served.post(f"{TABLES}/older", beyond).status_code == 400


def test_a_commit_that_would_lose_encryption_keys_is_refused(served):
    made(served, "secret", properties={"format-version": "3"})
    loaded = served.http.get(f"{TABLES}/secret").json()
    location = loaded["metadata-location"].replace("00000-", "00001-")
    document = {**loaded["metadata"], "encryption-keys": [{"key-id": "k", "encrypted-key-metadata": "eA=="}]}
    with open(location, "w") as file:
        json.dump(document, file)
    body = {"name": "keys", "metadata-location": location}
    registered = served.post("/v1/namespaces/s/register", body)
    assert registered.json()["metadata"]["encryption-keys"] == document["encryption-keys"]
    update = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    answer = served.post(f"{TABLES}/keys", update)
    assert (answer.status_code, "encryption-keys" in answer.json()["error"]["message"]) == (400, True)
    assert served.http.get(f"{TABLES}/keys").json()["metadata"]["encryption-keys"] == document["encryption-keys"]


def view(served: Served, name: str, *dialects: str, **more: Any) -> Any:
    said = [{**REPRESENTATION, "dialect": dialect} for dialect in dialects or ("spark",)]
    version = {"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "default-namespace": ["s"], "representations": said}
    return served.post("/v1/namespaces/s/views", {"name": name, "schema": SCHEMA, "view-version": version, **more})


def test_tables_and_views_share_their_names_in_transactions_too(served):
    staged = {"name": "both", "schema": SCHEMA, "stage-create": True}
    assert served.post(TABLES, staged).status_code == 200
    assert view(served, "both").status_code == 200
    answer = served.post(TABLES, staged)
    assert answer.json()["error"]["message"] == "View with same name already exists: s.both"
    body = {"requirements": [{"type": "assert-create"}], "updates": [{"action": "assign-uuid", "uuid": "x"}]}
    answer = served.post(f"{TABLES}/both", {**body, "updates": []})
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "AlreadyExistsException")
    assert answer.json()["error"]["message"] == "View with same name already exists: s.both"


def test_a_rename_names_the_object_in_the_way(served):
    made(served, "here")
    made(served, "there")
    view(served, "seen")
    view(served, "seen2")

    def said(kind: str, old: str, new: str) -> str:
        source, destination = ({"namespace": ["s"], "name": name} for name in (old, new))
        answer = served.post(f"/v1/{kind}/rename", {"source": source, "destination": destination})
        assert answer.status_code == 409
        return str(answer.json()["error"]["message"])

    assert said("tables", "here", "there") == "Cannot rename s.here to s.there. Table already exists"
    assert said("tables", "here", "seen") == "Cannot rename s.here to s.seen. View already exists"
    assert said("views", "seen", "seen2") == "Cannot rename s.seen to s.seen2. View already exists"
    assert said("views", "seen", "here") == "Cannot rename s.seen to s.here. Table already exists"


def test_a_view_says_one_thing_in_each_dialect(served):
    answer = view(served, "twice", "trino", "TRINO")
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "IllegalArgumentException")
    assert answer.json()["error"]["message"] == "Invalid view version: Cannot add multiple queries for dialect trino"
    assert view(served, "twice", "trino", "spark").status_code == 200


def test_the_metadata_of_a_view_is_where_it_says(served):
    folder = f"{served.catalog.store.uri}/data/elsewhere"
    made = view(served, "moved", properties={"write.metadata.path": f"{folder}/"}).json()
    assert made["metadata-location"].startswith(f"{folder}/")
    update = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    replaced = served.post("/v1/namespaces/s/views/moved", update).json()
    assert replaced["metadata-location"].startswith(f"{folder}/")


VERSION = {
    "schema-id": 0,
    "default-namespace": ["s"],
    "representations": [{**REPRESENTATION, "sql": "select 2"}],
    "timestamp-ms": 5,
}


@pytest.mark.parametrize(
    "added",
    [
        {"representations": [1]}, {"representations": [{"type": "sql", "sql": 5, "dialect": "x"}]},
        {"summary": {"a": 1}}, {"default-namespace": None}, {"default-namespace": "s"}, {"timestamp-ms": "5"},
        {"default-catalog": 1},
    ],
)  # fmt: skip
def test_an_unloadable_view_is_not_created(served, added):
    version = {**VERSION, **added}
    new = {"name": f"unread{len(served.lines())}", "schema": SCHEMA, "view-version": version}
    assert served.post("/v1/namespaces/s/views", new).status_code == 400
    view(served, "loaded")
    current = {"action": "set-current-view-version", "view-version-id": -1}
    before = served.version
    for updates in (
        [{"action": "add-view-version", "view-version": version}, current],
        [{"action": "add-schema", "schema": {"fields": [1]}}],
    ):
        answer = served.post("/v1/namespaces/s/views/loaded", {"requirements": [], "updates": updates})
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException"), updates
    assert served.version == before


def test_a_version_of_a_view_is_whole(served):
    view(served, "whole")
    short = {key: value for key, value in VERSION.items() if key != "timestamp-ms"} | {"version-id": True}
    updates = [
        {"action": "add-view-version", "view-version": short},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    answer = served.post("/v1/namespaces/s/views/whole", {"requirements": [], "updates": updates})
    assert answer.status_code == 200, answer.text
    added = answer.json()["metadata"]["versions"][1]
    assert (added["version-id"], type(added["version-id"]), type(added["timestamp-ms"])) == (2, int, int)
    assert added["summary"] == {}
    assert served.client().load_view(("s", "whole")).metadata.current_version_id == 2


def test_a_table_below_a_table_is_not_found(served):
    """The library in Java asks for the table ns.t.files, and makes it from ns.t when that is not found."""
    for kind, what in (("tables", "Table"), ("views", "View")):
        answer = served.http.get(f"/v1/namespaces/s%1Fhere/{kind}/files")
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, f"NoSuch{what}Exception")
        assert answer.json()["error"]["message"] == f"{what} does not exist: s.here.files"
