"""A request of the REST API, and the two ways to answer it: reading and changing."""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from olympia_cli.catalog import distributed
from olympia_cli.catalog.commit import retry
from olympia_cli.catalog.references import resolve
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidName, SavedElsewhere
from olympia_cli.format.strict_json import read_request
from olympia_cli.iceberg import TableChanges
from olympia_cli.names import NamespaceName, ObjectName, TableName, ViewName, parse_reference
from olympia_cli.rest.access import Caller
from olympia_cli.rest.failures import SEPARATOR, ErrorResponse, bad_request, forbidden, without_nulls
from olympia_cli.rest.group_commit import Change
from olympia_cli.rest.service import Service

# The prefix of a path selects the latest version, an older version, or the inside of a transaction.
#
# Some clients insert the prefix as it is (Java, PyIceberg), others encode it with its slash. Both are accepted.

_PREFIXED = re.compile(r"/v1/(at|txn)(?:/|%2[fF])([^/]+)(/.*)?")


@dataclass(frozen=True, slots=True)
class Prefix:
    """The state that a request refers to. Without `at` and `txn`: the latest version."""

    at: str | None = None
    txn: str | None = None

    @property
    def text(self) -> str:
        """The prefix as clients must write it."""
        if self.at is not None:
            return f"at/{quote(self.at, safe=':~')}"
        return "" if self.txn is None else f"txn/{quote(self.txn, safe='')}"


def split_prefix(path: str) -> tuple[Prefix, str]:
    """Return the prefix of an encoded path, and the path without it."""
    found = _PREFIXED.fullmatch(path)
    if found is None:
        return Prefix(), path
    return _prefix(found[1], unquote(found[2])), f"/v1{found[3] or ''}"


def parse_warehouse(text: str) -> Prefix | None:
    """Return the prefix in a warehouse name (`at/v12`, `txn/…`), or None for any other text."""
    kind, slash, rest = text.partition("/")
    return _prefix(kind, rest) if kind in ("at", "txn") and slash and rest else None


def _prefix(kind: str, text: str) -> Prefix:
    return Prefix(at=text) if kind == "at" else Prefix(txn=text)


# Pagination. The token of a page is the last name of the previous page.
#
# So changes between requests never repeat or skip names that exist throughout.

PAGE = 1000
LARGEST_PAGE = 10_000

N = TypeVar("N")


def page(
    query: QueryParams, names: Callable[[str | None], Iterator[N]], token_of: Callable[[N], str]
) -> tuple[list[N], str | None]:
    """Return the requested names, and the token of the next page. `names` returns the names after a given one.

    Without pagination parameters, return all names, as the REST definition requires.
    """
    token, size = query.get("pageToken"), query.get("pageSize")
    if token is None and size is None:
        return list(names(None)), None
    number = PAGE if size is None else _number(size)
    found = list(islice(names(_last_name(token) if token else None), number + 1))
    more = len(found) > number
    return found[:number], _token(token_of(found[number - 1])) if more else None


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise bad_request("pageSize is not a positive number")
    return min(int(text), LARGEST_PAGE)


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _last_name(token: str) -> str:
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise bad_request("pageToken is not a token of this server") from None


R = TypeVar("R")
View = Snapshot | Transaction


