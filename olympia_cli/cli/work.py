"""Long work as commands ask for it: in this process, or on Spark. What comes of it is the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from olympia_cli.ops.expire.survey import Surveyor
    from olympia_cli.ops.export.verify import ExportEngine
    from olympia_cli.ops.fsck.fsck import FsckRequest, Report
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

    def export_engine(self, dest: Store, options: Mapping[str, object]) -> ExportEngine:
        """Who reads and copies the files of an export to a destination."""
        ...

    def surveyor(self) -> AbstractContextManager[Surveyor]:
        """Who goes through the files of an expire, to the end of a block."""
        ...


class LocalWork:
    spark = None

    def fsck(self, store: Store, request: FsckRequest) -> Report:
        from olympia_cli.ops.fsck.fsck import check

        return check(store, request)

    def export_engine(self, dest: Store, options: Mapping[str, object]) -> ExportEngine:
        from olympia_cli.ops.export.verify import local_engine

        return local_engine

    @contextmanager
    def surveyor(self) -> Iterator[Surveyor]:
        from olympia_cli.ops.expire.survey import LOCAL

        yield LOCAL


@dataclass(frozen=True, slots=True)
class SparkWork:
    spark: SparkEngine

    def fsck(self, store: Store, request: FsckRequest) -> Report:
        from olympia_cli.spark.pipelines.fsck import spark_fsck

        return spark_fsck(self.spark, request)

    def export_engine(self, dest: Store, options: Mapping[str, object]) -> ExportEngine:
        from olympia_cli.spark.engine import place_for
        from olympia_cli.spark.pipelines.export import SparkExport

        return SparkExport(self.spark, place_for(dest.uri, options))

    @contextmanager
    def surveyor(self) -> Iterator[Surveyor]:
        from olympia_cli.spark.pipelines.expire import spark_surveyor

        with spark_surveyor(self.spark) as surveyor:
            yield surveyor
