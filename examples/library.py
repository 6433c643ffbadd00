"""A tour of one minute in Python: create a catalog, change it, read an old version, and roll back.

python examples/library.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from olympia_cli import AtVersion, Catalog, CommitConflict, NamespaceName, Snapshot, TableName
from olympia_cli.catalog import distributed
from olympia_cli.format.actions import commit_info
from olympia_cli.format.pb.actions_pb2 import ActionType


def say(text: str) -> None:
    print(f"\n# {text}")


def show(snapshot: Snapshot) -> None:
    for namespace in snapshot.namespaces():
        tables = ", ".join(name.name for name in snapshot.tables(namespace.namespace)) or "(empty)"
        print(f"  v{snapshot.version}  {namespace}: {tables}")


def show_log(catalog: Catalog) -> None:
    for version in range(catalog.snapshot().version, -1, -1):
        snapshot = catalog.snapshot(AtVersion(version))
        actions = snapshot.actions()
        info = commit_info(actions)
        time = datetime.fromtimestamp(snapshot.created_at_millis / 1000, UTC)
        message = info.message if info is not None else ""
        print(f"  v{version}  {time:%Y-%m-%d %H:%M:%SZ}  {message}")
        for action in actions:
            if action.type != ActionType.COMMIT_INFO:
                print(f"        {action.type_name} {action.name or ''}")


def main(folder: Path) -> None:
    say(f"a catalog is a folder: {folder}")
    catalog = Catalog.create(folder)

    say("one transaction, many objects")
    with catalog.transaction("adopt the warehouse") as transaction:
        transaction.create_namespace(NamespaceName("sales"), {"owner": "ann"})
        transaction.create_namespace(NamespaceName("finance"))
        for name in ("orders", "lines", "customers"):
            transaction.create_table(TableName("sales", name), f"s3://lake/sales/{name}/metadata/00000.json")
    show(catalog.snapshot())

    say("concurrent writers: independent changes are merged, others are a conflict")
    one, two, three = catalog.begin(), catalog.begin(), catalog.begin()
    one.alter_namespace(NamespaceName("sales"), {"tier": "gold"})
    two.alter_namespace(NamespaceName("sales"), {"region": "eu"})
    three.alter_namespace(NamespaceName("sales"), {"tier": "silver"})
    catalog.commit(one, "tier")
    catalog.commit(two, "region")
    print("  properties:", dict(sorted(catalog.snapshot().namespace(NamespaceName("sales")).properties.items())))
    try:
        catalog.commit(three, "tier again")
    except CommitConflict as conflict:
        print("  error:", conflict)

    say("a transaction that is begun here and finished by another process")
    begun = distributed.begin(catalog)
    begun.transaction.rename_table(TableName("sales", "lines"), TableName("sales", "order_lines"))
    begun.save()
    resumed = distributed.load(Catalog.open(folder), begun.id)
    resumed.transaction.drop_table(TableName("sales", "customers"))
    resumed.commit("tidy up")
    show(catalog.snapshot())

    say("the whole catalog as it was at version 1")
    show(catalog.snapshot(AtVersion(1)))

    say("roll back to it, as a new version")
    transaction = catalog.begin()
    transaction.roll_back(1)
    catalog.commit(transaction, "that was too tidy")
    show(catalog.snapshot())

    say("the log, newest first")
    show_log(catalog)

    say("a catalog is plain files")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    print(f"  {len(files)} files, {sum(path.stat().st_size for path in files):,} bytes, for example")
    for path in files[:: max(1, len(files) // 5)]:
        print(f"  {path.relative_to(folder)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary) / "catalog")
