"""Two expires at once, listings that lag, clocks that disagree, and creations whose answer or request is lost.

*Exhaustive*: each creation of each actor in doubt, each listing of an expire late, with a switch to another actor
beside. *Random*, with fixed seeds: all of it at once (`tests.helpers.worlds`, which `make soak` runs for as long as one
likes).
"""

from __future__ import annotations

import pytest

from olympia_cli.errors import VersionNotFound
from tests.helpers import worlds
from tests.helpers.clock import HOUR
from tests.helpers.expire_world import (
    LIFETIME,
    Scene,
    aged,
    distribute_and_commit,
    in_turn,
    mark_now,
    marked,
    marked_twice,
    purge_now,
    read_old,
    rollback,
    share,
    undo_now,
    writer,
)
from tests.helpers.scheduler import Operation, Work, check_all, explore, replay
from tests.helpers.worlds import IN_DOUBT

pytestmark = pytest.mark.usefixtures("decoded_once")

CREATORS: dict[str, Work] = {
    "writer": writer("x"),
    "rollback": rollback(4),
    "mark": mark_now,
    "purge": purge_now,
    "undo": undo_now,
    "distributed commit": distribute_and_commit,
    "export": share(5),
}


@pytest.mark.parametrize("name", CREATORS)
def test_a_creation_in_doubt(name):
    """The creation may have been performed or not; another writer may come before or after it."""
    scene = Scene(marked, {name: CREATORS[name], "other": writer("y")}, may_refuse=IN_DOUBT)

    def creations(operation: Operation) -> bool:
        return operation.method == "create" and operation.actor == name

    assert check_all(explore(scene.play, 2, points=creations, unlucky=[name])) > 10
    assert scene.done == {name, "other"}


def test_an_expire_is_harmless_while_listings_lag():
    """Files missing in a listing are young, and files still listed are gone: neither does harm.

    A mark that is missing in a listing has not rested.
    """

    def points(operation: Operation) -> bool:
        return operation.method == "list" or (operation.actor == "old reader" and operation.path.startswith("node/"))

    scene = Scene(
        aged,
        {"old reader": read_old(5), "expire": in_turn(mark_now, purge_now)},
        may_refuse=[VersionNotFound],
        look_ahead=20,
    )
    assert check_all(explore(scene.play, 2, points=points, unlucky=["expire"])) > 50
    assert scene.done == {"old reader", "expire"}


@pytest.mark.parametrize(
    ("start", "expire", "again"),
    [
        (marked, in_turn(mark_now, HOUR, purge_now), in_turn(purge_now, mark_now)),
        (aged, in_turn(mark_now, HOUR, purge_now), in_turn(mark_now, HOUR, purge_now)),
        (marked_twice, in_turn(HOUR, purge_now, undo_now), in_turn(LIFETIME, mark_now, purge_now)),
    ],
    ids=["purge and mark", "twice the same", "undo"],
)
def test_two_expires_at_once(start, expire, again):
    """Left where names change, and where it has looked for what there is."""

    def changes(operation: Operation) -> bool:
        written = operation.method in ("create", "overwrite", "delete") and operation.path.startswith("vn/")
        return written or (operation.method, operation.path) == ("list", "")

    scene = Scene(start, {"expire": expire, "again": again}, may_refuse=[VersionNotFound], look_ahead=10)
    assert check_all(explore(scene.play, 1, points=changes)) > 20
    assert scene.done == {"expire", "again"}


@pytest.mark.parametrize("seed", range(4))
def test_all_of_it_in_random_orders(seed):
    assert check_all(worlds.runs(seed, 20)) == 20


def test_a_schedule_with_faults_can_be_run_again():
    runs = list(worlds.runs(1, 6))
    faulty = next(run for run in runs if any(name.startswith(("?", "/", "<")) for name, _ in run.schedule))
    again = replay(worlds.scene(1).play, faulty.schedule)
    assert again.schedule == faulty.schedule
    assert again.about["world"].files == faulty.about["world"].files
