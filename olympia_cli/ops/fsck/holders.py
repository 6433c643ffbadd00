"""What else keeps files beside versions: distributed transactions under way, and exports that share files."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from olympia_cli.catalog.exports import parse_record
from olympia_cli.catalog.snapshot import EXPORT_PREFIX
from olympia_cli.errors import Damaged
from olympia_cli.format.actions import decode_action
from olympia_cli.format.definitions import Digest, check_digest
from olympia_cli.format.node import Root
from olympia_cli.format.node_file import decode_action_rows, decode_root
from olympia_cli.format.paths import (
    check_pointer,
    parse_root_path,
    parse_transaction_path,
    transaction_path,
    transaction_save_path,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef, DistributedTransactionDef
from olympia_cli.ops.fsck.findings import Finding, finding
from olympia_cli.ops.walk.files import Files, StoreFailure
from olympia_cli.ops.walk.flaws import flaw_of

MODES = ("full", "partial", "minimal")


@dataclass(frozen=True, slots=True)
class Holder:
    """Something that begins a tree beside the versions: who it is, the code of what is wrong below it, and its root."""

    who: str
    code: str
    path: str
    data: bytes
    root: Root


@dataclass(frozen=True, slots=True)
class Held:
    """Holders whose roots are whole, what is wrong with the others, and how many there are."""

    holders: tuple[Holder, ...]
    findings: tuple[Finding, ...]
    count: int
    saved: frozenset[str] = frozenset()
    """The ids of the transactions that have a save."""


def transactions(files: Files, existing: set[int], now: int) -> Held:
    """The live distributed transactions, by their latest saves."""
    saves: dict[str, list[int]] = {}
    alone: set[str] = set()
    for file in files.store.list("dtxn/"):
        parsed = parse_transaction_path(file.path)
        if parsed is not None and parsed[1] is not None:
            saves.setdefault(parsed[0], []).append(parsed[1])
        elif parsed is not None:
            alone.add(parsed[0])
    alone -= set(saves)
    holders: list[Holder] = []
    findings: list[Finding] = []
    # another program may have written the file without a number alone; one that is no transaction is an orphan
    ids = [*sorted(saves), *sorted(alone)]
    paths = [transaction_save_path(id, max(saves[id])) if id in saves else transaction_path(id) for id in ids]
    for id, (path, data) in zip(ids, files.read_many(paths), strict=True):
        definition = _parse(data, path)
        if id in alone and (isinstance(definition, str) or definition.id != id):
            alone.discard(id)
            continue
        if isinstance(definition, str):
            earlier = [transaction_save_path(id, save) for save in sorted(saves[id])[:-1]]
            if _over(files, [transaction_path(id), *reversed(earlier[-8:])], now):
                findings.append(finding("F907", path, f"the transaction {id} is past its end, and {definition}"))
            else:
                findings.append(finding("F501", path, f"the transaction {id}: {definition}", hint=f"txn abort {id}"))
            continue
        if definition.id != id:
            reason = f"it is of the transaction {definition.id[:60]!a}"
            findings.append(finding("F501", path, f"the transaction {id}: {reason}", hint=f"txn abort {id}"))
            continue
        running = definition.running_root_node_file_path
        if not running or parse_root_path(running) is not None:
            continue  # aborted or committed: nothing depends on it any more
        if now > definition.expire_at_millis:
            findings.append(finding("F907", path, f"the transaction {id} is past its end", hint=f"txn abort {id}"))
            continue
        began = parse_root_path(definition.beginning_root_node_file_path)
        # it may have begun at a version that was committed since the listing
        if began is None or (
            began not in existing and not files.store.exists(definition.beginning_root_node_file_path)
        ):
            shown = definition.beginning_root_node_file_path[:100]
            where = f"version {began}" if began is not None else ascii(shown)
            reason = f"the transaction {id} began at {where}, which does not exist"
            findings.append(finding("F502", path, reason, hint=f"txn abort {id}"))
        found = _root(files, running, path, f"the transaction {id}", "F502", f"txn abort {id}")
        if isinstance(found, Finding):
            findings.append(found)
        else:
            holders.append(found)
    saved = alone.union(saves)
    return Held(tuple(holders), tuple(findings), len(saved), frozenset(saved))


def exports(files: Files, catalog: CatalogDef, holder: str, now: int) -> Held:
    """The exports that the catalog records. Those that share files pin them until they expire."""
    holders: list[Holder] = []
    findings: list[Finding] = []
    names = set(catalog.exported_snapshots)
    recorded = {key.removeprefix(EXPORT_PREFIX) for key in catalog.properties if key.startswith(EXPORT_PREFIX)}
    for name in sorted(names | recorded):
        record = parse_record(
            name, catalog.exported_snapshots.get(name, ""), catalog.properties.get(EXPORT_PREFIX + name)
        )
        if not isinstance(record, str) and record.mode not in MODES:
            record = f"has the mode {record.mode[:40]!a}"
        drop = f"export drop {shlex.quote(name)}"
        if name not in names:
            findings.append(finding("F504", holder, f"the export {name!a} has a record and no location", hint=drop))
        elif isinstance(record, str):
            findings.append(finding("F504", holder, f"the record of the export {name!a} {record}", hint=drop))
        elif record.pin is not None and not record.expired(now):
            found = _root(files, record.pin, holder, f"the export {name}", "F503", drop)
            if isinstance(found, Finding):
                findings.append(found)
            else:
                holders.append(found)
    return Held(tuple(holders), tuple(findings), len(names | recorded))


def _root(files: Files, path: str, holder: str, who: str, code: str, hint: str) -> Holder | Finding:
    data: bytes | Exception
    try:
        data = files.read(check_pointer(path, holder))
        if isinstance(data, bytes):
            return Holder(who, code, path, data, decode_root(data, path))
        error: Exception = data
    except StoreFailure:
        raise
    except Exception as damage:
        # what a decoder stumbles over is damage, whatever it says
        error = damage
    flaw = flaw_of(error)
    where = holder if flaw.code == "F212" else path
    return finding(code, where, f"the root that {who} needs: {flaw.reason}", hint=hint)


def _parse(data: bytes | Exception, path: str) -> DistributedTransactionDef | str:
    if isinstance(data, Exception):
        return f"its save cannot be read: {data}"
    try:
        definition = DistributedTransactionDef.FromString(data)
        digest = check_digest(data, path)
    except (DecodeError, ValueError, RecursionError):
        return "its save cannot be parsed"
    if digest is Digest.MISMATCH:
        return "its save is not what its digest says"
    return definition if definition.id else "its save is empty or has no id"


def _over(files: Files, paths: list[str], now: int) -> bool:
    """Whether another save says that the transaction's time is over; the end never moves."""
    for path, data in files.read_many(paths):
        found = _parse(data, path)
        if not isinstance(found, str):
            return now > found.expire_at_millis
    return False


def check_actions(data: bytes, path: str) -> tuple[int, str]:
    """How many action rows a root has, and what is wrong with the first that is not sound."""
    try:
        rows = decode_action_rows(data, path)
        for key, value in rows:
            decode_action(key, value, path)
    except Damaged as error:
        return 0, error.reason
    except Exception as error:
        # what a decoder stumbles over is damage, whatever it says
        return 0, f"its action rows cannot be read: {type(error).__name__}"
    return len(rows), ""
