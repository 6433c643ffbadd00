"""The choice of an engine for long work: this process, or Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol

import typer

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.config import CatalogLocation
from olympia_cli.cli.options import name_in
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption, OlympiaError, VersionNotFound, quoted
from olympia_cli.names import Latest, plural
from olympia_cli.ops import expire, fsck
from olympia_cli.spark import submitted

if TYPE_CHECKING:
    from olympia_cli.importers import Footers
    from olympia_cli.importers.deltacat import Rewriter
    from olympia_cli.ops.executor import Executor
    from olympia_cli.ops.expire import Surveyor
    from olympia_cli.ops.export import ExportEngine
    from olympia_cli.ops.fsck import Engine, FsckRequest, Report
    from olympia_cli.ops.walk import Files
    from olympia_cli.spark import SparkEngine
    from olympia_cli.storage.protocol import Store

AUTO_OBJECTS = 3_000_000
"""With `auto`, larger catalogs (estimated objects of the latest version) are processed on Spark."""

AUTO_FILES = 200_000
"""With `auto`, imports of more source files run on Spark."""

MAX_PARALLELISM = 100_000


class SourceFiles(NamedTuple):
    """The location of an import's source files, and their number."""

    place: CatalogLocation
    files: int


class EngineWord(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[
    EngineWord,
    typer.Option(
        "--engine",
        help=f"Engine: auto is local up to {AUTO_OBJECTS // 1_000_000} million objects, and Spark above.",
    ),
]
EngineForFiles = Annotated[
    EngineWord,
    typer.Option(
        "--engine", help=f"Engine that reads the files: auto is local up to {AUTO_FILES:,} files, and Spark above."
    ),
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master: local[*], spark://host:port, yarn or k8s://."),
]
Remote = Annotated[
    str | None, typer.Option("--remote", metavar="URL", help="Use a Spark Connect server: sc://host:port.")
]
Parallelism = Annotated[
    int | None,
    typer.Option("--parallelism", metavar="N", min=1, max=MAX_PARALLELISM, help="Number of partitions on Spark."),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; may be given several times."),
]


@contextmanager
def engine(
    session: Session,
    word: EngineWord,
    master: str | None,
    remote: str | None,
    parallelism: int | None,
    conf: list[str] | None,
    *,
    local_only: str | None = None,
    source: SourceFiles | None = None,
) -> Iterator[LongWork]:
    """Open the engine for long work on the catalog, or on the source of an import, until the end of the block.

    The arguments are the options above as a command got them. `local_only` names an option that was given and that only
    the local engine has.
    """
    settings = parse_settings(conf or ())
    about = {"--master": master, "--remote": remote, "--parallelism": parallelism, "--conf": conf}
    spark_options = [option for option, value in about.items() if value is not None]
    if not _wants_spark(session, word, spark_options, local_only, source):
        yield LocalWork()
        return
    from olympia_cli.spark import SparkRun, spark_engine

    if not session.verbose:
        _hush()
    run = SparkRun(say=session.say, note=session.note)
    session.metrics = run.metrics
    uri, options = (session.store.uri, session.location.options) if source is None else source.place
    with spark_engine(
        uri,
        options,
        master=master,
        remote=remote,
        partitions=parallelism,
        settings=settings,
        verbose=session.verbose,
        command=session.name,
        run=run,
    ) as spark:
        yield SparkWork(spark)


def parse_settings(conf: Sequence[str]) -> dict[str, str]:
    """Parse settings of Spark. A value may be a secret, so it is in no message."""
    settings = {}
    for text in conf:
        name, separator, value = text.partition("=")
        if not (separator and name.startswith("spark.") and name.isascii() and not name.endswith(".")):
            name = quoted(name if separator else name_in(name))
            raise InvalidOption(f"--conf {name} is not a setting", hint="write, for example, spark.executor.memory=4g")
        if name == "spark.master":
            raise InvalidOption("--conf cannot set spark.master", hint="use --master")
        settings[name] = value
    return settings


def _hush() -> None:
    """Discard the log records and warnings of libraries if no log is configured.

    Otherwise an interrupted job prints a traceback, and PySpark warns of things that a user cannot change.
    """
    import warnings

    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    warnings.filterwarnings("ignore", module=r"pyspark\.")


def _wants_spark(
    session: Session, word: EngineWord, about: Sequence[str], local_only: str | None, source: SourceFiles | None
) -> bool:
    """Decide for Spark or this process, and note the reason. `about` are the given options that only Spark has."""
    where = next((option for option in about if option in ("--master", "--remote")), None)
    if "--master" in about and "--remote" in about:
        raise InvalidOption("--master and --remote do not go together", hint="choose one of them")
    if word is EngineWord.LOCAL:
        if about:
            raise InvalidOption(f"{about[0]} needs Spark", hint="leave it out, or use --engine spark")
        return _note_choice(session, False, "requested by an option")
    if word is EngineWord.SPARK or where is not None or (submitted() and local_only is None):
        if local_only is not None:
            without = f"leave out {where}" if where is not None else "use --engine local"
            raise InvalidOption(f"{local_only} is not available on Spark", hint=without)
        return _note_choice(session, True, "spark-submit runs this" if submitted() else "requested by an option")
    if local_only is not None:
        return _note_choice(session, False, f"{local_only} is not available on Spark")
    if source is not None:
        return _auto(session, source.files, AUTO_FILES, "file")
    try:
        objects = _objects(session)
    except OlympiaError:
        # the command itself reports this error better
        return _note_choice(session, False, "the size of the catalog is unknown")
    return _auto(session, objects, AUTO_OBJECTS, "object")


def _auto(session: Session, number: int, most: int, noun: str) -> bool:
    """Choose Spark if there is much work and Spark is installed."""
    if number <= most:
        return _note_choice(session, False, f"about {plural(number, noun)}, and Spark is for more than {most:,}")
    about = f"about {plural(number, noun)}, more than {most:,}"
    try:
        # imported here, because the import fails without PySpark
        from olympia_cli.spark import need_spark

        need_spark()
    except OlympiaError as error:
        return _note_choice(session, False, f"{about}, but {error.message}")
    session.say(f"this runs on Spark: {about}; --engine local keeps it in this process")
    return True


def _note_choice(session: Session, spark: bool, why: str) -> bool:
    session.note(f"engine: {'spark' if spark else 'local'}: {why}")
    return spark


def _objects(session: Session) -> int:
    """Estimate the objects of the version that `vn/latest` names. The hint may lag, which matters little here."""
    from olympia_cli.catalog.references import open_snapshot
    from olympia_cli.catalog.snapshot import Snapshot
    from olympia_cli.catalog.versions import read_hints, read_root
    from olympia_cli.ops.walk import estimated_objects

    store = session.store
    if (hint := read_hints(store).latest) is not None:
        with suppress(VersionNotFound):
            return estimated_objects(Snapshot(store, read_root(store, hint)))
    return estimated_objects(open_snapshot(store, Latest(), SystemClock().now_millis()))


# Long work of commands, in this process or on Spark, with the same results.


class LongWork(Protocol):
    @property
    def executor(self) -> Executor:
        """The executor that maps functions over the partitions of long work."""
        ...

    @property
    def spark(self) -> SparkEngine | None:
        """The Spark engine, for output that only Spark can write; None in this process."""
        ...

    def fsck(self, store: Store, request: FsckRequest) -> Report:
        """Run fsck; see ops/fsck."""
        ...

    def export_engine(self, dest: Store, options: Mapping[str, object]) -> AbstractContextManager[ExportEngine]:
        """Open the engine that reads and copies the files of an export, until the end of a block."""
        ...

    def surveyor(self) -> AbstractContextManager[Surveyor]:
        """Open the surveyor that reads, lists and deletes the files of an expire, until the end of a block."""
        ...

    def footers(self, base: str, properties: Mapping[str, str]) -> Footers:
        """Return the reader of footers of Parquet files below a base. `properties` are PyIceberg's for these files."""
        ...

    def rewriter(self, base: str, source: Mapping[str, str], dest: Mapping[str, str]) -> Rewriter | None:
        """Return the rewriter of DeltaCAT's rows, which exists on Spark only.

        `source` and `dest` are PyIceberg's properties for the files below the base, and for the files of new tables.
        """
        ...


class LocalWork:
    spark = None

    @property
    def executor(self) -> Executor:
        from olympia_cli.ops.executor import LOCAL

        return LOCAL

    def fsck(self, store: Store, request: FsckRequest) -> Report:
        return fsck.fsck(store, request)

    @contextmanager
    def export_engine(self, dest: Store, options: Mapping[str, object]) -> Iterator[ExportEngine]:
        from olympia_cli.ops.export import local_engine

        yield local_engine

    @contextmanager
    def surveyor(self) -> Iterator[Surveyor]:
        yield expire.LOCAL

    def footers(self, base: str, properties: Mapping[str, str]) -> Footers:
        from olympia_cli.importers import LocalFooters, open_io

        return LocalFooters(base, open_io(base, properties))

    def rewriter(self, base: str, source: Mapping[str, str], dest: Mapping[str, str]) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SparkWork:
    spark: SparkEngine

    @property
    def executor(self) -> Executor:
        return self.spark

    def fsck(self, store: Store, request: FsckRequest) -> Report:
        from olympia_cli.spark import spark_fsck

        return spark_fsck(self.spark, request)

    @contextmanager
    def export_engine(self, dest: Store, options: Mapping[str, object]) -> Iterator[ExportEngine]:
        from olympia_cli.spark import SparkExport, place_for

        engine, place = self.spark, place_for(dest.uri, options)
        with ExitStack() as stack:

            def begun(files: Files) -> Engine:
                # only now, so that a refused export writes nothing
                return SparkExport(engine, stack.enter_context(place.proven(engine.run.note)))(files)

            yield begun

    @contextmanager
    def surveyor(self) -> Iterator[Surveyor]:
        from olympia_cli.spark import spark_surveyor

        with spark_surveyor(self.spark) as surveyor:
            yield surveyor

    def footers(self, base: str, properties: Mapping[str, str]) -> Footers:
        from olympia_cli.spark import SparkFooters

        return SparkFooters(self.spark, base, properties)

    def rewriter(self, base: str, source: Mapping[str, str], dest: Mapping[str, str]) -> Rewriter:
        from olympia_cli.spark import SparkRewriter

        return SparkRewriter(self.spark, base, source, dest)
