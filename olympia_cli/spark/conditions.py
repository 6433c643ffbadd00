"""What is wanted of a table, as far as it spares reading.

It comes from the reader's options. Spark has an interface that passes a query's filters on; up to 4.3 at least, what it
plans for one query is taken for other queries on the same DataFrame too, and they lose rows. So it is not used.
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
        """Whether a row with this value is wanted."""
        return self.equals.get(column, value) == value


ALL = Conditions()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `start` up to `end`, which is left out; None is the end of all keys."""

    start: str = ""
    end: str | None = None

    def __contains__(self, key: str) -> bool:
        return self.start <= key and (self.end is None or key < self.end)

    def touches(self, low: str | None, high: str | None) -> bool:
        """Whether keys between two others, neither of them included, may lie in the range."""
        return (low is None or self.end is None or low < self.end) and (high is None or self.start < high)


def key_ranges(conditions: Conditions, keys: KeyCodec) -> tuple[KeyRange, ...]:
    """Where in the tree the objects can be that the conditions ask for; in order, none in another."""
    kinds = [kind for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW) if conditions.accept("type", kind.word)]
    ranges = (_of_kind(kind, conditions.equals, keys) for kind in kinds)
    return tuple(key_range for key_range in ranges if key_range is not None)


def _of_kind(kind: Kind, equals: Mapping[str, str], keys: KeyCodec) -> KeyRange | None:
    namespace, name = equals.get("namespace"), equals.get("name")
    try:
        if kind is Kind.NAMESPACE:
            # of a namespace both names are its own
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
