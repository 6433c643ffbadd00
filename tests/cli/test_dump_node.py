"""dump-node: what it finds, what it shows of sound and of damaged files, and that it never breaks."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.output.node import draw_node, draw_way
from olympia_cli.format.paths import root_path
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.ops.inspect import KeyTarget, follow_key, read_target
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import EMOJI, Run, Sample, run_here

WIDTHS = (20, 27, 40, 59, 60, 79, 80, 109, 110, 120, 200)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog whose tree has three levels; version 1 is its latest."""
    folder = tmp_path_factory.mktemp("deep") / "catalog"
    catalog = Catalog.create(LocalStore(str(folder)), order=4)
    with catalog.transaction("load") as transaction:
        for namespace in ("finance", "sales"):
            transaction.create_namespace(NamespaceName(namespace))
            for at in range(10):
                transaction.create_table(TableName(namespace, f"t{at}"), f"s3://bucket/{namespace}/{at}.json")
    return folder


@pytest.fixture
def deep(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    shutil.copytree(made, tmp_path / "deep")
    return tmp_path / "deep"


def root(folder: Path, version: int = 1) -> Path:
    return folder / root_path(version)


def node(folder: Path) -> Path:
    return sorted((folder / "node").iterdir())[0]


def test_json(olympia: Run, sample: Sample) -> None:
    found = olympia("dump-node", "--json").ok().json
    assert list(found) == [
        "path",
        "kind",
        "version",
        "bytes",
        "order",
        "system",
        "pivot",
        "buffer",
        "actions",
        "digest",
        "actions_digest",
        "problems",
    ]
    assert (found["path"], found["kind"], found["version"]) == (root_path(7), "root", 7)
    assert found["bytes"] == root(sample.folder, 7).stat().st_size
    assert (found["digest"], found["actions_digest"], found["problems"], found["buffer"]) == (
        "verified",
        "verified",
        [],
        [],
    )
    assert found["system"]["n_keys"] == str(len(found["pivot"]) - 1)
    assert found["system"]["previous_root"] == root_path(6)
    assert {"key", "value", "pnode"} <= set(found["pivot"][0])
    assert found["pivot"][0]["key"] is None
    names = {(row["object"], row["namespace"], row["name"]) for row in found["pivot"][1:]}
    assert ("table", "sales", "orders_2025") in names
    assert ("table", EMOJI, "表") in names
    assert ("namespace", "a.b", "a.b") in names
    [rename, info] = found["actions"]
    assert rename["type"] == "TABLE_RENAME"
    assert rename["detail"]["to"] == {"namespace": "sales", "name": "orders_2025"}
    assert (info["type"], info["detail"]["by"]) == ("COMMIT_INFO", "ann@laptop")


@pytest.mark.parametrize("target", ["3", "v3", "latest~4", root_path(3), root_path(3)[:9] + "…"])
def test_one_version_by_many_names(target: str, olympia: Run) -> None:
    assert olympia("dump-node", target, "--json").ok().json["version"] == 3


def test_other_references(olympia: Run) -> None:
    olympia("dump-node", "vn/0…").failed(2, "ambiguous", root_path(0), root_path(2))
    assert olympia("dump-node", "oldest", "--json").ok().json["version"] == 0
    assert olympia("dump-node", "2999-01-01", "--json").ok().json["version"] == 7
    olympia("dump-node", "2001-01-01").failed(10)
    olympia("dump-node", "v99").failed(10, "99")
    olympia("dump-node", "latest~99").failed(10)
    olympia("dump-node", "no-such-export").failed(10)
    olympia("dump-node", "").failed(2)


def test_shortened_pointers_paste_back(run: Run, deep: Path) -> None:
    path = "node/" + node(deep).name
    digits = path[5:13]
    for target in (path, path[:13] + "…", path[:13] + "...", path[:20], digits, digits.upper(), path[5:20] + "…"):
        assert run("-c", deep, "dump-node", target, "--json").ok().json["path"] == path
    bare = node(deep).stem.replace("-", "")
    assert run("-c", deep, "dump-node", bare, "--json").ok().json["path"] == path
    twin = path[:13] + "-0000-4000-8000-000000000000.arrow"
    shutil.copy(deep / path, deep / twin)
    run("-c", deep, "dump-node", digits).failed(2, "ambiguous", path, twin)
    run("-c", deep, "dump-node", "node/00000000…").failed(10, "00000000")
    run("-c", deep, "dump-node", "fedcba98").failed(10, "fedcba98")
    # eight digits that no node begins with may be a version
    assert run("-c", deep, "dump-node", "00000001", "--json").ok().json["version"] == 1
    run("-c", deep, "dump-node", "node/../vn/latest").failed(40)


def test_a_file_alone(run: Run, deep: Path, tmp_path: Path) -> None:
    shutil.copy(node(deep), tmp_path / "lonely")
    shutil.copy(root(deep), tmp_path / root(deep).name)
    for arguments in (["./lonely"], [tmp_path / "lonely"], ["lonely", "--file"]):
        found = run("dump-node", *arguments, "--json").ok().json
        assert (found["kind"], found["digest"], found["order"]) == ("node", "verified", None)
        assert found["pivot"][1]["object"] in ("table", "namespace")
    found = run("dump-node", f"./{root(deep).name}", "--json").ok().json
    assert (found["kind"], found["version"], found["order"]) == ("root", 1, 4)
    run("dump-node", "./missing").failed(10, "./missing")
    run("dump-node", "./deep").failed(2, "folder")
    run("dump-node", "./lonely", "--follow", "sales.t1").failed(2)


def test_stdin(run: Run, deep: Path) -> None:
    found = run("dump-node", "-", "--json", input=node(deep).read_bytes()).ok().json
    assert (found["path"], found["kind"], found["problems"]) == ("-", "node", [])
    run("dump-node", "-", input=b"").failed(40, "empty")


def test_a_pipe_gets_a_row_a_line(olympia: Run) -> None:
    done = olympia("dump-node").ok()
    rows = [line.split("\t") for line in done.lines]
    assert rows[0] == ["0", "NULL", "NULL", "NULL", "NULL"]
    assert all(len(row) == 5 for row in rows)
    orders = next(row for row in rows if row[1] == "table sales.orders_2025")
    assert orders[2] == "C===sales" + " " * 95 + "orders_2025" + " " * 89
    assert orders[3].startswith("def/table/")
    assert done.stderr == ""


def test_other_outputs(olympia: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(olympia("dump-node", "-o", "csv").ok().stdout)))
    lines = [json.loads(line) for line in olympia("dump-node", "-o", "jsonl").ok().lines]
    assert [row["key"] for row in rows] == [line["key"] or "" for line in lines]
    assert "a.b" in olympia("dump-node", "-o", "name").ok().lines
    assert '"a.b"."t.1"' in olympia("dump-node", "-o", "name").ok().lines


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("sales", ["sales"]),
        ("a.b", ["a.b"]),
        ('"a.b"."t.1"', ["t.1"]),
        ("sales.open", ["open"]),
        ("sales.orders_2025", ["orders_2025"]),
        ("C===sales +95 orders_2025 +89", ["orders_2025"]),
        ("C===sales" + " " * 95 + "orders_2025", ["orders_2025"]),
    ],
)
def test_one_key(key: str, found: list[str], olympia: Run) -> None:
    shown = olympia("dump-node", "--key", key, "--json").ok().json
    assert [row["name"] for row in shown["pivot"]] == found


