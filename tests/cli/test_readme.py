"""Type the commands of README and of the tour as they are printed."""

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
README = (TOP / "README.md").read_text(encoding="utf-8")
TOUR = (TOP / "docs" / "guides" / "tour.md").read_text(encoding="utf-8")


@pytest.fixture
def profile_of_the_tour(config, monkeypatch):
    """The config file of the tour, with the address of a local server, and credentials from the SDK's chain."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    text = re.search(r"```toml\n(.*?)```", TOUR, re.DOTALL)
    with StrictS3() as server:
        for bucket in ("lake", "backup"):
            server.create_bucket(bucket)
        config(text[1].replace("https://minio.example.com", server.url))
        yield server


def lines(*beginnings: str) -> list[list[str]]:
    """Return the commands of the tour that begin like this, as a shell splits them."""
    commands = re.findall(r"^olympia (.+)$", TOUR, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in commands if line.startswith(beginnings)]


def test_the_commands_of_the_tour_under_its_own_profile(run, profile_of_the_tour):
    for words in lines("init", "ns create", "table register", "export create", "export verify"):
        assert "--dest-profile" not in words
        run(*("s3://backup/friday" if word == "backup/friday" else word for word in words)).ok()
    keys = {bucket: len(objects) for bucket, objects in profile_of_the_tour.buckets.items()}
    assert keys["lake"] > 4
    assert keys["backup"] > 4


def test_flag_and_environment_variable_name_the_same_catalog(run, profile_of_the_tour, monkeypatch):
    run("init").ok()
    run("-c", "s3://lake/catalog", "ns", "create", "flag").ok()
    monkeypatch.setenv("OLYMPIA_CATALOG", "s3://lake/catalog")
    assert run("ns", "ls").ok().lines == ["flag"]


def type_all(text: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """Type a script line by line, as a shell reads it: variables, `X=$(…)`, a here-document. Each line must succeed."""
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
            continue  # runs until it is stopped: tests/cli/test_serve.py starts it
        elif program == "olympia":
            typed.append(run(*words, input=document).ok())
        else:
            assert not program, line
        if inside:
            monkeypatch.setenv(inside[1], typed[-1].stdout.strip())
    return typed


def test_the_tour_in_one_folder_without_a_bucket(run, tmp_path, monkeypatch):
    """All shell blocks of the tour, in order."""
    monkeypatch.setenv("PWD", str(tmp_path))
    script = "".join(re.findall(r"```sh\n(.*?)```", TOUR, re.DOTALL))
    typed = type_all(script, run, monkeypatch)
    assert len(typed) == len(re.findall(r"^(?:ID=\$\()?olympia (?!serve )", TOUR, re.MULTILINE)) > 20
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


def test_the_commands_of_readme(run, tmp_path):
    """`make demo` and the command after it. The environment of the tests stands in for the one that make installs."""
    [script] = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    [demo, init] = [shlex.split(line, comments=True) for line in script.splitlines()]
    assert demo[0] == "make"
    environment = Path(sys.prefix)
    installed = ["-o", str(environment / ".installed"), f"VENV={environment}"]
    done = subprocess.run([*demo, *installed], cwd=TOP, capture_output=True, text=True, check=True)
    assert "olympia init" in done.stdout
    assert init[0] == ".venv/bin/olympia"
    run(*init[1:]).ok()
    assert (tmp_path / "catalog" / "vn" / "latest").is_file()


DOCUMENTS = [*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md"), TOP / "tests" / "README.md"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(TOP)))
def test_links_of_the_documents_lead_to_files_and_headings(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        file, _, heading = target.partition("#")
        linked = path if not file else path.parent / file
        assert linked.exists(), target
        if heading:
            assert heading in anchors(linked), target


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings of a document, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
