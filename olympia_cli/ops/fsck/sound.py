"""Which versions are whole: the one that is copied, or the newest that no error hits, which a repair goes back to."""

from __future__ import annotations

from collections.abc import Sequence

from olympia_cli.catalog.quarantine import purged_before
from olympia_cli.format.paths import OLDEST, WIDTH
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.actions import disproved, disproved_catalogs
from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, CatalogFile, Chain
from olympia_cli.ops.fsck.definitions import BadDefinition
from olympia_cli.ops.fsck.examined import FULL, Engine, Examined, new_examined
from olympia_cli.ops.fsck.findings import Finding, Severity
from olympia_cli.ops.fsck.hints import open_chain, read_hint
from olympia_cli.ops.fsck.local import LocalEngine
from olympia_cli.ops.fsck.verdict import Verdict
from olympia_cli.ops.fsck.versions import Radius, inside
from olympia_cli.ops.walk.files import Files
from olympia_cli.ops.walk.flaws import Flaw

_DISPROVED = "has no digest, and is not what the log says was written"

Disproof = tuple[Kind, str, Flaw]
"""A definition that can be read, and is not what was written: its kind, its path, and the words for it."""


def examine_version(files: Files, chain: Chain, version: int, engine: Engine) -> tuple[Examined, Verdict]:
    """All that a version reaches, read and judged; the chain says what the catalog is and which logs there are."""
    examined = new_examined(files, chain, FULL)
    with files:
        engine.examine(examined, [version], None, tuple)
    compare_with_log(examined)
    return examined, Verdict(examined, [version])


def errors_of(verdict: Verdict) -> list[Finding]:
    """What makes a version damaged, the most important first; nothing when it is whole."""
    findings = verdict.with_hints(verdict.findings(objects=False))
    return [finding for finding in findings if finding.severity is Severity.ERROR]


class LatestVersion:
    """The verdict on the latest version and all that it reaches; on older ones when somebody asks."""

    def __init__(self, files: Files, versions: Sequence[int]) -> None:
        """`versions` are all that have a root."""
        self.chain, _ = open_chain(files, list(versions), WIDTH, read_hint(files, OLDEST))
        chain = self.chain
        self._engine = LocalEngine()
        self._examined = new_examined(files, chain, FULL)
        self._engine.examine(self._examined, chain.kept_versions, lambda root: root.version == chain.latest, tuple)
        self.disproofs = compare_with_log(self._examined)
        self._verdict = Verdict(self._examined, [chain.latest])

    def errors(self) -> list[Finding]:
        """What is wrong with it."""
        findings = self._verdict.findings(objects=False)
        return [
            error
            for error in findings
            if error.severity is Severity.ERROR and inside(self.chain.latest, error.versions)
        ]

    def last_sound(self, oldest: int) -> int | None:
        """The newest version that no error hits, back to the oldest that counts."""
        self.chain.oldest = oldest
        self._verdict = look_back(self._engine, self._examined, self._verdict, None)
        return self._verdict.last_sound(self._verdict.findings(objects=False))


def look_for_named(examined: Examined) -> None:
    """Where definitions are named and not read, see in a listing which are missing."""
    if examined.named is not None:
        examined.named.look_for(examined.files, examined.graph)


def look_back(engine: Engine, examined: Examined, verdict: Verdict, most: int | None) -> Verdict:
    """The latest version was examined: go on to the one before, and so on, until one is sound; `most` says how far."""
    chain = examined.chain
    older = [version for version in reversed(chain.kept_versions) if version < chain.latest][:most]
    at, step = 0, 8
    while verdict.last_sound(verdict.findings(objects=False)) is None and at < len(older):
        if examined.files.out_of_time:
            break
        engine.examine_more(examined, sorted(older[at : at + step]))
        compare_with_log(examined)
        look_for_named(examined)
        at += step
        step = max(ROOTS_AT_ONCE, at)
        verdict = Verdict(examined, sorted([chain.latest, *older[:at]]))
    return verdict


def compare_with_log(examined: Examined, all_versions: bool = False) -> list[Disproof]:
    """A definition without a digest may have been cut, or be another one; the log tells. Those that it disproves."""
    definitions, chain, reader = examined.definitions, examined.chain, examined.reader
    if definitions is None or chain.java or examined.files.out_of_time:
        return []
    disproofs: list[Disproof] = []
    if any(catalog.definition is not None and not catalog.verified for catalog in chain.catalogs.values()):
        for path in list(disproved_catalogs(reader, chain.kept_versions)):
            flaw = Flaw("F307", f"the catalog definition {_DISPROVED}")
            chain.catalogs[path] = CatalogFile(None, flaw)
            if path in examined.notes.catalogs:
                examined.notes.bad_catalogs[path] = examined.notes.catalogs[path]
            disproofs.append((Kind.CATALOG, path, flaw))
    unverified = {number: named for number, named in definitions.unverified.items() if number not in definitions.bad}
    if unverified and examined.keys is not None:
        first = _first_versions(examined, set(unverified)) if all_versions else {}
        for number in disproved(reader, _logged_versions(chain), unverified, first, examined.keys):
            path, kind, _ = unverified[number]
            definitions.bad[number] = BadDefinition(path, Flaw("F304", f"it {_DISPROVED}"))
            disproofs.append((kind, path, definitions.bad[number].flaw))
    return disproofs


def _logged_versions(chain: Chain) -> list[int]:
    """Those whose logs tell: what rests in quarantine was history, and its log is whole until it is purged."""
    purged = chain.oldest if chain.reference is None else min(purged_before(chain.reference), chain.oldest)
    return [version for version in chain.existing if version >= purged]


def _first_versions(examined: Examined, numbers: set[int]) -> dict[int, int]:
    """The first version that names each of these definitions."""
    naming = examined.graph.naming(numbers)
    radius = Radius(examined.graph, examined.versions, {}, {node for nodes in naming.values() for node in nodes})
    reached = {number: radius.versions(nodes) for number, nodes in naming.items()}
    return {number: versions[0][0] for number, versions in reached.items() if versions}
