"""Names from the catalog, for completion. It is silent on every error: a prompt is no place for them.

What is looked up is bounded in time and number, and kept for some seconds, so that one press of the key after
another does not read the catalog anew.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING

import typer

from olympia_cli.cli.escape import visible

# every command imports this module: what only a look-up needs is imported by the look-up
if TYPE_CHECKING:
    from olympia_cli.catalog.snapshot import Snapshot
    from olympia_cli.cli.context import Session
    from olympia_cli.names import Kind

SECONDS = 1.0
"""How long a look-up may take, once the code for it is imported."""

LIMIT = 500
RECENT = 20
_FULL_NAME = re.compile(r'("(?:[^"]|"")*"|[^."]+)\.(.*)', re.DOTALL)


def complete_none(incomplete: str) -> list[str]:
    """A name that does not exist yet."""
    return []


def complete_quarantine(incomplete: str) -> list[str]:
    """What expire does with the quarantine."""
    return _starting(incomplete, ("undo", "purge", "ls"))


def complete_namespace(ctx: typer.Context, incomplete: str) -> list[str]:
    """A namespace, literally."""
    return _starting(incomplete, _namespaces(ctx, incomplete))


def complete_table(ctx: typer.Context, incomplete: str) -> list[str]:
    """The full name of a table: namespaces followed by a dot, then the tables of the namespace."""
    return _full_names(ctx, incomplete, ("TABLE",))


def complete_view(ctx: typer.Context, incomplete: str) -> list[str]:
    """The full name of a view."""
    return _full_names(ctx, incomplete, ("VIEW",))


def complete_new_in_namespace(ctx: typer.Context, incomplete: str) -> list[str]:
    """The full name of something that does not exist yet: only its namespace can be known."""
    return _full_names(ctx, incomplete, ())


def complete_object(ctx: typer.Context, incomplete: str) -> list[str]:
    """A namespace, or the full name of a table or view."""
    names = _full_names(ctx, incomplete, ("TABLE", "VIEW"))
    if _FULL_NAME.fullmatch(incomplete):
        return names
    return _starting(incomplete, [word for dotted in names for word in (dotted.removesuffix("."), dotted)])


def complete_reference(ctx: typer.Context, incomplete: str) -> list[str]:
    """A version: latest, latest~1, oldest, recent ones by number, exports by name; also the end of a range."""
    before, dots, _ = incomplete.rpartition("..")
    words = ["latest", "latest~1", "oldest", *_look_up(ctx, "references", _references), "today", "yesterday"]
    return _starting(incomplete, (before + dots + word for word in dict.fromkeys(words)))


def complete_export(ctx: typer.Context, incomplete: str) -> list[str]:
    """An export that is recorded."""
    return _starting(incomplete, _look_up(ctx, "exports", _exports))


def complete_transaction(ctx: typer.Context, incomplete: str) -> list[str]:
    """A distributed transaction that is open."""
    return _starting(incomplete, _look_up(ctx, "transactions", _open_transactions))


def complete_profile(ctx: typer.Context, incomplete: str) -> list[str]:
    """A profile of the config file."""
    import tomllib

    from olympia_cli.cli.profiles import config_path

    config = tomllib.loads(config_path().read_text())
    return _starting(incomplete, (name for name, value in config.items() if isinstance(value, dict)))


def _full_names(ctx: typer.Context, incomplete: str, kinds: Iterable[str]) -> list[str]:
    from olympia_cli.names import Kind, quote_part

    parts = _FULL_NAME.fullmatch(incomplete)
    if parts is None:
        return _starting(incomplete, (quote_part(name) + "." for name in _namespaces(ctx, _unquoted(incomplete))))
    namespace, start = _unquoted(parts[1]), _unquoted(parts[2])
    names: list[str] = []
    for kind in kinds:
        names += _names(ctx, Kind[kind], namespace, start)
    return _starting(incomplete, (f"{quote_part(namespace)}.{quote_part(name)}" for name in names))


def _namespaces(ctx: typer.Context, start: str) -> list[str]:
    from olympia_cli.names import Kind

    return _names(ctx, Kind.NAMESPACE, None, start)


def _names(ctx: typer.Context, kind: Kind, namespace: str | None, start: str) -> list[str]:
    """Names of a kind: all of them when they are few, else those that begin as typed."""
    at, txn = ctx.params.get("at"), ctx.params.get("txn")
    what = f"{kind.word} {at} {txn} {namespace}"

    def first(session: Session) -> Iterator[str]:
        view = session.view(at, txn)
        if namespace is None:
            return (name.namespace for name in view.namespaces())
        return (name.name for name in (view.tables(namespace) if kind.word == "table" else view.views(namespace)))

    names = _look_up(ctx, what, first, LIMIT + 1)
    if len(names) <= LIMIT or txn is not None or not start:
        return names[:LIMIT]
    return _look_up(ctx, f"{what} {start}", lambda session: _scan(session.snapshot(at), kind, namespace, start))


def _scan(snapshot: Snapshot, kind: Kind, namespace: str | None, start: str) -> Iterator[str]:
    """Names that begin with the start, without going through all the others."""
    from olympia_cli.tree.scan import scan

    keys = snapshot.keys
    for key, _ in scan(snapshot.reader, snapshot.root.node, keys.prefix(kind, namespace) + start):
        name = keys.decode(key, snapshot.file.path)
        yield name.namespace if namespace is None else name.name


def _references(session: Session) -> Iterator[str]:
    from olympia_cli.catalog.references import oldest_version

    latest = session.snapshot()
    yield from sorted(latest.definition.exported_snapshots)
    oldest = max(oldest_version(latest), latest.version - RECENT + 1)
    yield from (f"v{version}" for version in range(latest.version, oldest - 1, -1))


def _exports(session: Session) -> Iterator[str]:
    return iter(sorted(session.snapshot().definition.exported_snapshots))


def _open_transactions(session: Session) -> Iterator[str]:
    from olympia_cli.catalog.saves import State, saved_transactions

    catalog = session.catalog
    return (saved.id for saved in saved_transactions(catalog.store) if saved.state(catalog.clock) is State.OPEN)


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    # what a terminal would obey is not put on it: such a name is typed by hand
    return [word for word in words if word.startswith(incomplete) and visible(word) == word]


def _unquoted(part: str) -> str:
    """A part of a full name, or the beginning of one."""
    if not part.startswith('"'):
        return part
    inner = part[1:]
    # an even number of quotes at the end are quotes of the name; an odd one has the closing quote among them
    quotes = len(inner) - len(inner.rstrip('"'))
    return (inner[:-1] if quotes % 2 else inner).replace('""', '"')


def _look_up(ctx: typer.Context, what: str, names: Callable[[Session], Iterable[str]], limit: int = LIMIT) -> list[str]:
    """At most so many names, from the cache or from the catalog; none when it fails or takes too long."""
    with contextlib.suppress(Exception):
        from olympia_cli.cli import names_cache
        from olympia_cli.cli.context import Session

        session = Session(ctx)
        location = session.location
        words = names_cache.recall(location.uri, location.options, what)
        if words is None:
            words = _read_in_time(session, names, limit)
            names_cache.remember(location.uri, location.options, what, words)
        return words
    return []


def _read_in_time(session: Session, names: Callable[[Session], Iterable[str]], limit: int) -> list[str]:
    import threading

    # importing takes as long as it takes, and cannot hang: it is not part of the time that is bounded
    import_module("olympia_cli.catalog.distributed")
    _ = session.store
    words: list[str] = []
    finish = threading.Event()

    def read() -> None:
        with contextlib.suppress(Exception):
            words.extend(islice(names(session), limit))
            finish.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if not finish.is_set():
        raise TimeoutError
    return words


def complete_command(ctx: typer.Context, incomplete: str) -> list[str]:
    """The next word of a command's name."""
    from olympia_cli.cli.app import COMMANDS

    at, paths = len(ctx.args), [path.split() for path in COMMANDS]
    words = [path[at] for path in paths if path[:at] == ctx.args and len(path) > at]
    return [word for word in dict.fromkeys(words) if word.startswith(incomplete)]
