"""The versions of a catalog, and their roots as a chain: each names its predecessor, and all belong to one catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from olympia_cli.catalog.properties import EXPORT_PREFIX
from olympia_cli.catalog.retained import parse_record, resting_mark
from olympia_cli.errors import Damaged, ExportNotFound, PathMissing, StoreError, VersionNotFound, quoted
from olympia_cli.format.codec import decode_root
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.node import Root, Sizes
from olympia_cli.format.paths import JAVA_WIDTH, WIDTH, check_pointer, parse_root_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import AtExport, AtTime, AtVersion, Kind, Latest, Reference, settle
from olympia_cli.ops.fsck.findings import REPAIR, Finding, finding
from olympia_cli.ops.walk import Files, Flaw, Place, flaw_of, look_at_definition
from olympia_cli.storage.protocol import Store

# Stray roots: copies of roots that were put under the name of a later version, and are not part of the history.
#
# A root names its predecessor. A root that names another one was not committed under its name. It is a stray if it
# follows a gap, or if it is a copy of an existing version. Its content is older than the versions before it, so a
# commit on top of it would lose those.


def leave_out_strays(reader: ChainReader) -> None:
    """Remove stray roots from the existing versions. Without strays, only the latest root is read."""
    chain = reader.chain
    while len(chain.existing) > 1 and not chain.java:
        *others, version = chain.existing
        [root] = reader.ahead([version])
        if not _is_stray(reader, root, others):
            return
        chain.existing = others
        chain.strays.insert(0, chain.ahead.pop(version))


def _is_stray(reader: ChainReader, root: ChainRoot, others: list[int]) -> bool:
    """Return whether a root is a stray. `others` are the versions before it. An unreadable root is damage, and not a
    stray.
    """
    chain = reader.chain
    if root.root is None or root.root.previous_root == chain.path(root.version - 1):
        return False
    return others[-1] != root.version - 1 or _is_copy(reader, root, others)


def _is_copy(reader: ChainReader, root: ChainRoot, others: list[int]) -> bool:
    assert root.root is not None
    previous = root.root.previous_root
    before = -1 if previous is None else parse_root_path(previous)
    if before is None or before + 1 not in others:
        return False
    return reader.files.read(reader.chain.path(before + 1)) == root.data


def stray_findings(chain: Chain) -> Iterator[Finding]:
    for root in chain.strays:
        assert root.root is not None
        reason = (
            f"the root of version {root.version} names {said(root.root.previous_root)} as the one before it: "
            f"it is not part of the history, which ends with version {chain.latest}"
        )
        yield finding("F104", root.path, reason, versions=[(root.version, root.version)], hint=REPAIR)


ROOTS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class ChainRoot:
    """The root of a version, as far as it can be read."""

    version: int
    path: str
    data: bytes | None
    root: Root | None
    flaw: Flaw | None


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """A catalog definition, or its flaw."""

    definition: CatalogDef | None
    flaw: Flaw | None
    verified: bool = False
    size: int = 0


@dataclass(slots=True)
class Chain:
    """The existing versions, and the catalog definition of the newest readable one."""

    existing: list[int]
    width: int
    oldest: int = 0
    reference: CatalogDef | None = None
    reference_version: int | None = None
    sizes: Sizes | None = None
    ahead: dict[int, ChainRoot] = field(default_factory=dict)
    """Roots that were read early."""
    strays: list[ChainRoot] = field(default_factory=list)
    """Roots after the latest version that are not part of the history."""
    catalogs: dict[str, CatalogFile] = field(default_factory=dict)

    @property
    def java(self) -> bool:
        return self.width == JAVA_WIDTH

    @property
    def latest(self) -> int:
        return self.existing[-1]

    @property
    def kept_versions(self) -> list[int]:
        """The existing versions from the oldest one on."""
        return [version for version in self.existing if version >= self.oldest]

    def path(self, version: int) -> str:
        return root_path(version, self.width)


def list_versions(store: Store) -> tuple[list[int], int]:
    """Return the versions with a root, and the width of their names. Roots of the Java SDK are returned if there are no
    others.
    """
    versions: dict[int, set[int]] = {WIDTH: set(), JAVA_WIDTH: set()}
    for file in store.list("vn/"):
        version = parse_root_path(file.path)
        if version is not None:
            versions[len(file.path) - len("vn/")].add(version)
    width = WIDTH if versions[WIDTH] or not versions[JAVA_WIDTH] else JAVA_WIDTH
    # our roots have 32-bit numbers; a larger number has no path
    return sorted(version for version in versions[width] if version < 2**WIDTH), width


def wanted_root(chain: Chain, at: Reference | None, now: int) -> Callable[[ChainRoot], bool]:
    """Return a predicate for the roots that match a reference. The caller takes the last match. The catalog may be
    damaged.
    """
    if at is not None:
        at = settle(at, now, lambda: () if chain.reference is None else chain.reference.exported_snapshots)
    if isinstance(at, AtTime):
        millis = at.millis
        return lambda root: root.root is not None and root.root.created_at_millis <= millis
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
    return lambda root: root.version == version


def _exported(chain: Chain, name: str) -> int:
    properties = chain.reference.properties if chain.reference is not None else {}
    record = parse_record(name, "", properties.get(EXPORT_PREFIX + name))
    if isinstance(record, str):
        reason = f"{quoted(name)} is neither a version reference nor the name of an export"
        raise ExportNotFound(reason, hint="use a version, latest~1, a time, 2h, or an export's name")
    return record.version


class ChainReader:
    """Reads roots and catalog definitions, each once."""

    def __init__(self, files: Files, chain: Chain) -> None:
        self.files = files
        self.chain = chain

    def roots(self, versions: Sequence[int]) -> Iterator[ChainRoot]:
        """Yield the roots of versions, in that order."""
        for start in range(0, len(versions), ROOTS_AT_ONCE):
            batch = versions[start : start + ROOTS_AT_ONCE]
            paths = {self.chain.path(version): version for version in batch if version not in self.chain.ahead}
            roots = {paths[path]: self._decode(paths[path], path, data) for path, data in self.files.read_many(paths)}
            for version in batch:
                yield roots[version] if version in roots else self.chain.ahead.pop(version)
            if self.files.out_of_time:
                return

    def _decode(self, version: int, path: str, data: bytes | StoreError) -> ChainRoot:
        if isinstance(data, Exception):
            return ChainRoot(version, path, None, None, flaw_of(data))
        try:
            root = decode_root(data, path, self.chain.java)
        except Exception as error:
            # any exception of a decoder means damage
            return ChainRoot(version, path, data, None, flaw_of(error))
        return ChainRoot(version, path, data, root, None)

    def catalog(self, path: str) -> CatalogFile:
        """Return the catalog definition at a path. Most versions share one."""
        catalog = self.chain.catalogs.get(path)
        if catalog is None:
            catalog = self.chain.catalogs[path] = self._read_catalog(path)
        return catalog

    def _read_catalog(self, path: str) -> CatalogFile:
        try:
            check_pointer(path, path)
        except Damaged as error:
            return CatalogFile(None, Flaw("F212", error.reason))
        [(place, data)] = self.files.definitions([Place(path, 1)])
        catalog = self._look_at_catalog(path, data)
        self.files.looked_at(place, data, catalog.flaw, is_node=False)
        return replace(catalog, size=len(data)) if isinstance(data, bytes) else catalog

    def _look_at_catalog(self, path: str, data: bytes | StoreError) -> CatalogFile:
        if isinstance(data, PathMissing):
            return CatalogFile(None, Flaw("F307", "the catalog definition is missing"))
        if isinstance(data, Exception):
            return CatalogFile(None, Flaw("F307", f"the catalog definition cannot be read: {data}"))
        facts = look_at_definition(Kind.CATALOG, data, path)
        if isinstance(facts, Flaw):
            return CatalogFile(None, Flaw("F307", f"the catalog definition is damaged: {facts.reason}"))
        definition, verified = facts
        assert isinstance(definition, CatalogDef)
        return CatalogFile(definition, None, verified)

    def find_reference(self) -> None:
        """Find the reference definition: the newest readable version's, unless most of a sample of versions have
        another one.
        """
        chain = self.chain
        newest = self._newest_readable()
        if newest is None:
            return
        spread = len(chain.existing) - 1
        sample = {chain.existing[spread * part // 4] for part in range(5)} | {newest.version}
        agreeing: dict[tuple[str, Sizes], list[tuple[int, CatalogDef]]] = {}
        for root in self.ahead(sorted(sample)):
            definition = self._consistent(root)
            if definition is not None:
                agreeing.setdefault((definition.id, sizes_of(definition)), []).append((root.version, definition))
        most = max(agreeing.values(), key=lambda roots: (len(roots), roots[-1][0]))
        chain.reference_version, chain.reference = most[-1]
        chain.sizes = sizes_of(chain.reference)

    def _newest_readable(self) -> ChainRoot | None:
        versions = list(reversed(self.chain.existing[-1000:]))
        for at in (0, *range(1, len(versions), ROOTS_AT_ONCE)):
            for root in self.ahead(versions[at : at + ROOTS_AT_ONCE] if at else versions[:1]):
                if self._consistent(root) is not None:
                    return root
                if root.root is not None and self.chain.sizes is None:
                    self.chain.sizes = root.root.sizes
            if self.files.out_of_time:
                break
        return None

    def ahead(self, versions: Sequence[int]) -> list[ChainRoot]:
        """Read roots early. They are not read again."""
        roots = list(self.roots(versions))
        self.chain.ahead |= {root.version: root for root in roots}
        return roots

    def _consistent(self, root: ChainRoot) -> CatalogDef | None:
        """Return the catalog definition of a version, unless the root contradicts it."""
        if root.root is None:
            return None
        definition = self.catalog(root.root.catalog_def).definition
        if definition is None or (root.root.sizes is not None and root.root.sizes != sizes_of(definition)):
            return None
        return definition


def check_root(chain: Chain, root: ChainRoot) -> Iterator[Finding]:
    """Check a root by itself, and its pointer to its predecessor."""
    version, here = root.version, [(root.version, root.version)]
    if root.root is None:
        assert root.flaw is not None
        yield finding(root.flaw.code, root.path, f"the root of version {version}: {root.flaw.reason}", versions=here)
        return
    before, rollback = root.root.previous_root, root.root.rollback_from_root
    lenient = chain.java and (before is None or parse_root_path(before) is None)
    if before != (chain.path(version - 1) if version else None) and not lenient:
        predecessor = f"version {version - 1}" if version else "no version"
        reason = f"the root of version {version} names {said(before)} as the one before it, not {predecessor}"
        yield finding("F104", root.path, reason, versions=here)
    if rollback is not None and parse_root_path(rollback) is None:
        reason = f"the root of version {version} says that it rolled back from {rollback[:100]!a}"
        yield finding("F104", root.path, reason, versions=here)


def said(path: str | None) -> str:
    """Describe the predecessor that a root names."""
    if path is None:
        return "none"
    version = parse_root_path(path)
    return f"{path[:100]!a}" if version is None else f"version {version}"


def check_times(root: ChainRoot, before: ChainRoot | None) -> Iterator[Finding]:
    if root.root is not None and before is not None and before.root is not None:
        back = before.root.created_at_millis - root.root.created_at_millis
        if back > 0:
            reason = f"version {root.version} is {back:,} ms older than version {before.version}"
            yield finding("F116", root.path, reason, versions=[(root.version, root.version)])


def check_catalog(chain: Chain, root: ChainRoot, catalog: CatalogFile) -> Iterator[Finding]:
    """Check that a root and its catalog definition belong to this catalog."""
    if root.root is None or catalog.definition is None:
        return
    here = [(root.version, root.version)]
    if chain.reference is not None and catalog.definition.id != chain.reference.id:
        reason = f"version {root.version} has the catalog id {catalog.definition.id[:60]!a}, not {chain.reference.id!a}"
        yield finding("F105", root.path, reason, versions=here)
    if root.root.sizes is not None and root.root.sizes != sizes_of(catalog.definition):
        reason = f"its sizes are not those of the catalog definition {root.root.catalog_def}"
        yield finding("F105", root.path, reason, versions=here)
    elif chain.sizes is not None and sizes_of(catalog.definition) != chain.sizes:
        reason = f"version {root.version} has other sizes than version {chain.reference_version}"
        yield finding("F105", root.path, reason, versions=here)
