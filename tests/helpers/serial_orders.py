"""A model of isolation: it tells the outcomes of a history from a dict of names and statements run one after the other.

SERIALIZABLE: every statement of every transaction, including failed ones, has the outcome of a serial run. The
transactions of that run have the order of their versions. Any serial order would satisfy the definition. The order of
the log is the one that counts: each version can be read, and must be the result of the transactions up to it. A failure
therefore names the other orders that would explain the history. A transaction without writes stands after the version
on which it was committed.

SNAPSHOT: every statement has the outcome that it has on the version at which the transaction began. Its writes are
replayed in the order of versions, and succeed there too. Its reads and its failures may have changed.

A drop promises that the object is gone. At either level another transaction may have dropped it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_root
from olympia_cli.format.paths import root_path
from olympia_cli.names import Kind, ObjectName
from tests.helpers.histories import Playing
from tests.helpers.statements import Facts, State, beginning, facts, run

Contents = dict[ObjectName, Facts]


def violation(playing: Playing) -> str | None:
    """Return the violation in a history that was played, or None."""
    found = _versions(playing)
    log = sorted(
        (number for number, played in playing.transactions.items() if played.committed is not None),
        key=lambda number: (_version(playing, number), not _wrote(playing, number)),
    )
    state = beginning()
    versions = {1: dict(state)}
    for number in log:
        wrong = _redo(number, playing, state)
        if wrong is None and _wrote(playing, number):
            versions[len(versions) + 1] = dict(state)
            wrong = _difference(len(versions), state, found[len(versions)])
        if wrong is not None:
            return f"in the order {log}: {wrong}\n{_other_orders(log, playing, found)}"
    if len(versions) != len(found):
        return f"{len(found) - len(versions)} versions are nobody's"
    for number, played in playing.transactions.items():
        state = dict(versions[played.base])
        for statement, outcome in zip(played.plan.statements, played.outcomes, strict=True):
            if (expected := run(statement, state)) != outcome:
                return f"{number}: {statement} on version {played.base} gave {outcome}, not {expected}"
    return None


def _other_orders(log: Sequence[int], playing: Playing, found: dict[int, Contents]) -> str:
    good = [order for order in permutations(log) if _explains(order, playing, found)]
    return f"orders that explain it: {good}" if good else "no serial order explains it"


def _explains(order: Sequence[int], playing: Playing, found: dict[int, Contents]) -> bool:
    state = beginning()
    return all(_redo(number, playing, state) is None for number in order) and _contents(state) == found[max(found)]


def _redo(number: int, playing: Playing, state: State) -> str | None:
    """Do a transaction on a state; what is another outcome than it had, of those that it may rely on."""
    played = playing.transactions[number]
    for statement, outcome in zip(played.plan.statements, played.outcomes, strict=True):
        succeeded = statement.writes and outcome is None
        if played.plan.isolation == "snapshot" and not succeeded:
            continue
        again = run(statement, state)
        gone = statement.verb in ("drop", "cascade") and again == f"{statement.name.kind.word.capitalize()}NotFound"
        if again != outcome and not (succeeded and gone):
            return f"{number}: {statement} gives {again}, and gave {outcome}"
    return None


def _contents(state: State) -> Contents:
    return {name: made.facts for name, made in state.items()}


def _difference(version: int, state: State, found: Contents) -> str | None:
    expected = _contents(state)
    lines = [
        f"  {name.kind.word} {name}: should be {expected.get(name)}, is {found.get(name)}"
        for name in sorted({*expected, *found}, key=str)
        if expected.get(name) != found.get(name)
    ]
    return "\n".join((f"version {version}", *lines)) if lines else None


def _version(playing: Playing, number: int) -> int:
    committed = playing.transactions[number].committed
    assert committed is not None
    return committed.version


def _wrote(playing: Playing, number: int) -> bool:
    committed = playing.transactions[number].committed
    return committed is not None and bool(committed.actions)


def _versions(playing: Playing) -> dict[int, Contents]:
    versions: dict[int, Contents] = {}
    near: Snapshot | None = None
    while playing.store.exists(root_path(len(versions) + 1)):
        near = Snapshot(playing.store, read_root(playing.store, len(versions) + 1), near)
        kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
        objects = (found for kind in kinds for found in near.objects(kind))
        versions[near.version] = {found.name: facts(found.definition) for found in objects}
    return versions
