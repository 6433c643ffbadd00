"""The statements of JSON lines: commands of the command line, with their options as fields."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidLine, OlympiaError, quoted
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.format.strict_json import read_request
from olympia_cli.names import NamespaceName, TableName, ViewName, parse_table, parse_view

Statement = Callable[[Transaction], None]
N = TypeVar("N", NamespaceName, TableName, ViewName)


@dataclass(frozen=True, slots=True)
class Line:
    """A statement, and the number of its line."""

    number: int
    do: Statement

    def run(self, transaction: Transaction) -> None:
        try:
            self.do(transaction)
        except OlympiaError as error:
            error.message = f"line {self.number}: {error.message}"
            raise


def parse_lines(lines: Iterable[str]) -> Iterator[Line]:
    """Parse statements. Empty lines are skipped. Errors name the number of the line."""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            yield Line(number, _parse(text))
        except InvalidLine as error:
            error.message = f"line {number}: {error.message}"
            raise
        except OlympiaError as error:
            raise InvalidLine(f"line {number}: {error.message}", hint=error.hint) from None


def _parse(text: str) -> Statement:
    try:
        fields = read_request(text)
    except ValueError as error:
        raise InvalidLine(f"it is not JSON: {error}", hint='write {"do": "ns create", "name": "a"}') from None
    if not isinstance(fields, dict) or not isinstance(fields.get("do"), str):
        raise InvalidLine('it has no "do"', hint='write {"do": "ns create", "name": "a"}')
    words = fields.pop("do")
    parser = _STATEMENTS.get(words)
    if parser is None:
        raise InvalidLine(f"unknown statement {quoted(words)}", hint="known: " + ", ".join(_STATEMENTS))
    statement_fields = _Fields(fields)
    statement = parser(statement_fields)
    statement_fields.check_all_taken()
    return statement


class _Fields:
    """The fields of a line, with checks of their types. Unknown fields are errors."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self._known_fields: set[str] = set()

    def text(self, key: str, default: str | None = None) -> str:
        value = self._take(key, default)
        if not isinstance(value, str):
            raise InvalidLine(f'"{key}" is {"missing" if value is None else "not a string"}', hint="")
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self._take(key, None) is None else self.text(key)

    def flag(self, key: str) -> bool:
        value = self._take(key, False)
        if not isinstance(value, bool):
            raise InvalidLine(f'"{key}" is neither true nor false', hint="")
        return value

    def properties(self, key: str) -> dict[str, str]:
        value = self._take(key, {})
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise InvalidLine(f'"{key}" is not an object of strings', hint='write {"owner": "ann"}')
        return value

    def keys(self, key: str) -> list[str]:
        value = self._take(key, [])
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise InvalidLine(f'"{key}" is not a list of strings', hint='write ["owner"]')
        return value

    def namespace(self, key: str = "name") -> NamespaceName:
        return NamespaceName(self.text(key))

    def table(self, key: str = "name") -> TableName:
        value = self._take(key, None)
        if isinstance(value, dict):
            inner = _Fields(value)
            name = TableName(inner.text("namespace"), inner.text("name"))
            inner.check_all_taken()
            return name
        if key == "name" and self._take("namespace", None) is not None:
            return TableName(self.text("namespace"), self.text("name"))
        return parse_table(self.text(key))

    def view(self, key: str = "name") -> ViewName:
        if isinstance(self._take(key, None), dict) or (key == "name" and self._take("namespace", None) is not None):
            name = self.table(key)
            return ViewName(name.namespace, name.name)
        return parse_view(self.text(key))

    def check_all_taken(self) -> None:
        if unknown := sorted(set(self._fields) - self._known_fields):
            raise InvalidLine(
                f"unknown field {quoted(unknown[0])}", hint="known: " + ", ".join(sorted(self._known_fields))
            )

    def _take(self, key: str, default: Any) -> Any:
        self._known_fields.add(key)
        return self._fields.get(key, default)


def _alter(line: _Fields, name: N, do: Callable[[Transaction, N, dict[str, str], list[str]], None]) -> Statement:
    set_properties, unset = line.properties("set"), line.keys("unset")
    return lambda t: do(t, name, set_properties, unset)


def _rename(old: N, new: N, do: Callable[[Transaction, N, N], None]) -> Statement:
    return lambda t: do(t, old, new)


def _drop(line: _Fields, name: N, do: Callable[[Transaction, N], None]) -> Statement:
    lenient = line.flag("if_exists")
    return lambda t: None if lenient and not t.exists(name) else do(t, name)


def _ns_create(line: _Fields) -> Statement:
    name, properties, lenient = line.namespace(), line.properties("properties"), line.flag("if_not_exists")
    return lambda t: None if lenient and t.exists(name) else t.create_namespace(name, properties)


def _ns_drop(line: _Fields) -> Statement:
    name, cascade, lenient = line.namespace(), line.flag("cascade"), line.flag("if_exists")
    return lambda t: None if lenient and not t.exists(name) else t.drop_namespace(name, cascade)


def _table_register(line: _Fields) -> Statement:
    name, location = line.table(), line.text("metadata_location")
    properties, lenient = line.properties("properties"), line.flag("if_not_exists")
    return lambda t: None if lenient and t.exists(name) else t.create_table(name, location, properties)


def _table_alter(line: _Fields) -> Statement:
    name, set_properties, unset = line.table(), line.properties("set"), line.keys("unset")
    location = line.optional_text("metadata_location")
    return lambda t: t.alter_table(name, set_properties, unset, location)


def _view_definition(line: _Fields) -> ViewDef:
    try:
        plan = b64decode(line.text("plan"), validate=True)
    except ValueError:
        raise InvalidLine('"plan" is not base64', hint="encode the serialized Substrait ReadRel") from None
    return ViewDef(
        substrait_read_rel=plan,
        properties=line.properties("properties"),
        schema_binding=line.flag("schema_binding"),
        default_namespace_name=line.text("default_namespace", ""),
    )


def _view_create(line: _Fields) -> Statement:
    name, definition, lenient = line.view(), _view_definition(line), line.flag("if_not_exists")
    return lambda t: None if lenient and t.exists(name) else t.create_view(name, definition)


def _view_replace(line: _Fields) -> Statement:
    name, definition = line.view(), _view_definition(line)
    return lambda t: t.replace_view(name, definition)


def _catalog_alter(line: _Fields) -> Statement:
    set_properties, unset = line.properties("set"), line.keys("unset")
    return lambda t: t.alter_catalog(set_properties, unset)


_STATEMENTS: dict[str, Callable[[_Fields], Statement]] = {
    "ns create": _ns_create,
    "ns alter": lambda line: _alter(line, line.namespace(), Transaction.alter_namespace),
    "ns rename": lambda line: _rename(line.namespace(), line.namespace("to"), Transaction.rename_namespace),
    "ns drop": _ns_drop,
    "table register": _table_register,
    "table alter": _table_alter,
    "table rename": lambda line: _rename(line.table(), line.table("to"), Transaction.rename_table),
    "table drop": lambda line: _drop(line, line.table(), Transaction.drop_table),
    "view create": _view_create,
    "view replace": _view_replace,
    "view alter": lambda line: _alter(line, line.view(), Transaction.alter_view),
    "view rename": lambda line: _rename(line.view(), line.view("to"), Transaction.rename_view),
    "view drop": lambda line: _drop(line, line.view(), Transaction.drop_view),
    "catalog alter": _catalog_alter,
}
