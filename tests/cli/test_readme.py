"""The commands of the README, typed as printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import olympia_cli
from tests.cli.conftest import Ran, Run
from tests.helpers.servers.s3 import StrictS3

TOP = Path(olympia_cli.__file__).parent.parent
README = (TOP / "README.md").read_text()


@pytest.fixture
def readme_profile(config, monkeypatch):
    """README's own config file, but for the address of its server, and credentials from the SDK's chain."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    text = re.search(r"```toml\n(.*?)```", README, re.DOTALL)
    with StrictS3() as server:
        for bucket in ("lake", "backup"):
            server.create_bucket(bucket)
        config(text[1].replace("https://minio.example.com", server.url))
        yield server


def lines(*beginnings: str) -> list[list[str]]:
    """The commands of README that begin like this, as a shell splits them."""
    commands = re.findall(r"^olympia (.+)$", README, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in commands if line.startswith(beginnings)]


def test_the_commands_under_its_own_profile(run, readme_profile):
    for words in lines("init", "ns create", "table register", "export create", "export verify"):
        assert "--dest-profile" not in words
        run(*("s3://backup/friday" if word == "backup/friday" else word for word in words)).ok()
    keys = {bucket: len(objects) for bucket, objects in readme_profile.buckets.items()}
    assert keys["lake"] > 4
    assert keys["backup"] > 4


def test_the_same_catalog_named_by_a_flag_and_a_variable(run, readme_profile, monkeypatch):
    run("init").ok()
    run("-c", "s3://lake/catalog", "ns", "create", "flag").ok()
    monkeypatch.setenv("OLYMPIA_CATALOG", "s3://lake/catalog")
    assert run("ns", "ls").ok().lines == ["flag"]


def type_all(text: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """Type a script line by line, as a shell takes it: variables, `X=$(…)`, a here-document. Each line must do."""
    typed = []
    lines = iter(text.splitlines())
    for line in lines:
        if assigned := re.fullmatch(r"(?:export )?([A-Z_]+)=(\S+)(?:\s*#.*)?", line):
            monkeypatch.setenv(assigned[1], assigned[2])
            continue
        inside = re.fullmatch(r"([A-Z_]+)=\$\((.*)\)", line)
        command, _, here = (inside[2] if inside else line).partition(" <<")
        document = "".join(iter(lambda: next(lines) + "\n", "END\n")) if here else None
        program, *words = shlex.split(os.path.expandvars(command), comments=True) or [""]
        if program == "python":
            subprocess.run([sys.executable, TOP / words[0], *words[1:]], check=True, capture_output=True)
        elif words == ["serve"]:
            continue  # it goes on until it is stopped: tests/cli/test_serve.py starts it
        elif program == "olympia":
            typed.append(run(*words, input=document).ok())
        else:
            assert not program, line
        if inside:
            monkeypatch.setenv(inside[1], typed[-1].stdout.strip())
    return typed


def test_the_tour_in_one_folder_without_a_bucket(run, tmp_path, monkeypatch):
    """All that stands in shell blocks, in order."""
    monkeypatch.setenv("PWD", str(tmp_path))
    script = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
    typed = type_all(script, run, monkeypatch)
    assert len(typed) == len(re.findall(r"^(?:ID=\$\()?olympia (?!serve )", README, re.MULTILINE)) > 20
    # what `table files` printed: the file that the example wrote, with its statistics
    [found] = [done.json for done in typed if done.stdout.startswith('{"version"') and '"files"' in done.stdout]
    [file] = found["files"]
    assert (file["records"], found["problems"]) == (4, [])
    assert Path(file["location"]).is_file()
    assert (tmp_path / "backup" / "friday" / "vn" / "latest").is_file()


def test_the_table_of_the_tour_is_one_that_others_read(tmp_path):
    done = subprocess.run(
        [sys.executable, TOP / "examples" / "lake.py", "lake"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    table = StaticTable.from_metadata(done.stdout.strip())
    assert table.scan(row_filter="cents > 1000").to_arrow()["customer"].to_pylist() == ["ann", "ann", "eve"]
