"""Requests that are right but for a thing or two, drawn from a seed: never an error of the server's own, and none of
them changes anything by half."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from olympia_cli.storage.local import LocalStore
from tests.helpers.serving import Served, serving
from tests.rest.test_protocol import REPRESENTATION, SCHEMA

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1.5, "", "x", "\0", "\ud800", "../..", "x" * 5000,
    [], [[]], {}, {"": None}, ["a", "b"], [None],
)  # fmt: skip
VERSION = {"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "default-namespace": ["s"]}
SNAPSHOT = {
    "snapshot-id": 7, "timestamp-ms": 1, "sequence-number": 1, "summary": {"operation": "append"}, "schema-id": 0,
    "manifest-list": "/none/list.avro",
}  # fmt: skip
UPDATES = [
    {"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": SCHEMA, "last-column-id": 1},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"spec-id": 0, "fields": [{"name": "p", "transform": "identity", "source-id": 1}]}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "set-location", "location": "/none/t"},
    {"action": "set-properties", "updates": {"a": "b"}},
    {"action": "remove-properties", "removals": ["a"]},
    {"action": "add-snapshot", "snapshot": SNAPSHOT},
    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
    {"action": "remove-snapshots", "snapshot-ids": [7]},
    {"action": "remove-snapshot-ref", "ref-name": "x"},
    {"action": "remove-schemas", "schema-ids": [5]},
    {"action": "remove-partition-specs", "spec-ids": [5]},
    {"action": "set-statistics", "snapshot-id": 7, "statistics": {}},
]
REQUIREMENTS = [
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
]
NAME = {"namespace": ["s"], "name": "t"}
BODIES: dict[str, Any] = {
    "/v1/namespaces": {"namespace": ["s"], "properties": {"a": "b"}},
    "/v1/namespaces/s/properties": {"removals": ["a"], "updates": {"b": "c"}},
    "/v1/namespaces/s/tables": {
        "name": "t", "schema": SCHEMA, "partition-spec": {"spec-id": 0, "fields": []}, "location": None,
        "write-order": {"order-id": 0, "fields": []}, "stage-create": True, "properties": {"a": "b"},
    },
    "/v1/namespaces/s/register": {"name": "t", "metadata-location": "/none/x.json", "overwrite": False},
    "/v1/namespaces/s/tables/t": {"identifier": NAME, "requirements": REQUIREMENTS, "updates": UPDATES},
    "/v1/namespaces/s/tables/t/metrics": {"report-type": "scan-report"},
    "/v1/transactions/commit": {
        "table-changes": [{"identifier": NAME, "requirements": REQUIREMENTS, "updates": UPDATES}]
    },
    "/v1/tables/rename": {"source": NAME, "destination": {**NAME, "name": "u"}},
    "/v1/namespaces/s/views": {
        "name": "v", "schema": SCHEMA, "view-version": {**VERSION, "representations": [REPRESENTATION]},
        "properties": {},
    },
    "/v1/namespaces/s/views/v": {
        "requirements": [{"type": "assert-view-uuid", "uuid": "x"}],
        "updates": [
            {"action": "add-schema", "schema": SCHEMA},
            {"action": "add-view-version", "view-version": {**VERSION, "representations": [REPRESENTATION]}},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    },
    "/v1/views/rename": {"source": NAME, "destination": {**NAME, "name": "u"}},
    "/v1/namespaces/s/register-view": {"name": "v", "metadata-location": "/none/x.json"},
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("catalog")
    with serving(LocalStore(folder), locations=(f"{folder}/data",)) as found:
        found.post("/v1/namespaces", {"namespace": ["s"]})
        made = found.post("/v1/namespaces/s/tables", {"name": "t", "schema": SCHEMA, "location": f"{folder}/data/t"})
        assert made.status_code == 200
        yield found


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def spoilt(draw: random.Random, body: Any) -> Any:
    """The document with one to three things left out, or odd instead."""
    body = copy.deepcopy(body)
    for _ in range(draw.randint(1, 3)):
        found = list(places(body))
        if not found:
            return copy.deepcopy(draw.choice(ODD))
        *path, last = draw.choice(found)
        holder = body
        for key in path:
            holder = holder[key]
        if draw.random() < 0.3:
            del holder[last]
        elif draw.random() < 0.2 and isinstance(holder, list):
            draw.shuffle(holder)
        else:
            holder[last] = copy.deepcopy(draw.choice(ODD))
    return body


def some(draw: random.Random, path: str) -> Any:
    """A right request; of a list of updates, some."""
    body = copy.deepcopy(BODIES[path])
    for holder in (body, *body.get("table-changes", ())):
        for key in ("updates", "requirements"):
            if isinstance(holder.get(key), list) and draw.random() < 0.8:
                holder[key] = draw.sample(holder[key], draw.randint(0, min(3, len(holder[key]))))
    return body


@pytest.mark.parametrize("seed", range(6))
def test_malformed_requests_are_client_errors_and_change_nothing(served, seed):
    draw = random.Random(seed)
    for _ in range(40):
        path = draw.choice(list(BODIES))
        text = json.dumps(spoilt(draw, some(draw, path)))
        before = served.version
        answer = served.http.post(path, content=text, headers={"Content-Type": "application/json"})
        assert answer.status_code < 500, (path, text[:2000], answer.text)
        if answer.status_code >= 400:
            assert answer.json()["error"]["code"] == answer.status_code
            assert served.version == before, (path, text[:2000])
