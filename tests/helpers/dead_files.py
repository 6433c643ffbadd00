"""A catalog on disk with everything that an expire must tell apart.

It has an old history, a rollback, a quarantine, an export that shares files, live and dead transactions, and files that
are unknown or orphans.
"""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import new_definition_path, new_node_path, root_path
from olympia_cli.names import AtVersion, Kind
from olympia_cli.ops.expire import ExpirePlanner, Floors, Policy, mark, read_policy
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.storage.local import LocalStore
from tests.helpers.clock import DAY, HOUR, FakeClock
from tests.helpers.names import ns, table

FLOORS = Floors(DAY, DAY)


def policy_of(catalog: Catalog) -> Policy:
    return read_policy(catalog.snapshot().definition, catalog.clock.now_millis(), keep_last=3, older_than="3d")


def set_age(folder: Path, days: int) -> None:
    """Set the age of all files, in days."""
    then = time.time() - days * 86_400
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def make_worn_catalog(folder: Path, order: int = 4) -> Catalog:
    """In the folder `catalog`; the export is in `export`, and the tables' own metadata is nowhere."""
    clock = FakeClock()
    place = folder / "catalog"
    store = LocalStore(str(place))
    catalog = Catalog.create(store, order=order, txn_ttl_millis=6 * HOUR, clock=clock)

    def commit(*names: str, drop: str | None = None) -> None:
        clock.advance(HOUR)
        with catalog.transaction() as transaction:
            for name in names:
                transaction.create_table(table(name), f"{folder}/{name}.metadata.json")
            if drop is not None:
                transaction.drop_table(table(drop))

    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        transaction.create_namespace(ns("b"))
    for number in range(8):
        commit(*(f"{name}.t{number}_{at}" for name in "ab" for at in range(4)))
    shared = catalog.snapshot().version - 4
    commit(drop="a.t0_0")
    create_export(catalog, LocalStore(str(folder / "export")), "shared", scope(Mode.MINIMAL), at=AtVersion(shared))
    _save(catalog, "a.forgotten")
    clock.advance(20 * DAY)
    set_age(place, 30)
    done = mark(catalog, ExpirePlanner(catalog, FLOORS).expire(policy_of(catalog), not_beyond=3).mark)
    assert done is not None
    for number in range(4):
        commit(f"b.late{number}", drop=f"b.t{number}_1")
    undoing = catalog.begin()
    undoing.roll_back(catalog.snapshot().version - 2)
    catalog.commit(undoing, "back")
    commit("a.last")
    _save(catalog, "a.dead")
    clock.advance(10 * DAY)
    _save(catalog, *(f"a.running{number}" for number in range(20)))
    clock.advance(HOUR)
    for path in _strays():
        store.create(path, b"nobody needs it")
    (place / "node" / f".tmp-{uuid.uuid4()}").write_bytes(b"half")
    set_age(place, 30)
    for path in (new_node_path(), new_definition_path(Kind.TABLE, table("a.young"))):
        store.create(path, b"somebody may be about to need it")
    return catalog


def _save(catalog: Catalog, *names: str) -> None:
    """A distributed transaction that makes some tables, and is left there."""
    running = distributed.begin(catalog)
    for name in names:
        running.transaction.create_table(table(name), "/nowhere.metadata.json")
    running.save()


def _strays() -> list[str]:
    return [
        new_node_path(),
        new_definition_path(Kind.TABLE, table("a.stray")),
        new_definition_path(Kind.NAMESPACE, ns("stray")),
        "README.md",
        "node/notes.txt",
        root_path(1, 64),
    ]
