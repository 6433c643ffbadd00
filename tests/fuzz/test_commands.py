"""Commands on mutated catalogs, a few seeds of them; `make fuzz` takes as many as one likes."""

from __future__ import annotations

import pytest

from tests.fuzz.run import batch


@pytest.mark.parametrize("seed", [1, 2])
def test_every_command_ends_cleanly_with_any_file_content(seed):
    """No traceback, no exit code 1, no more than a gigabyte or 20 s, and no SOUND over damaged content."""
    failures = batch(seed, 12)
    assert not failures, failures


def test_a_failure_is_reported_with_its_seed():
    assert "exit code" in batch(1, 0, "no-number")
