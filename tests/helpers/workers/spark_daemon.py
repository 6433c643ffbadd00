"""Spark's own daemon for its Python workers (`spark.python.daemon.module`), which loads what is installed.

Spark puts archives before that: the source of PySpark, which each worker would compile, and one of its jars, the list
of which each would read a dozen times.
"""

import os
import sys
from importlib.machinery import PathFinder

SPARKS = ("pyspark.zip", "py4j-", "spark-core_")

installed = [path for path in sys.path if not os.path.basename(path).startswith(SPARKS)]
# a Python without PySpark has it from there alone
if PathFinder.find_spec("pyspark", installed) is not None:
    sys.path[:] = installed

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
