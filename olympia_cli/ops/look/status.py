"""How a catalog is doing, from a handful of reads; all of it, on demand, from a listing and a walk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from olympia_cli.catalog.catalog import DAY_MILLIS, Catalog
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.distributed import State
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import Damaged, FileTooLarge, InvalidReference, PathMissing, Refused, Unsupported
from olympia_cli.format.paths import file_kind
from olympia_cli.names import Kind, parse_duration, time_text
from olympia_cli.ops.expire.expire import LAST_EXPIRE
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.retention import DEFAULT_MAX_AGE, MAX_AGE, read_policy
from olympia_cli.ops.expire.values import Floors
from olympia_cli.ops.fsck.fsck import LAST_FSCK
from olympia_cli.ops.look.transactions import saved_transactions
from olympia_cli.tree.search import depth

FAR_BEHIND = 100
"""A hint that lags by more than so many versions costs every reader probes."""

FSCK_MAX_AGE = "olympia.fsck.max-age"


@dataclass(frozen=True, slots=True)
class Status:
    """What was found, and what needs attention. `damaged` is what the last fsck said."""

    values: dict[str, Any]
    attention: tuple[str, ...]
    damaged: bool

    @property
    def exit_code(self) -> int:
        return 50 if self.damaged else 51 if self.attention else 0


def status(catalog: Catalog, full: bool = False) -> Status:
    """Look at the catalog. It is never changed."""
    store, now = catalog.store, catalog.clock.now_millis()
    snapshot = catalog.snapshot()
    hints = read_hints(store)
    definition = snapshot.definition
    states = [saved.state(catalog.clock) for saved in saved_transactions(catalog, snapshot.file.java)]
    fsck, expire = _read_json(catalog, LAST_FSCK), _read_json(catalog, LAST_EXPIRE)
    lag = None if hints.latest is None else snapshot.version - hints.latest
    values: dict[str, Any] = {
        "catalog": store.uri,
        "id": definition.id,
        "version": snapshot.version,
        "created_at": time_text(snapshot.created_at_millis),
        "oldest_version": oldest_version(snapshot),
        "hint": hints.latest,
        "hint_lag": lag,
        "depth": depth(snapshot.reader, snapshot.root.node),
        "order": definition.order,
        "open_transactions": states.count(State.OPEN),
        "stale_transactions": states.count(State.EXPIRED),
        "unreadable_transactions": states.count(State.UNREADABLE),
        "exports": len(definition.exported_snapshots),
        "last_fsck": fsck,
        "last_expire": expire,
        "read_only": snapshot.file.java,
    }
    attention = list(_attention(catalog, snapshot, lag, states, fsck, expire, now))
    if full:
        values |= _full(catalog, snapshot)
    values["needs_attention"] = attention
    return Status(values, tuple(attention), bool(fsck and fsck.get("damaged")))


def _attention(
    catalog: Catalog,
    snapshot: Snapshot,
    lag: int | None,
    states: list[State],
    fsck: dict[str, Any] | None,
    expire: dict[str, Any] | None,
    now: int,
) -> list[str]:
    reasons = []
    properties = snapshot.definition.properties
    if lag is None and snapshot.version > FAR_BEHIND:
        reasons.append("the hint vn/latest is missing or unreadable")
    elif lag is not None and lag > FAR_BEHIND:
        reasons.append(f"the hint vn/latest is {lag:,} versions behind")
    elif lag is not None and lag < 0:
        reasons.append(f"the hint vn/latest is {-lag:,} versions ahead")
    if stale := states.count(State.EXPIRED):
        which = (
            "1 distributed transaction is past its"
            if stale == 1
            else f"{stale} distributed transactions are past their"
        )
        reasons.append(f"{which} lifetime")
    if unreadable := states.count(State.UNREADABLE):
        which = "1 distributed transaction" if unreadable == 1 else f"{unreadable} distributed transactions"
        reasons.append(f"{which} cannot be read")
    if expire is not None and _older(expire, now, properties.get(MAX_AGE, DEFAULT_MAX_AGE)):
        reasons.append("expire has not run for longer than versions are kept")
    if fsck is not None and FSCK_MAX_AGE in properties and _older(fsck, now, properties[FSCK_MAX_AGE]):
        reasons.append(f"fsck has not run for longer than {properties[FSCK_MAX_AGE]}")
    stored = catalog.store.stat(snapshot.file.path).modified_at_millis
    if snapshot.created_at_millis - stored > HALF_AN_HOUR_MILLIS:
        reasons.append("the writers' clocks are ahead of the store's by more than half an hour")
    return reasons


def _full(catalog: Catalog, snapshot: Snapshot) -> dict[str, Any]:
    objects = {kind.word + "s": sum(1 for _ in snapshot.scan(kind)) for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)}
    files: dict[str, dict[str, int]] = {}
    for file in catalog.store.list():
        counted = files.setdefault(file_kind(file.path).value, {"files": 0, "bytes": 0})
        counted["files"] += 1
        counted["bytes"] += file.size
    return {"objects": objects, "files": files, "reclaimable_bytes": _reclaimable(catalog)}


def _reclaimable(catalog: Catalog) -> int | None:
    """What an expire would put into quarantine now; None when it would do nothing before something is mended."""
    try:
        planner = Planner(catalog, Floors(DAY_MILLIS, DAY_MILLIS), probe=False, definitions=False)
        plan = planner.expire(read_policy(planner.definition, planner.now))
    except (Damaged, Refused, Unsupported):
        return None
    return plan.mark.files.totals.bytes


def _read_json(catalog: Catalog, path: str) -> dict[str, Any] | None:
    try:
        record = json.loads(catalog.store.read(path))
    except (PathMissing, FileTooLarge, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _older(record: dict[str, Any], now: int, limit: str) -> bool:
    from olympia_cli.names import parse_time

    try:
        return now - parse_time(str(record.get("finished_at", ""))) > parse_duration(limit)
    except InvalidReference:
        return False


def prometheus(status: Status) -> str:
    """The same as text for Prometheus's node exporter."""
    values = status.values
    uri = str(values["catalog"]).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    label = f'{{catalog="{uri}"}}'
    gauges = [
        ("version", "The latest version.", values["version"]),
        ("oldest_version", "The oldest version that counts.", values["oldest_version"]),
        ("hint_lag", "How far the hint vn/latest is behind.", values["hint_lag"]),
        ("tree_depth", "Levels of the tree.", values["depth"]),
        ("open_transactions", "Distributed transactions under way.", values["open_transactions"]),
        ("stale_transactions", "Distributed transactions past their lifetime.", values["stale_transactions"]),
        ("unreadable_transactions", "Distributed transactions that cannot be read.", values["unreadable_transactions"]),
        ("exports", "Recorded exports.", values["exports"]),
        ("needs_attention", "How many things need attention.", len(status.attention)),
        ("damaged", "Whether the last fsck found damage.", int(status.damaged)),
        ("reclaimable_bytes", "Bytes that an expire would put into quarantine.", values.get("reclaimable_bytes")),
    ]
    lines = []
    for name, help, value in gauges:
        if value is not None:
            lines += [f"# HELP olympia_{name} {help}", f"# TYPE olympia_{name} gauge", f"olympia_{name}{label} {value}"]
    return "\n".join(lines) + "\n"
