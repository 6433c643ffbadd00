"""Changes from JSON lines: parse the lines, and commit them as one transaction or in steps that can be resumed."""

from __future__ import annotations

import hashlib
import uuid
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author, Committed, commit
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import Damaged, InvalidLine, OlympiaError, quoted
from olympia_cli.format.actions import commit_info
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.format.strict_json import read_request
from olympia_cli.names import NamespaceName, TableName, ViewName, parse_table, parse_view
from olympia_cli.ops.inspect import log

# The statements of JSON lines: commands of the command line, with their options as fields.

Statement = Callable[[Transaction], None]
N = TypeVar("N", NamespaceName, TableName, ViewName)


@dataclass(frozen=True, slots=True)
class StatementLine:
    """A statement, and the number of its line."""

    number: int
    do: Statement

    def run(self, transaction: Transaction) -> None:
        try:
            self.do(transaction)
        except OlympiaError as error:
            error.message = f"line {self.number}: {error.message}"
            raise


def parse_lines(lines: Iterable[str]) -> Iterator[StatementLine]:
    """Parse statements. Empty lines are skipped. Errors name the number of the line."""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            yield StatementLine(number, _parse(text))
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


# Commit lines as one transaction, or in steps that can be resumed after an interruption.


def apply_all(
    catalog: Catalog,
    lines: Iterable[StatementLine],
    author: Author,
    *,
    retry_for: float,
    atomic: bool,
    dry_run: bool = False,
) -> Committed:
    """Commit all lines as one transaction."""
    transaction = catalog.begin()
    for line in lines:
        line.run(transaction)
    if dry_run:
        return Committed(transaction.base.version, tuple(transaction.actions))
    return commit(transaction, author, retry_for=retry_for, atomic=atomic)


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """A commit of some lines. `done_before` means that an earlier run committed it, and this run did nothing."""

    version: int
    lines: int
    done_before: bool


def apply_in_steps(
    catalog: Catalog, lines: Iterable[StatementLine], input: Input, every: int, author: Author, retry_for: float
) -> Iterator[ApplyStep]:
    """Commit `every` lines per transaction. To resume an interrupted run, run it again on the same input.

    The id of each transaction is derived from the input and the step, so the log shows the steps of an earlier run. A
    step without changes is not in the log; it counts as done if a later step is.
    """
    steps = _Steps(catalog.snapshot(), f"{input.digest} {every}", -(-input.lines // every))
    batch: list[StatementLine] = []
    step = 0

    def flush() -> ApplyStep:
        while True:
            if step <= steps.last:
                return ApplyStep(steps.version_of(step), len(batch), True)
            transaction = catalog.begin_as(None, steps.ids[step])
            if transaction.base.version == steps.version:
                break
            # another process has committed, perhaps the same input
            steps.look(transaction.base)
        for line in batch:
            line.run(transaction)
        version = commit(transaction, author, retry_for=retry_for, atomic=True).version
        if version == steps.version + 1:
            steps.take(step, version)
        return ApplyStep(version, len(batch), False)

    for line in lines:
        batch.append(line)
        if len(batch) == every:
            yield flush()
            batch, step = [], step + 1
    if batch:
        yield flush()


@dataclass(frozen=True, slots=True)
class Input:
    """The digest of an input, and the number of its statements."""

    digest: str
    lines: int


def digest_of(lines: Iterable[str]) -> Input:
    hashed, number = hashlib.sha256(), 0
    for line in lines:
        hashed.update(line.encode("utf-8", "surrogatepass"))
        number += bool(line.strip())
    return Input(hashed.hexdigest(), number)


class _Steps:
    """The steps in the log up to a version: those that count, and those that a rollback undid.

    `ids` are the transactions' ids. `last` is the last step that is done.
    """

    def __init__(self, latest: Snapshot, input: str, steps: int) -> None:
        self._catalog_id = latest.definition.id
        self._input = input
        self._steps = steps
        self._versions: dict[str, int] = {}
        self._undone: set[str] = set()
        self.version = oldest_version(latest) - 1
        self.ids: list[str] = []
        self.last = -1
        self.look(latest)

    def look(self, latest: Snapshot) -> None:
        """Read the log since the last call."""
        for entry in log(latest, self.version + 1):
            if entry.unreadable:
                raise Damaged("F401", root_path(entry.version), "the actions of this version cannot be read")
            info = commit_info(entry.actions)
            if info is not None and entry.undone_by is None:
                self._versions[info.transaction_id] = entry.version
            elif info is not None:
                self._undone.add(info.transaction_id)
        self.version = latest.version
        if not self.ids or not self._undone.isdisjoint(self.ids):
            self.ids = [self._id(step) for step in range(self._steps)]
        self.last = max((step for step, id in enumerate(self.ids) if id in self._versions), default=-1)

    def take(self, step: int, version: int) -> None:
        """Record that this run has committed a step."""
        self._versions[self.ids[step]] = self.version = version
        self.last = step

    def version_of(self, step: int) -> int:
        """Return the version of a step that is done. A step without changes has the version of the next one with
        changes.
        """
        return next(self._versions[id] for id in self.ids[step:] if id in self._versions)

    def _id(self, step: int) -> str:
        """Return the id of a step. A step that a rollback undid gets a new id, so that it is done again."""
        texts = (f"{self._catalog_id} {self._input} {step} {again}" for again in count())
        ids = (str(uuid.uuid5(uuid.NAMESPACE_OID, text)) for text in texts)
        return next(id for id in ids if id not in self._undone)
