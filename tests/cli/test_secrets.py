"""No output holds a secret: each command is run with secrets wherever one can stand, and all that it leaves is read."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.app import COMMANDS, LazyCommand, shared_params
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import Ran, Sample, make_sample
from tests.cli.racing import wrap_store
from tests.cli.test_contract import SHAPES, on_sample  # noqa: F401
from tests.helpers import planted
from tests.helpers.names import table
from tests.helpers.planted import SECRET, place
from tests.helpers.serving import serving
from tests.helpers.stores import WrappedStore

FORMS = (
    ["--json", "--debug"],
    ["--verbose", "--debug"],
    ["-o", "wide", "--log-format", "json", "--verbose"],
    ["-o", "csv", "--log-format", "json", "--json", "--debug"],
)
OF_A_CATALOG = {"vn", "node", "def", "dtxn"}
WORDS = {command: words for command, (_, words) in SHAPES.items()} | {"init": [], "serve": ["--port", "99999"]}


def clean(done: Ran, folder: Path | None = None) -> Ran:
    """Neither what was said holds the secret nor a file of the folder, but those of catalogs."""
    assert SECRET not in done.stdout + done.stderr
    for path in folder.rglob("*") if folder is not None else ():
        if path.is_file() and not OF_A_CATALOG & set(path.parts):
            assert SECRET.encode() not in path.read_bytes(), path
    return done


def test_every_command_is_run():
    assert set(WORDS) == set(COMMANDS)


# Locations in a catalog


@pytest.fixture(scope="module")
def planted_template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The sample with a secret in each location."""
    folder = tmp_path_factory.mktemp("planted") / "catalog"
    transaction = make_sample(folder, planted.metadata_location, planted.create_table, planted.create_view)
    planted.plant_more(Catalog(LocalStore(str(folder))))
    return folder, transaction


@pytest.fixture
def sample(planted_template: tuple[Path, str], tmp_path: Path) -> Sample:
    shutil.copytree(planted_template[0], tmp_path / "catalog")
    return Sample(tmp_path / "catalog", planted_template[1])


@pytest.mark.parametrize("command", SHAPES)
def test_locations_in_a_catalog(command, on_sample, olympia, sample, tmp_path):  # noqa: F811
    first, *others = FORMS
    clean(on_sample(command, *first))
    words = [sample.transaction if word == "TXN" else word for word in WORDS[command]]
    for form in others:
        clean(olympia(*command.split(), *words, *form))
    clean(Ran(0, "", ""), tmp_path)


LOOKS = """
table show sales.orders_2025 --schema
table files
table files --schemas
table files --to inventory
table append sales.orders_2025 rows.csv
table alter sales.orders_2025 --add-column 'n int'
table register sales.lines --metadata-location s3://x --verify
view show sales.open
ns show kept
ns alter kept --set a=b
log -p
log --stat --graph
log --oneline
log --html log.html
log --action table_create
diff v1
diff v1..latest
time-travel v2
rollback v1 --dry-run
revert v1..v8 --dry-run
revert v4 --yes
expire --keep-last 1 --dry-run --explain
expire --keep-last 1 --plan plan.json
expire --older-than 0s --keep-last 1 --offline --yes
expire ls
fsck --level data --all-versions --report report.html --bundle bundle.zip
fsck --level full --repair --dry-run
fsck --salvage salvaged --dry-run
fsck --salvage salvaged
status --full
status --prometheus
tree --svg tree.svg
dump-node latest
dump-node v2
dump-node --follow sales.orders_2025
dump-node --follow sales.open
export verify old
export resume old --dest elsewhere
export drop old --dry-run
export drop old --delete-files --yes
export create more --dest more
export create whole --dest whole --for java-sdk
import olympia catalog -c other
rebuild catalog -c other
txn commit TXN
"""


def test_further_commands_show_no_secret(olympia, run, sample, planted_template, tmp_path):
    """Each in turn: those that change the catalog change it for those after them."""
    (tmp_path / "rows.csv").write_text("id\n1\n")
    run("init", "other").ok()
    for line in LOOKS.strip().splitlines():
        words = [sample.transaction if word == "TXN" else word for word in line.replace("'n int'", "n\0int").split()]
        words = [word.replace("\0", " ") for word in words]
        for form in (FORMS[0], FORMS[1]):
            done = clean((run if "-c" in words else olympia)(*words, *form))
            assert done.exit_code != 1, done.stderr
    clean(Ran(0, "", ""), tmp_path)


