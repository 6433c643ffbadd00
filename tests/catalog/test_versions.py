"""Finding the latest version whatever the hints say, in few requests, and the version that a reference means."""

from __future__ import annotations

import functools
import json

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import candidates, confirm, last_version, read_latest
from olympia_cli.errors import CatalogNotFound, Damaged, ExportNotFound, InvalidReference, PathMissing, VersionNotFound
from olympia_cli.format.definitions import body
from olympia_cli.format.paths import MAX_VERSION, root_path
from olympia_cli.names import Ago, AtExport, AtTime, AtVersion, Latest, Oldest, parse_reference
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.clock import DAY, HOUR, MINUTE, START, FakeClock
from tests.helpers.expire import mark, record_export, undo
from tests.helpers.names import ns
from tests.helpers.stores import CountingStore

LATEST, OLDEST = "vn/latest", "vn/oldest"


def make(versions, clock=None, step=0):
    """Make a catalog with a number of versions, each with one namespace more, `step` milliseconds apart."""
    clock = clock or FakeClock()
    catalog = Catalog.create(MemoryStore(), clock=clock)
    for number in range(1, versions):
        clock.advance(step)
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns(f"n{number}"))
    return catalog


def put(store, path, data):
    store.delete_many([path]) if data is None else store.overwrite(path, data)


def put_properties(catalog, properties, exports=()):
    """Put into the catalog's definition what no statement would put there."""
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("beside"))
        definition = transaction.draft.catalog
        definition.properties.update(properties)
        definition.exported_snapshots.update(dict.fromkeys(exports, "file:///elsewhere"))
        transaction.draft.put_catalog(body(definition))


HINTS = {
    "missing": None,
    "empty": b"",
    "right": b"9",
    "right with a newline": b"9\n",
    "right with space around": b" 9 \r\n",
    "behind": b"3",
    "at the beginning": b"0",
    "just ahead": b"10",
    "far ahead": b"1000000",
    "the last that can be": b"4294967295",
    "more than can be": b"4294967296",
    "huge": b"9" * 100_000,
    "negative": b"-1",
    "signed": b"+9",
    "fractional": b"9.0",
    "hexadecimal": b"0x9",
    "underscored": b"1_0",
    "zeros before": b"0009",
    "garbage": b"\x00\xff\xfe garbage",
    "other digits": "٩".encode(),
    "superscript": "⁹".encode(),
    "torn, of a longer one": b"9345678",
    "two lines": b"9\n10",
}


@pytest.fixture(scope="module")
def files():
    """Versions 0 to 9, an hour apart."""
    return make(10, FakeClock(), HOUR).store._files


@pytest.fixture(scope="module")
def many():
    """5,000 versions, of which only the last need be sound."""
    store = make(3).store
    data = store.read(root_path(2))
    for version in range(3, 5000):
        store.create(root_path(version), data)
    return store._files


AHEAD = {HINTS[name] for name in ("just ahead", "far ahead", "the last that can be", "torn, of a longer one")}


class TestHints:
    @pytest.mark.parametrize("latest", HINTS.values(), ids=HINTS.keys())
    @pytest.mark.parametrize("oldest", [None, b"0", b"garbage", b""], ids=repr)
    def test_the_latest_version_is_found_with_any_hints(self, files, latest, oldest):
        store = CountingStore(MemoryStore(files=dict(files)))
        put(store, LATEST, latest)
        put(store, OLDEST, oldest)
        store.reset()
        # one look: a catalog that is open looks again, and finds by the next root what the first look missed
        assert read_latest(store).version == 9
        assert store.lists == 0, "version 0 exists, so nothing needs to be listed"
        catalog = Catalog.open(store)
        assert catalog.snapshot().version == 9
        if latest in AHEAD:
            with pytest.raises(Damaged, match="the last root is that of version 9") as raised:
                catalog.begin()
            assert raised.value.code == "F114"
            assert store.read(LATEST) == latest, "the hint is the only trace of the lost versions"
            return
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns("more"))
        assert store.read(LATEST) == b"10", "a commit corrects the hint"
        assert max(check_catalog(store)) == 10

    @pytest.mark.parametrize("latest", HINTS.values(), ids=HINTS.keys())
    @pytest.mark.parametrize("oldest", [b"4", b"2", b"0", None, b"garbage"], ids=repr)
    def test_the_latest_version_is_found_after_a_purge(self, files, latest, oldest):
        """`oldest` lags behind, or is lost altogether: versions 0 to 3 are gone in any case."""
        store = MemoryStore(files=dict(files))
        store.delete_many([root_path(version) for version in range(4)])
        put(store, LATEST, latest)
        put(store, OLDEST, oldest)
        assert read_latest(store).version == 9

    def test_one_version_only(self):
        store = make(1).store
        for latest in HINTS.values():
            put(store, LATEST, latest)
            assert read_latest(store).version == 0

    def test_an_expire_moves_under_the_reader(self, files):
        """The hints that it read name a version that is gone by the time it looks."""
        inner = MemoryStore(files=dict(files))

        class Moving(CountingStore):
            def read_many(self, paths):
                found = list(super().read_many(paths))
                if self.calls["read_many"] == 1:
                    self.inner.delete_many([root_path(version) for version in range(6)])
                    self.inner.overwrite(OLDEST, b"6")
                return iter(found)

        for latest in (b"2", b"5", None):
            inner = MemoryStore(files=dict(files))
            put(inner, LATEST, latest)
            put(inner, OLDEST, b"1")
            store = Moving(inner)
            assert read_latest(store).version == 9
            assert store.lists == 0, "the hints say it, once they are read again"

    @pytest.mark.parametrize("files", [{}, {LATEST: b"3"}, {OLDEST: b"3"}, {LATEST: b"0", OLDEST: b"0"}, {"x": b""}])
    def test_no_catalog(self, files):
        store = MemoryStore()
        for path, data in files.items():
            store.create(path, data)
        with pytest.raises(CatalogNotFound) as raised:
            Catalog.open(store)
        assert raised.value.exit_code == 10

    @pytest.mark.parametrize("oldest", HINTS.values(), ids=HINTS.keys())
    def test_the_other_hint(self, files, oldest):
        """`oldest` never leads in a sound catalog; whatever it says, the latest version is found."""
        store = MemoryStore(files=dict(files))
        put(store, OLDEST, oldest)
        assert read_latest(store).version == 9


