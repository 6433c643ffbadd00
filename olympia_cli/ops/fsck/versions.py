"""The versions of a catalog: hints, names, gaps, the oldest version, and stray roots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from olympia_cli.catalog.retained import lost_reason, lost_versions
from olympia_cli.catalog.snapshot import marked_oldest
from olympia_cli.catalog.versions import catalog_not_found, parse_hint, stands_in_place, what_remains
from olympia_cli.errors import FileTooLarge, PathMissing, StorageFailed, StoreError
from olympia_cli.format.paths import EXPORT_NOTE, JAVA_WIDTH, LATEST, OLDEST, WIDTH, parse_root_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.strict_json import read_json
from olympia_cli.ops.fsck.findings import REPAIR, SALVAGE, Finding, Severity, finding
from olympia_cli.ops.fsck.roots import (
    Chain,
    ChainReader,
    ChainRoot,
    predecessor_text,
)
from olympia_cli.ops.walk import Files, batches
from olympia_cli.storage.protocol import Store

# Checks of hints, and of missing versions.
#
# fsck lists `vn/` instead of probing it: readers stop at a gap, which hides all later versions.

MANY = 100
"""In a longer gap only both ends are checked again."""

HINT_SHOWN = 40


def no_version(store: Store) -> Finding:
    """Return the finding for a catalog that lost all its roots. Raise CatalogNotFound if no files of a catalog
    remain.
    """
    if remains := what_remains(store):
        return finding("F103", "vn/", f"there is no root, but {remains}", hint=SALVAGE)
    raise catalog_not_found(store)


Hint = bytes | StoreError | None
"""The bytes of a hint, the error of reading the object in its place, or None if it is missing."""


def read_hint(files: Files, path: str) -> Hint:
    """Read a hint. Raise only a failure of the store itself."""
    return _read_hints(files, path)[0]


def _read_hints(files: Files, *paths: str) -> list[Hint]:
    # not through `files`, which takes a file without permission for a store without permission
    return [_hint(files, path, data) for path, data in files.store.read_many(paths)]


def _hint(files: Files, path: str, data: bytes | StoreError) -> Hint:
    if isinstance(data, bytes):
        files.bytes += len(data)
        return data
    if isinstance(data, FileTooLarge):
        # every reader ignores such a file, and only its beginning is shown, which must not end like a number
        return files.store.read_range(path, 0, HINT_SHOWN) + b"..."
    if stands_in_place(data):
        return data
    if isinstance(data, PathMissing):
        return None
    raise data


def replaceable(error: StoreError) -> bool:
    """Return whether a repair can overwrite the object in place of a hint."""
    return not (isinstance(error, StorageFailed) and error.is_folder)


def _in_place(path: str, error: StoreError) -> Finding:
    can_go = replaceable(error)
    what_next = "" if can_go else ", and no repair removes it: move it away"
    reason = f"{error.message}; readers do without the hint{what_next}"
    return finding("F118", path, reason, hint=REPAIR if can_go else "")


def check_latest(files: Files, hint: Hint, chain: Chain) -> Iterator[Finding]:
    """Yield findings about `vn/latest`.

    It only tells readers where to begin, so its flaws are warnings. The exception is a hint to a missing version: the
    hint is written after the root, so that root was lost.
    """
    latest = chain.latest
    if isinstance(hint, Exception):
        yield _in_place(LATEST, hint)
        return
    if hint is None:
        yield finding("F111", LATEST, f"it is missing; the latest version is {latest}", hint=REPAIR)
        return
    said = parse_hint(hint)
    if said is None:
        yield finding("F112", LATEST, f"it holds {hint[:HINT_SHOWN]!a}, not a version number", hint=REPAIR)
    elif said < latest:
        # other processes may have committed since the hint was read
        again = read_hint(files, LATEST)
        if again == hint:
            yield finding("F113", LATEST, f"it says {said}, and the latest version is {latest}", hint=REPAIR)
    elif lost := lost_versions(said, latest, chain.reference):
        yield latest_ahead(lost)
    elif said > latest:
        reason = f"it says {said}, and the promotion to these versions did not finish: run it again"
        yield replace(finding("F114", LATEST, reason), severity=Severity.WARNING)


def latest_ahead(lost: range) -> Finding:
    """Return the finding for lost commits that only `vn/latest` shows."""
    return finding("F114", LATEST, lost_reason(lost), versions=[(lost[0], lost[-1])], hint=REPAIR)


def look_at_versions(files: Files) -> tuple[Chain, list[Finding]] | None:
    """Return the versions of a catalog, with findings about its hints and gaps. None if it has no version."""
    latest, oldest = _read_hints(files, LATEST, OLDEST)
    versions, width = list_versions(files.store)
    if not versions:
        return None
    said = parse_hint(latest) if isinstance(latest, bytes) else None
    if said is not None and said > versions[-1] and files.store.exists(root_path(said, width)):
        # a listing may lag behind earlier commits
        versions.append(said)
    chain, findings = open_chain(files, versions, width, oldest)
    return chain, [*check_latest(files, latest, chain), *findings, *check_gaps(files.store, chain)]


def open_chain(files: Files, versions: list[int], width: int, hint: Hint) -> tuple[Chain, list[Finding]]:
    """Return the versions as a chain with its reference and its oldest version, and the findings. `hint` is
    `vn/oldest`.
    """
    chain = Chain(versions, width)
    reader = ChainReader(files, chain)
    leave_out_strays(reader)
    reader.find_reference()
    return chain, [*stray_findings(chain), *_settle_oldest(chain, hint)]


def _settle_oldest(chain: Chain, hint: Hint) -> Iterator[Finding]:
    """Set the oldest version: from the catalog's definition if an expire has run, else from the hint."""
    said = parse_hint(hint) if isinstance(hint, bytes) else None
    if isinstance(hint, Exception):
        yield _in_place(OLDEST, hint)
    elif hint is not None and said is None:
        yield finding("F115", OLDEST, f"it holds {hint[:HINT_SHOWN]!a}, not a version number", hint=REPAIR)
    marked = None if chain.reference is None else marked_oldest(chain.reference)
    lowest, latest = chain.existing[0], chain.latest
    for value, path in ((marked, chain.path(chain.reference_version or 0)), (said, OLDEST)):
        if value is not None and value > latest:
            reason = f"the oldest version is given as {value}, and the latest is {latest}"
            yield finding("F102", path, reason, hint=REPAIR)
    if marked is not None and said is not None and marked < said <= latest:
        yield finding("F117", OLDEST, f"it says {said}, and the catalog says {marked}", hint=REPAIR)
    if marked is not None and marked <= latest:
        chain.oldest = marked
    elif said is not None and said <= latest:
        chain.oldest = said
        if marked is None and said - 1 in chain.existing and chain.reference_version == latest:
            # readers trust the hint, so the versions before it do not count
            reason = f"it says {said}, but no expire ran, and version {said - 1} is there"
            yield finding("F117", OLDEST, reason, hint=REPAIR)
    elif hint is not None or marked is not None:
        chain.oldest = lowest  # neither the definition nor the hint is valid
    else:
        chain.oldest = 0


