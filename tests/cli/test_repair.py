"""fsck --repair and --salvage: the plan, the question, and what the other commands say afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import AtVersion, NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from tests.cli.test_hints import suggested
from tests.helpers.check import check_catalog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Version 1 has 40 tables, version 2 drops one, version 3 adds one, 4 alters one."""
    catalog = Catalog.create(LocalStore(tmp_path / "catalog", durable=False), order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("n"))
        for number in range(40):
            transaction.create_table(TableName("n", f"t{number:02}"), f"s3://x/{number}", {"k": "v"})
    with catalog.transaction() as transaction:
        transaction.drop_table(TableName("n", "t07"))
    with catalog.transaction() as transaction:
        transaction.create_table(TableName("n", "zz"), "s3://x/zz", {"k": "v"})
    with catalog.transaction() as transaction:
        transaction.alter_table(TableName("n", "t01"), {"k": "w"})
    return tmp_path / "catalog"


def root(folder: Path, version: int) -> Path:
    return folder / "vn" / format(version, "032b")[::-1]


def leaf(folder: Path) -> Path:
    """A leaf that all versions share, far from what any of them changed."""
    reach = []
    for version in (1, 4):
        snapshot = Catalog(LocalStore(folder)).snapshot(AtVersion(version))
        leaves, level = {}, [snapshot.root.node]
        while level:
            children = [child for node in level for child in node.children]
            level = list(snapshot.reader.nodes(children))
            leaves |= {path: node.keys for path, node in zip(children, level, strict=True) if node.is_leaf}
        reach.append(leaves)
    shared = sorted(reach[0].keys() & reach[1].keys(), key=lambda path: reach[0][path])
    return folder / shared[len(shared) // 2]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def but_ops(folder: Path) -> dict[str, bytes]:
    """All files but the notes of what ran last."""
    return {path: data for path, data in files(folder).items() if not path.startswith("ops/")}


def tables(run, folder: Path, *more: str) -> list[str]:
    return run("-c", folder, "table", "ls", *more, "-o", "name").ok().lines


def test_a_damaged_leaf_is_mended_and_nothing_is_lost(run, folder):
    before = tables(run, folder)
    leaf(folder).write_bytes(b"junk")
    assert run("-c", folder, "fsck").exit_code == 50
    was = but_ops(folder)
    dry = run("-c", folder, "fsck", "--repair", "--dry-run")
    assert dry.exit_code == 50
    assert "plan: build v5" in dry.stderr
    assert "none lost" in dry.stderr
    assert "to do it: olympia -c" in dry.stderr
    assert but_ops(folder) == was
    done = run("-c", folder, "fsck", "--repair", "--yes", "-m", "disk 3").ok()
    assert "v5 is the repaired version" in done.stderr
    assert "DAMAGED" in done.stdout
    assert done.lines[-1].startswith("SOUND")
    assert tables(run, folder) == before
    check_catalog(LocalStore(folder), all_versions=False)
    run("-c", folder, "fsck", "--level", "full").ok()
    run("-c", folder, "status").ok()
    assert run("-c", folder, "fsck", "--repair", "--yes").ok().stderr.count("nothing to repair") == 1


def test_repair_without_terminal_needs_yes(run, folder):
    root(folder, 4).write_bytes(b"")
    was = but_ops(folder)
    run("-c", folder, "fsck", "--repair").failed(12, "--yes")
    assert but_ops(folder) == was


def test_the_way_as_json(run, folder):
    newest_leaf(folder).unlink()
    root(folder, 4).write_bytes(b"junk")
    done = run("-c", folder, "fsck", "--repair", "--yes", "--json").ok()
    repair = done.json["repair"]
    assert (repair["head"], repair["version"], repair["dry_run"]) == (4, 5, False)
    assert repair["steps"][0]["kind"] == "rebuild"
    assert (done.json["version"], done.json["last_sound_version"]) == (5, 5)
    assert done.json["damaged"] is False
    [known] = [one for one in done.json["findings"] if one["path"] == "vn/00100000000000000000000000000000"]
    assert (known["severity"], known["mended_in"]) == ("warning", 5)
    assert done.stderr == ""
    [lost] = repair["steps"][0]["lost_ranges"]
    assert (lost["as_of"], lost["after"], lost["before"]) == (3, None, None)


def test_a_rollback_by_choice(run, folder):
    root(folder, 4).write_bytes(b"junk")
    dry = run("-c", folder, "fsck", "--repair", "--dry-run", "--prefer", "rollback")
    assert dry.stderr.splitlines()[-1] == f"to do it: olympia -c {folder} fsck --repair --prefer rollback"
    done = run("-c", folder, "fsck", "--repair", "--yes", "--prefer", "rollback").ok()
    assert "plan: go back to v3, the last sound version" in done.stderr
    assert run("-c", folder, "diff", "v3", "--json").ok().json["changes"] == []


@pytest.mark.parametrize(
    "words",
    [
        ["--repair", "--salvage", "x"],
        ["--repair", "--at", "v1"],
        ["--prefer", "rebuild"],
        ["--yes"],
        ["--dry-run"],
        ["--repair", "--prefer", "magic"],
    ],
)
def test_options_that_mean_nothing_together(run, folder, words):
    assert run("-c", folder, "fsck", *words).exit_code == 2


def test_hints(run, folder):
    (folder / "vn" / "latest").write_text("999")
    (folder / "vn" / "oldest").write_text("junk")
    done = run("-c", folder, "fsck", "--repair", "--yes").ok()
    assert "vn/latest says 999: write 5" in done.stderr
    log = run("-c", folder, "log", "-n", "1", "--json").ok().json["versions"][0]
    assert [action["detail"]["named_latest"] for action in log["actions"]] == [999]
    assert (folder / "vn" / "latest").read_text() == "5"
    assert (folder / "vn" / "oldest").read_text() == "0"


def test_a_gap_is_refused_with_the_advice(run, folder):
    root(folder, 2).unlink()
    run("-c", folder, "fsck", "--repair", "--yes").failed(12, "fsck --salvage DEST", "vn/0010")


def test_salvage(run, folder, tmp_path):
    before = tables(run, folder)
    root(folder, 2).unlink()
    leaf(folder).write_bytes(b"junk")
    was = but_ops(folder)
    dest = tmp_path / "rescued"
    done = run("-c", folder, "fsck", "--salvage", dest, "--json")
    assert done.exit_code == 3, "a version is missing"
    assert done.json["salvage"]["missing_versions"] == [2]
    assert done.json["salvage"]["lost"] == []
    assert done.json["damaged"] is True
    assert but_ops(folder) == was
    check_catalog(LocalStore(dest))
    run("-c", dest, "fsck", "--level", "full", "--all-versions").ok()
    assert tables(run, dest) == before
    run("-c", folder, "fsck", "--salvage", dest).failed(11)
    log = run("-c", dest, "log").ok()
    assert "repair  salvaged from v4 of" in log.stdout


def test_salvage_without_writing(run, folder, tmp_path):
    done = run("-c", folder, "fsck", "--salvage", tmp_path / "rescued", "--dry-run").ok()
    assert "41 objects of v4 would be in" in done.stderr
    assert not (tmp_path / "rescued").exists()


# The other commands, with a repair and an unreadable version in the past


@pytest.fixture
def repaired(run, folder) -> Path:
    root(folder, 2).write_bytes(b"junk")
    root(folder, 4).write_bytes(b"")
    run("-c", folder, "fsck", "--repair", "--yes", "-m", "mended").ok()
    with Catalog(LocalStore(folder)).transaction("after") as transaction:
        transaction.rename_table(TableName("n", "t02"), TableName("n", "t02b"))
    return folder


def test_the_log_goes_on_past_versions_that_cannot_be_read(run, repaired):
    done = run("-c", repaired, "log").ok()
    lines = {line.split("\t")[0]: line for line in done.lines}
    assert list(lines) == ["v6", "v5", "v4", "v3", "v2", "v1", "v0"]
    assert "! unreadable: vn/00100" in lines["v4"]
    assert "it is not an Arrow file" in lines["v2"]
    assert "~ repair  " in lines["v5"]
    assert "mended" in lines["v5"]
    versions = run("-c", repaired, "log", "--json").ok().json["versions"]
    assert [one["version"] for one in versions if "unreadable" in one] == [4, 2]
    assert [one["created_at"] for one in versions if "unreadable" in one] == [None, None]
    for words in (["--oneline"], ["--graph"], ["-p"], ["--stat"], ["-o", "csv"], ["-o", "jsonl"], ["--since", "v1"]):
        assert run("-c", repaired, "log", *words).ok().stdout
    assert len(run("-c", repaired, "log", "--since", "1h", "-o", "name").ok().lines) == 7
    assert "unreadable" in run("-c", repaired, "log", "n.t02").ok().stdout


def test_the_other_commands_work_across_a_repair(run, repaired):
    assert run("-c", repaired, "status").exit_code == 50, "there is damage in the versions that are kept"
    full = run("-c", repaired, "status", "--full", "--json").json
    assert full["reclaimable_bytes"] is None
    [altered] = run("-c", repaired, "diff", "v3", "v5", "--json").ok().json["changes"]
    assert (altered["change"], altered["name"]) == ("altered", "t01")
    [renamed] = run("-c", repaired, "diff", "--json").ok().json["changes"]
    assert renamed["change"] == "renamed"
    run("-c", repaired, "diff", "v4").failed(40, "vn/0010")
    revisions = run("-c", repaired, "table", "history", "n.t02b", "--json").ok().json["revisions"]
    assert [(one["version"], one["change"]) for one in revisions] == [(6, "renamed"), (1, "created")]
    assert [one["version"] for one in run("-c", repaired, "table", "history", "n.t01", "--json").ok().json["revisions"]]
    now = run("-c", repaired, "time-travel", "0s", "--json").ok().json
    assert now["version"] == 6
    for reference in ("v0", "v1", "v3", "v5", "oldest", "latest~1"):
        run("-c", repaired, "time-travel", reference).ok()
    run("-c", repaired, "time-travel", "v2").failed(40)
    times = {one["version"]: one["created_at"] for one in run("-c", repaired, "log", "--json").ok().json["versions"]}
    assert run("-c", repaired, "time-travel", times[3], "--json").ok().json["version"] in (3, 5, 6)
    run("-c", repaired, "rollback", "v1", "--yes").ok()
    assert "n.t07" in tables(run, repaired)
    run("-c", repaired, "rollback", "v4", "--yes").failed(40)
    run("-c", repaired, "table", "restore", "n.zz", "--at", "v3").ok()
    assert "n.zz" in tables(run, repaired)
    check_catalog(LocalStore(repaired), all_versions=False)


def test_apply_fails_above_a_version_with_unreadable_actions(run, repaired, tmp_path):
    lines = [json.dumps({"do": "ns create", "name": f"x{number}"}) for number in range(3)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    run("-c", repaired, "apply", tmp_path / "in.jsonl", "--commit-every", "1").failed(40, "the actions of this version")


# A rollback by hand


def test_a_rollback_with_unknown_losses_needs_even_if_unknown(run, folder):
    newest_leaf(folder).write_bytes(b"junk")
    was = but_ops(folder)
    dry = run("-c", folder, "rollback", "v3", "--dry-run")
    assert "unknown changes" in dry.ok().stderr
    assert "0 changes" not in dry.stderr
    told = dry.stderr.splitlines()[-1].removeprefix("to do it: olympia ").split()
    assert run("-c", folder, "rollback", "v3", "--dry-run", "--json").ok().json["changes"] is None
    refused = run("-c", folder, "rollback", "v3", "--yes").failed(12, "are unknown", "--even-if-unknown")
    assert but_ops(folder) == was
    # the hint, as it is printed
    planned = run(*suggested(refused.stderr))
    assert "go back to v3" in planned.stderr
    assert "lost" in planned.stderr
    run(*told, "--yes").ok()
    assert run("-c", folder, "diff", "v3", "--json").ok().json["changes"] == []


def newest_leaf(folder: Path) -> Path:
    """A leaf that version 4 has and version 3 has not."""
    catalog = Catalog(LocalStore(folder))
    old, new = (set(catalog.snapshot(AtVersion(at)).root.node.children) for at in (3, 4))
    return folder / str(next(iter(new - old)))
