"""The findings about transactions and exports, and the trees that they need besides those of the versions."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from olympia_cli.catalog import distributed
from olympia_cli.catalog.distributed import Saved, UnreadableSave
from olympia_cli.catalog.java_transactions import java_saves
from olympia_cli.catalog.retained import read_exports
from olympia_cli.errors import Damaged, OlympiaError, PathMissing
from olympia_cli.format.codec import decode_root
from olympia_cli.format.node import Root
from olympia_cli.format.paths import check_pointer
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.ops.fsck.findings import FULL, Finding, finding
from olympia_cli.ops.fsck.roots import Chain, read_actions
from olympia_cli.ops.fsck.trees import Trees
from olympia_cli.ops.holders import PinnedRoot, abort_words, drop_words, pin_of_export, pin_of_transaction
from olympia_cli.ops.walk import Files, Flaw, StoreFailure, flaw_of


@dataclass(frozen=True, slots=True)
class Holder:
    """A transaction or an export that needs a tree, and the root of that tree."""

    pin: PinnedRoot
    data: bytes
    root: Root

    @property
    def hint(self) -> str:
        """The command that ends it."""
        return shlex.join(self.pin.command)

    def finding(self, path: str, flaw: Flaw) -> Finding:
        """Return the finding for a flaw of a file that it needs."""
        return finding(self.pin.code, path, f"{self.pin.who}: {flaw.reason}", hint=self.hint, held_by=[self.pin.who])


@dataclass(frozen=True, slots=True)
class Held:
    """The holders with sound roots, the findings about the others, and the number of all."""

    holders: tuple[Holder, ...]
    findings: tuple[Finding, ...]
    count: int
    saved: frozenset[str] = frozenset()
    """The ids of the transactions that have a save."""


def held_files(files: Files, chain: Chain, now: int) -> list[Held]:
    """Return the holders among live distributed transactions, and those among exports."""
    java = chain.java
    holdings = [_transactions_of_java(files, now) if java else transactions(files, set(chain.existing), now)]
    if chain.reference is not None:
        holdings.append(exports(files, chain.reference, chain.path(chain.reference_version or 0), now))
    return holdings


def _transactions_of_java(files: Files, now: int) -> Held:
    """Return the holders among the transactions of the Java SDK.

    One that names no root holds no files. This program cannot abort any of them.
    """
    states: list[Holder | Finding] = []
    listed = list(java_saves(files.store, partial(_read_saves, files)))
    for save in listed:
        who = f"the transaction {save.id}"
        if isinstance(save, UnreadableSave):
            states.append(finding("F501", save.path, f"{who} cannot be read: {save.reason}", held_by=[who]))
        elif now > save.definition.expire_at_millis:
            states.append(finding("F907", save.file.path, f"{who} is past its end"))
        elif running := save.definition.running_root_node_file_path:
            pin = PinnedRoot(running, save.file.path, who, "F502", "", ())
            states.append(_read_root(files, pin, java=True))
    return _held(states, len(listed))


def transactions(files: Files, existing: set[int], now: int) -> Held:
    """Return the holders among live distributed transactions, by their latest saves."""
    states: list[Holder | Finding] = []
    ids: set[str] = set()
    for saved in distributed.saved_transactions(files.store, partial(_read_saves, files)):
        ids.add(saved.id)
        states += _transaction(files, saved, existing, now)
    return _held(states, len(ids), frozenset(ids))


def _read_saves(files: Files, paths: Iterable[str]) -> Iterator[tuple[str, bytes | OlympiaError]]:
    """Read files of transactions. A file that the store cannot read counts as damaged."""
    for path, data in files.read_many(paths):
        yield path, data if isinstance(data, bytes | PathMissing) else Damaged("F501", path, flaw_of(data).reason)


def _held(states: Sequence[Holder | Finding], count: int, saved: frozenset[str] = frozenset()) -> Held:
    holders = tuple(holder for holder in states if isinstance(holder, Holder))
    return Held(holders, tuple(finding for finding in states if isinstance(finding, Finding)), count, saved)


def _transaction(
    files: Files, saved: Saved | UnreadableSave, existing: set[int], now: int
) -> Iterator[Holder | Finding]:
    who, path, abort = f"the transaction {saved.id}", saved.path, shlex.join(abort_words(saved.id))
    if isinstance(saved, Saved) and not saved.is_running:
        return  # aborted or committed: it needs no files
    if now > saved.ends_at_millis:
        unreadable = f", and cannot be read: {saved.reason}" if isinstance(saved, UnreadableSave) else ""
        yield finding("F907", path, f"{who} is past its end{unreadable}", hint=abort)
    elif isinstance(saved, UnreadableSave):
        yield finding("F501", path, f"{who} cannot be read: {saved.reason}", hint=abort, held_by=[who])
    else:
        if saved.flaw:
            reason = f"the last save of {who} is damaged: {saved.flaw}; its copy is read until it is saved again"
            yield finding("F505", path, reason, hint=f"txn show {saved.id}")
        if reason := saved.lost_beginning(files.store, existing):
            yield finding("F502", path, reason, hint=abort, held_by=[who])
        yield _read_root(files, pin_of_transaction(saved))


def exports(files: Files, catalog: CatalogDef, holder: str, now: int) -> Held:
    """Return the holders among recorded exports. Exports that share files hold them until they expire."""
    states: list[Holder | Finding] = []
    records = read_exports(catalog)
    for name, record in records.items():
        if isinstance(record, str):
            reason = f"the record of the export {name!a} {record}"
            states.append(finding("F504", holder, reason, hint=shlex.join(drop_words(name))))
        elif (pin := pin_of_export(record, holder)) is not None and not record.expired(now):
            states.append(_read_root(files, pin))
    return _held(states, len(records))


def _read_root(files: Files, pin: PinnedRoot, java: bool = False) -> Holder | Finding:
    data: bytes | Exception
    try:
        data = files.read(check_pointer(pin.path, pin.named_in))
        if isinstance(data, bytes):
            return Holder(pin, data, decode_root(data, pin.path, java))
        error: Exception = data
    except StoreFailure:
        raise
    except Exception as damage:
        # any exception of a decoder means damage
        error = damage
    flaw, hint = flaw_of(error), shlex.join(pin.command)
    where = pin.named_in if flaw.code == "F212" else pin.path
    return finding(pin.code, where, f"the root that {pin.who} needs: {flaw.reason}", hint=hint, held_by=[pin.who])


def check_holders(trees: Trees, holdings: Sequence[Held]) -> list[Finding]:
    """Follow the trees of the holders. Return the findings about their roots."""
    holders = [holder for holding in holdings for holder in holding.holders]
    trees.add_holders(holders)
    findings = [finding for holding in holdings for finding in holding.findings]
    return findings + [finding for holder in holders for finding in _check_holder(trees, holder)]


def _check_holder(trees: Trees, holder: Holder) -> Iterator[Finding]:
    catalog = trees.chain_reader.catalog(holder.root.catalog_def)
    if catalog.flaw is not None and holder.root.catalog_def not in trees.notes.bad_catalogs:
        yield holder.finding(holder.root.catalog_def, catalog.flaw)
    checks_actions = trees.depth >= FULL and not trees.chain.java
    if checks_actions and isinstance(flaw := read_actions(holder.data, holder.pin.path), Flaw):
        yield holder.finding(holder.pin.path, flaw)
