"""Definition files: bare protobuf messages, closed by a digest of themselves."""

from __future__ import annotations

from copy import deepcopy
from enum import Enum
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
    data = content + _tail(content, path)
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
        digest = check_digest(data, path)
    except (DecodeError, ValueError, RecursionError, MemoryError):
        raise Damaged(_code(cls, "F303"), path, f"it is not a {cls.__name__}") from None
    if digest is Digest.MISMATCH:
        raise Damaged(_code(cls, "F304"), path, "its content is not what its digest says")
    if digest is Digest.ABSENT and says_digest(path):
        # a file that is cut between two fields can be parsed
        raise Damaged(_code(cls, "F304"), path, "its digest is missing, and its name says that it was written with one")
    if not definition.id:
        raise Damaged(_code(cls, "F302"), path, "it has no id")
    return definition, digest is Digest.VERIFIED


def remains(cls: type[D], data: bytes, path: str) -> D | None:
    """What a definition that lost its digest still says; None when it says nothing, or what was never written."""
    try:
        definition = cast(D, cls.FromString(data))
    except (DecodeError, ValueError, RecursionError, MemoryError):
        return None
    return definition if definition.id and check_digest(data, path) is Digest.ABSENT else None


def _code(cls: type[D], code: str) -> str:
    """What is wrong with the catalog's definition, or with a transaction's, is one kind of damage each."""
    return "F307" if cls is CatalogDef else "F501" if cls is DistributedTransactionDef else code


def check_digest(data: bytes, path: str) -> Digest:
    """Compare a definition file with the digest it carries.

    A digest made for a file of another name, or that is no longer the last field, is another program's rewrite: absent.
    """
    head = _head(path)
    length = len(head) + 32
    found = data[-length:]
    if found == head + sha256(data[:-length]).digest():
        return Digest.VERIFIED
    # a flipped bit may hide the field from the parser, so what stands in its place counts too
    if len(found) == length and sum(a != b for a, b in zip(found[:-32], head, strict=True)) <= 2:
        return Digest.MISMATCH
    return Digest.ABSENT


def _tail(content: bytes, path: str) -> bytes:
    """Field 1000 for the body of the file `path`: {file=1: string, sha256=2: bytes}."""
    return _head(path) + sha256(content).digest()


def _head(path: str) -> bytes:
    """What of that field comes before the digest."""
    name = path.rpartition("/")[2].encode()
    file = b"\x0a" + _varint(len(name)) + name + b"\x12\x20"
    return _INTEGRITY_TAG + _varint(len(file) + 32) + file


def _varint(number: int) -> bytes:
    if number <= 0x7F:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
