"""Gaps, roots that do not follow each other, and hints that mislead."""

from __future__ import annotations

from collections.abc import Callable

from olympia_cli.format.codec import CATALOG_DEF, CREATED_AT_MILLIS, PREVIOUS_ROOT, SIZES_KEY
from olympia_cli.format.paths import root_path
from olympia_cli.storage.protocol import Store
from tests.damage.case import (
    Wanted,
    case,
    catalog_def,
    expired_case,
    many,
    wanted,
)
from tests.helpers.damage import (
    rewrite_raw,
    set_property,
)
from tests.helpers.damage_sample import Sample, make_sample


@case
def gap_of_one_version(s: Sample, store: Store) -> Wanted:
    store.delete_many([root_path(5)])
    return wanted("F101", root_path(5), versions={5})


@case
def gap_of_several_versions(s: Sample, store: Store) -> Wanted:
    store.delete_many([root_path(version) for version in (3, 4, 5, 9)])
    return wanted("F101", *(root_path(version) for version in (3, 4, 5)), versions={3, 4, 5})


@case
def gap_at_the_old_end(s: Sample, store: Store) -> Wanted:
    """No expire ever ran, so version 0 cannot be gone rightly."""
    store.delete_many([root_path(0), root_path(1)])
    return wanted("F101", root_path(0), root_path(1), versions={0, 1})


@case
def nothing_but_the_latest_root(s: Sample, store: Store) -> Wanted:
    store.delete_many([root_path(version) for version in range(s.latest)])
    return wanted("F101", root_path(0), versions=set(range(s.latest)))


@case
def no_root_at_all(s: Sample, store: Store) -> Wanted:
    store.delete_many([root_path(version) for version in s.versions])
    return wanted("F103", sound=False)


@case
def no_root_can_be_read(s: Sample, store: Store) -> Wanted:
    for version in s.versions:
        store.overwrite(root_path(version), b"")
    return wanted("F103")


@case
def stray_root_at_the_end_of_all_versions(s: Sample, store: Store) -> Wanted:
    """Four thousand million versions are missing before it."""
    store.create("vn/" + "1" * 32, store.read(root_path(s.latest)))
    return wanted("F104", "vn/" + "1" * 32, versions={2**32 - 1})


@case
def stray_root_with_a_long_name(s: Sample, store: Store) -> Wanted:
    """The Java SDK's width, and a version that no number of ours can be; the catalog itself is whole."""
    store.create("vn/" + "1" * 64, store.read(root_path(s.latest)))
    return Wanted(frozenset(), damaged=False)


@case
def versions_swapped(s: Sample, store: Store) -> Wanted:
    one, other = root_path(7), root_path(8)
    a, b = store.read(one), store.read(other)
    store.overwrite(one, b)
    store.overwrite(other, a)
    return wanted("F104", one, other, versions={7, 8})


def previous_root(value: str | None) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = root_path(7)
        rewrite_raw(store, path, lambda raw: raw.set(PREVIOUS_ROOT, value))
        return wanted("F104", path, root_path(6), versions={7})

    return do


many(
    previous_root,
    ("skips-one", root_path(5)),
    ("itself", root_path(7)),
    ("ahead", root_path(9)),
    ("missing", None),
    ("garbage", "version six"),
    ("long-name", root_path(6, 64)),
)


@case
def previous_root_of_the_first_version(s: Sample, store: Store) -> Wanted:
    rewrite_raw(store, root_path(0), lambda raw: raw.set(PREVIOUS_ROOT, root_path(3)))
    return wanted("F104", root_path(0), versions={0})


@case
def root_of_another_catalog(s: Sample, store: Store) -> Wanted:
    """With all its files: it is whole, and it is not ours."""
    other = make_sample(seed=2)
    store.create_many(
        {path: data for path, data in other.files.items() if path.startswith(("node/", "def/")) and path not in s.files}
    )
    store.overwrite(root_path(5), other.files[root_path(5)])
    return wanted("F105", root_path(5), other.tree(5).root.catalog_def, versions={5}, sound=False)


