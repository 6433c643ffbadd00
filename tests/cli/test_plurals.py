"""`1 version`, and never `1 versions`: a catalog with one of everything, and what the commands say of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from olympia_cli.format.paths import root_path
from olympia_cli.names import plural
from tests.cli.conftest import Ran, Run
from tests.cli.test_contract import SHAPES, on_sample  # noqa: F401
from tests.cli.test_terminal import look

WRONG = re.compile(r"(?<![\w.,:/=-])1 (?:more |older |distributed )?(?!is\b|has\b|was\b|as\b|this\b|says\b)[a-z]+s\b")


def check(text: str, of: object) -> None:
    assert not WRONG.findall(text), (of, text)


def test_the_check_itself():
    assert WRONG.search("it is 1 versions ahead")
    assert WRONG.search("and 1 more files")
    assert not WRONG.search("1 version; 11 versions; v1 has; 2.1 bytes; 1 table is")
    assert [plural(count, "entry", "entries") for count in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]


@pytest.mark.parametrize("command", [command for command in SHAPES if command not in ("completion", "man")])
def test_every_command(command: str, on_sample: Callable[..., Any]):  # noqa: F811
    done = on_sample(command, "--verbose")
    check(done.stdout + done.stderr, command)


STEPS = """
init lake
ns create ns
table create ns.t --schema 'id long'
table append ns.t rows.csv
txn begin
apply one.jsonl --dry-run
apply one.jsonl --commit-every 1
table show ns.t --schema
table files
compact
tree
dump-node latest
dump-node latest --follow ns.t
fsck --level data --all-versions
export create friday --dest friday
export verify friday
log --stat
log --graph
revert latest~1 --dry-run
rollback latest~1 --dry-run
status --full
diff latest~1 --stat
expire --offline --keep-last 6 --older-than 0s --grace 0s --dry-run --explain
expire --offline --keep-last 6 --older-than 0s --grace 0s --yes
expire ls
expire --simulate
expire purge --dry-run
expire undo --dry-run
fsck --salvage rescued --dry-run
status
doctor
"""


def test_one_of_everything(run: Run, tmp_path: Path):
    (tmp_path / "rows.csv").write_text("id\n1\n")
    (tmp_path / "one.jsonl").write_text('{"do": "ns create", "name": "one"}\n')
    for words in tell(STEPS):
        done = run(*words) if words[0] == "init" else run("-c", "lake", *words)
        assert done.exit_code in (0, 51), (words, done)
        check(done.stdout + done.stderr, words)
        if "--yes" not in words and words[0] not in ("init", "apply", "export", "ns", "table"):
            check(" ".join(look("-c", "lake", *words, width=200).plain), words)


def test_one_thing_that_is_wrong(run: Run, tmp_path: Path):
    run("init", "lake", "-q").ok()
    for name in ("a", "b"):
        run("-c", "lake", "ns", "create", name, "-q").ok()
    lake = tmp_path / "lake"

    def says(*words: str) -> Ran:
        done = run("-c", "lake", *words)
        check(done.stdout + done.stderr, words)
        return done

    (lake / "vn" / "latest").write_text("3")
    for words in (["status"], ["fsck"], ["ns", "ls"], ["doctor"], ["fsck", "--repair", "--dry-run"]):
        says(*words)
    (lake / "vn" / "latest").write_text("2")
    (lake / "node").mkdir(exist_ok=True)
    (lake / "node" / "00000000-0000-4000-8000-000000000000.arrow").write_bytes(b"orphan")
    assert "F901" in says("fsck", "--level", "full", "--all-versions").stdout
    newest = lake / root_path(2)
    data = newest.read_bytes()
    for content in (b"", b"\0", data[:1], data[: len(data) // 2], data[:-1], b"\xff" + data[1:]):
        newest.write_bytes(content)
        for words in (["status"], ["fsck"], ["dump-node", str(newest)], ["tree"], ["fsck", "--repair", "--dry-run"]):
            says(*words)


def tell(lines: str) -> list[list[str]]:
    return [shlex.split(line) for line in lines.strip().splitlines()]