def test_dump_node_of_a_missing_key_advises_follow(olympia: Run) -> None:
    olympia("dump-node", "--key", "sales.nope").failed(10, "sales.nope", "--follow")
    olympia("dump-node", "--key", "no pe").failed(2)
    olympia("dump-node", "--key", "a", "--follow", "b").failed(2)


def test_follow(run: Run, deep: Path) -> None:
    for name in ("finance.t0", "sales.t9", "sales.t4", "sales"):
        way = run("-c", deep, "dump-node", "--follow", name, "--json").ok().json
        assert way["found"] is True
        assert way["value"] == way["definition"]["definition"]
        assert way["nodes"][0]["path"] == root_path(1)
        assert way["nodes"][-1]["found"] is True
        for above, below in zip(way["nodes"], way["nodes"][1:], strict=False):
            assert below["path"] == above["pivot"][0]["pnode"]
    done = run("-c", deep, "dump-node", "v1", "--follow", "sales.nope", "--json")
    assert (done.exit_code, done.json["found"], done.json["definition"]) == (10, False, None)
    assert len(done.json["nodes"]) == 3
    run("-c", deep, "dump-node", "v0", "--follow", "sales.t1").failed(10, "sales.t1", "version 0")
    lines = run("-c", deep, "dump-node", "--follow", "sales.t4").ok().lines
    assert lines[0].split("\t")[:2] == ["1", root_path(1)]
    assert lines[-1].split("\t")[0] == "found"


