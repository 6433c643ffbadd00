"""A small catalog with odd names and a past, and two ways to run the program on it: in this process, and for real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.cli.app import app
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.names import ViewName
from olympia_cli.storage.local import LocalStore
from tests.helpers import warm
from tests.helpers.check import check_catalog
from tests.helpers.names import location, ns, table, view
from tests.helpers.places import quiet_environment

EMOJI = "smile\U0001f600"
MAIN = "import sys; from olympia_cli.cli.app import main; sys.exit(main())"
FORGET = ("OLYMPIA_", "XDG_", "LC_")
FORGET_TOO = {"NO_COLOR", "FORCE_COLOR", "PAGER", "LESS", "COLUMNS", "LINES", "LANG", "TERM", "PYTHONIOENCODING"}


@dataclass(frozen=True)
class Ran:
    """The result of a run."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one document on stdout; anything else there is a failure."""
        return json.loads(self.stdout)

    @property
    def error(self) -> Any:
        """The error that stderr tells as JSON."""
        return json.loads(self.stderr)["error"]

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    def ok(self) -> Ran:
        assert self.exit_code == 0, f"exit code {self.exit_code}\n{self.stdout}\n{self.stderr}"
        return self

    def failed(self, code: int, *words: str) -> Ran:
        """Check the exit code, and that the error is one line with these words."""
        assert self.exit_code == code, f"exit code {self.exit_code}\n{self.stdout}\n{self.stderr}"
        line = self.stderr.splitlines()[-1]
        assert line.startswith("error: "), self.stderr
        assert self.stderr.count("error: ") == 1, self.stderr
        for word in words:
            assert word in line, line
        return self


Run = Callable[..., Ran]


@pytest.fixture(scope="module", autouse=True)
def _decoded_once(decoded_once: None) -> None:
    """Nearly all tests read the same sample."""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Remove this machine's settings. Return the folder of the config file, which does not exist yet."""
    for name in list(os.environ):
        if name.startswith(FORGET) or name in FORGET_TOO:
            monkeypatch.delenv(name)
    quiet_environment(monkeypatch)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("LANG", "C.UTF-8")
    return home / "config" / "olympia"


@pytest.fixture
def config(settings: Path) -> Callable[[str], Path]:
    """Write the config file."""

    def write(text: str) -> Path:
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "config.toml").write_text(text, encoding="utf-8")
        return settings / "config.toml"

    return write


def run_here(*args: object, input: str | bytes | None = None) -> Ran:
    """The program in this process, with pipes for its output."""
    done = CliRunner().invoke(app, [str(arg) for arg in args], input=input, catch_exceptions=False)
    return Ran(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return run_here


def command_line() -> list[str]:
    """Return the command of the program: the installed script, or Python with the module."""
    script = Path(sys.executable).parent / "olympia"
    return [str(script)] if script.exists() else [sys.executable, "-c", MAIN]


def program_line(env: Mapping[str, str]) -> list[str]:
    """Return the command that starts the program fastest in this environment."""
    return [sys.executable, "-I", "-S", warm.__file__, warm.serving()] if warm.can_run(env) else command_line()


@pytest.fixture
def program(tmp_path: Path) -> Run:
    """The program as a process of its own. Bytes may be given where text cannot say it."""

    def start(
        *args: str | bytes | Path, input: str | bytes | None = None, env: Mapping[str, str] | None = None, **more: Any
    ) -> Ran:
        done = subprocess.run(
            [*program_line(env or {}), *args],
            input=input.encode() if isinstance(input, str) else input if input is not None else b"",
            capture_output=True,
            env={**os.environ, **(env or {})},
            cwd=tmp_path,
            timeout=60,
            **more,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return start


@dataclass(frozen=True)
class Sample:
    """The catalog that most tests begin with; version 7 is its latest.

    0 created; 1 three namespaces; 2 five tables; 3 a view; 4 sales.orders altered; 5 sales.lines dropped;
    6 rolled back to 4; 7 sales.orders renamed to sales.orders_2025. A distributed transaction is open.
    """

    folder: Path
    transaction: str

    @property
    def uri(self) -> str:
        return str(self.folder)

    @property
    def store(self) -> LocalStore:
        return LocalStore(str(self.folder))

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.store)


def create_view(transaction: Transaction, name: ViewName) -> None:
    transaction.create_view(name, ViewDef(substrait_read_rel=b"plan"))


def make_sample(
    folder: Path,
    place: Callable[[int], str] = location,
    create_table: Callable[..., None] = Transaction.create_table,
    create_view: Callable[[Transaction, ViewName], None] = create_view,
) -> str:
    """Write the catalog; the id of its open distributed transaction."""
    catalog = Catalog.create(LocalStore(str(folder)))

    def commit(message: str, *statements: Callable[[Any], None], by: str = "ann@laptop") -> None:
        transaction = catalog.begin()
        for statement in statements:
            statement(transaction)
        catalog.commit(transaction, message, by=by)

    commit(
        "teams",
        lambda t: t.create_namespace(ns("sales"), {"owner": "ann"}),
        lambda t: t.create_namespace(ns("a.b")),
        lambda t: t.create_namespace(ns(EMOJI)),
    )
    commit(
        "tables",
        lambda t: create_table(t, table("sales.orders"), place(0)),
        lambda t: create_table(t, table("sales.lines"), place(0), {"k": "v"}),
        lambda t: create_table(t, table('"a.b"."t.1"'), place(1)),
        lambda t: create_table(t, table('"a.b"."say""hi"""'), place(2)),
        lambda t: create_table(t, table(f"{EMOJI}.表"), place(3)),
    )
    commit("a view", lambda t: create_view(t, view("sales.open")), by="bob@ci")
    commit("nightly", lambda t: t.alter_table(table("sales.orders"), {"tier": "gold"}, (), place(9)), by="bob@ci")
    commit("tidy up", lambda t: t.drop_table(table("sales.lines")))
    commit("bad idea", lambda t: t.roll_back(4))
    commit("", lambda t: t.rename_table(table("sales.orders"), table("sales.orders_2025")))
    begun = distributed.begin(catalog)
    begun.transaction.create_namespace(ns("staged"))
    begun.save()
    return begun.id


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("template") / "catalog"
    transaction = make_sample(folder)
    check_catalog(LocalStore(str(folder)))
    return folder, transaction


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def template_files(template: tuple[Path, str]) -> dict[str, bytes]:
    return files_in(template[0])


@pytest.fixture
def damageable(template: tuple[Path, str], tmp_path: Path) -> Sample:
    """The sample, not looked at again: for tests that break it."""
    folder, transaction = template
    shutil.copytree(folder, tmp_path / "catalog")
    return Sample(tmp_path / "catalog", transaction)


@pytest.fixture
def sample(damageable: Sample, template_files: dict[str, bytes]) -> Iterator[Sample]:
    """The sample; whatever a test does with it, it is a sound catalog in the end."""
    yield damageable
    # most tests only read it
    if files_in(damageable.folder) != template_files:
        check_catalog(damageable.store)


@pytest.fixture
def olympia(run: Run, sample: Sample) -> Run:
    """Run the program on the sample."""
    return lambda *args, **more: run("-c", sample.uri, *args, **more)


@pytest.fixture
def empty(run: Run, tmp_path: Path) -> Iterator[Path]:
    """A new catalog with nothing in it."""
    folder = tmp_path / "empty"
    run("init", folder).ok()
    yield folder
    check_catalog(LocalStore(str(folder)))
