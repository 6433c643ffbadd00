"""The way down trees on Spark: from the rows of roots to a row for each node that they lead to, level by level, and
from these to a row for each definition that they name. Each file is read once. fsck, an export and an expire walk here,
and take what they need from the rows.

A row says what a file holds and what is wrong with it in itself, as `ops/walk/facts` has it. Each level is made from
all before it, so each is cut, whoever walks; see `frames` for what that asks of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from olympia_cli.errors import StoreError
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.examined import OutOfPlace
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.facts import NodeFacts, NodeRules, look_at_definition
from olympia_cli.ops.walk.files import Files, Place
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.spark.batches import arrow_schema, ddl, text
from olympia_cli.spark.failures import failures
from olympia_cli.spark.pipelines.frames import apart, cut, cut_and_count, together
from olympia_cli.spark.pipelines.place import pieces, rows_of
from olympia_cli.tree.load import MAX_DEPTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

_NODE = {
    "path": "string",
    "version": "long",
    "readable": "boolean",
    "verified": "boolean",
    "leaf": "boolean",
    "keys": "array<string>",
    "children": "array<string>",
    "has": "array<string>",
    "needs": "array<string>",
    "names": "array<struct<path:string,kind:int,key:long,text:string>>",
    "marks": "array<struct<path:string,code:string,reason:string,newer:boolean,hint:string>>",
    "bytes": "long",
    "level": "int",
    "notes": "binary",
}
"""`version` is of roots. A row with `notes` is of no node: it is what somebody who read roots has to say of them."""
_DEFINITION = {
    "path": "string",
    "kind": "int",
    "level": "int",
    "low": "long",
    "high": "long",
    "sure": "boolean",
    "keys": "array<string>",
    "id": "long",
    "verified": "boolean",
    "code": "string",
    "reason": "string",
    "hint": "string",
    "location": "string",
    "bytes": "long",
}
NODES, _DEFINITIONS = ddl(_NODE), ddl(_DEFINITION)
_NODE_ARROW, _DEFINITION_ARROW = arrow_schema(_NODE), arrow_schema(_DEFINITION)
_SAID = list(_DEFINITION_ARROW)[7:]
_NODES_AT_ONCE = 256
_DEFINITIONS_AT_ONCE = 1024
# a node with its keys and the names of its definitions has tens of kilobytes
_ROWS = 64

NodeRow = tuple[NodeFacts, int | None, int]
"""A node, the version if it is a root of one, and how many bytes of it count."""


class FilesPlace(Protocol):
    """Where files are, as it is sent to tasks."""

    def files(self) -> Files:
        """The files, for one task; to be closed at its end."""
        ...


@dataclass(frozen=True, slots=True)
class WalkBrief:
    """What the workers need to know: where files are, and what nodes are held to."""

    place: FilesPlace
    rules: NodeRules
    texts: bool
    """Whether keys are of interest, beside what tells them apart."""


def all_nodes(
    engine: SparkEngine,
    brief: WalkBrief,
    tops: DataFrame,
    progress: Progress = SILENT,
    known: Sequence[DataFrame] = (),
) -> DataFrame:
    """The rows of roots, and of all nodes that they lead to and that are not known yet. OutOfPlace when a tree is
    deeper than any may be."""
    levels = [tops.where("path is not null")]
    for number_of_level in range(2, MAX_DEPTH + 2):
        below = levels[-1].selectExpr("explode(children) as path").where("path is not null")
        # to a number of partitions that was asked for: left to itself, Spark gives one task a level of any size whose
        # names are few megabytes
        below = below.repartition(engine.partitions, "path").dropDuplicates()
        # a node may lie on another level in another version; and in what is damaged, lead back to itself
        read = together(level.select("path") for level in (*known, *levels))
        below = below.join(apart(read), "path", "left_anti")
        progress.phase("reading nodes")
        below = below.mapInArrow(partial(_look_at_nodes, brief, number_of_level), NODES)
        level, number = cut_and_count(below)
        if not number:
            return together(levels)
        progress.advance(number)
        levels.append(level)
    raise OutOfPlace


def named_by(nodes: DataFrame) -> DataFrame:
    """A row for each definition that a node names."""
    rows = nodes.selectExpr("path as holder", "level", "readable", "explode(names) as name")
    columns = ("name.path as path", "name.kind as kind", "name.key as code", "name.text as key")
    return rows.selectExpr("holder", "level", "readable", *columns)


def read_definitions(engine: SparkEngine, place: FilesPlace, nodes: DataFrame) -> DataFrame:
    """A row for each definition: the number of its object's id, or what is wrong with it. `low` and `high` differ when
    several keys name it; `sure` says that a node names it that can be read."""
    from pyspark.sql.functions import collect_set, max, min

    named = named_by(nodes).repartition(engine.partitions, "path")
    named = named.groupBy("path", "kind").agg(
        min("level").alias("level"),
        min("code").alias("low"),
        max("code").alias("high"),
        max("readable").alias("sure"),
        collect_set("key").alias("keys"),
    )
    return cut(named.mapInArrow(partial(_look_at_definitions, place), _DEFINITIONS))


def notes_in(tops: DataFrame) -> list[Any]:
    """What those who read roots have to say of them."""
    return [pickle.loads(row.notes) for row in tops.where("notes is not null").select("notes").collect()]


# On the workers


def node_batches(brief: WalkBrief, nodes: Iterable[NodeRow], level: int) -> Iterator[pa.RecordBatch]:
    rows = iter(nodes)
    while batch := list(islice(rows, _ROWS)):
        yield _node_batch(brief, batch, level)


def notes_batch(notes: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"notes": pickle.dumps(notes)}], schema=_NODE_ARROW)


def key_code(key: str) -> int:
    """A number that tells keys apart."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def _look_at_nodes(brief: WalkBrief, level: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    places = (Place(row["path"], level) for row in rows_of(batches))

    def look(files: Files) -> Iterator[NodeRow]:
        while batch := list(islice(places, _NODES_AT_ONCE)):
            for place, data in files.nodes(batch):
                facts = brief.rules.look(place.path, data)
                files.looked_at(place, data, facts.flaw, is_node=True)
                yield facts, None, len(data) if isinstance(data, bytes) else 0

    with failures(), brief.place.files() as files:
        yield from node_batches(brief, look(files), level)


