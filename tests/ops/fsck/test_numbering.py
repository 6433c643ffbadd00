"""Numbers for digests, in little memory."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from olympia_cli.ops.fsck.graph import Numbering


@pytest.mark.parametrize(("width", "values"), [(16, 2**128), (8, 2**64), (2, 2**16)])
def test_it_numbers_as_a_dictionary_does(width, values):
    chosen, numbering, expected = random.Random(width), Numbering(width), {}
    for _ in range(20_000):
        digest = chosen.randrange(values if chosen.random() < 0.7 else 300).to_bytes(width, "little")
        assert numbering.get(digest) == expected.get(digest)
        assert (digest in numbering) is (digest in expected)
        assert numbering.add(digest) == expected.setdefault(digest, len(expected))
        assert len(numbering) == len(expected)
    assert [numbering.get(digest) for digest in expected] == list(range(len(expected)))


@pytest.mark.parametrize(("width", "values"), [(16, 2**128), (1, 2**8)])
def test_many_at_once_are_numbered_as_one_by_one(width, values):
    chosen, numbering, one_by_one = random.Random(width), Numbering(width), Numbering(width)
    known: list[bytes] = []
    for _ in range(60):
        digests = [chosen.randrange(values).to_bytes(width, "little") for _ in range(chosen.randrange(200))]
        digests += [*digests[:20], *chosen.choices(known or digests or [bytes(width)], k=50)]
        known += digests
        assert list(numbering.add_all(digests)) == [one_by_one.add(digest) for digest in digests]
        assert len(numbering) == len(one_by_one)
    assert [numbering.get(digest) for digest in known] == [one_by_one.get(digest) for digest in known]


def test_a_digest_takes_little_more_than_itself():
    chosen = random.Random(1)
    tracemalloc.start()
    try:
        numbering = Numbering(16)
        for _ in range(50_000):
            numbering.add(chosen.randbytes(16))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / 50_000 < 40
