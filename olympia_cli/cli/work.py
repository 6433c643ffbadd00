"""Long work of commands, in this process or on Spark, with the same results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from olympia_cli.importers.deltacat.rewriting import Rewriter
    from olympia_cli.importers.parquet_footers import Footers
    from olympia_cli.ops.expire.survey import Surveyor
    from olympia_cli.ops.export.verify import ExportEngine
    from olympia_cli.ops.fsck.examined import Engine
    from olympia_cli.ops.fsck.fsck import FsckRequest, Report
    from olympia_cli.ops.walk.files import Files
    from olympia_cli.spark.engine import SparkEngine
    from olympia_cli.storage.protocol import Store


class LongWork(Protocol):
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

    def fsck(self, store: Store, request: FsckRequest) -> Report:
        from olympia_cli.ops.fsck.fsck import fsck

        return fsck(store, request)

    @contextmanager
    def export_engine(self, dest: Store, options: Mapping[str, object]) -> Iterator[ExportEngine]:
        from olympia_cli.ops.export.verify import local_engine

        yield local_engine

    @contextmanager
    def surveyor(self) -> Iterator[Surveyor]:
        from olympia_cli.ops.expire.survey import LOCAL

        yield LOCAL

    def footers(self, base: str, properties: Mapping[str, str]) -> Footers:
        from olympia_cli.importers.parquet_footers import LocalFooters, open_io

        return LocalFooters(base, open_io(base, properties))

    def rewriter(self, base: str, source: Mapping[str, str], dest: Mapping[str, str]) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SparkWork:
    spark: SparkEngine

    def fsck(self, store: Store, request: FsckRequest) -> Report:
        from olympia_cli.spark.pipelines.fsck import spark_fsck

        return spark_fsck(self.spark, request)

    @contextmanager
    def export_engine(self, dest: Store, options: Mapping[str, object]) -> Iterator[ExportEngine]:
        from olympia_cli.spark.engine import place_for
        from olympia_cli.spark.pipelines.export import SparkExport

        engine, place = self.spark, place_for(dest.uri, options)
        with ExitStack() as stack:

            def begun(files: Files) -> Engine:
                # only now, so that a refused export writes nothing
                return SparkExport(engine, stack.enter_context(place.proven(engine.run.note)))(files)

            yield begun

    @contextmanager
    def surveyor(self) -> Iterator[Surveyor]:
        from olympia_cli.spark.pipelines.expire import spark_surveyor

        with spark_surveyor(self.spark) as surveyor:
            yield surveyor

    def footers(self, base: str, properties: Mapping[str, str]) -> Footers:
        from olympia_cli.spark.pipelines.footers import SparkFooters

        return SparkFooters(self.spark, base, properties)

    def rewriter(self, base: str, source: Mapping[str, str], dest: Mapping[str, str]) -> Rewriter:
        from olympia_cli.spark.pipelines.rewrite import SparkRewriter

        return SparkRewriter(self.spark, base, source, dest)
