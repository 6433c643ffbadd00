"""The status of a catalog as Prometheus gauges, also for a catalog that cannot be opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from olympia_cli.errors import InvalidReference
from olympia_cli.names import parse_time
from olympia_cli.ops.look.status import Status

Gauge = tuple[str, str, float | int | None]

_COUNTS = {
    "version": "The latest version.",
    "oldest_version": "The oldest version that counts.",
    "hint_lag": "How far the hint vn/latest is behind.",
    "open_transactions": "Distributed transactions under way.",
    "stale_transactions": "Distributed transactions past their lifetime.",
    "unreadable_transactions": "Distributed transactions that cannot be read.",
    "exports": "Recorded exports.",
    "reclaimable_bytes": "Bytes that an expire would put into quarantine.",
    "quarantine_bytes": "Bytes in quarantine.",
}


def prometheus(uri: str, status: Status | None) -> str:
    """Return the gauges of a catalog. If it cannot be opened, the gauge `up` is 0. Unknown values are omitted."""
    gauges: list[Gauge] = [("up", "Whether the catalog can be opened.", int(status is not None))]
    if status is not None:
        gauges += _gauges(status)
    label = uri.encode("utf-8", "backslashreplace").decode()
    label = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return "".join(_lines(gauges, f'{{catalog="{label}"}}'))


def _gauges(status: Status) -> Iterable[Gauge]:
    values = status.values
    yield from ((name, help, values.get(name)) for name, help in _COUNTS.items())
    yield "tree_depth", "Levels of the tree.", values["depth"]
    yield "needs_attention", "How many things need attention.", len(status.attention)
    damaged = values["damaged"]
    help = "Whether fsck found damage that no later fsck has cleared."
    yield "damaged", help, None if damaged is None else int(damaged)
    yield "quarantine_versions", "Versions in quarantine.", values["quarantine"]["versions"]
    yield "created_timestamp_seconds", "When the latest version was created.", _seconds(values, "created_at")
    for work in ("fsck", "expire", "export"):
        record = values[f"last_{work}"]
        seconds = None if record is None else _seconds(record, "finished_at")
        yield f"last_{work}_timestamp_seconds", f"When the last {work} ended.", seconds
    for kind, count in values.get("objects", {}).items():
        yield kind, f"How many {kind} there are.", count


def _seconds(record: Mapping[str, Any], key: str) -> float | None:
    try:
        return parse_time(str(record.get(key, ""))) / 1000
    except InvalidReference:
        return None


def _lines(gauges: Iterable[Gauge], label: str) -> Iterable[str]:
    for name, help, value in gauges:
        if value is not None:
            yield f"# HELP olympia_{name} {help}\n# TYPE olympia_{name} gauge\nolympia_{name}{label} {value}\n"
