"""The marks in quarantine as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from olympia_cli.catalog.quarantine import QuarantineMark, read_quarantine
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, PathMissing
from olympia_cli.format.paths import check_pointer, root_path
from olympia_cli.names import time_text
from olympia_cli.ops.expire.files import Listed
from olympia_cli.ops.expire.manifest import read_manifest
from olympia_cli.storage.protocol import Store


def list_marks(head: Snapshot, quarantine_millis: int) -> Iterator[dict[str, Any]]:
    """Yield each mark with its versions, its size, and the time from which it may be purged.

    If a manifest cannot be read, the size is unknown: files that only it names are not deleted.
    """
    for mark in read_quarantine(head.definition):
        try:
            totals = Listed(read_manifest(head.store, check_pointer(mark.manifest, head.root.catalog_def)).files).totals
            files, size, problem = totals.files, totals.bytes, None
        except Damaged as error:
            files, size, problem = None, None, error.message
        marked = _marked_at_millis(head.store, mark)
        yield {
            "version": mark.version,
            "expired_versions": list(range(mark.former_oldest, min(mark.oldest, head.version))),
            "marked_at": None if marked is None else time_text(marked),
            "purge_after": None if marked is None else time_text(marked + quarantine_millis),
            "files": files,
            "bytes": size,
            "manifest": mark.manifest,
            "problem": problem,
        }


def sum_up_marks(head: Snapshot, quarantine_millis: int) -> dict[str, Any]:
    """Return the number of marks and versions in quarantine, and the time of the next purge. Manifests may be large,
    and are not read.
    """
    marks = read_quarantine(head.definition)
    marked = _marked_at_millis(head.store, marks[0]) if marks else None
    return {
        "marks": len(marks),
        "versions": sum(max(0, mark.oldest - mark.former_oldest) for mark in marks),
        "purge_after": None if marked is None else time_text(marked + quarantine_millis),
    }


def _marked_at_millis(store: Store, mark: QuarantineMark) -> int | None:
    """Return the time of a mark by the store's clock, or None if an older purge has deleted its root."""
    try:
        return store.stat(root_path(mark.version)).modified_at_millis
    except PathMissing:
        return None
