"""`spark.read.format("olympia")`: read a catalog's tables, and the rows of its Iceberg tables.

`load("objects")`, "versions", "actions", "nodes" or "files" reads the catalog. The option `table` reads an Iceberg
table at a version of the catalog. The version is looked up once, when the DataFrame is made, and stays the same for all
its uses.

Spark does not tell a Python source which columns a query needs, unless `.schema(…)` names them. Objects without the
columns of their definitions are read from the tree alone. With a schema, Spark makes the source, and so looks up the
version, only when the DataFrame is first used. The options `type`, `namespace`, `name` and `kind` reduce what is read;
Spark's filters do not (see `conditions`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from olympia_cli.catalog.references import oldest_version, open_snapshot
from olympia_cli.catalog.versions import read_latest
from olympia_cli.errors import InvalidOption, SparkMissing, VersionNotFound
from olympia_cli.names import AtVersion, Latest
from olympia_cli.spark import iceberg_rows, rows
from olympia_cli.spark.failures import explained, failures, told
from olympia_cli.spark.iceberg_rows import IcebergTable
from olympia_cli.spark.options import ReadOptions, is_write, parse_options, parse_write_options, table_options
from olympia_cli.spark.pins import Pin, batches, ddl, open_pinned, pin, store_of
from olympia_cli.spark.proof import package_zip
from olympia_cli.spark.rows import plan_versions
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

# The tables of a catalog that Spark can read: their columns, how each is divided, and how a part is read.
#
# Nothing here needs Spark: a part is a plain value, and its rows are dictionaries.

COLUMNS: dict[str, dict[str, str]] = {
    "objects": rows.OBJECT_COLUMNS,
    "versions": rows.VERSION_COLUMNS,
    "actions": rows.ACTION_COLUMNS,
    "nodes": rows.NODE_COLUMNS,
    "files": rows.FILE_COLUMNS,
}
Part = rows.ObjectPart | rows.VersionPart | rows.NodePart | rows.FilePart


def plan(store: Store, options: ReadOptions, pinned: Pin | None) -> Sequence[Part]:
    """Return the parts of the table that the options name; they cover the table and do not overlap."""
    number, conditions = options.partitions, options.conditions
    if pinned is None:
        return rows.plan_files(options.catalog, conditions, number)
    if options.what == "objects":
        return rows.plan_objects(open_pinned(store, pinned), conditions, number)
    if options.what == "nodes":
        first = pinned.version if options.since is None else _since(store, options, pinned)
        return rows.plan_nodes(open_pinned(store, pinned), pinned.root, first, number)
    if pinned.version < pinned.oldest:
        raise VersionNotFound(
            f"the versions up to {pinned.version} do not exist any more: the oldest is {pinned.oldest}", hint=""
        )
    first = pinned.oldest if options.since is None else _since(store, options, pinned)
    return rows.plan_versions(first, pinned.version, pinned.width, number)


def _since(store: Store, options: ReadOptions, pinned: Pin) -> int:
    assert options.since is not None
    return min(pin(store, options.since).version, pinned.version + 1)


def read(store: Store, options: ReadOptions, part: Part, columns: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one part."""
    if isinstance(part, rows.ObjectPart):
        return rows.read_objects(store, part, options.conditions, columns)
    if isinstance(part, rows.NodePart):
        return rows.read_nodes(store, part)
    if isinstance(part, rows.FilePart):
        return rows.read_files(store, part, options.conditions)
    if options.what == "actions":
        return rows.read_actions(store, part, options.conditions)
    return rows.read_versions(store, part)


