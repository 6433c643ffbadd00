"""One run of fsck: what is read in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from olympia_cli.errors import VersionNotFound
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.paths import LATEST, OLDEST
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import Ago, AtTime, Reference, TableName
from olympia_cli.ops.fsck.actions import disproved, disproved_catalogs
from olympia_cli.ops.fsck.chain import (
    ROOTS_AT_ONCE,
    CatalogFile,
    Chain,
    ChainReader,
    ReadRoot,
    list_versions,
)
from olympia_cli.ops.fsck.data import DataChecks
from olympia_cli.ops.fsck.definitions import BadDefinition, Definitions
from olympia_cli.ops.fsck.findings import Finding, finding
from olympia_cli.ops.fsck.graph import Graph
from olympia_cli.ops.fsck.hints import check_gaps, check_latest, no_version, read_hint, settle_oldest
from olympia_cli.ops.fsck.holders import Holder, check_actions, exports, transactions
from olympia_cli.ops.fsck.listing import Listing, Sorting, look_for, read_quarantine
from olympia_cli.ops.fsck.meanwhile import still_so
from olympia_cli.ops.fsck.roots import RootChecks, RootsSeen
from olympia_cli.ops.fsck.verdict import Verdict
from olympia_cli.ops.fsck.verified import Verified
from olympia_cli.ops.fsck.versions import Radius
from olympia_cli.ops.fsck.wanted import wanted_root
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.ops.walk.files import Files, Flaw
from olympia_cli.storage.protocol import Store

LOOK_BACK = 512
"""How many older versions are looked at for a sound one when the latest is not."""

HINTS, STRUCTURE, FULL, DATA = range(4)
_DISPROVED = "has no digest, and is not what the log says was written"


@dataclass(slots=True)
class Outcome:
    checked: dict[str, int]
    findings: list[Finding]
    last_sound: int | None = None
    complete: bool = True
    version: int | None = None
    read_only: bool = False


class Run:
    def __init__(
        self,
        store: Store,
        *,
        depth: int,
        at: Reference | None,
        all_versions: bool,
        now: int,
        verified: Verified | None,
        out_of_time: Callable[[], bool],
        data: DataChecks | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.store = store
        self.depth = depth
        self.at = at
        self.all = all_versions
        self.now = now
        self.verified = verified if depth >= FULL else None
        self.data = data
        self.progress = progress
        self.files = Files(store, out_of_time, progress)
        self.seen = RootsSeen()
        self.roots: dict[int, int] = {}
        """The versions that were followed, with the numbers of their roots."""
        self.holders: dict[int, list[Holder]] = {}
        """What else begins at a node."""
        self.findings: list[Finding] = []
        self.extra: list[Finding] = []
        self.counts: dict[str, int] = {}
        self.saved: frozenset[str] = frozenset()

    def run(self) -> Outcome:
        """1 hints and names; 2 roots as a chain, and the trees below those asked for; 3 what else holds files;
        4 the verdict on versions; 5 a listing
        """
        latest, oldest = read_hint(self.files, LATEST), read_hint(self.files, OLDEST)
        existing, width = list_versions(self.store)
        if not existing:
            return Outcome(self._checked(), [no_version(self.store)])
        chain = self.chain = Chain(existing, width)
        self.reader = ChainReader(self.files, chain)
        self.reader.find_reference()
        self.findings += check_latest(self.files, latest, chain.latest)
        self.findings += settle_oldest(chain, oldest)
        self.findings += check_gaps(self.store, chain)
        self._prepare()
        asked = self._read()
        if self.depth >= STRUCTURE and self.all and not self.files.out_of_time:
            self._follow_holders()
        self._compare_with_log()
        listing = self._list() if self.depth >= FULL and self.all and not self.files.out_of_time else None
        verdict = Verdict(self, asked)
        if self.depth >= STRUCTURE and not self.all:
            verdict = self._look_back(asked, verdict)
        findings = verdict.findings(objects=True)
        if listing is not None:
            findings += listing.findings(verdict.hides_files)
        findings = verdict.with_hints(still_so(self.files, chain, findings, self.now, self.all))
        return Outcome(
            self._checked(),
            findings,
            verdict.last_sound(findings),
            not self.files.stopped,
            asked[-1] if asked else None,
            chain.java,
        )

    def _prepare(self) -> None:
        chain, sizes = self.chain, self.chain.sizes
        self.keys = KeyCodec(sizes.namespace, sizes.table, sizes.view, java=chain.java) if sizes is not None else None
        if self.verified is not None and chain.reference is not None:
            self.verified.open(chain.reference.id, self.store.uri)
        self.definitions = (
            Definitions(self.files, self.keys, self.verified, self.depth >= DATA) if self.depth >= FULL else None
        )
        order = sizes.order if sizes is not None else None
        self.rules = NodeRules(self.keys, order, chain.java, names=self.depth >= FULL)
        self.graph = Graph(self.files, self.rules, self.definitions)
        self.checks = RootChecks(self.reader, self.seen, actions=self.depth >= FULL)

    # Roots and trees

    def _read(self) -> list[int]:
        """Read all roots that count, follow those asked for; the versions asked for."""
        asked: list[int] = []
        tables = self._walk(asked)
        if self.depth >= DATA and self.data is not None:
            self.extra += self.data.check(tables, self.progress)
            self.counts["data_files"] = int(getattr(self.data, "checked", {}).get("data_files", 0))
        for _ in tables:
            pass  # whoever looks at the data need not take all tables
        if self.depth >= DATA and self.data is None:
            self.extra.append(finding("F604", "", "nothing is there that could look at table data"))
        return asked

    def _walk(self, asked: list[int]) -> Iterator[tuple[TableName, TableDef]]:
        kept = self.chain.kept
        follow_all = self.all and self.depth >= STRUCTURE
        self.progress.phase(
            "reading versions" if follow_all else "reading roots", len(kept) if not follow_all else None
        )
        wanted = None if self.all else wanted_root(self.chain, self.at, self.now)
        found: ReadRoot | None = None
        batch: list[ReadRoot] = []
        for root in self.reader.roots(kept):
            self.progress.advance()
            self.checks.note(root)
            if follow_all:
                batch.append(root)
                if len(batch) >= ROOTS_AT_ONCE:
                    yield from self._follow(batch)
                    batch = []
            elif wanted is not None and wanted(root):
                found = root
        if self.all:
            asked += kept
            yield from self._follow(batch)
        else:
            found = found if found is not None else self._reference_root()
            if found is not None:
                asked.append(found.version)
                if self.depth >= STRUCTURE:
                    self.progress.phase("reading nodes")
                    yield from self._follow([found])
        if self.depth == HINTS:
            self.checks.check_catalogs([self.checks.before] if self.checks.before is not None else [])
        if not self.seen.readable and not self.files.out_of_time:
            self.findings.append(finding("F103", "vn/", "no version can be read", hint="fsck --salvage DEST"))

    def _reference_root(self) -> ReadRoot | None:
        """Nothing fits: a time before all versions is a mistake, a version in a gap is damage that is told already."""
        if isinstance(self.at, AtTime | Ago) and not self.files.out_of_time:
            raise VersionNotFound("every version was created after that time", hint="choose a later time")
        return None

    def _follow(self, batch: Sequence[ReadRoot]) -> Iterator[tuple[TableName, TableDef]]:
        """Check what these roots reach and no root before them did."""
        yield from self.graph.add(self.checks.follow(batch))
        for one in batch:
            self.roots[one.version] = self.graph.numbers[one.path]

    def _compare_with_log(self) -> None:
        """A definition without a digest may have been cut, or be another one; the log tells."""
        definitions, chain = self.definitions, self.chain
        if definitions is None or chain.java or self.files.out_of_time:
            return
        if any(one.definition is not None and not one.verified for one in chain.catalogs.values()):
            for path in list(disproved_catalogs(self.reader, chain.kept)):
                chain.catalogs[path] = CatalogFile(None, Flaw("F307", f"the catalog definition {_DISPROVED}"))
                if path in self.seen.catalogs:
                    self.seen.bad_catalogs[path] = self.seen.catalogs[path]
        if definitions.unverified and self.keys is not None:
            first = self._first_versions(set(definitions.unverified)) if self.all else {}
            for number in disproved(self.reader, chain.kept, definitions.unverified, first, self.keys):
                path = definitions.unverified[number][0]
                definitions.bad[number] = BadDefinition(path, Flaw("F304", f"it {_DISPROVED}"))

    def _first_versions(self, numbers: set[int]) -> dict[int, int]:
        """The first version that names each of these definitions."""
        naming: dict[int, list[int]] = {}
        for node, names in enumerate(self.graph.names):
            for number in numbers.intersection(names):
                naming.setdefault(number, []).append(node)
        roots = {root: version for version, root in self.roots.items()}
        radius = Radius(self.graph, roots, {}, {node for nodes in naming.values() for node in nodes})
        found = {number: radius.versions(nodes) for number, nodes in naming.items()}
        return {number: versions[0][0] for number, versions in found.items() if versions}

    # Transactions and exports

    def _follow_holders(self) -> None:
        for holder in self._find_holders():
            self._check_holder(holder)
            for _ in self.graph.add([(holder.path, holder.root.node)]):
                pass
            self.holders.setdefault(self.graph.numbers[holder.path], []).append(holder)

    def _find_holders(self) -> list[Holder]:
        """Those whose roots are whole; what is wrong with others is told."""
        chain = self.chain
        held = [] if chain.java else [transactions(self.files, set(chain.existing), self.now)]
        self.counts["transactions"] = held[0].count if held else 0
        self.saved = held[0].saved if held else frozenset()
        if chain.reference is not None:
            where = chain.path(chain.reference_version or 0)
            found = exports(self.files, chain.reference, where, self.now)
            self.counts["exports"] = found.count
            held.append(found)
        for one in held:
            self.findings += one.findings
        return [holder for one in held for holder in one.holders]

    def _check_holder(self, holder: Holder) -> None:
        catalog = self.reader.catalog(holder.root.catalog_def)
        if catalog.flaw is not None and holder.root.catalog_def not in self.seen.bad_catalogs:
            reason = f"{holder.who}: {catalog.flaw.reason}"
            self.findings.append(finding(holder.code, holder.root.catalog_def, reason))
        if self.depth >= FULL:
            _, reason = check_actions(holder.data, holder.path)
            if reason:
                self.findings.append(finding(holder.code, holder.path, f"{holder.who}: {reason}"))

    # The verdict

    def _look_back(self, asked: Sequence[int], verdict: Verdict) -> Verdict:
        """The latest version is hit: look at older ones until one is sound."""
        if list(asked) != [self.chain.latest]:
            return verdict
        older = [version for version in reversed(self.chain.kept) if version < self.chain.latest][:LOOK_BACK]
        at, step = 0, 8
        while verdict.last_sound(verdict.findings(objects=False)) is None and at < len(older):
            if self.files.out_of_time:
                break
            batch = sorted(older[at : at + step])
            for _ in self._follow(list(self.reader.roots(batch))):
                pass
            at, step = at + step, ROOTS_AT_ONCE
            verdict = Verdict(self, sorted([*asked, *older[:at]]))
        return verdict

    # The listing

    def _list(self) -> Listing:
        chain, definitions = self.chain, self.definitions
        assert definitions is not None
        self.progress.phase("listing files")
        quarantine = read_quarantine(self.files, chain.reference)
        listing = Listing(Sorting(self.saved, chain.oldest, chain.width), self._reached, quarantine)
        seen = bytearray(len(definitions))
        for file in self.store.list(temporary=True):
            self.progress.advance()
            listing.take(file.path, file.size)
            number = definitions.number(file.path)
            if number is not None:
                seen[number] = 1
        if definitions.skipped and not self.files.out_of_time:
            unseen = {number for number in range(len(seen)) if definitions.unread[number] and not seen[number]}
            look_for(self.files, self.graph, definitions, unseen, chain.java)
        if listing.orphans:
            self._follow_late()
        return listing

    def _follow_late(self) -> None:
        """Files that nothing led to may belong to versions that were committed meanwhile."""
        existing, _ = list_versions(self.store)
        late = [version for version in existing if version > self.chain.latest]
        if late:
            before = len(self.seen.findings)
            for _ in self._follow(list(self.reader.roots(late))):
                pass
            del self.seen.findings[before:]

    def _reached(self, path: str) -> bool:
        return (
            path in self.graph
            or path in self.chain.catalogs
            or (self.definitions is not None and path in self.definitions)
        )

    def _checked(self) -> dict[str, int]:
        has = hasattr(self, "graph")
        definitions = self.definitions if has else None
        return {
            "versions": len(self.roots) if has and self.depth >= STRUCTURE else self.seen.read,
            "roots": self.seen.read,
            "nodes": self.graph.read_count if has else 0,
            "definitions": (definitions.read_count if definitions is not None else 0)
            + (len(self.chain.catalogs) if has else 0),
            "actions": self.seen.actions,
            "transactions": self.counts.get("transactions", 0),
            "exports": self.counts.get("exports", 0),
            "data_files": self.counts.get("data_files", 0),
            "skipped": definitions.skipped if definitions is not None else 0,
            "bytes": self.files.bytes,
        }
