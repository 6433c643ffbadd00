"""The command line as a job: its words, the files for spark-submit, and what a killed process leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import InvalidOption
from olympia_cli.spark.job import on_spark
from olympia_cli.spark.session import spark_session
from olympia_cli.storage.local import LocalStore
from tests.helpers import recipes

PACKAGE = "import sys, time; from olympia_cli.spark.proof import package_zip; print(package_zip(), flush=True)"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fsck --level full", "fsck --level full --engine spark"),
        ("export resume --dest /d -- -odd", "export resume --dest /d --engine spark -- -odd"),
        ("fsck --engine local", "fsck --engine local"),
        ("fsck --master=yarn", "fsck --master=yarn"),
        ("fsck --remote sc://head", "fsck --remote sc://head"),
    ],
)
def test_a_job_runs_on_spark_unless_options_choose_otherwise(words, expected):
    assert on_spark(words.split()) == expected.split()


def test_the_files_are_all_that_a_machine_needs(tmp_path):
    """The zip is the program, too; nothing of the folder that it was made from is used."""
    done = subprocess.run(
        [sys.executable, "-m", "olympia_cli.spark.job", "--files", tmp_path / "job"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == ["olympia_cli.zip", "olympia_job.py"]
    Catalog.create(LocalStore(str(tmp_path / "lake")))
    # of what a person asks for here, none needs Spark
    words = ["fsck", "-c", tmp_path / "lake", "--engine", "local", "--json"]
    ran = subprocess.run(
        [sys.executable, tmp_path / "job" / "olympia_job.py", *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "job" / "olympia_cli.zip")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert '"damaged": false' in ran.stdout
    # what executors are sent is the zip that it came in
    sent = subprocess.run(
        [sys.executable, "-c", PACKAGE],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "job" / "olympia_cli.zip")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert sent.stdout == f"{tmp_path}/job/olympia_cli.zip\n", sent.stderr


def test_the_recipes_of_the_guide_are_one_command():
    assert recipes.operator_words(recipes.GUIDE) == recipes.submit_words(recipes.GUIDE)


def test_the_next_start_removes_leftovers_of_killed_processes(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def start() -> tuple[subprocess.Popen[str], Path]:
        words = [sys.executable, "-c", f"{PACKAGE}; sys.stdin.read()"]
        process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    other = tmp_path / "olympia-spark-of-somebody"
    other.mkdir()
    killed, left = start()
    running, used = start()
    try:
        assert left.exists(), "nobody takes away what is in use"
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.exists()
        third, _ = start()
        third.communicate("")
        assert not left.parent.exists()
        assert zipfile.is_zipfile(used)
        assert other.exists(), "nothing says that it is ours"
    finally:
        for process in (killed, running):
            process.kill()
            process.communicate()


def test_a_master_beside_that_of_spark_submit_is_refused(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    for place, said in (({"master": "local[2]"}, "a master"), ({"remote": "sc://x"}, "a server")):
        with (
            pytest.raises(InvalidOption, match=f"{said} was given, but spark-submit has one: give it to spark-submit"),
            spark_session(**place),
        ):
            raise AssertionError("there is none")