# The log as a stream: `spark.readStream.format("olympia")…load("actions")`, or "versions".
#
# An offset is the last version that was read, and a batch has the versions after one offset up to another. Versions
# never change, so a batch that is repeated after a crash is identical.

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        # Spark before 4.2 reads all available versions in one batch

        class SupportsTriggerAvailableNow: ...


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log from `startingVersion` on; the default is the oldest version."""

    def __init__(self, options: ReadOptions, columns: Mapping[str, str]) -> None:
        if options.what not in ("actions", "versions"):
            raise InvalidOption("only actions and versions can be read as a stream")
        for is_set, name in ((options.dated, "version"), (options.since is not None, "since")):
            if is_set:
                raise InvalidOption(f"a stream has no {name}", hint="use startingVersion to say where it starts")
        self.options = options
        self.columns = columns
        self.last: int | None = None
        """Last version of a stream that stops after the versions that exist at its start."""

    @failures()
    def initialOffset(self) -> dict[str, int]:
        store = store_of(self.options)
        latest = pin(store, Latest())
        start = self.options.starting
        if start is None:
            return _offset(latest.oldest - 1)
        if isinstance(start, AtVersion) and start.version < latest.oldest:
            raise _expired(start.version, latest.oldest)
        if isinstance(start, AtVersion) and start.version == latest.version + 1:
            # the next version, which is not committed yet
            return _offset(latest.version)
        return _offset(pin(store, start).version - 1)

    def latestOffset(self, start: dict[str, int] | None = None, limit: ReadLimit | None = None) -> dict[str, int]:
        # Spark before 4.2 gives neither a start nor a limit
        latest = self.last if self.last is not None else read_latest(store_of(self.options)).version
        if start is None:
            return _offset(latest)
        most = getattr(limit, "max_files", None)
        end = latest if most is None else min(latest, start["version"] + most)
        # a stale hint may lead to an older version than the stream has read
        return _offset(max(end, start["version"]))

    def getDefaultReadLimit(self) -> ReadLimit:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

        # a version is one file
        return ReadAllAvailable() if self.options.max_versions is None else ReadMaxFiles(self.options.max_versions)

    def prepareForTriggerAvailableNow(self) -> None:
        self.last = read_latest(store_of(self.options)).version

    @failures()
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        first, last = start["version"] + 1, end["version"]
        if first > last:
            return []
        store = store_of(self.options)
        latest = open_snapshot(store, Latest(), 0)
        if last > latest.version:
            raise VersionNotFound(
                f"the stream has read version {last}, and the latest is {latest.version}",
                hint="this is not the catalog that the stream began with: start a new stream with another checkpoint",
            )
        if first < (oldest := oldest_version(latest)):
            raise _expired(first, oldest)
        parts = plan_versions(first, last, latest.file.width, self.options.partitions)
        return [InputPartition(part) for part in parts]

    @told
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        yield from batches(read(store_of(self.options), self.options, partition.value, self.columns), self.columns)


def _offset(version: int) -> dict[str, int]:
    return {"version": version}


def _expired(version: int, oldest: int) -> VersionNotFound:
    return VersionNotFound(
        f"the stream continues at version {version}, which does not exist any more: the oldest is {oldest}",
        hint=f"the versions between are lost: start a new stream at {oldest} with another checkpoint",
    )


_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "long": LongType(),
    "int": IntegerType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "map": MapType(StringType(), StringType()),
}

_KEPT = "olympia"


class OlympiaDataSource(DataSource):
    """The entry point. Spark makes one per `load`, and sends copies to the processes that plan and read."""

    @failures()
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.kept_options = table_options(options)
        """Options to store with a table that is being created in Spark's own catalog; else None."""
        self.pinned: Pin | None = None
        self.iceberg: IcebergTable | None = None
        if options and not is_write(options):
            self._look_up(options if self.kept_options is None else self.kept_options)

    def _look_up(self, options: Mapping[str, str]) -> None:
        self.read_options = parse_options(options)
        if self.read_options.what == "files":
            return
        store = store_of(self.read_options)
        self.pinned = pin(store, self.read_options.reference)
        if self.read_options.table is not None:
            self.iceberg = iceberg_rows.find_table(open_pinned(store, self.pinned), self.read_options)

    @classmethod
    def name(cls) -> str:
        return "olympia"

    @failures()
    def schema(self) -> StructType:
        if is_write(self.options):
            self._look_up(self.options)
        if self.iceberg is not None:
            struct = iceberg_rows.spark_schema(iceberg_rows.load(self.iceberg).schema())
        else:
            assert self.read_options.what is not None
            struct = spark_schema(COLUMNS[self.read_options.what])
        if self.kept_options is not None:
            # when Spark reads the table, it passes the columns, but not the options
            struct.fields[0].metadata = {_KEPT: json.dumps({**self.kept_options, "catalog": self.read_options.catalog})}
        return struct

    @failures()
    def reader(self, schema: StructType) -> DataSourceReader:
        if not self.options or is_write(self.options):
            self._look_up(self.options or _kept_options(schema))
        if self.iceberg is not None:
            return iceberg_rows.IcebergReader(self.iceberg, schema)
        return CatalogReader(self.read_options, self.pinned, _columns(self.read_options, schema))

    @failures()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from olympia_cli.spark.appends import AppendWriter

        return AppendWriter.begin(parse_write_options(self.options), schema, overwrite)

    @failures()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:

        return LogStream(self.read_options, _columns(self.read_options, schema) if self.iceberg is None else {})