class TestRequests:
    def opened(self, many, latest, oldest=b"0", gone=0):
        store = MemoryStore(files=dict(many))
        store.delete_many([root_path(version) for version in range(gone)])
        put(store, LATEST, latest)
        put(store, OLDEST, oldest)
        counted = CountingStore(store)
        assert read_latest(counted).version == 4999
        return counted

    def test_a_right_hint_costs_the_hints_one_guess_and_the_root(self, many):
        store = self.opened(many, b"4999")
        assert store.sequence == [
            ("read_many", LATEST),
            ("read_many", OLDEST),
            ("read_many", root_path(4999)),
            ("read_many", root_path(5000)),
            ("read_many", root_path(4999)),
        ]
        assert store.round_trips == 3

    def test_extra_files_are_read_together_with_the_root(self, many):
        store = CountingStore(MemoryStore(files=dict(many)))
        put(store.inner, LATEST, b"4999")
        candidate = next(candidates(store))
        found = confirm(store, candidate, [root_path(candidate.version - 1), "none"])
        assert store.round_trips == 3
        assert found.beside[root_path(4998)] == store.read(root_path(4998))
        assert isinstance(found.beside["none"], PathMissing)

    def test_a_version_that_is_purged_while_it_is_guessed_is_not_the_latest(self, many):
        """Both at once would take it for the latest: it is read before the next one, which is gone by then."""

        class Purged(CountingStore):
            def read_many(self, paths):
                for path in paths:
                    yield from super().read_many([path])
                    if path == root_path(17) and self.inner.exists(path):
                        self.inner.delete_many([root_path(version) for version in range(1000)])
                        self.inner.overwrite(OLDEST, b"1000")

        store = Purged(MemoryStore(files=dict(many)))
        store.overwrite(LATEST, b"17")
        assert read_latest(store).version == 4999
        assert store.of(root_path(18)) == 1, "the next one was missing"

    @pytest.mark.parametrize("behind", [1, 2, 3, 10, 100, 1000, 4999])
    def test_a_hint_that_lags_costs_the_logarithm_of_the_lag(self, many, behind):
        store = self.opened(many, str(4999 - behind).encode())
        assert store.probes <= 2 * behind.bit_length() + 2
        assert store.lists == 0

    @pytest.mark.parametrize("latest", [None, b"garbage", b"", b"0"])
    @pytest.mark.parametrize("oldest", [None, b"0", b"garbage"])
    def test_a_lost_hint(self, many, latest, oldest):
        store = self.opened(many, latest, oldest)
        assert store.probes <= 2 * 13 + 2, "2**13 is more than 5,000"
        assert store.lists == 0

    @pytest.mark.parametrize("ahead", [1, 2, 100, 5_000, 1_000_000, MAX_VERSION - 4999])
    def test_a_hint_that_leads(self, many, ahead):
        store = self.opened(many, str(4999 + ahead).encode())
        assert store.probes <= 2 * (4999 + ahead).bit_length() + 4
        assert store.lists == 0

    def test_purged_old_versions_cost_few_requests(self, many):
        for latest in (None, b"17", b"garbage"):
            store = self.opened(many, latest, b"4000", gone=4000)
            assert store.probes <= 2 * 10 + 2
            assert store.lists == 0

    def test_lost_hints_and_purged_versions_cost_one_listing(self, many):
        """Without hints the latest version is found by one listing."""
        store = self.opened(many, None, None, gone=4000)
        assert store.lists == 1
        assert store.probes <= 10
        assert store.reads <= 12

    def test_from_any_version_to_the_last(self, many):
        store = MemoryStore(files=many)
        for start in (0, 1, 2, 1023, 1024, 2500, 4998, 4999):
            assert last_version(store, start) == 4999
            for ceiling in (5000, 5001, 10_000, MAX_VERSION):
                assert last_version(store, start, ceiling=ceiling) == 4999


