"""Files that tasks read: the nodes of a large level, and definitions.

The driver walks as it does without Spark, and holds the facts about nodes. A level that is too large for the driver is
one job. Only the names of definitions, about a hundred per node, stay on the executors, which also read the
definitions.
"""

from __future__ import annotations

import pickle
import socket
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions

from olympia_cli.errors import ExecutorUnprepared, PathMissing, StoreError
from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.names import Kind
from olympia_cli.ops.executor import divide
from olympia_cli.ops.export import name_number
from olympia_cli.ops.walk import HERE, DefinitionName, Files, Flaw, NodeFacts, NodeRules, Place, look_at_definition
from olympia_cli.spark.failures import failures
from olympia_cli.spark.pins import arrow_schema, ddl, text
from olympia_cli.spark.pipelines.place import apart, keep, pieces, rows_of, together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

NODE_WEIGHT = 32
"""Cost of a node on the driver, in definitions."""

NODES_A_TASK, DEFINITIONS_A_TASK, ROWS_A_TASK = 256, 16_384, 262_144
"""Some hundred milliseconds of work. ROWS_A_TASK is for rows that are already computed, and only scanned."""

NODES_A_JOB = 50_000
"""The driver's memory holds the facts of this many nodes at once."""

_NODE = {
    "path": "string",
    "level": "int",
    "readable": "boolean",
    "flawed": "boolean",
    "names": "array<struct<path:string,kind:int,code:long,key:string>>",
    "facts": "binary",
}
_NAME = {
    "holder": "string",
    "level": "int",
    "readable": "boolean",
    "path": "string",
    "kind": "int",
    "code": "long",
    "key": "string",
}
_GROUP = {
    "path": "string",
    "kind": "int",
    "level": "int",
    "low": "long",
    "high": "long",
    "sure": "boolean",
    "keys": "array<string>",
}
_DEFINITION = {
    **_GROUP,
    "id": "long",
    "verified": "boolean",
    "code": "string",
    "reason": "string",
    "hint": "string",
    "location": "string",
    "bytes": "long",
    "name": "long",
    "host": "string",
}
_NODE_ARROW, _DEFINITION_ARROW = map(arrow_schema, (_NODE, _DEFINITION))
_READ = list(_DEFINITION_ARROW)[len(_GROUP) :]
_KINDS = {int(kind): kind for kind in Kind}
_NODES_AT_ONCE = 64
_DEFINITIONS_AT_ONCE = 1024
_ROWS_AT_ONCE = 65_536


OpenFiles = Callable[[], Files]
"""Open the files of one task, which closes them at its end. The callable is sent to tasks."""

KeptNames = Callable[[NodeFacts], tuple[DefinitionName, ...]]
"""Return the names in a node that tasks keep. The callable is sent to tasks."""


def all_names(facts: NodeFacts) -> tuple[DefinitionName, ...]:
    return facts.names


def no_names(facts: NodeFacts) -> tuple[DefinitionName, ...]:
    return ()


