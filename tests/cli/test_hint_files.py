"""A folder, a FIFO or another thing stands in the place of vn/latest or vn/oldest: every command goes on, and fsck,
status, doctor, repairs and commits name it."""

from __future__ import annotations

import shutil

import pytest

from olympia_cli.format.paths import LATEST, OLDEST, root_path
from tests.cli.conftest import Ran, Sample
from tests.helpers.in_place import THINGS, put

HINTS = (LATEST, OLDEST)

READING = [
    ["ns", "ls"],
    ["table", "ls"],
    ["table", "show", "sales.orders_2025"],
    ["table", "history", "sales.orders_2025"],
    ["view", "ls"],
    ["txn", "ls"],
    ["log"],
    ["diff", "v2", "v5"],
    ["time-travel", "latest~2"],
    ["ns", "ls", "--at", "oldest"],
    ["tree"],
    ["dump-node"],
    ["export", "ls"],
    ["catalog", "show"],
    ["expire", "--dry-run", "--keep-last", "2", "--older-than", "0s", "--offline"],
    ["rollback", "v3", "--dry-run"],
    ["revert", "v7", "--dry-run"],
]


@pytest.fixture
def olympia(run, damageable):
    return lambda *args: run("-c", damageable.uri, *args)


def what_fsck_says(olympia) -> list[tuple[str, str, str]]:
    findings = olympia("fsck", "--json").ok().json["findings"]
    return [(each["code"], each["severity"], each["path"]) for each in findings if each["code"].startswith("F1")]


@pytest.mark.parametrize("hint", HINTS)
def test_readers_print_the_same_as_without_the_hint(olympia, damageable, hint):
    (damageable.folder / hint).unlink(missing_ok=True)
    # in JSON nothing depends on how long ago it was
    without = [olympia(*args, "--json").ok().json for args in READING]
    assert all(said.pop("unknown_files", None) in (None, {"count": 0, "paths": []}) for said in without)
    for thing in THINGS:
        put(thing, damageable.folder / hint)
        for args, said in zip(READING, without, strict=True):
            found = olympia(*args, "--json").ok().json
            unknown = found.pop("unknown_files", {"paths": []})["paths"]
            assert found == said, (thing, args)
            assert set(unknown) <= {f"{hint}/kept", "vn/fifo"}
        remove(damageable, hint)


def remove(sample: Sample, hint: str) -> None:
    path = sample.folder / hint
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (sample.folder / "vn" / "fifo").unlink(missing_ok=True)


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("thing", THINGS)
def test_foreign_thing_at_a_hint_is_reported_and_repaired(olympia, damageable, run, hint, thing):
    words = put(thing, damageable.folder / hint)
    status = olympia("status", "--json")
    assert (status.exit_code, len(status.json["needs_attention"])) == (51, 1)
    assert words in status.json["needs_attention"][0]
    doctor = olympia("doctor", "--json")
    assert doctor.exit_code == 51
    assert words in doctor.json["next"]["why"]
    looked = run(*doctor.json["next"]["command"][1:]).ok()
    assert words in looked.stdout
    assert what_fsck_says(olympia) == [("F118", "warning", hint)]
    repaired = olympia("fsck", "--repair", "--yes").ok()
    if thing == "a folder":
        assert f"not repaired: a folder stands at {hint} in {damageable.uri}: move it away" in repaired.stderr
        assert (damageable.folder / hint / "kept").read_bytes() == b"data"
        shutil.rmtree(damageable.folder / hint)
        olympia("fsck", "--repair", "--yes").ok()
    else:
        assert f"plan: {words if words.startswith('a ') else ''}" in repaired.stderr
        assert words in repaired.stderr
    assert what_fsck_says(olympia) == []
    assert olympia("status").exit_code == 0


@pytest.mark.parametrize("thing", THINGS)
def test_a_commit_stands_and_warns_of_its_unwritten_hint(olympia, damageable, thing):
    put(thing, damageable.folder / LATEST)
    done = olympia("ns", "create", "new").ok()
    [warning] = done.stderr.splitlines()
    assert warning.startswith("warning: the hint vn/latest could not be written: ")
    assert warning.endswith(f"readers do without it: see olympia -c {damageable.uri} fsck")
    assert (thing if "link" not in thing else "a link").removesuffix(" without a driver") in warning
    assert "new" in olympia("ns", "ls").ok().lines
    assert olympia("ns", "ls").stderr == ""
    quiet = olympia("ns", "create", "newer", "--json").ok()
    assert (quiet.json["version"], quiet.stderr) == (9, "")
    logged = olympia("ns", "create", "newest", "--log-format", "json").ok().stderr.splitlines()
    assert ['"level": "warning"' in line for line in logged] == [True, False]


