"""Writers, a rollback, readers and expires in every order of their storage operations.

*Exhaustive*: every pair of actors with one switch anywhere, and pairs that use the same names with two switches at
changes of names. Every actor sleeps for hours at each of its operations while others commit, mark and purge, also with
clocks that disagree. fsck is suspended at each of its operations, and an expire is killed at each of its own. *Random*,
with a fixed seed: all actors at once, with the clock as one more actor.

The rules for every order are in `expire_world.check_world` and `check_future`. The second half removes the promises
that ensure them, one at a time. The scheduler then finds an order that breaks a rule. A failure prints its schedule:
`replay(scene.play, schedule)` runs it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import combinations

import pytest

from olympia_cli.catalog import commit, distributed, references, staging, versions
from olympia_cli.catalog import replay as replay_actions
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import FileWriter
from olympia_cli.catalog.properties import EXPIRE_OLDEST, EXPIRE_PURGED
from olympia_cli.catalog.retained import QuarantineMark, purged_before, read_quarantine, write_quarantine
from olympia_cli.catalog.snapshot import expired_before
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import (
    Damaged,
    InvalidOption,
    TransactionExpired,
    TransactionNotFound,
    VersionNotFound,
)
from olympia_cli.format.actions import encode_action
from olympia_cli.format.codec import encode_root
from olympia_cli.format.definitions import bare
from olympia_cli.format.paths import LATEST, OLDEST, FileKind, file_kind, parse_root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, ExpireDef
from olympia_cli.ops import holders as expire_holders
from olympia_cli.ops.expire import Listed, Sweep, facts, retention
from olympia_cli.ops.expire import apply as expire
from olympia_cli.ops.expire import plan as expire_plan
from tests.helpers import scheduler
from tests.helpers.check import _read_tree as read_tree
from tests.helpers.clock import HOUR, MINUTE
from tests.helpers.expire_world import (
    FLOORS,
    LIFETIME,
    Acknowledged,
    Files,
    Scene,
    World,
    aged,
    check_now,
    digest,
    distribute,
    distribute_and_commit,
    hint,
    in_turn,
    mark_now,
    marked,
    marked_twice,
    plan_expire,
    purge_now,
    read,
    read_after_hint,
    read_old,
    rollback,
    share,
    skewed,
    undo_now,
    waiting,
    writer,
)
from tests.helpers.names import location, table
from tests.helpers.scheduler import Operation, Run, Stage, Work, check_all, explore, repeatable, replay, wander

pytestmark = pytest.mark.usefixtures("decoded_once")

T = ActionType

CAST: dict[str, Work] = {
    "writer": writer("x"),
    "other": writer("y"),
    "rollback": rollback(4),
    "mark": mark_now,
    "purge": purge_now,
    "undo": undo_now,
    "reader": read,
}
PAIRS = list(combinations(CAST, 2))

DAYS = in_turn(HOUR, writer("d1"), mark_now, HOUR, purge_now, writer("d2"), LIFETIME, mark_now, HOUR, purge_now)
"""Nearly nine hours, in which two tables are created, all is expired that may be, twice, and files are deleted."""

SLEEPERS: dict[str, Work] = {
    "writer": writer("x"),
    "rollback": rollback(4),
    "reader": read,
    "old reader": read_old(5),
    "export": share(5),
    "distributed": distribute,
    "distributed commit": distribute_and_commit,
    "mark": mark_now,
    "purge": purge_now,
    "undo": undo_now,
}


def where_names_change(operation: Operation) -> bool:
    """Return whether the operation writes or deletes versions, hints or manifests, or reads hints."""
    if operation.method == "read":
        return operation.path in (LATEST, OLDEST)
    changes = operation.method in ("create", "overwrite", "write_hint", "delete")
    return changes and operation.path.startswith(("vn/", "ops/"))


def _only(*parts: tuple[str, str, str]) -> Callable[[Operation], bool]:
    """Select operations by actor, method and the beginning of the path."""
    return lambda found: any(
        found.actor == actor and found.method == method and found.path.startswith(path) for actor, method, path in parts
    )


def _of(*actors: str) -> Callable[[Operation], bool]:
    return lambda operation: operation.actor in actors


def _find(runs, most: int = 4000) -> Run:
    """The first run in which something breaks."""
    count = 0
    for run in runs:
        count += 1
        if run.violation is not None:
            return run
        if count >= most:
            break
    pytest.fail(f"nothing breaks in {count} schedules: this promise is not needed, or not tested")


# What holds in every order


@pytest.mark.parametrize("part", range(4))
def test_every_pair_with_one_switch_anywhere(part):
    for first, second in PAIRS[part::4]:
        scene = Scene(marked, {first: CAST[first], second: CAST[second]}, may_refuse=[VersionNotFound])
        assert check_all(explore(scene.play, 1)) > 20
        assert scene.done == {first, second}
        assert scene.outcomes > 1 or {first, second} == {"reader", "undo"}


@pytest.mark.parametrize(
    "pair",
    [
        ("purge", "undo"),
        ("mark", "undo"),
        ("writer", "purge"),
        ("rollback", "purge"),
        ("rollback", "mark"),
        ("reader", "purge"),
        ("mark", "purge"),
        ("writer", "other"),
    ],
    ids="-".join,
)
def test_pairs_with_two_switches_where_names_change(pair):
    start = marked_twice if pair == ("purge", "undo") else marked
    scene = Scene(start, {name: CAST[name] for name in pair}, may_refuse=[VersionNotFound])
    assert check_all(explore(scene.play, 2, points=where_names_change)) > 40


@pytest.mark.parametrize("name", SLEEPERS)
def test_one_that_sleeps_for_hours_at_any_operation(name):
    """The actor ends as without the sleep, or with a clear error, and takes nothing from the others."""
    scene = Scene(marked, {name: SLEEPERS[name], "days": DAYS}, may_refuse=[VersionNotFound])
    assert check_all(explore(scene.play, 1, points=_of(name))) > 5
    assert scene.done == {name, "days"}


BESIDE_FSCK: dict[str, Work] = {
    **CAST,
    "distributed commit": distribute_and_commit,
    "export": share(5),
    "expire": in_turn(mark_now, HOUR, purge_now),
    "writer and distributed": in_turn(writer("y"), distribute),
}


@pytest.mark.parametrize("name", [name for name in BESIDE_FSCK if name not in ("other", "reader")])
def test_fsck_finds_no_damage_while_others_work(name):
    """At whatever operation of its own it is left while the other one does all that it does."""
    scene = Scene(marked, {"fsck": check_now, name: BESIDE_FSCK[name]}, look_ahead=100)
    assert check_all(explore(scene.play, 1, points=_of("fsck"))) > 20


def test_a_listing_that_shows_a_version_without_the_one_before(monkeypatch):
    """Names of versions are listed in no order of time: both may be committed between two pages."""
    monkeypatch.setattr(scheduler, "PAGE", 4)
    points = _only(("mark", "list", ""))

    def scene() -> Scene:
        return Scene(marked, {"mark": mark_now, "writer": writer("x"), "other": writer("y")})

    assert check_all(explore(scene().play, 1, points=points)) > 20

    def naive(latest):
        found = {version: 0 for file in latest.store.list("vn/") if (version := parse_root_path(file.path)) is not None}
        if any(version not in found for version in range(latest.version + 1, max(found))):
            raise Damaged("F101", versions.root_path(latest.version + 1), "it is missing")
        return found

    monkeypatch.setattr(facts, "_list_roots", naive)
    found = _find(explore(scene().play, 1, points=points))
    assert "mark ended in Damaged" in str(found.violation)


def test_two_expires_at_once(monkeypatch):
    """The overtaken expire reports it, and does not take files that the other one deleted for damage."""
    twice = in_turn(mark_now, purge_now)
    points = _only(("again", "read", "vn/"), ("again", "create", "vn/"))

    def scene() -> Scene:
        return Scene(marked_twice, {"again": twice, "expire": in_turn(HOUR, purge_now)})

    assert check_all(explore(scene().play, 1, points=points)) > 20
    monkeypatch.setattr(expire_plan.Planner, "_conflict_if_purged", lambda self: nullcontext())
    found = _find(explore(scene().play, 1, points=points))
    assert "again ended in Damaged" in str(found.violation)


@pytest.mark.parametrize("minutes", [-29, 29])
def test_one_that_sleeps_where_clocks_disagree(minutes):
    """By less than half an hour, between those that sleep, those that commit, and the store."""
    off = minutes * MINUTE
    others = [skewed(writer(name), -off) for name in ("d1", "d2", "d3")]
    days = in_turn(*others, LIFETIME + 31 * MINUTE, mark_now, HOUR, purge_now)
    for name, work in (("writer", writer("x")), ("distributed commit", distribute_and_commit)):
        scene = Scene(aged, {name: skewed(work, off), "days": days})
        assert check_all(explore(scene.play, 1, points=_of(name))) > 10


def test_a_writer_that_sleeps_for_hours_more_than_once():
    scene = Scene(aged, {"writer": writer("x"), "days": DAYS})
    points = _only(("writer", "create", ""), ("days", "wait", ""), ("days", "delete", "vn/"))
    assert check_all(explore(scene.play, 2, points=points)) > 50


def test_an_expire_killed_at_any_operation():
    """The versions that count stay whole, and the next expire finishes."""
    for start, work in ((marked, mark_now), (marked_twice, purge_now), (marked_twice, undo_now)):
        scene = Scene(start, {"killed": work}, look_ahead=1)
        runs = list(explore(scene.play, 1, mortal=["killed"]))
        assert check_all(runs) > 10
        assert isinstance(runs[0].ended["killed"].value, Acknowledged), "there was nothing for it to do"


@pytest.mark.parametrize("seed", range(2))
def test_all_at_once_in_random_orders(seed):
    actors = {
        "writer": writer("x"),
        "other": writer("y"),
        "rollback": rollback(4),
        "expire": in_turn(mark_now, HOUR, purge_now),
        "undo": undo_now,
        "reader": read,
        "distributed": distribute_and_commit,
        "export": share(5),
        "fsck": check_now,
        "clock": waiting(40 * MINUTE, HOUR, LIFETIME, HOUR),
    }
    scene = Scene(marked, actors, may_refuse=[VersionNotFound])
    assert check_all(wander(scene.play, 40, seed, mortal=["expire"])) == 40
    assert scene.outcomes > 30


def test_a_schedule_can_be_run_again():
    scene = Scene(marked, {"undo": undo_now, "purge": purge_now})
    runs = list(explore(scene.play, 1))
    again = replay(scene.play, runs[40].schedule)
    assert again.schedule == runs[40].schedule
    assert again.operations == runs[40].operations
    assert again.about["world"].files == runs[40].about["world"].files


@pytest.mark.parametrize("pair", [("writer", "purge"), ("reader", "mark")], ids="-".join)
def test_a_skipped_schedule_ends_like_its_representative(pair, monkeypatch):
    def ends() -> tuple[list[bytes], int]:
        scene = Scene(marked, {name: CAST[name] for name in pair}, may_refuse=[VersionNotFound])
        return [digest(run.about["world"], run.ended) for run in explore(scene.play, 1)], scene.runs

    told, few = ends()
    monkeypatch.setattr(scheduler, "_is_same", lambda *found: False)
    played, all_of_them = ends()
    assert told == played
    assert few < all_of_them == len(played)


# QuarantineMark, undo and purge check their conditions on the root that they commit on


def _unchecked(monkeypatch, type: ActionType) -> None:
    """Let this kind of expire do what it wants, whatever the root says that it commits on."""
    real = replay_actions._expired

    def naive(catalog, action, version):
        try:
            return real(bare(catalog), action, version)
        except InvalidOption:
            if action.type != type:
                raise
        change, marks = action.parse_payload(ExpireDef), read_quarantine(catalog)
        if type == T.CATALOG_EXPIRE_PURGE:
            catalog.properties[EXPIRE_PURGED] = str(max(change.purged, purged_before(catalog)))
            marks = [found for found in marks if found.manifest not in change.manifests]
        elif type == T.CATALOG_EXPIRE_MARK:
            marks = [*marks, QuarantineMark(version, change.oldest, expired_before(catalog), change.manifest)]
            catalog.properties[EXPIRE_OLDEST] = str(change.oldest)
        else:
            marks = [found for found in marks if found.former_oldest < change.oldest]
            catalog.properties[EXPIRE_OLDEST] = str(change.oldest)
        write_quarantine(catalog, marks)
        return catalog

    monkeypatch.setattr(replay_actions, "_expired", naive)


def _mark_below(version: int) -> Work:
    def work(stage: Stage) -> None:
        catalog = Catalog(stage.store, stage.clock)
        expire.mark(catalog, plan_expire(catalog, not_beyond=version).mark)

    return work


def test_without_its_check_a_mark_revives_purged_versions(monkeypatch):
    def scene() -> Scene:
        return Scene(aged, {"slow": _mark_below(3), "expire": in_turn(mark_now, HOUR, purge_now)})

    check_all(explore(scene().play, 1, points=_of("slow")))
    _unchecked(monkeypatch, T.CATALOG_EXPIRE_MARK)
    found = _find(explore(scene().play, 1, points=_of("slow")))
    assert "gaps" in str(found.violation)


def test_without_their_checks_an_undo_and_a_purge_both_have_their_way(monkeypatch):
    """The one brings back what is purged, or the other deletes what was brought back."""

    def scene() -> Scene:
        return Scene(marked, {"undo": undo_now, "purge": purge_now})

    check_all(explore(scene().play, 1, points=where_names_change))
    for type in (T.CATALOG_EXPIRE_UNDO, T.CATALOG_EXPIRE_PURGE):
        with monkeypatch.context() as patch:
            _unchecked(patch, type)
            found = _find(explore(scene().play, 1, points=where_names_change))
        assert "gaps" in str(found.violation)


# Revival


def test_without_the_refusal_a_rollback_revives_deleted_files(monkeypatch):
    def scene() -> Scene:
        return Scene(marked, {"rollback": rollback(2), "purge": purge_now}, may_refuse=[VersionNotFound])

    check_all(explore(scene().play, 1, points=_of("rollback")))
    monkeypatch.setattr(staging, "check_kept", lambda version, catalog: None)
    found = _find(explore(scene().play, 1))
    assert "missing" in str(found.violation)


def test_without_refusal_on_rebase_a_rollback_revives_deleted_files(monkeypatch):
    points = _only(("rollback", "create", "vn/"), ("expire", "delete", "vn/"))

    def scene() -> Scene:
        actors = {"rollback": rollback(2), "expire": in_turn(mark_now, HOUR, purge_now)}
        return Scene(aged, actors, may_refuse=[VersionNotFound])

    check_all(explore(scene().play, 2, points=points))
    rebasing = threading.local()
    real_check, real_rebase = staging.check_kept, Transaction.rebase

    def rebase(self, base, actions):
        rebasing.now = True
        try:
            real_rebase(self, base, actions)
        finally:
            rebasing.now = False

    def check(version, catalog):
        if not getattr(rebasing, "now", False):
            real_check(version, catalog)

    monkeypatch.setattr(Transaction, "rebase", rebase)
    monkeypatch.setattr(staging, "check_kept", check)
    found = _find(explore(scene().play, 2, points=points))
    assert "missing" in str(found.violation)


def _brings_back(stage: Stage) -> Acknowledged:
    """A program that does not know of expire: it makes an old version the latest, as a repair."""
    catalog = Catalog(stage.store, stage.clock)
    transaction = catalog.begin()
    old = versions.read_root(stage.store, 2)
    transaction.roll_back(transaction.base.version - 1)
    rolled = catalog.snapshot()
    root = replace(
        staging.Snapshot(stage.store, old).root,
        catalog_def=rolled.root.catalog_def,
        previous_root=rolled.file.path,
        rollback_from_root=rolled.file.path,
        created_at_millis=stage.clock.now_millis(),
    )
    actions = commit._committed_actions(transaction, commit.Author())
    rows = [encode_action(action, rolled.keys) for action in actions]
    stage.store.create(versions.root_path(rolled.version + 1), encode_root(root, rows))
    return Acknowledged(transaction.id, rolled.version + 1)


class _Whole(Scene):
    """The log of another program is not what this one would write, so only the files are looked at."""

    def _check(self, world, ended):
        for number in range(expired_before(world.catalog.snapshot().definition), world.last_version() + 1):
            read_tree(world, versions.root_path(number), f"version {number}")


def test_without_looking_for_revivals_a_purge_deletes_revived_files(monkeypatch):
    """Rollbacks, restores and exports of this program bring back only what a purge keeps anyway, because they are
    refused below `oldest`: for those, looking again is a second defence. So the one that comes between here is of a
    program that does not refuse.
    """
    points = _only(("purge", "create", "vn/"))

    def scene() -> Scene:
        return _Whole(marked, {"purge": purge_now, "revival": _brings_back})

    check_all(explore(scene().play, 1, points=points))
    monkeypatch.setattr(expire, "_revived", lambda head, planned_at: False)
    found = _find(explore(scene().play, 1, points=points))
    assert "missing" in str(found.violation)
    # what this program brings back is kept in any case
    check_all(explore(Scene(marked, {"purge": purge_now, "rollback": rollback(4)}).play, 1, points=points))


# Age


@cache
def _kept_an_hour() -> tuple[Files, int]:
    """Make the world of `aged` in a catalog that keeps versions for only an hour."""
    world = World(*aged())
    with repeatable("kept an hour"), world.catalog.transaction() as transaction:
        transaction.alter_catalog({"olympia.retention.max-version-age": "1h"})
    world.clock.advance(LIFETIME)
    return world.files, world.clock.wall


def test_without_the_lifetime_a_mark_takes_versions_that_are_in_use(monkeypatch):
    def scene() -> Scene:
        return Scene(
            _kept_an_hour,
            {"reader": read, "other": writer("y"), "expire": in_turn(2 * HOUR, mark_now, HOUR, purge_now)},
        )

    check_all(explore(scene().play, 1, points=_of("reader")))
    real = retention.why_kept

    def naive(*args):
        reason = real(*args)
        return "" if reason == "in-use" else reason

    monkeypatch.setattr(retention, "why_kept", naive)
    monkeypatch.setattr(expire_plan, "why_kept", naive)
    found = _find(explore(scene().play, 1, points=_of("reader")))
    assert "reader ended in Damaged" in str(found.violation)


def test_a_root_that_is_created_late_does_not_make_the_version_before_it_older(monkeypatch):
    """The root has a time from before its writer slept.

    A writer that began at the version before it has a lifetime from then on.
    """
    points = _only(("writer", "create", "vn/"), ("reader", "read", "node/"), ("expire", "wait", "1h"))

    def scene() -> Scene:
        expires = in_turn(LIFETIME - 6 * MINUTE, HOUR, mark_now, HOUR, purge_now)
        return Scene(aged, {"writer": writer("x"), "expire": expires, "reader": read})

    check_all(explore(scene().play, 3, points=points))
    real = retention.Versions.__init__

    def naive(self, head, oldest, known_roots=None, written=None):
        real(self, head, oldest, known_roots or {})

    monkeypatch.setattr(retention.Versions, "__init__", naive)
    found = _find(explore(scene().play, 3, points=points))
    assert "reader ended in Damaged" in str(found.violation)


def test_without_the_grace_period_a_purge_takes_files_of_a_writer_at_work(monkeypatch):
    """The writer was in time when it checked, and slept before it created its root. A purge was planned meanwhile."""
    points = _only(("writer", "create", "vn/"), ("purge", "create", "vn/"))

    def scene() -> Scene:
        return Scene(aged, {"writer": writer("x"), "mark": mark_now, "purge": in_turn(HOUR, purge_now)})

    check_all(explore(scene().play, 3, points=points))
    monkeypatch.setattr(Sweep, "is_old", lambda self, modified_at_millis: True)
    found = _find(explore(scene().play, 3, points=points))
    assert "missing" in str(found.violation)


def test_without_the_quarantine_a_purge_deletes_files_being_read(monkeypatch):
    def scene() -> Scene:
        return Scene(
            aged, {"reader": read_old(3), "expire": in_turn(mark_now, purge_now)}, may_refuse=[VersionNotFound]
        )

    check_all(explore(scene().play, 1, points=_of("reader")))
    monkeypatch.setattr(expire_plan, "rested", lambda facts: list(facts.marks))
    found = _find(explore(scene().play, 1, points=_of("reader")))
    assert "reader ended in Damaged" in str(found.violation)


def test_without_rewriting_old_files_a_commit_names_deleted_files(monkeypatch):
    def scene() -> Scene:
        return Scene(aged, {"writer": writer("x"), "expire": in_turn(HOUR, mark_now, HOUR, purge_now)})

    check_all(explore(scene().play, 1, points=_of("writer")))

    def naive(self, files, check_alive):
        self._written.update(files)
        check_alive()

    monkeypatch.setattr(FileWriter, "before_root", naive)
    found = _find(explore(scene().play, 1, points=_of("writer")))
    assert "missing" in str(found.violation)


# The freed name


FREEING_STEPS = (writer("d1"), writer("d2"), writer("d3"), LIFETIME + HOUR, mark_now, HOUR, purge_now)
FREEING = in_turn(*FREEING_STEPS)
"""After this the two names that come after version 6 are free again."""


def _forget_oldest(stage: Stage) -> None:
    """Reset vn/oldest, as if the mark had died before it wrote it."""
    stage.store.overwrite(OLDEST, b"0")


def _slept() -> Scene:
    return Scene(aged, {"writer": writer("x"), "days": FREEING})


def test_without_freed_name_check_an_acknowledged_commit_is_lost(monkeypatch):
    check_all(explore(_slept().play, 1, points=_of("writer")))
    monkeypatch.setattr(commit, "_check_not_freed", lambda transaction, version: None)
    found = _find(explore(_slept().play, 1, points=_of("writer")))
    assert "acknowledged and is not in history" in str(found.violation)


def test_a_transaction_past_its_lifetime_is_stopped_twice(monkeypatch):
    """Without `check_alive` the scheduler finds no failure.

    A writer that is this late finds its name taken, and is rebased on a version that counts. If the name is free, the
    check of the freed name stops it. The lifetime is the first of two defences. Without both, a commit is lost.
    """
    monkeypatch.setattr(Transaction, "check_alive", lambda self: None)
    check_all(explore(_slept().play, 1, points=_of("writer")))
    monkeypatch.setattr(commit, "_check_not_freed", lambda transaction, version: None)
    found = _find(explore(_slept().play, 1, points=_of("writer")))
    assert "acknowledged and is not in history" in str(found.violation)


# Hints


def test_without_looking_past_the_hint_readers_stay_behind(monkeypatch):
    def scene() -> Scene:
        return Scene(marked, {"reader": read_after_hint(5), "writer": writer("x")})

    check_all(explore(scene().play, 1))
    monkeypatch.setattr(versions, "last_version", lambda store, start, width=32, ceiling=None: start)
    found = _find(explore(scene().play, 1))
    assert "reader saw version 6 after 7" in str(found.violation)


@pytest.mark.parametrize("latest", [3, 6])
def test_an_expire_that_takes_the_hint_for_the_end_harms_nothing(monkeypatch, latest):
    """Looking past the hint is a second defence here. A mark is rebased on the last version, whatever it took for it,
    so it leaves out no file that is live; and a purge that looks at an older version finds no mark there, or one whose
    files it reaches all the same.
    """
    real = versions.last_version

    def naive(store, start, width=32, ceiling=None):
        return start if threading.current_thread().name == "expire" else real(store, start, width, ceiling)

    monkeypatch.setattr(versions, "last_version", naive)
    actors = {"late": hint(latest), "expire": in_turn(mark_now, HOUR, purge_now), "writer": writer("x")}
    points = _only(("expire", "read", LATEST), ("expire", "create", "vn/"), ("expire", "list", ""))
    assert check_all(explore(Scene(marked, actors, may_refuse=[VersionNotFound]).play, 1, points=points)) > 20


def test_deleting_the_newest_root_first_shows_an_old_version_as_the_latest(monkeypatch):
    points = _only(("reader", "read", "vn/0"), ("reader", "read", "vn/1"), ("expire", "delete", "vn/"))

    def scene() -> Scene:
        return Scene(aged, {"reader": read_after_hint(3), "expire": in_turn(mark_now, HOUR, purge_now)})

    check_all(explore(scene().play, 2, points=points))
    real = expire._delete

    class NewestFirst(Listed):
        def roots(self):
            return reversed(list(super().roots()))

    def naive(store, files, below, progress):
        real(store, NewestFirst(files), below, progress)

    monkeypatch.setattr(expire, "_delete", naive)
    found = _find(explore(scene().play, 2, points=points))
    assert "reader saw version" in str(found.violation)


def test_believing_two_roots_that_are_read_at_once_takes_a_purged_version_for_the_latest(monkeypatch):
    """The one that a hint names is read, both are purged, and the next one is missing: it must be looked at again."""
    points = _only(("reader", "read", "vn/0"), ("reader", "read", "vn/1"), ("expire", "delete", "vn/"))

    def scene() -> Scene:
        return Scene(aged, {"reader": read_after_hint(2), "expire": in_turn(mark_now, HOUR, purge_now)})

    check_all(explore(scene().play, 2, points=points))
    real = references.confirm

    def naive(store, candidate, paths=()):
        return candidate.guess or real(store, candidate, paths)

    monkeypatch.setattr(references, "confirm", naive)
    found = _find(explore(scene().play, 2, points=points))
    assert "reader ended in Damaged" in str(found.violation)


def test_writing_oldest_after_the_deletes_shows_a_leftover_as_the_latest(monkeypatch):
    """A late root at a freed name and an equally late hint must not mislead a reader that does not know the oldest
    version.

    The mark wrote the oldest version, too, but may have died before it did.
    """
    points = _only(("writer", "create", "vn/"), ("days", "overwrite", OLDEST))
    days = in_turn(*FREEING_STEPS[:-2], _forget_oldest, *FREEING_STEPS[-2:])

    def scene() -> Scene:
        return Scene(aged, {"writer": writer("x"), "days": days, "reader": read_after_hint(7)})

    check_all(explore(scene().play, 2, points=points))
    write, delete = expire._write_oldest, expire._delete

    def naive(catalog, *args):
        delete(catalog, *args)
        write(catalog)

    def skip(catalog):
        """Only a purge writes it late."""

    monkeypatch.setattr(expire, "_write_oldest", skip)
    monkeypatch.setattr(expire, "_delete", naive)
    found = _find(explore(scene().play, 2, points=points))
    assert "reader" in str(found.violation)


def test_without_looking_again_oldest_stays_ahead_of_an_undo(monkeypatch):
    """Two that write vn/oldest at once: the last to write it must be one that knows."""

    def scene() -> Scene:
        return Scene(marked, {"mark": mark_now, "undo": undo_now})

    check_all(explore(scene().play, 1, points=where_names_change))

    def naive(catalog):
        catalog.store.overwrite(OLDEST, str(expired_before(catalog.snapshot().definition)).encode())

    monkeypatch.setattr(expire, "_write_oldest", naive)
    found = _find(explore(scene().play, 1, points=where_names_change))
    assert "vn/oldest says" in str(found.violation)


# Candidates


def _purge_that_lists_late(stage: Stage) -> None:
    """Find the reachable files first, and list the existing ones only after the commit."""
    catalog = Catalog(stage.store, stage.clock)
    planner = expire_plan.Planner(catalog, FLOORS)
    plan = planner.purge()
    expire.purge(catalog, replace(plan, files=Listed()), planner.facts.head.version, FLOORS)
    now = stage.clock.now_millis()
    for file in list(stage.store.list()):
        old = now - file.modified_at_millis >= FLOORS.grace_millis
        needed = any(planner.needed([file.path]))
        if file_kind(file.path) in (FileKind.NODE, FileKind.DEFINITION) and old and not needed:
            stage.store.delete_many([file.path])


def test_listing_candidates_after_the_commit_deletes_new_files():
    def scene(work: Work) -> Scene:
        return Scene(marked, {"purge": work, "writer": writer("x"), "clock": waiting(2 * HOUR)})

    points = _only(("purge", "create", "vn/"), ("purge", "list", ""), ("purge", "delete", "ops/"))
    check_all(explore(scene(purge_now).play, 1, points=points))
    found = _find(explore(scene(_purge_that_lists_late).play, 1, points=points))
    assert "missing" in str(found.violation)


# Those that share files


def test_without_looking_for_live_transactions_their_files_go(monkeypatch):
    def scene() -> Scene:
        return Scene(aged, {"distributed": distribute, "expire": in_turn(HOUR, mark_now, HOUR, purge_now)})

    check_all(explore(scene().play, 1, points=_of("distributed")))
    monkeypatch.setattr(expire_holders.Holders, "_live_transactions", lambda self: [])
    found = _find(explore(scene().play, 1))
    assert "cannot be loaded" in str(found.violation) or "missing" in str(found.violation)


def test_without_looking_for_exports_a_purge_deletes_shared_files(monkeypatch):
    def scene() -> Scene:
        actors = {"export": share(3), "expire": in_turn(HOUR, mark_now, HOUR, purge_now)}
        return Scene(aged, actors, may_refuse=[VersionNotFound])

    check_all(explore(scene().play, 1, points=_of("export")))
    monkeypatch.setattr(expire_holders.Holders, "_sharing_exports", lambda self: iter(()))
    found = _find(explore(scene().play, 1))
    assert "what export pinned is not whole" in str(found.violation)


def test_a_slow_save_is_repeated(monkeypatch):
    """Until the save stands, age alone protects the files that it names."""

    def scene() -> Scene:
        return Scene(aged, {"distributed": distribute, "expire": in_turn(HOUR, mark_now, HOUR, purge_now)})

    check_all(explore(scene().play, 1, points=_of("distributed")))

    def naive(self):
        transaction = self.transaction
        transaction.check_open()
        data = self._files.root(transaction.draft, transaction.actions, transaction.check_alive)
        running = distributed.new_node_path()
        transaction.base.store.create(running, data)
        self._write(running)

    monkeypatch.setattr(distributed.DistributedTransaction, "save", naive)
    found = _find(explore(scene().play, 1, points=_of("distributed")))
    assert "missing" in str(found.violation)


ID = "11111111-1111-4111-8111-111111111111"


def _hold(stage: Stage) -> Acknowledged:
    """Commits a distributed transaction that another process may have aborted."""
    begun = distributed.begin(Catalog(stage.store, stage.clock), id=ID)
    begun.transaction.create_table(table("a.held"), location())
    return Acknowledged(ID, begun.commit("held", by="x").version)


def _abort(stage: Stage) -> str:
    distributed.load(Catalog(stage.store, stage.clock), ID).abort()
    return "aborted"


class _Aborted(Scene):
    def _check(self, world, ended):
        super()._check(world, ended)
        both = ended["abort"].value == "aborted" and ended["hold"].error is None
        assert not both, "it was aborted, and is committed all the same"


def test_the_end_of_an_aborted_transaction_is_kept_as_long_as_it_would_have_lived(monkeypatch):
    """A process with an older save learns from the last save that the transaction has ended."""
    points = _only(("hold", "create", f"dtxn/{ID}.1"))

    def scene() -> Scene:
        actors = {"hold": _hold, "abort": _abort, "expire": in_turn(HOUR, mark_now, HOUR, purge_now)}
        return _Aborted(aged, actors, may_refuse=[TransactionNotFound, TransactionExpired])

    check_all(explore(scene().play, 1, points=points))
    real = expire_holders.Holders._live_transactions
    monkeypatch.setattr(
        expire_holders.Holders,
        "_live_transactions",
        lambda self: [saved for saved in real(self) if saved.is_running],
    )
    found = _find(explore(scene().play, 1, points=points))
    assert "aborted" in str(found.violation)
