"""The program starts with little, and its commands are what the table says: one module each, with help and examples."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grimp
import pytest

import olympia_cli.cli.commands
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.app import (
    ALIASES,
    COMMANDS,
    GROUPS,
    HIDDEN,
    NEED_NUMPY,
    OWN_MODULES,
    LazyCommand,
    function_and_examples,
    module_name,
    shared_params,
)
from olympia_cli.fronts import modules_of
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.storage.local import LocalStore

SLOW = {"pyarrow", "fsspec", "s3fs", "gcsfs", "google", "rich", "pydantic", "pyspark", "aiohttp", "botocore"}
SLOW |= {"jinja2", "numpy", "pyiceberg", "starlette", "uvicorn"}

PACKAGES = {
    ".".join(file.parent.relative_to(Path(olympia_cli.__file__).parents[1]).parts)
    for file in Path(olympia_cli.__file__).parent.rglob("__init__.py")
}

PROGRAM = """
import sys
from olympia_cli.__main__ import main
sys.argv[0] = "olympia"
code = main()
there = sorted(name for name, module in sys.modules.items() if module is not None)
sys.stderr.write("\\n" + " ".join([str(code), *there]))
"""


def imported(*args: str) -> tuple[int, set[str]]:
    """Return the exit code of a run, and the packages and modules that it imported."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *args], capture_output=True, text=True, stdin=subprocess.PIPE)
    code, *modules = done.stderr.splitlines()[-1].split()
    return int(code), set(modules)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--help"], 0),
        (["ns", "--help"], 0),
        (["--version"], 0),
        (["table", "show", "--help"], 0),
        (["view", "create", "--help"], 0),
        (["table", "create", "--help"], 0),
        (["nope"], 2),
        (["ns"], 2),
        (["ns", "create"], 2),
        (["log", "-n", "few"], 2),
        (["table", "show", "a.b.c", "-c", "nowhere"], 2),
        (["ns", "ls"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_help_and_errors_of_usage_import_nothing_slow(args, expected):
    code, modules = imported(*args)
    assert code == expected
    assert not modules & SLOW


def test_help_of_the_program_imports_no_command():
    _, modules = imported("--help")
    assert not [name for name in modules if name.startswith("olympia_cli.cli.commands.")]
    assert "olympia_cli.catalog" not in modules


@pytest.mark.parametrize("args", [["table", "show", "sales.lines"], ["ns", "ls", "--json"], ["log"], ["diff", "v0"]])
def test_reading_a_local_catalog_imports_no_cloud_and_no_tables(args, sample):
    code, modules = imported("-c", sample.uri, *args)
    assert code == 0
    assert not modules & (SLOW - {"pyarrow", "google"})


@pytest.mark.parametrize("args", [["table", "show", "sales.lines"], ["ns", "create", "x"]], ids=" ".join)
def test_reading_and_writing_import_neither_numpy_nor_pandas(args, sample):
    """pyarrow looks for pandas when an array is made of Python's own values; numpy it imports unless that is hidden."""
    code, modules = imported("-c", sample.uri, *args)
    assert code == 0
    assert "pyarrow" in modules
    assert not modules & {"numpy", "pandas", "pyarrow.compute", "pyarrow.parquet", "pyarrow.dataset", "pytz"}
    # nor what only a rollback, a lost race or a reference to an export asks
    assert not modules & {"olympia_cli.tree.diff", "olympia_cli.catalog.distributed"}


def test_commands_that_may_use_spark_have_numpy(sample):
    code, modules = imported("-c", sample.uri, "fsck")
    assert code == 0
    assert {"pyarrow", "numpy"} <= modules


def test_an_fsck_that_finds_nothing_imports_no_repair(sample):
    code, modules = imported("-c", sample.uri, "fsck")
    assert code == 0
    assert not [name for name in modules if name.startswith("olympia_cli.ops.repair.")]


def test_commands_that_may_import_spark_or_pyiceberg_are_listed():
    """An import counts wherever it is: at the top of a module, or inside a function that the command may call."""
    graph = grimp.build_graph(
        "olympia_cli", include_external_packages=True, cache_dir=None, exclude_type_checking_imports=True
    )
    # a front imports a module when one of its names is first used
    for module in graph.modules:
        for home in homes_used_by(module):
            graph.add_import(importer=module, imported=home)
    asking = {"numpy", "pandas", "pyiceberg", "pyspark"} & graph.modules
    assert asking >= {"pyiceberg", "pyspark"}
    leading = {
        path
        for path in COMMANDS
        for name in imports_of(path) & graph.modules
        if any(name == one or graph.chain_exists(name, one) for one in asking)
    }
    assert leading == NEED_NUMPY


@cache
def modules_behind(package: str) -> dict[str, str]:
    """Return the modules of the names of a package's front, or nothing for a package without one."""
    file = find_spec(package) if package.startswith("olympia_cli") else None
    has_front = file is not None and "= lazy(__name__)" in Path(str(file.origin)).read_text(encoding="utf-8")
    return modules_of(package) if has_front else {}


def homes_used_by(module: str) -> set[str]:
    """Return the modules that a module loads through the fronts of packages."""
    if not module.startswith("olympia_cli"):
        return set()
    tree = ast.parse(Path(str(find_spec(module).origin)).read_text(encoding="utf-8"))
    behind_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
    }
    imported_names = {
        modules_behind(node.module)[alias.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("olympia_cli") and id(node) not in behind_types
        for alias in node.names
        if alias.name in modules_behind(node.module)
    }
    fronts = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module.startswith("olympia_cli")
        for alias in node.names
    }
    return imported_names | homes_of_attributes(ast.walk(tree), fronts)


def homes_of_attributes(nodes: Iterable[ast.AST], fronts: dict[str, str]) -> set[str]:
    """Return the modules that are loaded by names such as `fsck.note_fsck`. `fronts` are the packages by their name."""
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    packages = {name: full for name, full in fronts.items() if full in PACKAGES}
    homes = {modules_behind(packages.get(node.value.id, "")).get(node.attr) for node in attributes}
    return {home for home in homes if home is not None}


def imports_of(path: str) -> set[str]:
    """Return the modules that a command's function and the functions of its module that it calls may import."""
    run, _ = function_and_examples(path)
    module = sys.modules[run.__module__]
    top = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    imports: set[str] = set()
    functions = [run]
    for function in functions:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        inside = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        imports |= {f"{node.module}.{alias.name}" for node in inside for alias in node.names}
        imports |= {top[name] for name in names & top.keys()}
        imports |= homes_of_attributes(nodes, top)
        own = [value for name, value in vars(module).items() if name in names and inspect.isfunction(value)]
        functions += [value for value in own if value.__module__ == module.__name__ and value not in functions]
    fronts = {modules_behind(module).get(name) for module, _, name in (full.rpartition(".") for full in imports)}
    return imports | {name.rpartition(".")[0] for name in imports} | {str(home) for home in fronts - {None}}


def test_one_command_imports_one_command(sample):
    _, modules = imported("-c", sample.uri, "ns", "create", "x")
    assert {name for name in modules if name.startswith("olympia_cli.cli.commands.")} == {
        "olympia_cli.cli.commands.ns",
        "olympia_cli.cli.commands.objects",
    }


def test_as_a_module(sample):
    command = [sys.executable, "-m", "olympia_cli", "-c", sample.uri, "ns", "show", "nope"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (10, "")


def test_startup_collects_garbage_rarely_and_freezes_lasting_objects(sample):
    """A start makes tens of thousands of objects that stay; to look through them takes a tenth of its time."""
    program = (
        "import gc; looks = lambda: sum(one['collections'] for one in gc.get_stats()); before = looks()\n"
        "from olympia_cli.__main__ import main; main(); print(looks() - before, gc.get_freeze_count())"
    )
    command = [sys.executable, "-c", program, "-c", sample.uri, "table", "show", "sales.lines"]
    *_, line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    looks, kept = map(int, line.split())
    assert looks < 20
    assert kept > 20_000
    project = tomllib.loads((Path(olympia_cli.__file__).parents[1] / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"olympia": "olympia_cli.__main__:main"}


# The table of commands


@cache
def loaded(path: str) -> Any:
    return LazyCommand(path, COMMANDS[path]).load()


def test_a_module_is_named_after_its_command_or_group():
    """`table show` is in table.py, `log` in log.py; beside them is only the module of the shared verbs."""
    folder = Path(olympia_cli.cli.commands.__file__).parent
    files = {f"olympia_cli.cli.commands.{file.stem}" for file in folder.glob("*.py")}
    known = {module_name(path) for path in (*COMMANDS, *HIDDEN)}
    assert known <= files
    assert files - known == {"olympia_cli.cli.commands.__init__", "olympia_cli.cli.commands.objects"}
    assert set(COMMANDS) | set(HIDDEN) > set(OWN_MODULES)


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_the_module_of_a_group_has_its_commands_in_their_order(group):
    module = import_module(module_name(f"{group} "))
    verbs = [path.split()[1] for path in COMMANDS if path.startswith(f"{group} ") and path not in OWN_MODULES]
    assert list(module.EXAMPLES) == verbs
    assert [name for name in vars(module) if name in verbs] == verbs


def test_every_group_has_commands_and_every_command_a_group():
    groups = {path.split()[0] for path in COMMANDS if " " in path}
    assert groups == set(GROUPS)
    words = {word for path in COMMANDS for word in path.split()}
    assert set(ALIASES.values()) <= words
    assert not set(ALIASES) & words


@pytest.mark.parametrize("path", COMMANDS)
def test_the_line_of_help_is_the_first_of_the_docstring(path):
    run, _ = function_and_examples(path)
    assert run.__doc__.splitlines()[0] == COMMANDS[path]
    assert loaded(path).help.splitlines()[0] == COMMANDS[path]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_examples_of_itself(path):
    _, examples = function_and_examples(path)
    assert examples
    for line in examples:
        before, olympia, after = line.partition("olympia ")
        assert olympia, line
        assert not before or before.endswith(("| ", "$(", "<(")), line
        assert after.startswith(path), line


@pytest.mark.parametrize("path", COMMANDS)
def test_no_two_options_share_a_flag_and_all_have_help(path):
    seen: set[str] = set()
    for param in loaded(path).params:
        if param.param_type_name == "argument":
            assert param.help, f"{param.name} has no help"
            continue
        flags = {*param.opts, *param.secondary_opts}
        assert not flags & seen, f"{flags & seen} twice"
        seen |= flags
        assert param.help, f"{param.opts} has no help"
        assert param.help.endswith((".", "]")), f"{param.help} ends in no full stop"


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_takes_the_options_that_all_have(path):
    flags = {flag for param in loaded(path).params for flag in param.opts}
    assert {flag for param in shared_params() for flag in param.opts} <= flags


COMMITS = [
    path
    for path in COMMANDS
    if path.split()[-1] in ("create", "register", "alter", "rename", "drop", "restore", "replace", "commit")
    or path in ("apply", "rollback", "compact")
]


@pytest.mark.parametrize("path", COMMITS)
def test_every_command_that_commits_takes_a_message_and_a_time_to_try(path):
    flags = {flag for param in loaded(path).params for flag in param.opts}
    assert {"-m", "--message", "--retry-for"} <= flags


@pytest.mark.parametrize("path", [path for path in COMMITS if path.split()[0] in ("ns", "table", "view")])
def test_every_change_of_an_object_works_inside_a_transaction(path):
    assert "--txn" in {flag for param in loaded(path).params for flag in param.opts}


@pytest.mark.parametrize("path", ["rollback", "txn abort"])
def test_a_command_that_asks_has_dry_run_and_yes(path):
    flags = {flag for param in loaded(path).params for flag in param.opts}
    assert {"-n", "--dry-run", "-y", "--yes"} <= flags


HEAVY = """
import sys
from importlib import import_module
from olympia_cli.cli.app import COMMANDS, HIDDEN, module_name
for path in (*COMMANDS, *HIDDEN):
    import_module(module_name(path))
    loaded = {name.partition(".")[0] for name, module in sys.modules.items() if module is not None}
    print(path, *sorted(loaded & set(sys.argv[1:])), sep="\\t")
"""


def test_a_command_imports_nothing_slow_at_its_top():
    """Or its help, and a Tab on its options, would take as long as its work. A module's own imports count, too."""
    run = subprocess.run([sys.executable, "-c", HEAVY, *SLOW], capture_output=True, text=True, check=True)
    lines = [line.split("\t") for line in run.stdout.splitlines()]
    assert [path for path, *_ in lines] == [*COMMANDS, *HIDDEN]
    assert [line for line in lines if line[1:]] == []


@pytest.mark.parametrize(
    "args",
    [["table", "files"], ["table", "files", "--schemas"], ["fsck", "--level", "data"], ["doctor"], ["log"]],
    ids=" ".join,
)
def test_a_machine_without_pyiceberg(args, tmp_path):
    """Reading tables works without PyIceberg."""
    uri, program = str(tmp_path / "catalog"), f"import sys; sys.modules['pyiceberg'] = None\n{PROGRAM}"
    lake = Path(__file__).parents[2] / "examples" / "lake.py"
    location = subprocess.run([sys.executable, lake, tmp_path / "lake"], capture_output=True, text=True, check=True)
    catalog = Catalog.create(LocalStore(uri, durable=False))
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("a"))
        transaction.create_table(TableName("a", "t"), location.stdout.strip())
    done = subprocess.run([sys.executable, "-c", program, "-c", uri, *args], capture_output=True, text=True)
    *said, modules = done.stderr.splitlines()
    assert int(modules.split()[0]) in (0, 51), said
    assert "a bug" not in done.stderr


@pytest.mark.parametrize("args", [["doctor"], ["fsck"], ["fsck", "--engine", "spark"]], ids=" ".join)
def test_a_machine_without_pyspark(args, sample):
    """In a process of its own, because tests before this one may have imported the modules that need PySpark."""
    program = f"import sys; sys.modules['pyspark'] = None\n{PROGRAM}"
    command = [sys.executable, "-c", program, "-c", sample.uri, *args]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.PIPE)
    *said, modules = done.stderr.splitlines()
    if "spark" in args:
        assert int(modules.split()[0]) == 2
        assert "install olympia-cli[spark]" in said[0]
    else:
        assert int(modules.split()[0]) == 0, said


def test_a_large_catalog_on_a_machine_without_pyspark(sample):
    """The choice of the engine is not the command's: it runs here, and says why."""
    patched = "from olympia_cli.cli import engine\nengine.AUTO_OBJECTS = 0"
    program = f"import sys; sys.modules['pyspark'] = None\n{patched}\n{PROGRAM}"
    command = [sys.executable, "-c", program, "--verbose", "-c", sample.uri, "fsck"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.PIPE)
    *said, modules = done.stderr.splitlines()
    assert int(modules.split()[0]) == 0, said
    assert any("more than 0, but PySpark is not installed" in line for line in said)
