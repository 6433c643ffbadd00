"""What imports are tried with: files that are counted, that die, and that only one process sees."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

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


class OneProcessIO(PyArrowFileIO):
    """Of a folder that is mounted on one machine alone: only the process of the property `pid` finds anything."""

    def new_input(self, location: str) -> InputFile:
        if self.properties["pid"] != str(os.getpid()):
            location += ".not-here"
        return super().new_input(location)
