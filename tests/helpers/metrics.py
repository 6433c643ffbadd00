"""The metrics that a command on Spark reports."""

from __future__ import annotations

from typing import Any

COUNTS = ("jobs", "tasks", "failed_tasks", "restarts")
READ = ("files", "bytes")


def measured(document: dict[str, Any]) -> dict[str, Any]:
    """The document without its metrics, which have the shape that scripts rely on."""
    metrics = document["metrics"]
    assert list(metrics) == ["seconds", *COUNTS, *READ, "steps"]
    assert metrics["seconds"] > 0
    assert metrics["jobs"] is not None, "but for a Connect server, they are counted"
    for step in metrics["steps"]:
        assert list(step) == ["step", "seconds", *COUNTS, *READ]
        assert metrics["seconds"] >= step["seconds"] >= 0
    assert all(metrics[name] == sum(step[name] for step in metrics["steps"]) for name in (*COUNTS, *READ))
    return {key: value for key, value in document.items() if key != "metrics"}
