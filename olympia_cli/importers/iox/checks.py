"""Check a preserved catalog for damage: each file is read once, from the first known state to the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from olympia_cli.errors import Damaged, OlympiaError, Unsupported
from olympia_cli.importers.iox.columns import decode_footer
from olympia_cli.importers.iox.source import DATA, FOLDER, IoxSource, IoxState, LiveFile
from olympia_cli.importers.iox.transactions import AddFile, Chunk, IoxTransaction, IoxTransactionFile
from olympia_cli.importers.wire import Garbled
from olympia_cli.ops.fsck import Finding, Severity

CODES: dict[str, str] = {
    "I101": "a fork: two transactions have one number",
    "I102": "a gap: a transaction is missing between others",
    "I103": "a transaction does not follow the one before it",
    "I104": "a file holds another transaction than its path says",
    "I105": "a file's path and content disagree whether it is a checkpoint",
    "I106": "a file is no transaction: empty, cut short or garbled",
    "I107": "a transaction adds a file that is there, or removes one that is not",
    "I108": "a transaction is of a version or format that is not known",
    "I109": "a checkpoint holds other files than the transactions before it add up to",
    "I201": "the footer of a data file, as the catalog has it, cannot be read",
    "I202": "the footer of a data file names another table or partition than its path",
    "I301": "a data file is missing",
    "I302": "a data file has another size than the catalog says",
    "I303": "a data file is missing that the last state does not have, and history names",
    "I901": "an orphan: no transaction that is left names the data file",
    "I902": "a file that is not of the catalog",
    "I903": "a data file that the last state does not have, and history names",
    "I904": "a delete of rows in a chunk that is not known",
}
"""The meaning of each code. A code never changes its meaning."""
_WARNINGS = frozenset({"I202", "I303"})
_NOT_LIVE = "the last state does not have it, and transactions that are left name it"
_SHOWN = 1000


@dataclass(frozen=True, slots=True)
class Checked:
    """The checked revisions and files, and the findings."""

    revisions: tuple[int, int]
    transactions: int
    checkpoints: int
    files: int
    findings: list[Finding]

    @property
    def is_damaged(self) -> bool:
        return any(one.is_damage for one in self.findings)


def check(source: IoxSource) -> Checked:
    """Check a whole preserved catalog."""
    checking = _SourceCheck(source)
    checking.transactions()
    checking.data()
    findings = sorted(checking.findings, key=lambda one: (one.code, one.path))
    checkpoints = sum(one.is_checkpoint for one in checking.read)
    revisions = (min(source.revisions), source.latest)
    return Checked(revisions, len(checking.read) - checkpoints, checkpoints, len(checking.state.files), findings)


@dataclass(slots=True)
class _SourceCheck:
    source: IoxSource
    findings: list[Finding] = field(default_factory=list)
    read: list[IoxTransactionFile] = field(default_factory=list)
    state: IoxState = field(default_factory=IoxState)
    named: dict[str, LiveFile] = field(default_factory=dict)
    """All files that a remaining transaction names, as it was added last."""

    def find(self, code: str, path: str, message: str, *revisions: tuple[int, int]) -> None:
        severity = Severity.INFO if code[1] == "9" else Severity.WARNING if code in _WARNINGS else Severity.ERROR
        self.findings.append(Finding(code, severity, path, message, revisions))

    # Transactions

    def transactions(self) -> None:
        """Follow the transactions from first to last. After a gap or damage, the next checkpoint tells the state."""
        steps = list(self._steps())
        reads = self.source.store.read_many([step.path for step in steps])
        is_sure, at = False, -1
        for step, (_, data) in zip(steps, reads, strict=True):
            self.read.append(step)
            if step.revision > at + 1 or self.source.is_fork(step.revision):
                is_sure = False
            at = step.revision
            try:
                transaction = self.source.decode(step, data)
                self.source.check(step, transaction, transaction.previous)
                self._name(step, transaction)
            except OlympiaError as error:
                self._note(error, step)
                is_sure = is_sure and step.is_checkpoint
                continue
            if not self.source.is_fork(step.revision):
                is_sure = self._follow(step, transaction, is_sure)

    def _steps(self) -> Iterator[IoxTransactionFile]:
        """Yield the files in order, a transaction before the checkpoint of the same number. Report gaps and forks."""
        before: int | None = None
        for revision in sorted(self.source.revisions):
            files = self.source.revisions[revision]
            first = self.source.oldest if before is None else before + 1
            if revision > first and revision > self.source.oldest:
                self.find("I102", f"{FOLDER}{first:020}", _gap(first, revision - 1), (first, revision - 1))
            before = revision
            if self.source.is_fork(revision):
                uuids = sorted({str(file.uuid) for file in files})
                self.find("I101", f"{FOLDER}{revision:020}", f"a fork: {' and '.join(uuids)}", (revision, revision))
            elif not any(not file.is_checkpoint for file in files) and revision > self.source.oldest:
                self.find("I102", f"{FOLDER}{revision:020}", "only its checkpoint is there", (revision, revision))
            yield from sorted(files, key=lambda file: (file.is_checkpoint, file.uuid))

    def _name(self, step: IoxTransactionFile, transaction: IoxTransaction) -> None:
        """Record the files that a transaction adds, even if it does not count: a named file is no orphan."""
        try:
            for action in transaction.actions():
                if isinstance(action, AddFile) and action.path not in self.named:
                    self.named[action.path] = self.source.keep(step, action)
        except Garbled as garbled:
            raise self.source.damaged("I106", step.path, f"it has a malformed action: {garbled}") from None

    def _follow(self, step: IoxTransactionFile, transaction: IoxTransaction, is_sure: bool) -> bool:
        """Apply a file. Return True if the state is known afterwards."""
        revision = (step.revision, step.revision)
        if step.is_checkpoint:
            full = IoxState()
            if not self._apply(step, transaction, full):
                return is_sure
            if is_sure and self.state.revision == step.revision and full.files.keys() != self.state.files.keys():
                differing = sorted(full.files.keys() ^ self.state.files.keys())
                self.find("I109", step.path, f"{len(differing)} files differ, the first is {differing[0]}", revision)
            self.state = full
            return True
        if not is_sure and step.revision:
            # the state before it is unknown
            return False
        previous = self.state.uuid if is_sure else None
        if transaction.previous != previous:
            why = f"its predecessor is {transaction.previous}, and the transaction before it is {previous}"
            self.find("I103", step.path, why, revision)
        return self._apply(step, transaction, self.state)

    def _apply(self, step: IoxTransactionFile, transaction: IoxTransaction, state: IoxState) -> bool:
        try:
            self.source.apply(step, transaction, state)
        except OlympiaError as error:
            self._note(error, step)
            return False
        return True

    def _note(self, error: OlympiaError, step: IoxTransactionFile) -> None:
        code = error.code if isinstance(error, Damaged) and error.code in CODES else "I106"
        code = "I108" if isinstance(error, Unsupported) else code
        reason = error.reason if isinstance(error, Damaged) else error.message.removeprefix(f"{step.path}: ")
        self.find(code, step.path, reason, (step.revision, step.revision))

    # Data

    def data(self) -> None:
        """Compare the data files with the named ones; only their sizes are read."""
        sizes = {file.path: file.size for file in self.source.store.list() if not file.path.startswith(FOLDER)}
        chunks: set[Chunk] = set()
        for path, file in sorted(self.named.items()):
            chunks |= self._footer(file)
            is_live = path in self.state.files
            if path not in sizes:
                why = "it is missing" if is_live else f"it is missing; {_NOT_LIVE}"
                self.find("I301" if is_live else "I303", path, why)
            elif file.size not in (0, sizes[path]):
                self.find("I302", path, f"it has {sizes[path]:,} bytes, and the catalog says {file.size:,}")
            elif not is_live:
                self.find("I903", path, _NOT_LIVE)
        is_whole = not any(one.is_damage and one.code.startswith("I1") for one in self.findings)
        orphan = "no transaction names it"
        if not is_whole:
            orphan = "no readable transaction names it; an unreadable one may"
        for path in sorted(sizes.keys() - self.named.keys()):
            code = "I901" if path.startswith(DATA) and path.endswith(".parquet") else "I902"
            self.find(code, path, orphan if code == "I901" else "it is not of the catalog")
        for path in self.source.foreign:
            self.find("I902", path, "it is not of the catalog")
        for table, partition, _ in sorted(self.state.tombstones.keys() - chunks, key=str)[:_SHOWN]:
            self.find("I904", "", f"rows of {table!a}, {partition!a} are deleted in a chunk that is not known")

    def _footer(self, file: LiveFile) -> set[Chunk]:
        try:
            footer = decode_footer(self.source.footer(file))
        except Garbled as garbled:
            self.find("I201", file.path, str(garbled))
            return set()
        if footer.table != file.table:
            self.find("I202", file.path, f"its footer names the table {footer.table!a}")
        return {footer.chunk}


def _gap(first: int, last: int) -> str:
    return f"transaction {first} is missing" if first == last else f"transactions {first} to {last} are missing"
