"""On a bad night: what can still be read of a damaged catalog, and the way back."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import root_path
from olympia_cli.names import AtVersion, NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from tests.cli.test_hints import suggested


@pytest.fixture
def folder(tmp_path):
    """Version 1 has 40 tables, version 2 drops one, version 3 adds one."""
    catalog = Catalog.create(LocalStore(tmp_path / "catalog"), order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("n"))
        for number in range(40):
            transaction.create_table(TableName("n", f"t{number:02}"), f"s3://x/{number}", {"k": "v"})
    with catalog.transaction() as transaction:
        transaction.drop_table(TableName("n", "t07"))
    with catalog.transaction() as transaction:
        transaction.create_table(TableName("n", "zz"), "s3://x/zz", {"k": "v"})
    return tmp_path / "catalog"


def root(folder, version):
    return folder / "vn" / format(version, "032b")[::-1]


def newest_node(folder):
    """A node that only version 3 has."""
    nodes: dict[int, set[str]] = {2: set(), 3: set()}
    for version in nodes:
        snapshot = Catalog(LocalStore(folder)).snapshot(AtVersion(version))
        level = [snapshot.root.node]
        while level:
            children = [child for node in level for child in node.children]
            nodes[version].update(children)
            level = list(snapshot.reader.nodes(children))
    return folder / sorted(nodes[3] - nodes[2])[0]


def test_a_rollback_leads_out_of_a_version_with_a_damaged_node(run, folder):
    newest_node(folder).write_bytes(b"junk")
    run("-c", folder, "table", "ls").failed(40)
    dry = run("-c", folder, "rollback", "v2", "--dry-run").ok()
    assert "cannot be shown" in dry.stderr
    run("-c", folder, "rollback", "v2", "--yes").failed(12, "are unknown")
    run("-c", folder, "rollback", "v2", "--yes", "--even-if-unknown", "-m", "damaged node").ok()
    assert len(run("-c", folder, "table", "ls").ok().lines) == 39


def test_a_rollback_to_a_version_that_is_damaged_too_is_refused(run, folder):
    hit = newest_node(folder)
    for path in (folder / "node").iterdir():
        path.write_bytes(b"junk")
    assert hit.exists()
    run("-c", folder, "rollback", "v2", "--yes").failed(40)
    run("-c", folder, "rollback", "v0", "--yes", "--even-if-unknown").ok()


@pytest.mark.parametrize("data", [b"", b"junk"])
def test_versions_before_a_damaged_root_can_be_read(run, folder, data):
    root(folder, 3).write_bytes(data)
    run("-c", folder, "table", "ls").failed(40)
    for reference in ("v2", "latest~1"):
        assert len(run("-c", folder, "table", "ls", "--at", reference).ok().lines) == 39
    for words in (["table", "ls", "--at", "v3"], ["time-travel", "latest~0"], ["log", "--until", "v3"]):
        run("-c", folder, *words).failed(40, "vn/1100")
    run("-c", folder, "table", "ls", "--at", "v4").failed(10)
    assert run("-c", folder, "log", "--until", "v2", "-o", "name").ok().lines == ["v2", "v1", "v0"]


def test_a_missing_last_root_warns_readers_and_stops_commits(run, folder):
    root(folder, 3).unlink()
    warning = "warning: vn/latest names version 3, but the last root is that of version 2"
    assert warning in run("-c", folder, "table", "ls").ok().stderr
    # a commit would take the name of the version that is lost, and all that tells of it
    for words in (["ns", "create", "w"], ["rollback", "v1", "--yes"], ["expire", "--yes"]):
        refused = run("-c", folder, *words)
        assert refused.exit_code in (12, 40)
        assert (folder / "vn" / "latest").read_text() == "3"
        assert run(*suggested(refused.stderr)).exit_code == 50
    transaction = run("-c", folder, "txn", "begin").failed(40, "it says 3")
    assert run(*suggested(transaction.stderr)).exit_code == 50


def test_a_copy_of_a_root_is_no_version_of_the_log_and_the_warning_can_be_pasted(run, folder):
    last = run("-c", folder, "status", "--json").json["version"]
    store = LocalStore(str(folder))
    store.create(root_path(last + 1), store.read(root_path(last - 1)))
    warned = run("-c", folder, "ns", "ls").ok()
    assert run(*suggested(warned.stderr)).exit_code == 50
    newest, before, *_ = run("-c", folder, "log", "--json").ok().json["versions"]
    assert (newest["version"], newest["actions"]) == (last + 1, [])
    assert "does not name the version before it" in newest["unreadable"]
    assert "unreadable" not in before


def test_a_patch_goes_on_past_a_definition_that_is_missing(run, folder):
    snapshot = Catalog(LocalStore(folder)).snapshot()
    (folder / snapshot.find(TableName("n", "zz"))).unlink()
    lines = run("-c", folder, "log", "-p").ok().lines
    assert any("cannot be shown" in line for line in lines)
    assert any(line.startswith("v1\t") and "iceberg_metadata_location: s3://x/39" in line for line in lines)


def test_a_log_of_nothing_says_so(run, folder):
    done = run("-c", folder, "log", "--action", "VIEW_DROP").ok()
    assert (done.stdout, done.stderr) == ("", "no version matches\n")


def test_a_place_that_makes_no_folders_is_an_error_and_no_endless_loop(run):
    done = run("init", "/proc/olympia-cannot-be-here")
    assert done.exit_code in (30, 31)


def test_a_table_without_definition_can_be_dropped_and_restored(run, folder):
    store = LocalStore(folder)
    with Catalog(store).transaction() as transaction:
        transaction.alter_table(TableName("n", "t01"), {"k": "w"})
    (folder / Catalog(store).snapshot().find(TableName("n", "t01"))).unlink()
    run("-c", folder, "table", "show", "n.t01").failed(40)
    run("-c", folder, "table", "drop", "n.t01").ok()
    run("-c", folder, "table", "restore", "n.t01", "--at", "v3").ok()
    assert run("-c", folder, "table", "show", "n.t01", "--json").ok().json["properties"] == {"k": "v"}
