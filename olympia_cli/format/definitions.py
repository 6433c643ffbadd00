"""Definition files: bare protobuf messages that begin with a digest of themselves."""

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
"""Field 1000, length-delimited. Only this program begins a file with it: a protobuf library that does not know the
field writes it behind all others."""
_SEAL = 37
"""Bytes of the digest and the size with its tag, which end the field at the head of a file."""
_OLD_SEAL = 32
"""Bytes of the digest alone, which end the file of an older program."""


class Digest(Enum):
    """What the digest of a file says of it."""

    VERIFIED = "verified"
    ABSENT = "absent"
    MISMATCH = "mismatch"


def body(definition: Definition | DistributedTransactionDef) -> bytes:
    """The definition without what ties it to a file: equal for equal definitions."""
    if definition.HasField("integrity"):
        definition = bare(definition)
    return definition.SerializeToString(deterministic=True)


def bare(definition: D) -> D:
    """A copy of the definition without what ties it to a file."""
    copy = deepcopy(definition)
    copy.ClearField("integrity")
    return copy


def definition_id(kind: Kind, content: bytes) -> str:
    """The id in the bytes of a definition; empty when they are none that an object can have."""
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
    """The bytes of the file `path` for a definition's body; InvalidOption when no reader would take them."""
    data = _start(path, _SEAL) + _seal(content) + content
    if len(data) > LEAST_LIMIT and len(data) > (limit := size_limit(path)):
        raise InvalidOption(f"the definition has {len(data):,} bytes, and may have {limit:,}", hint="make it shorter")
    return data


def decode(cls: type[D], data: bytes, path: str) -> D:
    """The definition in the file `path`; Damaged when it cannot be parsed or is not what its digest says."""
    return examine(cls, data, path)[0]


def examine(cls: type[D], data: bytes, path: str) -> tuple[D, bool]:
    """As `decode`, and whether there is a digest that says so."""
    # nothing at all parses as a message without fields
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
            # a file that is cut between two fields can be parsed
            reason = "its digest is missing, and its name says that it was written with one"
            raise Damaged(_code(cls, "F304"), path, reason)
    if not definition.id:
        raise Damaged(_code(cls, "F302"), path, "it has no id")
    return definition, verified


def remains(cls: type[D], data: bytes, path: str) -> D | None:
    """The fields that are left of a definition that lost its end or its digest; None if there is no id among them, or
    if bytes have changed."""
    try:
        definition = cast(D, cls.FromString(data))
    except (DecodeError, ValueError, RecursionError, MemoryError):
        return None
    if not definition.id:
        return None
    return definition if _truncation(data, path) or check_digest(data, path) is Digest.ABSENT else None


def written_as(cls: type[D], data: bytes) -> str:
    """The name of the file that these bytes were written to; empty if they have no digest, or have changed."""
    try:
        name: str = cls.FromString(data).integrity.file
    except (DecodeError, ValueError, RecursionError, MemoryError):
        return ""
    return name if check_digest(data, name) is Digest.VERIFIED else ""


def _code(cls: type[D], code: str) -> str:
    """What is wrong with the catalog's definition, or with a transaction's, is one kind of damage each."""
    return "F307" if cls is CatalogDef else "F501" if cls is DistributedTransactionDef else code


def check_digest(data: bytes, path: str) -> Digest:
    """Compare a definition file with the digest it carries.

    In a file of an older program the digest is the last field. One that names another file there, or that is not the
    last field, is in a file that another program wrote: absent. At the head of a file it is never another program's.
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
    """How much of the file is left, if it is shorter than the size at its head; empty if it is whole."""
    start = _start(path, _SEAL)
    seal, content = data[len(start) : len(start) + _SEAL], data[len(start) + _SEAL :]
    expected = _seal(content)
    size = int.from_bytes(seal[-4:], "little")
    # where the digest is right, the size is not
    whole = len(seal) < _SEAL or size <= len(content) or seal[:_OLD_SEAL] == expected[:_OLD_SEAL]
    if whole or not data.startswith(start):
        return ""
    return f"truncated: {len(data):,} of {len(data) + size - len(content):,} bytes"


def _mismatch(cls: type[D], data: bytes) -> str:
    """Why the digest of a file is not that of its content."""
    name = written_as(cls, data)
    return f"it is a copy of {name[:300]!a}" if name else "its content is not what its digest says"


def _start(path: str, seal: int) -> bytes:
    """Field 1000 of the file up to the digest: {file=1: string, sha256=2: bytes, …}; `seal` bytes follow."""
    name = path.rpartition("/")[2].encode("utf-8", "surrogatepass")
    return _tags(len(name), seal) + name + b"\x12\x20"


@lru_cache(maxsize=1024)
def _tags(length: int, seal: int) -> bytes:
    """The tags and lengths before a name of so many bytes."""
    file = b"\x0a" + _varint(length)
    return _TAG + _varint(len(file) + length + 2 + seal) + file


def _seal(content: bytes) -> bytes:
    """The rest of the field: the digest of the bytes that follow, and size=3: fixed32, how many these are."""
    return sha256(content).digest() + b"\x1d" + len(content).to_bytes(4, "little")


def _is_like(data: bytes, start: bytes, most: int) -> bool:
    """Whether the data begins with these bytes, of which at most so many are changed."""
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
