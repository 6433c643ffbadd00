from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from olympia_cli.cli.engine import Conf, EngineOption, EngineWord, Master, Parallelism, Remote, engine
from olympia_cli.cli.options import At, Output, check_one
from olympia_cli.cli.output import render
from olympia_cli.cli.output.files import MAX_PROBLEMS, Problems, print_rows, print_written
from olympia_cli.cli.output.log import parse_object
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.names import Kind, TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from olympia_cli.catalog.snapshot import Snapshot
    from olympia_cli.names import NamespaceName, ObjectName
    from olympia_cli.spark import SparkEngine

EXAMPLES = [
    "olympia table files sales.orders",
    "olympia table files sales --at 2026-11-15 -o csv",
    "olympia table files --schemas --json",
    "olympia table files --to ./inventory",
    "olympia table files --engine spark --master spark://host:7077 --to s3a://lake/inventory",
    "olympia table files --remote sc://host --save-as audit.files",
]


def run(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NS[.T]]", help="Only this namespace or table."),
    ] = None,
    at: At = None,
    schemas: Annotated[
        bool, typer.Option("--schemas", help="Print one row per table, with schema and partitioning.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="DIR", help="Write the rows as Parquet files; on Spark, to any of its locations."),
    ] = None,
    save_as: Annotated[
        str | None,
        typer.Option("--save-as", metavar="NAME", help="With --engine spark: save the rows as a table of Spark's."),
    ] = None,
    where: EngineOption = EngineWord.AUTO,
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
    conf: Conf = None,
) -> None:
    """List the data and delete files of tables.

    The files are those of the current snapshot of each Iceberg table, as its manifests describe them, with partition
    values. JSON and Parquet also have statistics of the columns. The command does not check whether the files exist;
    fsck --level data does. A table that cannot be read completely is a warning, and the exit code is 3.

    On a terminal, long locations are shortened; -o wide shows them in full.
    """
    session = Session(ctx)
    check_one(("--to", to), ("--save-as", save_as))
    if save_as is not None and where is not EngineWord.SPARK and master is None and remote is None:
        # a session that `auto` starts ends with this process, and takes its tables along
        raise InvalidOption("--save-as needs Spark", hint="add --engine spark, or use --to")
    for option, value in (("--to", to), ("--save-as", save_as)):
        if value is not None and not value.strip():
            # an unset variable in a script must not choose a place
            raise InvalidOption(f"{option} is empty", hint="give it a value")
    if to is not None:
        render.check_output(session, to)
    within = None if name is None else parse_object(session, name)
    request = Request("table" if schemas else "file", at, within, to, save_as)
    problems = Problems()
    with engine(session, where, master, remote, parallelism, conf) as work:
        if work.spark is None:
            _here(session, request, problems)
        else:
            _on_spark(session, work.spark, request, problems)
    problems.tell(session)


@dataclass(frozen=True, slots=True)
class Request:
    """The kind of rows (`file` or `table`), the tables, and the output if the rows are not printed."""

    kind: str
    at: str | None
    within: NamespaceName | TableName | None
    to: str | None
    save_as: str | None

    @property
    def files(self) -> bool:
        return self.kind == "file"

    @property
    def written_to(self) -> str | None:
        return self.to or self.save_as

    def statistics(self, session: Session) -> bool:
        """Return whether the output has more than the names of the files."""
        return self.written_to is not None or session.output is not Output.NAME


def _here(session: Session, request: Request, problems: Problems) -> None:
    from olympia_cli.iceberg import OF_FILES, OF_TABLES, TABLE, take_inventory

    if request.to is not None:
        # only this needs PyIceberg
        from olympia_cli.iceberg import check_folder

        check_folder(request.to)
    snapshot = session.snapshot(request.at)
    inventory_rows = take_inventory(
        session.store,
        _tables(snapshot, request.within),
        session.location.options,
        files=request.files,
        statistics=request.statistics(session),
    )
    rows = (row for row in inventory_rows if row["row"] in (request.kind, "problem"))
    if request.to is None:
        print_rows(session, snapshot.version, request.kind, rows, problems)
        return
    from olympia_cli.iceberg import write_folder

    with session.progress() as progress:
        progress.phase(f"writing {request.kind}s")
        columns = {**TABLE, **(OF_FILES if request.files else OF_TABLES)}
        count = write_folder(problems.apart(rows), columns, request.to)
    print_written(session, snapshot.version, request.kind, count, request.to, problems)


def _tables(snapshot: Snapshot, within: NamespaceName | TableName | None) -> Iterator[dict[str, Any]]:
    """Return the tables to read, with the paths of their definitions. Raise now if a named one is missing."""
    entries: Iterable[tuple[ObjectName, str]]
    if isinstance(within, TableName):
        entries = [(within, snapshot.table(within).path)]
    else:
        entries = snapshot.entries(Kind.TABLE, None if within is None else within.namespace)
    names = ((cast(TableName, name), path) for name, path in entries)
    return (
        {"namespace": name.namespace, "name": name.name, "definition": path, "version": snapshot.version}
        for name, path in names
    )


def _on_spark(session: Session, engine: SparkEngine, request: Request, problems: Problems) -> None:
    from olympia_cli.spark import data_files, save_table, spark_path, write_parquet

    planned = data_files(
        engine.spark,
        engine.catalog,
        "latest" if request.at is None else request.at,
        within=request.within,
        files=request.files,
        statistics=request.statistics(session),
        partitions=engine.partitions,
    )
    with ExitStack() as stack:
        with session.progress() as progress:
            progress.phase("reading tables")
            with engine.job("table files: reading tables"):
                kept_inventory = stack.enter_context(planned.kept())
            rows = kept_inventory.files if request.files else kept_inventory.tables
            if request.written_to is not None:
                progress.phase(f"writing {request.kind}s")
            if request.to is not None:
                write_parquet(rows, spark_path(request.to))
            elif request.save_as is not None:
                save_table(rows, request.save_as)
        if request.written_to is None:
            print_rows(session, kept_inventory.version, request.kind, kept_inventory.each(request.kind), problems)
            return
        problems.take(kept_inventory.problems.count(), kept_inventory.each("problem", most=MAX_PROBLEMS))
        count = rows.count()
    print_written(session, kept_inventory.version, request.kind, count, request.written_to, problems)
