"""Random damage to random files: fsck finds it, or nothing that the catalog says has changed."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from olympia_cli.errors import Damaged
from tests.helpers.damage_sample import Sample, make_sample
from tests.helpers.lies import hold_lies, lie
from tests.helpers.rot import Rot, contents, hold, rot

pytestmark = pytest.mark.usefixtures("decoded_once")

# what was done is in the message: making it smaller would break the budget
FIXED = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@cache
def sample_of(expired: bool) -> Sample:
    return make_sample(expired=expired)


@cache
def before(expired: bool) -> Any:
    return contents(sample_of(expired))


def _paths(sample: Sample) -> list[str]:
    return sorted(sample.files)


@FIXED
@given(data=st.data(), expired=st.booleans(), times=st.sampled_from([1, 1, 1, 2, 3, 8]))
def test_damage_is_found_or_harmless(data: st.DataObject, expired: bool, times: int) -> None:
    sample = sample_of(expired)
    store = sample.store()
    done = [rot(store, _paths(sample), lambda low, high: data.draw(st.integers(low, high))) for _ in range(times)]
    hold(sample, before(expired), store, done)


@settings(FIXED, max_examples=150)
@given(data=st.data(), expired=st.booleans(), times=st.sampled_from([1, 1, 1, 2, 3]))
def test_lies_are_blamed_on_the_versions_that_tell_them(data: st.DataObject, expired: bool, times: int) -> None:
    """Whole files that say what cannot be: the versions that fsck blames are those that the other checker refuses."""
    sample = sample_of(expired)
    store = sample.store()
    done: list[Rot] = []
    for _ in range(times):
        try:
            done.append(lie(sample, store, lambda low, high: data.draw(st.integers(low, high))))
        except Damaged:
            break  # the file to change can no longer be read: there are lies enough
    hold_lies(sample, store, done)


@pytest.mark.parametrize("expired", [False, True])
def test_fsck_reports_no_damage_in_a_sound_catalog(expired: bool) -> None:
    sample = sample_of(expired)
    assert not hold(sample, before(expired), sample.store(), []).damaged
