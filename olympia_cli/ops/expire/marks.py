"""What rests in quarantine, mark by mark, as plain values for any output."""

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
    """Each mark with its versions, how large it is, and when it has rested long enough to be purged. Of one whose
    manifest cannot be read the size is not known: nothing that only it names is deleted."""
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
    """How many marks and versions rest, and when the first of them may be purged. Manifests may be large, and are not
    read for that."""
    marks = read_quarantine(head.definition)
    marked = _marked_at_millis(head.store, marks[0]) if marks else None
    return {
        "marks": len(marks),
        "versions": sum(max(0, mark.oldest - mark.former_oldest) for mark in marks),
        "purge_after": None if marked is None else time_text(marked + quarantine_millis),
    }


def _marked_at_millis(store: Store, mark: QuarantineMark) -> int | None:
    """By the store's clock, which a purge goes by; None when the mark's own root is gone with an older purge."""
    try:
        return store.stat(root_path(mark.version)).modified_at_millis
    except PathMissing:
        return None
