"""The log as a stream: every action once, whatever is stopped, broken off or expired on the way."""

from __future__ import annotations

import threading

import pytest
from pyspark.errors import StreamingQueryException

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import InvalidOption, VersionNotFound
from olympia_cli.names import NamespaceName
from olympia_cli.ops.inspect import log
from olympia_cli.spark.failures import explain
from olympia_cli.spark.options import parse_options
from olympia_cli.spark.source import COLUMNS, LogStream
from olympia_cli.storage.local import LocalStore
from tests.helpers.expire import mark


@pytest.fixture
def catalog(tmp_path) -> Catalog:
    made = Catalog.create(LocalStore(str(tmp_path / "catalog")))
    commit(made, 6)
    return made


def commit(catalog: Catalog, number: int) -> None:
    for _ in range(number):
        with catalog.transaction() as transaction:
            transaction.create_namespace(NamespaceName(f"n{transaction.base.version + 1:04}"))


def expected(catalog: Catalog, first: int = 0) -> list[tuple[int, str]]:
    entries = list(log(catalog.snapshot(), first))[::-1]
    return [(entry.version, action.type_name) for entry in entries for action in entry.changes]


class Stream:
    """A query over the action log whose sink keeps a batch by its number, as an idempotent sink does."""

    def __init__(self, spark, catalog: Catalog, checkpoint, **options: str) -> None:
        self.spark, self.catalog, self.checkpoint, self.options = spark, catalog, checkpoint, options
        self.batches: dict[int, list[tuple[int, str]]] = {}
        self.again: list[int] = []
        self.fail_at: int | None = None

    def start(self, **trigger):
        reader = self.spark.readStream.format("olympia").option("catalog", self.catalog.store.uri)
        for name, value in self.options.items():
            reader = reader.option(name, value)
        writer = reader.load("actions").writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

    def finish(self) -> None:
        query = self.start(availableNow=True)
        assert query.awaitTermination(300)

    def _take(self, frame, number: int) -> None:
        rows = sorted((row.version, row.type) for row in frame.collect())
        if number in self.batches:
            assert self.batches[number] == rows, "a batch that is done again is the same"
            self.again.append(number)
        self.batches[number] = rows
        if number == self.fail_at:
            raise RuntimeError("the power went")

    @property
    def rows(self) -> list[tuple[int, str]]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]


def test_exactly_once_over_a_restart_while_commits_go_on(spark, catalog, tmp_path):
    stream = Stream(spark, catalog, tmp_path / "checkpoint", maxVersionsPerTrigger="2")
    stream.fail_at = 1
    writer = threading.Thread(target=commit, args=(catalog, 6))
    query = stream.start(processingTime="0 seconds")
    writer.start()
    with pytest.raises(StreamingQueryException, match="the power went"):
        query.awaitTermination(300)
    writer.join()
    assert stream.batches[0] == expected(catalog)[:2]
    stream.fail_at = None
    stream.finish()
    assert stream.again == [1]
    assert stream.rows == expected(catalog)
    # each batch has a limited number of versions
    assert all(len({version for version, _ in rows}) <= 2 for rows in stream.batches.values())
    commit(catalog, 1)
    stream.finish()
    assert stream.rows == expected(catalog)


def test_a_stream_survives_expire_unless_it_fell_behind(spark, catalog, tmp_path):
    ahead = Stream(spark, catalog, tmp_path / "ahead", startingVersion="4")
    ahead.finish()
    assert ahead.rows == expected(catalog, 4)
    mark(catalog, 6)
    ahead.finish()
    assert ahead.rows == [row for row in expected(catalog, 4) if row[0] >= 4]
    commit(catalog, 2)
    mark(catalog, 9)
    query = ahead.start(availableNow=True)
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(300)
    found = explain(raised.value)
    assert type(found) is VersionNotFound
    assert "continues at version 8, which does not exist any more: the oldest is 9" in str(found)


class TestOffsets:
    """Without Spark."""

    def stream(self, catalog: Catalog, what: str = "actions", **options: str) -> LogStream:
        return LogStream(parse_options({"catalog": catalog.store.uri, "path": what, **options}), COLUMNS[what])

    @pytest.mark.parametrize(("start", "offset"), [(None, -1), ("0", -1), ("3", 2), ("latest", 5), ("7", 6)])
    def test_the_first_offset_is_before_the_first_version(self, catalog, start, offset):
        options = {} if start is None else {"startingVersion": start}
        assert self.stream(catalog, **options).initialOffset() == {"version": offset}

    @pytest.mark.parametrize(("start", "said"), [("2", "the oldest is 4"), ("100", "the latest is 7")])
    def test_a_stream_from_an_expired_or_future_version_fails(self, catalog, start, said):
        mark(catalog, 4)
        with pytest.raises(VersionNotFound, match=said):
            self.stream(catalog, startingVersion=start).initialOffset()
        assert self.stream(catalog).initialOffset() == {"version": 3}

    def test_a_limit_is_kept_and_nothing_new_is_where_it_was(self, catalog):
        stream = self.stream(catalog, maxVersionsPerTrigger="4")
        limit = stream.getDefaultReadLimit()
        assert stream.latestOffset({"version": -1}, limit) == {"version": 3}
        assert stream.latestOffset({"version": 6}, limit) == {"version": 6}
        # as Spark before 4.2 asks
        assert stream.latestOffset() == {"version": 6}

    def test_parts_of_a_batch_are_its_versions(self, catalog):
        stream = self.stream(catalog, partitions="2")
        parts = stream.partitions({"version": 1}, {"version": 5})
        assert [list(part.value.versions) for part in parts] == [[2, 3], [4, 5]]
        assert stream.partitions({"version": 5}, {"version": 5}) == []

    def test_another_catalog_under_the_same_name(self, catalog):
        with pytest.raises(VersionNotFound, match="start a new stream"):
            self.stream(catalog).partitions({"version": 1}, {"version": 50})

    @pytest.mark.parametrize(
        ("what", "options"), [("objects", {}), ("actions", {"version": "3"}), ("actions", {"since": "3"})]
    )
    def test_objects_and_fixed_versions_cannot_be_streamed(self, catalog, what, options):
        with pytest.raises(InvalidOption):
            self.stream(catalog, what, **options)
