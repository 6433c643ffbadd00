"""fsck: find damage of a catalog, the versions and objects that it affects, and the next step.

Damage never raises an error: fsck exists to report it. Each file is read once, even if versions share it. Only files
around damage are read again, to name the affected objects.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from olympia_cli.catalog.clock import Clock, SystemClock
from olympia_cli.catalog.properties import EXPORT_PREFIX
from olympia_cli.catalog.references import dated_ahead, way_out
from olympia_cli.catalog.retained import parse_record, resting_mark
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_root
from olympia_cli.errors import ExportNotFound, OlympiaError, VersionNotFound, quoted
from olympia_cli.names import Ago, AtExport, AtTime, AtVersion, Latest, OnDay, Reference, settle
from olympia_cli.ops.fsck.definitions import Verified
from olympia_cli.ops.fsck.findings import (
    FULL,
    NO_DATA,
    SALVAGE,
    STRUCTURE,
    Finding,
    FsckRequest,
    HowRead,
    Level,
    Report,
    TableData,
    finding,
)
from olympia_cli.ops.fsck.known_damage import answered, recognised, still_so
from olympia_cli.ops.fsck.roots import Chain, ChainRoot, RootChecks
from olympia_cli.ops.fsck.sound_versions import compare_with_log, look_back, look_for_named
from olympia_cli.ops.fsck.trees import Engine, LocalEngine, Trees, exhaust
from olympia_cli.ops.fsck.verdict import Examined, Verdict, importance
from olympia_cli.ops.fsck.versions import look_at_versions, no_version
from olympia_cli.ops.walk import Files, failures_pass
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from olympia_cli.ops.fsck.holders import Held

LOOK_BACK = 512
"""The number of older versions that are searched for a sound one if the latest is damaged."""

_COUNTS = ("versions", "roots", "nodes", "definitions", "actions", "transactions", "exports", "data_files", "skipped")


def fsck(store: Store, request: FsckRequest, engine: Engine | None = None) -> Report:
    """Check a catalog. `engine` reads the files; by default this process does.

    Raise CatalogNotFound if the location has no files of a catalog, and VersionNotFound if `at` means no version. Raise
    the store's error if the store itself fails.
    """
    clock = request.clock if request.clock is not None else SystemClock()
    files = Files(store, request.progress, out_of_time=_timer(clock, request.max_duration))
    engine = engine if engine is not None else LocalEngine(request.data)
    with engine, failures_pass():
        report = _check(files, engine, request, clock.now_millis())
    if request.verified is not None:
        request.verified.save()
    return report


def _timer(clock: Clock, seconds: float | None) -> Callable[[], bool] | None:
    if seconds is None:
        return None
    end = clock.elapsed_millis() + seconds * 1000
    return lambda: clock.elapsed_millis() >= end


def _check(files: Files, engine: Engine, request: FsckRequest, now: int) -> Report:
    """Check a catalog in this order:

    1. Versions: hints and names.
    2. Roots as a chain, and the trees below the requested ones. Definitions and the data of tables are read as they
       come, so that memory holds few of them.
    3. Holders: transactions and exports, as late as possible, because they come and go. Then their trees.
    4. Definitions without a digest, which the log may disprove, and those that are only looked for in a listing.
    5. A listing.
    6. The verdict about versions, and about older ones until one is sound.
    7. The findings that still hold, and those of them that are known.
    """
    depth = list(Level).index(request.level)
    opened = look_at_versions(files)
    if opened is None:
        checked = {**dict.fromkeys(_COUNTS, 0), "bytes": files.bytes}
        return Report(request.level, checked, (no_version(files.store),), None, True)
    chain, of_versions = opened
    trees = engine.trees(files, chain, depth, _open_verified(request, chain, depth, files.store))
    requested, data = _read_versions(trees, engine, request, now)
    holdings, of_holders = _read_holders(trees, now) if request.all_versions and depth >= STRUCTURE else ([], [])
    compare_with_log(trees, request.all_versions)
    look_for_named(trees)
    listing = None
    if depth >= FULL and request.all_versions and not files.out_of_time:
        listing = engine.list_files(trees, frozenset().union(*(holding.saved for holding in holdings)))
    beside = (*of_versions, *_check_readable(trees), *of_holders, *_check_dates(trees, now))
    examined = Examined(trees, beside, data)
    verdict = Verdict(examined, requested)
    if depth >= STRUCTURE and not request.all_versions and requested == [chain.latest]:
        verdict = look_back(examined, verdict, LOOK_BACK)
    findings = verdict.findings()
    if listing is not None:
        findings += listing.findings(verdict.hides_files)
    findings = still_so(files, chain, findings, now, request.all_versions)
    sound = verdict.last_sound(findings)
    findings = verdict.with_hints(findings, sound)
    findings = recognised(findings, chain.reference, chain.latest, chain.oldest)
    if findings and request.at is None and not request.all_versions and not chain.java:
        findings = sorted(answered(findings, trees.chain_reader), key=importance)
    return Report(
        request.level,
        _checked(trees, holdings, data),
        tuple(findings),
        sound,
        not files.stopped,
        requested[-1] if requested else None,
        chain.java,
        chain.latest,
        _how_definitions(trees),
        chain.oldest,
    )


def _open_verified(request: FsckRequest, chain: Chain, depth: int, store: Store) -> Verified | None:
    verified = request.verified if depth >= FULL else None
    if verified is not None and chain.reference is not None:
        verified.open(chain.reference.id, store.uri)
    return verified


def _read_versions(trees: Trees, engine: Engine, request: FsckRequest, now: int) -> tuple[list[int], TableData]:
    """Check the roots of all kept versions, and follow the requested ones. Return these, and the data of tables."""
    progress, chain = trees.files.progress, trees.chain
    kept, follows = chain.kept_versions, trees.depth >= STRUCTURE
    streams = request.all_versions and follows
    progress.phase("reading versions" if streams else "reading roots", None if streams else len(kept))
    roots = trees.check_roots(kept)
    requested = kept
    if not request.all_versions:
        wanted = _wanted(chain, request.at, now)
        newest = None
        for batch in roots:
            for root in batch:
                newest = root if _matches(root, wanted) else newest
        if newest is None and isinstance(request.at, AtTime | Ago | OnDay) and not trees.files.out_of_time:
            # a version in a gap is damage that is already reported
            raise VersionNotFound("every version was created after that time", hint="choose a later time")
        requested, roots = ([], iter(())) if newest is None else ([newest.version], iter([[newest]]))
        if follows and newest is not None:
            progress.phase("reading nodes")
    if follows:
        return requested, engine.check_data(trees, trees.follow(roots))
    exhaust(roots)
    if trees.notes.newest is not None:
        RootChecks(trees.chain_reader, trees.notes, actions=False).check_catalogs([trees.notes.newest])
    return requested, NO_DATA


def _check_readable(trees: Trees) -> Iterator[Finding]:
    if not trees.notes.readable and not trees.files.out_of_time:
        yield finding("F103", "vn/", "no version can be read", hint=SALVAGE)


def _read_holders(trees: Trees, now: int) -> tuple[list[Held], list[Finding]]:
    """Follow the trees of transactions and exports. Return these, and the findings about them."""
    from olympia_cli.ops.fsck.holders import check_holders, held_files

    if trees.files.out_of_time:
        return [], []
    holdings = held_files(trees.files, trees.chain, now)
    return holdings, check_holders(trees, holdings)


def _check_dates(trees: Trees, now: int) -> Iterator[Finding]:
    """Yield a finding if versions are dated later than now. Dates never decrease, so the newest version is enough to
    find them.
    """
    newest, chain, store = trees.notes.newest, trees.chain, trees.files.store
    if newest is None or newest.root is None or newest.root.created_at_millis <= now:
        return
    with suppress(OlympiaError):
        latest = Snapshot(store, read_root(store, newest.version, chain.width))
        if (ahead := dated_ahead(latest, now)) is not None:
            text, words = way_out(latest, ahead)
            here = [(ahead.version, newest.version)]
            yield finding("F119", chain.path(ahead.version), text, versions=here, hint=shlex.join(words))


def _how_definitions(trees: Trees) -> HowRead:
    if trees.definitions is not None:
        return "read"
    return "listed" if trees.named is not None and trees.named.looked_for else "no"


def _checked(trees: Trees, holdings: Sequence[Held], data: TableData) -> dict[str, int]:
    definitions, notes = trees.definitions, trees.notes
    counts = [holding.count for holding in holdings]
    return {
        "versions": len(trees.roots) if trees.depth >= STRUCTURE else notes.read_count,
        "roots": notes.read_count,
        "nodes": trees.graph.read_count,
        "definitions": (definitions.read_count if definitions is not None else 0) + len(trees.chain.catalogs),
        "actions": notes.actions,
        "transactions": counts[0] if counts else 0,
        "exports": counts[1] if len(counts) > 1 else 0,
        "data_files": data.files,
        "skipped": definitions.skipped if definitions is not None else 0,
        "bytes": trees.files.bytes,
    }


def _matches(root: ChainRoot, wanted: int | AtTime) -> bool:
    if isinstance(wanted, AtTime):
        return root.root is not None and root.root.created_at_millis <= wanted.millis
    return root.version == wanted


def _wanted(chain: Chain, at: Reference | None, now: int) -> int | AtTime:
    """Return the version that a reference means, or the time whose last version it means. The catalog may be
    damaged.
    """
    if at is not None:
        at = settle(at, now, lambda: () if chain.reference is None else chain.reference.exported_snapshots)
    if isinstance(at, AtTime):
        return at
    if at is None:
        version = chain.latest
    elif isinstance(at, AtVersion):
        version = at.version
    elif isinstance(at, Latest):
        version = chain.latest - at.back
    elif isinstance(at, AtExport):
        version = _exported(chain, at.name)
    else:
        version = chain.oldest if chain.oldest in chain.existing else chain.kept_versions[0]
    if not chain.oldest <= version <= chain.latest:
        reason = f"there is no version {version}, only {chain.oldest} to {chain.latest}"
        if chain.reference is not None and resting_mark(chain.reference, version) is not None:
            raise VersionNotFound(reason, hint="it is in quarantine: undo the expire", command=("expire", "undo"))
        raise VersionNotFound(reason, hint="list the versions", command=("log", "--oneline"))
    return version


def _exported(chain: Chain, name: str) -> int:
    properties = chain.reference.properties if chain.reference is not None else {}
    record = parse_record(name, "", properties.get(EXPORT_PREFIX + name))
    if isinstance(record, str):
        reason = f"{quoted(name)} is neither a version reference nor the name of an export"
        raise ExportNotFound(reason, hint="use a version, latest~1, a time, 2h, or an export's name")
    return record.version
