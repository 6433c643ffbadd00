"""Paths of files below the catalog's prefix."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from olympia_cli.errors import Damaged, InvalidOption
from olympia_cli.names import Kind, ObjectName, as_found, new_uuid

LATEST = "vn/latest"
OLDEST = "vn/oldest"

LAST_FSCK = "ops/last-fsck.json"
"""The result of the last fsck."""

EXPORT_NOTE = "ops/export.json"
"""At the destination of an export: the copied catalog and version, and the progress."""

UNFINISHED = "ops/exports/"
"""The folder in which a catalog notes its exports that are in progress."""

SALVAGE_NOTE = "ops/salvage.json"
"""At the destination of a salvage: the catalog that it copies."""

WIDTH = 32
"""Characters in the name of a root: the version's bits, lowest bit first."""

JAVA_WIDTH = 64
"""The width in catalogs of the Java SDK, which are read-only."""

DATA = "data"
"""The folder for tables without a location of their own. It holds nothing else."""

OWN_FOLDERS = ("vn", "node", "def", "dtxn", "ops")
"""The folders of the catalog's own files."""

MAX_VERSION: int = 2**WIDTH - 1
MAX_FILE_NAME_BYTES = 255
DEFINITION_FOLDERS = {Kind.CATALOG: "catalog", Kind.NAMESPACE: "ns", Kind.TABLE: "table", Kind.VIEW: "view"}


def root_path(version: int, width: int = WIDTH) -> str:
    """Return the path of a version's root: the reversed bits of the version, to spread neighbours over an object
    store.
    """
    if not 0 <= version <= MAX_VERSION:
        raise InvalidOption(f"version {version} is out of range", hint=f"versions are 0 to {MAX_VERSION}")
    return "vn/" + format(version, f"0{width}b")[::-1]


def parse_root_path(path: str) -> int | None:
    """Return the version of a root's path, or None for any other path."""
    name = path[len("vn/") :]
    if not path.startswith("vn/") or len(name) not in (WIDTH, JAVA_WIDTH) or name.strip("01"):
        return None
    return int(name[::-1], 2)


def is_foreign_root(path: str, version: int | None) -> bool:
    """Return whether the name is that of a root of another program's catalogs. `version` is that of the path."""
    return version is not None and len(path) != len("vn/") + WIDTH


def new_node_path() -> str:
    return f"node/{new_uuid()}.arrow"


def new_definition_path(kind: Kind, name: ObjectName | None) -> str:
    """Return a new path for a definition. The names in it are for people who read a listing. Only a search for objects
    that no node names parses them."""
    suffix = ""
    if name is not None:
        suffix = "-" + _quoted(f"{name.namespace}-{name.name}" if name.name else name.namespace)
    stem = new_uuid() + suffix
    if len(stem) > _MAX_STEM:
        # drop half of a percent escape at the cut, because some tools reject it
        stem = re.sub(r"%[0-9A-F]?$", "", stem[:_MAX_STEM])
    return f"def/{DEFINITION_FOLDERS[kind]}/{stem}.binpb"


def _quoted(text: str) -> str:
    if _NEEDS_NO_QUOTES.fullmatch(text):
        return text
    from urllib.parse import quote

    return quote(text, safe="")


def name_in(path: str, kind: Kind, namespaces: Iterable[str]) -> ObjectName | str:
    """The name that an object had when the definition at the path was written, or why the path does not tell it: it
    does not say where the namespace ends. `namespaces` are those that there are."""
    from urllib.parse import quote, unquote

    file_stem = path.rpartition("/")[2].removesuffix(".binpb")
    stem = file_stem[_STEM:]
    if len(file_stem) > _MAX_STEM - len("%XX"):
        return "its path is as long as paths get, so the name that it had may go on"
    if not stem:
        return "its path does not say what it was called"
    if kind is Kind.NAMESPACE:
        return as_found(kind, unquote(stem))
    fitting = [namespace for namespace in namespaces if stem.startswith(quote(namespace, safe="") + "-")]
    if len(fitting) != 1:
        many = "several namespaces" if fitting else "no namespace"
        return f"it was called {unquote(stem)!a}, which goes with {many}"
    name = unquote(stem[len(quote(fitting[0], safe="")) + 1 :])
    return as_found(kind, fitting[0], name) if name else "its path does not say what it was called"


_STEM = 37
"""A uuid and a dash stand before the names in a definition's path."""
_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_.~-]+")
_MAX_STEM = MAX_FILE_NAME_BYTES - len(".binpb")
_UUID_VERSION, _WITH_DIGEST = 14, "8"
"""The position of a UUID's version, and the version that an older program used for definitions with a checksum."""


def says_digest(path: str) -> bool:
    """Return True if the file name says that an older program wrote a checksum as the definition's last field."""
    name = path.rpartition("/")[2]
    # only names of this form: other programs choose their own
    return path.startswith("def/") and name[_UUID_VERSION : _UUID_VERSION + 1] == _WITH_DIGEST and bool(_ID.match(name))


def transaction_path(transaction: str) -> str:
    """Return the path of the pointer to a distributed transaction's latest save."""
    return f"dtxn/{transaction}.binpb"


def transaction_save_path(transaction: str, save: int) -> str:
    return f"dtxn/{transaction}.{save}.binpb"


