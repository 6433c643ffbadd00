from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from olympia_cli.cli.options import DryRun, Message, RetryFor
from olympia_cli.cli.session import Session

if TYPE_CHECKING:
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.format.pb.objects_pb2 import CatalogDef
    from olympia_cli.importers import ImportResult

EXAMPLES = [
    "olympia rebuild s3://lake/catalog -c s3://lake/new --dry-run",
    "olympia rebuild s3://lake/catalog -c s3://lake/new",
]
_HINT = "see the reasons, and create or register the objects that are left out yourself"


def run(
    ctx: typer.Context,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="Location of the catalog that lost its tree.")],
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Make a catalog from definitions and metadata files alone.

    For a catalog that has lost all its roots; if there is a root, fsck --repair and --salvage recover more. The new
    catalog is created if it does not exist; a catalog with other objects is refused. Each object gets its newest
    definition, and the name in it. A table gets the newest metadata that follows its definition. Later renames and
    drops cannot be detected. Doubtful objects are left out and reported, and the exit code is 3. Running it again
    changes nothing. If only the metadata of a table is left, use import iceberg.
    """
    from olympia_cli.catalog.catalog import Catalog
    from olympia_cli.cli.output.imports import print_imported
    from olympia_cli.errors import CatalogNotFound, InvalidLocation
    from olympia_cli.importers import ImportResult, check_gone, check_target, newest_catalog, objects_left
    from olympia_cli.ops.export import check_apart

    there, session = Session(ctx, prefix), Session(ctx)
    if there.store.uri == session.store.uri:
        raise InvalidLocation(f"{prefix} is the new catalog itself", hint="choose another place for it")
    check_apart(there.store.uri, session.store.uri)
    check_gone(there.store)
    former = newest_catalog(there.store)
    doubts = ImportResult()
    with session.progress() as progress:
        progress.phase("reading definitions")
        changes = list(objects_left(there.store, lambda location: there.options_for(location) or None, doubts))
    if former is None and not changes:
        raise CatalogNotFound(f"there are no files of a catalog at {prefix}", hint="check the location")

    def bring(transaction: Transaction) -> ImportResult:
        from olympia_cli.importers import ObjectImport, PresentObjects, Renaming

        outcome = ImportResult(left_out=list(doubts.left_out))
        renaming = Renaming(transaction.base.sizes, keeps_legal=True)
        ObjectImport(PresentObjects.of(transaction), None, renaming, outcome).take_present(changes)
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
    rebuilt: list[ImportResult] = []
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
    if not dry_run:
        promote = session.command(["-c", prefix, "promote", session.location.uri])
        session.say(f"to put it in the place of the former catalog: {promote}")
    print_imported(session, rebuilt[-1], version, dry_run, "object", hint=_HINT)


def _like(former: CatalogDef | None) -> dict[str, Any]:
    """Return the settings of the former catalog, as far as they are known, for `Catalog.create`."""
    from olympia_cli.catalog.properties import known_settings

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
