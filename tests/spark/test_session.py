"""The ways in which there is no Spark to be had, each a line that says what to do; and the zip of our code."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import olympia_cli
from olympia_cli.errors import InvalidOption, SparkMissing, SparkUnreachable
from olympia_cli.spark.proof import package_zip
from olympia_cli.spark.requirements import need_java
from olympia_cli.spark.session import spark_session
from tests.helpers.planted import SECRET


def refuse(**options):
    with spark_session(**options):
        raise AssertionError("there is no such Spark")


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def silent_port():
    """Something that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_no_pyspark(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SparkMissing, match=r"install olympia-cli\[spark\]"):
        refuse()


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_no_java(monkeypatch, tmp_path, master):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match="not found at JAVA_HOME: install Java"):
        refuse(master=master)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkMissing, match="not found: install Java"):
        refuse(master=master)


@pytest.mark.parametrize(("said", "error"), [('java version "1.8.0_402"', "Java 8 is too old"), ("", "not found at")])
def test_a_java_that_will_not_do(monkeypatch, tmp_path, said, error):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n[ -n '{said}' ] || exit 1\necho '{said}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match=error):
        need_java()


@pytest.mark.parametrize("scheme", ["spark", "k8s://https", "sc"])
def test_an_unreachable_master_or_remote_is_reported(closed_port, scheme):
    url = f"{scheme}://127.0.0.1:{closed_port}"
    with pytest.raises(SparkUnreachable, match=f"127.0.0.1:{closed_port}") as raised:
        refuse(**{"remote" if scheme == "sc" else "master": url})
    assert raised.value.exit_code == 30


def test_a_server_that_never_answers(silent_port):
    with pytest.raises(SparkUnreachable, match="did not answer within 2 s") as raised:
        refuse(remote=f"sc://127.0.0.1:{silent_port}/;token=hunter2", wait=2)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        {"master": "local[2]", "remote": "sc://x"},
        {"master": ""},
        {"remote": ""},
        {"master": "local[2]x"},
        {"master": "nonsense"},
        {"master": "spark://nowhere"},
        {"master": "spark://host:port"},
        {"remote": "http://x"},
        {"remote": "sc://host:port"},
    ],
)
def test_nonsense_is_refused(options):
    with pytest.raises(InvalidOption):
        refuse(**options)


def test_the_zip_is_the_package(tmp_path):
    path = package_zip()
    assert package_zip() == path
    folder = Path(olympia_cli.__file__).parent
    with zipfile.ZipFile(path) as file:
        assert set(file.namelist()) == {str(one.relative_to(folder.parent)) for one in folder.rglob("*.py")}
    # it can be imported as it is, from anywhere
    code = "import olympia_cli.spark.source as t; print(t.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(path), done.stderr


def test_a_secret_setting_is_the_session_s_and_on_no_command_line(spark):
    """Spark would put it on the command line of Java, which every user of the machine can read."""
    context = spark.sparkContext
    assert context.getConf().get("spark.hadoop.fs.s3a.secret.key") == SECRET
    assert context._jsc.hadoopConfiguration().get("fs.s3a.secret.key") == SECRET
    command = Path(f"/proc/{context._gateway.proc.pid}/cmdline").read_bytes()
    assert b"spark.sql.session.timeZone=UTC" in command
    assert SECRET.encode() not in command