class TestReferences:
    """Versions 0 to 9, an hour apart; the clock stands half an hour after the last."""

    @pytest.fixture
    def catalog(self, files):
        clock = FakeClock()
        clock.advance(9 * HOUR + 30 * MINUTE)
        return Catalog(MemoryStore(files=dict(files)), clock)

    @pytest.mark.parametrize(
        ("reference", "version"),
        [
            (None, 9),
            (Latest(), 9),
            (Latest(1), 8),
            (Latest(9), 0),
            (Oldest(), 0),
            (AtVersion(0), 0),
            (AtVersion(5), 5),
            (AtVersion(9), 9),
            (AtTime(START), 0),
            (AtTime(START + 1), 0),
            (AtTime(START + HOUR - 1), 0),
            (AtTime(START + HOUR), 1),
            (AtTime(START + 4 * HOUR + MINUTE), 4),
            (AtTime(START + 9 * HOUR - 1), 8),
            (AtTime(START + 9 * HOUR), 9),
            (AtTime(START + 400 * DAY), 9),
            (Ago(0), 9),
            (Ago(30 * MINUTE), 9),
            (Ago(30 * MINUTE + 1), 8),
            (Ago(9 * HOUR + 30 * MINUTE), 0),
        ],
    )
    def test_it_means(self, catalog, reference, version):
        snapshot = catalog.snapshot(reference)
        assert snapshot.version == version
        assert len(list(snapshot.namespaces())) == version

    @pytest.mark.parametrize(
        "reference",
        [
            AtVersion(10),
            AtVersion(MAX_VERSION),
            AtVersion(MAX_VERSION + 1),
            AtVersion(10**12),
            Latest(10),
            Latest(10**12),
            AtTime(START - 1),
            AtTime(0),
            AtTime(-1),
            Ago(9 * HOUR + 30 * MINUTE + 1),
            Ago(10**18),
        ],
    )
    def test_a_reference_to_a_missing_version_is_an_error(self, catalog, reference):
        with pytest.raises(VersionNotFound) as raised:
            catalog.snapshot(reference)
        assert raised.value.exit_code == 10
        assert str(raised.value)

    @pytest.mark.parametrize(
        ("text", "version"),
        [
            ("7", 7),
            ("v7", 7),
            ("latest", 9),
            ("latest~2", 7),
            ("oldest", 0),
            ("1h", 8),
            ("30m", 9),
            ("2023-11-14T22:13:20Z", 0),
            ("2023-11-14T23:13:20+00:00", 1),
            ("2023-11-15T00:13:19+01:00", 0),
            ("2023-11-15", 1),
            ("2023-11-15 01:13:20", 3),
        ],
    )
    def test_as_a_person_writes_it(self, catalog, text, version):
        assert catalog.snapshot(parse_reference(text)).version == version

    @pytest.mark.parametrize(
        "text", ["", " ", "a b", "9" * 13, "latest~9999999999999", "2023-13-01", "2023-11-14T99:00Z"]
    )
    def test_invalid_reference_text_is_refused(self, text):
        with pytest.raises(InvalidReference):
            parse_reference(text)

    def test_equal_times_mean_the_newest_of_them(self):
        clock = FakeClock()
        catalog = make(4, clock)
        clock.advance(HOUR)
        for number in range(4):
            with catalog.transaction() as transaction:
                transaction.create_namespace(ns(f"later{number}"))
        assert [catalog.snapshot(AtVersion(version)).created_at_millis - START for version in range(8)] == [
            *[0] * 4,
            *[HOUR] * 4,
        ]
        assert catalog.snapshot(AtTime(START)).version == 3
        assert catalog.snapshot(AtTime(START + HOUR - 1)).version == 3
        assert catalog.snapshot(AtTime(START + HOUR)).version == 7
        with pytest.raises(VersionNotFound):
            catalog.snapshot(AtTime(START - 1))

    def test_a_version_at_a_time_is_found_by_bisecting(self):
        clock = FakeClock()
        catalog = make(130, clock, MINUTE)
        for wanted in (0, 1, 64, 100, 128):
            store = CountingStore(catalog.store)
            snapshot = Catalog(store, clock).snapshot(AtTime(START + wanted * MINUTE))
            assert snapshot.version == wanted
            assert (
                len([path for path in store.paths("read", "read_many") if path.startswith("vn/0") or "vn/1" in path])
                <= 12
            )
            assert store.lists == 0

    def test_an_export(self, catalog):
        with catalog.transaction() as transaction:
            record_export(transaction, "friday", 4)
        records = {"broken": "{", "gone": json.dumps({"version": 99}), "unrecorded": json.dumps({"version": 4})}
        put_properties(
            catalog, {f"olympia.export.{name}": text for name, text in records.items()}, ["broken", "gone", "silent"]
        )
        assert catalog.snapshot(AtExport("friday")).version == 4
        for name in ("broken", "unrecorded", "silent", "no", ""):
            with pytest.raises(ExportNotFound):
                catalog.snapshot(AtExport(name))
        with pytest.raises(VersionNotFound):
            catalog.snapshot(AtExport("gone"))


