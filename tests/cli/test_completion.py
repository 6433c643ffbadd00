"""Completion offers what fits, quickly and silently; and no name from a catalog can make a shell run or expand it.

typer's own scripts fail the tests in shells below. Of the names in EVIL its bash script inserts half as they are, so
that `$(>PWNED)` runs with the line; its zsh script evaluates what it is given, so that `\\$(>PWNED)` runs at the press
of the key.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import socket
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli import completion
from olympia_cli.cli.app import ALIASES, COMMANDS, app
from olympia_cli.cli.commands.completion import (
    FILES,
    FOLDERS,
    NOTHING,
    SCRIPTS,
    CommandLine,
    Shell,
    candidates,
    escaped,
    read_line,
)
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.storage.open import open_store
from tests.helpers import warm
from tests.helpers.patience import PATIENCE

EVIL = [
    "$(>PWNED)",
    "t`>PWNED`",
    "*",
    "a;>PWNED",
    "-rf",
    "'",
    '"',
    "\\$(>PWNED)",
    "a|tee<>PWNED",
    "a&>PWNED",
    "?[a-z]",
    "\\",
    "~root",
    "!!",
    "{a,b}",
    "é漢😀",
    "x.y",
    "'\"$(>PWNED)`>PWNED`!",
    # the rest is tested in bash only, because zsh and fish escape words themselves
    "a\\b",
    "~",
    "a!b",
    "#x",
    "a:b",
    "a=b",
    "..",
    "$HOME",
    "${IFS}",
    "<(>PWNED)",
    "%",
    "a@b",
    "-",
    "--",
    "=ls",
    "^a^b",
    "(x)",
    "a~b",
    "a=~",
]
IN_EVERY_SHELL = 18
MAIN = "import sys; from olympia_cli.cli.app import main; sys.exit(main())"


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLYMPIA_CATALOG", "OLYMPIA_PROFILE", "OLYMPIA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A catalog to complete names from. `evil` holds all the evil names; `n00`, `n01`, … hold one each."""
    folder = tmp_path_factory.mktemp("catalog") / "c"
    made = Catalog.create(open_store(str(folder)))
    with made.transaction() as transaction:
        for namespace in ("sales", "a.b", 'q"u', "$(>PWNED)", "-rf", "--cascade", "bi\u202edi", "evil"):
            transaction.create_namespace(NamespaceName(namespace))
        for name in ("orders", "old", "d.d", 'q"u', "c1\x9b"):
            transaction.create_table(TableName("sales", name), "s3://lake/x")
        transaction.create_table(TableName("a.b", "t"), "s3://lake/x")
        transaction.create_view(ViewName("sales", "recent"), ViewDef())
        for number, name in enumerate(EVIL):
            transaction.create_namespace(NamespaceName(f"n{number:02}"))
            transaction.create_table(TableName(f"n{number:02}", name), "s3://lake/x")
            transaction.create_table(TableName("evil", name), "s3://lake/x")
    with made.transaction() as transaction:
        transaction.drop_table(TableName("sales", "old"))
    return str(folder)


def found(*words: str) -> list[str]:
    """Return the completions after these words, the last of which is incomplete."""
    return [word for word, _ in candidates(typer.main.get_command(app), words[:-1], words[-1]).words]


def olympia(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=30,
    )


# Commands, options and their values


def test_commands_and_groups_but_no_aliases() -> None:
    top = found("")
    assert top == list(dict.fromkeys(path.split()[0] for path in COMMANDS))
    assert not set(top) & {alias for alias in ALIASES if alias not in COMMANDS}
    assert found("ta") == ["table"]
    assert found("ns", "") == [path.split()[1] for path in COMMANDS if path.startswith("ns ")]
    assert found("namespace", "sh") == ["show"], "an alias is understood all the same"
    assert found("no-such-command", "") == found("ns", "no-such-command", "") == []


