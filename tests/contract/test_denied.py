"""What may not be read is not damaged: fsck says that it has no permission, and gives no verdict."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import StorageDenied
from olympia_cli.ops.fsck.fsck import Level
from olympia_cli.ops.repair.repair import plan_repair
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, table
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