@pytest.fixture
def readable(sample: Sample, tmp_path: Path) -> Sample:
    """The sample with a table that can be read: its metadata and data are at locations with secrets."""
    elsewhere = InMemoryCatalog("elsewhere", warehouse=f"file://{tmp_path}/warehouse")
    elsewhere.create_namespace("n")
    rows = pa.table({"id": [1]})
    data_path = {"write.data.path": f"file://{tmp_path}/data?token={SECRET}"}
    made = elsewhere.create_table("n.t", rows.schema, properties=data_path)
    made.append(rows)
    folder = tmp_path / f"metadata?token={SECRET}"
    folder.mkdir()
    metadata = json.loads(Path(made.metadata_location.removeprefix("file://")).read_text())
    (folder / "1.metadata.json").write_text(json.dumps({**metadata, "location": f"{made.location()}?token={SECRET}"}))
    with sample.catalog.transaction() as transaction:
        planted.create_table(transaction, table("sales.real"), f"file://{folder}/1.metadata.json")
    return sample


def test_the_files_of_a_table(readable, olympia, tmp_path):
    for words in (
        "table show sales.real --schema",
        "table files sales.real",
        "table files sales.real --schemas",
        "fsck --level data --report report.html --bundle bundle.zip",
        "table alter sales.real --unset-iceberg write.data.path",
    ):
        for form in (*FORMS, ["-o", "name"]):
            done = clean(olympia(*words.split(), *form))
            assert "token=***" in done.stdout or words.startswith("table alter") or form[-1] == "name", done
    assert "token=***" in (tmp_path / "report.html").read_text()
    with serving(readable.store) as served:
        for page in ("table", "files"):
            assert SECRET not in served.http.get(f"/{page}", params={"ns": "sales", "name": "real"}).text
        assert "data?token=***" in served.http.get("/files", params={"ns": "sales", "name": "real"}).text


def test_the_server_shows_no_secret_but_to_clients_of_tables(sample):
    """Clients open the locations, so they get them as they are; the page, the log and errors are for people."""
    with serving(sample.store) as served:
        table = served.http.get("/v1/namespaces/sales/tables/orders_2025")
        assert table.status_code == 500
        config = served.http.get("/v1/config", params={"warehouse": place()})
        told = [table.text, config.text, served.http.get("/v1/config").text]
        nowhere = {"name": "x", "metadata-location": f"file:///nowhere?token={SECRET}/1.metadata.json"}
        answer = served.post("/v1/namespaces/sales/register", nowhere)
        assert (answer.status_code, "'?'" in answer.text) == (400, True)
        told.append(answer.text)
        logging.getLogger("uvicorn.error").warning("cannot reach %s", place())
        assert "cannot reach s3://***@lake/x?" in served.log.getvalue()
        pages, seen = ["/"], set()
        while pages:
            page = pages.pop()
            if page not in seen and len(seen) < 200:
                seen.add(page)
                answer = served.http.get(page)
                told.append(answer.text)
                pages += [link for link in _links(answer) if link.startswith("/")]
        assert {page.partition("?")[0] for page in seen} >= {"/table", "/view", "/version", "/diff", "/node", "/health"}
        for text in (*told, served.log.getvalue()):
            assert SECRET not in text


def _links(answer: httpx.Response) -> list[str]:
    from tests.rest.test_page import Markup

    return Markup(answer).links if answer.headers.get("content-type", "").startswith("text/html") else []


# Command lines, the environment and the config file

