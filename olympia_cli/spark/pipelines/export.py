"""Exports on Spark: tasks read the files of an export, or copy them from store to store, read them back, and compare.

`ops/export`, which uses this engine, defines the steps of an export, what is refused, and what is sound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from olympia_cli.ops.export import CopyFiles, ExportFiles, Scope
from olympia_cli.ops.fsck import Engine
from olympia_cli.ops.walk import Files
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.fsck import SparkFsck
from olympia_cli.spark.pipelines.place import CatalogPlace


@dataclass(frozen=True, slots=True)
class ExportPlace:
    """Open the files of an export in a task: the scope of the copy, its source, and its destination."""

    scope: Scope
    source: CatalogPlace
    dest: CatalogPlace
    copying: bool = False
    fresh: bool = False
    replaced: str | None = None

    def __call__(self) -> Files:
        if self.copying:
            return CopyFiles(self.scope, self.source.store, self.dest.store, fresh=self.fresh, replaced=self.replaced)
        return ExportFiles(self.scope, self.dest.store, self.source.store if self.scope.shares else None)


@dataclass(frozen=True, slots=True)
class SparkExport:
    """Create the engine for the files of an export. `dest` is the destination as tasks reach it."""

    engine: SparkEngine
    dest: CatalogPlace

    def __call__(self, files: Files) -> Engine:
        assert isinstance(files, CopyFiles | ExportFiles)
        place = ExportPlace(files.scope, self.engine.catalog, self.dest)
        if isinstance(files, CopyFiles):
            place = replace(place, copying=True, fresh=files.fresh, replaced=files.replaced)
        # if a machine is lost, its files are copied again, and the copies are the same
        return SparkFsck(self.engine, place, "export" if place.copying else "export verify")
