"""The fate of each file: what a listing shows, manifests name and trees reach becomes one row a file, and the sweep is
asked about it. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.format.paths import file_kind, parse_root_path
from olympia_cli.ops.expire.sweep import FileFacts, FileFate, Sweep
from olympia_cli.ops.progress import Progress
from olympia_cli.spark.batches import batches, ddl
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.expire_manifests import read_manifests
from olympia_cli.spark.pipelines.frames import keep, together
from olympia_cli.spark.pipelines.fsck_listing import FILES_A_TASK
from olympia_cli.spark.pipelines.place import rows_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FACTS = {
    "modified": "cast(null as timestamp)",
    "bytes": "cast(null as bigint)",
    "at": "cast(null as int)",
    "named": "cast(null as bigint)",
    "resting": "false",
    "reached": "false",
    "recallable": "false",
}
"""What is known of a file that nothing is known of; `at` is the last manifest that leaves and names it, and `named` the
bytes that this one says it has."""

_FATES = {"path": "string", "bytes": "long", "kind": "string", "version": "long", "fate": "string", "files": "long"}
_LEFT_OUT = (FileFate.STAYS, FileFate.RESTS, FileFate.GONE)


def survey_files(
    engine: SparkEngine,
    sweep: Sweep,
    kept: DataFrame,
    resting: DataFrame,
    number: int,
    stack: ExitStack,
    progress: Progress,
    files: DataFrame | None = None,
) -> tuple[DataFrame, tuple[str, ...]]:
    """The files that an expire does something about, or has to speak of: path, bytes, kind, the version of roots, the
    fate, and of how many files the row is. And what is wrong with manifests that cannot be read.

    The sweep is asked about each file that is listed or that a manifest names, or, if they are given, about these files
    alone. `kept` are the paths that versions reach which stay, and the pins; `resting` what others reach beside that
    which stay in quarantine; there are about so many of both. What Spark keeps is freed with `stack`."""
    facts = [_known(kept, reached="true"), _known(resting, recallable="true")]
    parts = engine.parts(2 * number, FILES_A_TASK)
    if files is not None:
        facts.append(_known(files, at="0", named="bytes"))
        return _judged(sweep, facts, parts, stack), ()
    notes: tuple[str, ...] = ()
    if sweep.manifests:
        manifests, notes = read_manifests(engine, sweep, stack)
        facts.append(_named(manifests, sweep))
    progress.phase("listing files" if sweep.kinds else "listing all files")
    facts.append(_listed(engine, sweep, parts))
    return _judged(sweep, facts, parts, stack), notes


def of_fate(files: DataFrame, fate: FileFate) -> DataFrame:
    """Path, bytes, kind and, of roots, the version of the judged files that have this fate."""
    return files.where(f"fate = '{fate.name}'").select("path", "bytes", "kind", "version")


def _judged(sweep: Sweep, facts: Iterable[DataFrame], parts: int, stack: ExitStack) -> DataFrame:
    """The files with their fates, but for those that nothing is done about.

    The facts are DataFrames that know something of some of the files; see `_known`. A row is of more than one file
    where names that are no text look alike.
    """
    from pyspark.sql.functions import count, expr, max

    columns: list[Column] = [max(name).alias(name) for name in _FACTS if name not in ("bytes", "named")]
    columns += [max("bytes").alias("bytes"), expr("max_by(named, at)").alias("named"), count("modified").alias("files")]
    rows = together(facts).repartition(parts, "path").groupBy("path").agg(*columns)
    return keep(rows.mapInArrow(partial(_judge, sweep), ddl(_FATES)), stack)


def _known(frame: DataFrame, **facts: str) -> DataFrame:
    """What a DataFrame with paths knows of these files, as expressions over its columns."""
    return frame.selectExpr("path", *(f"{facts.get(name, nothing)} as {name}" for name, nothing in _FACTS.items()))


def _listed(engine: SparkEngine, sweep: Sweep, parts: int) -> DataFrame:
    kinds = sweep.kinds or (None,)
    files = together(engine.catalog.list_files(engine.spark, parts, kind) for kind in kinds)
    return _known(files, modified="modified_at", bytes="bytes")


def _named(files: DataFrame, sweep: Sweep) -> DataFrame:
    numbers = [str(at) for at, path in enumerate(sweep.manifests) if path in sweep.leaving]
    leaving = f"at in ({', '.join(numbers)})" if numbers else "false"
    return _known(files, at=f"if({leaving}, at, null)", named=f"if({leaving}, bytes, null)", resting="true")


# On the workers


def _judge(sweep: Sweep, given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in given:
        rows = []
        millis = batch.column("modified").cast(pa.int64()).to_pylist()
        for row, micros in zip(rows_of([batch.drop_columns(["modified"])]), millis, strict=True):
            file = FileFacts(
                path=row["path"],
                kind=file_kind(row["path"]),
                modified_at_millis=None if micros is None else micros // 1000,
                reached=row["reached"],
                recallable=row["recallable"],
                resting=row["resting"],
                leaving=row["at"] is not None,
            )
            fate = sweep.fate(file)
            if fate not in _LEFT_OUT:
                rows.append(
                    {
                        "path": file.path,
                        "bytes": row["bytes"] if row["named"] is None else row["named"],
                        "kind": file.kind.value,
                        "version": parse_root_path(file.path),
                        "fate": fate.name,
                        "files": max(1, row["files"]),
                    }
                )
        yield from batches(rows, _FATES)
