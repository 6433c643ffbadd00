"""Object keys: the type id, then each name, padded with spaces to its size. Keys sort by their UTF-8 bytes.

UTF-8 bytes and code points sort alike, so keys are `str` everywhere.
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
    """Return the type id in base 64, padded with `=` to four characters."""
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
    """Encoder and decoder for the keys of a catalog. The name sizes are fixed in the catalog's definition.

    Sizes count bytes of UTF-8. In catalogs of the Java SDK (`java`) they count UTF-16 units.
    """

    namespace_size: int
    table_size: int
    view_size: int
    java: bool = False

    @classmethod
    def of(cls, sizes: Sizes, java: bool = False) -> KeyCodec:
        return cls(sizes.namespace, sizes.table, sizes.view, java)

    def encode(self, name: ObjectName) -> str:
        """Return the key of an object. Raise InvalidName if a name is too long for this catalog."""
        if isinstance(name, TableName):
            key = _TABLE + name.namespace.ljust(self.namespace_size) + name.name.ljust(self.table_size)
            # padding only adds characters, so the total length matches only if neither part is too long
            if len(key) == _ID_WIDTH + self.namespace_size + self.table_size and key.isascii():
                return key
        namespace = self._pad(name.namespace, self.namespace_size, "namespace")
        if isinstance(name, TableName):
            return _TABLE + namespace + self._pad(name.name, self.table_size, "table")
        if isinstance(name, ViewName):
            return _PREFIXES[Kind.VIEW] + namespace + self._pad(name.name, self.view_size, "view")
        return _PREFIXES[Kind.NAMESPACE] + namespace

    def prefix(self, kind: Kind, namespace: str | None = None) -> str:
        """Return the common prefix of all keys of a kind, or of a kind in one namespace."""
        prefix = _PREFIXES[kind]
        return prefix if namespace is None else prefix + self._pad(namespace, self.namespace_size, "namespace")

    def decode(self, key: str, path: str) -> ObjectName:
        """Return the name for a key in the file `path`. Raise Damaged if it is not a key of this catalog."""
        kind = kind_of_key(key, path)
        namespace, rest = self._cut(key[_ID_WIDTH:], self.namespace_size)
        size = {Kind.NAMESPACE: 0, Kind.TABLE: self.table_size, Kind.VIEW: self.view_size}[kind]
        if kind is Kind.TABLE and len(rest) == size and key.isascii() and key.isprintable():
            # fast path for long lists: printable ASCII without a space is always legal
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
        """Like `decode`, for a long list of consecutive keys."""
        decoded: list[ObjectName] = []
        for first, rest, names in self._runs(keys, path):
            decoded.append(first)
            decoded += TableName.all_known_legal(first.namespace, names)
            decoded += [] if names else [self.decode(key, path) for key in rest]
        return decoded

    def spans(self, keys: Sequence[str], path: str) -> list[tuple[Kind, str, int]]:
        """Return kind, namespace and count for each run of keys of one namespace. Raise Damaged like `decode`.

        Faster than `decode_many`, because no names are created.
        """
        spans = []
        for first, rest, names in self._runs(keys, path):
            for key in () if names else rest:
                self.decode(key, path)
            spans.append((first.kind, first.namespace, 1 + len(rest)))
        return spans

    def names_by_namespace(self, keys: Sequence[str], path: str) -> Iterator[tuple[str, list[str]]]:
        """Like `decode_many`, but yield each namespace with the names in it as text."""
        for first, rest, names in self._runs(keys, path):
            yield first.namespace, [first.name, *(names or [self.decode(key, path).name for key in rest])]

    def _runs(self, keys: Sequence[str], path: str) -> Iterator[tuple[ObjectName, Sequence[str], list[str]]]:
        """Group consecutive keys by namespace. Yield the name of the first key, the other keys, and their names.

        The names are empty if one of them is not plain, and the caller must decode each key.
        """
        at = 0
        while at < len(keys):
            first = self.decode(keys[at], path)
            at += 1
            rest, names = keys[at:at], list[str]()
            if isinstance(first, TableName) and not self.java:
                # keys of one namespace are consecutive, except in the upper nodes of large trees
                prefix = self.prefix(Kind.TABLE, first.namespace)
                if at < len(keys) and keys[at].startswith(prefix):
                    rest = keys[at : bisect_left(keys, after_prefix(prefix), at)]
                    names = self._plain_names(rest, prefix, self.table_size)
                    at += len(rest)
            yield first, rest, names

    def names(self, keys: Sequence[str], prefix: str, path: str) -> list[str]:
        """Return the names in the keys of the file `path`, after the prefix of a namespace. Raise Damaged like
        `decode`.
        """
        size = self.table_size if prefix.startswith(_PREFIXES[Kind.TABLE]) else self.view_size
        return self._plain_names(keys, prefix, size) or [self.decode(key, path).name for key in keys]

    def _plain_names(self, keys: Sequence[str], prefix: str, size: int) -> list[str]:
        """Return the names after the prefix if all are printable ASCII without a space, and thus legal. Else return
        `[]`.
        """
        cut = len(prefix)
        # `rstrip` without an argument is several times faster; the check below finds names that it shortened too much
        names = [key[cut:].rstrip() for key in keys]
        text = "".join(names)
        if text.isascii() and text.isprintable() and " " not in text and all(names):
            padded = [prefix + name.ljust(size) for name in names]
            # padding only adds characters, so the total length matches only if no name is too long
            if padded == list(keys) and len("".join(keys)) == len(keys) * (cut + size):
                return names
        return []

    def key(self, name: ObjectName) -> str:
        """Like `encode`, but return an empty string for a name that the catalog cannot hold."""
        try:
            return self.encode(name)
        except InvalidName:
            return ""

    def name(self, key: str) -> ObjectName | None:
        """Return the name for a key, or None if it is not a key of this catalog."""
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
        """Return the first name in the text without its padding, and the text after it."""
        if self.java or text.isascii():
            name = text[:size].rstrip(" ")
            return from_utf16_units(name) if self.java else name, text[size:]
        data = text.encode("utf-8", "surrogatepass")
        return data[:size].decode("utf-8", "replace").rstrip(" "), data[size:].decode("utf-8", "replace")


def kind_of_key(key: str, path: str) -> Kind:
    """Return the kind of object of a key in the file `path`, from its type id."""
    kind = _KINDS.get(key[:_ID_WIDTH])
    if kind is None:
        raise Damaged("F215", path, f"the key {key[:60]!a} is of no known type")
    return kind


def utf16_units(text: str) -> str:
    """Replace each character beyond U+FFFF by its two UTF-16 units. Lengths and order are then those of the Java
    SDK.
    """
    if not text or max(text) <= "\uffff":
        return text
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(map(chr, units))


def from_utf16_units(text: str) -> str:
    """Reverse `utf16_units`."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def after_prefix(prefix: str) -> str:
    """Return the smallest string that sorts after all strings with the prefix."""
    # the last code point has no successor, so drop it and increment the character before it
    prefix = prefix.rstrip("\U0010ffff")
    last = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(0xE000 if last == 0xD800 else last)