def true_oldest(versions: Sequence[int], definition: CatalogDef, exact: bool, hint: int | None) -> int:
    """Return the correct oldest version for a repair of the hint. `exact` means that the definition is the latest
    version's.
    """
    marked = marked_oldest(definition)
    if marked is not None and exact:
        return marked
    existing, first = set(versions), versions[-1]
    while first - 1 in existing:
        first -= 1
    # an expire of another program, or an unknown one, may have run: its hint may lag, but must not lead
    return max(marked or 0, min(hint or 0, first))


def begins_as_export(store: Store, definition: CatalogDef | None, version: int) -> bool:
    """Return whether the catalog began as a full export of this version, by its note, and has never expired one.

    If so, it never had versions before this one.
    """
    if definition is None or marked_oldest(definition) is not None:
        return False
    try:
        note: Any = read_json(store.read(EXPORT_NOTE))
        return bool(note["mode"] == "full" and note["version"] == version)
    except (PathMissing, ValueError, KeyError, TypeError):
        return False


def check_gaps(store: Store, chain: Chain) -> Iterator[Finding]:
    """Yield findings about gaps between the versions."""
    edges = [chain.oldest - 1, *chain.kept_versions]
    added: list[int] = []
    for before, after in pairwise(edges):
        if after == before + 1:
            continue
        first, last = before + 1, after - 1
        # a listing is not ordered by time, and may lack a version that was committed while it ran
        candidates: Iterable[int] = range(first, last + 1) if last - first < MANY else (first, last)
        there = [version for version in candidates if store.exists(chain.path(version))]
        added += there
        first, last = first + (first in there), last - (last in there)
        if first <= last:
            # a repair writes `vn/oldest` of a full export
            is_mended = first == chain.oldest and begins_as_export(store, chain.reference, last + 1)
            yield from _gap(chain, first, last, REPAIR if is_mended else "")
    if added:
        chain.existing = sorted({*chain.existing, *added})


def _gap(chain: Chain, first: int, last: int, hint: str) -> Iterator[Finding]:
    which = f"version {first} is" if first == last else f"versions {first} to {last} are"
    path, reason = chain.path(first), f"{which} missing"
    if first > chain.oldest:
        reason, hint = f"{reason}; readers may stop there and not see version {chain.latest}", SALVAGE
    yield finding("F101", path, reason, versions=[(first, last)], hint=hint)


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
        chain.set_latest_aside()


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
            f"the root of version {root.version} names {predecessor_text(root.root.previous_root)} as the one before "
            f"it: it is not part of the history, which ends with version {chain.latest}"
        )
        yield finding("F104", root.path, reason, versions=[(root.version, root.version)], hint=REPAIR)


def list_versions(store: Store) -> tuple[list[int], int]:
    """Return the versions with a root, and the width of their names. Roots of the Java SDK are returned if there are no
    others.
    """
    versions: dict[int, set[int]] = {WIDTH: set(), JAVA_WIDTH: set()}
    for batch in batches(store.list("vn/"), 1024):
        parsed = [parse_root_path(file.path) for file in batch]
        for file, version in zip(batch, parsed, strict=True):
            if version is not None:
                versions[len(file.path) - len("vn/")].add(version)
    width = WIDTH if versions[WIDTH] or not versions[JAVA_WIDTH] else JAVA_WIDTH
    # our roots have 32-bit numbers; a larger number has no path
    return sorted(version for version in versions[width] if version < 2**WIDTH), width
