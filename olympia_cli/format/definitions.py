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
    name = path.rpartition("/")[2].encode()
    digest = sha256(content).digest()
    # {file=1: string, sha256=2: bytes}; both are shorter than 2**14, so a length is one or two bytes
    integrity = b"\x0a" + _varint(len(name)) + name + b"\x12" + _varint(len(digest)) + digest
    return content + _INTEGRITY_TAG + _varint(len(integrity)) + integrity


def decode(cls: type[D], data: bytes, path: str) -> D:
    """The definition in the file `path`; Damaged when it cannot be parsed or is not what its digest says."""
    try:
        definition = cast(D, cls.FromString(data))
    except DecodeError:
        raise Damaged(path, f"it is not a {cls.__name__}") from None
    if check_digest(definition, data, path) is Digest.MISMATCH:
        raise Damaged(path, "its content is not what its digest says")
    return definition


def check_digest(definition: Definition | DistributedTransactionDef, data: bytes, path: str) -> Digest:
    """Compare a parsed definition with the digest it carries.

    A digest made for a file of another name, or that is no longer the last field, is another program's rewrite: absent.
    """
    if not definition.HasField("integrity") or definition.integrity.file != path.rpartition("/")[2]:
        return Digest.ABSENT
    integrity = definition.integrity.SerializeToString(deterministic=True)
    tail = _INTEGRITY_TAG + _varint(len(integrity)) + integrity
    if not data.endswith(tail):
        return Digest.ABSENT
    same = sha256(data[: -len(tail)]).digest() == definition.integrity.sha256
    return Digest.VERIFIED if same else Digest.MISMATCH


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