def test_commits_of_every_kind_say_it(olympia, damageable, tmp_path):
    put("a folder", damageable.folder / LATEST)
    (tmp_path / "lines").write_text('{"do": "ns create", "name": "n"}\n')
    for args in (
        ["apply", str(tmp_path / "lines")],
        ["txn", "commit", damageable.transaction],
        ["revert", "v8", "--yes"],
        ["rollback", "v7", "--yes"],
        ["catalog", "alter", "--set", "k=v"],
        ["table", "drop", "sales.orders_2025"],
        ["export", "create", "x", "--dest", str(tmp_path / "x")],
        ["export", "drop", "x", "--yes"],
        ["expire", "--keep-last", "1", "--older-than", "0s", "--offline", "--yes"],
    ):
        done = olympia(*args)
        assert done.exit_code == 0, done.stderr
        assert "warning: the hint vn/latest could not be written: a folder stands at vn/latest in " in done.stderr, args


def test_a_repair_of_more_than_hints(olympia, damageable):
    put("a folder", damageable.folder / LATEST)
    (damageable.folder / root_path(7)).write_bytes(b"x")
    done = olympia("fsck", "--repair", "--yes").ok()
    assert "v8 is the repaired version" in done.stderr
    assert "not repaired: a folder stands at vn/latest" in done.stderr
    assert "warning: the hint vn/latest could not be written" in done.stderr
    assert olympia("time-travel", "latest", "--json").ok().json["version"] == 8


def test_init_beside_one(run, tmp_path):
    (tmp_path / "new" / "vn").mkdir(parents=True)
    put("a FIFO", tmp_path / "new" / LATEST)
    assert "a FIFO stands at vn/latest" in run("init", "new").ok().stderr
    run("-c", "new", "ns", "create", "a").ok()


def expire(olympia, *more: str) -> Ran:
    return olympia("expire", *more, "--offline", "--yes")


POLICY = ("--keep-last", "2", "--older-than", "0s", "--grace", "0s")


@pytest.mark.parametrize("thing", [thing for thing in THINGS if thing != "a folder"])
def test_expire_replaces_a_foreign_thing_at_its_hint(olympia, damageable, thing):
    put(thing, damageable.folder / OLDEST)
    assert expire(olympia, *POLICY).ok().stderr.count("warning: ") == 0
    assert (damageable.folder / OLDEST).read_bytes() == b"6"
    put(thing, damageable.folder / OLDEST) if thing != "a link to a FIFO" else None
    expire(olympia, "undo").ok()
    assert (damageable.folder / OLDEST).read_bytes() == b"0"


def test_an_expire_goes_on_beside_a_folder_until_files_are_to_be_deleted(olympia, damageable):
    """A mark and its undo are commits. Late writers go by vn/oldest, so nothing is deleted before it is written."""
    put("a folder", damageable.folder / OLDEST)
    warning = "warning: the hint vn/oldest could not be written: a folder stands at vn/oldest in "
    assert warning in expire(olympia, *POLICY).ok().stderr
    assert olympia("ns", "ls", "--at", "v2").exit_code == 10
    assert warning in expire(olympia, "undo").ok().stderr
    olympia("ns", "ls", "--at", "v2").ok()
    expire(olympia, *POLICY).ok()
    stopped = expire(olympia, "purge").failed(3, "a folder stands at vn/oldest", "move it away, then go on")
    assert (damageable.folder / root_path(0)).exists()
    shutil.rmtree(damageable.folder / OLDEST)
    command = stopped.stderr.splitlines()[-1].partition(": olympia ")[2].split()
    assert command == ["-c", damageable.uri, "expire", "purge"]
    expire(olympia, "purge").ok()
    assert not (damageable.folder / root_path(0)).exists()
    assert what_fsck_says(olympia) == []