def test_follow_finds_views(olympia: Run) -> None:
    assert olympia("dump-node", "--follow", "sales.open", "--json").ok().json["object"] == "view"


def test_follow_through_damage(run: Run, deep: Path) -> None:
    way = run("-c", deep, "dump-node", "--follow", "sales.t9", "--json").ok().json
    leaf = deep / way["nodes"][-1]["path"]
    whole = leaf.read_bytes()
    leaf.write_bytes(whole[:-100])
    done = run("-c", deep, "dump-node", "--follow", "sales.t9", "--json")
    assert (done.exit_code, done.json["found"]) == (40, True)
    leaf.unlink()
    done = run("-c", deep, "dump-node", "--follow", "sales.t9")
    done.failed(40, "missing", "node/")
    leaf.write_bytes(whole)
    (deep / way["value"]).unlink()
    run("-c", deep, "dump-node", "--follow", "sales.t9").failed(40, "definition is missing")


def test_a_damaged_latest_root_can_be_dumped(run: Run, damageable: Sample) -> None:
    file = root(damageable.folder, 7)
    file.write_bytes(file.read_bytes()[:-300])
    for target in ("latest", "7", "v7", root_path(7)):
        done = run("-c", damageable.uri, "dump-node", target, "--json")
        assert (done.exit_code, done.json["version"]) == (40, 7)
        assert done.json["pivot"]
        assert done.error["code"] == "Damaged"
        assert done.error["exit_code"] == 40
    assert run("-c", damageable.uri, "dump-node", "v3", "--json").ok().json["version"] == 3
    assert run("-c", damageable.uri, "dump-node", "latest~2", "--json").ok().json["version"] == 5
    assert run("-c", damageable.uri, "dump-node", "oldest", "--json").ok().json["version"] == 0
    # seen from the newest version that can be read
    assert run("-c", damageable.uri, "dump-node", "2999-01-01", "--json").ok().json["version"] == 6
    file.write_bytes(b"")
    run("-c", damageable.uri, "dump-node").failed(40, "empty", "fsck")


@pytest.mark.parametrize("kind", ["root", "node"])
def test_cut_at_every_97th_byte(kind: str, run: Run, deep: Path, tmp_path: Path) -> None:
    data = (root(deep) if kind == "root" else node(deep)).read_bytes()
    for length in range(0, len(data), 97):
        (tmp_path / "cut").write_bytes(data[:length])
        done = run("dump-node", "./cut", "--json")
        assert done.exit_code == 40, length
        assert done.json["bytes"] == length
        assert done.json["problems"], length
        assert done.stderr.count("\n") == 1
        text = run("dump-node", "./cut")
        assert text.exit_code == 40
        assert text.stderr.startswith("error: ./cut: ")
        assert text.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", ["root", "node"])
def test_flipped_bits(kind: str, run: Run, deep: Path, tmp_path: Path) -> None:
    data = (root(deep) if kind == "root" else node(deep)).read_bytes()
    rnd = random.Random(3)
    codes = []
    for _ in range(120):
        flipped = bytearray(data)
        flipped[rnd.randrange(len(data))] ^= 1 << rnd.randrange(8)
        (tmp_path / "flipped").write_bytes(flipped)
        done = run("dump-node", "./flipped", "--json")
        assert done.exit_code in (0, 40, 41)
        assert bool(done.json["problems"]) == (done.exit_code == 40)
        codes.append(done.exit_code)
    assert codes.count(40) > 60


