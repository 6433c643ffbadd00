"""Transactions at once, over the same few names: what each of them was told holds in the order of the versions.

`OLYMPIA_HISTORIES` says how many histories are drawn; `make histories` draws as many as one likes.
"""

from __future__ import annotations

import os

import pytest

from olympia_cli.catalog import conflicts, staging, transaction
from olympia_cli.catalog.conflicts import settle
from tests.helpers.histories import Playing, draw, shrink, start
from tests.helpers.serial_orders import violation

pytestmark = pytest.mark.usefixtures("decoded_once")

HISTORIES = int(os.environ.get("OLYMPIA_HISTORIES", "450"))
PARTS = 3
START = start()


def wrong(history):
    return violation(Playing(history, START))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_outcome_is_that_of_one_transaction_after_the_other(part):
    for seed in range(part, HISTORIES, PARTS):
        history = draw(seed)
        if wrong(history) is not None:
            small = shrink(history, lambda smaller: wrong(smaller) is not None)
            pytest.fail(f"seed {seed}, without what it does not take:\n{small}\n{wrong(small)}", pytrace=False)


def _forget_merged(pending, commits, level):
    settled = settle(pending, commits, level)
    return [action for action in settled if not action.merged] if isinstance(settled, list) else settled


@pytest.mark.parametrize(
    ("seed", "where", "rule", "weaker"),
    [
        (50, transaction, "_looked_at", lambda action: [action.name]),
        (145, staging, "check_location", lambda name, now, change: None),
        (3059, conflicts, "settle", _forget_merged),
    ],
)
def test_histories_detect_a_weakened_conflict_rule(monkeypatch, seed, where, rule, weaker):
    """The chosen histories need the rules. If the generator draws other histories for the seeds, choose other seeds."""
    history = draw(seed)
    assert wrong(history) is None
    monkeypatch.setattr(where, rule, weaker)
    assert wrong(history) is not None