def test_each_command_has_its_help_beside_it() -> None:
    words = dict(candidates(typer.main.get_command(app), ["table"], "s").words)
    assert words == {"show": COMMANDS["table show"]}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--ver"], ["--version", "--verbose"]),
        (["ns", "show", "--a"], ["--at"]),
        (["ns", "show", "x", "--js"], ["--json"]),
        (["ns", "--js"], ["--json"]),
        (["-o", "j"], ["json", "jsonl"]),
        (["-qo", "j"], ["json", "jsonl"]),
        (["-oj"], ["-ojson", "-ojsonl"]),
        (["--output=j"], ["--output=json", "--output=jsonl"]),
        (["ns", "ls", "--output", "c"], ["csv"]),
        (["init", "--isolation", ""], ["snapshot", "serializable"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["expire", ""], ["undo", "purge", "ls"]),
        (["man", "t"], ["table", "txn", "time-travel", "tree"]),
        (["man", "table", "s"], ["show"]),
        (["ns", "show", "--json", "--js"], []),
        (["ns", "alter", "x", "--set", "a=b", "--se"], ["--set"]),
        (["ns", "show", "--", "--a"], []),
        (["ns", "create", ""], []),
        (["ns", "ls", "too", "many", ""], []),
    ],
)
def test_options_and_values(words: list[str], expected: list[str]) -> None:
    assert sorted(found(*words)) == sorted(expected)


def test_files_and_folders_are_the_shells() -> None:
    root = typer.main.get_command(app)
    assert candidates(root, ["view", "create", "--plan"], "x") == FILES
    assert candidates(root, ["view", "create"], "--plan=x") == FILES._replace(after="--plan=")
    assert candidates(root, ["-c"], "") == candidates(root, ["init"], "") == FOLDERS
    assert candidates(root, ["init"], "s3://bucket/") == NOTHING


@pytest.mark.parametrize("line", ["olympia ta", "olympia table ", "olympia table show --", "olympia -o "])
def test_static_completion_imports_nothing_slow(line: str) -> None:
    code = (
        "import os, sys; from olympia_cli.cli.app import main; leave = os._exit\n"
        "slow = {'pyarrow', 'pydantic', 'google', 'fsspec', 's3fs', 'gcsfs', 'pyspark', 'rich'}\n"
        "os._exit = lambda code: (print(sorted(slow & sys.modules.keys()), flush=True), leave(code))\n"
        "main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "__complete", "bash", "--", line, line.rpartition(" ")[2]],
        capture_output=True,
        text=True,
    )
    assert run.stdout.startswith("words\n")
    assert run.stdout.endswith(" \n[]\n"), run.stdout


# Names


def test_names_of_namespaces_are_literal(catalog: str) -> None:
    assert found("-c", catalog, "ns", "show", "a") == ["a.b"]
    assert found("ns", "show", "-c", catalog, "q") == ['q"u']
    assert found(f"--catalog={catalog}", "table", "ls", "sa") == ["sales"]


def test_tables_come_after_their_namespace(catalog: str) -> None:
    assert found("-c", catalog, "table", "show", "sa") == ["sales."]
    assert set(found("-c", catalog, "table", "show", "sales.")) == {"sales.orders", 'sales."d.d"', 'sales."q""u"'}
    assert found("-c", catalog, "table", "show", 'sales."d') == ['sales."d.d"']
    assert found("-c", catalog, "table", "show", 'sales."q""') == ['sales."q""u"']
    assert found("-c", catalog, "table", "show", '"a') == ['"a.b".']
    assert found("-c", catalog, "table", "show", '"a.b".') == ['"a.b".t']
    assert found("-c", catalog, "table", "show", '"q""u') == ['"q""u".']
    assert found("-c", catalog, "table", "show", "nowhere.") == []
    assert found("-c", catalog, "view", "show", "sales.") == ["sales.recent"]
    assert found("-c", catalog, "table", "register", "sa") == ["sales."]
    assert found("-c", catalog, "table", "register", "sales.o") == []
    assert found("-c", catalog, "log", "sale") == ["sales", "sales."]
    assert found("-c", catalog, "log", "--object", "sales.r") == ["sales.recent"]


def test_names_are_those_of_the_version_or_transaction(catalog: str) -> None:
    assert "sales.old" in found("-c", catalog, "table", "show", "--at", "v1", "sales.")
    made = Catalog(open_store(catalog))
    begun = distributed.begin(made)
    begun.transaction.create_namespace(NamespaceName("staged"))
    begun.save()
    assert found("-c", catalog, "ns", "show", "--txn", begun.id, "st") == ["staged"]
    assert found("-c", catalog, "ns", "show", "--txn", begun.id[:4]) == [begun.id]
    assert begun.id in found("-c", catalog, "txn", "show", "")
    begun.abort()