class TestExpiredVersions:
    @pytest.fixture
    def catalog(self):
        catalog = make(10, FakeClock(), HOUR)
        assert mark(catalog, 4) == 10
        return catalog

    @pytest.mark.parametrize("hint", [b"4", b"2", b"0", None, b"garbage"], ids=repr)
    @pytest.mark.parametrize("purged", [0, 2, 4])
    def test_expired_versions_are_not_found_while_their_files_exist(self, catalog, hint, purged):
        store = catalog.store
        put(store, OLDEST, hint)
        store.delete_many([root_path(version) for version in range(purged)])
        assert catalog.snapshot(Oldest()).version == 4
        assert catalog.snapshot(AtVersion(4)).version == 4
        assert catalog.snapshot(Latest(6)).version == 4
        assert catalog.snapshot(AtTime(START + 4 * HOUR)).version == 4
        for reference in (
            *(AtVersion(version) for version in range(4)),
            Latest(7),
            Latest(10),
            AtTime(START + 4 * HOUR - 1),
            AtTime(START),
            Ago(DAY),
        ):
            with pytest.raises(VersionNotFound):
                catalog.snapshot(reference)

    def test_the_hint_alone_hides_them_too_and_may_lag(self):
        """A catalog that another program expired: no property says so."""
        catalog = make(10)
        put(catalog.store, OLDEST, b"3")
        assert catalog.snapshot(Oldest()).version == 3
        catalog.store.delete_many([root_path(version) for version in range(6)])
        store = CountingStore(catalog.store)
        assert Catalog(store).snapshot(Oldest()).version == 6
        assert store.lists == 0
        with pytest.raises(VersionNotFound):
            catalog.snapshot(AtVersion(5))
        assert catalog.snapshot(AtVersion(6)).version == 6

    def test_a_version_is_found_although_neighbouring_roots_are_lost(self):
        catalog = make(10)
        catalog.store.delete_many([root_path(0), root_path(4)])
        assert catalog.snapshot(AtVersion(3)).version == 3
        with pytest.raises(VersionNotFound):
            catalog.snapshot(AtVersion(4))

    @pytest.mark.parametrize("text", ["", "four", "-4", "4.0", "9" * 5000, "99999999999"])
    def test_a_property_that_is_no_version(self, text):
        catalog = make(5)
        put_properties(catalog, {"olympia.expire.oldest": text})
        assert catalog.snapshot(Oldest()).version == 0
        assert catalog.snapshot(AtVersion(1)).version == 1

    def test_an_undo_brings_them_back(self, catalog):
        undo(catalog, 1)
        assert catalog.snapshot(Oldest()).version == 1
        assert catalog.snapshot(AtVersion(2)).version == 2
        with pytest.raises(VersionNotFound):
            catalog.snapshot(AtVersion(0))


def test_a_root_is_decoded_once(monkeypatch):
    """The root is used twice: to guess which files to prefetch, and for the snapshot."""
    from olympia_cli.catalog import snapshot

    catalog = Catalog.create(MemoryStore())
    decoded: list[str] = []
    decode = snapshot.decode_root

    def counted(data, path, java):
        decoded.append(path)
        return decode(data, path, java)

    monkeypatch.setattr(snapshot, "decode_root", counted)
    assert catalog.snapshot().version == 0
    assert catalog.begin().base.version == 0
    assert decoded == [root_path(0)] * 2


def test_a_snapshot_that_waits_for_its_store_delays_no_other():
    """In Python 3.11 `cached_property` has one lock for all instances, which also survives a fork."""
    assert not [name for name, value in vars(Snapshot).items() if isinstance(value, functools.cached_property)]