ASIDE = "ops/aside/"
"""The folder to which a repair moves roots that are not part of the history."""


def aside_path(version: int, digest: str) -> str:
    """Return the path to which a repair moves a version's root. `digest` is the checksum of its bytes."""
    return f"{ASIDE}v{version}-{digest}.arrow"


JAVA_TRANSACTIONS = "def/dtxn/"
"""The folder of the Java SDK's distributed transactions. Their ids need not be UUIDs."""


def java_transaction_id(path: str) -> str | None:
    """Return the transaction id in the path of a Java SDK's transaction, or None for any other path."""
    name = path.removeprefix(JAVA_TRANSACTIONS)
    return name.removesuffix(".binpb") if name != path and name.endswith(".binpb") and "/" not in name else None


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLAIN = re.compile(r"(?!\.)[^/:\\\0]+(?:/(?!\.)[^/:\\\0]+)*")
"""Matches nearly all pointers: no empty or hidden part, no parent folder, no scheme."""


def check_pointer(pointer: str, holder: str) -> str:
    """Return a pointer from the file `holder`. Raise Damaged if it could lead out of the catalog."""
    if _PLAIN.fullmatch(pointer):
        return pointer
    if (
        _SCHEME.match(pointer)
        or "\0" in pointer
        or "" in pointer.split("/")
        # the Java SDK puts object names into paths unescaped, even with a backslash
        or ("\\" in pointer and not pointer.startswith("def/"))
        or any(part in (".", "..") for part in pointer.replace("\\", "/").split("/"))
    ):
        raise Damaged("F212", holder, f"it points outside the catalog: {pointer[:200]!a}")
    return pointer


def all_plain(pointers: Iterable[str]) -> bool:
    """Return True if `check_pointer` surely accepts all pointers. Faster than checking each of them."""
    text = f"/{'/'.join(pointers)}/"
    return not ("//" in text or "/." in text or ":" in text or "\\" in text or "\0" in text)


class FileKind(Enum):
    """The kind of a file below the prefix, by its name."""

    ROOT = "root"
    HINT = "hint"
    NODE = "node"
    DEFINITION = "definition"
    TRANSACTION = "transaction"
    OPERATION = "operation"
    DATA = "data"
    TEMPORARY = "temporary"
    UNKNOWN = "unknown"


_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID = re.compile(_UUID)
_TRANSACTION = re.compile(rf"dtxn/({_UUID})(?:\.([0-9]{{1,10}}))?\.binpb")
_KINDS = (
    (FileKind.NODE, re.compile(rf"node/{_UUID}\.arrow")),
    (
        FileKind.DEFINITION,
        re.compile(rf"def/(?:catalog/{_UUID}|(?:ns|table|view)/{_UUID}(?:-[^/]*)?)\.binpb"),
    ),
    (FileKind.TRANSACTION, _TRANSACTION),
    (FileKind.TRANSACTION, re.compile(r"def/dtxn/[^/]+\.binpb")),
    (
        FileKind.OPERATION,
        re.compile(
            rf"ops/(?:expire/[0-9]+-{_UUID}(?:\.{_UUID}\.part)?|exports/{_UUID}|last-(?:fsck|expire|export)|export|salvage)\.json"
        ),
    ),
    (FileKind.OPERATION, re.compile(rf"{ASIDE}v[0-9]+-[0-9a-f]{{16}}\.arrow")),
    (FileKind.DATA, re.compile(rf"{DATA}/.+", re.DOTALL)),
    (FileKind.TEMPORARY, re.compile(rf"(?:(?!\.\.?/)[^/]+/)*\.tmp-{_UUID}")),
)


def file_kind(path: str) -> FileKind:
    """Return the kind of a file. Names outside the format are UNKNOWN, and no command changes them."""
    if path in (LATEST, OLDEST):
        return FileKind.HINT
    if parse_root_path(path) is not None:
        return FileKind.ROOT
    for kind, pattern in _KINDS:
        if pattern.fullmatch(path):
            return kind
    return FileKind.UNKNOWN


def parse_transaction_path(path: str) -> tuple[str, int | None] | None:
    """Return the transaction id, and the number of the save or None for the pointer. Return None for any other path."""
    found = _TRANSACTION.fullmatch(path)
    if not found:
        return None
    return found[1], None if found[2] is None else int(found[2])


_LIMITS = {FileKind.HINT: 2**20, FileKind.DEFINITION: 2**26, FileKind.TRANSACTION: 2**20, FileKind.OPERATION: 2**20}
LEAST_LIMIT = min(_LIMITS.values())
"""The smallest size limit of all kinds of file, in bytes."""
MAX_FILE_BYTES = 2**28
"""The size limit of nodes and roots. In the largest roots, most bytes are actions."""
_MAX_MANIFEST_BYTES = 2**29


def size_limit(path: str) -> int:
    """Return the size limit of a file in bytes, by its name. A larger file counts as damaged and is not read."""
    if path.startswith("ops/expire/"):
        return _MAX_MANIFEST_BYTES
    if path.startswith(ASIDE):
        return MAX_FILE_BYTES
    return _LIMITS.get(file_kind(path), MAX_FILE_BYTES)
