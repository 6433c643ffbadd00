"""Catalogs in which something is wrong, each beside what fsck says of it: what every other part is held against.

All of them are in memory and come from fixed seeds, so that there can be thousands and each can be made again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import Damaged
from olympia_cli.format import definitions
from olympia_cli.format.codec import decode_action_rows, decode_root, encode_root
from olympia_cli.format.paths import root_path, transaction_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef, TableDef
from olympia_cli.ops.fsck import Finding, Level, Report, Severity
from olympia_cli.storage.memory import MemoryStore
from tests.damage.case import Case
from tests.damage.cases import ALL
from tests.helpers.clock import DAY, HOUR, START, FakeClock
from tests.helpers.damage import FILE_DAMAGE, cut_behind_id, spoil
from tests.helpers.damage_sample import BY, Sample, make_sample, seeded_uuids
from tests.helpers.fsck import fsck
from tests.helpers.lies import lie
from tests.helpers.names import location, ns, select, table, view

AUTHOR = Author(by=BY, program="test", program_version="0")
FLIPS = (0x01, 0x10, 0x80, 0xFF)
"""Masks that a byte is combined with: a low, a middle and a high bit, and all bits."""

Files = dict[str, bytes]


def clock() -> FakeClock:
    """Long after the samples were written, and before anything in them ends."""
    return FakeClock(START + 30 * DAY)


def in_memory(files: Files) -> MemoryStore:
    return MemoryStore("catalog", {path: (data, START) for path, data in files.items()}, clock().now_millis)


def files_of(store: MemoryStore) -> Files:
    return {file.path: store.read(file.path) for file in store.list(temporary=True)}


def errors_of(report: Report) -> list[Finding]:
    return [one for one in report.findings if one.severity is Severity.ERROR]


def hits(finding: Finding, version: int) -> bool:
    return any(first <= version <= last for first, last in finding.versions)


def shown(findings: Iterable[Finding]) -> str:
    lines = [f"{one.code} {one.path} {list(one.versions)}" for one in findings]
    return "; ".join(lines[:4]) + (f"; {len(lines) - 4} more" if len(lines) > 4 else "") or "sound"


@dataclass(frozen=True)
class DamagedCatalog:
    """A catalog, perhaps damaged. `name` says how; `sample` is what it was before."""

    name: str
    sample: Sample
    files: Files

    def store(self) -> MemoryStore:
        return in_memory(self.files)

    def catalog(self) -> Catalog:
        return Catalog(self.store(), clock=clock())

    @cached_property
    def report(self) -> Report:
        """Run a complete fsck."""
        return fsck(self.store(), level=Level.FULL, all_versions=True, clock=clock())

    @cached_property
    def errors(self) -> list[Finding]:
        return errors_of(self.report)

    def errors_in(self, version: int) -> list[Finding]:
        return [one for one in self.errors if hits(one, version)]

    @property
    def error_codes(self) -> set[str]:
        return {one.code for one in self.errors}

    def changes(self) -> dict[str, bytes | None]:
        """The files that are not as they were; None where one is gone."""
        before = self.sample.files
        paths = sorted(before.keys() | self.files.keys())
        return {path: self.files.get(path) for path in paths if before.get(path) != self.files.get(path)}


@cache
def small_sample() -> Sample:
    """Five versions of three levels in a handful of small files: one of everything that a version is made of."""
    with seeded_uuids(9):
        time = FakeClock()
        store = MemoryStore("small", now_millis=time.now_millis)
        sizes = {"namespace_name_max_bytes": 16, "table_name_max_bytes": 16, "view_name_max_bytes": 16}
        catalog = Catalog.create(store, order=4, author=AUTHOR, clock=time, **sizes)

        @contextmanager
        def commit() -> Iterator[Transaction]:
            time.advance(HOUR)
            transaction = catalog.begin()
            yield transaction
            catalog.commit(transaction, by=BY)

        with commit() as t:
            for name in "ab":
                t.create_namespace(ns(name), {"owner": name})
            for number in range(9):
                t.create_table(table(f"a.t{number}"), location(number))
            for number in range(5):
                t.create_view(view(f"b.v{number}"), select())
        with commit() as t:
            t.alter_table(table("a.t3"), {"tier": "gold"}, (), location(99))
        with commit() as t:
            t.alter_catalog({"team": "data"})
        with commit() as t:
            t.drop_table(table("a.t8"))
            t.alter_namespace(ns("b"), {"owner": "z"})
    return Sample(files_of(store), open_transaction="", pin="", latest=4)


@cache
def _large_sample(expired: bool) -> Sample:
    return make_sample(expired=expired)


# Files of every kind, damaged in every way


def roles(sample: Sample) -> dict[str, str]:
    """A file of each kind that the latest version is made of, and of some that older ones are."""
    tree = sample.tree()
    named = sorted(value for value, _ in tree.entries.values())
    found = {
        "latest root": root_path(sample.latest),
        "middle root": root_path((sample.oldest + sample.latest) // 2),
        "first root": root_path(sample.oldest),
        "inner": tree.inner[0],
        "leaf": tree.leaves[0],
        "last leaf": tree.leaves[-1],
        "catalog": tree.root.catalog_def,
        "first catalog": sample.tree(sample.oldest).root.catalog_def,
        **{kind: next(path for path in named if path.startswith(f"def/{kind}/")) for kind in ("ns", "table", "view")},
    }
    if sample.open_transaction:
        found |= {"save": sample.save, "running root": sample.running, "pin": sample.pin}
    return found


def rotten(data: bytes, at: int, flip: int | None) -> bytes:
    """A byte that is another, or nothing from it on."""
    return data[:at] if flip is None else data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]


def every_rot(data: bytes, flips: Iterable[int | None], step: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield damaged copies, with a description each: every `step` bytes one copy per flip; None is a cut."""
    for at in range(0, len(data), step):
        for flip in flips:
            yield f"cut to {at}" if flip is None else f"byte {at} ^ {flip:#04x}", rotten(data, at, flip)


