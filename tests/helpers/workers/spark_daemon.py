"""Spark's own daemon for its Python workers (`spark.python.daemon.module`), which loads what is installed.

Spark puts archives before that: the source of PySpark, which each worker would compile, and one of its jars, the list
of which each would read a dozen times.
"""

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder

SPARKS = ("pyspark.zip", "py4j-", "spark-core_")

installed = [path for path in sys.path if not os.path.basename(path).startswith(SPARKS)]
# a Python without PySpark has it from there alone
if PathFinder.find_spec("pyspark", installed) is not None:
    sys.path[:] = installed

# what a worker needs is loaded before it is forked, since each would load it again; and frozen, since after every task
# Spark collects the garbage among all that is loaded
for name in ("pyarrow", "pandas", "pyspark.worker", "s3fs", "pyiceberg.io.pyarrow"):
    with suppress(ImportError):
        import_module(name)
gc.freeze()

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
