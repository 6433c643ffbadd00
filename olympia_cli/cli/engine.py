"""Where long work runs: in this process, or on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from olympia_cli.cli.context import Session
from olympia_cli.cli.params import name_in
from olympia_cli.cli.profiles import Location
from olympia_cli.cli.work import LocalWork, LongWork, SparkWork
from olympia_cli.errors import InvalidOption, OlympiaError, quoted
from olympia_cli.names import plural

AUTO_OBJECTS = 3_000_000
"""Up to so many objects in the latest version, about, the work stays in this process unless Spark is asked for."""

AUTO_FILES = 200_000
"""The same for files of others that are opened one by one."""

MAX_PARALLELISM = 100_000


class Source(NamedTuple):
    """Files of others that are to be read, and how many there are."""

    place: Location
    files: int


class EngineWord(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


Engine = Annotated[
    EngineWord,
    typer.Option(
        "--engine",
        help=f"Where the work runs: auto is local up to {AUTO_OBJECTS // 1_000_000} million objects, and Spark above.",
    ),
]
EngineForFiles = Annotated[
    EngineWord,
    typer.Option(
        "--engine", help=f"Where files are read: auto is local up to {AUTO_FILES:,} of them, and Spark above."
    ),
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master: local[*], spark://host:port, yarn or k8s://."),
]
Remote = Annotated[
    str | None, typer.Option("--remote", metavar="URL", help="A Spark Connect server instead: sc://host:port.")
]
Parallelism = Annotated[
    int | None,
    typer.Option(
        "--parallelism", metavar="N", min=1, max=MAX_PARALLELISM, help="Into how many parts Spark divides the work."
    ),
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
    source: Source | None = None,
) -> Iterator[LongWork]:
    """Where the long work on the catalog of this run is done, to the end of the block, or that on a source.

    `local_only` names an option that was given and that only the local engine has. A run() has an argument of each of
    the types above, and passes them on.
    """
    settings = parse_settings(conf or ())
    about = {"--master": master, "--remote": remote, "--parallelism": parallelism, "--conf": conf}
    spark_options = [option for option, value in about.items() if value is not None]
    if not _wants_spark(session, word, spark_options, local_only, source):
        yield LocalWork()
        return
    from olympia_cli.spark.engine import spark_engine
    from olympia_cli.spark.run import Run

    if not session.verbose:
        _hush()
    run = Run(say=session.say, note=session.note)
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
    """Settings of Spark's as they are given. A value may be a secret, and is in no message."""
    settings = {}
    for text in conf:
        name, separator, value = text.partition("=")
        if not (separator and name.startswith("spark.") and name.isascii() and not name.endswith(".")):
            shown = quoted(name if separator else name_in(name))
            raise InvalidOption(f"--conf {shown} is not a setting", hint="write spark.executor.memory=4g, say")
        if name == "spark.master":
            raise InvalidOption("--conf spark.master is an option of its own", hint="use --master")
        settings[name] = value
    return settings


def _hush() -> None:
    """What libraries tell a log that nobody keeps goes nowhere. Without this an interrupted job is a traceback of the
    library that waits for it, and PySpark warns of what nobody here can change."""
    import logging
    import warnings

    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    warnings.filterwarnings("ignore", module=r"pyspark\.")


def _wants_spark(
    session: Session, word: EngineWord, about: Sequence[str], local_only: str | None, source: Source | None
) -> bool:
    """`about` are the options given that only Spark has; the first of them say where it is."""
    where = next((option for option in about if option in ("--master", "--remote")), None)
    if "--master" in about and "--remote" in about:
        raise InvalidOption("--master and --remote do not go together", hint="choose one of them")
    if word is EngineWord.LOCAL:
        if about:
            raise InvalidOption(f"{about[0]} needs Spark", hint="leave it out, or use --engine spark")
        return _told(session, False, "it was asked for")
    from olympia_cli.spark.launch import submitted

    if word is EngineWord.SPARK or where is not None or (submitted() and local_only is None):
        if local_only is not None:
            without = f"leave out {where}" if where is not None else "use --engine local"
            raise InvalidOption(f"{local_only} is not for Spark", hint=without)
        return _told(session, True, "spark-submit runs this" if submitted() else "it was asked for")
    if local_only is not None:
        return _told(session, False, f"{local_only} is not for Spark")
    if source is not None:
        return _auto(session, source.files, AUTO_FILES, "file")
    try:
        objects = _objects(session)
    except OlympiaError:
        # what is wrong with it, the command itself says better
        return _told(session, False, "the size of the catalog cannot be learnt")
    return _auto(session, objects, AUTO_OBJECTS, "object")


def _auto(session: Session, number: int, most: int, what: str) -> bool:
    """Spark when there is much to do and Spark is there."""
    if number <= most:
        return _told(session, False, f"about {plural(number, what)}, and Spark is for more than {most:,}")
    from olympia_cli.spark.session import need_spark

    about = f"about {plural(number, what)}, more than {most:,}"
    try:
        need_spark()
    except OlympiaError as error:
        return _told(session, False, f"{about}, but {error.message}")
    session.say(f"this runs on Spark: {about}; --engine local keeps it in this process")
    return True


def _told(session: Session, spark: bool, why: str) -> bool:
    session.note(f"engine: {'spark' if spark else 'local'}: {why}")
    return spark


def _objects(session: Session) -> int:
    from olympia_cli.catalog.clock import SystemClock
    from olympia_cli.catalog.references import open_snapshot
    from olympia_cli.names import Latest
    from olympia_cli.ops.walk.size import estimated_objects

    return estimated_objects(open_snapshot(session.store, Latest(), SystemClock().now_millis()))