@dataclass(slots=True)
class SparkWalk:
    """A mapper, and the rows that tasks keep of what they read. `what` is the name of the command. `texts` says whether
    rows have the keys that name definitions, beside their codes. `stack` frees what Spark keeps."""

    engine: SparkEngine
    open_files: OpenFiles
    what: str
    stack: ExitStack
    texts: bool = False
    kept_names: KeptNames = all_names
    at_once: int = NODES_A_JOB
    levels: list[DataFrame] = field(default_factory=list)
    """The nodes that tasks read."""
    named: int = 0
    """Number of definition names in these nodes that tasks keep."""

    def nodes(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        by_tasks = len(places) * NODE_WEIGHT > self.engine.alone
        return self._by_tasks(files, rules, places) if by_tasks else HERE.nodes(files, rules, places)

    def _by_tasks(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        engine, number = self.engine, len(places)
        files.progress.phase("reading nodes", number)
        parts = engine.parts(number, NODES_A_TASK)
        shares = divide(places, parts)
        look = partial(_look_at_nodes, self.open_files, rules, self.texts, self.kept_names, shares)
        level = keep(engine.spark.range(0, parts, 1, parts).mapInArrow(look, ddl(_NODE)), self.stack)
        with engine.job(f"{self.what}: nodes, level {places[0].level}"):
            rows = level.select("path", "facts").toArrow().to_pydict()
        nodes = {path: _unpacked(data) for path, data in zip(rows["path"], rows["facts"], strict=True)}
        settle_missing(files, {path: host for path, _ in places if (host := nodes[path].host) is not None})
        self.levels.append(in_fewer_parts(engine, level, sum(node.named for node in nodes.values())))
        sizes = [node.size for node in nodes.values() if node.size is not None]
        engine.run.read(len(sizes), sum(sizes))
        for place in places:
            node = nodes[place.path]
            self.named += node.named
            files.tally(place, node.size is not None, node.size or 0, is_node=True)
            yield place, node.facts
            files.progress.advance()

    def names(self, noted: Iterable[tuple[Place, bool, DefinitionName]], levels: Sequence[DataFrame]) -> DataFrame:
        """Return a row for each definition that the driver noted, and for each that a node of `levels` names. `sure`
        says whether the node that names it is readable."""
        rows = (
            (None, place.level, sure, path, int(kind), key_code(key), key if self.texts else None)
            for place, sure, (path, kind, key) in noted
        )
        first = list(islice(rows, 1))
        frames = [frame_of(self.engine, chain(first, rows), _NAME)] if first or not levels else []
        return together([*frames, *map(named_by, levels)])

    def read_definitions(self, names: DataFrame, number: int, known_frames: Sequence[DataFrame] = ()) -> DataFrame:
        """Read each definition once, without those in `known_frames`, and return a row for it: the number of its
        object's id, or what is wrong with it. `number` is the highest number of definitions."""
        parts = self.engine.parts(number, DEFINITIONS_A_TASK)
        unread = grouped(names, parts, self.texts)
        if known_frames:
            known_rows = together(frame.select("path", "kind") for frame in known_frames).repartition(parts, "path")
            unread = unread.join(apart(known_rows), ["path", "kind"], "left_anti")
        return keep(unread.mapInArrow(partial(_look_at_definitions, self.open_files), ddl(_DEFINITION)), self.stack)


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A node as a task saw it: its facts without the names, the number of names that tasks keep, the bytes read, and
    the machine on which it is missing."""

    facts: NodeFacts
    named: int
    size: int | None
    host: str | None


def _packed(node: TaskNode) -> bytes:
    # compressed: the keys of an inner node are mostly padding, and Spark copies the data several times
    return zlib.compress(pickle.dumps(node), 1)


def _unpacked(data: bytes) -> TaskNode:
    node: TaskNode = pickle.loads(zlib.decompress(data))
    return node


def named_by(level: DataFrame) -> DataFrame:
    """Return a row for each definition that a node names."""
    rows = level.selectExpr("path as holder", "level", "readable", "explode(names) as name")
    return rows.selectExpr("holder", "level", "readable", "name.path", "name.kind", "name.code", "name.key")


def in_fewer_parts(engine: SparkEngine, frame: DataFrame, rows: int) -> DataFrame:
    """Put `rows` kept rows into fewer partitions, for steps that only scan them. There are as many partitions as tasks
    that computed them; computing a partition takes long, and scanning it hardly any time."""
    return frame.coalesce(engine.parts(rows, ROWS_A_TASK))


def grouped(names: DataFrame, parts: int, texts: bool) -> DataFrame:
    """Return a row for each named definition. `low` and `high` differ if several keys name it. `sure` says whether a
    readable node names it. Without `texts` there are no keys: Spark groups numbers much faster than lists."""
    return (
        names.repartition(parts, "path")
        .groupBy("path", "kind")
        .agg(
            functions.min("level").alias("level"),
            functions.min("code").alias("low"),
            functions.max("code").alias("high"),
            functions.max("readable").alias("sure"),
            (functions.collect_set("key") if texts else functions.expr("cast(array() as array<string>)")).alias("keys"),
        )
    )


def frame_of(engine: SparkEngine, rows: Iterable[tuple[Any, ...]], columns: Mapping[str, str]) -> DataFrame:
    """Return a DataFrame of the driver's rows, which may be millions: they are converted a batch at a time."""
    schema, rest, batches = arrow_schema(columns), iter(rows), []
    while some := list(islice(rest, _ROWS_AT_ONCE)):
        by_column = zip(*some, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(by_column, schema, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return engine.spark.createDataFrame(pa.Table.from_batches(batches, schema))


def paths_frame(engine: SparkEngine, paths: Iterable[str]) -> DataFrame:
    return frame_of(engine, ((path,) for path in paths), {"path": "string"})


def settle_missing(files: Files, missing: Mapping[str, str]) -> None:
    """Raise ExecutorUnprepared if the driver has a file that is missing on a task's machine: then the machine is wrong,
    not the file."""
    for path, data in files.read_many(missing):
        if not isinstance(data, Exception):
            raise ExecutorUnprepared(
                f"Spark's executors on {missing[path]} do not see {path}, which is there",
                hint="let every machine reach the same store: a folder must be mounted on all of them",
            )


def key_code(key: str) -> int:
    """Return a 64-bit hash of a key, which tells keys apart."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


# On the workers


def _look_at_nodes(
    open_files: OpenFiles,
    rules: NodeRules,
    texts: bool,
    kept_names: KeptNames,
    shares: Sequence[Sequence[Place]],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    with failures(), open_files() as files:
        for row in rows_of(numbers):
            share = iter(shares[row["id"]])
            while batch := list(islice(share, _NODES_AT_ONCE)):
                yield _node_batch([_looked_at(files, rules, kept_names, *node) for node in files.nodes(batch)], texts)


def _looked_at(
    files: Files, rules: NodeRules, kept_names: KeptNames, place: Place, data: bytes | StoreError
) -> tuple[Place, NodeFacts, TaskNode]:
    facts = rules.look(place.path, data)
    facts = replace(facts, names=kept_names(facts))
    files.looked_at(place, data, facts.flaw, is_node=True)
    # the driver needs only the key range of a leaf
    keys = (*facts.keys[:1], *facts.keys[-1:]) if facts.is_leaf else facts.keys
    size = len(data) if isinstance(data, bytes) else None
    host = socket.gethostname() if isinstance(data, PathMissing) else None
    return place, facts, TaskNode(replace(facts, keys=keys, names=()), len(facts.names), size, host)


def _node_batch(rows: Sequence[tuple[Place, NodeFacts, TaskNode]], texts: bool) -> pa.RecordBatch:
    names = [name for _, facts, _ in rows for name in facts.names]
    struct = _NODE_ARROW.field("names").type.value_type
    fields = (
        [path for path, _, _ in names],
        [int(kind) for _, kind, _ in names],
        [key_code(key) for _, _, key in names],
        [key if texts else None for _, _, key in names],
    )
    values = [pa.array(values, field.type) for values, field in zip(fields, struct, strict=True)]
    offsets = pa.array(accumulate((node.named for _, _, node in rows), initial=0), pa.int32())
    columns = {
        "path": [place.path for place, _, _ in rows],
        "level": [place.level for place, _, _ in rows],
        "readable": [facts.readable for _, facts, _ in rows],
        "flawed": [bool(facts.marks) for _, facts, _ in rows],
        "names": pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(values, fields=list(struct))),
        "facts": [_packed(node) for _, _, node in rows],
    }
    return pa.RecordBatch.from_pydict(columns, schema=_NODE_ARROW)


def _look_at_definitions(open_files: OpenFiles, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with failures(), open_files() as files:
        for batch in pieces(batches, _DEFINITIONS_AT_ONCE):
            kinds = batch.column("kind").to_pylist()
            columns = (batch.column(name).to_pylist() for name in ("path", "level"))
            contents = files.definitions([Place(*row) for row in zip(*columns, strict=True)])
            judged = [_judge(files, _KINDS[kind], *row) for kind, row in zip(kinds, contents, strict=True)]
            said = [
                pa.array(column, field.type) for column, field in zip(zip(*judged, strict=True), _READ, strict=True)
            ]
            yield pa.RecordBatch.from_arrays([*batch.columns, *said], schema=_DEFINITION_ARROW)


def _judge(files: Files, kind: Kind, place: Place, data: bytes | StoreError) -> tuple[int | bool | str | None, ...]:
    """Return the columns that describe a definition, in the order of `_READ`."""
    facts = look_at_definition(kind, data, place.path)
    files.looked_at(place, data, facts if isinstance(facts, Flaw) else None, is_node=False)
    size = len(data) if isinstance(data, bytes) else None
    name = name_number(place.path, size) if size is not None else None
    host = socket.gethostname() if isinstance(data, PathMissing) else None
    if isinstance(facts, Flaw):
        return None, None, facts.code, text(facts.reason), facts.hint, None, size, name, host
    definition, verified = facts
    location = definition.iceberg_metadata_location if isinstance(definition, TableDef | ViewDef) else ""
    return key_code(definition.id), verified, None, None, None, text(location) or None, size, name, host
