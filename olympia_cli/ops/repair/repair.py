"""Mending a catalog by rolling forward: a plan that is shown first, then one new version, and the hints.

Nothing is overwritten but the hints `vn/latest` and `vn/oldest`. A damaged version stays as it is, in history; the
version that is committed on top of it is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.protection import keep_protection
from olympia_cli.catalog.quarantine import write_quarantine
from olympia_cli.catalog.repair_commit import Built, Repair, check_head, commit_repair
from olympia_cli.catalog.snapshot import EXPIRE_OLDEST, EXPIRE_PURGED, check_supported, expired_before
from olympia_cli.catalog.versions import Hints, read_hints
from olympia_cli.errors import CatalogNotFound, InvalidOption, Refused, Unsupported
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.paths import JAVA_WIDTH, LATEST, parse_root_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, ObjectName
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.repair.content import Content, put_together
from olympia_cli.ops.repair.files import Files
from olympia_cli.ops.repair.hints import plan_hints
from olympia_cli.ops.repair.history import FoundCatalog, find_catalog
from olympia_cli.ops.repair.plan import NO_COST, RepairPlan, Step
from olympia_cli.ops.repair.sound import newest_sound
from olympia_cli.ops.repair.tree import read_range
from olympia_cli.storage.protocol import Store

Prefer = Literal["auto", "rollback", "rebuild"]

_SALVAGE = "write what can be read into a new catalog with: fsck --salvage DEST"


def plan_repair(store: Store, clock: Clock, *, prefer: Prefer = "auto", progress: Progress = SILENT) -> RepairPlan:
    """What to do about the latest version and the hints. It only reads.

    Refused when versions are missing between others: whoever commits into the gap would tie two histories together.
    """
    if prefer not in ("auto", "rollback", "rebuild"):
        raise InvalidOption(f"{prefer!a} is not a way to repair", hint="use auto, rollback or rebuild")
    files = Files(store, progress=progress)
    progress.phase("reading versions")
    every = list_versions(store)
    head = every[-1]
    found = find_catalog(files, every)
    if found is None:
        raise Refused("no version has a catalog definition that can be read", hint=_SALVAGE)
    found = _agreed(files, every, found)
    check_supported(found.definition, found.path or root_path(found.version))
    hints = read_hints(store)
    versions = _counting(every, found, hints)
    found = _settled(found, every, versions[0], hints)
    files.sizes = sizes = sizes_of(found.definition)
    codec = KeyCodec(sizes.namespace, sizes.table, sizes.view)
    progress.phase("reading what the latest version holds")
    content = put_together(files, versions, codec, sizes.order)
    content.damage[:0] = _flaws_of_root(files, head, found)
    hint_steps, writes = plan_hints(store, hints, versions, found, bool(content.damage))
    plan = RepairPlan(store.uri, head, tuple(hint_steps), unmended=tuple(content.unmended), hints=tuple(writes))
    return _choose(files, codec, versions, found, content, prefer, plan) if content.damage else plan


def apply_repair(
    store: Store, clock: Clock, plan: RepairPlan, author: Author, progress: Progress = SILENT
) -> int | None:
    """Do what the plan says; the new version, or None when only hints were written. In this order:

    1 the version that mends the tree, as a commit; 2 the hints

    CommitConflict when somebody committed since it was planned; then nothing was changed.
    """
    version = None
    if plan.repair is not None:
        progress.phase("writing the mended version")
        version = commit_repair(store, clock, plan.repair, author)
    else:
        check_head(store, plan.head)
    for path, value in plan.hints:
        if path == LATEST and version is not None:
            value = version
        store.overwrite(path, str(value).encode())
    return version


def list_versions(store: Store) -> list[int]:
    """Every version that has a root, ascending. A listing, since a gap hides from probes all that is behind it."""
    found, java = [], False
    for file in store.list("vn/"):
        version = parse_root_path(file.path)
        if version is not None and len(file.path) == len(root_path(0)):
            found.append(version)
        elif version is not None:
            java = java or len(file.path) == len(root_path(0, JAVA_WIDTH))
    if found:
        return sorted(found)
    if java:
        raise Unsupported(
            f"{store.uri} was written by the Java SDK and is read only",
            hint="bring it into a catalog of this format with: import olympia",
        )
    if any(True for _ in store.list("node/")) or any(True for _ in store.list("def/")):
        raise Refused(f"{store.uri} has no root of any version", hint=_SALVAGE)
    raise CatalogNotFound(f"there is no catalog at {store.uri}", hint="check the location, or create one with init")


def _counting(every: Sequence[int], found: FoundCatalog, hints: Hints) -> list[int]:
    """The versions that count; Refused when one of them is missing between others."""
    head = every[-1]
    there = set(every)
    run = head
    while run - 1 in there:
        run -= 1
    oldest = expired_before(found.definition)
    if EXPIRE_OLDEST not in found.definition.properties or not found.exact:
        # another program's expire, or one that is not known of: its hint may lag, and leads only when it is wrong
        oldest = max(oldest, min(hints.oldest or 0, run))
    counting = [version for version in every if version >= min(oldest, head)]
    missing = sorted(set(range(counting[0], head)) - set(counting))
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
        raise Refused(
            f"{'version' if len(missing) == 1 else 'versions'} {shown} of up to {head} "
            f"{'is' if len(missing) == 1 else 'are'} missing: the highest root is {root_path(head)}, and what is "
            "committed now could land in the gap",
            hint=_SALVAGE,
        )
    return counting


def _settled(found: FoundCatalog, every: Sequence[int], first: int, hints: Hints) -> FoundCatalog:
    """The definition, with nothing in quarantine where it is an older one: what rested then may be purged since.

    Nothing is freed by that: the files that are still there are found again by the next expire.
    """
    if found.exact:
        return found
    definition = CatalogDef()
    definition.CopyFrom(found.definition)
    oldest = expired_before(definition)
    if first - 1 not in every and hints.oldest is not None and hints.oldest >= first:
        # the roots are gone, and the hint says that an expire took them
        oldest = max(oldest, first)
    if oldest:
        definition.properties[EXPIRE_OLDEST] = definition.properties[EXPIRE_PURGED] = str(oldest)
    write_quarantine(definition, [])
    return replace(found, definition=definition)


def _agreed(files: Files, versions: Sequence[int], found: FoundCatalog) -> FoundCatalog:
    """The definition, unless the versions before it agree on another id or other sizes: those never change."""
    others = []
    for version in [version for version in reversed(versions) if version < found.version][:2]:
        other = files.root(version).catalog_def
        definition = files.definition(Kind.CATALOG, other) if other is not None else None
        if isinstance(definition, CatalogDef):
            others.append(definition)
    mine = (found.definition.id, sizes_of(found.definition))
    theirs = {(other.id, *map(str, (sizes_of(other),))) for other in others}
    if len(others) < 2 or len(theirs) != 1 or (others[0].id, sizes_of(others[0])) == mine:
        return found
    older = find_catalog(files, [version for version in versions if version < found.version])
    if older is None:
        return found
    return FoundCatalog(keep_protection(older.definition, found.definition), older.version, False, None)


def _flaws_of_root(files: Files, head: int, found: FoundCatalog) -> list[str]:
    """What is wrong with the root itself and the catalog's definition; the tree is another's business."""
    root = files.root(head)
    flaws = []
    previous = root_path(head - 1) if head else None
    if root.root is not None and root.previous_root != previous:
        flaws.append(f"{root.path}: it does not name the version before it")
    if root.root is not None and root.actions is None:
        flaws.append(f"{root.path}: its action rows cannot be read")
    if root.root is not None and root.sizes not in (None, sizes_of(found.definition)):
        flaws.append(f"{root.path}: its sizes are not those of the catalog")
    if found.path is None:
        origin = f"v{found.version} and the log have it" if found.exact else f"v{found.version} has it"
        path, foreign = root.catalog_def, "it is of another catalog"
        broken = "" if path is None else f"{path}: {files.bad.get(path, foreign)}; "
        flaws.append(f"{broken}the catalog definition is taken as {origin}")
    return flaws


# Which way


def _choose(
    files: Files,
    codec: KeyCodec,
    versions: Sequence[int],
    found: FoundCatalog,
    content: Content,
    prefer: Prefer,
    plan: RepairPlan,
) -> RepairPlan:
    rebuild = _rebuild_step(plan.head, content)
    chosen, others, repair = rebuild, [], _rebuild(files, codec, versions, found, content)
    if prefer == "rollback" or (prefer == "auto" and rebuild.cost > NO_COST):
        files.progress.phase("looking for the last sound version")
        target = newest_sound(files, versions[:-1], found.definition)
        if target is None and prefer == "rollback":
            raise Refused("there is no sound version to go back to", hint="repair with --prefer rebuild")
        if target is not None:
            rollback = _rollback_step(files, codec, target, content)
            if prefer == "rollback" or rollback.cost < rebuild.cost:
                chosen, others = rollback, [rebuild]
                repair = _rollback(files, versions, found, rollback, target, codec)
            else:
                others = [rollback]
    unmended = tuple(content.unmended) if chosen is rebuild else ()
    return replace(plan, steps=(chosen, *plan.steps), alternatives=tuple(others), unmended=unmended, repair=repair)


def _rebuild_step(head: int, content: Content) -> Step:
    lost = tuple(sorted(set(content.lost), key=_order))
    text = f"build v{head + 1} from what can be read of v{head}: {len(content.entries):,} objects"
    nothing = "none known to be lost" if content.lost_ranges else "none lost"
    text += f", {len(lost):,} lost" if lost else f", {nothing}"
    if content.lost_keys:
        text += f"; {len(content.lost_keys):,} keys that no object can have are dropped"
    details = (*content.damage, *content.notes)
    return Step(
        "rebuild", text, lost, tuple(sorted(set(content.stale), key=_order)), tuple(content.lost_ranges), details
    )


def _rollback_step(files: Files, codec: KeyCodec, target: int, content: Content) -> Step:
    root = files.root(target).root
    entries = read_range(files, root.node, "", None) if root is not None else None
    assert entries is not None, "it was found whole"
    now = content.entries
    loses = {codec.decode(key, "") for key in now if key not in entries}
    loses |= {name for name in content.lost if codec.encode(name) not in entries}
    # what is not known for sure is not known there either
    reverts = {codec.decode(key, "") for key, value in entries.items() if now.get(key) != value} | set(content.stale)
    unsure = tuple(replace(one, after=None, before=None, as_of=target) for one in content.lost_ranges[:1])
    text = f"go back to v{target}, the last sound version: {len(loses):,} objects are lost, "
    text += f"{len(reverts):,} are as it has them"
    details = tuple(content.damage)
    return Step("rollback", text, tuple(sorted(loses, key=_order)), tuple(sorted(reverts, key=_order)), unsure, details)


def _rebuild(files: Files, codec: KeyCodec, versions: Sequence[int], found: FoundCatalog, content: Content) -> Repair:
    names = {key: codec.decode(key, "") for key, value in content.entries.items() if isinstance(value, bytes)}
    lost = [codec.encode(name) for name in sorted(set(content.lost), key=_order)] + content.lost_keys
    return Repair(
        head=versions[-1],
        tree=Built(content.entries, names),
        catalog=found.definition,
        not_before_millis=_newest_time(files, versions),
        description=f"tree built anew from what could be read of v{versions[-1]}: " + _summary(content.damage),
        lost_keys=lost,
    )


def _rollback(
    files: Files, versions: Sequence[int], found: FoundCatalog, step: Step, target: int, codec: KeyCodec
) -> Repair:
    root = files.root(target).root
    assert root is not None, "it was found whole"
    definition = files.definition(Kind.CATALOG, root.catalog_def)
    assert isinstance(definition, CatalogDef), "it was found whole"
    return Repair(
        head=versions[-1],
        tree=root.node,
        catalog=keep_protection(definition, found.definition),
        not_before_millis=_newest_time(files, versions),
        description=f"content of v{target}, the last sound version: " + _summary(step.details),
        lost_keys=[codec.encode(name) for name in step.loses],
    )


def _summary(damage: Sequence[str]) -> str:
    return "; ".join(damage[:3]) + (f"; and {len(damage) - 3:,} more" if len(damage) > 3 else "")


def _newest_time(files: Files, versions: Sequence[int]) -> int:
    """When the newest version that can be read was created: times never decrease."""
    for version in reversed(versions):
        root = files.root(version)
        if root.root is not None:
            return root.created_at_millis
    return 0


def _order(name: ObjectName) -> tuple[int, str, str]:
    return name.kind, name.namespace, name.name