def test_references(catalog: str, tmp_path: Path) -> None:
    everything = ["latest", "latest~1", "oldest", "v2", "v1", "v0", "today", "yesterday"]
    assert found("-c", catalog, "diff", "") == everything
    assert found("-c", catalog, "ns", "ls", "--at", "v") == ["v2", "v1", "v0"]
    assert found("-c", catalog, "diff", "v0..la") == ["v0..latest", "v0..latest~1"]
    without = ["latest", "latest~1", "oldest", "today", "yesterday"]
    assert found("-c", str(tmp_path / "nothing"), "diff", "") == without


def test_profiles(tmp_path: Path, catalog: str) -> None:
    (tmp_path / "config" / "olympia").mkdir(parents=True)
    (tmp_path / "config" / "olympia" / "config.toml").write_text(f"[lake]\ncatalog = {json.dumps(catalog)}\n[other]\n")
    assert found("--profile", "") == ["lake", "other"]
    assert found("--profile", "lake", "ns", "show", "sa") == ["sales"]


def test_a_name_that_looks_like_an_option_needs_two_dashes(catalog: str) -> None:
    offered = found("-c", catalog, "ns", "drop", "")
    assert "sales" in offered
    assert not [name for name in offered if name.startswith("-")]
    assert found("-c", catalog, "ns", "drop", "--", "-") == ["--cascade", "-rf"]


def test_names_with_terminal_control_characters_are_not_completed(catalog: str) -> None:
    assert found("-c", catalog, "ns", "show", "bi") == found("-c", catalog, "table", "show", "sales.c") == []


def test_many_names(tmp_path: Path) -> None:
    made = Catalog.create(open_store(str(tmp_path / "c")))
    with made.transaction() as transaction:
        transaction.create_namespace(NamespaceName("big"))
        for number in range(completion.LIMIT + 50):
            transaction.create_table(TableName("big", f"t{number:04}"), "s3://lake/x")
    arguments = ("-c", str(tmp_path / "c"), "table", "show")
    assert len(found(*arguments, "big.")) == completion.LIMIT
    assert found(*arguments, "big.t054") == [f"big.t054{digit}" for digit in range(10)]


# Quick and silent


def test_names_are_kept_for_some_seconds(tmp_path: Path, catalog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(catalog, copy)
    assert found("-c", str(copy), "ns", "show", "sa") == ["sales"]
    (file,) = (tmp_path / "cache" / "olympia").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    shutil.rmtree(copy)
    assert found("-c", str(copy), "ns", "show", "sa") == ["sales"]
    monkeypatch.setattr(completion, "CACHE_SECONDS", 0.0)
    assert found("-c", str(copy), "ns", "show", "sa") == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 1}', '{"namespace None None None": [1e99, ["sales"]]}'])
def test_a_garbled_cache_is_no_cache(tmp_path: Path, catalog: str, content: str) -> None:
    found("-c", catalog, "ns", "show", "sa")
    (file,) = (tmp_path / "cache" / "olympia").iterdir()
    file.write_text(content)
    assert found("-c", catalog, "ns", "show", "sa") == ["sales"]


def test_a_cache_that_is_a_link_is_not_followed(tmp_path: Path, catalog: str) -> None:
    found("-c", catalog, "ns", "show", "sa")
    (file,) = (tmp_path / "cache" / "olympia").iterdir()
    other = tmp_path / "other"
    other.write_text(file.read_text().replace("sales", "salty"))
    file.unlink()
    file.symlink_to(other)
    assert found("-c", catalog, "ns", "show", "sa") == ["sales"]
    assert "salty" in other.read_text()


def test_without_a_place_for_the_cache_names_are_looked_up(
    tmp_path: Path, catalog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert found("-c", catalog, "ns", "show", "sa") == ["sales"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["zsh", "--", "-c", "/nowhere", "ns", "show", ""],
        ["zsh", "--", "-c", "nosuch://x", "ns", "show", ""],
        ["zsh", "--", "--profile", "nosuch", "ns", "show", ""],
        ["zsh", "--", "--debug", "--json", "ns", "show", ""],
        ["zsh", "--", "--at", "\udcff", "ns", "show", "\udcff"],
        ["zsh", "--"],
        ["bash", "--", "olympia 'unclosed"],
        ["bash", "--", "olympia ta", "not the end"],
        ["tcsh", "--", "x"],
    ],
)
def test_errors_are_silent(arguments: list[str]) -> None:
    run = olympia("__complete", *arguments)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout in ("", "words\n")