class CatalogReader(DataSourceReader):
    """Read one of the catalog's own tables."""

    def __init__(self, options: ReadOptions, pinned: Pin | None, columns: Mapping[str, str]) -> None:
        self.options = options
        self.pinned = pinned
        self.columns = columns

    @failures()
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in plan(store_of(self.options), self.options, self.pinned)]

    @told
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        # Spark makes an empty partition where there are none
        if partition.value is not None:
            yield from batches(read(store_of(self.options), self.options, partition.value, self.columns), self.columns)


def spark_schema(columns: Mapping[str, str]) -> StructType:
    return StructType([StructField(name, _TYPES[word]) for name, word in columns.items()])


def _kept_options(schema: StructType) -> dict[str, str]:
    """Return the options that a table in Spark's own catalog keeps in the metadata of its columns."""
    text = schema.fields[0].metadata.get(_KEPT) if schema.fields else None
    if text is None:
        raise InvalidOption(
            "Spark does not tell the options of this table",
            hint="make it without a list of columns, or select from it WITH (catalog = …, path = …)",
        )
    options: dict[str, str] = json.loads(text)
    return options


def _columns(options: ReadOptions, schema: StructType) -> dict[str, str]:
    """Return the columns that Spark requests, with our types. If the caller gave a schema, they may be fewer than the
    table's."""
    assert options.what is not None
    types = COLUMNS[options.what]
    for field in schema.fields:
        if field.name not in types:
            raise InvalidOption(f"{options.what} has no column {field.name[:60]!a}", hint=f"it has {', '.join(types)}")
        if field.dataType != _TYPES[types[field.name]]:
            word = _TYPES[types[field.name]].simpleString()
            raise InvalidOption(f"the column {field.name} is not a {field.dataType.simpleString()}", hint=f"use {word}")
    return {field.name: types[field.name] for field in schema.fields}


# Register the data source with a Spark session.


def register(spark: SparkSession, catalog: str | None = None, *, views: bool = False, **options: str) -> None:
    """Register `format("olympia")` with a session, classic or Connect, and ship this package's code to its workers.

    With `views`, create a temporary view for each relation of the catalog as it is now: `olympia_objects`,
    `olympia_versions`, `olympia_actions`, `olympia_nodes`, `olympia_files`. The view `olympia_names` has the objects
    without the columns that need their definitions. `options` are those of the reader.
    """
    if views and catalog is None:
        raise InvalidOption("views are of a catalog, and none is given", hint="add catalog=URI")
    if not hasattr(type(spark), "dataSource"):
        raise SparkMissing(f"Spark {spark.version} has no data sources in Python", hint="use Spark 4.0 or newer")
    with explained():
        spark.addArtifacts(package_zip(), pyfile=True)
        spark.dataSource.register(OlympiaDataSource)
        if views and catalog is not None:
            _make_views(spark, {"catalog": catalog, **options})


def _make_views(spark: SparkSession, options: dict[str, str]) -> None:
    reader = spark.read.format("olympia").options(**options)
    for what in COLUMNS:
        reader.load(what).createOrReplaceTempView(f"olympia_{what}")
    in_tree = {name: word for name, word in rows.OBJECT_COLUMNS.items() if name not in rows.IN_DEFINITIONS}
    reader.schema(ddl(in_tree)).load("objects").createOrReplaceTempView("olympia_names")
