"""Spark's stack traces become one line."""

from __future__ import annotations

import pytest

from olympia_cli.errors import (
    Damaged,
    ExecutorUnprepared,
    SparkFailed,
    SparkUnreachable,
    StorageDenied,
    VersionNotFound,
)
from olympia_cli.spark.failures import explain, explained

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 4207, in invoke_udf
    func, profiler, deserializer, serializer = read_udfs(
                                               ^^^^^^^^^^
  File "/x/pyspark/cloudpickle/cloudpickle.py", line 469, in subimport
    __import__(name)
{last}
"""
JAVA = """An error occurred while calling o75.load.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2856)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 3 more
"""


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (
            WORKER.format(last="olympia_cli.errors.VersionNotFound: version 9 does not exist: the latest is 3"),
            VersionNotFound,
            "version 9 does not exist: the latest is 3",
        ),
        (
            WORKER.format(last="olympia_cli.errors.Damaged: node/x: it is empty: see what is damaged with fsck"),
            Damaged,
            "node/x: it is empty: see what is damaged with fsck",
        ),
        (
            WORKER.format(last="olympia_cli.errors.StorageDenied: s3://b/x: no (403): check the credentials"),
            StorageDenied,
            "Spark's executors have no access: s3://b/x: no (403): check the credentials: give them credentials",
        ),
        (
            WORKER.format(last=f"olympia_cli.errors.StorageDenied: {StorageDenied('no (403)')}"),
            StorageDenied,
            "Spark's executors have no access: no (403): give them credentials of their own",
        ),
        (
            WORKER.format(last="ModuleNotFoundError: No module named 'pyarrow.lib'"),
            ExecutorUnprepared,
            "lack the package pyarrow",
        ),
        (WORKER.format(last="ZeroDivisionError: division by zero"), SparkFailed, "ZeroDivisionError: division by zero"),
        (JAVA, SparkFailed, "No space left on device"),
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find it\n\tat org.x",
            SparkFailed,
            "[DATA_SOURCE_NOT_FOUND] Failed to find",
        ),
        ("", SparkFailed, "no reason given"),
        ('status = StatusCode.UNAVAILABLE\ndetails = "failed to connect"', SparkUnreachable, "does not answer"),
        ("RuntimeError: " + "x" * 5000, SparkFailed, "…"),
    ],
)
def test_a_trace_becomes_one_line(text, error, said):
    found = explain(RuntimeError(text))
    assert type(found) is error
    assert said in str(found)
    assert "\n" not in str(found)
    assert len(str(found)) < 500


def test_what_is_not_sparks_passes():
    with pytest.raises(ZeroDivisionError), explained():
        raise ZeroDivisionError


def test_what_is_ours_stays_as_it_is():
    with pytest.raises(Damaged) as raised, explained():
        raise Damaged("F202", "vn/0", "it is empty")
    assert raised.value.path == "vn/0"


def test_what_is_sparks_is_explained():
    from pyspark.errors import PySparkRuntimeError

    with pytest.raises(SparkFailed, match="NOT_IMPLEMENTED"), explained():
        raise PySparkRuntimeError(errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "x"})
