"""Definition files: bare protobuf messages that begin with their own checksum."""

from __future__ import annotations

from copy import deepcopy
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from typing import TypeVar, cast

from google.protobuf.message import DecodeError

from olympia_cli.errors import Damaged, InvalidOption
from olympia_cli.format.node import Sizes
from olympia_cli.format.paths import LEAST_LIMIT, says_digest, size_limit
from olympia_cli.format.pb.objects_pb2 import (
    CatalogDef,
    DistributedTransactionDef,
    NamespaceDef,
    TableDef,
    ViewDef,
)
from olympia_cli.names import Kind

Definition = CatalogDef | NamespaceDef | TableDef | ViewDef
D = TypeVar("D", bound=CatalogDef | NamespaceDef | TableDef | ViewDef | DistributedTransactionDef)

CLASSES: dict[Kind, type[Definition]] = {
    Kind.CATALOG: CatalogDef,
    Kind.NAMESPACE: NamespaceDef,
    Kind.TABLE: TableDef,
    Kind.VIEW: ViewDef,
}

_TAG = b"\xc2\x3e"
"""Field 1000, length-delimited. Only this program puts it first: a protobuf library that does not know the field
writes it last."""
_SEAL = 37
"""Length of the checksum, and of the size with its tag. They end the field at the start of a file."""
_OLD_SEAL = 32
"""Length of the checksum alone, which ends a file of an older program."""


class Digest(Enum):
    """The result of a checksum verification."""

    VERIFIED = "verified"
    ABSENT = "absent"
    MISMATCH = "mismatch"


def body(definition: Definition | DistributedTransactionDef) -> bytes:
    """Return the definition's bytes without its `integrity` field. Equal definitions have equal bodies."""
    if definition.HasField("integrity"):
        definition = bare(definition)
    return definition.SerializeToString(deterministic=True)


def bare(definition: D) -> D:
    """Return a copy of the definition without its `integrity` field."""
    copy = deepcopy(definition)
    copy.ClearField("integrity")
    return copy


def definition_id(kind: Kind, content: bytes) -> str:
    """Return the id in a definition's bytes, or an empty string if they cannot be parsed."""
    try:
        return CLASSES[kind].FromString(content).id
    except DecodeError:
        return ""


def sizes_of(catalog: CatalogDef) -> Sizes:
    return Sizes(
        catalog.order,
        catalog.namespace_name_max_size_bytes,
        catalog.table_name_max_size_bytes,
        catalog.view_name_max_size_bytes,
    )


def encode(content: bytes, path: str) -> bytes:
    """Return the file's content for a definition's body. Raise InvalidOption if it exceeds the size limit of
    readers.
    """
    data = _start(path, _SEAL) + _seal(content) + content
    if len(data) > LEAST_LIMIT and len(data) > (limit := size_limit(path)):
        raise InvalidOption(f"the definition has {len(data):,} bytes, and may have {limit:,}", hint="make it shorter")
    return data


def decode(cls: type[D], data: bytes, path: str) -> D:
    """Return the definition in the file `path`. Raise Damaged if it cannot be parsed or its checksum does not match."""
    return examine(cls, data, path)[0]


def examine(cls: type[D], data: bytes, path: str) -> tuple[D, bool]:
    """Like `decode`, and also return True if the file has a checksum."""
    # an empty file would parse as a message without fields
    if not data:
        raise Damaged(_code(cls, "F302"), path, "it is empty")
    try:
        definition = cast(D, cls.FromString(data))
    except (DecodeError, ValueError, RecursionError, MemoryError):
        raise Damaged(_code(cls, "F303"), path, _truncation(data, path) or f"it is not a {cls.__name__}") from None
    digest = check_digest(data, path)
    verified = digest is Digest.VERIFIED
    if not verified:
        if digest is Digest.MISMATCH:
            raise Damaged(_code(cls, "F304"), path, _truncation(data, path) or _mismatch(cls, data))
        if says_digest(path):
            # a file that is truncated between two fields can still be parsed
            reason = "its checksum is missing, although its name says that it was written with one"
            raise Damaged(_code(cls, "F304"), path, reason)
    if not definition.id:
        raise Damaged(_code(cls, "F302"), path, "it has no id")
    return definition, verified


