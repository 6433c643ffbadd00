"""The templates of all pages: they escape every value, load nothing, and are in the wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from jinja2 import UndefinedError

import olympia_cli
from olympia_cli.pages import _environment, ago, cut, shown, size_text

PACKAGE = Path(olympia_cli.__file__).parent
TEMPLATES = sorted(path for path in PACKAGE.rglob("templates/*") if path.suffix in (".html", ".css"))
HOSTILE = '<script>alert("x")</script>&\u202e\x1b\ud800'


def rendered(source: str, **values: object) -> str:
    return _environment(PACKAGE / "pages/templates").from_string(source).render(**values)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_turns_no_escaping_off_and_has_no_script_and_no_outside_address(path):
    source = path.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*(safe|e|escape|forceescape)\b|autoescape|Markup", source)
    assert not re.search(r"<script|<iframe|<img|javascript:|\bstyle=|\bon\w+=", source, re.IGNORECASE)
    assert not re.search(r"https?:|@import|@font-face", source)


def test_a_value_is_escaped_in_every_position():
    for source in (
        "{{ x }}",
        '<a title="{{ x }}">',
        "{{ [x, x]|join(', ') }}",
        "{{ x ~ x }}",
        "{{ x|cut }}",
        "{{ [x] }}",
    ):
        page = rendered(source, x=HOSTILE)
        assert "<script" not in page
        assert 'alert("' not in page
        assert "&lt;script&gt;" in page
        assert "\\u202e\\u001b\\ud800" in page
        page.encode()


def test_undefined_value_is_an_error_and_none_is_empty():
    with pytest.raises(UndefinedError):
        rendered("{{ x }}")
    with pytest.raises(UndefinedError):
        rendered("{{ x.y }}", x={})
    assert rendered("[{{ x }}]", x=None) == "[]"
    assert rendered("{{ x }}", x={"complete": True, "damaged": False, "runs": [None, 1]}) == (
        "complete: yes, damaged: no, runs: , 1"
    )


def test_values_as_people_read_them():
    assert [ago(millis, 100_000_000) for millis in (99_990_000, 99_000_000, 10_000_000, 103_600_000)] == [
        "just now", "16 minutes ago", "1 day ago", "in 1 hour",
    ]  # fmt: skip
    assert [size_text(size) for size in (0, 1023, 1536, 5 * 2**40 * 2000)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "10,000.0 TiB",
    ]
    assert cut("x" * 10_000) == "x" * 300 + "…"
    assert shown("表\u200f") == "表\\u200f"


def test_the_wheel_holds_all_templates(tmp_path):
    wheel = next(WheelBuilder(str(PACKAGE.parent)).build(directory=str(tmp_path), versions=["standard"]))
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert len(TEMPLATES) >= 15
    assert {path.relative_to(PACKAGE.parent).as_posix() for path in TEMPLATES} <= names


PROGRAM = """
import sys
from olympia_cli.__main__ import main
sys.argv[0] = "olympia"
main()
sys.stderr.write("\\n" + " ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize(
    ("args", "renders"),
    [
        (["--help"], False),
        (["table", "show", "sales.orders"], False),
        (["log"], False),
        (["fsck"], False),
        (["log", "--html", "page.html"], True),
        (["fsck", "--report", "page.html"], True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_jinja_is_imported_only_for_a_page(args, renders, tmp_path):
    uri = str(tmp_path / "catalog")
    subprocess.run([sys.executable, "-m", "olympia_cli", "-c", uri, "init"], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "-c", uri, *args], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ("jinja2" in done.stderr.splitlines()[-1].split()) is renders
    assert (tmp_path / "page.html").exists() is renders
