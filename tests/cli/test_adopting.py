"""All kinds of import: what they print, what they refuse, what they make of sources that are no good."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.storage.local import LocalStore
from tests.helpers.adopting import write_parquet
from tests.helpers.iox_catalog import IoxCatalog, rows
from tests.helpers.names import ns, table
from tests.helpers.sdk_catalogs import ODD, SMALL, TXN, unpack

PROMISED = {"version": int, "namespaces": int, "tables": list, "problems": list}


@pytest.fixture
def here(run, empty):
    return lambda *words: run("-c", empty, *words)


@pytest.fixture
def other(tmp_path):
    """A catalog of ours, with a.t and a.u."""
    catalog = Catalog.create(LocalStore(str(tmp_path / "other")))
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for name in ("a.t", "a.u"):
            transaction.create_table(table(name), f"s3://b/{name}.json")
    return tmp_path / "other"


@pytest.fixture
def sources(other, tmp_path):
    """For each kind of import a source of two tables, of which one cannot be brought: the words, and what is wrong."""
    [lost] = (other / "def" / "table").glob("*-a-u.binpb")
    lost.write_bytes(b"junk")
    write_parquet(tmp_path / "raw" / "t" / "a.parquet", v=[1, 2])
    (tmp_path / "raw" / "u").mkdir()
    (tmp_path / "raw" / "u" / "b.parquet").write_bytes(b"PAR1")
    shutil.copytree(other / "def", tmp_path / "gone" / "def")
    iox = IoxCatalog(tmp_path / "iox")
    whole, lost = iox.data("t", rows([1, 2], v=[1, 2])), iox.data("u", rows([1], v=[1]), write=False)
    iox.commit(iox.add(whole), iox.add(lost))
    return {
        "iox": ("import", "iox", iox.folder),
        "olympia": ("import", "olympia", other),
        "parquet": ("import", "parquet", tmp_path / "raw"),
        "rebuild": ("rebuild", tmp_path / "gone"),
    }


class TestTheShape:
    @pytest.mark.parametrize("kind", ["olympia", "parquet", "iox", "rebuild"])
    @pytest.mark.parametrize("dry", [False, True])
    def test_it_is_the_one_that_is_promised(self, run, tmp_path, sources, kind, dry):
        place = tmp_path / "new"
        if kind != "rebuild":
            run("init", place).ok()
        done = run("-c", place, *sources[kind], "--json", *(["--dry-run"] if dry else []))
        assert done.exit_code == 3
        assert {name: type(done.json[name]) for name in PROMISED} == PROMISED
        [found] = done.json["tables"]
        assert list(found) == [
            "name",
            "source",
            "files",
            "rows",
            "skipped",
            "change",
            "bytes",
            "columns",
        ]
        assert found["name"] == {"parquet": "raw.t", "iox": "iox.t"}.get(kind, "a.t")
        assert (found["files"], found["rows"]) == ((1, 2) if kind in ("parquet", "iox") else (None, None))
        [problem] = done.json["problems"]
        assert list(problem) == ["what", "why"]
        assert done.json["version"] == (0 if dry else 1)
        assert done.json["dry_run"] is dry
        assert json.loads(done.stderr.splitlines()[-1])["error"]["exit_code"] == 3

    @pytest.mark.parametrize("kind", ["olympia", "parquet", "iox", "rebuild"])
    def test_the_second_time_nothing_changes(self, run, tmp_path, sources, kind):
        place = tmp_path / "new"
        if kind != "rebuild":
            run("init", place).ok()
        first = run("-c", place, *sources[kind], "--json")
        files = sorted(path for path in place.rglob("*") if path.is_file())
        second = run("-c", place, *sources[kind], "--json")
        assert second.exit_code == 3
        assert (second.json["version"], second.json["tables"], second.json["namespaces"]) == (1, [], 0)
        assert second.json["problems"] == first.json["problems"]
        assert sorted(path for path in place.rglob("*") if path.is_file()) == files
        run("-c", place, "fsck", "--level", "full", "--all-versions").ok()


class TestWhatAnImportKeeps:
    @pytest.mark.parametrize("key", ["olympia.import.name", "olympia.import.parquet", "olympia.import.x"])
    def test_import_properties_cannot_be_set_by_commands(self, run, here, key, tmp_path):
        here("ns", "create", "a").ok()
        here("table", "register", "a.t", "--metadata-location", "s3://b/m.json").ok()
        given = f"{key}=1"
        for words in (
            ("catalog", "alter", "--set", given),
            ("catalog", "alter", "--unset", key),
            ("ns", "create", "b", "--property", given),
            ("ns", "alter", "a", "--set", given),
            ("table", "register", "a.u", "--metadata-location", "s3://b/m.json", "--property", given),
            ("table", "alter", "a.t", "--set", given),
            ("view", "create", "a.v", "--plan", "plan", "--property", given),
        ):
            (tmp_path / "plan").write_bytes(b"plan")
            here(*words).failed(2, "is kept by the program itself")
        run("init", tmp_path / "x", "--property", given).failed(2, "is kept by the program itself")
        assert here("log", "--json").ok().json["versions"][0]["version"] == 2

    def test_a_view_that_is_replaced_keeps_its_former_name(self, here, run, tmp_path):
        folder, _ = unpack(ODD, tmp_path)
        here("import", "olympia", folder, "--into", "old")
        before = here("view", "show", "old.v", "--json").ok().json["properties"]
        assert before["olympia.import.name"] == "my ns.v"
        (tmp_path / "plan").write_bytes(b"another plan")
        here("view", "replace", "old.v", "--plan", tmp_path / "plan", "--property", "k=v").ok()
        after = here("view", "show", "old.v", "--json").json["properties"]
        assert after == {"k": "v", "olympia.import.name": "my ns.v"}
        again = ("view", "replace", "old.v", "--plan", tmp_path / "plan", "--property")
        here(*again, "olympia.import.name=my ns.v").ok()
        here(*again, "olympia.import.name=mine").failed(2, "is kept by the program itself")

    def test_a_rebuild_of_a_catalog_with_notes(self, run, tmp_path):
        """The notes are not the new catalog's: what was brought is compared once more, and found as it is."""
        folder, lake = unpack(ODD, tmp_path)[0], tmp_path / "lake"
        run("init", lake).ok()
        run("-c", lake, "import", "olympia", folder).ok()
        noted = run("-c", lake, "catalog", "show", "--json").json["properties"]
        assert [key for key in noted if key.startswith("olympia.import.")]
        before = run("-c", lake, "table", "ls", "--json").json["tables"]
        lose_tree(lake)
        new = tmp_path / "new"
        done = run("-c", new, "rebuild", lake, "--json")
        assert done.exit_code in (0, 3)
        assert run("-c", new, "catalog", "show", "--json").json["properties"] == {}
        assert run("-c", new, "table", "ls", "--json").json["tables"] == before
        shown = run("-c", new, "table", "show", "plain.my%20table", "--json").json
        assert shown["properties"]["olympia.import.name"] == "plain.my table"
        again = run("-c", new, "import", "olympia", folder, "--json").ok().json
        assert (again["tables"], again["problems"], again["views"]) == ([], [], 0)

    def test_a_legal_name_of_a_catalog_of_ours_stays(self, run, other, here):
        run("-c", other, "table", "rename", "a.t", "a.my%20t").ok()
        done = here("import", "olympia", other, "--json").ok().json
        assert ([one["name"] for one in done["tables"]], done["renamed"]) == (["a.my%20t", "a.u"], [])


