"""The log as a stream: `spark.readStream.format("olympia")…load("actions")`, or "versions".

An offset is the last version that was read, and a batch has the versions after one offset up to another. Versions never
change, so a batch that is repeated after a crash is identical.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from olympia_cli.catalog.references import oldest_version, open_snapshot
from olympia_cli.catalog.versions import read_latest
from olympia_cli.errors import InvalidOption, VersionNotFound
from olympia_cli.names import AtVersion, Latest
from olympia_cli.spark import tables
from olympia_cli.spark.batches import batches
from olympia_cli.spark.failures import failures, told
from olympia_cli.spark.options import ReadOptions
from olympia_cli.spark.pins import pin, store_of
from olympia_cli.spark.versions import plan_versions

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        # Spark before 4.2 reads all available versions in one batch

        class SupportsTriggerAvailableNow: ...


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log from `startingVersion` on; the default is the oldest version."""

    def __init__(self, options: ReadOptions, columns: Mapping[str, str]) -> None:
        if options.what not in ("actions", "versions"):
            raise InvalidOption("only actions and versions can be read as a stream")
        for is_set, name in ((options.dated, "version"), (options.since is not None, "since")):
            if is_set:
                raise InvalidOption(f"a stream has no {name}", hint="use startingVersion to say where it starts")
        self.options = options
        self.columns = columns
        self.last: int | None = None
        """Last version of a stream that stops after the versions that exist at its start."""

    @failures()
    def initialOffset(self) -> dict[str, int]:
        store = store_of(self.options)
        latest = pin(store, Latest())
        start = self.options.starting
        if start is None:
            return _offset(latest.oldest - 1)
        if isinstance(start, AtVersion) and start.version < latest.oldest:
            raise _expired(start.version, latest.oldest)
        if isinstance(start, AtVersion) and start.version == latest.version + 1:
            # the next version, which is not committed yet
            return _offset(latest.version)
        return _offset(pin(store, start).version - 1)

    def latestOffset(self, start: dict[str, int] | None = None, limit: ReadLimit | None = None) -> dict[str, int]:
        # Spark before 4.2 gives neither a start nor a limit
        latest = self.last if self.last is not None else read_latest(store_of(self.options)).version
        if start is None:
            return _offset(latest)
        most = getattr(limit, "max_files", None)
        end = latest if most is None else min(latest, start["version"] + most)
        # a stale hint may lead to an older version than the stream has read
        return _offset(max(end, start["version"]))

    def getDefaultReadLimit(self) -> ReadLimit:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

        # a version is one file
        return ReadAllAvailable() if self.options.max_versions is None else ReadMaxFiles(self.options.max_versions)

    def prepareForTriggerAvailableNow(self) -> None:
        self.last = read_latest(store_of(self.options)).version

    @failures()
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        first, last = start["version"] + 1, end["version"]
        if first > last:
            return []
        store = store_of(self.options)
        latest = open_snapshot(store, Latest(), 0)
        if last > latest.version:
            raise VersionNotFound(
                f"the stream has read version {last}, and the latest is {latest.version}",
                hint="this is not the catalog that the stream began with: start a new stream with another checkpoint",
            )
        if first < (oldest := oldest_version(latest)):
            raise _expired(first, oldest)
        parts = plan_versions(first, last, latest.file.width, self.options.partitions)
        return [InputPartition(part) for part in parts]

    @told
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        rows = tables.read(store_of(self.options), self.options, partition.value, self.columns)
        yield from batches(rows, self.columns)


def _offset(version: int) -> dict[str, int]:
    return {"version": version}


def _expired(version: int, oldest: int) -> VersionNotFound:
    return VersionNotFound(
        f"the stream continues at version {version}, which does not exist any more: the oldest is {oldest}",
        hint=f"the versions between are lost: start a new stream at {oldest} with another checkpoint",
    )