def test_a_store_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = tmp_path / "config.toml"
        config.write_text(
            '[default]\ncatalog = "s3://bucket/catalog"\n[default.storage]\nkey = "k"\nsecret = "s"\n'
            f'endpoint_url = "http://127.0.0.1:{server.getsockname()[1]}"\n'
        )
        started = time.monotonic()
        run = olympia("__complete", "zsh", "--", "ns", "show", "", OLYMPIA_CONFIG=str(config))
        took = time.monotonic() - started
    assert (run.returncode, run.stdout, run.stderr) == (0, "words\n", "")
    assert took < 15, "a second for the store, and what importing its SDK takes"


# Words as bash has them


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("olympia ", CommandLine((), "")),
        ("olympia ta", CommandLine((), "ta")),
        (r"olympia a\ b 'c d' \$x", CommandLine(("a b", "c d"), "$x")),
        ("olympia 'a", CommandLine((), "a", "'")),
        ('olympia x"a\\$\\b', CommandLine((), "xa$\\b", '"')),
        ("olympia a\\", CommandLine((), "a")),
        ("olympia $(ls -l", None),
        ("olympia `ls -l", None),
        ("olympia $'a", None),
        ("olympia $(ls -l) x", CommandLine(("_",), "x")),
        ("A=1 B='2 3' olympia x ", CommandLine(("x",), "")),
        ("cd x && olympia y ", CommandLine(("y",), "")),
        ("(olympia y ", CommandLine(("y",), "")),
        ("olympia log 2>/dev/null -n ", CommandLine(("log", "-n"), "")),
        ("olympia log > fi", CommandLine(("log",), "fi", is_redirected=True)),
        ("olympia '' ", CommandLine(("",), "")),
    ],
)
def test_a_line_is_read_as_bash_does(text: str, line: CommandLine | None) -> None:
    assert read_line(text) == line


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_reads_escaped_words_as_they_were(tmp_path: Path) -> None:
    words = [*EVIL, "".join(map(chr, range(33, 127))), "a=~b:~c"]
    lines = []
    for word in words:
        lines += [quote + escaped(word, quote) + quote for quote in ("", "'", '"')]
    folder = tmp_path / "empty"
    folder.mkdir()
    # through the history, as at a prompt
    script = "set -o history -o histexpand\n" + "\n".join(f"printf '%s\\0' {line}" for line in lines) + "\n"
    run = subprocess.run(["bash", "--norc"], input=script.encode(), capture_output=True, cwd=folder, check=True)
    assert run.stdout.decode().split("\0")[:-1] == [word for word in words for _ in range(3)]
    assert not list(folder.iterdir())


