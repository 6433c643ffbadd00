"""Statements of a transaction: done on a real one, and by a model whose catalog is a dict of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import read_root
from olympia_cli.errors import OlympiaError
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName
from tests.helpers.names import select

Outcome = Any
"""The result of a statement, or the class of its error."""

Facts = tuple[str, str, frozenset[tuple[str, str]]]
"""All that statements say of an object: what it holds, what it held before, its properties."""


class Made(NamedTuple):
    """An object of the model, known by what its creation wrote, as the program's are by their ids."""

    by: str
    facts: Facts


State = dict[ObjectName, Made]


@dataclass(frozen=True, slots=True)
class Statement:
    """`text` is what it writes, and no other statement of the history writes the same."""

    verb: str
    name: ObjectName | None = None
    new: ObjectName | None = None
    key: str = ""
    text: str = ""
    expected: str | None = None

    @property
    def writes(self) -> bool:
        return self.verb not in ("exists", "show", "list")

    def __str__(self) -> str:
        kind = self.name.kind.word if self.name is not None else ""
        more = [
            f"{what} {value}" for what, value in (("to", self.new), ("key", self.key), ("text", self.text)) if value
        ]
        return " ".join((self.verb, kind, str(self.name or ""), *more, self.expected or ""))


BEGINNING = [
    *(Statement("create", NamespaceName(name), text=f"start {name}") for name in "ab"),
    *(Statement("create", name, text=f"start {name}") for name in (TableName("a", "t"), TableName("b", "t"))),
    *(Statement("create", name, text=f"start view {name}") for name in (ViewName("a", "t"), ViewName("b", "u"))),
]
"""The content of version 1 of each history. There is no namespace c."""


# On a transaction


def do(statement: Statement, transaction: Transaction) -> Outcome:
    """Run the statement, and return its result or the error that it raised."""
    try:
        return _returned(statement, transaction)
    except OlympiaError as error:
        return type(error).__name__


def _returned(statement: Statement, transaction: Transaction) -> Any:
    verb, name, text = statement.verb, statement.name, statement.text
    if verb == "exists":
        return transaction.exists(name)
    if name is None:
        return tuple(transaction.namespaces())
    word = name.kind.word
    if verb == "show":
        return facts(getattr(transaction, word)(name).definition)
    if verb == "list":
        return (*transaction.tables(name.namespace), *transaction.views(name.namespace))
    if verb == "create":
        content: dict[Kind, tuple[Any, ...]] = {
            Kind.NAMESPACE: ({"made": text},),
            Kind.TABLE: (text,),
            Kind.VIEW: (select(text),),
        }
        getattr(transaction, f"create_{word}")(name, *content[name.kind])
    elif verb == "cascade":
        transaction.drop_namespace(name, cascade=True)
    elif verb == "rename":
        getattr(transaction, f"rename_{word}")(name, statement.new)
    elif verb == "drop":
        getattr(transaction, f"drop_{word}")(name)
    elif verb == "restore":
        first = Snapshot(transaction.base.store, read_root(transaction.base.store, 1))
        transaction.restore(first.get(name), from_version=1)
    elif verb == "append":
        # looked at without a read, which any other append would conflict with
        table = transaction.draft.get(name)
        present = "" if table is None else table.iceberg_metadata_location
        transaction.alter_table(name, metadata_location=f"{present}+{text}", reapply=lambda now: f"{now}+{text}")
    elif isinstance(name, TableName):
        properties, location = ({statement.key: text}, None) if statement.key else (None, text)
        transaction.alter_table(name, properties, (), location, expected_metadata_location=statement.expected)
    elif statement.key:
        getattr(transaction, f"alter_{word}")(name, {statement.key: text})
    else:
        transaction.replace_view(name, select(text))
    return None


def facts(definition: Any) -> Facts:
    text = (
        getattr(definition, "iceberg_metadata_location", "") or getattr(definition, "substrait_read_rel", b"").decode()
    )
    return text, getattr(definition, "iceberg_previous_metadata_location", ""), frozenset(definition.properties.items())


