"""Definition files: bare protobuf messages, closed by a digest of themselves."""

from __future__ import annotations

from enum import Enum
from hashlib import sha256
from typing import TypeVar, cast

from google.protobuf.message import DecodeError

from olympia_cli.errors import Damaged
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

_INTEGRITY_TAG = b"\xc2\x3e"
"""Field 1000, length-delimited."""


class Digest(Enum):
    """What the digest of a file says of it."""

    VERIFIED = "verified"
    ABSENT = "absent"
    MISMATCH = "mismatch"


def body(definition: Definition | DistributedTransactionDef) -> bytes:
    """The definition without what ties it to a file: equal for equal definitions."""
    if definition.HasField("integrity"):
        bare = type(definition).FromString(definition.SerializeToString())
        bare.ClearField("integrity")
        return bare.SerializeToString(deterministic=True)
    return definition.SerializeToString(deterministic=True)


def encode(content: bytes, path: str) -> bytes:
    """The bytes of the file `path` for a definition's body."""
    return content + _tail(content, path)


def decode(cls: type[D], data: bytes, path: str) -> D:
    """The definition in the file `path`; Damaged when it cannot be parsed or is not what its digest says."""
    try:
        definition = cast(D, cls.FromString(data))
    except DecodeError:
        raise Damaged(path, f"it is not a {cls.__name__}") from None
    if not definition.id:
        # nothing at all parses as a message without fields, so this is where an empty file shows
        raise Damaged(path, "it is empty" if not data else "it has no id")
    if check_digest(definition, data, path) is Digest.MISMATCH:
        raise Damaged(path, "its content is not what its digest says")
    return definition


def check_digest(definition: Definition | DistributedTransactionDef, data: bytes, path: str) -> Digest:
    """Compare a parsed definition with the digest it carries.

    A digest made for a file of another name, or that is no longer the last field, is another program's rewrite: absent.
    """
    length = len(_tail(b"", path))
    found, expected = data[-length:], _tail(data[:-length], path)
    if found == expected:
        return Digest.VERIFIED
    # a flipped bit may hide the field from the parser, so what stands in its place counts too
    head = length - 32
    if len(found) == length and sum(a != b for a, b in zip(found[:head], expected[:head], strict=True)) <= 2:
        return Digest.MISMATCH
    return Digest.ABSENT


def _tail(content: bytes, path: str) -> bytes:
    """Field 1000 for the body of the file `path`: {file=1: string, sha256=2: bytes}."""
    name = path.rpartition("/")[2].encode()
    integrity = b"\x0a" + _varint(len(name)) + name + b"\x12\x20" + sha256(content).digest()
    return _INTEGRITY_TAG + _varint(len(integrity)) + integrity


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