# Real shells


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    """A folder with an `olympia` that completes, and that otherwise only notes its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "olympia"
    completing = f"{sys.executable} -I -S {warm.__file__} {warm.serving()}"
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = __complete ]; then exec {completing} "$@"; fi\n'
        f"printf '%s\\0' \"$@\" > {tmp_path}/arguments.new && mv {tmp_path}/arguments.new {tmp_path}/arguments\n"
    )
    program.chmod(0o755)
    (tmp_path / "cwd").mkdir()
    return folder


@pytest.mark.parametrize("shell", list(SCRIPTS))
def test_the_script_is_sound(shell: str, tmp_path: Path) -> None:
    _need(shell)
    (tmp_path / "script").write_text(olympia("completion", shell).stdout)
    run = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_bash_inserts_every_name_literally(tmp_path: Path, bin: Path, catalog: str) -> None:
    _need("bash")
    line = "olympia table show evil."
    script = (
        f"{SCRIPTS[Shell.BASH]}\nCOMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=({line}) COMP_CWORD=3\n"
        "_olympia olympia evil. show\n"
        'for reply in "${COMPREPLY[@]}"; do eval "printf \'%s\\0\' $reply"; done\n'
    )
    run = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        cwd=tmp_path / "cwd",
        env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}", "OLYMPIA_CATALOG": catalog},
    )
    assert run.stderr == b""
    assert set(run.stdout.decode().split("\0")[:-1]) == {str(TableName("evil", name)) for name in EVIL}
    assert not list((tmp_path / "cwd").iterdir())


@pytest.mark.parametrize("shell", list(SCRIPTS))
def test_at_a_prompt_every_name_arrives_and_nothing_runs(shell: str, tmp_path: Path, bin: Path, catalog: str) -> None:
    _need(shell)
    with Prompt(shell, tmp_path, bin, catalog) as prompt:
        for number, name in enumerate(EVIL[:IN_EVERY_SHELL]):
            namespace = f"n{number:02}"
            assert prompt.arguments(f"olympia table show {namespace}.\t") == [
                "table",
                "show",
                str(TableName(namespace, name)),
            ]
        # a word that is typed in part, escaped or within quotes
        for typed in (r"n00.\$", "'n00.$", '"n00.', "n00"):
            twice = "\t\t" if typed == "n00" else "\t"
            assert prompt.arguments(f"olympia table show {typed}{twice}") == ["table", "show", "n00.$(>PWNED)"]
        assert prompt.arguments("olympia ns show -- -r\t") == ["ns", "show", "--", "-rf"]
        assert prompt.arguments("olympia tabl\tls --outp\tcs\t") == ["table", "ls", "--output", "csv"]
        # showing the list of all of them runs nothing either
        prompt.type("olympia table show evil.\t\t")
        prompt.wait_for("tee")
    assert not list((tmp_path / "cwd").iterdir())


class Prompt:
    """An interactive shell on a pseudo-terminal."""

    def __init__(self, shell: str, tmp_path: Path, bin: Path, catalog: str) -> None:
        self.noted = tmp_path / "arguments"
        self.screen = ""
        command = {
            "bash": ["bash", "--noprofile", "--rcfile", str(tmp_path / "bashrc"), "-i"],
            "zsh": ["zsh", "-i"],
            "fish": ["fish", "-i"],
        }[shell]
        script = SCRIPTS[Shell(shell)]
        (tmp_path / "bashrc").write_text(f"{script}\nPS1='READY> '\n")
        (tmp_path / "_olympia").write_text(script)
        (tmp_path / ".zshrc").write_text(
            f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; PS1='READY> '\n"
        )
        (tmp_path / "config" / "fish" / "completions").mkdir(parents=True)
        (tmp_path / "config" / "fish" / "completions" / "olympia.fish").write_text(script)
        (tmp_path / "config" / "fish" / "config.fish").write_text(
            "function fish_prompt; echo -n 'READY> '; end\nset -g fish_greeting\nset -g fish_autosuggestion_enabled 0\n"
        )
        environment = {
            "PATH": f"{bin}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "OLYMPIA_CATALOG": catalog,
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
        }
        self.terminal, self.keyboard = pty.openpty()
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=self.keyboard,
            stdout=self.keyboard,
            stderr=self.keyboard,
            cwd=tmp_path / "cwd",
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.wait_for("READY> ")

    def __enter__(self) -> "Prompt":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        os.close(self.keyboard)
        os.close(self.terminal)
        self.process.wait()

    def type(self, text: str) -> None:
        # letter by letter in spirit: a shell takes much at once for pasted, and a tab in it for a tab
        for part in re.split(r"(\t)", text):
            os.write(self.terminal, part.encode())
            assert self.wait(self.is_read, PATIENCE), self.screen

    def is_read(self) -> bool:
        """Return whether the shell has read all typed characters."""
        return not struct.unpack("i", fcntl.ioctl(self.keyboard, termios.FIONREAD, b"\0" * 4))[0]

    def arguments(self, text: str) -> list[str]:
        """Type the line, with what completion makes of it; the arguments that the program gets."""
        self.noted.unlink(missing_ok=True)
        self.screen = ""
        self.type(text)
        self.type("\r")
        assert self.wait(self.noted.exists, PATIENCE), self.screen
        self.wait_for("READY> ")
        return self.noted.read_bytes().decode().split("\0")[:-1]

    def wait_for(self, text: str) -> None:
        assert self.wait(lambda: text in self.screen, PATIENCE), self.screen

    def wait(self, done: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            if select.select([self.terminal], [], [], min(left, 0.02))[0]:
                self.screen += os.read(self.terminal, 65536).decode(errors="replace")
        return True


def _need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its completion is not tested here")