def seeded_rot(data: bytes, count: int, seed: str) -> Iterator[tuple[str, bytes]]:
    """Flips and cuts, four to one, anywhere."""
    numbers = random.Random(seed)
    for _ in range(count):
        at, flip = numbers.randrange(len(data)), numbers.choice((*FLIPS, None))
        yield f"cut to {at}" if flip is None else f"byte {at} ^ {flip:#04x}", rotten(data, at, flip)


def rotten_catalogs(sample: Sample, count: int, only: Iterable[str] = ()) -> Iterator[DamagedCatalog]:
    """Yield catalogs in which a file of each kind has a flipped byte or is cut."""
    for role, path in roles(sample).items():
        if not only or role in only:
            for how, data in seeded_rot(sample.files[path], count, role):
                yield DamagedCatalog(f"{role}, {how}", sample, {**sample.files, path: data})


def rotten_transactions(sample: Sample, count: int) -> Iterator[DamagedCatalog]:
    """The open transaction with a rotten copy: beside a whole save, beside a rotten one, and alone."""
    save, copy = sample.save, transaction_path(sample.open_transaction)
    others = [path for path in sample.files if path.startswith(f"dtxn/{sample.open_transaction}.") and path != copy]
    alone = {path: data for path, data in sample.files.items() if path not in others}
    bad_save = rotten(sample.files[save], 60, 0xFF)
    for how, data in seeded_rot(sample.files[copy], count, "copy"):
        yield DamagedCatalog(f"copy, {how}", sample, {**sample.files, copy: data})
        yield DamagedCatalog(f"copy and save, {how}", sample, {**sample.files, copy: data, save: bad_save})
        yield DamagedCatalog(f"copy alone, {how}", sample, {**alone, copy: data})
    for how, data in seeded_rot(sample.files[save], count, "save"):
        yield DamagedCatalog(f"save without a copy, {how}", sample, {**sample.files, copy: b"", save: data})


def spoiled_catalogs(sample: Sample) -> Iterator[DamagedCatalog]:
    """The suite's ways to damage a file, for a file of each kind."""
    for role, path in roles(sample).items():
        for how in FILE_DAMAGE:
            store = in_memory(sample.files)
            spoil(store, path, how)
            yield DamagedCatalog(f"{role}, {how}", sample, files_of(store))


