"""Read the footers of Parquet files, by threads of this process or by another implementation.

A footer is read in one request, unless it is unusually long. The length that a file states is checked against the
length in the listing before it is used.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

from olympia_cli.iceberg.locations import parse_location
from olympia_cli.iceberg.settings import same_sdk
from olympia_cli.importers.footer_check import check_footer
from olympia_cli.importers.parquet import Footer, ParquetFile

AT_ONCE = 1024
MOST_BYTES = 64 * 1024 * 1024
"""Highest number of bytes of a footer: it takes several times as much when decoded."""
_GUESS = 64 * 1024
_END = 8
_MAGIC = b"PAR1"
_WORKERS = 16


class Footers(Protocol):
    """A reader of footers. `at_once` is the number of files that it gets together."""

    @property
    def at_once(self) -> int: ...

    def read(self, files: Sequence[ParquetFile]) -> Iterator[Footer | str]:
        """Yield the footer of each file in order, or the reason why it is unreadable."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFooters:
    base: str
    io: FileIO
    at_once: int = AT_ONCE

    def read(self, files: Sequence[ParquetFile]) -> Iterator[Footer | str]:
        with ThreadPoolExecutor(_WORKERS) as pool:
            yield from pool.map(lambda file: read_footer(self.io, self.base, file), files)


def read_footer(files: FileIO, base: str, file: ParquetFile) -> Footer | str:
    """Return the footer of a file, or the reason why it is unreadable: a broken file does not stop the others."""
    try:
        with files.new_input(parse_location(f"{base}/{file.path}").plain_text()).open() as stream:
            end = _read_end(stream, file.size)
        if isinstance(end, str):
            return end
        check_footer(memoryview(end)[-_length(end) : -_END])
        metadata = pq.read_metadata(io.BytesIO(end))
        schema = metadata.schema.to_arrow_schema()
        _pyarrow_to_schema_without_ids(schema)
        return Footer(file, metadata, schema)
    except Exception as error:
        return "it cannot be read: " + (" ".join(str(error).split()) or type(error).__name__)[:200]


def _read_end(stream: Any, size: int) -> bytes | str:
    """Return the footer with the bytes around it, or what is wrong with the file."""
    found = stream.seek(0, io.SEEK_END)
    if found != size:
        return f"it has {found} bytes, and was listed with {size}: it is being written, or is another file here"
    end = _tail(stream, size, _GUESS)
    if len(end) < _END + len(_MAGIC) or not end.endswith(_MAGIC):
        return "it is no Parquet file, or was not written to its end"
    wanted = _length(end)
    if wanted > size - len(_MAGIC):
        return "it is no Parquet file, or was not written to its end"
    if wanted > MOST_BYTES:
        return f"its footer has {wanted:,} bytes, and no more than {MOST_BYTES:,} are read"
    # the file must have bytes before its footer
    return end if wanted + len(_MAGIC) <= len(end) else _tail(stream, size, wanted + len(_MAGIC))


def _length(end: bytes) -> int:
    """Return the length that a file states for its footer, with the bytes after it."""
    return int.from_bytes(end[-_END : -len(_MAGIC)], "little") + _END


def _tail(stream: Any, size: int, length: int) -> bytes:
    stream.seek(max(size - length, 0))
    return bytes(stream.read(min(size, length)))


def open_io(location: str, properties: Mapping[str, str]) -> FileIO:
    """Return PyIceberg's access to the files, with the SDK that lists them."""
    return load_file_io({**same_sdk(location), **properties}, location)
