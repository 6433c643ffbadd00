"""One request of the REST API: who asks, where, for what; and the two ways to answer it, by reading and by changing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.datastructures import QueryParams
from starlette.responses import Response

from olympia_cli.catalog import distributed
from olympia_cli.catalog.references import resolve
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidName, SavedElsewhere
from olympia_cli.format.strict_json import read_request
from olympia_cli.iceberg.table_changes import TableChanges
from olympia_cli.names import NamespaceName, ObjectName, TableName, ViewName, parse_reference
from olympia_cli.rest.failures import Failure, bad_request, forbidden
from olympia_cli.rest.group_commit import Change
from olympia_cli.rest.prefixes import Prefix
from olympia_cli.rest.service import Service
from olympia_cli.rest.tokens import Caller

SEPARATOR = "\x1f"
SAVES = 20
"""So often a change inside a transaction is tried when others save it first."""

R = TypeVar("R")
View = Snapshot | Transaction


@dataclass(frozen=True, slots=True)
class Call:
    service: Service
    prefix: Prefix
    caller: Caller
    parts: Mapping[str, str]
    """The variable parts of the path, still encoded."""
    query: QueryParams
    headers: Mapping[str, str]
    body: bytes
    latest: Snapshot

    # What is asked for

    @property
    def namespace(self) -> str:
        """The namespace in the path, which the caller may see."""
        return self._namespace("NoSuchNamespaceException")

    @property
    def table(self) -> TableName:
        # of a table in a namespace that cannot be it is the table that is missing: Spark asks for `s.t.files` as a
        # table first, and goes on to the files of `s.t` only then
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
        """A namespace as a list of its levels, of which this catalog has one. One that cannot be is a bad request, or
        what is `missing`."""
        if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
            raise bad_request("a namespace is a list of names")
        shown = ".".join(parts)
        try:
            if len(parts) != 1:
                raise InvalidName(f"namespaces have one level in this catalog, and {shown!a} has {len(parts)}", hint="")
            name = NamespaceName(parts[0]).namespace
        except InvalidName as error:
            if missing is not None:
                raise Failure(404, missing, error.message) from None
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
        """Return the body, which must be a JSON object, without its null fields: Iceberg's own parser takes them as
        missing, and clients send them."""
        try:
            found = read_request(self.body)
        except ValueError as error:
            raise bad_request(f"the body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise bad_request("the body is not a JSON object")
        return {field: value for field, value in found.items() if value is not None}

    # Reading

    def read(self, do: Callable[[View], R]) -> R:
        """What is found in a version, or inside a distributed transaction. Under SERIALIZABLE what was read there
        decides about conflicts, so it is saved, unless it is read by somebody who may change nothing."""
        if self.prefix.txn is None or not self.caller.writes or self.service.settings.read_only:
            return do(self.look())
        return self._inside(self.prefix.txn, lambda changes: do(changes.transaction))

    def exists(self, name: ObjectName) -> bool:
        return self.read(lambda view: view.find(name) is not None if isinstance(view, Snapshot) else view.exists(name))

    def look(self) -> View:
        """As `read`, for what decides nothing by being read."""
        if self.prefix.txn is None:
            return self._snapshot()
        return distributed.load(self.service.catalog, self.prefix.txn).transaction

    def _snapshot(self) -> Snapshot:
        if self.prefix.at is None:
            return self.latest
        return resolve(parse_reference(self.prefix.at), self.latest, self.service.catalog.clock.now_millis())

    # Changing

    def change(self, do: Change[R], what: str) -> R:
        """Do statements: in a commit, perhaps with those of others, or inside a distributed transaction."""
        if self.prefix.at is not None:
            raise forbidden("an older version of a catalog cannot be changed")
        if self.prefix.txn is None:
            return self.service.commits.commit(do, self.caller.name, what)
        return self._inside(self.prefix.txn, do)

    def _inside(self, txn: str, do: Change[R]) -> R:
        for attempt in range(SAVES):
            try:
                # requests of this process take turns, so that only other processes can be in the way
                with _turns(txn):
                    found = distributed.load(self.service.catalog, txn)
                    known = len(found.transaction.actions)
                    changes = TableChanges(found.transaction, self.service.kept)
                    with found.statements() as transaction:
                        result = do(changes)
                    if len(transaction.actions) > known:
                        changes.save(found)
                    return result
            except SavedElsewhere:
                if attempt == SAVES - 1:
                    raise
        raise AssertionError("unreachable")


_TURNS = [threading.Lock() for _ in range(64)]


def _turns(txn: str) -> threading.Lock:
    return _TURNS[hash(txn) % len(_TURNS)]


def _name(kind: type[R], namespace: str, name: str, missing: str) -> R:
    """A name in a path: what cannot be one is the name of nothing."""
    try:
        return kind(namespace, name)  # type: ignore[call-arg]
    except InvalidName as error:
        raise Failure(404, missing, error.message) from None


def check_reachable(name: str) -> None:
    """Refuse what is to be made under a name that could not be asked for: however `.` and `..` are written, clients
    fold them out of an address."""
    if name in (".", ".."):
        raise bad_request(f"{name!a} cannot be the name of something that is asked for by its address")


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(value, separators=(",", ":")), status, headers, media_type="application/json")


def nothing() -> Response:
    return Response(None, 204)
