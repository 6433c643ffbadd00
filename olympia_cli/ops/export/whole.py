"""Check with fsck that a version is sound, before any kind of export completes."""

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
    """Read all files of a version through `files`. Raise Damaged if fsck finds the version damaged."""
    file = snapshot.file
    with failures_pass():
        chain = _chain(latest)
        chain.ahead = {file.version: ChainRoot(file.version, file.path, file.data, snapshot.root, None)}
        examined, verdict = examine_version(files, chain, file.version, engine)
    newer = {mark.path: mark.flaw for mark in examined.graph.marks if mark.flaw.newer}
    for error in errors_of(verdict):
        # the version may have been expired in the meantime
        latest = catalog.snapshot()
        check_kept(file.version, latest.definition)
        if error.path in newer:
            raise newer[error.path].error(error.path)
        damage = Damaged(error.code, error.path, error.message)
        damage.advice = "nothing was recorded; export a sound version, and check the damage of this one"
        if file.version != latest.version:
            damage.command = (*damage.command, "--at", f"v{file.version}")
        raise damage


def _chain(latest: Snapshot) -> Chain:
    """Return the versions up to the latest, from a listing.

    fsck needs older versions too: versions in quarantine help to find the catalog definition, and logs tell which files
    were written. A reader that walks back from the latest stops at a gap.
    """
    files, newest = Files(latest.store, lambda: False), latest.version
    listed, _ = list_versions(latest.store)
    # a listing may lag behind the open version
    versions = sorted({newest, *(version for version in listed if version < newest)})
    chain, _ = open_chain(files, versions, latest.file.width, read_hint(files, OLDEST))
    # the export's definition is read like its other files
    chain.catalogs = {}
    return chain
