"""A catalog whose tree is gone comes back from definitions and metadata files."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.iceberg import OlympiaCatalog
from tests.helpers.names import ns, table

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def lake(run, tmp_path):
    """A catalog with a.t of three rows, whose metadata is at its third file, and a-b.u."""
    run("init", tmp_path / "lake", "--order", "16", "--property", "owner=me").ok()
    catalog = OlympiaCatalog("lake", warehouse=str(tmp_path / "lake"))
    for name in ("a", "a-b"):
        catalog.create_namespace(name, {"n": name})
    catalog.create_table("a.t", ROWS.schema).append(ROWS)
    catalog.create_table("a-b.u", ROWS.schema)
    return tmp_path / "lake"


@pytest.fixture
def rebuild(run, tmp_path):
    """Lose the tree, and rebuild."""

    def rebuild(lake, *words):
        for folder in ("vn", "node"):
            shutil.rmtree(lake / folder, ignore_errors=True)
        return run("-c", tmp_path / "new", "rebuild", lake, "--json", *words)

    return rebuild


def location(run, folder, name):
    return run("-c", folder, "table", "show", name, "--json").ok().json["metadata_location"]


def problems(ran):
    assert ran.exit_code == (3 if ran.json["problems"] else 0)
    return {one["what"].rpartition("/")[2]: one["why"] for one in ran.json["problems"]}


def test_all_of_it_comes_back(run, lake, rebuild, tmp_path):
    run("-c", lake, "ns", "drop", "a-b", "--cascade").ok()
    before = run("-c", lake, "table", "show", "a.t", "--json").json
    for path in (*(lake / "def" / "ns").glob("*-a-b.binpb"), *(lake / "def" / "table").glob("*-a-b-u.binpb")):
        path.unlink()
    done = rebuild(lake)
    assert problems(done) == {}
    assert (done.json["version"], [one["name"] for one in done.json["tables"]]) == (1, ["a.t"])
    after = run("-c", tmp_path / "new", "table", "show", "a.t", "--json").json
    assert [after[key] for key in ("id", "metadata_location")] == [before[key] for key in ("id", "metadata_location")]
    shown = run("-c", tmp_path / "new", "catalog", "show", "--json").json
    assert (shown["order"], shown["properties"]) == (16, {"owner": "me"})
    table = OlympiaCatalog("new", warehouse=str(tmp_path / "new")).load_table("a.t")
    assert table.scan().to_arrow().num_rows == 3
    again = rebuild(lake).json
    assert (again["version"], again["tables"], again["unchanged"]) == (1, [], 2)
    run("-c", tmp_path / "new", "fsck", "--level", "full", "--all-versions").ok()


def test_a_path_that_fits_two_namespaces_is_a_problem(run, lake, rebuild, tmp_path):
    """The path says a-b-u: the table u of a-b, or b-u of a."""
    done = rebuild(lake)
    assert [one["name"] for one in done.json["tables"]] == ["a.t"]
    assert list(problems(done).values()) == ["it was called 'a-b-u', which goes with several namespaces"]


def test_a_table_goes_on_to_the_metadata_that_follows(run, lake, rebuild, tmp_path):
    newest = location(run, lake, "a.t")
    run("-c", lake, "rollback", "latest~2", "--yes").ok()
    # the definition that names the newest metadata is lost
    for path in (lake / "def" / "table").glob("*-a-t.binpb"):
        if newest.rpartition("/")[2].encode() in path.read_bytes():
            path.unlink()
    next((lake / "def" / "ns").glob("*-a-b.binpb")).unlink()
    rebuild(lake)
    assert location(run, tmp_path / "new", "a.t") == newest


def test_two_candidates_for_the_newest_metadata_are_a_problem(run, lake, rebuild, tmp_path):
    newest = location(run, lake, "a.t")
    file = newest.removeprefix("file://")
    twin = file.replace("/00001-", "/00001-twin-")
    shutil.copy(file, twin)
    for path in (lake / "def" / "table").glob("*-a-t.binpb"):
        if newest.rpartition("/")[2].encode() in path.read_bytes():
            path.unlink()
    done = rebuild(lake, "--dry-run")
    assert "several follow it" in problems(done)["metadata of a.t"]
    assert not (tmp_path / "new").exists()


def test_unreadable_definitions_and_names_reused_later_are_problems(run, lake, rebuild, tmp_path):
    run("-c", lake, "ns", "drop", "a-b", "--cascade").ok()
    [former] = (lake / "def" / "ns").glob("*-a-b.binpb")
    former.write_bytes(b"junk")
    run("-c", lake, "table", "rename", "a.t", "a.old").ok()
    run("-c", lake, "table", "register", "a.t", "--metadata-location", "s3://b/m.json").ok()
    found = problems(rebuild(lake))
    assert found[former.name] == "it is not a NamespaceDef"
    # the one that was renamed is told by the name of its definition, which another one has had since
    assert [why for why in found.values() if "had the name a.t later" in why]
    assert location(run, tmp_path / "new", "a.t") == "s3://b/m.json"


def test_rebuild_refuses_unsuitable_sources(run, lake, tmp_path):
    run("-c", tmp_path / "new", "rebuild", lake).failed(12, "has versions of its own")
    run("-c", tmp_path / "new", "rebuild", tmp_path / "none").failed(10, "no files of a catalog")
    run("-c", lake, "rebuild", lake).failed(2, "is the new catalog itself")
    assert not (tmp_path / "new").exists()


def test_names_that_paths_may_cut_are_problems(run, rebuild, tmp_path):
    """A path has room for 212 characters of both names; one that has about as many may go on."""
    lake = tmp_path / "lake"
    catalog = Catalog.create(
        str(lake), table_name_max_bytes=400, namespace_name_max_bytes=400, node_file_max_bytes=2**24
    )
    long, cut = "t" * 207, ("t" * 300, "t" * 208, "t" * 208 + "é")
    with catalog.transaction() as transaction:
        for namespace in ("n", "s" * 400):
            transaction.create_namespace(ns(namespace))
        for name in (long, *cut):
            transaction.create_table(table(f"n.{name}"), "s3://b/m.json")
    done = rebuild(lake)
    assert [one["name"] for one in done.json["tables"]] == [f"n.{long}"]
    assert list(problems(done).values()) == ["its path is as long as paths get, so the name that it had may go on"] * 4
    assert "run" not in done.stderr.splitlines()[-1]


def test_a_catalog_of_others_is_refused(run, lake, rebuild, tmp_path):
    run("init", tmp_path / "new").ok()
    run("-c", tmp_path / "new", "ns", "create", "theirs").ok()
    for words in ((), ("--dry-run",)):
        refused = rebuild(lake, *words)
        assert (refused.exit_code, refused.stdout) == (11, "")
        assert "is already a catalog with other objects" in refused.stderr
    assert run("-c", tmp_path / "new", "ns", "ls", "--json").json["namespaces"][0]["name"] == "theirs"
    run("-c", tmp_path / "new", "ns", "drop", "theirs").ok()
    assert [one["name"] for one in rebuild(lake).json["tables"]] == ["a.t"]
