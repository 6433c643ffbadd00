"""Check a DeltaCAT catalog: all that it contains, with each file read once.

A code never changes its meaning. An error is damage that breaks an import, or DeltaCAT. A warning is a fault that will
cause trouble to one of them. Other findings are information.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import groupby

from olympia_cli.importers.deltacat.contents import Unreadable, contents
from olympia_cli.importers.deltacat.index import FOREVER, KINDS, Row
from olympia_cli.importers.deltacat.metadata import Delta, Namespace, Table
from olympia_cli.importers.deltacat.source import DeltacatSource, SourceTable
from olympia_cli.ops.fsck import Finding, Severity

CODES: dict[str, tuple[Severity, str]] = {
    "D101": (Severity.ERROR, "a transaction ended more than once, so nothing that it wrote counts"),
    "D102": (Severity.WARNING, "what a transaction says of itself cannot be read"),
    "D103": (Severity.WARNING, "a transaction is left in running/"),
    "D104": (Severity.INFO, "a transaction is paused"),
    "D105": (Severity.ERROR, "a file that a transaction wrote is missing"),
    "D201": (Severity.ERROR, "the present state of an object cannot be read"),
    "D202": (Severity.WARNING, "an older revision of an object cannot be read"),
    "D203": (Severity.ERROR, "the content of a table is unknown"),
    "D204": (Severity.ERROR, "two revisions of an object that count have one number"),
    "D205": (Severity.WARNING, "a revision that does not count has the number of one that does"),
    "D206": (Severity.WARNING, "an object is near revision 1000, which releases up to 2.0.0.post4 refuse to write"),
    "D301": (Severity.WARNING, "an object is not found by its name"),
    "D302": (Severity.WARNING, "two objects have one name"),
    "D303": (Severity.WARNING, "a name was changed by a transaction that does not count: DeltaCAT may not read it"),
    "D401": (Severity.ERROR, "a data file is missing"),
    "D402": (Severity.WARNING, "a data file has another size than its manifest says"),
    "D403": (Severity.ERROR, "a data file lies outside of the catalog"),
    "D404": (Severity.INFO, "a data file is named by an absolute url"),
    "D901": (Severity.INFO, "metadata that a transaction left which does not count"),
    "D902": (Severity.INFO, "a data file that nothing names"),
    "D903": (Severity.INFO, "a file that DeltaCAT does not write"),
}
"""The severity and the meaning of each code."""

NEARLY = 990
_NO_LONGER = 1000


def finding(code: str, path: str, message: str) -> Finding:
    """Return a finding with the severity of its code."""
    return Finding(code, CODES[code][0], path, message)


def check(source: DeltacatSource, before: int) -> Iterator[Finding]:
    """Yield all findings as they are found."""
    source.index.prepare_check(before)
    yield from _transactions(source)
    yield from _revisions(source)
    yield from _objects(source, before)
    yield from _leftovers(source)


def _transactions(source: DeltacatSource) -> Iterator[Finding]:
    index = source.index
    twice = (
        "SELECT id, COUNT(*), MIN(path) FROM txn WHERE state = 'success' GROUP BY id HAVING COUNT(*) > 1 ORDER BY id"
    )
    for id, count, path in index.ask(twice):
        yield finding("D101", path, f"the transaction {id} ended {count} times")
    for id, state, path in list(index.ask("SELECT id, state, path FROM txn WHERE state IN ('running', 'paused')")):
        code = "D103" if state == "running" else "D104"
        yield finding(code, path, f"the transaction {id} is {state}")
    for ended in list(index.ended(0, FOREVER)):
        log = source.log(ended)
        if isinstance(log, str):
            yield finding("D102", ended.path, log)
            continue
        root = (log.root or "").rstrip("/") + "/"
        for file in (file for operation in log.operations for file in operation.files):
            relative = file.removeprefix(root) if len(root) > 1 else file
            if not index.has_revision(relative):
                yield finding("D105", relative, f"the transaction {ended.id} wrote it, and it is not there")


def _revisions(source: DeltacatSource) -> Iterator[Finding]:
    """Find conflicting revisions, from the listing alone."""
    same = (
        "SELECT one.path, other.path, mine.id IS NOT NULL FROM revision one JOIN revision other"
        " ON one.o1 = other.o1 AND one.o2 = other.o2 AND one.o3 = other.o3 AND one.o4 = other.o4 AND one.o5 = other.o5"
        " AND one.o6 = other.o6 AND one.number = other.number AND one.path != other.path"
        " JOIN committed ON committed.id = other.txn LEFT JOIN committed mine ON mine.id = one.txn"
        " WHERE mine.id IS NULL OR one.path < other.path ORDER BY one.path"
    )
    for path, other, counts in source.index.ask(same):
        yield finding("D204" if counts else "D205", path, f"{other} has the same number")
    near = (
        "SELECT path, MAX(number) FROM revision GROUP BY o1, o2, o3, o4, o5, o6 HAVING MAX(number) >= ? ORDER BY path"
    )
    for path, number in source.index.ask(near, NEARLY):
        left = max(_NO_LONGER - 1 - number, 0)
        yield finding("D206", path, f"it is revision {number:,}: {left} more can be written")


def _objects(source: DeltacatSource, before: int) -> Iterator[Finding]:
    names: dict[tuple[str, str], str] = {}
    namespace = ""
    everything = source.read_marked(source.index.everything(before))
    for folders, group in groupby(everything, lambda pair: pair[0].row.object[:2]):
        table: SourceTable | None = None
        for file, lives in group:
            if isinstance(file.body, str):
                yield finding("D201" if lives else "D202", file.row.path, file.body)
            if isinstance(file.body, Delta):
                yield from _delta(source, file.row, file.body, lives)
            if not lives:
                continue
            if isinstance(file.body, Namespace):
                namespace = file.body.name
                yield from _name(source, file.row, "", file.body.name, names)
            elif isinstance(file.body, Table):
                table = SourceTable(namespace, file)
                yield from _name(source, file.row, folders[0], file.body.name, names)
            elif table is not None:
                table.put(file)
        if table is not None:
            yield from _table(source, table)


def _table(source: DeltacatSource, table: SourceTable) -> Iterator[Finding]:
    try:
        contents(source, table)
    except Unreadable as error:
        yield finding("D203", table.file.row.path, f"table {table.name}: {error}")


def _name(
    source: DeltacatSource, row: Row, parent: str, name: str, names: dict[tuple[str, str], str]
) -> Iterator[Finding]:
    what = f"the {KINDS[len(row.object) - 1]} {name!a}"
    if (other := names.setdefault((parent, name), row.path)) != row.path:
        yield finding("D302", row.path, f"{what} is in {other} too")
    digest = hashlib.sha1(name.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    if source.index.named(parent, digest) != row.object[-1]:
        yield finding("D301", row.path, f"{what} is not what its name leads to")


def _delta(source: DeltacatSource, row: Row, delta: Delta, lives: bool) -> Iterator[Finding]:
    for entry in delta.entries:
        path = source.path_of(entry, row.transaction)
        if path is not None:
            source.index.name_data(path)
        if not lives:
            continue
        size = None if path is None else source.index.size(path)
        if path is None:
            yield finding("D403", row.path, f"it names {entry.url}")
        elif size is None:
            yield finding("D401", path, f"{row.path} names it, and it is not there")
        else:
            if entry.size is not None and entry.size != size:
                yield finding("D402", path, f"it has {size:,} bytes, and its manifest says {entry.size:,}")
            if path != entry.url:
                yield finding("D404", row.path, f"it names {entry.url}, which is {path} here")


def _leftovers(source: DeltacatSource) -> Iterator[Finding]:
    index = source.index
    query = (
        "SELECT revision.txn, COUNT(*), MIN(revision.path) FROM revision LEFT JOIN committed ON committed.id = txn"
        " WHERE committed.id IS NULL GROUP BY revision.txn ORDER BY revision.txn"
    )
    for transaction, count, path in list(index.ask(query)):
        message = f"{count} revisions of the transaction {transaction}, which {_fate(source, transaction)}"
        yield finding("D901", path, message)
    query = (
        "SELECT mapping.txn, mapping.path FROM mapping LEFT JOIN committed ON committed.id = txn"
        " WHERE committed.id IS NULL AND EXISTS (SELECT 1 FROM mapping other JOIN committed done ON done.id = other.txn"
        " WHERE other.id = mapping.id) ORDER BY mapping.path"
    )
    for transaction, path in list(index.ask(query)):
        message = f"by the transaction {transaction}, which {_fate(source, transaction)}"
        yield finding("D303", path, message)
    for path, size in index.unnamed_data():
        yield finding("D902", path, f"{size:,} bytes")
    for [path] in index.ask("SELECT path FROM other WHERE part = '' ORDER BY path"):
        yield finding("D903", path, "nothing reads it")


def _fate(source: DeltacatSource, transaction: str) -> str:
    """Return the state of a transaction that does not count."""
    states = [state for [state] in source.index.ask("SELECT state FROM txn WHERE id = ?", transaction)]
    if "success" in states:
        return "ended several times"
    return {"failed": "failed", "running": "is running", "paused": "is paused"}.get(
        states[0] if states else "", "left no other trace"
    )