# By the model


class Failed(Exception):
    """With the name of the error that the program raises."""


def run(statement: Statement, state: State) -> Outcome:
    """Run the statement on the model, and return its result. A failed statement leaves the state unchanged."""
    try:
        return _VERBS[statement.verb](statement, state)
    except Failed as error:
        return str(error)


def _word(name: ObjectName) -> str:
    return name.kind.word.capitalize()


def _need(name: ObjectName, state: State) -> Made:
    if name not in state:
        raise Failed(f"{_word(name)}NotFound")
    return state[name]


def _need_room(name: ObjectName, state: State) -> None:
    if not isinstance(name, NamespaceName):
        _need(NamespaceName(name.namespace), state)
    if name in state:
        raise Failed(f"{_word(name)}Exists")


def _inside(namespace: ObjectName, state: State) -> list[ObjectName]:
    return sorted(
        (name for name in state if name.namespace == namespace.namespace and name.kind is not Kind.NAMESPACE),
        key=lambda name: (name.kind, name.name),
    )


def _create(statement: Statement, state: State) -> None:
    _need_room(statement.name, state)
    state[statement.name] = _made(statement)


def _made(create: Statement) -> Made:
    if isinstance(create.name, NamespaceName):
        return Made(create.text, ("", "", frozenset({("made", create.text)})))
    return Made(create.text, (create.text, "", frozenset()))


def _restore(statement: Statement, state: State) -> None:
    [first] = [_made(create) for create in BEGINNING if create.name == statement.name]
    lives = next((name for name, made in state.items() if made.by == first.by), None)
    if lives != statement.name:
        if lives is not None:
            raise Failed(f"{_word(lives)}Exists")
        _need_room(statement.name, state)
    state[statement.name] = first


def _drop(statement: Statement, state: State) -> None:
    name = statement.name
    _need(name, state)
    inside = _inside(name, state) if isinstance(name, NamespaceName) else []
    if inside and statement.verb != "cascade":
        raise Failed("NamespaceNotEmpty")
    for gone in (*inside, name):
        del state[gone]


def _rename(statement: Statement, state: State) -> None:
    old, new = statement.name, statement.new
    _need(old, state)
    if old == new:
        raise Failed("InvalidOption")
    _need_room(new, state)
    inside = _inside(old, state) if isinstance(old, NamespaceName) else []
    state[new] = state.pop(old)
    for name in inside:
        state[type(name)(new.namespace, name.name)] = state.pop(name)


def _alter(statement: Statement, state: State) -> None:
    made, (text, previous, properties) = _need(statement.name, state)
    if statement.expected is not None and statement.expected != text:
        raise Failed("CommitConflict")
    if statement.verb == "append":
        text, previous = f"{text}+{statement.text}", text
    elif statement.key:
        properties = frozenset({**dict(properties), statement.key: statement.text}.items())
    elif isinstance(statement.name, TableName):
        text, previous = statement.text, text
    else:
        text, properties = statement.text, frozenset()
    state[statement.name] = Made(made, (text, previous, properties))


def _list(statement: Statement, state: State) -> Any:
    if statement.name is None:
        return tuple(sorted(name for name in state if isinstance(name, NamespaceName)))
    _need(NamespaceName(statement.name.namespace), state)
    return tuple(_inside(statement.name, state))


_VERBS: dict[str, Any] = {
    "create": _create,
    "drop": _drop,
    "cascade": _drop,
    "rename": _rename,
    "alter": _alter,
    "append": _alter,
    "restore": _restore,
    "list": _list,
    "exists": lambda statement, state: statement.name in state,
    "show": lambda statement, state: _need(statement.name, state).facts,
}


def beginning() -> State:
    state: State = {}
    for statement in BEGINNING:
        run(statement, state)
    return state
