"""Keys in readable form: names, or the raw key with its padding as counts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from olympia_cli.errors import InvalidName, InvalidOption
from olympia_cli.format.keys import KeyCodec
from olympia_cli.names import NamespaceName, ObjectName, TableName, ViewName, parse_table

_PADDING = re.compile(" +")
_COUNT = re.compile(r"\+([0-9]{1,6})")
_RAW = re.compile("[A-Za-z0-9+-]===|catalog_def$")


def compact_key(key: str) -> str:
    """Return the key with each run of padding as ` +95`. Names have no spaces, so this is unambiguous."""
    return _PADDING.sub(lambda match: f" +{len(match[0])} ", key).rstrip(" ")


def expand_key(text: str) -> str:
    """Return the key of a compact one. A complete key is returned unchanged."""
    parts = text.split(" ")
    if "" in parts or not all(_COUNT.fullmatch(part) for part in parts[1::2]):
        return text
    return "".join(" " * int(part[1:]) if at % 2 else part for at, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class KeyTarget:
    """The user's target: a raw key, or the names that the text may mean, the most probable first."""

    text: str
    raw: str | None
    names: tuple[ObjectName, ...]

    @classmethod
    def parse(cls, text: str) -> KeyTarget:
        if _RAW.match(text):
            return cls(text, expand_key(text), ())
        names: list[ObjectName] = []
        try:
            table = parse_table(text)
            names += [table, ViewName(table.namespace, table.name)]
        except InvalidName:
            pass
        inner = text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' else text
        try:
            names.append(NamespaceName(inner.replace('""', '"') if inner is not text else text))
        except InvalidName:
            if not names:
                raise
        return cls(text, None, tuple(names))

    def matches(self, key: str | None, name: ObjectName | None) -> bool:
        if self.raw is not None:
            return key is not None and key.rstrip(" ") == self.raw.rstrip(" ")
        return name is not None and name in self.names

    def keys(self, codec: KeyCodec) -> Iterable[tuple[str, ObjectName | None]]:
        """Return the keys to search for, each with its name."""
        if self.raw is not None:
            return [(self.raw, None)]
        keys = []
        refused: InvalidName | None = None
        for name in self.names:
            try:
                keys.append((codec.encode(name), name))
            except InvalidName as error:
                refused = refused or error
        if not keys:
            raise refused or InvalidOption(f"{self.text[:60]!a} names no object", hint="pass NS or NS.T")
        return keys

    @property
    def is_table(self) -> bool:
        return any(isinstance(name, TableName) for name in self.names)
