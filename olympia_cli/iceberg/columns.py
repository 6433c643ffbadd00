"""Columns, partitioning and sort order of a table as the command line writes them: `id long not null, ts timestamptz`,
`day(ts)`, `ts desc nulls last`; and their changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count

from pydantic import ValidationError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from olympia_cli.catalog.properties import check_places
from olympia_cli.errors import InvalidOption, quoted
from olympia_cli.format.strict_json import read_request
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.changes import TableChanges
from olympia_cli.iceberg.conversion import identifier_of
from olympia_cli.iceberg.metadata import type_text
from olympia_cli.iceberg.transaction import DistributedCatalog
from olympia_cli.names import TableName, nearest

# Parse and write the schema of a table: `id long not null, name string, ts timestamptz`.
#
# A column is a name, a type, and `not null` if a value is required. Types are Iceberg's, including nested ones:
# `decimal(10, 2)`, `fixed(16)`, `list<string>`, `map<string, long>`, `struct<lat: double, lon: double not null>`. A
# name with characters other than letters, digits and underscores goes in double quotes, with inner quotes doubled. A
# schema that begins with a brace is Iceberg's JSON.

_TYPES: dict[str, type[IcebergType]] = {
    "boolean": BooleanType,
    "bool": BooleanType,
    "int": IntegerType,
    "integer": IntegerType,
    "long": LongType,
    "bigint": LongType,
    "float": FloatType,
    "double": DoubleType,
    "date": DateType,
    "time": TimeType,
    "timestamp": TimestampType,
    "timestamptz": TimestamptzType,
    "string": StringType,
    "varchar": StringType,
    "uuid": UUIDType,
    "binary": BinaryType,
}
_TOKEN = re.compile(r'\s*(?:("(?:[^"]|"")*")|(\w+)|([<>(),:?]))')
_HINT = "write 'id long not null, name string', or @file"
_MAX_DEPTH = 50
_MAX_TEXT = 16 * 1024 * 1024


def read_schema_text(text: str) -> str:
    """Return the text or, if it begins with `@`, the content of the file."""
    if not text.startswith("@"):
        return text
    try:
        with open(text[1:], encoding="utf-8") as file:
            return file.read(_MAX_TEXT)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidOption(f"{text[1:]!a} cannot be read: {reason}", hint="give a file with a schema") from None


def parse_schema(text: str) -> Schema:
    """Parse a schema. Raise InvalidOption with the position of a mistake."""
    if text.lstrip().startswith("{"):
        return _from_json(text)
    parser = _Parser(text)
    columns = parser.columns("")
    names = [column.name for column in columns]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise InvalidOption(f"the column {double!a} is given twice", hint="give each column once")
    return Schema(*columns)


def columns_told(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return the names and types of the columns of a schema, as `describe_metadata` writes them."""
    return tuple(_column(field.name, _told(field.field_type)) for field in schema.fields)


def _told(type: IcebergType) -> str:
    return str(type) if type.is_primitive else type_text(type.model_dump(mode="json"))


@lru_cache(maxsize=2**16)
def _column(name: str, type: str) -> tuple[str, str]:
    # an import holds the columns of a hundred thousand tables, most of them alike
    return name, type


