"""A strict reader of Prometheus's text format 0.0.4, by its specification: what it refuses, no server takes."""

from __future__ import annotations

import re
from typing import NamedTuple

_HELP = re.compile(r"# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ((?:[^\\\n]|\\\\|\\n)*)")
_TYPE = re.compile(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary|untyped)")
_VALUE = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|Inf|NaN)"
_SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{(.*)\}})? ({_VALUE})")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float


def parse(text: str) -> dict[str, Sample]:
    """The samples by name, each of them there once, after a help text and a type of its own; else AssertionError."""
    text.encode()
    assert text.endswith("\n"), "the last line has no end"
    helps: set[str] = set()
    types: set[str] = set()
    samples: dict[str, Sample] = {}
    # only a line feed ends a line
    for line in text[:-1].split("\n"):
        if found := _HELP.fullmatch(line):
            assert found[1] not in helps | types | set(samples), f"a help text too many or too late: {line}"
            helps.add(found[1])
        elif found := _TYPE.fullmatch(line):
            assert found[1] not in types | set(samples), f"a type too many or too late: {line}"
            types.add(found[1])
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, f"not a line of the format: {line!r}"
            assert found[1] in helps & types, f"without help or type: {line}"
            assert found[1] not in samples, f"twice: {line}"
            samples[found[1]] = Sample(_labels(found[2] or ""), float(found[3]))
    return samples


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _LABEL.match(text, at)
        assert found, f"not a label: {text[at:]!r}"
        assert found[1] not in labels, f"a label twice: {text}"
        labels[found[1]] = re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], found[2])
        at = found.end()
    return labels
