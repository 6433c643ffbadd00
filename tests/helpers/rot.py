"""Random damage to random files, drawn from anything that gives numbers: Hypothesis in the suite, a seed by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from olympia_cli.format.definitions import CLASSES, Digest, check_digest
from olympia_cli.format.paths import parse_root_path, root_path, says_digest
from olympia_cli.names import Kind
from olympia_cli.ops.fsck import Level, Report
from olympia_cli.storage.memory import MemoryStore
from tests.helpers import damage
from tests.helpers.damage_sample import Content, Sample, read_content, read_tree
from tests.helpers.fsck import fsck

Draw = Callable[[int, int], int]
"""A number from the first to the second, both included."""


@dataclass(frozen=True)
class Rot:
    """A damage that was done to a file."""

    path: str
    how: str

    def __str__(self) -> str:
        return f"{self.path}: {self.how}"


HOWS = (
    "flip",
    "flip",
    "flip",
    "flips",
    "cut",
    "cut",
    "empty",
    "delete",
    "zero",
    "burst",
    "insert",
    "remove",
    "append",
    "repeat",
    "foreign",
    "swap",
    "copy",
    "sector",
)


def rot(store: MemoryStore, paths: list[str], draw: Draw) -> Rot:
    """Damage one file of the store; what was done."""
    path = paths[draw(0, len(paths) - 1)]
    how = HOWS[draw(0, len(HOWS) - 1)]
    if not store.exists(path):
        return Rot(path, "gone already")
    data = store.read(path)
    size = len(data)
    if how == "delete":
        store.delete_many([path])
        return Rot(path, how)
    if how in ("swap", "copy"):
        other = paths[draw(0, len(paths) - 1)]
        if store.exists(other):
            found = store.read(other)
            store.overwrite(path, found)
            if how == "swap":
                store.overwrite(other, data)
        return Rot(path, f"{how} {other}")
    if how == "foreign":
        which = ("parquet", "text", "zeros")[draw(0, 2)]
        damage.spoil(store, path, which)
        return Rot(path, which)
    if how == "empty" or not size:
        store.overwrite(path, b"")
        return Rot(path, "empty")
    at = draw(0, size - 1)
    if how == "flip":
        bit = draw(0, 7)
        changed, said = damage.flipped(data, at, bit), f"bit {bit} of byte {at} of {size}"
    elif how == "flips":
        changed, said = data, "bits of bytes"
        for _ in range(draw(2, 4)):
            at = draw(0, size - 1)
            changed, said = damage.flipped(changed, at, draw(0, 7)), f"{said} {at}"
    elif how == "cut":
        changed, said = data[:at], f"cut to {at} of {size}"
    elif how == "zero":
        length = draw(1, 64)
        changed = (data[:at] + bytes(length) + data[at + length :])[:size]
        said = f"{length} zeros from {at} of {size}"
    elif how == "sector":
        # what a disk loses is a block, and what it gives back in its place is zeros or other bytes
        block = draw(5, 9)
        start = at >> block << block
        filler = bytes([draw(0, 255)]) * (1 << block)
        changed, said = (
            (data[:start] + filler + data[start + (1 << block) :])[:size],
            f"block of {1 << block} at {start}",
        )
    elif how == "burst":
        noise = bytes(draw(0, 255) for _ in range(draw(2, 12)))
        changed, said = (data[:at] + noise + data[at + len(noise) :])[:size], f"{noise.hex()} at {at} of {size}"
    elif how == "insert":
        noise = bytes(draw(0, 255) for _ in range(draw(1, 4)))
        changed, said = data[:at] + noise + data[at:], f"{noise.hex()} put in at {at} of {size}"
    elif how == "remove":
        length = draw(1, 16)
        changed, said = data[:at] + data[at + length :], f"{length} bytes taken out at {at} of {size}"
    elif how == "append":
        changed, said = data + bytes([draw(0, 255)]) * draw(1, 300), "longer"
    else:
        changed, said = data + data, "twice"
    store.overwrite(path, changed)
    return Rot(path, said)


class Verdict(AssertionError):
    """An error in the result of fsck."""


def contents(sample: Sample) -> dict[int, Content]:
    store = sample.store()
    return {version: read_content(store, version) for version in sample.versions}


def hold(sample: Sample, before: dict[int, Content], store: MemoryStore, done: list[Rot]) -> Report:
    """Check that fsck finds the damage, or that every version still has its content.

    Each version whose content changed must be named by an error. The version that fsck advises to return to must be
    unchanged. A catalog whose relevant files are unchanged must not be called damaged.
    """
    said = "; ".join(map(str, done))
    report = fsck(store, level=Level.FULL, all_versions=True)
    text = "\n".join(f"{one.code} {one.path} {one.versions} {one.message}" for one in report.findings)
    excused = _excused(sample, store)
    changed = {
        version
        for version, content in before.items()
        if not _same(store, version, content) and excused.isdisjoint(sample.tree(version).files)
    }
    lost = _lost_end(sample, store)
    unnoticed = changed - lost
    if unnoticed and not report.damaged:
        raise Verdict(f"unnoticed in {sorted(unnoticed)}: {said}\n{text}")
    hit: set[int] = set()
    for one in report.findings:
        if one.severity == "error":
            for first, last in one.versions:
                hit |= {version for version in before if first <= version <= last}
    if unnoticed - hit and not _all_lost(report):
        raise Verdict(f"the versions {sorted(unnoticed - hit)} are changed and not named: {said}\n{text}")
    advised = report.last_sound_version
    if advised is not None and advised in changed:
        raise Verdict(f"it advises version {advised}, which is changed: {said}\n{text}")
    if report.damaged and not changed and not _matters(sample, store):
        raise Verdict(f"it cries wolf: {said}\n{text}")
    return report


def _excused(sample: Sample, store: MemoryStore) -> set[str]:
    """Return the files with changes that no program can detect.

    A node that is replaced by another sound node of the catalog has a correct checksum. A definition that is replaced
    by another sound one may come from another program. Only the action that wrote it tells, as long as it is kept and
    readable.
    """
    whole = {data for path, data in sample.files.items() if path.startswith("node/")}
    first = {path: version for version in reversed(sample.versions) for path in sample.tree(version).files}
    found = set()
    for path, data in sample.files.items():
        if not store.exists(path):
            continue
        now = store.read(path)
        swapped = path.startswith("node/") and now in whole
        writer = first.get(path, sample.oldest)
        log = root_path(writer)
        silent = writer == sample.oldest > 0 or not store.exists(log) or store.read(log) != sample.files[log]
        if now != data and (swapped or (path.startswith("def/") and silent and unverified(path, now))):
            found.add(path)
    return found


def unverified(path: str, data: bytes) -> bool:
    """Return whether the file is a definition that has no checksum and needs none."""
    kind = {"catalog": Kind.CATALOG, "ns": Kind.NAMESPACE, "table": Kind.TABLE, "view": Kind.VIEW}[path.split("/")[1]]
    try:
        CLASSES[kind].FromString(data)
        return check_digest(data, path) is Digest.ABSENT and not says_digest(path)
    except Exception:
        return False


def _same(store: MemoryStore, version: int, content: Content) -> bool:
    try:
        return read_content(store, version) == content
    except Exception:
        return False


def _all_lost(report: Report) -> bool:
    return any(one.code == "F103" for one in report.findings)


def _lost_end(sample: Sample, store: MemoryStore) -> set[int]:
    """Return the versions at the end whose roots are lost without a trace, so that no program can know of them."""
    lost: set[int] = set()
    for version in reversed(sample.versions):
        if store.exists(root_path(version)):
            break
        lost.add(version)
    return lost


def _matters(sample: Sample, store: MemoryStore) -> bool:
    """Return whether a changed file belongs to a kept version, an export or a live transaction. Hints do not count."""
    counts: set[str] = {path for path in sample.files if path.startswith("dtxn/") and path.count(".") > 1}
    for tree in (*(root_path(version) for version in sample.versions), sample.running, sample.pin):
        counts |= read_tree(sample.store(), tree).files
    now = {file.path for file in store.list()}
    # a file that came to be a root counts too
    fresh = {path for path in now - set(sample.files) if parse_root_path(path) is not None}
    differs = {path for path in counts if path not in now or store.read(path) != sample.files[path]}
    return bool(fresh or differs or _oldest(store) > sample.latest)


def _oldest(store: MemoryStore) -> int:
    """Return the version in vn/oldest; a version beyond the latest is damage."""
    text = store.read("vn/oldest").strip() if store.exists("vn/oldest") else b""
    return int(text) if text.isdigit() and len(text) < 11 else 0
