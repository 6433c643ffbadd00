"""The repair of the hints."""

from __future__ import annotations

from collections.abc import Sequence

from olympia_cli.catalog.protection import names_lost
from olympia_cli.catalog.versions import Hints
from olympia_cli.format.paths import LATEST, OLDEST
from olympia_cli.ops.fsck.hints import begins_as_export, marked_oldest, replaceable
from olympia_cli.ops.repair.catalog import FormerCatalog
from olympia_cli.ops.repair.plan import RepairStep
from olympia_cli.storage.protocol import Store


def plan_hints(
    store: Store, hints: Hints, versions: Sequence[int], catalog: FormerCatalog, commits: bool
) -> tuple[list[RepairStep], list[tuple[str, int]], list[str]]:
    """Return the steps and the writes for wrong hints, and texts for hints that cannot be written.

    With `commits`, the repair commits, which also writes `vn/latest`.
    """
    stays = {path: error for path, error in hints.unread.items() if not replaceable(error)}
    head, steps, writes = versions[-1], [], []
    # an unfinished promotion still needs the number
    is_ahead = hints.latest is not None and hints.latest > head
    waits = is_ahead and not names_lost(hints.latest, head, catalog.definition)
    if hints.latest not in (head, head + commits) and LATEST not in stays and not waits:
        steps.append(RepairStep("hint latest", _step(store, hints, LATEST, hints.latest, head + commits)))
        writes.append((LATEST, head + commits))
    marked = marked_oldest(catalog.definition)
    truth = min(versions[0] if marked is None else marked, head)
    exists = hints.oldest is not None or OLDEST in hints.unread or store.exists(OLDEST)
    leads = hints.oldest is not None and hints.oldest > truth
    # the hint may lag, and may be missing before the first expire
    lags = (hints.oldest or 0) < truth
    is_lost = lags and (not exists if marked is not None else begins_as_export(store, catalog.definition, truth))
    is_wrong = leads or (exists and hints.oldest is None) or is_lost
    if is_wrong and OLDEST not in stays:
        steps.append(RepairStep("hint oldest", _step(store, hints, OLDEST, hints.oldest, truth)))
        writes.append((OLDEST, truth))
    return steps, writes, [f"{error.message}: move it away" for error in stays.values()]


def _step(store: Store, hints: Hints, path: str, was: int | None, version: int) -> str:
    if path in hints.unread:
        return f"{hints.unread[path].message}: write {version} in its place"
    if was is not None:
        return f"{path} says {was}: write {version}"
    return f"{path} is {'not a version number' if store.exists(path) else 'missing'}: write {version}"
