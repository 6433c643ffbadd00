"""`olympia schema`: a schema for every command, whole and sound, of shapes that only grow."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from olympia_cli.cli.app import COMMANDS
from olympia_cli.cli.commands import schema as shapes
from tests.cli.test_contract import SHAPES as RUNS
from tests.helpers.json_schema import check
from tools import generate_docs

RECORD = Path(__file__).parents[1] / "golden" / "json-shapes.txt"
NAMES = sorted({name for names in shapes.SHAPES.values() for name in names} | set(shapes.ON_STDERR.values()))


@pytest.mark.parametrize("command", [*COMMANDS, *shapes.ON_STDERR])
def test_each_is_a_json_schema_of_its_own(command, run):
    """The schema refers to no other file, and is valid in its dialect."""
    printed = run("schema", *command.split()).ok().json
    check(printed, "schema")
    jsonschema.Draft202012Validator.check_schema(printed)
    text = json.dumps(printed)
    for name in {part.split('"')[0] for part in text.split("#/$defs/")[1:]}:
        assert name in printed["$defs"], name
    assert ".json" not in text


@pytest.mark.parametrize("name", NAMES)
def test_every_required_field_of_a_schema_is_described(name):
    """The contract tests know all keywords that the schemas use; what is required is described."""
    text = (shapes.SCHEMAS / f"{name}.json").read_text()
    assert json.loads(text)["type"] == "object"

    def look(rules):
        assert set(rules.get("required", ())) <= set(rules.get("properties", {})) or "additionalProperties" in rules
        for inner in (*rules.get("properties", {}).values(), *([rules["items"]] if "items" in rules else [])):
            look(inner)

    look(json.loads(text))


def test_a_printed_schema_rejects_invalid_output(olympia):
    rules = olympia("schema", "table", "ls").ok().json
    found = olympia("table", "ls", "--json").ok().json
    jsonschema.validate(found, rules)
    jsonschema.validate({**found, "more": 1}, rules)
    for wrong in ({**found, "version": "7"}, {"tables": found["tables"]}, {**found, "tables": [{"name": "x"}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, rules)


OTHERS = {
    "status-full": ["status", "--full"],
    "expire-ls": ["expire", "ls"],
    "expire-undo": ["expire", "undo", "--dry-run"],
    "expire-purge": ["expire", "purge", "--dry-run"],
    "expire-simulate": ["expire", "--simulate"],
    "promote-forget": ["promote", "--forget", "--dry-run"],
    "dump-node-follow": ["dump-node", "--follow", "sales.orders_2025"],
    "table-files-schemas": ["table", "files", "--schemas", "--at", "v1"],
    "table-files-written": ["table", "files", "--to", "written", "--at", "v1"],
    "man-all": ["man", "--all", "pages"],
    "schema": ["schema", "log"],
    "fsck": ["fsck", "--repair", "--dry-run"],
}


@pytest.mark.parametrize("name", OTHERS)
def test_output_under_other_options_matches_its_schema(name, olympia):
    check(olympia(*OTHERS[name], "--json").ok().json, name)


def test_every_shape_is_checked_against_a_run():
    """Every schema belongs to a document that a test prints."""
    elsewhere = {"init", "staged", "error", "log-line", "log-html", "serve", "status-unseen"}
    elsewhere |= {"deltacat-check", "import-check"}
    assert set(NAMES) == {name for name, _ in RUNS.values()} | (set(OTHERS) - {"status-full"}) | elsewhere


# They only grow


def promised() -> list[list[str]]:
    return [line.split("\t") for line in RECORD.read_text().splitlines()]


def broken(now: set[tuple[str, ...]]) -> list[list[str]]:
    """Promises of the record that do not hold any more. What was there sometimes may be there always."""

    def holds(line: list[str]) -> bool:
        return tuple(line) in now or (line[-1] == "sometimes" and (*line[:-1], "always") in now)

    return [line for line in promised() if not holds(line)]


def present() -> set[tuple[str, ...]]:
    lines: set[tuple[str, ...]] = {(path, name) for path, names in shapes.SHAPES.items() for name in names}
    for name in NAMES:
        for part in shapes.parts(name):
            lines.add((name, part.path, "|".join(part.types), "always" if part.always else "sometimes"))
    return lines


def test_no_promised_field_is_missing():
    assert len(promised()) > 300
    assert broken(present()) == []


@pytest.mark.parametrize("change", ["removed", "renamed", "another type", "no longer always there"])
def test_a_removed_or_changed_field_breaks_the_promise(change, monkeypatch):
    rules = copy.deepcopy(shapes.schema("table-show"))
    if change == "no longer always there":
        rules["required"].remove("id")
    else:
        former = rules["properties"].pop("id")
        if change == "renamed":
            rules["properties"]["uuid"] = former
        elif change == "another type":
            rules["properties"]["id"] = {"type": "integer"}
    schema = shapes.schema
    monkeypatch.setattr(shapes, "schema", lambda name: rules if name == "table-show" else schema(name))
    assert [line[:2] for line in broken(present())] == [["table-show", "id"]]


def test_the_record_and_the_page_are_current():
    """`python tools/generate_docs.py` adds what is new, and never removes anything."""
    assert RECORD.read_text() == generate_docs.json_shapes()
    page = Path(generate_docs.TOP / generate_docs.JSON_PAGE).read_text()
    assert page == generate_docs.json_page()
    for name in NAMES:
        assert f"\n## {name}\n" in page


def test_schema_of_an_unknown_command_is_refused(run):
    run("schema", "nope").failed(2, "olympia schema")
    run("schema", "ns").failed(2, "ns create")
    assert run("schema", "namespace", "describe").ok().json["title"] == "olympia ns show --json"
    assert run("schema", "-o", "name").ok().lines == list(COMMANDS)
