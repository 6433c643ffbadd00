"""The options of the data source's readers and writers, parsed once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from olympia_cli.errors import InvalidLocation, InvalidName, InvalidOption
from olympia_cli.format.keys import KeyCodec, after_prefix
from olympia_cli.names import (
    Ago,
    AtTime,
    AtVersion,
    Kind,
    Latest,
    NamespaceName,
    Oldest,
    OnDay,
    Reference,
    TableName,
    ViewName,
    parse_reference,
    parse_table,
)
from olympia_cli.spark.proof import Proof

# Conditions on a table's columns that reduce what is read.
#
# They come from the reader's options, not from Spark's interface for pushing filters down. Up to Spark 4.3 at least,
# Spark reuses the plan of one query for other queries on the same DataFrame, and these lose rows.


@dataclass(frozen=True, slots=True)
class Conditions:
    """The value that each of some columns must have."""

    equals: Mapping[str, str] = field(default_factory=dict)

    def accept(self, column: str, value: str | None) -> bool:
        """Return True if rows with this value are requested."""
        return self.equals.get(column, value) == value


ALL = Conditions()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `start` up to `end`, exclusive; None means no upper bound."""

    start: str = ""
    end: str | None = None

    def __contains__(self, key: str) -> bool:
        return self.start <= key and (self.end is None or key < self.end)

    def touches(self, low: str | None, high: str | None) -> bool:
        """Return True if the range may contain a key between `low` and `high`, both exclusive."""
        return (low is None or self.end is None or low < self.end) and (high is None or self.start < high)


def key_ranges(conditions: Conditions, keys: KeyCodec) -> tuple[KeyRange, ...]:
    """Return the key ranges of the objects that the conditions accept, in order and without overlap."""
    kinds = [kind for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW) if conditions.accept("type", kind.word)]
    ranges = (_of_kind(kind, conditions.equals, keys) for kind in kinds)
    return tuple(key_range for key_range in ranges if key_range is not None)


def _of_kind(kind: Kind, equals: Mapping[str, str], keys: KeyCodec) -> KeyRange | None:
    namespace, name = equals.get("namespace"), equals.get("name")
    try:
        if kind is Kind.NAMESPACE:
            # `namespace` and `name` of a namespace are both its own name
            if namespace is not None and name is not None and namespace != name:
                return None
            own = name if namespace is None else namespace
            return _range_below(keys.prefix(kind)) if own is None else _one(keys.encode(NamespaceName(own)))
        if namespace is None or name is None:
            return _range_below(keys.prefix(kind, namespace))
        object_name = TableName(namespace, name) if kind is Kind.TABLE else ViewName(namespace, name)
        return _one(keys.encode(object_name))
    except InvalidName:
        # no object has such a name
        return None


def _range_below(prefix: str) -> KeyRange:
    return KeyRange(prefix, after_prefix(prefix))


def _one(key: str) -> KeyRange:
    return KeyRange(key, key + "\0")


TABLES = ("objects", "versions", "actions", "nodes", "files")
STORAGE = "storage."
ICEBERG = "iceberg."
_OPTION = "option."
"""Spark's prefix for the options of a table."""

# the references that each option accepts; versionAsOf and timestampAsOf are Spark's own names
_AT: dict[str, tuple[type, ...]] = {
    "version": (AtVersion, Latest, Oldest),
    "versionasof": (AtVersion, Latest, Oldest),
    "timestamp": (AtTime, Ago, OnDay),
    "timestampasof": (AtTime, Ago, OnDay),
    "snapshot": (),
}
_OTHERS = (
    "catalog",
    "path",
    "table",
    "since",
    "partitions",
    "filter",
    "startingversion",
    "maxversionspertrigger",
    "proof",
)
_OF_WRITERS = ("message", "run")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_KNOWN = (
    "catalog, table, version, timestamp, snapshot, since, type, namespace, name, kind, filter, partitions, "
    f"startingVersion, maxVersionsPerTrigger, {STORAGE}*, {ICEBERG}*"
)
NARROWING: dict[str | None, tuple[str, ...]] = {
    "objects": ("type", "namespace", "name"),
    "actions": ("type", "object", "namespace", "name"),
    "nodes": (),
    "files": ("kind",),
}
"""Columns of each table that can be filtered with an option of the same name."""
_NARROW = {name for names in NARROWING.values() for name in names}
MAX_PARTITIONS = 100_000


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """`what` is one of TABLES, or None if `table` names an Iceberg table.

    Storage options may hold secrets, so no message and no repr contains them.
    """

    catalog: str
    what: str | None
    table: TableName | None
    reference: Reference
    dated: bool
    """True if an option names a version."""
    since: Reference | None
    conditions: Conditions
    filter: str | None
    """Row filter for an Iceberg table, in PyIceberg's syntax."""
    partitions: int | None
    starting: Reference | None
    max_versions: int | None
    proof: Proof | None = None
    """Proof that readers see the same catalog; pipelines set it."""
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    iceberg: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The destination of appended rows. Storage options may hold secrets."""

    catalog: str
    table: TableName
    message: str = ""
    run: str | None = None
    """Name of this append: if the table already has an append of that name, nothing is written."""
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    iceberg: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def table_options(spark_options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that is being created in Spark's own catalog, or None in all other cases.

    Spark adds properties of its own, and marks our options with a prefix. It stores the options with the table,
    readable by everyone, so secrets are refused.
    """
    options = {name.lower(): value for name, value in spark_options.items()}
    if "provider" not in options:
        return None
    own = {name.removeprefix(_OPTION): value for name, value in options.items() if name.startswith(_OPTION)}
    if "table" not in own and "path" in options:
        own["path"] = options["path"]
    for name in own:
        if name.startswith((STORAGE, ICEBERG)):
            raise InvalidOption(
                f"Spark would keep {name[:60]!a} with the table, where every user can read it",
                hint="give credentials to the SDKs of its machines, or make a temporary view instead",
            )
    return own


