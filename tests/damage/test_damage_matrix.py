"""The findings of fsck for every kind of damage of every kind of file, and for every false statement in sound files.

Each case is tested on a local disk, and on S3 if the store matters: missing, empty or cut files, searches for versions,
and pointers out of the catalog. fsck names each damage with the right code, file, versions and objects, and gives the
right verdict. It never raises an exception, and never follows a pointer out of the catalog.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from olympia_cli.cli.app import app
from olympia_cli.errors import CatalogNotFound
from olympia_cli.format.paths import check_pointer, root_path, transaction_path
from olympia_cli.ops.fsck import CODES, Finding, Level, Report, Severity
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.protocol import Store
from tests.damage.case import Case, Wanted, catalog_def, definition, inner, leaf_of_tables, names, wanted
from tests.damage.cases import ALL
from tests.damage.conftest import Ground
from tests.helpers import check
from tests.helpers.damage import FILE_DAMAGE, spoil
from tests.helpers.damage_sample import Sample, read_content
from tests.helpers.fsck import fsck
from tests.helpers.stores import CountingStore

pytestmark = pytest.mark.usefixtures("decoded_once")

WARNINGS = {"F111", "F112", "F113", "F115", "F116", "F117", "F118", "F119", "F505", "F604"}
"""Written down a second time: the severity of a code is a promise to scripts."""


def expected_severity(code: str) -> str:
    return "info" if code.startswith("F9") else "warning" if code in WARNINGS else "error"


def numbers(found: Finding) -> set[int]:
    """The versions that a finding hits; of endless ranges the ends."""
    out: set[int] = set()
    for first, last in found.versions:
        assert 0 <= first <= last, found
        out |= set(range(first, last + 1)) if last - first < 1000 else {first, last}
    return out


def full(store: Store) -> Report:
    return fsck(store, level=Level.FULL, all_versions=True)


def shown(report: Report) -> str:
    return "\n".join(
        f"{one.code} {one.severity} {one.path} {one.versions} {[str(o) for o in one.objects[:9]]} {one.message}"
        for one in report.findings
    )


@cache
def content_before(sample: Sample, version: int) -> object:
    return read_content(sample.store(), version)


def sound_versions(sample: Sample, store: Store, same: bool) -> list[int]:
    """The versions that another checker finds sound; with `same`, those of them that say what they said before."""
    found = []
    for version in sample.versions:
        try:
            check._read_version(store, version)
            if not same or read_content(store, version) == content_before(sample, version):
                found.append(version)
        except Exception:
            continue
    return found


def blamed(report: Report) -> set[int]:
    """The versions that errors hit, but for what is only a transaction's or an export's."""
    errors = [one for one in report.findings if one.severity is Severity.ERROR and one.code not in ("F502", "F503")]
    return set().union(*(numbers(one) for one in errors))


def hold(report: Report, want: Wanted) -> None:
    """The report says what is wanted of it, and nothing in it contradicts itself."""
    text = shown(report)
    for one in report.findings:
        assert one.code in CODES, text
        assert str(one.severity) == expected_severity(one.code), text
        assert one.message, text
        assert list(one.versions) == sorted(one.versions), text
        assert one.objects_total >= len(one.objects), text
    assert report.damaged == any(one.severity is Severity.ERROR for one in report.findings), text
    assert report.complete
    if want.damaged is not None:
        assert report.damaged == want.damaged, text
    if not want.codes:
        return
    there = [one for one in report.findings if one.code in want.codes]
    assert there, f"none of {sorted(want.codes)} in:\n{text}"
    at = [one for one in there if not want.paths or one.path in want.paths]
    assert at, f"not at {sorted(want.paths)}:\n{text}"
    hit = set().union(*(numbers(one) for one in at))
    assert want.versions is None or hit >= want.versions, f"versions {sorted(want.versions or ())}:\n{text}"
    objects = {name for one in at for name in one.objects}
    assert want.objects is None or objects >= want.objects, f"objects {want.objects}:\n{text}"


def hold_every_way(ground: Ground, sample: Sample, want: Wanted, *, same: bool = True) -> Report:
    """Do the same as `hold`, at every level and by the command; the advice must lead to a sound version."""
    store = CountingStore(ground.store)
    report = full(store)
    hold(report, want)
    for path in store.paths("read", "read_range", "exists", "stat", "read_many"):
        check_pointer(path, path)
    for found in report.findings:
        # what is missing cannot be shown
        words = found.hint.split()
        assert words[:1] != ["dump-node"] or ground.store.exists(words[-1]), found
    if want.sound:
        good = sound_versions(sample, ground.copy(), same)
        assert report.last_sound_version == (good[-1] if good else None), f"{good}\n{shown(report)}"
        assert blamed(report) & set(sample.versions) == set(sample.versions) - set(good), f"{good}\n{shown(report)}"
    if ground.name == "local":
        # neither depends on the store, and a client of S3 takes a second to make
        for level in (Level.HINTS, Level.STRUCTURE):
            some = fsck(ground.store, level=level)
            assert report.damaged or not some.damaged, f"{level}:\n{shown(some)}"
        hold_command(ground, report)
    return report


def hold_command(ground: Ground, report: Report) -> dict[str, Any]:
    args = [*ground.words, "fsck", "--level", "full", "--all-versions", "--json"]
    done = CliRunner().invoke(app, args, catch_exceptions=False)
    assert done.exit_code == (50 if report.damaged else 0), done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["damaged"] == report.damaged
    assert document["last_sound_version"] == report.last_sound_version
    assert document["next"] or not report.damaged or all(one["hint"] == "" for one in document["findings"])
    said = Counter((one["code"], one["path"]) for one in document["findings"] if one["severity"] != "info")
    assert said == Counter((one.code, one.path) for one in report.findings if one.severity is not Severity.INFO)
    return document


# Bytes


NODE = {
    "truncated": "F204",
    "empty": "F202",
    "flipped": "F203|F204|F205|F206|F207",
    "parquet": "F203",
    "text": "F203",
    "zeros": "F203",
    "missing": "F201",
}
DEFINITION = {
    "truncated": "F303|F304",
    "empty": "F302",
    "flipped": "F303|F304",
    "parquet": "F303",
    "text": "F303",
    "zeros": "F303",
    "missing": "F301",
}
ROLES = ("latest-root", "middle-root", "first-root", "inner", "leaf", "catalog", "namespace", "table", "view")


def role_path(sample: Sample, role: str) -> str:
    return {
        "latest-root": lambda: root_path(sample.latest),
        "middle-root": lambda: root_path(5),
        "first-root": lambda: root_path(sample.oldest),
        "inner": lambda: inner(sample),
        "leaf": lambda: leaf_of_tables(sample),
        "catalog": lambda: catalog_def(sample),
        "namespace": lambda: definition(sample, "ns"),
        "table": lambda: definition(sample, "table"),
        "view": lambda: definition(sample, "view"),
        "save": lambda: sample.save,
        "running-root": lambda: sample.running,
        "pin": lambda: sample.pin,
        "manifest": lambda: sample.manifest,
    }[role]()


def on_grounds(role: str) -> list[Any]:
    """Every damage on a local disk; on S3 what its answers are like."""
    there = ("missing", "empty", "truncated")
    return [("local", role, how) for how in FILE_DAMAGE] + [("s3", role, how) for how in there]


@pytest.mark.parametrize(
    ("ground", "role", "how"), [one for role in ROLES for one in on_grounds(role)], indirect=["ground"]
)
def test_a_file_of_a_version(role: str, how: str, ground: Ground, plain_sample: Sample) -> None:
    sample, path = plain_sample, role_path(plain_sample, role)
    ground.fill(sample.files)
    spoil(ground.store, path, how)
    versions: set[int] = sample.hit(path)
    if role == "latest-root" and how == "missing":
        # what is left is a catalog that ends a version earlier; a hint names the one that is lost, and a transaction
        # began there
        report = hold_every_way(ground, sample, wanted("F114", "vn/latest", versions={sample.latest}, sound=False))
        assert report.last_sound_version == sample.latest - 1
        assert {one.code for one in report.findings if one.severity is Severity.ERROR} == {"F114", "F502"}
        return
    if role.endswith("root") and how == "missing":
        code = "F101"
    elif role == "catalog":
        code = "F307"
    else:
        code = (NODE if role.endswith(("root", "inner", "leaf")) else DEFINITION)[how]
    if role.endswith("root"):
        code += "|F401"  # the bit may be one of an action row
    objects = sample.defined_by(path) if role in ("namespace", "table", "view") else None
    report = hold_every_way(ground, sample, wanted(code, path, versions=versions, objects=objects))
    errors = [one for one in report.findings if one.severity is Severity.ERROR]
    others = [one for one in errors if one.path != path and one.code not in ("F502", "F503")]
    assert not others, f"only one file is damaged:\n{shown(report)}"
    exact = [one for one in errors if one.path == path and one.code not in ("F502", "F503")]
    assert len(exact) == 1, shown(report)
    assert numbers(exact[0]) == versions, shown(report)
    if role in ("inner", "leaf"):
        below = {
            name for tree in sample.trees().values() if path in tree.nodes for name in names(sample, tree.below(path))
        }
        assert exact[0].objects_total > 0, shown(report)
        assert set(exact[0].objects) & below, shown(report)
    if objects is not None:
        assert set(exact[0].objects) == objects, shown(report)


KEPT = {"save": "F501", "running-root": "F502", "pin": "F503"}
COPY = "F505"
"""The last save is damaged, and its copy is read."""


@pytest.mark.parametrize(
    ("ground", "role", "how"), [one for role in KEPT for one in on_grounds(role)], indirect=["ground"]
)
def test_a_file_of_a_transaction_or_export(role: str, how: str, ground: Ground, plain_sample: Sample) -> None:
    path = role_path(plain_sample, role)
    ground.fill(plain_sample.files)
    spoil(ground.store, path, how)
    if role == "save":
        # without its last save, a transaction is as it was at the save before
        want = Wanted(frozenset(), damaged=False) if how == "missing" else wanted(COPY, path, damaged=False)
        hold(full(ground.store), want)
        spoil(ground.store, transaction_path(plain_sample.open_transaction), how)
    want = Wanted(frozenset(), damaged=False) if (role, how) == ("save", "missing") else wanted(KEPT[role], path)
    report = hold_every_way(ground, plain_sample, want)
    assert report.last_sound_version == plain_sample.latest
    if want.damaged:
        [error] = [one for one in report.findings if one.severity is Severity.ERROR]
        assert error.path == path


@pytest.mark.parametrize(("ground", "role", "how"), on_grounds("manifest"), indirect=["ground"])
def test_a_manifest(role: str, how: str, ground: Ground, expired_sample: Sample) -> None:
    """The manifest names files to delete, and no kept version needs it."""
    ground.fill(expired_sample.files)
    spoil(ground.store, role_path(expired_sample, role), how)
    hold_every_way(ground, expired_sample, Wanted(frozenset(), damaged=False))


@pytest.mark.parametrize("how", [how for how in FILE_DAMAGE if how != "flipped"])
@pytest.mark.parametrize("role", ["inner", "leaf", "catalog", "table", "running-root", "pin", "first-root"])
def test_a_file_of_an_expired_catalog(role: str, how: str, expired_sample: Sample, local_ground: Ground) -> None:
    ground = local_ground
    path = role_path(expired_sample, role)
    ground.fill(expired_sample.files)
    spoil(ground.store, path, how)
    report = hold_every_way(ground, expired_sample, Wanted(frozenset()))
    assert all(version >= expired_sample.oldest for one in report.findings for version in numbers(one)), shown(report)


# What whole files say


STORE_MATTERS = ("pointer_cases", "version_cases")
"""Cases that ask for missing paths. The content of decoded files is the same on every store."""

THERE = [one for one in ALL if not one.local and one.do.__module__.endswith(STORE_MATTERS)]


@pytest.mark.parametrize(
    ("ground", "one"),
    [
        pytest.param(name, one, id=f"{name}-{one.name}")
        for name, cases in (("local", ALL), ("s3", THERE))
        for one in cases
    ],
    indirect=["ground"],
)
def test_a_catalog_that_lies(one: Case, ground: Ground, plain_sample: Sample, expired_sample: Sample) -> None:
    sample = expired_sample if one.expired else plain_sample
    ground.fill(sample.files)
    hold_every_way(ground, sample, one.do(sample, ground.store), same=False)


@pytest.mark.parametrize("name", ["sound", "keys_out_of_order", "latest_hint-behind", "no_root_at_all"])
def test_the_command_on_a_bucket(name: str, ground: Ground, plain_sample: Sample) -> None:
    [one] = [one for one in ALL if one.name == name]
    ground.fill(plain_sample.files)
    one.do(plain_sample, ground.store)
    hold_command(ground, full(ground.store))


def test_a_place_without_a_catalog(ground: Ground) -> None:
    ground.fill({"README.md": b"nothing here"})
    with pytest.raises(CatalogNotFound):
        full(ground.store)
    done = CliRunner().invoke(app, [*ground.words, "fsck", "--json"], catch_exceptions=False)
    assert done.exit_code == 10


@pytest.mark.parametrize(
    ("ground", "kind"),
    [("local", "unknown"), ("local", "temporary"), ("s3", "orphan"), ("s3", "unknown")],
    indirect=["ground"],
)
def test_thousands_of_files_that_nothing_leads_to(kind: str, ground: Ground, plain_sample: Sample) -> None:
    """The first twenty are named, the rest are counted, and nothing is wrong."""
    # several pages of a bucket; a disk takes a millisecond for each; a million were tried by hand
    count = 5_000 if ground.name == "s3" else 1_500
    form, code = {
        "unknown": ("junk/{:06}.txt", "F903"),
        "orphan": ("node/00000000-0000-4000-8000-{:012}.arrow", "F901"),
        "temporary": ("node/.tmp-00000000-0000-4000-8000-{:012}", "F905"),
    }[kind]
    before = sum(one.code == code for one in full(plain_sample.store()).findings)
    ground.fill({**plain_sample.files, **{form.format(at): b"xy" for at in range(count)}})
    report = full(ground.store)
    assert not report.damaged, shown(report)
    found = [one for one in report.findings if one.code == code]
    assert len(found) == 21, f"{len(found)} of {code}"
    rest = found[-1]
    assert f"{before + count - 20:,}" in rest.message, rest
    assert report.last_sound_version == plain_sample.latest


# What only a local disk can hold


@pytest.fixture
def on_disk(plain_sample: Sample, local_ground: Ground) -> tuple[Path, Ground]:
    local_ground.fill(plain_sample.files)
    return Path(local_ground.words[1]), local_ground


def test_a_folder_in_the_place_of_a_file(on_disk: tuple[Path, Ground], plain_sample: Sample) -> None:
    folder, ground = on_disk
    for path, code in (
        (leaf_of_tables(plain_sample), "F201|F205"),
        (definition(plain_sample, "table"), "F301|F205"),
        (root_path(5), "F101|F205"),
        (catalog_def(plain_sample), "F307|F205"),
    ):
        data = (folder / path).read_bytes()
        (folder / path).unlink()
        (folder / path).mkdir()
        hold_every_way(ground, plain_sample, wanted(code, path, versions=plain_sample.hit(path)))
        (folder / path).rmdir()
        (folder / path).write_bytes(data)


@pytest.mark.parametrize("target", ["/etc/passwd", "loop", "nowhere"])
def test_a_link_in_the_place_of_a_file(target: str, on_disk: tuple[Path, Ground], plain_sample: Sample) -> None:
    folder, ground = on_disk
    path = leaf_of_tables(plain_sample)
    (folder / path).unlink()
    (folder / path).symlink_to(folder / path if target == "loop" else target)
    hold_every_way(ground, plain_sample, wanted("F201|F205|F212", path, versions=plain_sample.hit(path)))


def test_a_pipe_in_the_place_of_a_file(on_disk: tuple[Path, Ground], plain_sample: Sample) -> None:
    import os

    folder, ground = on_disk
    path = leaf_of_tables(plain_sample)
    (folder / path).unlink()
    os.mkfifo(folder / path)
    hold_every_way(ground, plain_sample, wanted("F201|F205|F202|F203", path, versions=plain_sample.hit(path)))


def test_a_name_that_is_not_unicode(on_disk: tuple[Path, Ground], plain_sample: Sample) -> None:
    import os

    folder, ground = on_disk
    for where in (b"node/\xff.arrow", b"vn/\xfe", b"\xff"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + where)).write_bytes(b"x")
    report = full(LocalStore(str(folder)))
    assert not report.damaged, shown(report)
    hold_command(ground, report)
