"""The metrics of a run as accumulators, which Spark's pages and its event log show by name.

PySpark's own accumulators have no names, and a Python task reaches no others. Only the driver knows the totals of a
step. So at the end, one query of Spark's own calls `add` of each accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from olympia_cli.spark.run import Run, is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def publish(spark: SparkSession, command: str, run: Run) -> None:
    """Publish the metrics of a run as named accumulators, if Spark has an event log or a web UI. Do nothing over Spark
    Connect."""
    if is_connect(spark) or not _is_looked_at(spark):
        return
    numbers = named(run.metrics())
    try:
        # a separate run: its own cost is not part of the published metrics
        with Run().step(spark, f"{command}: what it took"):
            spark.range(0, 1, 1, 1).select(*_additions(spark, numbers)).collect()
    except Exception as error:
        # this uses Spark's internals, which may change; the work itself is done
        run.note(f"Spark's event log has no metrics: {type(error).__name__}")


def named(metrics: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the numbers by display name: `olympia: files`, `olympia fsck: definitions: failed tasks`. Steps of the
    same name are added up."""
    numbers: dict[str, int | float] = {}
    for step in ({**metrics, "step": ""}, *metrics["steps"]):
        about = f"olympia {step['step']}".rstrip()
        for name, value in step.items():
            if isinstance(value, int | float):
                key = f"{about}: {name.replace('_', ' ')}"
                numbers[key] = numbers.get(key, 0) + value
    return numbers


def _is_looked_at(spark: SparkSession) -> bool:
    context = spark.sparkContext
    return context.getConf().get("spark.eventLog.enabled") == "true" or context.uiWebUrl is not None


def _additions(spark: SparkSession, numbers: Mapping[str, int | float]) -> Iterator[Column]:
    """Yield a column per number: the task that computes it adds the number to the accumulator of that name."""
    from pyspark.sql.classic.column import Column

    # Any: these are Java objects
    session: Any = spark
    jvm, context = session._jvm, session.sparkContext._jsc.sc()
    sql = jvm.org.apache.spark.sql
    objects, parse = sql.catalyst.expressions.objects, session._jsparkSession.sessionState().sqlParser().parseExpression
    nothing = jvm.PythonUtils.toSeq(jvm.java.util.ArrayList())
    for name, number in numbers.items():
        whole = isinstance(number, int)
        accumulator = context.longAccumulator(name) if whole else context.doubleAccumulator(name)
        kind = sql.types.ObjectType(accumulator.getClass())
        literal = sql.catalyst.expressions.Literal.fromObject(accumulator, kind)
        # the only expression that calls a method without a result
        value = parse(f"{number}L" if whole else f"{number:f}D")
        added = objects.InitializeJavaBean(literal, jvm.PythonUtils.toScalaMap({"add": value}))
        of = sql.types.DataTypes.LongType if whole else sql.types.DataTypes.DoubleType
        total = objects.Invoke(added, "sum", of, nothing, nothing, True, True, True)
        yield Column(sql.classic.ExpressionUtils.column(total)).alias(name)
