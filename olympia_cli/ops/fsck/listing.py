"""The files of a listing that no version reaches: orphans, leftovers, unknown files, temporary files, quarantine.

All of them are information, not damage. Many files of a kind become twenty findings and a sum.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from olympia_cli.catalog.properties import EXPIRE_QUARANTINE
from olympia_cli.errors import Damaged, OlympiaError
from olympia_cli.format.paths import (
    JAVA_WIDTH,
    FileKind,
    check_pointer,
    file_kind,
    parse_root_path,
    parse_transaction_path,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.strict_json import read_json
from olympia_cli.ops.expire import check_deletable, decode_manifest, named_files
from olympia_cli.ops.fsck.definitions import BadDefinition, Definitions
from olympia_cli.ops.fsck.findings import Finding, finding
from olympia_cli.ops.fsck.graph import Graph, read_node
from olympia_cli.ops.fsck.trees import Trees
from olympia_cli.ops.walk import Files, Flaw, path_digest

NAMED = 20
"""The number of files of a code that have findings of their own."""

_CODES = {
    "F901": "no version reaches it; expire removes it when it is old enough",
    "F902": "a root from before the oldest version",
    "F903": "not a file of the format",
    "F905": "a temporary file of an interrupted write",
}


@dataclass(slots=True)
class Tally:
    """The files of one code: the first ones sorted by name, and the sum of the others."""

    code: str
    named: list[tuple[str, int]] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    def add(self, path: str, size: int) -> None:
        insort(self.named, (path, size))
        if len(self.named) > NAMED:
            self.files += 1
            self.bytes += self.named.pop()[1]

    def take(self, other: Tally) -> None:
        """Add the files of another tally."""
        self.files += other.files
        self.bytes += other.bytes
        for path, size in other.named:
            self.add(path, size)

    def findings(self, remark: str = "", read_only: bool = False) -> Iterator[Finding]:
        reason = _CODES[self.code].partition(";")[0] if read_only else _CODES[self.code]
        for path, size in self.named:
            yield finding(self.code, path, f"{reason} ({size:,} bytes){remark}")
        if self.files:
            yield finding(self.code, "", f"{self.files:,} files more like these ({self.bytes:,} bytes){remark}")


@dataclass(slots=True)
class Quarantine:
    """The files in quarantine, by digests of their paths, and the findings about manifests."""

    paths: set[bytes] = field(default_factory=set)
    manifests: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    def __contains__(self, path: str) -> bool:
        return path_digest(path) in self.paths

    def not_read(self, manifest: str, reason: str) -> None:
        self.findings.append(finding("F906", manifest, f"a manifest of the quarantine cannot be read: {reason}"))


def read_quarantine(files: Files, catalog: CatalogDef | None) -> Quarantine:
    """Return the files that the manifests of the quarantine name. A manifest that cannot be read adds only a
    finding.
    """
    quarantine = find_quarantine(catalog)
    for path in quarantine.manifests:
        resting = resting_files(files, path)
        if isinstance(resting, str):
            quarantine.not_read(path, resting)
        else:
            quarantine.paths.update(map(path_digest, resting))
    return quarantine


def find_quarantine(catalog: CatalogDef | None) -> Quarantine:
    """Return the manifests of the quarantine, without their files."""
    quarantine = Quarantine()
    text = catalog.properties.get(EXPIRE_QUARANTINE, "") if catalog is not None else ""
    try:
        marks = read_json(text) if text else []
        quarantine.manifests = [check_pointer(str(mark["manifest"]), "") for mark in marks]
    except Exception:
        quarantine.findings.append(finding("F906", "", "the list of marks in quarantine cannot be read"))
    return quarantine


def resting_files(files: Files, manifest: str) -> list[str] | str:
    """Return the files that a manifest names, or the reason why it cannot be used."""
    data = files.read(manifest)
    if isinstance(data, Exception):
        return str(data)
    try:
        head = decode_manifest(data, manifest)
        named = named_files(head, files.read_many)
    except Damaged as error:
        return "it is not a manifest" if error.path == manifest else error.message
    except OlympiaError as error:
        return str(error)
    try:
        check_deletable(named, head.oldest, manifest)
    except Damaged as error:
        return f"{error.reason}, so a purge stops at it"
    return [file.path for file in named]


@dataclass(frozen=True, slots=True)
class Sorting:
    """The rules that classify an unreached file by its name. A plain value, so that files can be classified on any
    machine.

    `saved` are the transactions with a save. A hint to the save of any other transaction is an orphan.
    """

    saved: frozenset[str]
    oldest: int
    width: int

    def sort(self, path: str) -> tuple[str, bool] | None:
        """Return the code of a file, and True if only unreached files have it. Return None for a file that is never a
        finding.
        """
        kind = file_kind(path)
        if kind in (FileKind.HINT, FileKind.OPERATION, FileKind.DATA):
            return None
        if kind is FileKind.TRANSACTION:
            parsed = parse_transaction_path(path)
            return ("F901", True) if parsed is not None and parsed[0] not in self.saved else None
        if kind is FileKind.ROOT and len(path) - len("vn/") == self.width:
            version = parse_root_path(path)
            return ("F902", False) if version is not None and version < self.oldest else None
        if kind is FileKind.TEMPORARY:
            return "F905", False
        return "F903" if kind in (FileKind.UNKNOWN, FileKind.ROOT) else "F901", True


CAN_REST = ("F901", "F902")
"""The codes of files that may be in quarantine."""


class Listing:
    """Lists all files of a store, and classifies the unreached ones."""

    def __init__(self, sorting: Sorting, reached: Callable[[str], bool], quarantine: Quarantine) -> None:
        self._sort = sorting.sort
        self._read_only = sorting.width == JAVA_WIDTH
        self._reached = reached
        self.quarantine = quarantine
        self.tallies = {code: Tally(code) for code in _CODES}
        self.orphans: list[tuple[str, int]] = []

    def take(self, path: str, size: int) -> None:
        sorting = self._sort(path)
        if sorting is None:
            return
        code, unless_reached = sorting
        if unless_reached and self._reached(path):
            return
        if code in CAN_REST and path in self.quarantine:
            self.quarantine.files += 1
            self.quarantine.bytes += size
        elif code == "F901":
            self.orphans.append((path, size))
        else:
            self.tallies[code].add(path, size)

    def settle(self) -> None:
        """Count the orphans. Called when all files that may lead to them are read."""
        orphans, self.orphans = self.orphans, []
        for path, size in orphans:
            if not self._reached(path):
                self.tallies["F901"].add(path, size)

    def findings(self, damaged: bool) -> Iterator[Finding]:
        """Yield the findings. `damaged` means that some files that may lead to others could not be read."""
        self.settle()
        remark = "; not all that could lead to it can be read" if damaged else ""
        for code, tally in self.tallies.items():
            yield from tally.findings(remark if code == "F901" else "", self._read_only)
        yield from self.quarantine.findings
        if self.quarantine.files:
            files, size = self.quarantine.files, self.quarantine.bytes
            reason = f"{files:,} files are in quarantine until a purge ({size:,} bytes)"
            yield finding("F906", ", ".join(self.quarantine.manifests[:3]), reason, hint="expire purge")


def look_for(files: Files, graph: Graph, definitions: Definitions, numbers: set[int], java: bool) -> None:
    """Check definitions that an earlier run has verified and that the listing lacks: a missing one is damage."""
    if not numbers:
        return
    for path, names in zip(graph.paths, graph.names, strict=True):
        node = read_node(files, path, java) if not numbers.isdisjoint(names) else None
        if node is None:
            continue
        for value in node.values:
            number = definitions.number(value) if value is not None else None
            if value is None or number is None or number not in numbers:
                continue
            numbers.discard(number)
            if not files.store.exists(value):
                definitions.bad[number] = BadDefinition(value, Flaw("F301", "it is missing"))


def list_files(trees: Trees, saved: frozenset[str]) -> Listing:
    """Return the files that the trees do not reach. `saved` are the transactions with a save."""
    chain, files, definitions, graph = trees.chain, trees.files, trees.definitions, trees.graph
    assert definitions is not None
    files.progress.phase("listing files")
    listed = bytearray(len(definitions))

    def reached(path: str) -> bool:
        number = definitions.number(path)
        if number is not None and number < len(listed):
            listed[number] = 1
        return number is not None or path in graph or path in chain.catalogs

    listing = Listing(Sorting(saved, chain.oldest, chain.width), reached, read_quarantine(files, chain.reference))
    for file in files.store.list(temporary=True):
        files.progress.advance()
        listing.take(file.path, file.size)
    if definitions.skipped and not files.out_of_time:
        gone = {number for number in range(len(listed)) if definitions.unread[number] and not listed[number]}
        look_for(files, graph, definitions, gone, chain.java)
    if listing.orphans:
        trees.add_late()
    return listing