def _from_json(text: str) -> Schema:
    try:
        return Schema.model_validate(read_request(text))
    except (ValidationError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidOption(f"the schema is not Iceberg's JSON: {reason}", hint=_HINT) from None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ids = count(1)
        self._token = self._next()

    def columns(self, closing: str, depth: int = 0) -> list[NestedField]:
        """Parse columns up to a closing character or the end."""
        found = []
        while True:
            found.append(self._column(depth))
            if self._token != ",":
                break
            self._take(",")
        if closing:
            self._take(closing)
        else:
            self.end()
        return found

    def type(self, depth: int) -> IcebergType:
        if depth > _MAX_DEPTH:
            raise InvalidOption("the schema is nested too deeply", hint=_HINT)
        word = self._word("a type").lower()
        match word:
            case "decimal" | "fixed":
                self._take("(")
                numbers = [self._number()]
                if word == "decimal":
                    self._take(",")
                    numbers.append(self._number())
                self._take(")")
                return self._checked(word, numbers)
            case "list":
                self._take("<")
                id = next(self._ids)
                element, required = self.type(depth + 1), self._not_null()
                self._take(">")
                return ListType(element_id=id, element_type=element, element_required=required)
            case "map":
                self._take("<")
                key_id, value_id = next(self._ids), next(self._ids)
                key = self.type(depth + 1)
                self._take(",")
                value, required = self.type(depth + 1), self._not_null()
                self._take(">")
                return MapType(
                    key_id=key_id, key_type=key, value_id=value_id, value_type=value, value_required=required
                )
            case "struct":
                self._take("<")
                return StructType(*self.columns(">", depth + 1))
        if word not in _TYPES:
            raise InvalidOption(f"{word[:60]!a} is not a type", hint=f"use {', '.join(sorted(_TYPES))}, list<…>, …")
        return _TYPES[word]()

    def end(self) -> None:
        if self._token:
            raise self._wrong("the end")

    def _column(self, depth: int) -> NestedField:
        quoted = self._token.startswith('"')
        name = self._word("the name of a column")
        if quoted:
            name = name[1:-1].replace('""', '"')
        if not name:
            raise InvalidOption("a column must have a name", hint=_HINT)
        if self._token == ":":
            self._take(":")
        id = next(self._ids)
        kind = self.type(depth)
        return NestedField(field_id=id, name=name, field_type=kind, required=self._not_null())

    def _not_null(self) -> bool:
        if self._token == "?":
            self._take("?")
            return False
        if self._token.lower() != "not":
            return False
        self._take(self._token)
        if self._token.lower() != "null":
            raise self._wrong("null")
        self._take(self._token)
        return True

    def _checked(self, word: str, numbers: list[int]) -> IcebergType:
        if word == "fixed":
            return FixedType(numbers[0])
        precision, scale = numbers
        if not 1 <= precision <= 38 or scale > precision:
            raise InvalidOption(
                f"decimal({precision}, {scale}) is not a type", hint="1 to 38 digits, not more of them after the point"
            )
        return DecimalType(precision, scale)

    def _number(self) -> int:
        word = self._word("a number")
        if not (word.isascii() and word.isdigit() and len(word) <= 9):
            raise InvalidOption(f"{word[:60]!a} is not a number", hint=_HINT)
        return int(word)

    def _word(self, what: str) -> str:
        token = self._token
        if not token or token in "<>(),:?":
            raise self._wrong(what)
        self._take(token)
        return token

    def _take(self, token: str) -> None:
        if self._token != token:
            raise self._wrong(f"'{token}'")
        self._token = self._next()

    def _next(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if not found:
            if rest := self._text[self._at :].strip():
                raise InvalidOption(f"the schema cannot be read from {rest[:60]!a} on", hint=_HINT)
            return ""
        self._at = found.end()
        return found[found.lastindex or 0]

    def _wrong(self, expected: str) -> InvalidOption:
        shown = f"{self._token[:60]!a}" if self._token else "the end"
        return InvalidOption(f"the schema has {shown} where {expected} belongs", hint=_HINT)


# Parse the partitioning and sort order of a table: `day(ts)`, `bucket(16, id)`, `ts desc nulls last`.

_TIMES: dict[str, Callable[[], Transform]] = {  # type: ignore[type-arg]
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}
_CALL = re.compile(r"\s*(\w+)\s*\(\s*(?:(\d{1,9})\s*,\s*)?(.+?)\s*\)\s*")
_SORT = re.compile(r"(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE | re.DOTALL)


def partition_spec(terms: Sequence[str], schema: Schema) -> PartitionSpec:
    """Parse terms such as `COLUMN`, `year(COLUMN)`, `month(…)`, `day(…)`, `hour(…)`, `bucket(N, COLUMN)`, `truncate(N,
    COLUMN)`.
    """
    fields = []
    for number, text in enumerate(terms):
        source, transform, suffix = _term(text, schema)
        if not transform.can_transform(schema.find_type(source)):
            raise InvalidOption(f"{text.strip()!a} does not fit the column's type", hint="choose another transform")
        name = schema.find_column_name(source) or ""
        fields.append(PartitionField(source, PARTITION_FIELD_ID_START + number, transform, f"{name}{suffix}"))
    return PartitionSpec(*fields)


def sort_order(terms: Sequence[str], schema: Schema) -> SortOrder:
    """Parse terms like those of `partition_spec`, followed by `asc` or `desc`, and `nulls first` or `nulls last`."""
    fields = []
    for text in terms:
        found = _SORT.fullmatch(text)
        assert found is not None
        source, transform, _ = _term(found[1], schema)
        falling = (found[2] or "").lower() == "desc"
        # Iceberg's default
        nulls = (found[3] or ("last" if falling else "first")).lower()
        fields.append(
            SortField(
                source,
                transform,
                SortDirection.DESC if falling else SortDirection.ASC,
                NullOrder.NULLS_FIRST if nulls == "first" else NullOrder.NULLS_LAST,
            )
        )
    return SortOrder(*fields) if fields else SortOrder()


def _term(text: str, schema: Schema) -> tuple[int, Transform, str]:  # type: ignore[type-arg]
    """Return the column's id, the transform, and the suffix that it adds to the column's name."""
    found = _CALL.fullmatch(text)
    if not found:
        return _field_id(text.strip(), schema), IdentityTransform(), ""
    word, number, column = found[1].lower().rstrip("s"), found[2], found[3]
    if word in _TIMES and number is None:
        return _field_id(column, schema), _TIMES[word](), f"_{word}"
    if word == "bucket" and number:
        return _field_id(column, schema), BucketTransform(int(number)), "_bucket"
    if word in ("truncate", "trunc") and number:
        return _field_id(column, schema), TruncateTransform(int(number)), "_trunc"
    raise InvalidOption(
        f"{text.strip()[:60]!a} is not a transform",
        hint="use COLUMN, day(COLUMN), bucket(16, COLUMN) or truncate(4, COLUMN)",
    )


def _field_id(name: str, schema: Schema) -> int:
    try:
        return schema.find_field(name).field_id
    except ValueError:
        raise InvalidOption(
            f"there is no column {name[:60]!a}", hint=f"there are: {', '.join(schema.column_names)}"
        ) from None


# Changes of a table's columns and properties, as the command line names them.

_SHOWN = 8
_ONE_COLUMN = "write 'name type', once for each"


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column to add. The name `a.b` means a column b in the struct a."""

    name: str
    type: IcebergType
    required: bool


@dataclass(frozen=True, slots=True)
class Alteration:
    """Changes of a table. `set` and `unset` are for properties in the metadata, `catalog_…` for those in the
    catalog.
    """

    add: Sequence[NewColumn] = ()
    drop: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    catalog_set: Mapping[str, str] = field(default_factory=dict)
    catalog_unset: Sequence[str] = ()


def parse_column(text: str) -> NewColumn:
    """Parse `name type` or `name type not null`."""
    try:
        fields = parse_schema(text).fields
    except InvalidOption as error:
        hint = error.hint if "is not a type" in error.message else _ONE_COLUMN
        raise InvalidOption(f"{quoted(text)} is not a column: {error.message}", hint=hint) from None
    if len(fields) != 1:
        raise InvalidOption(f"{quoted(text)} is not one column", hint=_ONE_COLUMN)
    return NewColumn(fields[0].name, fields[0].field_type, fields[0].required)


def alter(catalog: OlympiaCatalog, name: TableName, change: Alteration) -> None:
    """Apply all changes in one commit. In a distributed transaction, apply them as separate changes."""
    if isinstance(catalog, DistributedCatalog):
        _alter(catalog, name, change)
        return
    with catalog.transaction(catalog.message) as together:
        _alter(together, name, change)
    catalog.last_version, catalog.last_actions = together.last_version, together.last_actions


def _alter(catalog: OlympiaCatalog, name: TableName, change: Alteration) -> None:
    check_places(change.set)
    table = catalog.load_table(identifier_of(name))
    if absent := [key for key in change.unset if key not in table.properties]:
        raise InvalidOption(
            f"the metadata of the table has no property {quoted(absent[0])}", hint=_meant(absent[0], table.properties)
        )
    _check_columns(table.schema(), change)
    properties = {key: value for key, value in change.set.items() if table.properties.get(key) != value}
    with table.transaction() as transaction:
        if change.add or change.drop or change.rename:
            with transaction.update_schema(allow_incompatible_changes=False) as update:
                for column in change.drop:
                    update.delete_column(column)
                for old, new in change.rename.items():
                    update.rename_column(old, new)
                for added in change.add:
                    update.add_column(added.name, added.type, required=added.required)
        if properties:
            transaction.set_properties(properties)
        if change.unset:
            transaction.remove_properties(*change.unset)

    def keep(changes: TableChanges) -> None:
        changes.transaction.alter_table(name, change.catalog_set, change.catalog_unset)

    if change.catalog_set or change.catalog_unset:
        catalog.change(name, keep, name)


def _check_columns(schema: Schema, change: Alteration) -> None:
    """Raise InvalidOption for impossible column changes, with clearer messages than PyIceberg's."""
    there = set(schema.column_names)
    for column in (*change.drop, *change.rename):
        if column not in there:
            raise InvalidOption(f"the table has no column {quoted(column)}", hint=_meant(column, schema.column_names))
    there -= {*change.drop, *change.rename}
    for old, new in change.rename.items():
        parent, dot, _ = old.rpartition(".")
        _check_free(f"{parent}{dot}{new}", there)
    for added in change.add:
        _check_free(added.name, there)
        if added.required:
            raise InvalidOption(
                f"the column {quoted(added.name)} cannot be not null: the rows that are there have no value in it",
                hint="leave out not null",
            )


def _check_free(name: str, there: set[str]) -> None:
    if name in there:
        raise InvalidOption(f"the table has a column {quoted(name)} already", hint="choose another name")
    there.add(name)


def _meant(name: str, known: Iterable[str]) -> str:
    """Return advice for a missing name: the similar name, or the existing ones."""
    known = list(known)
    found = nearest(name, known)
    if found is not None:
        return f"did you mean {quoted(found)}?"
    more = ", …" if len(known) > _SHOWN else ""
    return f"there are {', '.join(map(quoted, known[:_SHOWN]))}{more}" if known else "there are none"
