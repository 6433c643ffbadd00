"""Exports from one kind of store to another, over real protocols."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.retained import find_export
from olympia_cli.errors import InvalidLocation, LocationNotEmpty
from olympia_cli.names import AtExport
from olympia_cli.ops.export.export import create_export, resume_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.export.records import delete_files, drop_export, plan_deletion
from olympia_cli.ops.export.verify import note_of, verify_export
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import Store
from tests.helpers.check import check_catalog, replay
from tests.helpers.exports import contents, files, make_catalog, own_files
from tests.helpers.places import BUCKET, Place, gcs_place, quiet_environment, s3_options, s3_place
from tests.helpers.servers.gcs import SmallGcs
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.stores import CuttingStore, PowerCut

SCOPES = {"full": scope(Mode.FULL), "minimal": scope(Mode.MINIMAL), "two levels": scope(Mode.PARTIAL, 2)}


@pytest.fixture(autouse=True, scope="module")
def _no_network() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        quiet_environment(patch)
        yield


@pytest.fixture(scope="module")
def s3() -> Iterator[StrictS3]:
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(scope="module")
def gcs() -> Iterator[SmallGcs]:
    with SmallGcs() as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture
def place(request, tmp_path) -> Iterator[object]:
    """A fresh place of a kind."""
    made: list[Place] = []
    numbers = itertools.count()

    def fresh(kind: str) -> Store:
        if kind == "local":
            return LocalStore(tmp_path / f"local{next(numbers)}")
        found = (
            s3_place(request.getfixturevalue("s3").url)
            if kind == "s3"
            else gcs_place(request.getfixturevalue("gcs").url)
        )
        made.append(found)
        return found.open()

    yield fresh
    for one in made:
        one.close()


PAIRS = [("local", "s3"), ("s3", "local"), ("s3", "s3"), ("local", "gcs"), ("gcs", "s3")]
SHARING = [("local", "s3"), ("gcs", "s3")]
"""Shared files are read from their own place: a folder and a bucket."""


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [(*pair, "full") for pair in PAIRS] + [(*pair, wanted) for pair in SHARING for wanted in ("minimal", "two levels")],
    ids=lambda word: word,
)
def test_an_export_works_between_any_two_stores(place, source, target, wanted):
    catalog = make_catalog(place(source))
    dest = place(target)
    before = contents(catalog)
    done = create_export(catalog, dest, "friday", SCOPES[wanted])
    record = find_export("friday", catalog.snapshot().definition)
    assert record.location == done.location == dest.uri
    assert record.root.startswith({"local": "file:///", "s3": "s3://", "gcs": "gs://"}[target])
    assert verify_export(dest, note_of(dest, record), catalog.store).findings == ()
    assert contents(catalog, reference=AtExport("friday")) == before
    if wanted == "full":
        check_catalog(dest)
        assert contents(Catalog(dest, catalog.clock)) == before
        plan = plan_deletion(dest, record, catalog.snapshot().definition.id, catalog.store.uri)
        drop_export(catalog, "friday")
        delete_files(plan)
        assert list(dest.list()) == []
    replay(catalog.store)


@pytest.mark.parametrize(("source", "target"), [("local", "s3"), ("s3", "local")])
def test_an_interrupted_export_resumes_between_stores(place, source, target):
    catalog, dest = make_catalog(place(source), tables=5), place(target)
    total = CuttingStore(place(target))
    create_export(catalog, total, "thursday", SCOPES["full"])
    with pytest.raises(PowerCut):
        create_export(catalog, CuttingStore(dest, total.writes // 2), "friday", SCOPES["full"])
    there = own_files(dest)
    assert there
    done = resume_export(catalog, dest, "friday")
    assert there.items() <= own_files(dest).items()
    assert done.count.files == len(own_files(dest))
    check_catalog(dest)


def test_a_prefix_inside_the_catalog_and_one_around_it(s3):
    from olympia_cli.storage.s3 import S3Store

    def at(prefix: str) -> S3Store:
        return S3Store(BUCKET, prefix, s3_options(s3.url))

    catalog = make_catalog(at("around/catalog"), tables=1)
    before = files(catalog.store)
    with pytest.raises(InvalidLocation):
        create_export(catalog, at("around/catalog/x"), "friday", SCOPES["full"])
    for prefix in ("around", "around/catalog", ""):
        with pytest.raises(LocationNotEmpty):
            create_export(catalog, at(prefix), "friday", SCOPES["full"])
    assert files(catalog.store) == before
    create_export(catalog, at("around/catalog-2"), "friday", SCOPES["full"])


def test_the_same_prefix_on_another_server(s3):
    """For example, a catalog moves from one cloud to another."""
    from olympia_cli.storage.s3 import S3Store

    with StrictS3() as other:
        other.create_bucket(BUCKET)
        catalog = make_catalog(S3Store(BUCKET, "moving", s3_options(s3.url)), tables=1)
        dest = S3Store(BUCKET, "moving", s3_options(other.url))
        create_export(catalog, dest, "friday", SCOPES["full"])
        check_catalog(dest)
        dest.close()


def location_uri(root: str) -> str:
    """The URI of a root without the root."""
    return root.rpartition("/vn/")[0]


def test_a_folder_with_an_odd_name(tmp_path):
    catalog = make_catalog(LocalStore(tmp_path / "catalog"), tables=1)
    for name in ("with space", "per%20cent", "é", "a#b?c"):
        dest = LocalStore(tmp_path / name)
        create_export(catalog, dest, name.replace(" ", "_"), SCOPES["full"])
        record = find_export(name.replace(" ", "_"), catalog.snapshot().definition)
        assert record.location == str(tmp_path / name)
        # the URI that is recorded opens as it stands
        assert open_store(location_uri(record.root)).uri == record.location
        check_catalog(LocalStore(record.location))
