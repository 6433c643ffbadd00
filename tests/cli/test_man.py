"""Every command has a manual page and sound help; the pages and the completion scripts are current."""

import inspect
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from olympia_cli import errors
from olympia_cli.cli.app import COMMANDS, GROUPS, LazyCommand, app, function_and_examples
from olympia_cli.cli.commands.man import ENVIRONMENT, EXIT_CODES, command_page, file_name, program_page

TOP = Path(__file__).resolve().parent.parent.parent
PAGES = [file_name(), *map(file_name, COMMANDS)]
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"]


def load(path: str) -> Any:
    return LazyCommand(path, COMMANDS[path]).load()


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


# Commands as their help has them


@pytest.mark.parametrize("path", COMMANDS)
def test_the_line_of_help_is_the_first_of_the_docstring(path: str) -> None:
    run, _ = function_and_examples(path)
    assert (inspect.getdoc(run) or "").split("\n")[0] == COMMANDS[path]


@pytest.mark.parametrize("path", COMMANDS)
def test_examples_are_of_the_command(path: str) -> None:
    _, examples = function_and_examples(path)
    assert examples
    assert any(f"olympia {path}" in example for example in examples), examples


@pytest.mark.parametrize("path", COMMANDS)
def test_no_two_options_share_a_name(path: str) -> None:
    command = load(path)
    # a command keeps the help option that it was first asked for
    ctx = typer.Context(command, **command.context_settings)
    names = Counter(
        name
        for param in command.get_params(ctx)
        if param.param_type_name == "option"
        for name in (*param.opts, *param.secondary_opts)
    )
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_everything_has_help(path: str) -> None:
    assert [param.name for param in load(path).params if not param.help] == []


def test_every_group_has_help_and_commands() -> None:
    assert {path.partition(" ")[0] for path in COMMANDS if " " in path} == set(GROUPS)


# Pages


def test_pages_and_scripts_are_current() -> None:
    check = subprocess.run(
        [sys.executable, str(TOP / "tools" / "generate_docs.py"), "--check"], capture_output=True, text=True, cwd=TOP
    )
    assert (check.returncode, check.stderr) == (0, ""), f"run make docs:\n{check.stdout[:2000]}"


def test_every_command_has_a_page_and_nothing_else_has() -> None:
    assert {file.name for file in (TOP / "man").iterdir()} == set(PAGES)


@pytest.mark.parametrize("path", ["", *COMMANDS])
def test_every_page_has_its_sections(path: str) -> None:
    lines = (command_page(path) if path else program_page()).splitlines()
    sections = [line.removeprefix(".SH ") for line in lines if line.startswith(".SH ")]
    assert [section for section in sections if section in SECTIONS] == SECTIONS
    assert set(sections) - set(SECTIONS) <= {"ARGUMENTS", "COMMANDS"}


def test_the_exit_codes_are_those_of_the_classes() -> None:
    page = program_page()
    classes = [
        error
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.OlympiaError) and error not in errors.FAMILIES
    ]
    assert len(classes) > 20
    for error in classes:
        assert error.exit_code in EXIT_CODES, f"say what {error.exit_code} means"
        after = page.split(f"\n.TP\n\\fB{error.exit_code}\\fR\n")[1].split("\n.TP\n")[0]
        assert f"\\fB{error.__name__}\\fR: " in after
    for code in (0, 1, 3, 50, 51, 130):
        assert f"\n.TP\n\\fB{code}\\fR\n" in page
    for name in ENVIRONMENT:
        assert f"\n.TP\n\\fB{name}\\fR\n" in page


def test_man_pages_show_special_characters_unchanged(tmp_path: Path) -> None:
    from olympia_cli.cli.commands.man import _text

    assert _text(".SH x") == "\\&.SH x"
    assert _text("'x") == "\\(aqx"
    assert _text("--at \\ …") == "\\-\\-at \\e \\[u2026]"
    assert _text("use `olympia fsck`") == "use \\fBolympia fsck\\fR"
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed: only the source is compared")
    wanted = ".it's 'a' \"b\" `c` ^d ~e -f --g \\h \\fB"
    page = f'.TH X 1 "" "" ""\n.nh\n.SH NAME\n{_text(wanted.replace("`", "´"))}\n'
    shown = subprocess.run(["groff", "-man", "-Tutf8", "-P-c"], input=page, capture_output=True, text=True, check=True)
    assert wanted.replace("`", "´") in shown.stdout


@pytest.mark.skipif(
    shutil.which("man") is None or shutil.which("groff") is None, reason="man or groff is not installed"
)
def test_man_has_no_warnings() -> None:
    for name in PAGES:
        shown = subprocess.run(
            ["man", "--warnings=w", "-l", str(TOP / "man" / name)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert (shown.returncode, shown.stderr) == (0, ""), name
        assert "olympia" in shown.stdout


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mandoc_has_no_warnings() -> None:
    pages = [str(TOP / "man" / name) for name in PAGES]
    shown = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True, text=True)
    # the pages bear the version instead of a date
    assert [line for line in shown.stdout.splitlines() if "missing date" not in line] == []


# olympia man


def test_man_prints_the_source() -> None:
    assert run("man").stdout == program_page()
    assert run("man", "table", "show").stdout == command_page("table show")
    assert run("man", "namespace", "describe").stdout == command_page("ns show")


@pytest.mark.parametrize("words", [["no-such"], ["table"], ["table", "show", "more"], ["table", "show", "--all", "x"]])
def test_man_of_an_unknown_command_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("man", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert not (tmp_path / "x").exists()


def test_man_writes_all_pages(tmp_path: Path) -> None:
    result = run("man", "--all", str(tmp_path / "man1"))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [str(tmp_path / "man1" / name) for name in PAGES]
    for name in PAGES:
        assert (tmp_path / "man1" / name).read_text() == (TOP / "man" / name).read_text()
    (tmp_path / "file").touch()
    assert run("man", "--all", str(tmp_path / "file" / "man1")).exit_code == 2
