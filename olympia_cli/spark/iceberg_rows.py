"""Read the rows of an Iceberg table at a version of the catalog, through PyIceberg. A partition is one scan task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSourceReader, InputPartition

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import (
    Damaged,
    ExecutorUnprepared,
    InvalidOption,
    OlympiaError,
    PathMissing,
    StorageFailed,
    Unsupported,
)
from olympia_cli.iceberg import parse_location, trusted
from olympia_cli.spark.failures import failures, told
from olympia_cli.spark.options import ReadOptions, WriteOptions
from olympia_cli.storage.open import check_opens

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, StaticTable

# PyIceberg's names of the catalog's storage options
_SAME = {
    "s3": {
        "endpoint_url": "s3.endpoint",
        "key": "s3.access-key-id",
        "secret": "s3.secret-access-key",
        "token": "s3.session-token",
        "region": "s3.region",
        "anon": "s3.anonymous",
    },
    "gs": {"endpoint_url": "gcs.service.host", "project": "gcs.project-id"},
}
_SIMPLE = {
    "boolean": spark_types.BooleanType(),
    "int": spark_types.IntegerType(),
    "long": spark_types.LongType(),
    "float": spark_types.FloatType(),
    "double": spark_types.DoubleType(),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampNTZType(),
    "timestamptz": spark_types.TimestampType(),
    "string": spark_types.StringType(),
    "binary": spark_types.BinaryType(),
}


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """A table's metadata location, and PyIceberg's options for its store, which may hold secrets."""

    name: str
    location: str
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    filter: str | None = None


def find_table(snapshot: Snapshot, options: ReadOptions) -> IcebergTable:
    """Return the table that the options name, at a version of the catalog. Raise Unsupported if it has no Iceberg
    metadata."""
    assert options.table is not None
    location = snapshot.table(options.table).definition.iceberg_metadata_location
    if not location:
        raise Unsupported(f"the table {options.table} is not an Iceberg table with metadata", hint="")
    return IcebergTable(str(options.table), location, tuple(sorted(file_properties(options).items())), options.filter)


def file_properties(options: ReadOptions | WriteOptions) -> dict[str, str]:
    """Return PyIceberg's properties for the tables' files: the given ones, and the catalog's storage options."""
    names = _SAME.get(options.catalog.partition("://")[0], {})
    properties = {names[name]: value for name, value in options.storage if name in names}
    return {**properties, **dict(options.iceberg)}


def load(table: IcebergTable) -> StaticTable:
    """Read the table's metadata from the location in its definition."""
    try:
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.exceptions import ValidationError as IcebergInvalid
        from pyiceberg.io import load_file_io
        from pyiceberg.serializers import FromInputFile
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise ExecutorUnprepared(
            f"reading Iceberg tables needs PyIceberg, and Spark's Python lacks {error.name or 'it'}",
            hint="install olympia-cli[iceberg] where Spark's Python workers run",
        ) from None
    properties = dict(table.properties)
    check_opens(table.location)
    try:
        io = load_file_io(properties, location=table.location)
        metadata = FromInputFile.table_metadata(io.new_input(parse_location(table.location).plain_text()))
    except FileNotFoundError:
        raise PathMissing(f"there is no metadata of {table.name} at {table.location}", hint="") from None
    except (IcebergInvalid, ValueError) as error:
        raise Damaged(
            "F602", table.location, f"it is not the metadata of an Iceberg table: {_line(error)}", hint=""
        ) from None
    except OSError as error:
        raise StorageFailed(f"{table.location} cannot be read: {_line(error)}") from None
    return StaticTable(
        identifier=("olympia", table.name),
        metadata_location=table.location,
        metadata=trusted(metadata, properties),
        # the table's properties could name an endpoint, or code to load
        io=io,
        catalog=NoopCatalog("olympia"),
    )


class IcebergReader(DataSourceReader):
    def __init__(self, table: IcebergTable, schema: spark_types.StructType) -> None:
        self.table = table
        self.columns = schema

    @failures()
    def partitions(self) -> list[InputPartition]:
        table = load(self.table)
        check_columns(table.schema(), self.columns)
        scan = table.scan(row_filter=row_filter(self.table.filter, table.schema()))
        return [InputPartition(task) for task in scan.plan_files()]

    @told
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            yield from read_task(load(self.table), partition.value, self.table.filter, self.columns)


