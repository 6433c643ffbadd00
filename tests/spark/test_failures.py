"""Spark's stack traces become one line."""

from __future__ import annotations

import traceback

import pytest

from olympia_cli.errors import (
    Damaged,
    ExecutorUnprepared,
    OlympiaError,
    SparkFailed,
    SparkUnreachable,
    StorageDenied,
    StorageFailed,
    VersionNotFound,
)
from olympia_cli.ops.walk import StoreFailure
from olympia_cli.spark.failures import explain, explained, failures, told
from tests.helpers.planted import SECRET, place

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
DIED = """An error occurred while calling o75.load.
Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting 'x' to 'true'
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1.applyOrElse(PythonRunner.scala:740)
Caused by: java.net.SocketException: Connection reset
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
        (DIED, SparkFailed, "a Python worker of Spark's died: most often its machine is out of memory"),
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


@pytest.mark.parametrize(
    "error",
    [
        VersionNotFound("version 9 does not exist: the latest is 3", hint="read again: it was expired"),
        Damaged("F202", "node/x", "it is empty", hint="fsck"),
        ExecutorUnprepared("the executor on a sees nothing", hint=""),
    ],
    ids=lambda error: error.name,
)
def test_an_error_raised_in_a_task_arrives_unchanged(error):
    """The error's hint stays a hint, although the driver gets the error as text; the text is readable."""

    @told
    def task(rows):
        yield from rows
        raise error

    with pytest.raises(OlympiaError) as raised:
        list(task(["row"]))
    text = "".join(traceback.format_exception(raised.value))
    assert f"olympia_cli.errors.{error.name}: {error}\n" in text
    found = explain(RuntimeError(f"Job aborted:\n{text}\tat org.apache.spark.x"))
    assert type(found) is type(error)
    assert {**vars(found), "__notes__": None} == {**vars(error), "__notes__": None}


def test_a_failure_of_the_store_keeps_message_and_advice():
    with pytest.raises(StorageFailed) as raised, failures():
        raise StoreFailure(StorageFailed("the bucket is ill", hint="wait"))
    found = explain(RuntimeError("".join(traceback.format_exception(raised.value))))
    assert (found.message, found.hint) == ("the bucket is ill", "wait")


def test_an_error_of_a_task_carries_no_secret():
    """Spark writes what a task raises into the logs of executors."""
    with pytest.raises(Damaged) as raised, failures():
        raise Damaged("F602", place("0.metadata.json"), f"it names {place()}")
    told = "".join(traceback.format_exception(raised.value))
    assert SECRET not in told
    assert explain(RuntimeError(told)).message.startswith("s3://***@lake/0.metadata.json?X-Amz-Credential=***&")


def test_errors_foreign_to_spark_pass_unchanged():
    with pytest.raises(ZeroDivisionError), explained():
        raise ZeroDivisionError


def test_errors_of_olympia_pass_unchanged():
    with pytest.raises(Damaged) as raised, explained():
        raise Damaged("F202", "vn/0", "it is empty")
    assert raised.value.path == "vn/0"


def test_errors_of_spark_are_explained():
    from pyspark.errors import PySparkRuntimeError

    with pytest.raises(SparkFailed, match="NOT_IMPLEMENTED"), explained():
        raise PySparkRuntimeError(errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "x"})