def test_a_column_of_a_newer_program(run: Run, tmp_path: Path) -> None:
    import pyarrow as pa

    schema = pa.schema([(name, pa.string()) for name in ("key", "value", "pnode", "txn")])
    rows = [("created_at_millis", "1", None, None), ("n_keys", "0", None, None), (None, None, None, None)]
    with pa.OSFile(str(tmp_path / "new"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        writer.write_batch(pa.record_batch(columns, schema=schema))
    run("dump-node", "./new").failed(41, "txn")


# On a terminal


def drawn(draw, width: int, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding, errors="backslashreplace")
    console = Console(
        file=stream, width=width, force_terminal=True, color_system=None, markup=False, emoji=False, highlight=False
    )
    draw(console)
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("cut", [0, 300, 900, 1500])
def test_any_width(width: int, cut: int, damageable: Sample) -> None:
    file = root(damageable.folder, 2)
    file.write_bytes(file.read_bytes()[: -cut or None])
    dump = read_target(damageable.catalog, "2")
    for raw in (False, True):
        text = drawn(lambda console: draw_node(console, dump, raw=raw), width)  # noqa: B023
        assert "PIVOT" in text
        assert ("PROBLEMS" in text) == bool(cut)
    assert drawn(lambda console: draw_node(console, dump), width, "ascii").isascii()


def test_the_mock_up(sample: Sample) -> None:
    dump = read_target(sample.catalog, "2")
    wide = drawn(lambda console: draw_node(console, dump), 140).splitlines()
    narrow = drawn(lambda console: draw_node(console, dump), 80).splitlines()
    assert "PIVOT  8 keys, a leaf" in wide
    row = next(line for line in wide if "table sales.orders" in line)
    assert "C===sales +95 orders +94" in row
    assert "9…127  NULL × 119, not stored" in [line.strip() for line in wide]
    assert not any("C===" in line for line in narrow)
    assert any("table sales.orders" in line and "def/table/" in line and "…" in line for line in narrow)


def test_values_are_data(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    catalog = Catalog.create(LocalStore(str(folder)))
    with catalog.transaction("[red]hi[/red]\x1b[31m") as transaction:
        transaction.create_namespace(NamespaceName("[/q]:warning:\x9b31m\u202e"))
    dump = read_target(catalog, "latest")
    text = drawn(lambda console: draw_node(console, dump), 120)
    assert "[/q]:warning:" in text
    assert not {"\x9b", "\u202e"} & set(text)
    assert "\x1b[31m" not in text
    assert "\x9b" not in run("-c", folder, "dump-node").ok().stdout
    found = run("-c", folder, "dump-node", "--json").ok().json
    assert found["pivot"][1]["name"] == "[/q]:warning:\x9b31m\u202e"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_way_of_any_width(width: int, made: Path) -> None:
    catalog = Catalog(LocalStore(str(made)))
    for name in ("sales.t9", "sales.nope"):
        way = follow_key(catalog, "latest", KeyTarget.parse(name))
        text = drawn(lambda console: draw_way(console, way), width)  # noqa: B023
        assert ("NOT FOUND" in text) == (name == "sales.nope")


def test_a_real_terminal(made: Path, tmp_path: Path) -> None:
    """Through a pty: colours, and none of them with NO_COLOR."""
    import os
    import pty
    import subprocess
    import sys

    def shown(**env: str) -> str:
        above, below = pty.openpty()
        code = "import sys; from olympia_cli.cli.app import main; sys.exit(main())"
        process = subprocess.Popen(
            [sys.executable, "-c", code, "-c", str(made), "dump-node"],
            stdout=below,
            stderr=below,
            env={**os.environ, "COLUMNS": "80", "TERM": "xterm", "OLYMPIA_PAGER": "cat", **env},
        )
        os.close(below)
        out = b""
        while True:
            try:
                piece = os.read(above, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
        assert process.wait(30) == 0
        os.close(above)
        return out.decode()

    assert "\x1b[1mPIVOT" in shown()
    plain = shown(NO_COLOR="1")
    assert "\x1b" not in plain
    assert "PIVOT  " in plain


def test_reading_changes_nothing(made: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    run_here("-c", made, "dump-node", "--follow", "sales.t1").ok()
    run_here("-c", made, "tree").ok()
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before
