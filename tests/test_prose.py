"""The check of the project's prose finds each kind of problem, and accepts plain texts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "check_prose.py"

PLAIN_MODULE = '''"""Reads versions."""

import re

LIMIT = 5
"""Maximum number of versions to read."""

NOBODY = re.compile("nobody")


def read(version: int) -> None:
    """Return a version. Raise NotFound if it is missing.

    | column | meaning | a row of a table may have as many words as it needs, because readers see it as cells |
    """
    # the root names all nodes
    option(help="TLS private key file.")
'''

PLAIN_DOCUMENT = """# Whoever reads this

A short paragraph with `nobody` as code.

| a row of a table may be longer than a hundred columns | because a table cannot be wrapped, and this one is not |

```
a line of output may be as long as the program prints it, and may say nobody, somebody, whoever and anew, too, of course
```
"""

LONG = "is " * 26

PROBLEMS = [
    ("a.py", '"""What this module does."""', "a.py:1: begins with 'What'"),
    ("a.py", 'def f():\n    """Whether it is."""', "a.py:2: begins with 'Whether'"),
    ("a.py", 'class C:\n    """How to do it."""', "a.py:2: begins with 'How'"),
    ("a.py", 'X = 1\n"""Such a limit."""', "a.py:2: begins with 'Such'"),
    ("a.py", 'option(help="Its key.")', "a.py:1: begins with 'Its'"),
    ("a.py", 'option(help=f"Where {x} is.")', "a.py:1: begins with 'Where'"),
    ("a.py", '"""Read a version.\n\nFor whoever needs it."""', "a.py:1: says 'whoever'"),
    ("a.py", "x = 1  # for somebody", "a.py:1: says 'somebody'"),
    ("a.py", f'"""{LONG}."""', "a.py:1: a sentence of 26 words"),
    ("a.py", f'option(help="{LONG}.")', "a.py:1: a sentence of 26 words"),
    ("a.md", "Plain.\n\nFor whoever needs it.", "a.md:3: says 'whoever'"),
    ("a.md", f"- Plain.\n- {LONG}.", "a.md:2: a sentence of 26 words"),
    ("a.md", "word " * 21 + ". And.", "a.md:1: 111 columns of at most 100"),
]


def check(*paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *paths], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("name", "text", "problem"), PROBLEMS)
def test_a_problem_is_found_with_its_file_and_line(tmp_path, name, text, problem):
    (tmp_path / name).write_text(text)
    checked = check(tmp_path)
    assert checked.returncode == 1
    assert checked.stdout.startswith(f"{tmp_path}/{problem}")
    assert checked.stderr == "1 problem\n"


def test_plain_texts_have_no_problems(tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN_MODULE)
    (tmp_path / "plain.md").write_text(PLAIN_DOCUMENT)
    checked = check(tmp_path)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_messages_of_the_product_are_checked(monkeypatch):
    """Strings of the product are shown to users. Strings of other modules may be anything."""
    monkeypatch.syspath_prepend(TOOL.parent)
    from check_prose import problems_of_module

    module = 'raise Refused(f"{path}: nobody is there", hint="plan it anew")'
    assert {problem for _, problem in problems_of_module(module)} == {"says 'nobody'", "says 'anew'"}
    assert not list(problems_of_module(module, with_messages=False))
