"""The subset of JSON Schema that the schemas of the commands use: types are exact, and unknown keys are allowed."""

from __future__ import annotations

import re
from typing import Any

from olympia_cli.cli.commands.schema import schema

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}

_KNOWN = {"$ref", "type", "enum", "pattern", "minimum", "required", "properties", "additionalProperties", "items"}


def check(value: Any, name: str) -> None:
    """AssertionError with the place, unless the value has the shape that `cli/schemas/NAME.json` tells."""
    _check(value, schema(name), name)


def _check(value: Any, rules: dict[str, Any], at: str) -> None:
    assert not set(rules) - _KNOWN, f"{at}: the schema says what this checker does not know"
    if "$ref" in rules:
        _check(value, schema(rules["$ref"].removesuffix(".json")), at)
    if "type" in rules:
        wanted = rules["type"] if isinstance(rules["type"], list) else [rules["type"]]
        # exactly: for Python True is an int, but for JSON it is no number
        assert any(type(value) in _TYPES[one] for one in wanted), f"{at}: {value!r} is not {' or '.join(wanted)}"
    if "enum" in rules:
        assert value in rules["enum"], f"{at}: {value!r} is none of {rules['enum']}"
    if "pattern" in rules and isinstance(value, str):
        assert re.search(rules["pattern"], value), f"{at}: {value!r} does not match {rules['pattern']}"
    if "minimum" in rules and isinstance(value, int):
        assert value >= rules["minimum"], f"{at}: {value} is below {rules['minimum']}"
    if isinstance(value, dict):
        missing = [key for key in rules.get("required", ()) if key not in value]
        assert not missing, f"{at}: {missing} are missing from {value}"
        others = rules.get("additionalProperties", {})
        for key, inner in value.items():
            _check(inner, rules.get("properties", {}).get(key, others), f"{at}.{key}")
    if isinstance(value, list) and "items" in rules:
        for number, inner in enumerate(value):
            _check(inner, rules["items"], f"{at}[{number}]")
