"""What a listing shows beside what versions reach: orphans, leftovers, unknown files, writes in progress, quarantine.

All of it is information. A million of one kind become twenty findings and a sum.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from olympia_cli.format.paths import FileKind, check_pointer, file_kind, parse_root_path, parse_transaction_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.ops.findings import Finding, finding
from olympia_cli.ops.fsck_definitions import BadDefinition, Definitions
from olympia_cli.ops.fsck_graph import Graph, read_node
from olympia_cli.ops.fsck_read import Files, Trouble
from olympia_cli.ops.reach import path_digest

NAMED = 20
"""So many files of one code are findings of their own."""

QUARANTINE = "olympia.expire.quarantine"
_CODES = {
    "F901": "nothing leads to it; expire removes it when it is old enough",
    "F902": "a root from before the oldest version",
    "F903": "not a file of the format",
    "F905": "a write in progress that was left behind",
}


@dataclass(slots=True)
class Tally:
    """Files of one code: the first few in the order of their names, the rest as a sum."""

    code: str
    named: list[tuple[str, int]] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    def add(self, path: str, size: int) -> None:
        insort(self.named, (path, size))
        if len(self.named) > NAMED:
            self.files += 1
            self.bytes += self.named.pop()[1]

    def findings(self, remark: str = "") -> Iterator[Finding]:
        for path, size in self.named:
            yield finding(self.code, path, f"{_CODES[self.code]} ({size:,} bytes){remark}")
        if self.files:
            yield finding(self.code, "", f"{self.files:,} files more like these ({self.bytes:,} bytes){remark}")


@dataclass(slots=True)
class Quarantine:
    """The files that rest until a purge, by the digests of their paths, and what is wrong with the manifests."""

    paths: set[bytes] = field(default_factory=set)
    manifests: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    def __contains__(self, path: str) -> bool:
        return path_digest(path) in self.paths


def read_quarantine(files: Files, catalog: CatalogDef | None) -> Quarantine:
    """What the manifests of the quarantine name. One that cannot be read protects nothing and costs nothing."""
    found = Quarantine()
    text = catalog.properties.get(QUARANTINE, "") if catalog is not None else ""
    try:
        marks = json.loads(text) if text else []
        found.manifests = [check_pointer(str(mark["manifest"]), "") for mark in marks]
    except Exception:
        found.findings.append(finding("F906", "", "the list of what is in quarantine cannot be read"))
        return found
    for path, data in files.read_many(found.manifests):
        try:
            if isinstance(data, Exception):
                raise data
            found.paths.update(path_digest(str(file["path"])) for file in json.loads(data)["files"])
        except Exception as error:
            reason = str(error) if isinstance(data, Exception) else "it is not a manifest"
            found.findings.append(finding("F906", path, f"a manifest of the quarantine cannot be read: {reason}"))
    return found


class Listing:
    """Goes through all files of a store, and sorts those that nothing reaches."""

    def __init__(
        self,
        reached: Callable[[str], bool],
        saved: frozenset[str],
        quarantine: Quarantine,
        oldest: int,
        latest: int,
        width: int,
    ) -> None:
        """`saved` are the transactions that have a save: the hint to a save that is gone leads nowhere."""
        self._reached = reached
        self._saved = saved
        self._quarantine = quarantine
        self._oldest = oldest
        self._latest = latest
        self._width = width
        self._tallies = {code: Tally(code) for code in _CODES}
        self.orphans: list[tuple[str, int]] = []

    def take(self, path: str, size: int) -> None:
        kind = file_kind(path)
        if kind in (FileKind.HINT, FileKind.OPERATION):
            return
        if kind is FileKind.TRANSACTION:
            parsed = parse_transaction_path(path)
            if parsed is not None and parsed[0] not in self._saved:
                self.orphans.append((path, size))
            return
        if kind is FileKind.ROOT and len(path) - len("vn/") == self._width:
            self._take_root(path, size)
        elif kind is FileKind.TEMPORARY:
            self._tallies["F905"].add(path, size)
        elif not self._reached(path):
            if kind in (FileKind.UNKNOWN, FileKind.ROOT):
                self._tallies["F903"].add(path, size)
            elif path in self._quarantine:
                self._rests(size)
            else:
                self.orphans.append((path, size))

    def _take_root(self, path: str, size: int) -> None:
        version = parse_root_path(path)
        assert version is not None
        if version >= self._oldest:
            return
        if path in self._quarantine:
            self._rests(size)
        else:
            self._tallies["F902"].add(path, size)

    def _rests(self, size: int) -> None:
        self._quarantine.files += 1
        self._quarantine.bytes += size

    def findings(self, damaged: bool) -> Iterator[Finding]:
        """`damaged` says that not all of what leads to files could be read."""
        for path, size in self.orphans:
            if not self._reached(path):
                self._tallies["F901"].add(path, size)
        remark = "; not all that could lead to it can be read" if damaged else ""
        for code, tally in self._tallies.items():
            yield from tally.findings(remark if code == "F901" else "")
        yield from self._quarantine.findings
        if self._quarantine.files:
            files, size = self._quarantine.files, self._quarantine.bytes
            reason = f"{files:,} files rest until a purge ({size:,} bytes)"
            yield finding("F906", ", ".join(self._quarantine.manifests[:3]), reason, hint="expire purge")


def look_for(files: Files, graph: Graph, definitions: Definitions, numbers: set[int], java: bool) -> None:
    """Definitions that were found whole before and that the listing does not show: are they gone?"""
    if not numbers:
        return
    for path, names in zip(graph.paths, graph.names, strict=True):
        node = read_node(files, path, java) if not numbers.isdisjoint(names) else None
        if node is None:
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            number = definitions.number(value) if value is not None else None
            if value is None or number is None or number not in numbers:
                continue
            numbers.discard(number)
            if not files.store.exists(value):
                definitions.bad[number] = BadDefinition(value, Trouble("F301", "it is missing"), key)
