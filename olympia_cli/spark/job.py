"""Run the command line as a Spark job, with Spark as the engine unless the command names one.

    python -m olympia_cli.spark.job fsck -c s3://lake/catalog --level full
    python -m olympia_cli.spark.job --files DIR

The second command writes the files for spark-submit: `olympia_job.py`, which does the same as the first command, and
`olympia_cli.zip`, this package for machines that do not have it.
"""

from __future__ import annotations

import runpy
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from olympia_cli.spark.proof import package_zip

JOB = '''"""Olympia on Spark: spark-submit olympia_job.py fsck -c s3://lake/catalog"""

from olympia_cli.spark.job import main

if __name__ == "__main__":
    main()
'''
_WHERE = ("--engine", "--master", "--remote")


def main() -> None:
    """Run the program on sys.argv, and exit with the command's exit code."""
    if sys.argv[1:2] == ["--files"] and len(sys.argv) == 3:
        write_files(Path(sys.argv[2]))
        return
    sys.argv[1:] = on_spark(sys.argv[1:])
    # run as a program: `spark` must not import `cli`
    runpy.run_module("olympia_cli", run_name="__main__", alter_sys=True)


def on_spark(words: Sequence[str]) -> list[str]:
    """Add `--engine spark` to a command, before any `--`, unless the command already says where to run."""
    if any(word.partition("=")[0] in _WHERE for word in words):
        return list(words)
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], "--engine", "spark", *words[end:]]


def write_files(folder: Path) -> None:
    """Write the files for spark-submit into a folder, which is created if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(package_zip(), folder / "olympia_cli.zip")
    (folder / "olympia_job.py").write_text(JOB)


if __name__ == "__main__":
    main()
