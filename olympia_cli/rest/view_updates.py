"""Apply updates to a view's metadata: pure functions on JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from olympia_cli.rest.failures import Failure, bad_request

Json = dict[str, Any]
LAST = -1
"""Instead of an id: the most recently added one."""


def check_requirements(metadata: Json, requirements: Sequence[Json]) -> None:
    """Raise Failure unless the view meets the requirements."""
    for requirement in requirements:
        if requirement.get("type") != "assert-view-uuid":
            raise bad_request("the only requirement of a view is assert-view-uuid")
        if requirement.get("uuid") != metadata["view-uuid"]:
            raise Failure(409, "CommitFailedException", "the view is another one than it was: its uuid differs")


def update_view(metadata: Json, updates: Sequence[Json], now_millis: int) -> Json:
    """Return the metadata after the updates, applied in order."""
    state = _State({**metadata, "properties": dict(metadata.get("properties") or {})}, now_millis)
    for update in updates:
        action = _ACTIONS.get(str(update.get("action")))
        if action is None:
            raise bad_request(f"there is no update {str(update.get('action'))[:60]!a} of a view")
        action(state, update)
    if not any(one.get("version-id") == state.view["current-version-id"] for one in state.view["versions"]):
        raise bad_request("the current version of a view must be one of its versions")
    return state.view


def check_dialects(version: Json) -> None:
    """Raise Failure if a view version has several queries for one SQL dialect."""
    seen: set[str] = set()
    for one in version.get("representations") or ():
        dialect = str(one.get("dialect")).lower() if isinstance(one, dict) else ""
        if dialect in seen:
            raise Failure(
                400,
                "IllegalArgumentException",
                f"Invalid view version: Cannot add multiple queries for dialect {dialect}",
            )
        seen.add(dialect)


def filled(version: Json, now_millis: int) -> Json:
    """Return a view version with the fields that readers require but writers may omit."""
    return {"timestamp-ms": now_millis, "summary": {}, **version}


class _State:
    def __init__(self, view: Json, now_millis: int) -> None:
        self.view = view
        self.now = now_millis
        self.last_schema: int | None = None
        self.last_version: int | None = None


def _assign_uuid(state: _State, update: Json) -> None:
    if update.get("uuid") != state.view["view-uuid"]:
        raise bad_request("a view keeps its uuid")


def _upgrade(state: _State, update: Json) -> None:
    if update.get("format-version") != 1:
        raise bad_request("the only format of views is 1")


def _add_schema(state: _State, update: Json) -> None:
    schema = update.get("schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise bad_request("add-schema has no schema")
    schemas: list[Json] = list(state.view["schemas"])
    same = [one for one in schemas if _fields(one) == _fields(schema)]
    if same:
        state.last_schema = same[0].get("schema-id", 0)
        return
    state.last_schema = max((one.get("schema-id", 0) for one in schemas), default=-1) + 1
    state.view["schemas"] = [*schemas, {**schema, "schema-id": state.last_schema}]


def _fields(schema: Json) -> object:
    return schema.get("fields"), schema.get("identifier-field-ids") or []


def _add_version(state: _State, update: Json) -> None:
    version = update.get("view-version")
    if not isinstance(version, dict) or not isinstance(version.get("representations"), list):
        raise bad_request("add-view-version has no version")
    check_dialects(version)
    version = filled(version, state.now)
    versions: list[Json] = list(state.view["versions"])
    schema = state.last_schema if version.get("schema-id") == LAST else version.get("schema-id")
    if schema is None or not any(one.get("schema-id", 0) == schema for one in state.view["schemas"]):
        raise bad_request("a version of a view has a schema that the view does not have")
    same = [one for one in versions if _content({**version, "schema-id": schema}) == _content(one)]
    if same:
        state.last_version = same[0]["version-id"]
        return
    id = version.get("version-id")
    if type(id) is not int or any(one.get("version-id") == id for one in versions):
        id = max((one["version-id"] for one in versions), default=0) + 1
    state.last_version = id
    state.view["versions"] = [*versions, {**version, "version-id": id, "schema-id": schema}]


def _content(version: Json) -> Json:
    """Return a view version without its id and time."""
    return {key: value for key, value in version.items() if key not in ("version-id", "timestamp-ms") and value}


def _set_current(state: _State, update: Json) -> None:
    id = update.get("view-version-id")
    id = state.last_version if id == LAST else id
    if not any(one.get("version-id") == id for one in state.view["versions"]):
        raise bad_request("the view has no such version")
    if id != state.view["current-version-id"]:
        log = list(state.view.get("version-log") or [])
        state.view["version-log"] = [*log, {"timestamp-ms": state.now, "version-id": id}]
    state.view["current-version-id"] = id


def _set_location(state: _State, update: Json) -> None:
    if not isinstance(update.get("location"), str):
        raise bad_request("set-location has no location")
    state.view["location"] = update["location"]


def _set_properties(state: _State, update: Json) -> None:
    updates = update.get("updates")
    if not isinstance(updates, dict) or not all(isinstance(value, str) for value in updates.values()):
        raise bad_request("set-properties has no updates")
    state.view["properties"].update(updates)


def _remove_properties(state: _State, update: Json) -> None:
    removals = update.get("removals")
    if not isinstance(removals, list):
        raise bad_request("remove-properties has no removals")
    for key in removals:
        state.view["properties"].pop(key, None)


_ACTIONS: dict[str, Callable[[_State, Json], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_version,
    "set-current-view-version": _set_current,
}
