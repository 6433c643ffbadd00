"""The recipes of the guide to Spark, as they are typed."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "spark.md").read_text()


def block(guide: str, heading: str) -> str:
    """The first block of code below a heading."""
    below = guide.split(f"\n### {heading}\n", 1)[1].split("\n### ", 1)[0]
    found = re.search(r"^```\w*\n(.*?)^```", below, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def submit_words(guide: str) -> list[str]:
    """The command line of spark-submit."""
    return shlex.split(block(guide, "spark-submit").replace("\\\n", " "))


def operator_words(guide: str) -> list[str]:
    """The command line that Airflow's operator makes of its arguments: its connection names the master."""
    [call] = [node for node in ast.walk(ast.parse(block(guide, "Airflow"))) if isinstance(node, ast.Call)]
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    settings = [word for item in given["conf"].items() for word in ("--conf", "=".join(item))]
    named = ["--py-files", given["py_files"], "--name", given["name"]]
    return [
        *("spark-submit", "--master", "spark://head:7077", *settings, *named),
        *(given["application"], *given["application_args"]),
    ]
