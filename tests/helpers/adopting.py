"""Helpers for tests of imports: file access that counts, dies, or works in one process only."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from olympia_cli.importers.deltacat.metadata import TableVersion
from olympia_cli.importers.deltacat.rewrite import Metadata, Outcome, Piece, Rewriting, Unseen
from tests.helpers.stores import PowerCut


def write_parquet(file: Path, **columns: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)
    return file


class CountingIO(PyArrowFileIO):
    """Counts how often each location is opened, in this process."""

    opened: ClassVar[Counter[str]] = Counter()

    def new_input(self, location: str) -> InputFile:
        self.opened[location] += 1
        return super().new_input(location)


class CuttingIO(PyArrowFileIO):
    """Dies before output number `cut_at`, and is dead from then on."""

    outputs = 0
    cut_at: int | None = None

    def new_output(self, location: str) -> OutputFile:
        if self.cut_at is not None and CuttingIO.outputs >= self.cut_at:
            raise PowerCut
        CuttingIO.outputs += 1
        return super().new_output(location)


@dataclass
class RewritesHere:
    """Rewrites rows of DeltaCAT in this process; `written` counts the partitions."""

    base: str
    source: dict[str, str]
    dest: dict[str, str]
    written: int = 0

    def write(self, metadata: Metadata, version: TableVersion, pieces: Sequence[Piece]) -> list[Outcome | Unseen]:
        work = Rewriting.of(self.base, self.source, self.dest, metadata, version, pieces)
        self.written += len(pieces)
        return [work.write(piece) for piece in work.pieces]


class OneProcessIO(PyArrowFileIO):
    """File access to a folder that is mounted on one machine only: other processes than `pid` find no files."""

    def new_input(self, location: str) -> InputFile:
        if self.properties["pid"] != str(os.getpid()):
            location += ".not-here"
        return super().new_input(location)
