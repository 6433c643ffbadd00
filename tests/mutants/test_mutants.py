"""Each mutant still applies, and its tests exist; `make mutants` runs them."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.mutants.run import PACKAGE, ROOT, load

MUTANTS = load()


@cache
def _named_tests(file: str) -> frozenset[str]:
    """The tests of a module, as pytest names them."""
    found = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return frozenset(found)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_applies_and_its_tests_exist(mutant):
    compile(mutant.apply(ROOT / PACKAGE), mutant.file, "exec")
    assert mutant.search != mutant.replace
    for test in mutant.killed_by:
        file, _, name = test.partition("::")
        assert name in _named_tests(file), test


def test_each_is_killed_or_says_why_not():
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert all(mutant.killed_by or mutant.second_defence for mutant in MUTANTS)
    assert all(other in names for mutant in MUTANTS for other in mutant.also)
