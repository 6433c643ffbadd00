"""Write rows as a folder of Parquet files, as Spark does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow.parquet as pq

from olympia_cli.errors import InvalidLocation, PathTaken, StorageDenied, StorageFailed, StorageFull
from olympia_cli.iceberg.inventory_rows import arrow_schema, batches

PART = "part-00000.parquet"


def check_folder(folder: str) -> None:
    """Raise an error unless the folder is local, and missing or empty."""
    if "://" in folder and not folder.startswith("file:///"):
        raise InvalidLocation(
            f"{folder[:60]!a} is not a folder of this machine", hint="write there with --engine spark"
        )
    path = _path(folder)
    try:
        taken = os.path.lexists(path) and (not os.path.isdir(path) or bool(os.listdir(path)))
    except (OSError, ValueError):
        raise InvalidLocation(f"{folder[:60]!a} cannot be read", hint="choose another folder") from None
    if taken:
        raise PathTaken(f"{folder} already exists and is not an empty folder", hint="choose another folder")


def write_folder(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], folder: str) -> int:
    """Write the rows and return their number. The file gets its final name once it is complete."""
    check_folder(folder)
    path = _path(folder)
    unfinished = os.path.join(path, f".{PART}.unfinished")
    count = 0
    try:
        os.makedirs(path, exist_ok=True)
        with (
            open(unfinished, "wb") as file,
            pq.ParquetWriter(file, arrow_schema(columns), compression="snappy") as writer,
        ):
            for batch in batches(rows, columns):
                writer.write_batch(batch)
                count += batch.num_rows
        os.rename(unfinished, os.path.join(path, PART))
    except OSError as error:
        raise _explained(error, folder) from None
    finally:
        with suppress(OSError):
            os.unlink(unfinished)
    return count


def _path(folder: str) -> str:
    return os.path.abspath(os.path.expanduser(folder.removeprefix("file://")))


def _explained(error: OSError, folder: str) -> StorageFailed | StorageDenied:
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"{folder}: no space left")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageDenied(f"{folder} may not be written")
    return StorageFailed(f"{folder} cannot be written: {error.strerror or error}")
