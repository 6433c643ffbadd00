"""Files without read permission are not damaged: fsck reports the missing permission, and gives no verdict."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.versions import Hints, read_hints
from olympia_cli.errors import StorageDenied
from olympia_cli.names import Oldest
from olympia_cli.ops.fsck import Level
from olympia_cli.ops.repair.repair import plan_repair
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, table
from tests.helpers.places import gcs_place, s3_place
from tests.helpers.servers.proxy import Fault, Mode


@pytest.mark.parametrize("kind", ["vn", "node", "table"])
def test_no_permission_for_some_files_is_no_damage(faulty, kind):
    proxy, place = faulty
    catalog = Catalog.create(place.open_behind(), order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for at in range(8):
            transaction.create_table(table(f"a.t{at}"), location(at))
    store = place.open()
    assert not fsck(store, level=Level.FULL).damaged
    # of several requests the first is answered, so that not all of a kind are denied
    proxy.break_with(Fault(Mode.DENIED_INSTEAD, methods=("GET",), path_contains=kind, at=range(1, 1000)))
    for ask in (lambda: fsck(store, level=Level.FULL), lambda: plan_repair(store)):
        with pytest.raises(StorageDenied) as raised:
            ask()
        assert raised.value.exit_code == 31


@pytest.mark.parametrize("hint", ["latest", "oldest"])
def test_a_hint_without_permission_stops_no_command(faulty, hint):
    proxy, place = faulty
    Catalog.create(place.open_behind())
    proxy.break_with(Fault(Mode.DENIED_INSTEAD, path_contains=hint))
    store = place.open()
    for number in range(3):
        with Catalog(store).transaction() as transaction:
            transaction.create_namespace(ns(f"n{number}"))
    assert Catalog(store).snapshot().version == 3
    assert Catalog(store).snapshot(Oldest()).version == 0
    assert list(read_hints(store).unread) == [f"vn/{hint}"]
    found = fsck(store, level=Level.FULL)
    assert [(each.code, each.path) for each in found.findings if each.code.startswith("F1")] == [("F118", f"vn/{hint}")]
    assert not found.damaged


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_keys_below_a_hint_are_keys_like_any_other(kind, request):
    """A bucket has no folders: what a console or a mount leaves as one does not hide the hint beside it."""
    server = request.getfixturevalue({"s3": "strict_s3", "gcs": "small_gcs"}[kind])
    place = (s3_place if kind == "s3" else gcs_place)(server.url)
    store = place.open()
    catalog = Catalog.create(store)
    for hint in ("latest", "oldest"):
        for below in (f"vn/{hint}/", f"vn/{hint}//", f"vn/{hint}/x", f"vn/{hint}/latest"):
            store._bucket.put(f"{store._root}{below}", b"7", exclusive=True, seconds=30)
    for number in range(3):
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns(f"n{number}"))
    store.close()
    assert read_hints(place.open()) == Hints(3, None)
    assert Catalog(place.open()).snapshot().version == 3
    found = fsck(place.open(), level=Level.FULL, all_versions=True)
    assert {each.code for each in found.findings} == {"F903"}
    assert plan_repair(place.open()).nothing_to_do
    place.close()
