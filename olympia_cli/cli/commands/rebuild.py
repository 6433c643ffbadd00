from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from olympia_cli.cli.context import Session
from olympia_cli.cli.params import DryRun, Message, RetryFor

if TYPE_CHECKING:
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.format.pb.objects_pb2 import CatalogDef
    from olympia_cli.importers.iceberg import Imported

EXAMPLES = [
    "olympia rebuild s3://lake/catalog -c s3://lake/new --dry-run",
    "olympia rebuild s3://lake/catalog -c s3://lake/new",
]
_HINT = "see the reasons: what the files do not tell is for you to name and to register"


def run(
    ctx: typer.Context,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Where the catalog was whose tree is gone.")],
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Make a catalog from definitions and metadata files alone.

    For a catalog that has no root any more: where there are roots, fsck --repair and --salvage know more. The new one
    is made where there is none; a catalog of other objects is refused. Each object is as its newest definition says,
    under the name that it had then, and a table goes on to the newest metadata that follows. What was renamed later, or
    dropped, cannot be told from the rest. What is doubtful is left out and told, and the exit code is 3. Running it
    again changes nothing. Tables of which only the metadata is left are brought by import iceberg.
    """
    from olympia_cli.catalog.catalog import Catalog
    from olympia_cli.cli.import_render import print_imported
    from olympia_cli.errors import CatalogNotFound, InvalidLocation
    from olympia_cli.importers.iceberg import Imported
    from olympia_cli.importers.rebuild import check_gone, check_target, newest_catalog, objects_left
    from olympia_cli.ops.export.destination import check_apart

    there, session = Session(ctx, prefix), Session(ctx)
    if there.store.uri == session.store.uri:
        raise InvalidLocation(f"{prefix} is the new catalog itself", hint="choose another place for it")
    check_apart(there.store.uri, session.store.uri)
    check_gone(there.store)
    former = newest_catalog(there.store)
    doubts = Imported()
    with session.progress() as progress:
        progress.phase("reading definitions")
        changes = list(objects_left(there.store, lambda location: there.options_for(location) or None, doubts))
    if former is None and not changes:
        raise CatalogNotFound(f"there is nothing of a catalog at {prefix}", hint="check the location")

    def bring(transaction: Transaction) -> Imported:
        from olympia_cli.importers.bringing import Bringing
        from olympia_cli.importers.renaming import Renaming

        outcome = Imported(left_out=list(doubts.left_out))
        Bringing(transaction, None, Renaming(transaction.base.sizes, keeps_legal=True), outcome).take_present(changes)
        return outcome

    try:
        check_target(session.snapshot(), changes)
    except CatalogNotFound:
        if dry_run:
            from olympia_cli.catalog.catalog import check_free
            from olympia_cli.storage.memory import MemoryStore

            check_free(session.store)
            outcome = bring(Catalog.create(MemoryStore(), **_like(former)).begin())
            print_imported(session, outcome, 0, True, "object", hint=_HINT)
            return
        Catalog.create(session.store, **_like(former))
    rebuilt: list[Imported] = []
    if dry_run:
        transaction = session.catalog.begin()
        rebuilt.append(bring(transaction))
        version = transaction.base.version
    else:
        changed = session.change(
            lambda transaction: rebuilt.append(bring(transaction)),
            message=message or f"rebuilt from {there.store.uri}",
            retry_for=retry_for,
            again=True,
            atomic=True,
        )
        assert changed.version is not None
        version = changed.version
    print_imported(session, rebuilt[-1], version, dry_run, "object", hint=_HINT)


def _like(former: CatalogDef | None) -> dict[str, Any]:
    """What the new catalog has of the former one, as far as that is known."""
    from olympia_cli.catalog.checks import known_settings

    if former is None:
        return {}
    return {
        "order": former.order,
        "namespace_name_max_bytes": former.namespace_name_max_size_bytes,
        "table_name_max_bytes": former.table_name_max_size_bytes,
        "view_name_max_bytes": former.view_name_max_size_bytes,
        "node_file_max_bytes": former.node_file_max_size_bytes,
        "txn_ttl_millis": former.txn_ttl_millis,
        "isolation": former.txn_isolation_level,
        "properties": known_settings(former.properties),
    }