def rotten_definition(sample: Sample) -> Iterator[DamagedCatalog]:
    """Each byte of a table's definition flipped."""
    path = roles(sample)["table"]
    for how, data in every_rot(sample.files[path], (0x10,)):
        yield DamagedCatalog(f"table, {how}", sample, {**sample.files, path: data})


# What whole files say


def case_catalog(case: Case) -> DamagedCatalog:
    sample = _large_sample(case.expired)
    store = in_memory(sample.files)
    with seeded_uuids(7):
        case.do(sample, store)
    return DamagedCatalog(case.name, sample, files_of(store))


def lying_catalogs(sample: Sample, count: int, most: int = 3) -> Iterator[DamagedCatalog]:
    """Yield catalogs as a faulty writer leaves them: well-formed files with one or several false statements."""
    for seed in range(count):
        numbers = random.Random(f"lies {seed}")
        store = in_memory(sample.files)
        told = []
        for _ in range(1 + seed % most):
            try:
                told.append(lie(sample, store, numbers.randint))
            except Damaged:
                break  # the file to change can no longer be read: there are lies enough
        name = "; ".join(f"{one.path}: {one.how.partition(':')[0]}" for one in told)
        yield DamagedCatalog(f"lies {seed}: {name}", sample, files_of(store))


def resting_catalogs() -> Iterator[DamagedCatalog]:
    """Yield catalogs with damage in quarantined versions only."""
    sample = make_sample(expired=True, older=4)
    path = next(path for path, _ in sample.tree().entries.values() if path.endswith("-a-t01.binpb"))
    definition = TableDef.FromString(sample.files[path])
    definition.iceberg_metadata_location = location(98)
    rewritten = {path: definitions.body(definition)}
    yield DamagedCatalog("a definition of a resting version rewritten", sample, {**sample.files, **rewritten})
    for first in range(sample.oldest + 1, sample.latest + 1):
        files = _of_another_catalog(sample, first)
        yield DamagedCatalog(f"the id of another catalog from v{first} on", sample, files)


def cut_catalogs() -> Iterator[DamagedCatalog]:
    """Definitions that lost their end, as this program and older ones write them."""
    for older in (None, 4, 8):
        sample = make_sample(expired=True, older=older)
        path = next(path for path, _ in sample.tree().entries.values() if path.endswith("-a-t01.binpb"))
        cut = {path: cut_behind_id(sample.files[path])}
        writer = "this program" if older is None else f"names of version {older}"
        yield DamagedCatalog(f"a definition cut behind its id: {writer}", sample, {**sample.files, **cut})


def _of_another_catalog(sample: Sample, first: int) -> Files:
    files = dict(sample.files)
    for version in range(first, sample.latest + 1):
        path = root_path(version)
        root = decode_root(files[path], path)
        definition = CatalogDef.FromString(files[root.catalog_def])
        definition.id = "11111111-2222-4333-8444-555555555555"
        other = f"def/catalog/00000000-0000-4000-8000-{version:012}.binpb"
        files[other] = definitions.encode(definitions.body(definition), other)
        files[path] = encode_root(replace(root, catalog_def=other), decode_action_rows(files[path], path))
    return files


@cache
def suite_catalogs() -> tuple[DamagedCatalog, ...]:
    """Every damage case of the suite."""
    large, expired = _large_sample(False), _large_sample(True)
    return (
        *map(case_catalog, ALL),
        *spoiled_catalogs(large),
        *(replace(one, name=f"expired: {one.name}") for one in spoiled_catalogs(expired)),
    )


@cache
def catalogs() -> tuple[DamagedCatalog, ...]:
    """All of them: the suite's cases, bytes that rot, faulty writers, what only resting versions tell, and
    definitions that were cut."""
    small = small_sample()
    return (
        *suite_catalogs(),
        *rotten_catalogs(small, 40),
        *rotten_catalogs(_large_sample(False), 15, ("save", "running root", "pin")),
        *rotten_transactions(_large_sample(False), 15),
        *rotten_definition(small),
        *lying_catalogs(small, 150),
        *resting_catalogs(),
        *cut_catalogs(),
    )