def parse_options(spark_options: Mapping[str, str]) -> ReadOptions:
    """Parse the options as Spark passes them: names in any case, values as text."""
    options = {name.lower(): value for name, value in spark_options.items()}
    _refuse_unknown(options)
    catalog = _catalog(options.get("catalog", ""))
    table = parse_table(options["table"]) if "table" in options else None
    what = options.get("path")
    if table is None and what not in TABLES:
        said = "no table is given" if what is None else f"{what[:60]!a} is not a table of a catalog"
        raise InvalidOption(said, hint=f"load one of {', '.join(TABLES)}, or set the option table to namespace.table")
    if table is not None and what is not None:
        raise InvalidOption("both a table of the catalog and the option table were given", hint="choose one of them")
    version_options = [name for name in _AT if name in options]
    if len(version_options) > 1:
        raise InvalidOption(f"more than one version is given: {', '.join(version_options)}", hint="choose one of them")
    if what == "files" and version_options:
        raise InvalidOption("files are listed as they are now", hint=f"leave out the option {version_options[0]}")
    if "since" in options and what not in ("versions", "actions", "nodes"):
        raise InvalidOption("the option since is for versions, actions and nodes only")
    for name in sorted(_NARROW & options.keys()):
        if name not in NARROWING.get(what, ()):
            raise InvalidOption(f"{what or 'an Iceberg table'} cannot be narrowed by {name}", hint="use where")
    if "filter" in options and table is None:
        raise InvalidOption("the option filter is for Iceberg tables only", hint="use where")
    return ReadOptions(
        catalog=catalog,
        what=what,
        table=table,
        reference=_reference(version_options[0], options[version_options[0]]) if version_options else Latest(),
        dated=bool(version_options),
        since=parse_reference(options["since"]) if "since" in options else None,
        conditions=Conditions({name: options[name] for name in NARROWING.get(what, ()) if name in options}),
        filter=options.get("filter"),
        partitions=_number(options, "partitions", MAX_PARTITIONS),
        starting=parse_reference(options["startingversion"]) if "startingversion" in options else None,
        max_versions=_number(options, "maxversionspertrigger", 2**31),
        proof=Proof.parse(options["proof"]) if "proof" in options else None,
        storage=_below(STORAGE, options),
        iceberg=_below(ICEBERG, options),
    )


def is_write(spark_options: Mapping[str, str]) -> bool:
    """Return True if only a writer can have these options. Spark does not say which it needs before it asks for a
    writer."""
    options = {name.lower() for name in spark_options}
    return bool(options & set(_OF_WRITERS)) or {"table", "path"} <= options


def parse_write_options(spark_options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a writer. The catalog may also be given as the path: `save("s3://lake/catalog")`."""
    options = {name.lower(): value for name, value in spark_options.items()}
    for name in options:
        if name not in ("catalog", "path", "table", *_OF_WRITERS) and not name.startswith((STORAGE, ICEBERG)):
            option_names = f"catalog, table, message, run, {STORAGE}*, {ICEBERG}*"
            raise InvalidOption(
                f"{name[:60]!a} is not an option of a writer of olympia", hint=f"there are {option_names}"
            )
    if "table" not in options:
        raise InvalidOption("the option table is missing", hint="set it to namespace.table")
    if "catalog" in options and "path" in options:
        raise InvalidOption("the catalog is given twice", hint="leave out the option catalog, or what save is given")
    return WriteOptions(
        catalog=_catalog(options.get("catalog") or options.get("path", "")),
        table=parse_table(options["table"]),
        message=options.get("message", ""),
        run=check_run(options.get("run")),
        storage=_below(STORAGE, options),
        iceberg=_below(ICEBERG, options),
    )


def check_run(run: str | None) -> str | None:
    """Return the name of an append after checking it: the name becomes part of file names."""
    if run is not None and not _RUN.fullmatch(run):
        hint = "use letters, digits, dots, dashes and underscores, at most 100 of them"
        raise InvalidOption(f"{run[:60]!a} cannot name an append", hint=hint)
    return run


def _refuse_unknown(options: Mapping[str, str]) -> None:
    # a misspelt option would silently mean the latest version. Names with a dot are Spark's own, for tables in its SQL
    for name in options:
        if name not in _AT and name not in _OTHERS and name not in _NARROW and "." not in name:
            raise InvalidOption(f"{name[:60]!a} is not an option of olympia", hint=f"there are {_KNOWN}")


def _catalog(uri: str) -> str:
    if not uri.strip():
        raise InvalidOption("the option catalog is missing", hint="set it to the catalog's location")
    check_shared(uri)
    # each process has its own working directory
    return uri if ":" in uri.partition("/")[0] else os.path.abspath(os.path.expanduser(uri))


def check_shared(uri: str) -> None:
    """Raise InvalidLocation if other processes cannot reach the location."""
    if uri.lower().startswith("memory:"):
        raise InvalidLocation("memory:// is one process's own, and Spark has many", hint="use a folder or a bucket")


def _reference(name: str, text: str) -> Reference:
    reference = parse_reference(text)
    if _AT[name] and not isinstance(reference, _AT[name]):
        raise InvalidOption(f"{text[:60]!a} is not a {name}", hint="the option snapshot takes any reference")
    return reference


def _number(options: Mapping[str, str], name: str, most: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and 1 <= int(text) <= most):
        raise InvalidOption(f"{name} is {text[:60]!a}", hint=f"choose a number from 1 to {most}")
    return int(text)


def _below(prefix: str, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name[len(prefix) :], value) for name, value in options.items() if name.startswith(prefix)))