def root_sizes(value: bytes) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = root_path(s.latest)
        rewrite_raw(store, path, lambda raw: raw.metadata.update({SIZES_KEY: value}))
        return wanted("F105|F207", path, versions={s.latest})

    return do


many(
    root_sizes,
    ("other", b'{"order":128,"namespace":16,"table":16,"view":16}'),
    ("garbage", b"{"),
    ("deep", b"[" * 100_000),
    ("negative", b'{"order":-4,"namespace":16,"table":16,"view":16}'),
)


@case
def root_that_names_no_catalog_definition(s: Sample, store: Store) -> Wanted:
    rewrite_raw(store, root_path(7), lambda raw: raw.set(CATALOG_DEF, None))
    return wanted("F207", root_path(7), versions={7})


@case
def time_that_runs_backwards(s: Sample, store: Store) -> Wanted:
    rewrite_raw(store, root_path(7), lambda raw: raw.set(CREATED_AT_MILLIS, "5"))
    return wanted("F116", root_path(7), damaged=False)


@case
def time_that_is_no_number(s: Sample, store: Store) -> Wanted:
    rewrite_raw(store, root_path(7), lambda raw: raw.set(CREATED_AT_MILLIS, "noon"))
    return wanted("F207", root_path(7), versions={7})


def latest_hint(given: tuple[bytes | None, str]) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        data, code = given
        if data is None:
            store.delete_many(["vn/latest"])
        else:
            store.overwrite("vn/latest", data)
        return wanted(code, "vn/latest", damaged=code == "F114")

    return do


many(
    latest_hint,
    ("missing", (None, "F111")),
    ("empty", (b"", "F112")),
    ("garbage", (b"\xff\xfe\x00", "F112")),
    ("words", (b"twelve", "F112")),
    ("negative", (b"-3", "F112")),
    ("fraction", (b"12.0", "F112")),
    ("other-digits", ("١٢".encode(), "F112")),
    ("large", (b"9" * 5000, "F112|F114")),
    ("beyond-all-versions", (b"4294967296", "F112|F114")),
    ("behind", (b"3", "F113")),
    ("ahead", (b"40", "F114")),
    ("far-ahead", (b"4294967295", "F114")),
)


def oldest_hint(given: tuple[bytes, str, bool]) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        store.overwrite("vn/oldest", given[0])
        return wanted(given[1], "vn/oldest", damaged=given[2])

    return do


many(
    oldest_hint,
    ("garbage", (b"\xff", "F115", False)),
    ("words", (b"the first", "F115", False)),
    ("empty", (b"", "F115", False)),
    ("beyond-the-latest", (b"99", "F102", True)),
    ("at-the-end-of-all-versions", (b"4294967295", "F102", True)),
)


@case
def oldest_hint_that_leads(s: Sample, store: Store) -> Wanted:
    """No expire ever ran: what it hides is not gone."""
    store.overwrite("vn/oldest", b"6")
    return wanted("F117|F902", "vn/oldest", root_path(5), damaged=False)


@expired_case
def oldest_hint_that_leads_an_expire(s: Sample, store: Store) -> Wanted:
    store.overwrite("vn/oldest", b"8")
    return wanted("F117", "vn/oldest", damaged=False)


@case
def oldest_hint_that_lags(s: Sample, store: Store) -> Wanted:
    store.overwrite("vn/oldest", b"0")
    return Wanted(frozenset(), damaged=False)


@case
def oldest_beyond_the_latest(s: Sample, store: Store) -> Wanted:
    set_property(store, catalog_def(s), "olympia.expire.oldest", "99")
    return wanted("F102")


@expired_case
def oldest_hint_behind_an_expire(s: Sample, store: Store) -> Wanted:
    store.overwrite("vn/oldest", b"2")
    return wanted("F906", damaged=False)


@expired_case
def gap_in_what_is_kept(s: Sample, store: Store) -> Wanted:
    store.delete_many([root_path(6)])
    return wanted("F101", root_path(6), versions={6})
