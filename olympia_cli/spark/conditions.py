"""Conditions on a table's columns that reduce what is read.

They come from the reader's options, not from Spark's interface for pushing filters down. Up to Spark 4.3 at least,
Spark reuses the plan of one query for other queries on the same DataFrame, and these lose rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from olympia_cli.errors import InvalidName
from olympia_cli.format.keys import KeyCodec, after_prefix
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName


@dataclass(frozen=True, slots=True)
class Conditions:
    """The value that each of some columns must have."""

    equals: Mapping[str, str] = field(default_factory=dict)

    def accept(self, column: str, value: str | None) -> bool:
        """Return True if rows with this value are requested."""
        return self.equals.get(column, value) == value


ALL = Conditions()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `start` up to `end`, exclusive; None means no upper bound."""

    start: str = ""
    end: str | None = None

    def __contains__(self, key: str) -> bool:
        return self.start <= key and (self.end is None or key < self.end)

    def touches(self, low: str | None, high: str | None) -> bool:
        """Return True if the range may contain a key between `low` and `high`, both exclusive."""
        return (low is None or self.end is None or low < self.end) and (high is None or self.start < high)


def key_ranges(conditions: Conditions, keys: KeyCodec) -> tuple[KeyRange, ...]:
    """Return the key ranges of the objects that the conditions accept, in order and without overlap."""
    kinds = [kind for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW) if conditions.accept("type", kind.word)]
    ranges = (_of_kind(kind, conditions.equals, keys) for kind in kinds)
    return tuple(key_range for key_range in ranges if key_range is not None)


def _of_kind(kind: Kind, equals: Mapping[str, str], keys: KeyCodec) -> KeyRange | None:
    namespace, name = equals.get("namespace"), equals.get("name")
    try:
        if kind is Kind.NAMESPACE:
            # `namespace` and `name` of a namespace are both its own name
            if namespace is not None and name is not None and namespace != name:
                return None
            own = name if namespace is None else namespace
            return _below(keys.prefix(kind)) if own is None else _one(keys.encode(NamespaceName(own)))
        if namespace is None or name is None:
            return _below(keys.prefix(kind, namespace))
        object_name = TableName(namespace, name) if kind is Kind.TABLE else ViewName(namespace, name)
        return _one(keys.encode(object_name))
    except InvalidName:
        # no object has such a name
        return None


def _below(prefix: str) -> KeyRange:
    return KeyRange(prefix, after_prefix(prefix))


def _one(key: str) -> KeyRange:
    return KeyRange(key, key + "\0")
