"""How the tests are shared out between processes."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling


class OneSpark(LoadScopeScheduling):
    """All tests that need Spark in one process, since it starts in seconds and warms up in a minute; all others as they
    come. Groups by marks are lost with pytest 9.2 and xdist 3.8, so it goes by the folder."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith("tests/spark/") else nodeid


def pytest_xdist_make_scheduler(config: Any, log: Any) -> OneSpark:
    return OneSpark(config, log)
