"""Parse the schema of a table: `id long not null, name string, ts timestamptz`.

A column is a name, a type, and `not null` if a value is required. Types are Iceberg's, including nested ones:
`decimal(10, 2)`, `fixed(16)`, `list<string>`, `map<string, long>`, `struct<lat: double, lon: double not null>`. A name
with characters other than letters, digits and underscores goes in double quotes, with inner quotes doubled. A schema
that begins with a brace is Iceberg's JSON.
"""

from __future__ import annotations

import re
from itertools import count

from pydantic import ValidationError
from pyiceberg.schema import Schema
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

from olympia_cli.errors import InvalidOption
from olympia_cli.format.strict_json import read_request

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


def parse_type(text: str) -> IcebergType:
    """Parse a single type."""
    parser = _Parser(text)
    found = parser.type(0)
    parser.end()
    return found


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
