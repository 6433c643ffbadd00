"""From a reference, as a person gives it, to the version that it means."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from olympia_cli.catalog.snapshot import EXPIRE_OLDEST, Snapshot, expired_before
from olympia_cli.catalog.versions import RootFile, first_version, read_below, read_hints, read_latest, read_root
from olympia_cli.errors import Damaged, ExportNotFound, OlympiaError, PathMissing, VersionNotFound, quoted
from olympia_cli.format.paths import LAST_FSCK, LATEST, MAX_VERSION, check_pointer, root_path
from olympia_cli.names import AtExport, AtVersion, Latest, ObjectName, Oldest, Reference, settle, span_text, time_text
from olympia_cli.storage.protocol import Store


def open_head(
    store: Store, now_millis: int, names: Sequence[ObjectName] = (), near: Snapshot | None = None
) -> Snapshot:
    """The latest version, to commit on; Damaged where the next one would close the gap to a root that is no part of
    history, which readers would take for the latest from then on. That it is not there is seen on the way, and so is
    what fsck found last. Damaged, too, where the next one would take the name of a version that is lost, and
    overwrite vn/latest, all that tells of it."""
    latest = open_snapshot(store, Latest(), now_millis, names, near, beyond=2)
    check_no_gap(latest)
    check_not_lost(latest)
    return latest


def check_not_lost(latest: Snapshot) -> None:
    """Raise Damaged where vn/latest, which is written after the root, names a version that is not there."""
    # hardly any commit finds the hint ahead
    from olympia_cli.catalog.protection import names_lost

    hint, file = latest.file.hint, latest.file
    if hint is None or hint <= file.version or not names_lost(hint, file.version, latest.definition):
        return
    # a store that caches answers may not show what was committed just now
    if not latest.store.exists(root_path(hint, file.width)):
        raise Damaged("F114", LATEST, f"it says {hint}, and the last root is that of version {file.version}")


def check_no_gap(latest: Snapshot) -> None:
    """Raise Damaged where the version after the latest would close the gap to a root that stands behind it."""
    store, version, width = latest.store, latest.version, latest.file.width
    if version + 2 > MAX_VERSION:
        return
    path = root_path(version + 2, width)
    seen = latest.file.beside.get(path)
    there = store.exists(path) if seen is None else not isinstance(seen, PathMissing)
    # others may have committed both of them meanwhile
    if there and not store.exists(root_path(version + 1, width)):
        raise behind_gap(latest, version + 1, version + 2)


def behind_gap(latest: Snapshot, missing: int, version: int) -> Damaged:
    """What is wrong where a root stands behind a version that is missing: it is no part of history, or that is lost."""
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
    """The version of a catalog that a reference means now. `names` are the objects that will be asked for first; `near`
    is another version, whose files need not be read again. `beyond` is for a commit: it asks for the root of so many
    versions after the latest, too, which is none of them, and for the note of the last fsck."""

    guessed: list[Snapshot] = []

    def wanted(file: RootFile) -> Sequence[str]:
        version = reference.version if isinstance(reference, AtVersion) else file.version
        if isinstance(reference, Latest):
            version -= reference.back
        try:
            guess = Snapshot(store, file, near)
            guessed.append(guess)
            paths = guess.next_paths(names if version == file.version else ())
        except OlympiaError:
            # a root that is damaged, or a name that no object can have: told when the version is really looked at
            return ()
        if beyond is not None and file.version + beyond <= MAX_VERSION:
            paths += root_path(file.version + beyond, file.width), LAST_FSCK
        return [*paths, root_path(version, file.width)] if 0 <= version < file.version else paths

    file = read_latest(store, wanted)
    try:
        # what was guessed is nearly always what it is, and a root is decoded once
        latest = _in_history(Snapshot(store, file, guessed[-1] if guessed else near))
    except Damaged:
        if reference == Latest():
            raise
        # older versions are whole unless they share what is damaged, and a root is never shared
        if isinstance(reference, Latest):
            reference = AtVersion(file.version - reference.back)
        latest = _newest_whole(store, file)
        if isinstance(reference, AtVersion) and latest.version < reference.version <= file.version:
            # it exists, and cannot be read: that is what the error must say
            return Snapshot(store, read_root(store, reference.version, file.width))
    return resolve(reference, latest, now_millis)


def _in_history(latest: Snapshot) -> Snapshot:
    """The latest version. Where a hint lags, probes may leap over a gap to a copy of an older root that somebody left
    behind it; what is before the gap is the end of history."""
    while not latest.in_place and not latest.store.exists(root_path(latest.version - 1)):
        below = read_below(latest.store, latest.file)
        if below is None:
            break
        latest = Snapshot(latest.store, replace(below, hints=latest.file.hints))
    return latest


def _newest_whole(store: Store, file: RootFile) -> Snapshot:
    """The newest version before one whose root cannot be read; the damage itself when there is none near."""
    for version in range(file.version - 1, max(file.version - 65, -1), -1):
        try:
            return Snapshot(store, read_root(store, version, file.width))
        except (Damaged, VersionNotFound):
            continue
    return Snapshot(store, file)


def resolve(reference: Reference, latest: Snapshot, now_millis: int) -> Snapshot:
    """The version that a reference means, seen from the latest one."""
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
    """The version of that number, if it counts."""
    if version == latest.version:
        return latest
    if version > latest.version:
        raise VersionNotFound(f"version {version} does not exist: the latest is {latest.version}", hint="")
    if version < 0:
        raise VersionNotFound(f"there is no version {-version} before version 0", hint="")
    data = latest.read_beside_definition(root_path(version, latest.file.width))
    if not isinstance(data, bytes | PathMissing):
        raise data
    # what is there and not below the stated oldest counts, wherever history really begins
    if isinstance(data, bytes) and version >= _stated_oldest(latest):
        return Snapshot(latest.store, RootFile(version, latest.file.width, data), latest)
    oldest = oldest_version(latest)
    if version < oldest:
        raise _gone(version, oldest, latest)
    return _open(version, latest)


def _gone(version: int, oldest: int, latest: Snapshot) -> VersionNotFound:
    """For a version that an expire took out of history: what brings it back, and until when."""
    # as below: what hardly any command needs, none has to load
    from olympia_cli.catalog.quarantine import QUARANTINE_MILLIS, resting_mark

    reason = f"version {version} does not exist any more: the oldest is {oldest}"
    mark = resting_mark(latest.definition, version)
    if mark is None:
        return VersionNotFound(reason, hint="see which versions there are", command=("log", "--oneline"))
    until = ""
    with suppress(OlympiaError):
        # by the store's clock, which a purge goes by
        marked = latest.store.stat(root_path(mark.version, latest.file.width)).modified_at_millis
        until = f", which may be from {time_text(marked + QUARANTINE_MILLIS)} on"
    hint = f"it rests in quarantine until a purge{until}; bring it back"
    return VersionNotFound(reason, hint=hint, command=("expire", "undo"))


def oldest_version(latest: Snapshot) -> int:
    """The oldest version that counts. What is stated may lag, so its root may be gone."""
    store, width = latest.store, latest.file.width
    oldest = _stated_oldest(latest)
    if oldest == latest.version or store.exists(root_path(oldest, width)):
        return oldest
    return first_version(store, oldest, latest.version, width)


def _stated_oldest(latest: Snapshot) -> int:
    """The catalog definition holds the truth where an expire has run; the hint follows it."""
    definition = latest.definition
    if EXPIRE_OLDEST in definition.properties:
        oldest = expired_before(definition)
    else:
        oldest = (latest.file.hints or read_hints(latest.store)).oldest or 0
    return min(oldest, latest.version)


def _at_time(millis: int, latest: Snapshot) -> Snapshot:
    """The newest version created at or before a time. Times never decrease from version to version, so bisect."""
    if latest.created_at_millis <= millis:
        return latest
    low = oldest_version(latest)
    if latest.file.java:
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
    """Where versions begin that a clock dated too late, and what to say of them."""

    version: int
    until_millis: int
    """When the latest version is dated. All that are committed before are dated so too."""
    ahead_millis: int
    text: str
    """The version, who committed it, its date."""


def dated_ahead(latest: Snapshot, now_millis: int) -> DatedAhead | None:
    """The first of the versions up to this one that are dated ahead of a time, by more than clocks may disagree."""
    # hardly any command needs these
    from olympia_cli.catalog.file_writer import HALF_AN_HOUR_MILLIS
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
    """What it means that versions are dated ahead, and the words of the command that helps: a day is waited for, and a
    catalog that is further ahead goes into a new one, whose versions are dated as they are committed there."""
    text = f"{ahead.text}, {span_text(ahead.ahead_millis)} ahead, and so is each version from then on: set that clock"
    if ahead.ahead_millis <= 86_400_000:
        return f"{text}, and wait", ("log", "--until", f"v{ahead.version}", "-n", "1")
    text += "; to be rid of the date, make a new catalog (init NEW), and bring this one in"
    return text, ("-c", "NEW", "import", "olympia", latest.store.uri, "--history")


def _near(version: int, low: int, end: int, latest: Snapshot) -> Snapshot | None:
    """A version, or when its root cannot be read the nearest in the range whose root can: first down, then up."""
    for number in (*range(version, low - 1, -1), *range(version + 1, end)):
        try:
            return _open(number, latest)
        except Damaged:
            continue
    return None


def _walk_back(millis: int, latest: Snapshot, oldest: int) -> Snapshot:
    """As the format's text does it, for a program whose clock may have run backwards."""
    for version in range(latest.version - 1, oldest - 1, -1):
        found = _open(version, latest)
        if found.created_at_millis <= millis:
            return found
    raise VersionNotFound(f"every version was created after {time_text(millis)}", hint="choose a later time")


def _exported(name: str, latest: Snapshot, now_millis: int) -> Snapshot:
    """The version that an export is of; when it is expired here, what the export pins of it."""
    if name not in latest.definition.exported_snapshots:
        raise ExportNotFound(
            f"{quoted(name)} is neither a version reference nor the name of an export",
            hint="use a version, latest~1, a time, 2h, or an export's name",
        )
    from olympia_cli.catalog.exports import find_export

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
    return Snapshot(latest.store, RootFile(version, latest.file.width, data), latest)


def _open(version: int, latest: Snapshot) -> Snapshot:
    return Snapshot(latest.store, read_root(latest.store, version, latest.file.width), latest)