@dataclass(frozen=True, slots=True)
class Call:
    """A request for an operation, with the latest version at some moment after its arrival."""

    service: Service
    request: Request
    caller: Caller
    body: bytes
    latest: Snapshot

    @property
    def prefix(self) -> Prefix:
        found: Prefix = self.request.state.prefix
        return found

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    @property
    def parts(self) -> Mapping[str, str]:
        """The variable parts of the path, percent-encoded."""
        return self.request.path_params

    # The objects of the request

    @property
    def namespace(self) -> str:
        """The namespace in the path, if the caller may access it."""
        return self._namespace("NoSuchNamespaceException")

    @property
    def table(self) -> TableName:
        # an impossible namespace means a missing table: Spark tries `s.t.files` as a table first, and reads the files
        # of `s.t` only after that error
        missing = "NoSuchTableException"
        return _name(TableName, self._namespace(missing), self._part("table"), missing)

    @property
    def view(self) -> ViewName:
        missing = "NoSuchViewException"
        return _name(ViewName, self._namespace(missing), self._part("view"), missing)

    def _namespace(self, missing: str) -> str:
        return self.check_namespace(self._part("namespace").split(SEPARATOR), missing)

    def _part(self, name: str) -> str:
        return unquote(self.parts[name], errors="surrogateescape")

    def check_namespace(self, parts: object, missing: str | None = None) -> str:
        """Return the namespace from a list of levels, of which this catalog has one.

        An invalid namespace is a bad request or, with `missing`, an error of that type.
        """
        if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
            raise bad_request("a namespace is a list of names")
        shown = ".".join(parts)
        try:
            if len(parts) != 1:
                raise InvalidName(f"namespaces have one level in this catalog, and {shown!a} has {len(parts)}", hint="")
            name = NamespaceName(parts[0]).namespace
        except InvalidName as error:
            if missing is not None:
                raise ErrorResponse(404, missing, error.message) from None
            raise bad_request(str(error)) from None
        if not self.caller.may_see(name):
            raise forbidden(f"the token is not for the namespace {name!a}")
        return name

    def table_identifier(self, value: object) -> TableName:
        return TableName(*self._identifier(value))

    def view_identifier(self, value: object) -> ViewName:
        return ViewName(*self._identifier(value))

    def _identifier(self, value: object) -> tuple[str, str]:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise bad_request("an identifier has a namespace and a name")
        return self.check_namespace(value.get("namespace")), value["name"]

    def document(self) -> dict[str, Any]:
        """Return the body, which must be a JSON object, without null fields.

        Iceberg's own parser treats null fields as missing, and clients send them.
        """
        try:
            found = read_request(self.body)
        except ValueError as error:
            raise bad_request(f"the body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise bad_request("the body is not a JSON object")
        return without_nulls(found)

    # Reading

    def read(self, do: Callable[[View], R]) -> R:
        """Read a version, or the state inside a distributed transaction.

        Under SERIALIZABLE, the transaction's reads decide about conflicts, so they are saved, unless the caller is
        read-only.
        """
        if self.prefix.txn is None or not self.caller.writes or self.service.settings.read_only:
            return do(self.look())
        return self._inside(self.prefix.txn, lambda changes: do(changes.transaction))

    def exists(self, name: ObjectName) -> bool:
        return self.read(lambda view: view.find(name) is not None if isinstance(view, Snapshot) else view.exists(name))

    def look(self) -> View:
        """Like `read`, for reads that must not cause conflicts."""
        if self.prefix.txn is None:
            return self._snapshot()
        return distributed.load(self.service.catalog, self.prefix.txn).transaction

    def _snapshot(self) -> Snapshot:
        if self.prefix.at is None:
            return self.latest
        return resolve(parse_reference(self.prefix.at), self.latest, self.service.catalog.clock.now_millis())

    # Changing

    def change(self, do: Change[R], what: str) -> R:
        """Apply a change in a commit, possibly together with other clients' changes, or inside a distributed
        transaction.
        """
        if self.prefix.at is not None:
            raise forbidden("an older version of a catalog cannot be changed")
        if self.prefix.txn is None:
            return self.service.commits.commit(do, self.caller.name, what)
        return self._inside(self.prefix.txn, do)

    def _inside(self, txn: str, do: Change[R]) -> R:
        def change() -> R:
            # a lock per transaction, so that only other processes can save first
            with _turns(txn):
                found = distributed.load(self.service.catalog, txn)
                known = len(found.transaction.actions)
                changes = TableChanges(found.transaction, self.service.kept)
                with found.statements() as transaction:
                    result = do(changes)
                if len(transaction.actions) > known:
                    changes.save(found)
                return result

        return retry(change, is_conflict=lambda error: isinstance(error, SavedElsewhere))


_TURNS = [threading.Lock() for _ in range(64)]


def _turns(txn: str) -> threading.Lock:
    return _TURNS[hash(txn) % len(_TURNS)]


def _name(kind: type[R], namespace: str, name: str, missing: str) -> R:
    """Return the name in a path. An impossible name means a missing object."""
    try:
        return kind(namespace, name)  # type: ignore[call-arg]
    except InvalidName as error:
        raise ErrorResponse(404, missing, error.message) from None


def check_reachable(name: str) -> None:
    """Reject names for new objects that no URL could address: clients normalize `.` and `..` away, in any encoding."""
    if name in (".", ".."):
        raise bad_request(f"{name!a} cannot be a name, because clients remove it from addresses")


def answer(value: object) -> Response:
    return Response(json.dumps(value, separators=(",", ":")), media_type="application/json")


def nothing() -> Response:
    return Response(None, 204)