def _node_batch(brief: WalkBrief, rows: Sequence[NodeRow], level: int) -> pa.RecordBatch:
    facts = [one for one, _, _ in rows]
    names = [name for one in facts for name in one.names]
    marks = [mark for one in facts for mark in one.marks]
    named = (
        [path for path, _, _ in names],
        [int(kind) for _, kind, _ in names],
        [key_code(key) for _, _, key in names],
        [key if brief.texts else None for _, _, key in names],
    )
    marked = (
        [text(path) for path, _ in marks],
        [flaw.code for _, flaw in marks],
        [text(flaw.reason) for _, flaw in marks],
        [flaw.newer for _, flaw in marks],
        [flaw.hint for _, flaw in marks],
    )
    columns = {
        "path": [one.path for one in facts],
        "version": [version for _, version, _ in rows],
        "readable": [one.readable for one in facts],
        "verified": [one.verified for one in facts],
        "leaf": [one.is_leaf for one in facts],
        # of a leaf only its range is of interest to others
        "keys": [one.keys if not one.is_leaf else (*one.keys[:1], *one.keys[-1:]) for one in facts],
        "children": [one.children for one in facts],
        "has": [one.has for one in facts],
        "needs": [one.needs for one in facts],
        "names": _lists("names", [len(one.names) for one in facts], named),
        "marks": _lists("marks", [len(one.marks) for one in facts], marked),
        "bytes": [size for _, _, size in rows],
        "level": [level] * len(rows),
        "notes": [None] * len(rows),
    }
    return pa.RecordBatch.from_pydict(columns, schema=_NODE_ARROW)


def _lists(column: str, lengths: Sequence[int], fields: Sequence[list[Any]]) -> pa.Array:
    """Lists of structs, from the fields of all of them in a row."""
    struct = _NODE_ARROW.field(column).type.value_type
    values = [pa.array(values, field.type) for values, field in zip(fields, struct, strict=True)]
    offsets = pa.array(accumulate(lengths, initial=0), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(values, fields=list(struct)))


def _look_at_definitions(place: FilesPlace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with failures(), place.files() as files:
        for batch in pieces(batches, _DEFINITIONS_AT_ONCE):
            kinds = batch.column("kind").to_pylist()
            columns = (batch.column(name).to_pylist() for name in ("path", "level"))
            read = files.definitions([Place(*one) for one in zip(*columns, strict=True)])
            judged = [_judge(files, Kind(kind), *one) for kind, one in zip(kinds, read, strict=True)]
            said = [
                pa.array(column, field.type) for column, field in zip(zip(*judged, strict=True), _SAID, strict=True)
            ]
            yield pa.RecordBatch.from_arrays([*batch.columns, *said], schema=_DEFINITION_ARROW)


def _judge(files: Files, kind: Kind, place: Place, data: bytes | StoreError) -> tuple[int | bool | str | None, ...]:
    """The columns that are said of a definition, in their order."""
    found = look_at_definition(kind, data, place.path)
    files.looked_at(place, data, found if isinstance(found, Flaw) else None, is_node=False)
    size = len(data) if isinstance(data, bytes) else 0
    if isinstance(found, Flaw):
        return None, None, found.code, text(found.reason), found.hint, None, size
    definition, verified = found
    location = definition.iceberg_metadata_location if isinstance(definition, TableDef) else ""
    return key_code(definition.id), verified, None, None, None, text(location) or None, size
