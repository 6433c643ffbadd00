"""How the tests are shared out between processes, and what those share that read the same files thousands of times."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# a browser is a program to install: `make test-browser` has one
collect_ignore = [] if os.environ.get("OLYMPIA_TEST_BROWSER") else ["browser"]

PROGRAMS = ("tests/spark/test_elsewhere.py", "tests/spark/test_program.py")
WITHOUT = tuple(f"tests/spark/test_{name}.py" for name in ("failures", "options", "parts", "session"))
"""They need no Spark, and would only make the longest process longer."""


class OneSpark(LoadScopeScheduling):
    """All tests that share a Spark session in one process, since it starts in seconds and warms up in a minute; those
    that start programs with a Spark of their own one after the other, too; those that ask everybody about the same
    damaged catalogs in one process, which makes them once; all others as they come. Groups by marks are lost with
    pytest 9.2 and xdist 3.8, so it goes by the files."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(PROGRAMS):
            return "programs with Spark"
        if nodeid.startswith("tests/agreement/"):
            return "agreement"
        shared = nodeid.startswith("tests/spark/") and not nodeid.startswith(WITHOUT)
        return "spark" if shared else nodeid


def pytest_xdist_make_scheduler(config: Any, log: Any) -> OneSpark:
    return OneSpark(config, log)


@pytest.fixture(scope="module")
def decoded_once() -> Iterator[None]:
    """The rows of a file are decoded once: they follow from its bytes alone, and a module that plays thousands of
    schedules, or breaks one file after the other, reads the same some hundred files again and again."""
    from olympia_cli.format import node_file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_file, "_Rows", lru_cache(maxsize=4096)(node_file._Rows))
        yield
