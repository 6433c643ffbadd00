"""What else keeps files beside versions: distributed transactions under way, and exports that share files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from olympia_cli.catalog.exports import parse_record
from olympia_cli.catalog.snapshot import EXPORT_PREFIX
from olympia_cli.format.definitions import Digest, check_digest
from olympia_cli.format.node import Root
from olympia_cli.format.node_file import decode_root
from olympia_cli.format.paths import (
    JAVA_TRANSACTIONS,
    check_pointer,
    java_transaction_id,
    parse_root_path,
    parse_transaction_path,
    transaction_path,
    transaction_save_path,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef, DistributedTransactionDef
from olympia_cli.ops.fsck.chain import Chain
from olympia_cli.ops.fsck.findings import Finding, finding
from olympia_cli.ops.walk.files import Files, StoreFailure
from olympia_cli.ops.walk.flaws import Flaw, flaw_of

MODES = ("full", "partial", "minimal")


@dataclass(frozen=True, slots=True)
class Holder:
    """Something that begins a tree beside the versions: who it is, the code of what is wrong below it, and its root."""

    who: str
    code: str
    path: str
    data: bytes
    root: Root
    hint: str
    """The command that gives it up."""

    def finding(self, path: str, flaw: Flaw) -> Finding:
        """What is wrong with a file that it needs."""
        return finding(self.code, path, f"{self.who}: {flaw.reason}", hint=self.hint, held_by=[self.who])


@dataclass(frozen=True, slots=True)
class Held:
    """Holders whose roots are whole, what is wrong with the others, and how many there are."""

    holders: tuple[Holder, ...]
    findings: tuple[Finding, ...]
    count: int
    saved: frozenset[str] = frozenset()
    """The ids of the transactions that have a save."""


def held_files(files: Files, chain: Chain, now: int) -> list[Held]:
    """What the live distributed transactions of a catalog hold, and what its exports do."""
    java = chain.java
    holdings = [_transactions_of_java(files, now) if java else transactions(files, set(chain.existing), now)]
    if chain.reference is not None:
        holdings.append(exports(files, chain.reference, chain.path(chain.reference_version or 0), now))
    return holdings


def _transactions_of_java(files: Files, now: int) -> Held:
    """Those of the Java SDK. One that names no root holds nothing, and nobody here can give it up."""
    states: list[Holder | Finding] = []
    listed = sorted(file.path for file in files.store.list(JAVA_TRANSACTIONS) if java_transaction_id(file.path))
    for path, data in files.read_many(listed):
        definition, who = _parse(data, path), f"the transaction {java_transaction_id(path)}"
        if isinstance(definition, str):
            states.append(finding("F501", path, f"{who}: {definition}", held_by=[who]))
        elif now > definition.expire_at_millis:
            states.append(finding("F907", path, f"{who} is past its end"))
        elif definition.running_root_node_file_path:
            states.append(_root(files, definition.running_root_node_file_path, path, who, "F502", "", java=True))
    return _held(states, len(listed))


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
    # another program may have written the file without a number alone; one that is no transaction is an orphan
    ids = [*sorted(saves), *sorted(alone)]
    paths = [transaction_save_path(id, max(saves[id])) if id in saves else transaction_path(id) for id in ids]
    states: list[Holder | Finding] = []
    for id, (path, data) in zip(ids, files.read_many(paths), strict=True):
        definition = _parse(data, path)
        if id in alone and (isinstance(definition, str) or definition.id != id):
            alone.discard(id)
        elif isinstance(definition, str):
            states.append(_unreadable(files, id, path, saves[id], definition, now))
        else:
            states += _transaction(files, id, path, definition, existing, now)
    saved = alone.union(saves)
    return _held(states, len(saved), frozenset(saved))


def _held(states: Sequence[Holder | Finding], count: int, saved: frozenset[str] = frozenset()) -> Held:
    holders = tuple(holder for holder in states if isinstance(holder, Holder))
    return Held(holders, tuple(finding for finding in states if isinstance(finding, Finding)), count, saved)


def _unreadable(files: Files, id: str, path: str, saves: list[int], reason: str, now: int) -> Finding:
    earlier = [transaction_save_path(id, save) for save in sorted(saves)[:-1]]
    if _over(files, [transaction_path(id), *reversed(earlier[-8:])], now):
        return finding("F907", path, f"the transaction {id} is past its end, and {reason}")
    who = f"the transaction {id}"
    return finding("F501", path, f"{who}: {reason}", hint=f"txn abort {id}", held_by=[who])


def _transaction(
    files: Files, id: str, path: str, definition: DistributedTransactionDef, existing: set[int], now: int
) -> Iterator[Holder | Finding]:
    who, abort, beginning = f"the transaction {id}", f"txn abort {id}", definition.beginning_root_node_file_path
    running, began = definition.running_root_node_file_path, parse_root_path(beginning)
    if definition.id != id:
        reason = f"it is of the transaction {definition.id[:60]!a}"
        yield finding("F501", path, f"{who}: {reason}", hint=abort, held_by=[who])
    elif not running or parse_root_path(running) is not None:
        return  # aborted or committed: nothing depends on it any more
    elif now > definition.expire_at_millis:
        yield finding("F907", path, f"the transaction {id} is past its end", hint=abort)
    else:
        # it may have begun at a version that was committed since the listing
        if began is None or (began not in existing and not files.store.exists(beginning)):
            where = f"version {began}" if began is not None else ascii(beginning[:100])
            reason = f"{who} began at {where}, which does not exist"
            yield finding("F502", path, reason, hint=abort, held_by=[who])
        yield _root(files, running, path, who, "F502", abort)


def exports(files: Files, catalog: CatalogDef, holder: str, now: int) -> Held:
    """The exports that the catalog records. Those that share files pin them until they expire."""
    states: list[Holder | Finding] = []
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
            states.append(finding("F504", holder, f"the export {name!a} has a record and no location", hint=drop))
        elif isinstance(record, str):
            states.append(finding("F504", holder, f"the record of the export {name!a} {record}", hint=drop))
        elif record.pin is not None and not record.expired(now):
            states.append(_root(files, record.pin, holder, f"the export {name}", "F503", drop))
    return _held(states, len(names | recorded))


def _root(files: Files, path: str, holder: str, who: str, code: str, hint: str, java: bool = False) -> Holder | Finding:
    data: bytes | Exception
    try:
        data = files.read(check_pointer(path, holder))
        if isinstance(data, bytes):
            return Holder(who, code, path, data, decode_root(data, path, java), hint)
        error: Exception = data
    except StoreFailure:
        raise
    except Exception as damage:
        # what a decoder stumbles over is damage, whatever it says
        error = damage
    flaw = flaw_of(error)
    where = holder if flaw.code == "F212" else path
    return finding(code, where, f"the root that {who} needs: {flaw.reason}", hint=hint, held_by=[who])


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
        save = _parse(data, path)
        if not isinstance(save, str):
            return now > save.expire_at_millis
    return False
