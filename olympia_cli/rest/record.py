"""The log of requests, one JSON line each, and metrics for Prometheus."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import TextIO

from olympia_cli.masking import masked
from olympia_cli.names import time_text

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Record:
    """Writes the log and counts requests. The metrics name no objects, because many people may read them."""

    def __init__(self, now_millis: Callable[[], int], stream: TextIO | None = None) -> None:
        self._now = now_millis
        self._stream = stream
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self.under_way = 0

    def event(self, event: str, **values: object) -> None:
        """Log an event that is not a request."""
        self._write({"time": time_text(self._now()), "event": event, **values})

    def request(self, method: str, path: str, operation: str, status: int, seconds: float, **values: object) -> None:
        # methods of unknown operations are counted together, so that clients cannot grow the metrics
        counted = method if operation != "none" else "other"
        with self._lock:
            self._requests[counted, operation, status] += 1
            self._seconds[operation] += seconds  # type: ignore[assignment]
            for bound in BUCKETS:
                if seconds <= bound:
                    self._buckets[operation, bound] += 1
        known = {key: value for key, value in values.items() if value is not None}
        line = {"time": time_text(self._now()), "method": method, "path": path[:2000], "operation": operation}
        self._write({**line, "status": status, "millis": round(seconds * 1000, 2), **known})

    def _write(self, line: dict[str, object]) -> None:
        line = {key: masked(value) if isinstance(value, str) else value for key, value in line.items()}
        # ASCII only, because a path may contain control characters for a terminal
        stream = sys.stderr if self._stream is None else self._stream
        try:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
        except (OSError, ValueError):
            return  # a closed log must not stop the server

    def prometheus(self, gauges: dict[str, tuple[str, float]]) -> str:
        """Return all metrics in Prometheus's format."""
        lines = ["# HELP olympia_requests_total Requests answered.", "# TYPE olympia_requests_total counter"]
        with self._lock:
            for (method, operation, status), count in sorted(self._requests.items()):
                labels = f'method="{method}",operation="{operation}",status="{status}"'
                lines.append(f"olympia_requests_total{{{labels}}} {count}")
            lines += [
                "# HELP olympia_request_seconds Duration of requests.",
                "# TYPE olympia_request_seconds histogram",
            ]
            for operation in sorted(self._seconds):
                for bound in BUCKETS:
                    count = self._buckets[operation, bound]
                    lines.append(f'olympia_request_seconds_bucket{{operation="{operation}",le="{bound}"}} {count}')
                total = sum(count for (_, name, _), count in self._requests.items() if name == operation)
                lines.append(f'olympia_request_seconds_bucket{{operation="{operation}",le="+Inf"}} {total}')
                lines.append(f'olympia_request_seconds_sum{{operation="{operation}"}} {self._seconds[operation]:.6f}')
                lines.append(f'olympia_request_seconds_count{{operation="{operation}"}} {total}')
        for name, (help, value) in gauges.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP olympia_{name} {help}", f"# TYPE olympia_{name} {kind}", f"olympia_{name} {value:g}"]
        return "\n".join(lines) + "\n"
