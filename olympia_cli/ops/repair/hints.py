"""What is wrong with the hints, and what they should say."""

from __future__ import annotations

from collections.abc import Sequence

from olympia_cli.catalog.versions import Hints
from olympia_cli.format.paths import LATEST, OLDEST
from olympia_cli.ops.fsck.hints import marked_oldest
from olympia_cli.ops.repair.catalog import FormerCatalog
from olympia_cli.ops.repair.plan import RepairStep
from olympia_cli.storage.protocol import Store


def plan_hints(
    store: Store, hints: Hints, versions: Sequence[int], catalog: FormerCatalog, commits: bool
) -> tuple[list[RepairStep], list[tuple[str, int]]]:
    """The hints that say something wrong; the commit of a repair writes `vn/latest` anyway."""
    head, steps, writes = versions[-1], [], []
    if hints.latest not in (head, head + commits):
        was = _was(store, LATEST, hints.latest)
        steps.append(RepairStep("hint latest", f"{LATEST} {was}: write {head + commits}"))
        writes.append((LATEST, head + commits))
    marked = marked_oldest(catalog.definition)
    truth = min(versions[0] if marked is None else marked, head)
    exists = hints.oldest is not None or store.exists(OLDEST)
    leads = hints.oldest is not None and hints.oldest > truth
    # it may lag, and before the first expire it need not be there at all
    if leads or (exists and hints.oldest is None) or (not exists and marked is not None and truth > 0):
        steps.append(RepairStep("hint oldest", f"{OLDEST} {_was(store, OLDEST, hints.oldest)}: write {truth}"))
        writes.append((OLDEST, truth))
    return steps, writes


def _was(store: Store, path: str, value: int | None) -> str:
    if value is not None:
        return f"says {value}"
    return "is not a version number" if store.exists(path) else "is missing"
