"""Each error class has one meaning and one exit code. The reference pages list what the program has."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from olympia_cli import errors
from olympia_cli.catalog.properties import SETTINGS
from olympia_cli.errors import OlympiaError
from olympia_cli.ops.fsck import CODES as CODES_OF_FSCK
from olympia_cli.ops.fsck import severity

CODES = {
    1: "a bug",
    2: "usage",
    3: "partly done",
    10: "not found",
    11: "exists already, or not empty",
    12: "refused",
    20: "conflict with another writer",
    21: "outcome unknown",
    30: "storage failed",
    31: "no permission",
    40: "cannot be read",
    41: "format version not supported",
    50: "fsck found damage",
    51: "status needs attention",
    130: "interrupted",
}
"""The contract. 1, 50, 51 and 130 are no error's."""

CLASSES = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, OlympiaError) and found is not OlympiaError
]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
class TestClasses:
    def test_each_error_class_has_its_own_docstring(self, error):
        assert "__doc__" in vars(error)
        assert error.__doc__.strip().endswith(".")

    def test_it_has_a_documented_code(self, error):
        assert error.exit_code in set(CODES) - {1, 50, 51, 130}

    def test_its_stable_name_is_its_class(self, error):
        made = error("F205", "a path", "a reason") if issubclass(error, errors.Damaged) else error("what happened")
        assert made.name == error.__name__
        assert str(made)

    def test_its_hint_is_a_sentence_that_goes_on(self, error):
        hint = error.default_hint
        assert not hint.endswith("."), "it stands at the end of a line that has no full stop"
        assert hint[:1] == hint[:1].lower()


def test_a_subclass_has_the_code_of_its_class():
    """A handler of a class gets one exit code."""
    for error in CLASSES:
        for parent in error.__mro__[1:]:
            if issubclass(parent, OlympiaError) and parent is not OlympiaError:
                assert error.exit_code == parent.exit_code


def test_classes_stand_under_the_heading_of_their_code():
    """The file is the table: a heading `# 20, 21: …` and below it the classes of these codes, in order.

    A class may inherit its code from its family. The heading holds the code in place.
    """
    lines = Path(errors.__file__).read_text().splitlines()
    in_order = sorted(CLASSES, key=lambda error: inspect.getsourcelines(error)[1])
    codes = [error.exit_code for error in in_order]
    assert codes == sorted(codes)
    for error in in_order:
        above = lines[: inspect.getsourcelines(error)[1]]
        heading = next(line for line in reversed(above) if re.match(r"# \d+(, \d+)*: ", line))
        assert str(error.exit_code) in heading.removeprefix("# ").partition(":")[0].split(", "), error


def test_nothing_is_raised_that_is_not_in_the_file():
    """Every error that the program raises on purpose stands in errors.py."""
    folder = Path(errors.__file__).parent
    parents = "|".join(error.__name__ for error in (*CLASSES, OlympiaError))
    for path in folder.rglob("*.py"):
        found = re.search(rf"^class \w+\((?:\w+\.)?({parents})\b", path.read_text(), re.MULTILINE)
        assert not found or path.name == "errors.py", f"{path.name} makes an error of its own: {found}"


DOORS = Path(__file__).parents[2] / "docs/security.md"


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[^`]+)`", DOORS.read_text(encoding="utf-8")))))
def test_tests_that_the_security_page_names_exist(named):
    file, *names = named.split("::")
    body = ast.parse((DOORS.parents[1] / file).read_text(encoding="utf-8")).body
    for name in names:
        found = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
        assert len(found) == 1, named
        body = found[0].body


def test_the_page_of_findings_has_every_code():
    page = (DOORS.parent / "reference" / "findings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (F\d{3}) \| (\w+) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(code, str(severity(code)), text) for code, text in CODES_OF_FSCK.items()]


def test_the_page_of_configuration_has_every_setting_and_variable():
    page = (DOORS.parent / "reference" / "configuration.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(olympia\.[a-z.-]+)` \|", page, re.MULTILINE)) == set(SETTINGS)
    source = "".join(path.read_text() for path in Path(errors.__file__).parent.rglob("*.py"))
    assert set(re.findall(r"`(OLYMPIA_[A-Z_]+)`", page)) == set(re.findall(r"\bOLYMPIA_[A-Z_]*[A-Z]\b", source))


def test_readme_of_tests_names_existing_paths_and_all_folders():
    tests = Path(__file__).parents[1]
    tables = re.findall(r"^\| .+ \|$", (tests / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {path for row in tables for path in re.findall(r"`([\w/*]+(?:/|\.py|\.txt))`", row)}
    assert len(named) > 100
    assert not [path for path in named if not any(tests.glob(path))]
    folders = {path.name for path in tests.iterdir() if any(path.rglob("test_*.py"))}
    assert folders <= {path.partition("/")[0] for path in named}