CONFIG = f"""
[default]
catalog = "{place()}"
[default.storage]
endpoint_url = "https://ann:{SECRET}@minio.example.com/?token={SECRET}"
key = "{SECRET}"
secret = "{SECRET}"
client_kwargs = {{aws_session_token = "{SECRET}"}}
[lake]
catalog = "s3://lake/c"
[lake.storage]
endpoint_url = "http://ann:{SECRET}@127.0.0.1:9/?token={SECRET}"
key = "{SECRET}"
secret = "{SECRET}"
[emulator]
catalog = "gs://lake/c"
[emulator.storage]
endpoint_url = "http://ann:{SECRET}@127.0.0.1:9"
token = "{SECRET}"
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_the_location_of_the_catalog(command, run, config, monkeypatch, tmp_path):
    config(CONFIG)
    words = [*command.split(), *WORDS[command]]
    for at, form in enumerate(FORMS):
        clean(run("-c", place(), *words, *form))
        clean(run(*words, *form, f"-c{place()}"))
        if at % 2:
            monkeypatch.setenv("OLYMPIA_CATALOG", place())
        clean(run(*words, *form))
        monkeypatch.delenv("OLYMPIA_CATALOG", raising=False)
    shutil.rmtree(tmp_path / "home" / "config")
    clean(Ran(0, "", ""), tmp_path)


@pytest.mark.parametrize("profile", ["lake", "emulator"])
@pytest.mark.parametrize("words", ["ns ls", "doctor", "status", "fsck", "export create x --dest s3://lake/d"])
def test_a_store_that_does_not_answer(words, profile, run, config, monkeypatch):
    """Errors of the SDKs repeat the endpoint; --debug prints all of it."""
    config(CONFIG)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    done = clean(run("--profile", profile, *words.split(), "--debug", "--verbose", "--timeout", "300ms"))
    assert done.exit_code in (2, 30, 31)
    if profile == "lake":
        assert "http://***@127.0.0.1:9" in done.stdout + done.stderr


def test_a_traceback_file(run, sample, monkeypatch):
    """A bug leaves a file to send; neither the arguments nor what was raised may bring a secret into it."""

    class Broken(WrappedStore):
        def read_many(self, paths):
            raise ZeroDivisionError(f"no {place()} by zero")

    wrap_store(monkeypatch, Broken)
    done = clean(run("ns", "ls", f"-c{sample.uri}", "--json", f"--at={SECRET}"))
    assert (done.exit_code, done.error["code"]) == (1, "Bug")
    assert clean(run("ns", "ls", "-c", sample.uri, "--debug")).exit_code == 1
    [report] = Path(os.environ["TMPDIR"]).glob("olympia-bug-*.txt")
    text = report.read_text()
    assert SECRET not in text
    assert sample.uri not in text.splitlines()[0]
    assert "no s3://***@lake/x?X-Amz-Credential=***" in text


def test_warnings_of_libraries_show_no_secret(run, capfd):
    """Python prints warnings of libraries itself, unless a handler is set."""
    code = (
        "import logging, sys\n"
        "from olympia_cli.cli.boundary import begin, hear_libraries\n"
        "begin(sys.argv)\n"
        "hear_libraries()\n"
        f"logging.getLogger('botocore').warning('cannot reach %s', {place()!r})\n"
    )
    told = [
        subprocess.run([sys.executable, "-c", code, *form], capture_output=True, text=True).stderr
        for form in ((), ("--log-format", "json"))
    ]
    assert told[0].startswith("warning: cannot reach s3://***@lake/x?")
    assert json.loads(told[1])["level"] == "warning"
    assert SECRET not in "".join(told)


@pytest.mark.parametrize(
    "words",
    [
        f"import iceberg other --property type=rest --property uri=http://ann:{SECRET}@127.0.0.1:9",
        f"import iceberg other --property type=sql --property uri=nosuch+db://ann:{SECRET}@127.0.0.1:9/db",
        f"import iceberg other --property type=sql --property uri=ann:{SECRET}@127.0.0.1:9/db",
        f"import iceberg other --property type=nope --property token={SECRET}",
        f"import iceberg other --property s3.secret-access-key:{SECRET}",
        f"ns create x --property ={SECRET}",
        f"fsck --engine spark --remote sc://127.0.0.1:9/;token={SECRET}",
        f"fsck --engine spark --remote sc//127.0.0.1:9/;user=ann;token={SECRET}",
        f"fsck --engine spark --master spark://ann:{SECRET}@127.0.0.1:9",
        f"fsck --engine spark --master k8s://https://ann:{SECRET}@127.0.0.1:9",
        f"fsck --conf spark.hadoop.fs.s3a.secret.key:{SECRET}",
        f"table append sales.orders_2025 s3://AKIA:{SECRET}@lake/x.parquet",
        f"ns ls --at {place()}",
        f"ns ls --log-format {place()}",
        f"{place()} ls",
        f"ns {place()}",
    ],
)
def test_mistakes_with_other_secrets(words, olympia):
    for form in FORMS[:2]:
        clean(olympia(*words.split(), *form))


def test_tables_of_another_catalog_that_holds_them(olympia, tmp_path):
    """The first table cannot be read, and the SDK's error has a part of its location; the other one would be stored."""
    uri = f"sqlite:///{tmp_path}/other.db"
    other = SqlCatalog("other", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    other.create_namespace("n")
    made = [other.create_table(f"n.{name}", pa.schema([("id", pa.int64())])) for name in ("unread", "stored")]
    readable = f"{made[1].metadata_location}?token={SECRET}"
    shutil.copy(made[1].metadata_location.removeprefix("file://"), readable.removeprefix("file://"))
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        for name, location in (("unread", place("1.metadata.json")), ("stored", readable)):
            database.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", (location, name))
        database.commit()
    with_fsspec = "py-io-impl=pyiceberg.io.fsspec.FsspecFileIO"
    words = ["import", "iceberg", "other", "--property", "type=sql", "--property", f"uri={uri}"]
    for form in FORMS:
        done = clean(olympia(*words, "--property", with_fsspec, *form))
        assert done.exit_code == 3, done
    problems = olympia(*words, "--property", with_fsspec, "--json").json["problems"]
    assert {problem["what"]: "***" in problem["why"] for problem in problems} == {"n.unread": True, "n.stored": False}


# Locations that are refused


@pytest.mark.parametrize("location", [place(), f"s3://AKIA:{SECRET}@lake/x", f"s3://lake/x?sig={SECRET}"])
@pytest.mark.parametrize(
    "words",
    [
        "table register sales.n --metadata-location @",
        "table alter sales.lines --metadata-location @",
        "table create sales.n --schema id@int --location @",
        "table create sales.n --schema id@int --property write.metadata.path=@",
        "table create sales.n --schema id@int --property write.data.path=@",
        "table alter sales.real --set-iceberg write.data.path=@",
        "table alter sales.lines --set write.data.path=@",
        "ns create n --property location=@",
        "ns alter sales --set location=@",
        "catalog alter --set olympia.table-location=@",
        "export create x --dest @",
        "apply register.jsonl",
        "apply alter.jsonl",
        "import parquet @",
        "init @",
    ],
)
def test_a_location_with_a_secret_is_not_stored(words, location, run, empty, tmp_path):
    """No statement stores the secret, and the refusal names the next step."""
    on_empty = partial(run, "-c", empty)
    on_empty("ns", "create", "sales").ok()
    on_empty("table", "register", "sales.lines", "--metadata-location", "s3://lake/0").ok()
    if "real" in words:
        on_empty("table", "create", "sales.real", "--schema", "id int").ok()
    before = on_empty("status", "--json").json["version"]
    for name, do in (("register", "sales.new"), ("alter", "sales.lines")):
        line = {"do": f"table {name}", "name": do, "metadata_location": location}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    filled = [word.replace("id@int", "id int").replace("@", location) for word in words.split()]
    done = clean(on_empty(*filled))
    assert done.exit_code == 2
    assert on_empty("status", "--json").json["version"] == before
    for path in tmp_path.rglob("*"):
        assert path.suffix == ".jsonl" or not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_tables_with_secrets_in_their_location_can_be_changed(olympia):
    """An older program stored it: changes in the catalog work, and the files are not opened there."""
    olympia("table", "head", "sales.orders_2025").failed(2, "s3://***@lake/", "is not opened")
    olympia("table", "alter", "sales.orders_2025", "--set", "k=v").ok()
    olympia("table", "alter", "sales.orders_2025", "--metadata-location", "s3://lake/1").ok()
    olympia("table", "restore", "sales.orders_2025", "--at", "v7").ok()
    olympia("table", "rename", "sales.orders_2025", "sales.o").ok()
    olympia("table", "drop", "sales.o").ok()
    olympia("revert", "latest", "--yes").ok()
    shown = olympia("table", "show", "sales.o", "--json").ok().json
    assert shown["metadata_location"].startswith("s3://***@lake/t/metadata/00009.metadata.json?X-Amz-Credential=***&")


NAMES = {"ns create", "ns rename", "export create"}
"""Commands whose first argument names a new object; it is data, and shown unchanged."""


def values(command: str) -> Iterator[list[str]]:
    """The words of a command with a location that carries a secret in the place of each value, one at a time."""
    shared = {param.name for param in shared_params()}
    loaded, words = LazyCommand(command, COMMANDS[command]).load(), WORDS[command]
    arguments = [param for param in loaded.params if param.param_type_name == "argument"]
    if arguments and command not in NAMES:
        yield [place() for _ in arguments]
    for param in loaded.params:
        if param.param_type_name == "option" and not param.is_flag and param.name not in shared:
            if param.metavar in ("TEXT", "WHO"):
                continue  # a message is data
            yield [*words, param.opts[0], f"location={place()}" if param.metavar == "KEY=VALUE" else place()]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_argument_and_option(command, olympia, monkeypatch, tmp_path):
    shielded = ["--port", "99999"] if command == "serve" else []
    for at, words in enumerate(values(command)):
        done = clean(olympia(*command.split(), *words, *FORMS[at % len(FORMS)], *shielded))
        assert done.exit_code != 1, done.stderr
    for path in tmp_path.rglob("*"):
        assert SECRET not in str(path.relative_to(tmp_path)) or path.parent.name == "lake", path
