"""Which files versions reach. Every file is read once, however many versions share it.

Of a file that was seen only a digest of its path is kept, so a million files take a tenth of a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice

from olympia_cli.errors import Damaged, PathMissing, StoreError
from olympia_cli.format.definitions import CLASSES, decode
from olympia_cli.format.keys import kind_of_key
from olympia_cli.format.node import Node
from olympia_cli.format.node_file import decode_node, decode_root
from olympia_cli.format.paths import check_pointer
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.storage.protocol import Store

ROOTS_AT_ONCE = 64
NODES_AT_ONCE = 1024
DEFINITIONS_AT_ONCE = 8192


def path_digest(path: str) -> bytes:
    """What stands for a path in large sets."""
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Reach:
    """The files that roots reach, each read once and found whole; Damaged when one is not.

    `definitions` says whether definitions are read too, or only named.
    """

    def __init__(
        self, store: Store, *, java: bool = False, definitions: bool = False, progress: Progress = SILENT
    ) -> None:
        self._store = store
        self._java = java
        self._definitions = definitions
        self._progress = progress
        self._found: set[bytes] = set()
        self._waiting: dict[str, Kind] = {}

    def __contains__(self, path: str) -> bool:
        return path_digest(path) in self._found

    def has(self, digest: bytes) -> bool:
        return digest in self._found

    def __len__(self) -> int:
        return len(self._found)

    def add(self, roots: Iterable[tuple[str, bytes]]) -> None:
        """Follow roots, given as path and bytes, to all that they reach and no root before them did."""
        for _ in self.each(roots):
            pass

    def each(self, roots: Iterable[tuple[str, bytes]]) -> Iterator[list[str]]:
        """As `add`; gives the paths that were new, in portions. A path comes after the paths that lead to it."""
        roots = iter(roots)
        while batch := list(islice(roots, ROOTS_AT_ONCE)):
            yield from self._follow(batch)
        if self._waiting:
            self._read_definitions()

    def _follow(self, roots: list[tuple[str, bytes]]) -> Iterator[list[str]]:
        new: list[str] = []
        waiting: list[str] = []
        for path, data in roots:
            root = decode_root(data, path, self._java)
            if self._is_new(path):
                new.append(path)
            self._note(root.catalog_def, Kind.CATALOG, path, new)
            waiting += self._take(root.node, path, new)
            self._progress.advance()
        yield new
        while waiting:
            wanted, waiting = waiting[-NODES_AT_ONCE:], waiting[:-NODES_AT_ONCE]
            new = []
            for path, found in self._store.read_many(wanted):
                node = decode_node(_bytes("F201", path, found, "a node of the tree"), path, self._java).node
                waiting += self._take(node, path, new)
                self._progress.advance()
            yield wanted + new

    def _take(self, node: Node, holder: str, new: list[str]) -> list[str]:
        """Note what a node points to; the children that were not known before."""
        for key, value in zip(node.keys, node.values, strict=True):
            if value is not None:
                self._note(value, kind_of_key(key, holder), holder, new)
        children = []
        for child in node.children:
            if isinstance(child, str) and self._is_new(child):
                children.append(check_pointer(child, holder))
        return children

    def _note(self, path: str, kind: Kind, holder: str, new: list[str]) -> None:
        if not self._is_new(path):
            return
        new.append(check_pointer(path, holder))
        if self._definitions:
            self._waiting[path] = kind
            if len(self._waiting) >= DEFINITIONS_AT_ONCE:
                self._read_definitions()

    def _is_new(self, path: str) -> bool:
        digest = path_digest(path)
        if digest in self._found:
            return False
        self._found.add(digest)
        return True

    def _read_definitions(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for path, data in self._store.read_many(waiting):
            kind = waiting[path]
            what = "the catalog definition" if kind is Kind.CATALOG else f"the definition of a {kind.word}"
            cls = CatalogDef if kind is Kind.CATALOG else CLASSES[kind]
            decode(cls, _bytes("F307" if kind is Kind.CATALOG else "F301", path, data, what), path)
            self._progress.advance()


def _bytes(code: str, path: str, data: bytes | StoreError, what: str) -> bytes:
    if isinstance(data, PathMissing):
        raise Damaged(code, path, f"{what} is missing") from None
    if isinstance(data, Exception):
        raise data
    return data
