"""The distribution of tests over processes, and shared caches of tests that read the same files thousands of times."""

from __future__ import annotations

import gc
import os
import random
import signal
from collections.abc import Generator, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from olympia_cli import names

# who starts the tests in the background has them ignore what a terminal sends, and so would every program they start
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# half a million objects are loaded here and stay: to look through them for garbage would take a twentieth of the time
gc.set_threshold(20_000, 20, 50)

TESTS = Path(__file__).parent

# what must be installed first, and is large: `make test-browser`, `make test-engines` and `make test-airflow` do that.
# And a dozen of Javas for `make test-cluster`, which take longer to start than all that they do
_APART = ("airflow", "browser", "cluster", "engines")
collect_ignore = [folder for folder in _APART if not os.environ.get(f"OLYMPIA_TEST_{folder.upper()}")]

WITHOUT_SPARK = ("failures", "options", "parts", "session")
"""Files of `tests/spark` that need no Spark, and would only delay the process that runs the others."""

GROUPS = {
    **{f"tests/spark/test_{name}.py": f"spark without Spark: {name}" for name in WITHOUT_SPARK},
    "tests/spark/": "Spark",
    "tests/cluster/test_cluster.py::test_spark_connect": "Spark Connect",
    "tests/agreement/": "agreement",
}
"""Groups of tests that run in one process, by the first matching prefix of their names.

One Spark session serves all Spark tests, because it starts in seconds and warms up in a minute. The damaged catalogs
that several tests use are made once.
"""

LONGEST_FIRST = (
    "Spark",
    "tests/contract/test_ambiguous.py",
    "agreement",
    "tests/integration/test_interleavings.py",
    "tests/storage/test_s3_errors.py",
    "tests/damage/test_damage_matrix.py",
    "tests/cli/test_completion.py",
    "tests/cli/test_bad_input.py",
    "tests/contract/test_store.py",
    "tests/cli/test_terminal.py",
    "tests/benchmarks/test_run.py",
    "tests/integration/test_soak.py",
    "tests/integration/test_many_writers.py",
    "tests/ops/repair/test_repair.py",
    "tests/cli/test_exit_codes.py",
    "tests/iceberg/test_data_checks.py",
    "tests/ops/export/test_places.py",
    "tests/cli/test_iceberg_tables.py",
)
"""Whatever takes ten seconds and more begins before what takes less: who is alone at the end is not alone for long.
What waits most of its time, as for servers that do not answer and for shells, stands between those that compute."""


def group(nodeid: str) -> str:
    """Return the group of a test, by default its file, so that fixtures of a module are made once."""
    return next((name for start, name in GROUPS.items() if nodeid.startswith(start)), nodeid.partition("::")[0])


class ByGroup(LoadScopeScheduling):
    """Distribute one group after the other, in order. Groups by marks are lost with pytest 9.2 and xdist 3.8."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        # else those with most tests would come first, whatever they take
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_xdist_make_scheduler(config: Any, log: Any) -> ByGroup:
    return ByGroup(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each process load the tests from another place on.

    The first process that loads a file rewrites its assertions for all. In a fresh clone that takes longer than all
    other loading.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    if processes > 1 and [Path(name).resolve() for name in session.config.args] == [TESTS]:
        found = (path for path in TESTS.iterdir() if path.is_dir() or path.name.startswith("test_"))
        parts = sorted(str(path) for path in found if path.name not in (*collect_ignore, "__pycache__"))
        first = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) * len(parts) // processes
        session.config.args = parts[first:] + parts[:first]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: (rank.get(group(item.nodeid), len(rank)), item.path))


def pytest_collection_finish() -> None:
    gc.freeze()


# a child must not draw what its parent draws
os.register_at_fork(after_in_child=lambda: setattr(names, "urandom", os.urandom))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """The ids that a test draws, and with them the order of its files, are the same in each run; what several share
    draws as the first of them. Another `OLYMPIA_TEST_SEED` makes other ids: a test holds with any."""
    seed = f"{os.environ.get('OLYMPIA_TEST_SEED', '')} {item.nodeid}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "urandom", random.Random(seed).randbytes)
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def _commands_are_built_once() -> Iterator[None]:
    """Cache commands as in a process that runs one: typer makes them from functions, which takes half of a run."""
    import typer.testing

    from olympia_cli.cli.app import LazyCommand

    built = cache(lambda path, load=LazyCommand.load: load(LazyCommand(path, "")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LazyCommand, "load", lambda command: built(command.path))
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def _descriptions_of_s3_are_read_once() -> Iterator[None]:
    """Cache service descriptions as in a process with one session: the SDK reads them for each one, in a quarter of a
    second.
    """
    import botocore.session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        yield


@pytest.fixture(scope="module")
def decoded_once() -> Iterator[None]:
    """Decode and check each file once, because the result depends on its bytes only.

    A module that plays thousands of schedules, or damages one file after the other, reads the same hundreds of files
    again and again.
    """
    from olympia_cli.format import codec, definitions
    from olympia_cli.ops.walk import NodeRules
    from tests.helpers import check

    pure = ((codec, "NodeRows"), (codec, "_decode"), (NodeRules, "look"))
    digests = ((definitions, "check_digest"), (check, "check_digest"))
    with pytest.MonkeyPatch.context() as patch:
        for place, name in (*pure, *digests):
            patch.setattr(place, name, lru_cache(maxsize=4096)(getattr(place, name)))
        yield