class TestAdvice:
    def test_an_older_version_and_another_way(self, run, here, tmp_path):
        folder, _ = unpack(SMALL, tmp_path)
        here("import", "olympia", folder, "--at", "v20", "--into", "old")
        error = here("import", "olympia", folder, "--at", "v3", "--into", "old").failed(2, "and 3 is older").stderr
        assert error.rstrip().endswith("leave out --at, or name a version from 20 on")
        assert here("import", "olympia", folder, "--at", "v20", "--into", "old", "--json").json["version"] == 1
        error = here("import", "olympia", folder).failed(2, "imported --into old before").stderr
        assert error.rstrip().endswith("import it in the same way again")
        assert here("import", "olympia", folder, "--into", "old", "--json").json["version"] == 2

    def test_rebuild_from_a_catalog_with_versions_advises_fsck(self, run, other, tmp_path):
        error = run("-c", tmp_path / "new", "rebuild", other).failed(12, "has versions of its own").stderr
        run(*shlex.split(error.rpartition("olympia ")[2])).ok()


def lose_tree(folder):
    for name in ("vn", "node"):
        shutil.rmtree(folder / name, ignore_errors=True)


def enormous(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(2**40)


class TestBadSources:
    """Damaged, half-written, foreign, enormous, empty."""

    @pytest.fixture
    def java(self, tmp_path):
        return unpack(TXN, tmp_path)[0]

    @staticmethod
    def latest(folder):
        return folder / "vn" / max((path.name for path in (folder / "vn").glob("?" * 64)), key=lambda name: name[::-1])

    def spoil(self, java, how):
        root = self.latest(java)
        if how == "a root of junk":
            root.write_bytes(b"ARROW1 junk ARROW1")
        elif how == "half a root":
            root.write_bytes(root.read_bytes()[:300])
        elif how == "an empty root":
            root.write_bytes(b"")
        elif how == "an enormous root":
            enormous(root)
        elif how == "no definition of the catalog":
            shutil.rmtree(java / "def" / "catalog")
        elif how == "an enormous definition of the catalog":
            for path in (java / "def" / "catalog").iterdir():
                enormous(path)

    @pytest.mark.parametrize(
        "how",
        [
            "a root of junk",
            "half a root",
            "an empty root",
            "an enormous root",
            "no definition of the catalog",
            "an enormous definition of the catalog",
        ],
    )
    def test_a_catalog_that_cannot_be_opened(self, here, java, how):
        self.spoil(java, how)
        done = here("import", "olympia", java)
        assert done.exit_code in (40, 41, 50), done.stderr
        assert done.stderr.splitlines()[-1].startswith("error: ")
        assert here("ns", "ls", "--json").json == {"version": 0, "namespaces": []}
        assert here("import", "olympia", java, "--check", "--json").exit_code == 50

    @pytest.mark.parametrize("how", ["junk", "half", "empty", "enormous", "missing"])
    def test_a_definition_that_cannot_be_read_is_left_out(self, here, java, how):
        [path] = (java / "def" / "table").glob("*-n-t1.binpb")
        if how == "enormous":
            enormous(path)
        elif how == "missing":
            path.unlink()
        else:
            path.write_bytes({"junk": b"junk", "half": path.read_bytes()[:-1], "empty": b""}[how])
        done = here("import", "olympia", java, "--json")
        assert done.exit_code == 3
        assert [one["what"] for one in done.json["problems"]] == ["table n.t1"]
        assert [one["name"] for one in done.json["tables"]] == ["n.t2"]

    @pytest.mark.parametrize("history", [(), ("--history",)])
    def test_damage_that_is_met_on_the_way_is_looked_at_where_it_is(self, run, here, tmp_path, history):
        there = tmp_path / "there"
        catalog = Catalog.create(LocalStore(str(there)), order=4)
        with catalog.transaction() as transaction:
            for number in range(20):
                transaction.create_namespace(ns(f"n{number:02}"))
        next((there / "node").glob("**/*.arrow")).unlink()
        done = here("import", "olympia", there, *history)
        assert done.exit_code == 40
        words = shlex.split(done.stderr.splitlines()[-1].rpartition(": ")[2])
        assert words == ["olympia", "-c", str(there), "fsck"]
        assert run(*words[1:]).exit_code == 50
        assert here("ns", "ls", "--json").json["namespaces"] == []

    @pytest.mark.parametrize("words", ["import olympia", "import olympia --inspect", "rebuild"])
    @pytest.mark.parametrize("what", ["nothing", "an empty folder", "a file", "other files", "an Iceberg table"])
    def test_importing_a_source_without_a_catalog_changes_nothing(self, run, here, tmp_path, words, what):
        place = tmp_path / "source"
        if what == "a file":
            place.write_text("x")
        elif what != "nothing":
            place.mkdir()
        if what == "other files":
            (place / "def").write_text("x")
            (place / "vn").mkdir()
            (place / "vn" / "latest").write_text("12")
        if what == "an Iceberg table":
            (place / "metadata").mkdir()
            (place / "metadata" / "v1.metadata.json").write_text("{}")
        command, *options = words.split(" --")
        done = run("-c", tmp_path / "empty", *command.split(), place, *(f"--{one}" for one in options))
        assert done.exit_code in (10, 30, 40), done.stderr
        assert done.stderr.splitlines()[-1].startswith("error: ")
        assert here("ns", "ls", "--json").json == {"version": 0, "namespaces": []}

    def test_definitions_of_a_rebuild(self, run, other, tmp_path):
        lose_tree(other)
        [one] = (other / "def" / "table").glob("*-a-t.binpb")
        enormous(one.with_name(one.name.replace("a-t", "a-large")))
        one.with_name(one.name.replace("a-t", "a-half")).write_bytes(one.read_bytes()[:-1])
        one.with_name("x.binpb").write_bytes(b"")
        (other / "def" / "table" / "notes.txt").write_text("not a definition")
        (other / "def" / "strange").mkdir()
        (other / "def" / "strange" / "file").write_text("x")
        done = run("-c", tmp_path / "new", "rebuild", other, "--json")
        assert done.exit_code == 3
        assert [one["name"] for one in done.json["tables"]] == ["a.t", "a.u"]
        names = [one["what"].rpartition("/")[2] for one in done.json["problems"]]
        assert [name for name in names if name.endswith(("a-large.binpb", "a-half.binpb"))]
        assert {"x.binpb", "notes.txt"} <= set(names)

    @pytest.mark.parametrize(
        "location",
        ["", "m.json", "/m.json", "s3://", "file:///00001-x.metadata.json", "gopher://x/00001-x.metadata.json", "/"],
    )
    def test_odd_locations_in_a_rebuild(self, run, other, tmp_path, location):
        """The table comes back with what its definition says; nothing is looked for where nothing can be."""
        for path in (other / "def" / "table").glob("*-a-t.binpb"):
            definition = TableDef.FromString(path.read_bytes())
            path.unlink()
            plain = path.name[:14] + "4" + path.name[15:]
            fresh = TableDef(id=definition.id, iceberg_metadata_location=location)
            (path.parent / plain).write_bytes(fresh.SerializeToString())
        lose_tree(other)
        done = run("-c", tmp_path / "new", "rebuild", other, "--json")
        assert [one["name"] for one in done.json["tables"]] == ["a.t", "a.u"]
        shown = run("-c", tmp_path / "new", "table", "show", "a.t", "--json").ok().json
        assert (shown["metadata_location"] or "") == location

    def test_each_unreadable_parquet_file_is_reported(self, here, tmp_path):
        raw = tmp_path / "raw"
        whole = write_parquet(raw / "t" / "whole.parquet", v=[1]).read_bytes()
        enormous(raw / "t" / "enormous.parquet")
        (raw / "t" / "half.parquet").write_bytes(whole[: len(whole) // 2])
        (raw / "t" / "empty.parquet").write_bytes(b"")
        (raw / "t" / "foreign.parquet").write_bytes(b"id,name\n1,x\n")
        (raw / "t" / "line\nbreak.parquet").write_bytes(b"\0" * 100)
        (raw / "file").write_text("x")
        done = here("import", "parquet", raw, "--json")
        assert done.exit_code == 3
        assert sorted(one["what"] for one in done.json["problems"]) == [
            "t/empty.parquet",
            "t/enormous.parquet",
            "t/foreign.parquet",
            "t/half.parquet",
            "t/line\nbreak.parquet",
        ]
        assert [(one["name"], one["files"]) for one in done.json["tables"]] == [("raw.t", 1)]
        done = here("import", "parquet", raw / "file", "--json")
        assert done.exit_code != 0
        assert here("ns", "ls", "-o", "name").lines == ["raw"]


class TestTheSourceItself:
    """The damage of a source is reported with commands for the source, not for the target of the import."""

    def test_a_missing_source_is_reported_without_advice(self, run, empty, tmp_path):
        for words in ([], ["--check"], ["--inspect"]):
            said = run("-c", empty, "import", "olympia", tmp_path / "nowhere", *words, "--json").error
            assert (said["exit_code"], said.get("command")) == (10, None)

    def test_unreadable_latest_version_of_the_source_advises_fsck_there(self, run, empty, other):
        root = max(other.glob("vn/*0"), key=lambda path: path.name[::-1])
        root.write_bytes(b"junk")
        said = run("-c", empty, "import", "olympia", other, "--json").error
        assert said["exit_code"] == 40
        assert said["command"][1:3] == ["-c", str(other)]
        assert run(*said["command"][1:]).exit_code == 50
