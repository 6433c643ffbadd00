"""Move stray roots aside: this frees their names, and keeps the files."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from olympia_cli.errors import CommitConflict, PathMissing
from olympia_cli.format.paths import aside_path
from olympia_cli.ops.fsck.chain import ChainRoot
from olympia_cli.ops.repair.plan import Aside, RepairStep
from olympia_cli.storage.protocol import Store


def plan_aside(strays: Sequence[ChainRoot], latest: int) -> tuple[list[RepairStep], tuple[Aside, ...]]:
    """Return a step for each stray root, and the moves."""
    asides = tuple(map(_aside, strays))
    steps = [
        RepairStep(
            "set aside",
            f"move the root of v{stray.version}, which is no part of history after v{latest}, to {aside.copy_path}",
        )
        for stray, aside in zip(strays, asides, strict=True)
    ]
    return steps, asides


def set_aside(store: Store, asides: Sequence[Aside]) -> None:
    """Move files, each in this order:

    1. Create the copy, exclusively.
    2. Check that the file is unchanged: another repair may have freed the name, and a writer may have taken it.
    3. Delete the file.

    After a crash the file is still in place, and the move can be repeated.
    """
    for aside in asides:
        store.create(aside.copy_path, aside.data)
        try:
            data = store.read(aside.path)
        except PathMissing:
            continue
        if data != aside.data:
            raise CommitConflict(f"{aside.path} changed since this was planned", hint="it was left alone; plan again")
        store.delete_many([aside.path])


def _aside(stray: ChainRoot) -> Aside:
    assert stray.data is not None, "a stray root has been read"
    return Aside(stray.path, aside_path(stray.version, sha256(stray.data).hexdigest()[:16]), stray.data)
