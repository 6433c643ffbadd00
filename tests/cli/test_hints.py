"""Advice is tested by typing it: every command that an error or a plan suggests is pasted as it stands, and works.

The catalog lies at a place with a space in its name, and things are called so that they look like options.
"""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import olympia_cli
from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.app import COMMANDS
from olympia_cli.errors import quoted
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import Ran, Run, run_here
from tests.cli.test_layout import Screen
from tests.helpers.check import check_catalog
from tests.helpers.names import location, ns, select, table, view


class Place:
    """A catalog with odd names: v1 two namespaces with a table each and a view, v2 an alter, v3 another one."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder)
        self.catalog = Catalog.create(LocalStore(self.uri))
        with self.catalog.transaction() as t:
            for name in ("-a", "b c".replace(" ", "_")):
                t.create_namespace(ns(name))
                t.create_table(table(f"{name}.orders"), location())
            t.create_view(view("-a.open"), select())
        for owner in ("ann", "bob"):
            with self.catalog.transaction() as t:
                t.alter_namespace(ns("-a"), {"owner": owner})

    def run(self, *args: str) -> Ran:
        return run_here("-c", self.uri, *args)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "my catalog"
    Place(folder)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, run: Run) -> Place:
    shutil.copytree(made, tmp_path / "my catalog")
    found = Place.__new__(Place)
    found.uri = str(tmp_path / "my catalog")
    found.catalog = Catalog(LocalStore(found.uri))
    return found


def suggested(text: str) -> list[str]:
    """The words of the command that the text ends with, as a shell reads them."""
    words = shlex.split(text.splitlines()[-1][text.splitlines()[-1].rindex("olympia ") :])
    assert words[0] == "olympia"
    return words[1:]


def follow(done: Ran, *more: str) -> Ran:
    """Type what the last line suggests; options may be added before the names."""
    words = suggested(done.stderr)
    at = words.index("--") if "--" in words else len(words)
    return run_here(*words[:at], *more, *words[at:]).ok()


def lose_running_root(place: Place) -> str:
    begun = distributed.begin(place.catalog)
    begun.transaction.create_namespace(ns("x"))
    begun.save()
    place.catalog.store.delete_many([begun.saved.definition.running_root_node_file_path])
    return begun.id


def set_garbage(place: Place) -> None:
    """Store a value that an older program allowed."""
    transaction = place.catalog.begin()
    definition = transaction.draft.catalog
    definition.properties["olympia.retention.max-version-age"] = "a week"
    transaction.do(Action(ActionType.CATALOG_ALTER, None, definitions.body(definition)), is_merged=True)
    place.catalog.commit(transaction)


def drop_all(place: Place) -> None:
    place.run("ns", "drop", "--cascade", "-q", "--", "-a").ok()


def rename(place: Place) -> None:
    place.run("table", "rename", "--", "-a.orders", "-a.moved").ok()
    place.run("ns", "rename", "--", "b_c", "-b").ok()


CASES: dict[str, tuple[Callable[[Place], object], list[str], int]] = {
    "no namespace": (lambda p: None, ["ns", "show", "zzz"], 10),
    "no table": (lambda p: None, ["table", "show", "--", "-a.zzz"], 10),
    "no table then": (lambda p: None, ["table", "show", "--at", "v2", "--", "-a.zzz"], 10),
    "no namespace around it": (lambda p: None, ["view", "show", "zzz.zzz"], 10),
    "a view": (lambda p: None, ["table", "show", "--", "-a.open"], 10),
    "a table": (lambda p: None, ["view", "drop", "--", "-a.orders"], 10),
    "not empty": (lambda p: None, ["ns", "drop", "--", "-a"], 11),
    "a table of a namespace that is gone": (drop_all, ["table", "restore", "--at", "v3", "--", "-a.orders"], 10),
    "a table that moved": (rename, ["table", "restore", "--at", "v3", "--", "-a.orders"], 11),
    "a namespace that moved": (rename, ["ns", "restore", "--at", "v3", "b_c"], 11),
    "no export": (lambda p: None, ["export", "drop", "--yes", "zzz"], 10),
    "no transaction": (lambda p: None, ["txn", "show", "zzz"], 10),
    "a setting": (lambda p: None, ["ns", "alter", "--set", "olympia.retention.min-versions=5", "--", "-a"], 2),
    "a setting that is garbage": (set_garbage, ["expire", "--dry-run"], 12),
    "nothing to resume": (lambda p: None, ["export", "resume", "--dest", "o u t", "--", "-x"], 10),
    "a conflict": (lambda p: None, ["revert", "v2", "--yes"], 20),
    "no metadata": (
        lambda p: p.run("table", "alter", "--metadata-location", "/no/such.json", "--", "-a.orders").ok(),
        ["table", "show", "--schema", "--", "-a.orders"],
        10,
    ),
    "no schema": (lambda p: None, ["schema", "zzz"], 2),
    "usage": (lambda p: None, ["table", "show"], 2),
}


@pytest.mark.parametrize(("prepare", "args", "code"), CASES.values(), ids=CASES)
def test_each_command_that_an_error_advises_works(place, prepare, args, code):
    prepare(place)
    failed = place.run(*args)
    assert failed.exit_code == code, failed.stderr
    follow(failed)
    check_catalog(place.catalog.store)


def test_advised_commands_let_the_original_command_succeed(place):
    """The advised command succeeds, and then the original one does."""
    for prepare, args in ((drop_all, ["table", "restore", "--at", "v3", "--", "-a.orders"]),):
        prepare(place)
        follow(place.run(*args))
        assert "-a.orders" in place.run("table", "ls", "-o", "name").ok().lines


def test_json_has_the_words_apart(place):
    error = place.run("table", "show", "--json", "--", "-a.zzz").error
    assert error["command"] == ["olympia", "-c", place.uri, "table", "ls", "--", "-a"]
    assert error["hint"].endswith(shlex.join(error["command"]))


def test_a_place_without_a_catalog(run, tmp_path):
    follow(run("-c", tmp_path / "no where", "ns", "ls").failed(10))
    assert run("-c", tmp_path / "no where", "ns", "ls").ok().lines == []


@pytest.mark.parametrize("args", [["txn", "commit"], ["txn", "show"]])
def test_advice_for_a_transaction_without_its_running_root_works(place, args):
    follow(place.run(*args, lose_running_root(place)).failed(40), "--yes")


def test_advice_for_a_version_that_revert_refuses_works(place):
    place.run("rollback", "v2", "--yes", "-q").ok()
    follow(place.run("revert", "latest", "--yes").failed(12), "--yes")
    place.run("export", "create", "--dest", "o u t", "--", "-x").ok()
    follow(place.run("revert", "latest", "--yes").failed(12), "--yes")
    place.run("expire", "--older-than", "0s", "--keep-last", "1", "--offline", "--yes").ok()
    follow(place.run("revert", "latest", "--yes").failed(12))


def test_plans_and_drops_say_how(place):
    follow(place.run("rollback", "v1", "--dry-run").ok(), "--yes")
    dropped = place.run("ns", "drop", "--cascade", "--", "-a").ok()
    follow(dropped)
    assert "-a" in place.run("ns", "ls").ok().lines
    said = io_of(place, "table", "drop", "--", "-a.orders")
    run_here(*suggested(said)).ok()
    assert "-a.orders" in place.run("table", "ls", "-o", "name").ok().lines


def io_of(place: Place, *args: str) -> str:
    """Return the output on a terminal."""
    said = Screen()
    with contextlib.redirect_stdout(Screen()), contextlib.redirect_stderr(said):
        from olympia_cli.cli.app import app

        assert app(["-c", place.uri, *args], standalone_mode=False) == 0
    return said.getvalue()


NEW_IN_A_NAMESPACE = {
    "table create": ["table", "create", "--schema", "id long", "--", "-new.t"],
    "table create at a location": ["table", "create", "--schema", "id long", "--location", "x", "--", "-new.t"],
    "table register": ["table", "register", "--metadata-location", "s3://lake/x", "--", "-new.t"],
    "table rename": ["table", "rename", "--", "-a.orders", "-new.t"],
    "view create": ["view", "create", "--plan", "plan", "--", "-new.v"],
    "view rename": ["view", "rename", "--", "-a.open", "-new.v"],
    "apply": ["apply", "lines"],
}


@pytest.mark.parametrize("args", NEW_IN_A_NAMESPACE.values(), ids=NEW_IN_A_NAMESPACE)
@pytest.mark.parametrize("in_transaction", [False, True], ids=["", "in a transaction"])
def test_a_missing_namespace_is_created_by_the_advice(place, args, in_transaction):
    """The advice is typed, and then the command works."""
    Path("plan").write_bytes(b"plan")
    Path("lines").write_text('{"do": "table register", "name": "-new.t", "metadata_location": "s3://lake/x"}\n')
    args = [str(Path("x").resolve()) if word == "x" else word for word in args]
    if in_transaction and args[0] != "apply":
        args[2:2] = ["--txn", place.run("txn", "begin", "-o", "name").ok().stdout.strip()]
    failed = place.run(*args).failed(10, "there is no namespace -new", "create it first: olympia")
    assert suggested(failed.stderr)[2:4] == ["ns", "create"]
    follow(failed)
    place.run(*args).ok()
    check_catalog(place.catalog.store)


def test_similar_namespace_is_named_beside_the_command_to_create(place):
    failed = place.run("table", "register", "--metadata-location", "s3://lake/x", "b_d.t").failed(10)
    assert ": did you mean b_c? If not, create it: olympia" in failed.stderr
    follow(failed)
    assert "b_d" in place.run("ns", "ls").ok().lines


def test_a_namespace_that_the_same_transaction_drops_is_not_advised_to_be_created_elsewhere(place):
    lines = [
        '{"do": "ns drop", "name": "-a", "cascade": true}',
        '{"do": "table rename", "name": "b_c.orders", "to": "-a.o"}',
    ]
    failed = run_here("-c", place.uri, "apply", "-", input="\n".join(lines)).failed(10, "line 2")
    assert failed.stderr.endswith(": create it again in the same transaction\n")
    lines.insert(1, '{"do": "ns create", "name": "-a"}')
    run_here("-c", place.uri, "apply", "-", input="\n".join(lines)).ok()


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["ns", "show", "B_C"], "b_c"),
        (["ns", "drop", "bc"], "b_c"),
        (["table", "show", "b_c.order"], "b_c.orders"),
        (["table", "drop", "b_c.ordres"], "b_c.orders"),
        (["table", "history", "b_d.orders"], None),
        (["table", "show", "b_d.orders"], "b_c.orders"),
        (["view", "show", "--", "-a.opne"], "-a.open"),
        (["table", "alter", "--set", "k=v", "b_c.orderz"], "b_c.orders"),
        (["table", "ls", "b-c"], "b_c"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_did_you_mean(place, args, meant):
    failed = place.run(*args)
    assert failed.exit_code == 10
    if meant is not None:
        assert failed.stderr.endswith(f": did you mean {meant}?\n")
        again = [meant if word == args[-1] else word for word in args]
        place.run(*again[:-1], *(["--cascade"] if args[:2] == ["ns", "drop"] else []), again[-1]).ok()


def test_no_hint_names_a_command_in_words_that_cannot_be_pasted():
    """Errors get the words of advised commands, and make a command line of them."""
    paths = [path for path in COMMANDS if " " in path] + ["expire purge", "with fsck", "with init"]
    named = re.compile(r"(?<!see )(?<!\")\b(" + "|".join(map(re.escape, paths)) + r")\b|\bolympia [a-z]")
    found = []
    for file in sorted(Path(olympia_cli.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                texts = [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
                found += [f"{file.name}: {text}" for text in texts if isinstance(text, str) and named.search(text)]
    # findings of fsck are words that its own rendering completes
    completed = ("listing.py: expire purge", "holders.py: txn abort ", "holders.py: txn show ")
    assert [one for one in found if one not in completed] == []


@pytest.mark.parametrize(
    "args",
    [
        ["ns", "ls", "--at", "läuft nicht"],
        ["export", "drop", "läuft", "--yes"],
        ["txn", "show", "läuft"],
        ["ns", "create", "läuft nicht"],
        ["table", "show", "läuft"],
        ["ns", "create", "x", "--property", "läuft"],
        ["catalog", "alter", "--isolation", "läuft"],
        ["log", "--action", "läuft"],
        ["expire", "--older-than", "läuft"],
        ["fsck", "--at", "läuft"],
    ],
    ids=" ".join,
)
def test_errors_quote_non_ascii_arguments_unchanged(place, args):
    failed = place.run(*args)
    assert failed.exit_code in (2, 10)
    assert "läuft" in failed.stderr.lower()


def test_quoted_arguments_are_escaped_and_cut():
    assert quoted("a\x1b[2J\u202e\ud800b") == "'a\\x1b[2J\\u202e\\ud800b'"
    assert len(quoted("x" * 1000)) == 62


def test_no_message_shows_how_python_writes_things():
    for file in sorted(Path(olympia_cli.__file__).parent.rglob("*.py")):
        if file.name != "__init__.py":
            assert "!r}" not in file.read_text(), file
