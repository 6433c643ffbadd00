"""Object keys: the type id, then each name padded with spaces to its size. Keys sort by their UTF-8 bytes.

Python compares strings by code point, which is the same order, so keys stay `str` everywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from olympia_cli.errors import Damaged, InvalidName
from olympia_cli.format.node import Sizes
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName, as_found

CATALOG_DEF = "catalog_def"
"""The key of the catalog itself, in system rows and in action rows."""

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
_ID_WIDTH = 4


def encode_type_id(type_id: int) -> str:
    """The type id in base 64, padded on the right with `=` to four characters."""
    digits = ""
    while True:
        type_id, digit = divmod(type_id, 64)
        digits = _DIGITS[digit] + digits
        if not type_id:
            return digits.ljust(_ID_WIDTH, "=")


_PREFIXES = {kind: encode_type_id(kind) for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)}
_KINDS = {prefix: kind for kind, prefix in _PREFIXES.items()}
_TABLE = _PREFIXES[Kind.TABLE]


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """Keys of one catalog, whose definition fixes the sizes for its whole life.

    Sizes count bytes of UTF-8. The Java SDK counts UTF-16 units instead (`java`); its catalogs are read with that.
    """

    namespace_size: int
    table_size: int
    view_size: int
    java: bool = False

    @classmethod
    def of(cls, sizes: Sizes, java: bool = False) -> KeyCodec:
        return cls(sizes.namespace, sizes.table, sizes.view, java)

    def encode(self, name: ObjectName) -> str:
        """The key of an object; InvalidName when a name is too long for this catalog."""
        if isinstance(name, TableName):
            key = _TABLE + name.namespace.ljust(self.namespace_size) + name.name.ljust(self.table_size)
            # padding shortens no name: it is as long as it must be only if both parts are
            if len(key) == _ID_WIDTH + self.namespace_size + self.table_size and key.isascii():
                return key
        namespace = self._pad(name.namespace, self.namespace_size, "namespace")
        if isinstance(name, TableName):
            return _TABLE + namespace + self._pad(name.name, self.table_size, "table")
        if isinstance(name, ViewName):
            return _PREFIXES[Kind.VIEW] + namespace + self._pad(name.name, self.view_size, "view")
        return _PREFIXES[Kind.NAMESPACE] + namespace

    def prefix(self, kind: Kind, namespace: str | None = None) -> str:
        """What all keys of a kind begin with, or all those of a kind in one namespace."""
        prefix = _PREFIXES[kind]
        return prefix if namespace is None else prefix + self._pad(namespace, self.namespace_size, "namespace")

    def decode(self, key: str, path: str) -> ObjectName:
        """The name behind a key that was found in the file `path`; Damaged when it is not a key of this catalog."""
        kind = kind_of_key(key, path)
        namespace, rest = self._cut(key[_ID_WIDTH:], self.namespace_size)
        size = {Kind.NAMESPACE: 0, Kind.TABLE: self.table_size, Kind.VIEW: self.view_size}[kind]
        if kind is Kind.TABLE and len(rest) == size and key.isascii() and key.isprintable():
            # the keys that long lists are made of: printable ASCII without a space is a legal name
            name = rest.rstrip(" ")
            if namespace and name and " " not in namespace and " " not in name:
                return TableName.known_legal(namespace, name)
        name, rest = self._cut(rest, size)
        try:
            decoded: ObjectName
            if self.java:
                decoded = as_found(kind, namespace, name)
            elif kind is Kind.NAMESPACE:
                decoded = NamespaceName(namespace)
            else:
                decoded = TableName(namespace, name) if kind is Kind.TABLE else ViewName(namespace, name)
            nameless = not namespace or not (name or kind is Kind.NAMESPACE)
            if rest or nameless or self.encode(decoded) != key:
                raise InvalidName("")
        except InvalidName:
            raise Damaged("F215", path, f"the key {key[:60]!a} is not padded as the catalog's sizes say") from None
        return decoded

    def decode_many(self, keys: Sequence[str], path: str) -> Sequence[ObjectName]:
        """The names behind keys that follow each other: as `decode`, for long lists."""
        decoded: list[ObjectName] = []
        for first, rest, names in self._runs(keys, path):
            decoded.append(first)
            decoded += TableName.all_known_legal(first.namespace, names)
            decoded += [] if names else [self.decode(key, path) for key in rest]
        return decoded

    def spans(self, keys: Sequence[str], path: str) -> list[tuple[Kind, str, int]]:
        """The kinds and namespaces of keys that follow each other, and how many there are of each. Damaged as `decode`
        says; but no names are made."""
        spans = []
        for first, rest, names in self._runs(keys, path):
            for key in () if names else rest:
                self.decode(key, path)
            spans.append((first.kind, first.namespace, 1 + len(rest)))
        return spans

    def names_by_namespace(self, keys: Sequence[str], path: str) -> Iterator[tuple[str, list[str]]]:
        """As `decode_many`, as text: a namespace, and the names that follow each other in it."""
        for first, rest, names in self._runs(keys, path):
            yield first.namespace, [first.name, *(names or [self.decode(key, path).name for key in rest])]

    def _runs(self, keys: Sequence[str], path: str) -> Iterator[tuple[ObjectName, Sequence[str], list[str]]]:
        """What the first key is of, the other keys of that namespace, which follow it, and their names if all of them
        are plain; then the same of the next namespace."""
        at = 0
        while at < len(keys):
            first = self.decode(keys[at], path)
            at += 1
            rest, names = keys[at:at], list[str]()
            if isinstance(first, TableName) and not self.java:
                # those of one namespace follow each other, but in the upper nodes of large trees
                prefix = self.prefix(Kind.TABLE, first.namespace)
                if at < len(keys) and keys[at].startswith(prefix):
                    rest = keys[at : bisect_left(keys, after_prefix(prefix), at)]
                    names = self._plain_names(rest, prefix, self.table_size)
                    at += len(rest)
            yield first, rest, names

    def names(self, keys: Sequence[str], prefix: str, path: str) -> list[str]:
        """What stands after the prefix of a namespace in keys found in the file `path`: as `decode`, for long lists."""
        size = self.table_size if prefix.startswith(_PREFIXES[Kind.TABLE]) else self.view_size
        return self._plain_names(keys, prefix, size) or [self.decode(key, path).name for key in keys]

    def _plain_names(self, keys: Sequence[str], prefix: str, size: int) -> list[str]:
        """What stands after the prefix, if all of it is what most names are made of: printable ASCII without a space,
        which is legal."""
        cut = len(prefix)
        # without an argument it is several times as fast; what it takes off too much shows below
        names = [key[cut:].rstrip() for key in keys]
        text = "".join(names)
        if text.isascii() and text.isprintable() and " " not in text and all(names):
            padded = [prefix + name.ljust(size) for name in names]
            # padding shortens no name: together they are as long as they must be only if each of them is
            if padded == list(keys) and len("".join(keys)) == len(keys) * (cut + size):
                return names
        return []

    def key(self, name: ObjectName) -> str:
        """As `encode`; empty for a name that the catalog cannot hold."""
        try:
            return self.encode(name)
        except InvalidName:
            return ""

    def name(self, key: str) -> ObjectName | None:
        """The name behind a key; None when no object of this catalog can have it."""
        try:
            return self.decode(key, "")
        except Damaged:
            return None

    def _pad(self, name: str, size: int, what: str) -> str:
        if len(name) <= size and name.isascii():
            return name.ljust(size)
        text = utf16_units(name) if self.java else name
        missing = size - self._length(text)
        if missing < 0:
            shown = ascii(name if len(name) <= 60 else name[:57] + "...")
            raise InvalidName(
                f"the {what} name {shown} has {size - missing} bytes, and this catalog allows {size}",
                hint="choose a shorter name",
            )
        return text + " " * missing

    def _length(self, text: str) -> int:
        return len(text) if self.java or text.isascii() else len(text.encode("utf-8", "surrogatepass"))

    def _cut(self, text: str, size: int) -> tuple[str, str]:
        """The first name in the text, without its padding, and what follows it."""
        if self.java or text.isascii():
            name = text[:size].rstrip(" ")
            return from_utf16_units(name) if self.java else name, text[size:]
        data = text.encode("utf-8", "surrogatepass")
        return data[:size].decode("utf-8", "replace").rstrip(" "), data[size:].decode("utf-8", "replace")


def kind_of_key(key: str, path: str) -> Kind:
    """What kind of object a key found in the file `path` is of, from its type id alone."""
    kind = _KINDS.get(key[:_ID_WIDTH])
    if kind is None:
        raise Damaged("F215", path, f"the key {key[:60]!a} is of no known type")
    return kind


def utf16_units(text: str) -> str:
    """The text with each character beyond U+FFFF as its two UTF-16 units: so lengths and order are the Java SDK's."""
    if not text or max(text) <= "\uffff":
        return text
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(map(chr, units))


def from_utf16_units(text: str) -> str:
    """The text behind one that is written as UTF-16 units."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def after_prefix(prefix: str) -> str:
    """The smallest string above everything that begins with the prefix."""
    # nothing comes after the last character there is, so the one before it counts on
    prefix = prefix.rstrip("\U0010ffff")
    last = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(0xE000 if last == 0xD800 else last)
