"""What a run took as accumulators, which Spark's pages and its event log show by name.

PySpark's own accumulators have no names, and a task of Python's reaches no others. What a step took in all, only the
driver knows anyway. So at the end one task of Spark's own adds it up: of a query that calls `add` of each accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from olympia_cli.spark.run import Run, is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def publish(spark: SparkSession, command: str, run: Run) -> None:
    """Leave the metrics of a run where Spark is looked at, if it is and can be reached."""
    if is_connect(spark) or not _is_looked_at(spark):
        return
    numbers = named(run.metrics())
    try:
        # a run of its own: what it takes is not part of what is told
        with Run().step(spark, f"{command}: what it took"):
            spark.range(0, 1, 1, 1).select(*_additions(spark, numbers)).collect()
    except Exception as error:
        # what it calls is Spark's inside, which may change; the work itself is done
        run.note(f"Spark's event log has no metrics: {type(error).__name__}")


def named(metrics: Mapping[str, Any]) -> dict[str, int | float]:
    """Numbers by what people call them: `olympia: files`, `olympia fsck: definitions: failed tasks`. Steps of one name
    count together."""
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
    """A column for each number: when a task computes it, it adds the number to the accumulator of that name."""
    from pyspark.sql.classic.column import Column

    # Any: it is Java's
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
        # the one expression that calls what gives nothing back
        value = parse(f"{number}L" if whole else f"{number:f}D")
        added = objects.InitializeJavaBean(literal, jvm.PythonUtils.toScalaMap({"add": value}))
        of = sql.types.DataTypes.LongType if whole else sql.types.DataTypes.DoubleType
        total = objects.Invoke(added, "sum", of, nothing, nothing, True, True, True)
        yield Column(sql.classic.ExpressionUtils.column(total)).alias(name)
