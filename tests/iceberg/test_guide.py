"""The commands and programs of the guide, typed as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "iceberg.md"


def test_the_program_in_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [program] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, str(GUIDE), "exec"), {})


def test_the_commands_in_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shlex

    import pyarrow
    import pyarrow.parquet
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.utils.config import Config
    from typer.testing import CliRunner

    from olympia_cli.cli.app import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OLYMPIA_CATALOG", "lake")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/prod.db")
    # it was read when PyIceberg was imported
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    rows = pyarrow.table({"id": pyarrow.array([1], pyarrow.int64()), "name": ["a"]})
    pyarrow.parquet.write_table(rows, "monday.parquet")
    Path("tuesday.csv").write_text("id,name\n2,b\n")
    source = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/prod.db", warehouse=f"file://{tmp_path}/warehouse")
    source.create_namespace("old")
    source.create_table("old.t", rows.schema)
    source.engine.dispose()
    [commands] = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = ["olympia init", "olympia ns create sales", *commands.replace("s3://lake", f"{tmp_path}").splitlines()]
    for line in lines:
        done = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
        assert done.exit_code == 0, (line, done.output)
