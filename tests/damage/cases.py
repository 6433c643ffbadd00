"""All the cases."""

from __future__ import annotations

from tests.damage import content_cases, keeping_cases, pointer_cases, tree_cases, version_cases
from tests.damage.case import CASES, Case

ALL: tuple[Case, ...] = tuple(CASES)
MODULES = (tree_cases, pointer_cases, content_cases, version_cases, keeping_cases)