def remains(cls: type[D], data: bytes, path: str) -> D | None:
    """Return the readable fields of a definition that is truncated or has no checksum.

    Return None if the id is missing or bytes have changed.
    """
    try:
        definition = cast(D, cls.FromString(data))
    except (DecodeError, ValueError, RecursionError, MemoryError):
        return None
    if not definition.id:
        return None
    return definition if _truncation(data, path) or check_digest(data, path) is Digest.ABSENT else None


def written_as(cls: type[D], data: bytes) -> str:
    """Return the file name for which these bytes were written. Return an empty string if their checksum is missing or
    wrong.
    """
    try:
        name: str = cls.FromString(data).integrity.file
    except (DecodeError, ValueError, RecursionError, MemoryError):
        return ""
    return name if check_digest(data, name) is Digest.VERIFIED else ""


def _code(cls: type[D], code: str) -> str:
    """Return the code of the finding. The catalog's definition and transactions have one code each for all damage."""
    return "F307" if cls is CatalogDef else "F501" if cls is DistributedTransactionDef else code


def check_digest(data: bytes, path: str) -> Digest:
    """Verify the checksum in a definition file.

    At the start of a file, the field is always this program's. In a file of an older program, the checksum is the last
    field. A field there that names another file, or is not the last, was copied by another program and counts as
    absent.
    """
    if data.startswith(_TAG):
        start = _start(path, _SEAL)
        expected = start + _seal(data[len(start) + _SEAL :])
        return Digest.VERIFIED if data.startswith(expected) else Digest.MISMATCH
    start = _start(path, _OLD_SEAL)
    length = len(start) + _OLD_SEAL
    found = data[-length:]
    if found == start + sha256(data[:-length]).digest():
        return Digest.VERIFIED
    # a flipped bit may hide the field from the parser
    if len(found) == length and _is_like(found, start, 2):
        return Digest.MISMATCH
    start = _start(path, _SEAL)
    return Digest.MISMATCH if _is_like(data, start, len(start) // 2) else Digest.ABSENT


def _truncation(data: bytes, path: str) -> str:
    """Describe how much of a truncated file is left, by the size at its start. Return an empty string if it is
    complete.
    """
    start = _start(path, _SEAL)
    seal, content = data[len(start) : len(start) + _SEAL], data[len(start) + _SEAL :]
    expected = _seal(content)
    size = int.from_bytes(seal[-4:], "little")
    # a correct checksum means that the size field itself is damaged
    whole = len(seal) < _SEAL or size <= len(content) or seal[:_OLD_SEAL] == expected[:_OLD_SEAL]
    if whole or not data.startswith(start):
        return ""
    return f"truncated: {len(data):,} of {len(data) + size - len(content):,} bytes"


def _mismatch(cls: type[D], data: bytes) -> str:
    """Return why the checksum does not match."""
    name = written_as(cls, data)
    return f"it is a copy of {name[:300]!a}" if name else "checksum mismatch"


def _start(path: str, seal: int) -> bytes:
    """Return field 1000 up to the checksum: {file=1: string, sha256=2: bytes, …}. `seal` bytes follow."""
    name = path.rpartition("/")[2].encode("utf-8", "surrogatepass")
    return _tags(len(name), seal) + name + b"\x12\x20"


@lru_cache(maxsize=1024)
def _tags(length: int, seal: int) -> bytes:
    """Return the tags and lengths before a name of `length` bytes."""
    file = b"\x0a" + _varint(length)
    return _TAG + _varint(len(file) + length + 2 + seal) + file


def _seal(content: bytes) -> bytes:
    """Return the rest of the field: the SHA-256 of the content, and size=3 (fixed32), the content's length."""
    return sha256(content).digest() + b"\x1d" + len(content).to_bytes(4, "little")


def _is_like(data: bytes, start: bytes, most: int) -> bool:
    """Return True if the data begins with these bytes, with at most `most` bytes changed."""
    changed = 0
    for a, b in zip(data, start, strict=False):
        changed += a != b
        if changed > most:
            return False
    return len(data) >= len(start)


def _varint(number: int) -> bytes:
    if number <= 0x7F:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
