"""Is a version whole? fsck's verdict, which every kind of export asks for before it gives out what it copied."""

from __future__ import annotations

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.replay import check_kept
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged
from olympia_cli.format.paths import OLDEST
from olympia_cli.ops.fsck.chain import Chain, ChainRoot, list_versions
from olympia_cli.ops.fsck.examined import Engine
from olympia_cli.ops.fsck.hints import open_chain, read_hint
from olympia_cli.ops.fsck.sound import errors_of, examine_version
from olympia_cli.ops.walk.files import Files, failures_pass


def read_whole(catalog: Catalog, latest: Snapshot, snapshot: Snapshot, files: Files, engine: Engine) -> None:
    """Read all that a version reaches, by way of `files`. Damaged when it is not whole, by the verdict of fsck."""
    file = snapshot.file
    with failures_pass():
        chain = _chain(latest)
        chain.ahead = {file.version: ChainRoot(file.version, file.path, file.data, snapshot.root, None)}
        examined, verdict = examine_version(files, chain, file.version, engine)
    newer = {mark.path: mark.flaw for mark in examined.graph.marks if mark.flaw.newer}
    for error in errors_of(verdict):
        # an expire deletes files of versions that no longer count
        latest = catalog.snapshot()
        check_kept(file.version, latest.definition)
        if error.path in newer:
            raise newer[error.path].error(error.path)
        damage = Damaged(error.code, error.path, error.message)
        damage.advice = "nothing was recorded; export a version that is whole, and see what is damaged in this one"
        if file.version != latest.version:
            damage.command = (*damage.command, "--at", f"v{file.version}")
        raise damage


def _chain(latest: Snapshot) -> Chain:
    """The versions up to the latest as fsck has them: what rests in quarantine tells what the catalog is, and its logs
    what was written. A listing finds them, since a gap ends what a reader can walk back."""
    files, newest = Files(latest.store, lambda: False), latest.version
    listed, _ = list_versions(latest.store)
    # a listing may lag behind the version that is open
    versions = sorted({newest, *(version for version in listed if version < newest)})
    chain, _ = open_chain(files, versions, latest.file.width, read_hint(files, OLDEST))
    # what the export has is read on its own way
    chain.catalogs = {}
    return chain
