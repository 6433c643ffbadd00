"""How a catalog is doing, from a handful of reads; all of it, on demand, from a listing and a walk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.distributed import State
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile, read_hints
from olympia_cli.errors import Damaged, InvalidReference, PathMissing
from olympia_cli.format.paths import file_kind, root_path
from olympia_cli.names import Kind, parse_duration
from olympia_cli.ops.describe import time_text
from olympia_cli.ops.reach import Reach
from olympia_cli.ops.retention import MAX_AGE, MIN_VERSIONS
from olympia_cli.tree.search import depth

FAR_BEHIND = 100
"""A hint that lags by more than so many versions costs every reader probes."""

LAST_FSCK, LAST_EXPIRE = "ops/last-fsck.json", "ops/last-expire.json"
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
    states = [saved.state(catalog.clock) for saved in distributed.saved_transactions(store)]
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
        "exports": len(definition.exported_snapshots),
        "last_fsck": fsck,
        "last_expire": expire,
        "read_only": snapshot.file.java,
    }
    attention = list(_attention(catalog, snapshot, lag, states, fsck, expire, now))
    if full:
        values |= _full(catalog, snapshot, now)
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
    found = []
    properties = snapshot.definition.properties
    if lag is None and snapshot.version > FAR_BEHIND:
        found.append("the hint vn/latest is missing or unreadable")
    elif lag is not None and lag > FAR_BEHIND:
        found.append(f"the hint vn/latest is {lag:,} versions behind")
    elif lag is not None and lag < 0:
        found.append(f"the hint vn/latest is {-lag:,} versions ahead")
    if stale := states.count(State.EXPIRED):
        which = (
            "1 distributed transaction is past its"
            if stale == 1
            else f"{stale} distributed transactions are past their"
        )
        found.append(f"{which} lifetime")
    if expire is not None and _older(expire, now, properties.get(MAX_AGE, "7d")):
        found.append("expire has not run for longer than versions are kept")
    if fsck is not None and FSCK_MAX_AGE in properties and _older(fsck, now, properties[FSCK_MAX_AGE]):
        found.append(f"fsck has not run for longer than {properties[FSCK_MAX_AGE]}")
    stored = catalog.store.stat(snapshot.file.path).modified_at_millis
    if snapshot.created_at_millis - stored > HALF_AN_HOUR_MILLIS:
        found.append("the writers' clocks are ahead of the store's by more than half an hour")
    return found


def _full(catalog: Catalog, snapshot: Snapshot, now: int) -> dict[str, Any]:
    objects = {kind.word + "s": sum(1 for _ in snapshot.scan(kind)) for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)}
    kept = Reach(catalog.store, java=snapshot.file.java)
    known = True
    try:
        kept.add((version.file.path, version.file.data) for version in _kept(catalog, snapshot, now))
    except Damaged:
        # what cannot be followed reaches nobody knows what, so nothing is said to be reclaimable
        known = False
    files: dict[str, dict[str, int]] = {}
    reclaimable = 0
    for file in catalog.store.list():
        kind = file_kind(file.path).value
        counted = files.setdefault(kind, {"files": 0, "bytes": 0})
        counted["files"] += 1
        counted["bytes"] += file.size
        if kind in ("root", "node", "definition") and file.path not in kept:
            reclaimable += file.size
    return {"objects": objects, "files": files, "reclaimable_bytes": reclaimable if known else None}


def _kept(catalog: Catalog, latest: Snapshot, now: int) -> list[Snapshot]:
    """The versions that the retention policy keeps: young ones, and the last few."""
    properties = latest.definition.properties
    try:
        age = parse_duration(properties.get(MAX_AGE, "7d"))
    except InvalidReference:
        age = parse_duration("7d")
    text = properties.get(MIN_VERSIONS, "3")
    fewest = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 3
    kept = [latest]
    versions = range(latest.version - 1, oldest_version(latest) - 1, -1)
    width = latest.file.width
    for version, (path, data) in zip(
        versions, catalog.store.read_many(root_path(one, width) for one in versions), strict=True
    ):
        if isinstance(data, PathMissing):
            raise Damaged(path, f"version {version} is missing")
        if isinstance(data, Exception):
            raise data
        snapshot = Snapshot(catalog.store, RootFile(version, width, data), latest)
        if len(kept) >= fewest and now - snapshot.created_at_millis > age:
            break
        kept.append(snapshot)
    return kept


def _read_json(catalog: Catalog, path: str) -> dict[str, Any] | None:
    try:
        found = json.loads(catalog.store.read(path))
    except (PathMissing, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _older(record: dict[str, Any], now: int, limit: str) -> bool:
    from olympia_cli.names import parse_time

    try:
        return now - parse_time(str(record.get("finished_at", ""))) > parse_duration(limit)
    except InvalidReference:
        return False


def prometheus(found: Status) -> str:
    """The same as text for Prometheus's node exporter."""
    values = found.values
    uri = str(values["catalog"]).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    label = f'{{catalog="{uri}"}}'
    gauges = [
        ("version", "The latest version.", values["version"]),
        ("oldest_version", "The oldest version that counts.", values["oldest_version"]),
        ("hint_lag", "How far the hint vn/latest is behind.", values["hint_lag"]),
        ("tree_depth", "Levels of the tree.", values["depth"]),
        ("open_transactions", "Distributed transactions under way.", values["open_transactions"]),
        ("stale_transactions", "Distributed transactions past their lifetime.", values["stale_transactions"]),
        ("exports", "Recorded exports.", values["exports"]),
        ("needs_attention", "How many things need attention.", len(found.attention)),
        ("damaged", "Whether the last fsck found damage.", int(found.damaged)),
        ("reclaimable_bytes", "Bytes that the retention policy does not keep.", values.get("reclaimable_bytes")),
    ]
    lines = []
    for name, help, value in gauges:
        if value is not None:
            lines += [f"# HELP olympia_{name} {help}", f"# TYPE olympia_{name} gauge", f"olympia_{name}{label} {value}"]
    return "\n".join(lines) + "\n"
