"""One run of fsck: what is read in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from olympia_cli.errors import VersionNotFound
from olympia_cli.format.paths import LATEST, OLDEST
from olympia_cli.names import Ago, AtTime, Reference
from olympia_cli.ops.fsck.chain import Chain, ChainReader, list_versions
from olympia_cli.ops.fsck.examined import FULL, HINTS, STRUCTURE, Engine, Examined, new_examined
from olympia_cli.ops.fsck.findings import Finding, finding
from olympia_cli.ops.fsck.hints import check_gaps, check_latest, no_version, read_hint, settle_oldest
from olympia_cli.ops.fsck.holders import Held, Holder, check_actions, exports, transactions
from olympia_cli.ops.fsck.meanwhile import still_so
from olympia_cli.ops.fsck.roots import RootChecks
from olympia_cli.ops.fsck.sound import compare_with_log, look_back
from olympia_cli.ops.fsck.verdict import Verdict
from olympia_cli.ops.fsck.verified import Verified
from olympia_cli.ops.fsck.wanted import wanted_root
from olympia_cli.ops.walk.files import Files

LOOK_BACK = 512
"""How many older versions are looked at for a sound one when the latest is not."""

_NOTHING = ("versions", "roots", "nodes", "definitions", "actions", "transactions", "exports", "data_files", "skipped")


@dataclass(slots=True)
class Outcome:
    checked: dict[str, int]
    findings: list[Finding]
    last_sound: int | None = None
    complete: bool = True
    version: int | None = None
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """What is asked: how deep, and of which versions."""

    files: Files
    engine: Engine
    depth: int
    at: Reference | None
    all_versions: bool
    now: int
    verified: Verified | None = None

    def run(self) -> Outcome:
        """1 hints and names; 2 roots as a chain, and the trees below those asked for; 3 what else holds files;
        4 a listing; 5 the verdict on versions
        """
        files, store = self.files, self.files.store
        latest, oldest = read_hint(files, LATEST), read_hint(files, OLDEST)
        existing, width = list_versions(store)
        if not existing:
            return Outcome({**dict.fromkeys(_NOTHING, 0), "bytes": files.bytes}, [no_version(store)])
        chain = Chain(existing, width)
        ChainReader(files, chain).find_reference()
        findings = [*check_latest(files, latest, chain.latest), *settle_oldest(chain, oldest)]
        findings += check_gaps(store, chain)
        verified = self.verified if self.depth >= FULL else None
        if verified is not None and chain.reference is not None:
            verified.open(chain.reference.id, store.uri)
        examined = new_examined(files, chain, self.depth, verified)
        examined.findings += findings
        held: list[Held] = []
        versions = self._examine(examined, held)
        for holder in (holder for one in held for holder in one.holders):
            examined.findings += _check_holder(examined, holder)
        compare_with_log(examined, self.all_versions)
        listing = None
        if self.depth >= FULL and self.all_versions and not files.out_of_time:
            listing = self.engine.list_files(examined, frozenset().union(*(one.saved for one in held)))
        verdict = Verdict(examined, versions)
        if self.depth >= STRUCTURE and not self.all_versions and versions == [chain.latest]:
            examined, verdict = look_back(self.engine, examined, verdict, LOOK_BACK)
        found = verdict.findings(objects=True)
        if listing is not None:
            found += listing.findings(verdict.hides_files)
        found = verdict.with_hints(still_so(files, chain, found, self.now, self.all_versions))
        return Outcome(
            _checked(examined, held),
            found,
            verdict.last_sound(found),
            not files.stopped,
            versions[-1] if versions else None,
            chain.java,
        )

    def _examine(self, examined: Examined, held: list[Held]) -> list[int]:
        chain, files = examined.chain, examined.files

        def holders() -> list[Holder]:
            if self.depth >= STRUCTURE and self.all_versions and not files.out_of_time:
                held.extend(self._find_holders(examined))
            return [holder for one in held for holder in one.holders]

        wanted = None if self.all_versions else wanted_root(chain, self.at, self.now)
        versions = self.engine.examine(examined, chain.kept, wanted, holders)
        if not versions and isinstance(self.at, AtTime | Ago) and not files.out_of_time:
            # a version in a gap is damage that is told already
            raise VersionNotFound("every version was created after that time", hint="choose a later time")
        if self.depth == HINTS and examined.notes.newest is not None:
            RootChecks(examined.reader, examined.notes, actions=False).check_catalogs([examined.notes.newest])
        if not examined.notes.readable and not files.out_of_time:
            examined.findings.append(finding("F103", "vn/", "no version can be read", hint="fsck --salvage DEST"))
        return versions

    def _find_holders(self, examined: Examined) -> list[Held]:
        """Transactions and exports; what is wrong with those whose roots are not whole is told."""
        chain, files = examined.chain, examined.files
        held = [Held((), (), 0) if chain.java else transactions(files, set(chain.existing), self.now)]
        if chain.reference is not None:
            held.append(exports(files, chain.reference, chain.path(chain.reference_version or 0), self.now))
        for one in held:
            examined.findings += one.findings
        return held


def _check_holder(examined: Examined, holder: Holder) -> list[Finding]:
    found = []
    catalog = examined.reader.catalog(holder.root.catalog_def)
    if catalog.flaw is not None and holder.root.catalog_def not in examined.notes.bad_catalogs:
        found.append(finding(holder.code, holder.root.catalog_def, f"{holder.who}: {catalog.flaw.reason}"))
    if examined.depth >= FULL:
        _, reason = check_actions(holder.data, holder.path)
        if reason:
            found.append(finding(holder.code, holder.path, f"{holder.who}: {reason}"))
    return found


def _checked(examined: Examined, held: Sequence[Held]) -> dict[str, int]:
    definitions, notes = examined.definitions, examined.notes
    counts = [one.count for one in held]
    return {
        "versions": len(examined.roots) if examined.depth >= STRUCTURE else notes.read,
        "roots": notes.read,
        "nodes": examined.graph.read_count,
        "definitions": (definitions.read_count if definitions is not None else 0) + len(examined.chain.catalogs),
        "actions": notes.actions,
        "transactions": counts[0] if counts else 0,
        "exports": counts[1] if len(counts) > 1 else 0,
        "data_files": examined.data_files,
        "skipped": definitions.skipped if definitions is not None else 0,
        "bytes": examined.files.bytes,
    }
