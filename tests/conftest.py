"""How the tests are shared out between processes."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

PROGRAMS = ("tests/spark/test_elsewhere.py", "tests/spark/test_program.py")


class OneSpark(LoadScopeScheduling):
    """All tests that share a Spark session in one process, since it starts in seconds and warms up in a minute; those
    that start programs with a Spark of their own one after the other, too; all others as they come. Groups by marks are
    lost with pytest 9.2 and xdist 3.8, so it goes by the files."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(PROGRAMS):
            return "programs with Spark"
        return "spark" if nodeid.startswith("tests/spark/") else nodeid


def pytest_xdist_make_scheduler(config: Any, log: Any) -> OneSpark:
    return OneSpark(config, log)
