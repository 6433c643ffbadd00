"""Resolve a version reference."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from olympia_cli.catalog.snapshot import Snapshot, stated_oldest
from olympia_cli.catalog.versions import (
    Candidate,
    RootFile,
    candidates,
    confirm,
    first_version,
    read_below,
    read_hints,
    read_listed,
    read_root,
)
from olympia_cli.errors import Damaged, ExportNotFound, OlympiaError, PathMissing, VersionNotFound, quoted
from olympia_cli.format.paths import LAST_FSCK, LATEST, MAX_VERSION, check_pointer, root_path
from olympia_cli.names import AtExport, AtVersion, Latest, ObjectName, Oldest, Reference, settle, span_text, time_text
from olympia_cli.storage.protocol import Store


def open_head(
    store: Store, now_millis: int, names: Sequence[ObjectName] = (), near: Snapshot | None = None
) -> Snapshot:
    """Return the latest version, to commit on it.

    Raise Damaged if the next version would close the gap before a root that is not part of the history: readers would
    then take that root for the latest. Raise Damaged, too, if the next version would take the name of a lost version,
    and overwrite vn/latest, which is the only trace of it. The checks, and the last result of fsck, are read in the
    same round trips.
    """
    latest = open_snapshot(store, Latest(), now_millis, names, near, beyond=2)
    check_no_gap(latest)
    check_not_lost(latest)
    return latest


def check_not_lost(latest: Snapshot) -> None:
    """Raise Damaged where vn/latest, which is written after the root, names a version that is not there."""
    # hardly any commit finds the hint ahead
    from olympia_cli.catalog.retained import lost_reason, lost_versions

    hint, file = latest.hint, latest.file
    if hint is None or hint <= file.version:
        return
    lost = lost_versions(hint, file.version, latest.definition)
    # a store that caches answers may not show what was committed just now
    if lost and not latest.store.exists(root_path(hint, file.width)):
        raise Damaged("F114", LATEST, lost_reason(lost))


def check_no_gap(latest: Snapshot) -> None:
    """Raise Damaged if the version after the latest would close the gap before a root that is not part of the
    history.
    """
    store, version, width = latest.store, latest.version, latest.file.width
    if version + 2 > MAX_VERSION:
        return
    path = root_path(version + 2, width)
    seen = latest.file.beside.get(path)
    there = store.exists(path) if seen is None else not isinstance(seen, PathMissing)
    # check again: other writers may have committed both versions meanwhile
    if there and not store.exists(root_path(version + 1, width)):
        raise behind_gap(latest, version + 1, version + 2)


def behind_gap(latest: Snapshot, missing: int, version: int) -> Damaged:
    """Return the error for a root after a missing version: the root is not part of the history, or the version is
    lost.
    """
    width = latest.file.width
    with suppress(OlympiaError):
        found = Snapshot(latest.store, read_root(latest.store, version, width), latest)
        if not found.in_place:
            return found.out_of_place()
    reason = f"version {missing} is missing, but there is a version {version}"
    return Damaged("F101", root_path(missing, width), reason)


def open_snapshot(
    store: Store,
    reference: Reference,
    now_millis: int,
    names: Sequence[ObjectName] = (),
    near: Snapshot | None = None,
    *,
    beyond: int | None = None,
) -> Snapshot:
    """Return the version that a reference means now.

    `names` are the objects that the caller reads first. `near` is another version, whose cached files are reused.
    `beyond` is set for a commit. It also reads the result of the last fsck, and the root `beyond` versions after the
    latest, which must be missing.
    """
    for candidate in candidates(store):
        guess, paths = _guess(store, candidate, near, reference, names, beyond)
        file = confirm(store, candidate, paths)
        if file is not None:
            break
    else:
        guess, file = None, read_listed(store)
    try:
        if guess is not None and guess.file.data == file.data:
            guess.take(file)
            latest = guess
        else:
            latest = Snapshot(store, file, near)
        latest = _in_history(latest)
    except Damaged:
        if reference == Latest():
            raise
        # older versions are sound unless they share the damage, and versions never share a root
        if isinstance(reference, Latest):
            reference = AtVersion(file.version - reference.back)
        latest = newest_whole(store, file)
        if isinstance(reference, AtVersion) and latest.version < reference.version <= file.version:
            # the version exists but is unreadable, so raise its own error
            return Snapshot(store, read_root(store, reference.version, file.width))
    return resolve(reference, latest, now_millis)


def _guess(
    store: Store,
    candidate: Candidate,
    near: Snapshot | None,
    reference: Reference,
    names: Sequence[ObjectName],
    beyond: int | None,
) -> tuple[Snapshot | None, Sequence[str]]:
    """Return the candidate as it was read before, and the files that the reader needs next if it is the latest version.

    Errors are raised when the version is read.
    """
    if candidate.guess is None:
        return None, ()
    try:
        latest = Snapshot(store, candidate.guess, near)
    except OlympiaError:
        return None, ()
    version, width = latest.version, latest.file.width
    at = reference.version if isinstance(reference, AtVersion) else version
    if isinstance(reference, Latest):
        at -= reference.back
    try:
        paths = latest.next_paths(names if at == version else ())
    except OlympiaError:
        # an invalid name: raised when the object is looked up
        return latest, ()
    if beyond is not None and version + beyond <= MAX_VERSION:
        paths += root_path(version + beyond, width), LAST_FSCK
    if 0 <= at < version:
        paths.append(root_path(at, width))
    return latest, paths


def _in_history(latest: Snapshot) -> Snapshot:
    """Return the latest version of the history.

    If `vn/latest` lags, the search may cross a gap to a copy of an older root after it. The history ends before the
    gap.
    """
    while not latest.in_place and not latest.store.exists(root_path(latest.version - 1)):
        below = read_below(latest.store, latest.file)
        if below is None:
            break
        latest = Snapshot(latest.store, below)
    return latest


def newest_whole(store: Store, file: RootFile) -> Snapshot:
    """Return the newest readable version before an unreadable one, or raise the damage if there is none nearby."""
    for version in range(file.version - 1, max(file.version - 65, -1), -1):
        try:
            return Snapshot(store, read_root(store, version, file.width))
        except (Damaged, VersionNotFound):
            continue
    return Snapshot(store, file)


def resolve(reference: Reference, latest: Snapshot, now_millis: int) -> Snapshot:
    """Return the version that a reference means, relative to the latest version."""
    if isinstance(reference, Latest) and reference.back == 0:
        return latest
    reference = settle(reference, now_millis, lambda: latest.definition.exported_snapshots)
    if isinstance(reference, AtExport):
        return _exported(reference.name, latest, now_millis)
    if isinstance(reference, AtVersion):
        version = reference.version
    elif isinstance(reference, Latest):
        version = latest.version - reference.back
    elif isinstance(reference, Oldest):
        version = oldest_version(latest)
    else:
        return _at_time(reference.millis, latest)
    return at_version(version, latest)


def at_version(version: int, latest: Snapshot) -> Snapshot:
    """Return the version with this number. Raise VersionNotFound if it is not part of the history."""
    if version == latest.version:
        return latest
    if version > latest.version:
        raise VersionNotFound(f"version {version} does not exist: the latest is {latest.version}", hint="")
    if version < 0:
        raise VersionNotFound(f"there is no version {-version} before version 0", hint="")
    data = latest.read_beside_definition(root_path(version, latest.file.width))
    if not isinstance(data, bytes | PathMissing):
        raise data
    # an existing version at or after the stated oldest is valid, wherever the history really begins
    if isinstance(data, bytes) and version >= _stated_oldest(latest):
        return Snapshot(latest.store, RootFile.of(version, latest.file.width, data), latest)
    oldest = oldest_version(latest)
    if version < oldest:
        raise _gone(version, oldest, latest)
    return _open(version, latest)


def _gone(version: int, oldest: int, latest: Snapshot) -> VersionNotFound:
    """Return the error for a version that an expire removed, with the command that restores it, and until when."""
    # imported here, because few commands need it
    from olympia_cli.catalog.retained import QUARANTINE_MILLIS, resting_mark

    reason = f"version {version} does not exist any more: the oldest is {oldest}"
    mark = resting_mark(latest.definition, version)
    if mark is None:
        return VersionNotFound(reason, hint="list the versions", command=("log", "--oneline"))
    until = ""
    with suppress(OlympiaError):
        # by the store's clock, as a purge measures it
        marked = latest.store.stat(root_path(mark.version, latest.file.width)).modified_at_millis
        until = f", which may be from {time_text(marked + QUARANTINE_MILLIS)} on"
    hint = f"it rests in quarantine until a purge{until}; restore it"
    return VersionNotFound(reason, hint=hint, command=("expire", "undo"))


def oldest_version(latest: Snapshot) -> int:
    """Return the oldest version of the history. The stated one may be outdated, and its root deleted."""
    store, width = latest.store, latest.file.width
    oldest = _stated_oldest(latest)
    if oldest == latest.version or store.exists(root_path(oldest, width)):
        return oldest
    return first_version(store, oldest, latest.version, width)


def _stated_oldest(latest: Snapshot) -> int:
    oldest = stated_oldest(latest.definition, lambda: (latest.file.hints or read_hints(latest.store)).oldest)
    return min(oldest, latest.version)


def _at_time(millis: int, latest: Snapshot) -> Snapshot:
    """Return the newest version created at or before a time, by bisection: times never decrease from version to
    version.
    """
    if latest.created_at_millis <= millis:
        return latest
    low = oldest_version(latest)
    if latest.java:
        return _walk_back(millis, latest, low)
    first = _near(low, low, latest.version, latest) or latest
    if first.created_at_millis > millis:
        raise VersionNotFound(
            f"the oldest version, {first.version}, was created after {time_text(millis)}", hint="choose a later time"
        )
    found, high = first, latest.version
    while high - found.version > 1:
        middle = _near((found.version + high) // 2, found.version + 1, high, latest)
        if middle is None:
            break
        if middle.created_at_millis <= millis:
            found = middle
        else:
            high = middle.version
    return found


class DatedAhead(NamedTuple):
    """The first version with a time in the future, and its description."""

    version: int
    until_millis: int
    """The time of the latest version. Commits before that time get this time, too."""
    ahead_millis: int
    text: str
    """Version, author and time."""


def dated_ahead(latest: Snapshot, now_millis: int) -> DatedAhead | None:
    """Return the first version whose time is ahead of now by more than clocks may differ, or None."""
    # imported here, because few commands need it
    from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
    from olympia_cli.format.actions import commit_info

    limit, until = now_millis + HALF_AN_HOUR_MILLIS, latest.created_at_millis
    if until <= limit:
        return None
    first = latest
    with suppress(OlympiaError):
        first = at_version(oldest_version(latest), latest)
        if first.created_at_millis <= limit:
            first = at_version(_at_time(limit, latest).version + 1, latest)
    info = None
    with suppress(OlympiaError):
        info = commit_info(first.actions())
    by = f" by {info.by}" if info is not None and info.by else ""
    text = f"v{first.version}{by} is dated {time_text(first.created_at_millis)[:16].replace('T', ' ')}Z"
    return DatedAhead(first.version, until, until - now_millis, text)


def way_out(latest: Snapshot, ahead: DatedAhead) -> tuple[str, tuple[str, ...]]:
    """Return the explanation for versions with a time in the future, and the words of the command that helps.

    Up to one day, the advice is to wait. Beyond that, it is to import the catalog into a new one, whose commits get new
    times.
    """
    text = f"{ahead.text}, {span_text(ahead.ahead_millis)} ahead, and so is each version from then on: set that clock"
    if ahead.ahead_millis <= 86_400_000:
        return f"{text}, and wait", ("log", "--until", f"v{ahead.version}", "-n", "1")
    text += "; to remove the date, create a new catalog (init NEW), and import this one"
    return text, ("-c", "NEW", "import", "olympia", latest.store.uri, "--history")


def _near(version: int, low: int, end: int, latest: Snapshot) -> Snapshot | None:
    """Return the version or, if its root is unreadable, the nearest readable one in the range: first below, then
    above.
    """
    for number in (*range(version, low - 1, -1), *range(version + 1, end)):
        try:
            return _open(number, latest)
        except Damaged:
            continue
    return None


def _walk_back(millis: int, latest: Snapshot, oldest: int) -> Snapshot:
    """Search backwards, version by version, as the format defines it. The clock of another program may have run
    backwards.
    """
    for version in range(latest.version - 1, oldest - 1, -1):
        found = _open(version, latest)
        if found.created_at_millis <= millis:
            return found
    raise VersionNotFound(f"every version was created after {time_text(millis)}", hint="choose a later time")


def _exported(name: str, latest: Snapshot, now_millis: int) -> Snapshot:
    """Return the version of an export or, if it expired here, the version below the export's pin."""
    if name not in latest.definition.exported_snapshots:
        raise ExportNotFound(
            f"{quoted(name)} is neither a version reference nor the name of an export",
            hint="use a version, latest~1, a time, 2h, or an export's name",
        )
    from olympia_cli.catalog.retained import find_export

    record = find_export(name, latest.definition)
    try:
        return at_version(record.version, latest)
    except VersionNotFound:
        if record.pin is not None and not record.expired(now_millis):
            pinned = _pinned(record.pin, record.version, latest)
            if pinned is not None:
                return pinned
        raise VersionNotFound(
            f"the export {name} is of version {record.version}, which is no longer in this catalog",
            hint=f"the export lies at {record.location}",
        ) from None


def _pinned(pin: str, version: int, latest: Snapshot) -> Snapshot | None:
    try:
        data = latest.store.read(check_pointer(pin, latest.root.catalog_def))
    except PathMissing:
        return None
    return Snapshot(latest.store, RootFile.of(version, latest.file.width, data), latest)


def _open(version: int, latest: Snapshot) -> Snapshot:
    return Snapshot(latest.store, read_root(latest.store, version, latest.file.width), latest)
