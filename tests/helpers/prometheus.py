"""Metrics as Prometheus's own client reads them."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float


def parse(text: str) -> dict[str, Sample]:
    """The samples by name, each of them there once, with a help text and a type of its own; else an error."""
    text.encode()
    assert text.endswith("\n"), "the last line has no end"
    samples: dict[str, Sample] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, f"without help: {family.name}"
        assert family.type != "unknown", f"without a type: {family.name}"
        for sample in family.samples:
            assert sample.name not in samples, f"twice: {sample.name}"
            samples[sample.name] = Sample(sample.labels, sample.value)
    return samples