def read_task(
    table: StaticTable, task: FileScanTask, filter: str | None, columns: spark_types.StructType
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one data file with the types that Spark expects, without deleted rows."""
    from pyiceberg.io.pyarrow import ArrowScan

    projected = table.schema().select(*columns.fieldNames())
    scan = ArrowScan(table.metadata, table.io, projected, row_filter(filter, table.schema()))
    try:
        for batch in scan.to_record_batches([task]):
            if batch.num_rows:
                yield _as_spark(batch, columns)
    except FileNotFoundError:
        raise Damaged("F603", task.file.file_path, "the data file is missing", hint="") from None
    except OlympiaError:
        raise
    except OSError as error:
        raise StorageFailed(f"{task.file.file_path} cannot be read: {_line(error)}") from None


def row_filter(text: str | None, schema: Schema) -> BooleanExpression:
    """Parse a filter in PyIceberg's syntax (`id >= 3 and name = 'x'`), and check it against the table's columns."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.expressions.parser import parse
    from pyiceberg.expressions.visitors import bind

    if text is None:
        return AlwaysTrue()
    try:
        expression = parse(text)
        bind(schema, expression, case_sensitive=True)
    # the parser's errors have no common class
    except Exception as error:
        raise InvalidOption(f"the filter cannot be understood: {_line(error)}", hint="write column = value") from None
    return expression


# Types


def spark_schema(schema: Schema) -> spark_types.StructType:
    """Return the columns with Spark's types. Raise Unsupported for a type that Spark does not have."""
    fields = [(column.name, _spark_type(column.field_type, column.name, top=True)) for column in schema.fields]
    return spark_types.StructType([spark_types.StructField(name, data_type) for name, data_type in fields])


def check_columns(schema: Schema, columns: spark_types.StructType) -> None:
    """Raise InvalidOption unless the columns are the table's, with the same types."""
    for column, expected in _expected(schema, columns):
        if column.dataType != expected:
            said = column.dataType.simpleString()
            raise InvalidOption(f"the column {column.name} is not a {said}", hint=f"use {expected.simpleString()}")


def check_rows(schema: Schema, columns: spark_types.StructType) -> None:
    """Raise InvalidOption unless rows with these columns can be appended. Each column must be one of the table's, with
    the same type or a narrower one, and no required column may be absent. Missing values in rows are found when they
    are written."""
    for column, expected in _expected(schema, columns):
        if not _fits(column.dataType, expected):
            said = f"the column {column.name} is {column.dataType.simpleString()}"
            raise InvalidOption(f"{said}, and the table has {expected.simpleString()}", hint="cast it")
    if len(set(columns.fieldNames())) < len(columns.fields):
        raise InvalidOption("two columns have one name", hint="rename one of them")
    for own in schema.fields:
        if own.required and own.name not in columns.fieldNames():
            raise InvalidOption(
                f"the column {own.name} must have a value, and the data lacks it", hint="add the column"
            )


def _expected(
    schema: Schema, columns: spark_types.StructType
) -> Iterator[tuple[spark_types.StructField, spark_types.DataType]]:
    """Yield each column with the type of the table's column. Raise InvalidOption if the table has no such column."""
    types = {column.name: column.field_type for column in schema.fields}
    for column in columns.fields:
        if column.name not in types:
            raise InvalidOption(f"the table has no column {column.name[:60]!a}", hint=f"it has {', '.join(types)}")
        yield column, _spark_type(types[column.name], column.name, top=True)


_WIDER = {
    "int": ("tinyint", "smallint"),
    "bigint": ("tinyint", "smallint", "int"),
    "double": ("float",),
}


def _fits(actual: spark_types.DataType, expected: spark_types.DataType) -> bool:
    word, expected_word = actual.simpleString(), expected.simpleString()
    if isinstance(actual, spark_types.DecimalType) and isinstance(expected, spark_types.DecimalType):
        return actual.scale == expected.scale and actual.precision <= expected.precision
    return word == expected_word or word in _WIDER.get(expected_word, ())


def _spark_type(iceberg_type: Any, column: str, top: bool = False) -> spark_types.DataType:
    word = str(iceberg_type)
    if word in _SIMPLE:
        return _SIMPLE[word]
    kind = type(iceberg_type).__name__
    if kind == "DecimalType":
        return spark_types.DecimalType(iceberg_type.precision, iceberg_type.scale)
    if kind == "FixedType":
        return spark_types.BinaryType()
    if kind == "UUIDType" and top:
        return spark_types.StringType()
    if kind == "StructType":
        return spark_types.StructType(
            [spark_types.StructField(part.name, _spark_type(part.field_type, column)) for part in iceberg_type.fields]
        )
    if kind == "ListType":
        return spark_types.ArrayType(_spark_type(iceberg_type.element_type, column))
    if kind == "MapType":
        return spark_types.MapType(
            _spark_type(iceberg_type.key_type, column), _spark_type(iceberg_type.value_type, column)
        )
    raise Unsupported(
        f"the column {column} has the Iceberg type {word}, which Spark cannot read from here",
        hint="give a schema without it",
    )


def _as_spark(batch: pa.RecordBatch, schema: spark_types.StructType) -> pa.RecordBatch:
    import pyarrow as pa

    target = _arrow_schema(schema)
    arrays = []
    for column_field in target:
        column = batch.column(column_field.name)
        if column_field.type == pa.string() and not _is_text(column.type):
            column = pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
        arrays.append(column if column.type == column_field.type else column.cast(column_field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _is_text(data_type: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)
    )


def _arrow_schema(schema: spark_types.StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    more: Mapping[str, Any] = {"timezone": "UTC"}
    try:
        return to_arrow_schema(schema, **more)
    except TypeError:
        # Spark 4.0 always uses UTC
        return to_arrow_schema(schema)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
