"""Completion of names from the catalog. Errors are ignored, because a prompt is no place for them.

Each look-up has a time limit and a limit of names. Its result is cached for some seconds, so that not every press of
Tab reads the catalog.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from olympia_cli.cli.output.escape import visible

if TYPE_CHECKING:
    from olympia_cli.catalog.snapshot import Snapshot
    from olympia_cli.cli.session import Session
    from olympia_cli.names import Kind

# every command imports this module, so a look-up imports its modules itself

TIMEOUT = 1.0
"""Timeout of a look-up, without the time for imports."""

LIMIT = 500
RECENT = 20
_FULL_NAME = re.compile(r'("(?:[^"]|"")*"|[^."]+)\.(.*)', re.DOTALL)


def complete_none(incomplete: str) -> list[str]:
    """Complete nothing, for names that do not exist yet."""
    return []


def complete_quarantine(incomplete: str) -> list[str]:
    """Complete the actions of expire."""
    return _starting(incomplete, ("undo", "purge", "ls"))


def complete_namespace(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a namespace, without quotes."""
    return _starting(incomplete, _namespaces(ctx, incomplete))


def complete_table(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the full name of a table: first its namespace and a dot, then the table."""
    return _full_names(ctx, incomplete, ("TABLE",))


def complete_view(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the full name of a view."""
    return _full_names(ctx, incomplete, ("VIEW",))


def complete_new_in_namespace(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the namespace in the full name of a new object."""
    return _full_names(ctx, incomplete, ())


def complete_object(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a namespace, or the full name of a table or view."""
    names = _full_names(ctx, incomplete, ("TABLE", "VIEW"))
    if _FULL_NAME.fullmatch(incomplete):
        return names
    return _starting(incomplete, [word for dotted in names for word in (dotted.removesuffix("."), dotted)])


def complete_reference(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a version: latest, latest~1, oldest, recent numbers, names of exports; also the end of a range."""
    before, dots, _ = incomplete.rpartition("..")
    words = ["latest", "latest~1", "oldest", *_look_up(ctx, "references", _references), "today", "yesterday"]
    return _starting(incomplete, (before + dots + word for word in dict.fromkeys(words)))


def complete_export(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a recorded export."""
    return _starting(incomplete, _look_up(ctx, "exports", _exports))


def complete_transaction(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the id of an open distributed transaction."""
    return _starting(incomplete, _look_up(ctx, "transactions", _open_transactions))


def complete_profile(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a profile in the config file."""
    import tomllib

    from olympia_cli.cli.config import config_path

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
    """Return the names of a kind: all of them if there are few, else those that begin with `start`."""
    at, txn = ctx.params.get("at"), ctx.params.get("txn")
    cache_key = f"{kind.word} {at} {txn} {namespace}"

    def first(session: Session) -> Iterator[str]:
        view = session.view(at, txn)
        if namespace is None:
            return (name.namespace for name in view.namespaces())
        return (name.name for name in (view.tables(namespace) if kind.word == "table" else view.views(namespace)))

    names = _look_up(ctx, cache_key, first, LIMIT + 1)
    if len(names) <= LIMIT or txn is not None or not start:
        return names[:LIMIT]
    return _look_up(ctx, f"{cache_key} {start}", lambda session: _scan(session.snapshot(at), kind, namespace, start))


def _scan(snapshot: Snapshot, kind: Kind, namespace: str | None, start: str) -> Iterator[str]:
    """Find the names with this beginning in the tree, without reading all others."""
    from olympia_cli.tree.search import scan

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
    from olympia_cli.catalog.distributed import State, saved_transactions

    catalog = session.catalog
    return (saved.id for saved in saved_transactions(catalog.store) if saved.state(catalog.clock) is State.OPEN)


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    # names with control characters are not completed
    return [word for word in words if word.startswith(incomplete) and visible(word) == word]


def _unquoted(part: str) -> str:
    """Remove the quotes of a part of a full name, which may be incomplete."""
    if not part.startswith('"'):
        return part
    inner = part[1:]
    # an odd number of quotes at the end includes the closing quote; all others are doubled quotes of the name
    quotes = len(inner) - len(inner.rstrip('"'))
    return (inner[:-1] if quotes % 2 else inner).replace('""', '"')


def _look_up(
    ctx: typer.Context, cache_key: str, names: Callable[[Session], Iterable[str]], limit: int = LIMIT
) -> list[str]:
    """Return up to `limit` names from the cache or the catalog, or none after an error or a timeout."""
    with contextlib.suppress(Exception):
        from olympia_cli.cli.session import Session

        session = Session(ctx)
        location = session.location
        words = recall(location.uri, location.options, cache_key)
        if words is None:
            words = _read_in_time(session, names, limit)
            remember(location.uri, location.options, cache_key, words)
        return words
    return []


def _read_in_time(session: Session, names: Callable[[Session], Iterable[str]], limit: int) -> list[str]:
    import threading

    # imports cannot hang, so the timeout does not include them
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
    thread.join(TIMEOUT)
    if not finish.is_set():
        raise TimeoutError
    return words


def complete_command(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the next word of a command's name."""
    from olympia_cli.cli.app import COMMANDS

    before = list(ctx.params["command"] or ())
    paths = [path.split() for path in COMMANDS]
    words = [path[len(before)] for path in paths if path[: len(before)] == before and len(path) > len(before)]
    return [word for word in dict.fromkeys(words) if word.startswith(incomplete)]


# The cache of names for the completion: one small file per catalog, readable by its owner only.
#
# A cache file that cannot be read or written is ignored, and the names are looked up again.

CACHE_SECONDS = 5.0
MAX_BYTES = 4_000_000
_UNUSABLE = (OSError, ValueError, TypeError)


def recall(uri: str, options: Mapping[str, Any], key: str) -> list[str] | None:
    """Return the cached names, or None if there are none, or only old ones."""
    with contextlib.suppress(*_UNUSABLE):
        return _read(_path(uri, options)).get(key, (0.0, None))[1]
    return None


def remember(uri: str, options: Mapping[str, Any], key: str, names: list[str]) -> None:
    """Cache names for some seconds."""
    import tempfile

    with contextlib.suppress(*_UNUSABLE):
        path = _path(uri, options)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            entries = _read(path)
        except _UNUSABLE:
            entries = {}
        entries[key] = (time.time(), names)
        # a new file that only its owner can read, moved into place atomically
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix="names-", suffix=".new")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(entries, file)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def _read(path: Path) -> dict[str, tuple[float, list[str]]]:
    """Read the entries that are not too old. Raise an error unless the file is a regular file of this user."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid() or about.st_size > MAX_BYTES:
            raise ValueError("not a cache")
        entries = json.loads(file.read())
    if not isinstance(entries, dict):
        raise ValueError("not a cache")
    now = time.time()
    young_entries: dict[str, tuple[float, list[str]]] = {}
    for key, (at, names) in entries.items():
        if not isinstance(at, float) or not all(isinstance(name, str) for name in names):
            raise ValueError("not a cache")
        if 0 <= now - at < CACHE_SECONDS:
            young_entries[key] = (at, names)
    return young_entries


def _path(uri: str, options: Mapping[str, Any]) -> Path:
    # not at the top: every command imports this module
    from hashlib import sha256

    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    # a relative path means different catalogs in different folders; the options include the endpoint
    where = uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))
    key = json.dumps([where, dict(options)], sort_keys=True, default=str)
    return base / "olympia" / f"names-{sha256(key.encode(errors='surrogateescape')).hexdigest()[:32]}.json"
