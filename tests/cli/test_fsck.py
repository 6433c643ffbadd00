"""olympia fsck: what it prints, how it ends, and what it leaves behind."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import tempfile
import zipfile
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format import definitions
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.objects_pb2 import ViewDef, ViewFormat
from olympia_cli.names import NamespaceName
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import EMOJI, Run, Sample, make_sample, run_here
from tests.helpers.damage import spoil
from tests.helpers.in_place import as_ordinary_user, read_only
from tests.helpers.json_schema import check
from tests.helpers.names import location, ns, table, view

EVIL = "\x1b[31m"  # what a terminal obeys cannot be in a name, but in a file's name and in what a file holds


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def fsck(run: Run, damageable: Sample) -> Run:
    return lambda *args, **more: run("-c", damageable.uri, "fsck", *args, **more)


def lose(sample: Sample, name: str = "a.b") -> str:
    """Take a definition away; its path."""
    path = sample.catalog.snapshot().find(NamespaceName(name))
    assert path is not None
    (sample.folder / path).unlink()
    return path


# Exit codes


@pytest.mark.parametrize("level", ["hints", "structure", "full"])
def test_0_sound(fsck, level):
    done = fsck("--level", level).ok()
    assert done.lines[-1].startswith("SOUND  ")
    assert done.lines[-1].endswith("nothing found")


NOT_READ = {
    (): ["definitions (--level full)", "table data (--level data)", "other versions (--all-versions)"],
    ("--level", "hints"): [
        "nodes (--level structure)",
        "definitions (--level full)",
        "table data (--level data)",
    ],
    ("--level", "full"): ["table data (--level data)", "other versions (--all-versions)"],
    ("--level", "full", "--all-versions"): ["table data (--level data)"],
    ("--all-versions",): ["definitions (--level full)", "table data (--level data)"],
}


@pytest.mark.parametrize(("words", "left"), NOT_READ.items(), ids=" ".join)
def test_verdict_names_unread_parts_and_the_option_for_each(fsck, words, left):
    verdict = fsck(*words).ok().lines[-1]
    assert verdict.rpartition("; ")[0].partition("; not read: ")[2] == ", ".join(left)
    told = fsck(*words, "--json").ok().json
    assert [f"{part['what']} ({part['option']})" for part in told["not_read"]] == left
    for part in told["not_read"]:
        # what is typed reads it
        more = fsck(*words, *part["option"].split(), "--json").json
        assert part not in more["not_read"]


def test_0_with_warnings_and_information(fsck, damageable):
    (damageable.folder / "vn" / "latest").unlink()
    (damageable.folder / "junk.txt").write_text("mine")
    done = fsck("--level", "full", "--all-versions").ok()
    assert [line.split("\t")[:3] for line in done.lines[:-1] if "F901" not in line] == [
        ["warning", "F111", "vn/latest"],
        ["info", "F903", "junk.txt"],
    ]
    assert "1 warning" in done.lines[-1]


def test_50_the_oldest_root_is_missing(fsck, damageable):
    """The advice names no file that is missing, and can be typed."""
    (damageable.folder / root_path(0)).unlink()
    done = fsck("--json")
    [error] = [one for one in done.json["findings"] if one["code"] == "F101"]
    words = shlex.split(error["hint"])
    assert (done.exit_code, words[-2:]) == (50, ["log", "--oneline"])
    shown = run_here(*words[1:]).ok()
    assert [line.split()[0] for line in shown.lines][-1] == "v1"


def test_50_damaged(fsck, damageable):
    path = lose(damageable)
    done = fsck("--level", "full")
    assert done.exit_code == 50
    [line, verdict] = done.lines
    assert line.split("\t")[:3] == ["error", "F301", path]
    assert line.split("\t")[4:6] == ["v1-v7", "namespace a.b"]
    assert verdict == "DAMAGED  1 error.  Last sound version: v0"


def test_advice_states_the_loss_of_each_repair(fsck, damageable, run):
    lose(damageable)
    repair = f"olympia -c {damageable.uri} fsck --repair"
    lines = fsck("--level", "full").stderr.splitlines()
    assert lines[0] == f"next: {repair}  (loses nothing)"
    assert lines[2] == f"or: {repair} --prefer rollback  (loses 9 objects)"
    assert fsck("--level", "full", "--quiet").stderr == ""
    assert fsck("--level", "full", "--json").stderr == ""
    assert "next: " not in fsck("--level", "full", "--repair", "--dry-run").stderr


def test_a_damaged_save_with_a_sound_copy_loses_nothing(fsck, damageable, run):
    last = max(damageable.folder.glob(f"dtxn/{damageable.transaction}.*.binpb"))
    last.write_bytes(b"")
    done = fsck("--all-versions").ok()
    assert ["warning", "F505"] in [line.split("\t")[:2] for line in done.lines]
    assert "txn abort" not in done.stdout + done.stderr
    run("-c", damageable.uri, "txn", "commit", damageable.transaction).ok()


def test_the_advice_for_a_transaction_that_cannot_be_read_can_be_typed(fsck, damageable, run):
    """The advice names the loss of the staged changes, because the user may have a copy of the file."""
    for path in damageable.folder.glob(f"dtxn/{damageable.transaction}.*"):
        path.write_bytes(b"")
    done = fsck("--all-versions")
    assert done.exit_code == 50
    advice, why = done.stderr.splitlines()
    command = f"olympia -c {damageable.uri} txn abort {damageable.transaction}"
    assert advice == f"next: {command}  (its losses are unknown)"
    assert why.endswith("; this gives up all its staged changes")
    run(*shlex.split(command)[1:], "--yes").ok()
    fsck("--all-versions").ok()


def test_the_advice_for_an_export_without_a_location_can_be_typed(fsck, damageable, run):
    with damageable.catalog.transaction() as transaction:
        transaction.create_namespace(ns("beside"))
        definition = transaction.draft.catalog
        definition.properties["olympia.export.friday"] = '{"version": 1, "mode": "minimal"}'
        transaction.draft.put_catalog(definitions.body(definition))
    done = fsck("--all-versions")
    assert (done.exit_code, "F504" in done.stdout) == (50, True)
    command = f"olympia -c {damageable.uri} export drop friday"
    assert done.stderr.splitlines()[-2].startswith(f"next: {command}  ")
    run("-c", damageable.uri, "expire", "--dry-run").failed(40, "export drop friday")
    run(*shlex.split(command)[1:], "--yes").ok()
    fsck("--all-versions").ok()


def test_50_though_the_catalog_cannot_be_opened(fsck, damageable, run):
    for version in range(8):
        (damageable.folder / root_path(version)).write_bytes(b"")
    done = fsck("--json")
    assert done.exit_code == 50
    assert done.json["damaged"] is True
    assert {one["code"] for one in done.json["findings"]} == {"F103", "F202"}
    for version in range(8):
        (damageable.folder / root_path(version)).unlink()
    assert fsck().exit_code == 50


def test_3_out_of_time(fsck):
    done = fsck("--max-duration", "0s", "--level", "full")
    assert done.exit_code == 3
    assert done.lines[-1].startswith("INCOMPLETE  ")
    assert "--since-last" in done.stderr
    assert fsck("--max-duration", "0s", "--json").json["complete"] is False


def test_10_no_catalog(run, tmp_path):
    (tmp_path / "nothing").mkdir()
    run("-c", tmp_path / "nothing", "fsck").failed(10, "no catalog")


def test_10_missing_version(fsck):
    fsck("--at", "v70").failed(10, "70")
    fsck("--at", "nightly").failed(10, "nightly")


@pytest.mark.parametrize(
    "words",
    [
        ["--at", "v1", "--all-versions"],
        ["--max-age", "1d"],
        ["--max-duration", "soon"],
        ["--level", "deep"],
        ["--report", "nowhere/fsck.html"],
        ["--bundle", "."],
    ],
    ids=" ".join,
)
def test_2_usage(fsck, words):
    fsck(*words).failed(2)


# Output


def test_the_next_command_can_be_typed(fsck, damageable, run):
    store = damageable.store
    with Catalog(store).transaction() as transaction:
        transaction.create_table(table("sales.new"), location(7))
    (damageable.folder / root_path(8)).write_bytes(b"")
    done = fsck()
    assert done.exit_code == 50
    words = done.lines[0].split("\t")[-1].split()
    assert words == ["olympia", "-c", damageable.uri, "fsck", "--repair"]
    assert fsck("--json").json["findings"][0]["hint"] == " ".join(words)
    run(*words[1:], "--yes").ok()


def test_json_has_the_shape_that_is_promised(fsck, damageable):
    lose(damageable, EMOJI)
    done = fsck("--level", "full", "--all-versions", "--json")
    check(done.json, "fsck")
    [found] = [one for one in done.json["findings"] if one["severity"] == "error"]
    assert found["objects"] == [{"type": "namespace", "namespace": EMOJI, "name": EMOJI}]
    assert (found["versions"], found["version_ranges"], found["objects_total"]) == ([1, 2, 3, 4, 5, 6, 7], [[1, 7]], 1)
    assert done.json["last_sound_version"] == 0
    assert done.stderr == ""


def test_rows_are_findings(fsck, damageable):
    lose(damageable)
    (damageable.folder / "vn" / "latest").write_text("x")
    rows = [json.loads(line) for line in fsck("--level", "full", "-o", "jsonl").lines]
    for row in rows:
        check(row, "finding")
    table = list(csv.DictReader(io.StringIO(fsck("--level", "full", "-o", "csv").stdout)))
    assert [one["code"] for one in rows] == [one["code"] for one in table] == ["F301", "F112"]
    assert fsck("--level", "full", "-o", "name").lines == [rows[0]["path"], "vn/latest"]


def test_many_hit_objects_are_counted_unless_output_is_wide(run, tmp_path):
    folder = tmp_path / "wide"
    catalog = Catalog.create(LocalStore(str(folder)), order=16)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for at in range(40):
            transaction.create_table(table(f"a.t{at:02}"), location(at))
    node = catalog.snapshot().root.node.children[-1]
    assert isinstance(node, str)
    names = [catalog.snapshot().keys.decode(key, "") for key in catalog.snapshot().reader.node(node).keys]
    (folder / node).unlink()
    assert run("-c", folder, "fsck").lines[0].split("\t")[5] == f"{len(names)} tables in a"
    assert run("-c", folder, "fsck", "-o", "wide").lines[0].split("\t")[5] == ", ".join(f"table {one}" for one in names)


def test_control_characters_of_a_catalog_are_escaped(fsck, damageable):
    (damageable.folder / f"a{EVIL}b").write_text("")
    (damageable.folder / "vn" / "latest").write_text(EVIL)
    done = fsck("--level", "full", "--all-versions").ok()
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m" in done.stdout


def test_quiet_says_nothing_of_a_sound_catalog(fsck):
    done = fsck("--quiet", "--level", "hints").ok()
    assert (done.stdout, done.stderr) == ("", "")


# What it leaves behind


def test_status_knows_of_it(fsck, damageable, run):
    fsck().ok()
    assert run("-c", damageable.uri, "status", "--json").ok().json["last_fsck"]["damaged"] is False
    lose(damageable)
    assert fsck("--level", "full").exit_code == 50
    status = run("-c", damageable.uri, "status", "--json")
    assert status.exit_code == 50
    assert status.json["last_fsck"]["errors"] == 1


def test_a_catalog_that_may_only_be_read(fsck, damageable):
    fsck().ok()
    with read_only(damageable.folder):
        as_ordinary_user(damageable.folder, fsck).ok()


def test_since_last_skips_definitions_found_sound_before(fsck, state):
    first = fsck("--level", "full", "--since-last", "--json").ok().json["checked"]
    second = fsck("--level", "full", "--since-last", "--json").ok().json["checked"]
    assert first["skipped"] == 0
    assert second["definitions"] <= 2, "only the catalog's own"
    assert second["skipped"] + second["definitions"] == first["definitions"]
    assert len(list(state.rglob("fsck-verified"))) == 1
    third = fsck("--level", "full", "--since-last", "--max-age", "0s", "--json").ok().json["checked"]
    assert third["skipped"] in (0, second["skipped"])  # within the second in which it was read it is young enough
    assert fsck("--level", "full", "--json").ok().json["checked"]["skipped"] == 0


def test_a_page_for_a_colleague(fsck, damageable, tmp_path):
    path = lose(damageable)
    assert fsck("--level", "full", "--report", tmp_path / "fsck.html").exit_code == 50
    page = (tmp_path / "fsck.html").read_text()
    assert path in page
    assert f"olympia -c {damageable.uri} fsck --repair</code> loses nothing" in page


def test_a_bundle_for_support(fsck, damageable, tmp_path):
    lose(damageable)
    assert fsck("--level", "full", "--all-versions", "--bundle", tmp_path / "support.zip").exit_code == 50
    with zipfile.ZipFile(tmp_path / "support.zip") as archive:
        text = b"".join(archive.read(name) for name in archive.namelist()).decode().lower()
    for secret in ("sales", "orders", "lines", "ann@", "bob@", "nightly", "gold", "s3://", EMOJI, damageable.uri):
        assert secret not in text, secret


def test_an_older_version_can_be_checked(fsck, damageable):
    (damageable.folder / root_path(7)).write_bytes(b"")
    assert fsck("--at", "v3", "--json").json["version"] == 3


@pytest.mark.parametrize("kind", ["table", "view"])
def test_data(run, tmp_path, kind):
    """Metadata that is not there is damage at this level, and not before; what is said to do next can be typed."""
    folder = tmp_path / "data"
    nowhere = f"file://{tmp_path}/nowhere/00001.metadata.json"
    catalog = Catalog.create(LocalStore(str(folder)))
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        if kind == "table":
            transaction.create_table(table("a.t"), nowhere)
        else:
            definition = ViewDef(view_format=ViewFormat.ICEBERG_VIEW, iceberg_metadata_location=nowhere)
            transaction.create_view(view("a.t"), definition)
    run("-c", folder, "fsck", "--level", "full").ok()
    done = run("-c", folder, "fsck", "--level", "data", "--json")
    assert done.exit_code == 50
    [found] = done.json["findings"]
    assert (found["code"], found["versions"]) == ("F601", [1])
    assert found["objects"] == [{"type": kind, "namespace": "a", "name": "t"}]
    words = shlex.split(found["hint"])
    assert words[0] == "olympia"
    assert "00001.metadata.json" in run(*words[1:]).ok().stdout


def test_on_a_terminal_it_is_blocks(program, tmp_path):
    """The mock-up: severity, code and what; then the file, what it hits, and what to do next."""
    import pty
    import subprocess

    from tests.cli.conftest import command_line

    folder = tmp_path / "catalog"
    make_sample(folder)
    (folder / root_path(7)).write_bytes(b"")
    main, side = pty.openpty()
    with subprocess.Popen(
        [*command_line(), "-c", str(folder), "fsck"],
        stdout=side,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "OLYMPIA_PAGER": "cat"},
    ) as started:
        os.close(side)
        shown = b""
        while True:
            try:
                more = os.read(main, 65536)
            except OSError:
                break
            if not more:
                break
            shown += more
        assert started.wait() == 50
    os.close(main)
    lines = shown.decode().replace("\r", "").splitlines()
    assert lines[0] == "error    F202  the root of version 7: it is empty"
    assert lines[1] == f"   file  {root_path(7)}"
    assert lines[2] == "   hits  v7 (1 version)"
    assert lines[3].split()[0] == "next"
    assert lines[3].endswith("fsck --repair")
    assert lines[4].startswith("DAMAGED  1 error.")
    assert lines[-1] == "DAMAGED  1 error.  Last sound version: v6"


@pytest.mark.parametrize("closed", ["node", "def/ns", "vn/latest", root_path(0)])
def test_31_file_without_read_permission_is_not_damaged(run, closed):
    # not in pytest's own folder, which is closed to other users
    with tempfile.TemporaryDirectory() as temporary:
        os.chmod(temporary, 0o755)
        folder = Path(temporary) / "catalog"
        catalog = Catalog.create(LocalStore(folder), order=4)
        with catalog.transaction() as transaction:
            for at in range(8):
                transaction.create_namespace(ns(f"n{at}"))
        # import all modules before this process becomes a user who may not read them
        run("-c", folder, "fsck", "--level", "full").ok()
        run("-c", temporary, "fsck").failed(10)
        path = folder / closed
        # one of several files, so that it could be taken for damage
        (next(path.iterdir()) if path.is_dir() else path).chmod(0)
        user = os.geteuid()
        os.seteuid(65534 if user == 0 else user)
        try:
            done = run("-c", folder, "fsck", "--level", "full")
        finally:
            os.seteuid(user)
    done.failed(31, "Permission denied")
    assert done.stdout == ""


# What is known


def test_acknowledged_damage_of_an_older_version_counts_as_sound(fsck, damageable, run):
    (damageable.folder / root_path(3)).write_bytes(b"")
    assert fsck().exit_code == 50
    assert "1 finding would be acknowledged" in fsck("--acknowledge", "--dry-run").stderr
    assert fsck("--quiet").exit_code == 50
    done = fsck("--acknowledge", "-m", "disk 3").ok()
    assert "v8 acknowledges 1 finding" in done.stderr
    assert done.lines[-1].startswith("SOUND  ")
    assert done.lines[-1].endswith("1 error (1 acknowledged)")
    assert done.lines[0].endswith("\tacknowledged")
    told = fsck("--json").ok().json
    assert (told["damaged"], told["next"], [one["acknowledged"] for one in told["findings"]]) == (False, [], [True])
    assert "disk 3" in run("-c", damageable.uri, "log", "-n", "1").ok().stdout
    run("-c", damageable.uri, "status").ok()
    assert "nothing to acknowledge" in fsck("--acknowledge").ok().stderr
    (damageable.folder / root_path(4)).write_bytes(b"")
    assert fsck().exit_code == 50


@pytest.mark.parametrize("words", [["--repair"], ["--salvage", "x"]], ids=" ".join)
def test_2_one_thing_at_a_time(fsck, words):
    fsck("--acknowledge", *words).failed(2, "--acknowledge")


# What errors say


@pytest.mark.parametrize("how", ["missing", "flipped"])
def test_the_fsck_that_an_error_advises_finds_its_file(run, damageable, how):
    path = damageable.catalog.snapshot().find(table("sales.lines"))
    spoil(damageable.store, path, how)
    error = run("-c", damageable.uri, "table", "show", "sales.lines").failed(40, path)
    program, *words = shlex.split(error.stderr.rpartition(": ")[2])
    assert program == "olympia"
    done = run(*words, "--json")
    assert done.exit_code == 50
    assert path in {one["path"] for one in done.json["findings"]}


def test_a_plan_to_mend_hints_does_not_stand_below_sound(fsck, damageable):
    (damageable.folder / "vn" / "latest").unlink()
    done = fsck("--repair", "--dry-run").ok()
    assert done.lines[-1].startswith("TO REPAIR  ")
    assert "plan: vn/latest is missing: write 7" in done.stderr
