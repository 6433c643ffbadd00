"""Long work as commands ask for it: in this process, or on Spark. What comes of it is the same."""

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
        """Spark, for what only Spark can write to."""
        ...

    def fsck(self, store: Store, request: FsckRequest) -> Report:
        """See ops/fsck."""
        ...

    def export_engine(self, dest: Store, options: Mapping[str, object]) -> AbstractContextManager[ExportEngine]:
        """Who reads and copies the files of an export to a destination, to the end of a block."""
        ...

    def surveyor(self) -> AbstractContextManager[Surveyor]:
        """Who goes through the files of an expire, to the end of a block."""
        ...

    def footers(self, base: str, properties: Mapping[str, str]) -> Footers:
        """Who reads the footers of the Parquet files below a base; `properties` are PyIceberg's for them."""
        ...

    def rewriter(self, base: str, source: Mapping[str, str], dest: Mapping[str, str]) -> Rewriter | None:
        """Who writes rows of DeltaCAT anew, which only Spark does; the properties are PyIceberg's for the files below a
        base, and for those of tables."""
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
                # not before: an export that is refused writes nothing
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
