"""Paths and locations from outside: arguments, a forged catalog, a table's own metadata.

They lead no command to read, write or delete files outside of its purpose. `SECURITY.md` has the list.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import FileKind, file_kind, root_path
from olympia_cli.format.pb.objects_pb2 import DistributedTransactionDef
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import Run, Sample, files_in
from tests.helpers.check import check_catalog
from tests.helpers.damage import rewrite_definition
from tests.helpers.names import table

UUID = "3f9a2c1e-8d54-4b1a-9c77-6b2a90d1f3e8"
MARK = "content-that-is-not-yours"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder beside the catalog."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "secret.txt").write_text(MARK)
    return folder


@pytest.fixture
def hostile(run: Run, damageable: Sample) -> Run:
    """Run the program on a sample that a test makes hostile."""
    return lambda *args, **more: run("-c", damageable.uri, *args, **more)


def set_properties(store: LocalStore, **properties: str) -> None:
    """Write properties into every catalog definition, past every check."""

    def change(definition: Any) -> None:
        for key, value in properties.items():
            definition.properties[key.replace("__", ".")] = value

    for file in store.list("def/catalog/"):
        rewrite_definition(store, file.path, change)


def any_of(store: LocalStore, prefix: str) -> str:
    return min(file.path for file in store.list(prefix))


class TestExpire:
    """A purge deletes what the catalog itself names. That is the most dangerous door."""

    NAMED = ("node", "latest root", "vn/latest", "def/table/", "dtxn/", "README", "data/ns/t/x", "../victim/secret.txt",
             "/etc/hostname", "ops/last-fsck.json", "ops/aside/x", "node/../../victim/secret.txt", "")  # fmt: skip

    @pytest.fixture
    def folder(self, damageable: Sample, hostile: Run, victim: Path) -> Path:
        folder = damageable.folder
        (folder / "data/ns/t").mkdir(parents=True)
        (folder / "data/ns/t/x").write_text("rows")
        (folder / "README").write_text("mine")
        hostile("fsck").ok()
        return folder

    def named(self, store: LocalStore, name: str) -> str:
        if name == "latest root":
            return root_path(Catalog(store).snapshot().version)
        if name == "node":
            # what a distributed transaction staged
            return any_of(store, "node/")
        return any_of(store, name) if name.endswith("/") else name

    @pytest.mark.parametrize("name", NAMED)
    def test_a_mark_that_calls_another_file_its_manifest(self, hostile: Run, folder: Path, name: str) -> None:
        store = LocalStore(folder)
        path = self.named(store, name)
        marks = [{"version": 2, "oldest": 2, "former_oldest": 0, "manifest": path}]
        set_properties(store, olympia__expire__oldest="2", olympia__expire__quarantine=json.dumps(marks))
        before = files_in(folder.parent)
        for words in (["expire", "ls"], ["expire", "purge", "--offline", "--yes", "--dry-run"]):
            hostile(*words)
        hostile("expire", "purge", "--offline", "--yes").ok()
        assert before.keys() - files_in(folder.parent).keys() == set()

    @pytest.mark.parametrize("name", [*NAMED, f"../.tmp-{UUID}", f"x/../../.tmp-{UUID}"])
    def test_purge_keeps_foreign_files_that_a_forged_manifest_names(
        self, hostile: Run, folder: Path, name: str
    ) -> None:
        store = LocalStore(folder)
        hostile("expire", "--keep-last", "2", "--offline", "--yes", "--grace", "0s", "--quarantine", "0s").ok()
        manifest, path = any_of(store, "ops/expire/"), self.named(store, name)
        document = json.loads(store.read(manifest))
        gone = {file["path"] for file in document["files"]} | {manifest}
        document["files"].append({"path": path, "bytes": 1, "kind": file_kind(path).value})
        store.overwrite(manifest, json.dumps(document).encode())
        if ".tmp-" in path:
            (folder.parent / Path(path).name).write_text("of another program")
        before = files_in(folder.parent)
        hostile("expire", "purge", "--offline", "--yes")
        lost = {path.removeprefix("catalog/") for path in before.keys() - files_in(folder.parent).keys()}
        assert lost <= gone
        check_catalog(store)

    def test_a_plan_file_that_names_more_than_is_planned(self, hostile: Run, folder: Path, tmp_path: Path) -> None:
        plan = tmp_path / "plan.json"
        words = ["expire", "--keep-last", "2", "--offline", "--grace", "0s", "--quarantine", "0s"]
        hostile(*words, "--plan", plan).ok()
        document = json.loads(plan.read_text())
        named = [self.named(LocalStore(folder), name) for name in self.NAMED]
        document["mark"]["files"] += [{"path": path, "bytes": 1, "kind": "node"} for path in named]
        document["purge"]["files"] += document["mark"]["files"]
        plan.write_text(json.dumps(document))
        hostile("expire", "--apply", plan, "--offline", "--yes")
        before = files_in(folder.parent)
        hostile("expire", "purge", "--offline", "--yes")
        lost = before.keys() - files_in(folder.parent).keys()
        assert {file_kind(path.removeprefix("catalog/")) for path in lost} <= {FileKind.NODE, FileKind.OPERATION}
        check_catalog(LocalStore(folder))


class TestLinks:
    """A catalog on a local disk with foreign links in it."""

    COMMANDS = (
        "status", "log", "table ls", "fsck --level full --all-versions", "fsck --repair --yes",
        "fsck --repair --yes --prefer rollback", "fsck --salvage DEST/salvaged", "ns create more",
        "expire --keep-last 1 --offline --yes --grace 0s", "expire purge --offline --yes", "expire undo --yes",
        "txn begin", "txn abort TXN --yes", "export create friday --dest DEST/friday",
        "export drop friday --yes --delete-files", "compact", "doctor", "dump-node latest", "tree", "rollback v2 --yes",
        "catalog alter --set a=b",
    )  # fmt: skip

    def run_all(self, hostile: Run, sample: Sample, dest: Path) -> None:
        for command in self.COMMANDS:
            words = command.replace("DEST", str(dest)).replace("TXN", sample.transaction).split()
            assert hostile(*words).exit_code != 1, command

    @pytest.mark.parametrize("folder", ["vn", "node", "def", "def/table", "def/catalog", "dtxn", "ops", "data"])
    def test_a_folder_that_is_elsewhere(
        self, hostile: Run, damageable: Sample, victim: Path, tmp_path: Path, folder: str
    ) -> None:
        hostile("fsck").ok()
        (damageable.folder / "data").mkdir()
        (damageable.folder / folder).rename(victim / "moved")
        os.symlink(victim / "moved", damageable.folder / folder)
        before = files_in(victim)
        self.run_all(hostile, damageable, tmp_path)
        assert files_in(victim) == before

    def test_files_that_are_elsewhere(self, hostile: Run, damageable: Sample, victim: Path, tmp_path: Path) -> None:
        hostile("fsck").ok()
        for path in ["vn/latest", "vn/oldest", root_path(3), "ops/last-fsck.json", "ops/last-expire.json",
                     any_of(damageable.store, "def/table/"), any_of(damageable.store, "node/")]:  # fmt: skip
            target = victim / path.replace("/", "-")
            target.write_bytes((damageable.folder / path).read_bytes() if (damageable.folder / path).exists() else b"1")
            (damageable.folder / path).unlink(missing_ok=True)
            os.symlink(target, damageable.folder / path)
        before = files_in(victim)
        self.run_all(hostile, damageable, tmp_path)
        assert files_in(victim) == before


class TestExports:
    def test_a_copy_of_a_catalog_does_not_delete_the_exports_of_the_original(
        self, run: Run, sample: Sample, tmp_path: Path
    ) -> None:
        run("-c", sample.uri, "export", "create", "friday", "--dest", tmp_path / "friday").ok()
        shutil.copytree(sample.folder, tmp_path / "copy")
        done = run("-c", tmp_path / "copy", "export", "drop", "friday", "--delete-files", "--yes")
        done.failed(12, "the catalog at", str(sample.folder))
        check_catalog(LocalStore(tmp_path / "friday"))
        run("-c", tmp_path / "copy", "export", "drop", "friday", "--yes").ok()
        # by another way it is the same catalog
        os.symlink(sample.folder, tmp_path / "link")
        run("-c", tmp_path / "link", "export", "drop", "friday", "--delete-files", "--yes").ok()
        assert files_in(tmp_path / "friday") == {}

    def test_a_record_that_names_another_place(self, hostile: Run, damageable: Sample, tmp_path: Path) -> None:
        """The record names another catalog, the catalog itself, or no catalog."""
        store, other = damageable.store, Catalog.create(LocalStore(tmp_path / "other"))
        hostile("export", "create", "friday", "--dest", tmp_path / "friday").ok()
        # an export that became a catalog has the note still
        (damageable.folder / "ops").mkdir(exist_ok=True)
        shutil.copy(tmp_path / "friday/ops/export.json", damageable.folder / "ops/export.json")
        (tmp_path / "files").mkdir()
        (tmp_path / "files/mine").write_text("mine")
        version = json.loads((tmp_path / "friday/ops/export.json").read_text())["version"]
        for place in (damageable.folder, tmp_path / "other", tmp_path / "files", tmp_path, "/"):
            for path in [file.path for file in store.list("def/catalog/")]:
                root = f"file://{place}/{root_path(version)}"
                rewrite_definition(store, path, lambda one, root=root: one.exported_snapshots.update(friday=root))
            before = files_in(tmp_path)
            done = hostile("export", "drop", "friday", "--delete-files", "--yes")
            assert done.exit_code in (10, 12, 40), done.stderr
            assert files_in(tmp_path) == before
        assert other.snapshot().version == 0

    @pytest.mark.parametrize("command", ["export create friday --dest", "fsck --salvage"])
    def test_a_copy_goes_to_a_place_of_its_own(
        self, olympia: Run, sample: Sample, tmp_path: Path, command: str
    ) -> None:
        os.symlink(sample.folder, tmp_path / "link")
        Catalog.create(LocalStore(tmp_path / "other"))
        before = files_in(tmp_path)
        inside = [sample.folder, f"{sample.uri}/", f"{sample.uri}/data/x", f"{sample.uri}/vn", tmp_path / "link/vn/x",
                  f"{tmp_path}/x/../catalog/ops", tmp_path, tmp_path / "other", f"file://{sample.uri}/vn"]  # fmt: skip
        for dest in inside:
            done = olympia(*command.split(), dest)
            assert done.exit_code in (2, 11), (dest, done.stderr)
        assert {path: data for path, data in files_in(tmp_path).items() if "ops/last" not in path} == before

    def test_a_rebuilt_catalog_is_not_inside_the_old_one(self, run: Run, damageable: Sample) -> None:
        shutil.rmtree(damageable.folder / "vn")
        before = files_in(damageable.folder)
        run("-c", damageable.folder / "node/new", "rebuild", damageable.folder).failed(2, "lies inside the catalog")
        assert files_in(damageable.folder) == before


class TestOutputs:
    @pytest.mark.parametrize(
        "command",
        [
            "fsck --report", "fsck --bundle", "expire --keep-last 2 --plan", "log --html", "tree --svg",
            "table files --to",
        ],
    )  # fmt: skip
    def test_no_output_is_among_the_files_of_the_catalog(
        self, olympia: Run, sample: Sample, tmp_path: Path, command: str
    ) -> None:
        os.symlink(sample.folder, tmp_path / "link")
        before = files_in(sample.folder)
        for path in ("vn/latest", root_path(7), root_path(8), "node/x", "def/table/x", "dtxn/x", "ops/x"):
            for top in (sample.folder, tmp_path / "link", f"{tmp_path}/x/../catalog"):
                olympia(*command.split(), f"{top}/{path}").failed(2, "among the files of the catalog")
        assert files_in(sample.folder) == before


class TestTransactions:
    @pytest.mark.parametrize("id", ["../x", "..", "/etc/passwd", "dtxn/x", "*", ""])
    def test_an_id_is_no_path(self, olympia: Run, id: str) -> None:
        for words in (["ns", "create", "x", "--txn", id], ["txn", "show", id], ["txn", "commit", id]):
            assert olympia(*words).exit_code in (2, 10), words
        assert olympia("txn", "abort", id, "--yes").exit_code in (2, 10)

    @pytest.mark.parametrize("running", ["../victim/secret.txt", "/etc/passwd", "data/x", "def/../../x", "vn/latest"])
    def test_a_save_that_names_a_file_of_others(
        self, hostile: Run, damageable: Sample, victim: Path, tmp_path: Path, running: str
    ) -> None:
        store, id = damageable.store, damageable.transaction
        saved = DistributedTransactionDef.FromString(store.read(any_of(store, f"dtxn/{id}.1")))
        saved.running_root_node_file_path = running
        store.create(f"dtxn/{id}.2.binpb", saved.SerializeToString())
        before = files_in(tmp_path)
        for words in ("txn show ID", "ns create x --txn ID", "txn commit ID", "expire --keep-last 1 --offline --yes"):
            done = hostile(*words.replace("ID", id).split())
            assert (done.exit_code in (0, 12, 40), MARK in done.stdout + done.stderr) == (True, False), words
        hostile("txn", "abort", id, "--yes").ok()
        lost = before.keys() - files_in(tmp_path).keys()
        assert lost == set()


class TestTables:
    """Forged metadata, as every user can write it who may write into the folder of a table."""

    Change = Callable[[dict[str, Any]], None]

    @pytest.fixture
    def lake(self, run: Run, tmp_path: Path) -> Run:
        run("init", "lake").ok()
        run("-c", "lake", "ns", "create", "ns").ok()
        run("-c", "lake", "table", "create", "ns.t", "--schema", "id long").ok()
        (tmp_path / "rows.csv").write_text("id\n1\n")
        run("-c", "lake", "table", "append", "ns.t", "rows.csv").ok()
        return lambda *args, **more: run("-c", "lake", *args, **more)

    def change(self, lake: Run, change: Change) -> None:
        path = Path(lake("table", "show", "ns.t", "--json").ok().json["metadata_location"])
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    LOOKS = ("table show ns.t --schema", "table head ns.t", "table files ns.t", "table files --schemas",
             "fsck --level data --all-versions", "log -p")  # fmt: skip

    @pytest.mark.parametrize("key", ["py-io-impl", "py-catalog-impl", "write.py-location-provider.impl"])
    def test_a_property_that_names_code(
        self, lake: Run, victim: Path, monkeypatch: pytest.MonkeyPatch, key: str
    ) -> None:
        """PyIceberg calls what it names with the table's location: shutil.rmtree deletes a folder."""
        loaded = []
        monkeypatch.setattr(shutil, "rmtree", lambda *args, **more: loaded.append(args))

        def hostile(metadata: dict[str, Any]) -> None:
            metadata["location"] = str(victim)
            metadata["properties"] = {key: "shutil.rmtree"}

        looks = [command.split() for command in (*self.LOOKS, "table append ns.t rows.csv")]
        for command in (*looks, ["table", "alter", "ns.t", "--add-column", "x long"]):
            self.change(lake, hostile)
            lake(*command)
            assert (loaded, (victim / "secret.txt").exists()) == ([], True), command
        # an unwanted property can be removed, and then the table works like any other
        if key == "write.py-location-provider.impl":
            lake("table", "append", "ns.t", "rows.csv").failed(12, "names code to load")
        lake("table", "alter", "ns.t", "--unset-iceberg", key).ok()
        lake("table", "append", "ns.t", "rows.csv").ok()
        assert loaded == []

    def test_properties_that_name_an_endpoint(self, lake: Run) -> None:
        """Credentials go to the endpoint of the settings alone."""
        names = ("s3.endpoint", "gcs.service.host", "s3.signer.uri", "s3.proxy-uri", "adls.account-host")
        self.change(lake, lambda metadata: metadata["properties"].update(dict.fromkeys(names, "http://127.0.0.1:1")))
        from olympia_cli.iceberg import OlympiaCatalog

        catalog = OlympiaCatalog("lake", warehouse="lake", **{"s3.endpoint": "http://127.0.0.1:2"})
        opened = catalog.load_table("ns.t").io.properties
        assert {opened.get(name) for name in names} == {None, "http://127.0.0.1:2"}

    @pytest.mark.parametrize("place", ["secret.txt", "fifo", "folder", "nothing", "../victim/secret.txt", "link"])
    @pytest.mark.parametrize("key", ["manifest-list", "manifests", "statistics-path", "metadata-file"])
    def test_files_that_are_no_part_of_it(self, lake: Run, victim: Path, key: str, place: str) -> None:
        """Local files may be read with the rights of the user.

        Their content is not shown, and no pipe blocks the command.
        """
        os.mkfifo(victim / "fifo")
        (victim / "folder").mkdir()
        os.symlink(victim / "secret.txt", victim / "link")
        location = str(victim / place)

        def hostile(metadata: dict[str, Any]) -> None:
            for snapshot in metadata["snapshots"]:
                if key == "manifests":
                    del snapshot["manifest-list"]
                    snapshot["manifests"] = [location]
                elif key == "manifest-list":
                    snapshot["manifest-list"] = location
            if key == "statistics-path":
                metadata["statistics"] = [{"snapshot-id": metadata["current-snapshot-id"], key: location,
                    "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}]  # fmt: skip
            if key == "metadata-file":
                metadata["metadata-log"] = [{"timestamp-ms": 1, key: location}]

        self.change(lake, hostile)
        before = files_in(victim)
        for command in (*self.LOOKS, "table append ns.t rows.csv"):
            # PyIceberg waits for the other end of a pipe
            if place != "fifo" or command not in ("table head ns.t", "table append ns.t rows.csv"):
                done = lake(*command.split())
                assert MARK not in done.stdout + done.stderr, command
        assert files_in(victim) == before

    def test_append_deletes_no_files_of_a_forged_metadata_log(self, lake: Run, victim: Path) -> None:
        def hostile(metadata: dict[str, Any]) -> None:
            log = [{"timestamp-ms": at, "metadata-file": str(victim / "secret.txt")} for at in range(5)]
            metadata["metadata-log"] = log
            wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
            metadata["properties"].update(wanted)

        for _ in range(3):
            self.change(lake, hostile)
            lake("table", "append", "ns.t", "rows.csv").ok()
        assert (victim / "secret.txt").exists()

    @pytest.mark.parametrize("key", ["location", "write.data.path", "write.metadata.path"])
    def test_metadata_that_names_the_files_of_the_catalog(self, lake: Run, tmp_path: Path, key: str) -> None:
        """A folder at the name of the next version would stop all commits."""
        version = lake("table", "show", "ns.t", "--json").ok().json["version"]
        place = str(tmp_path / "lake" / root_path(version + 1))

        def hostile(metadata: dict[str, Any]) -> None:
            if key == "location":
                metadata["location"] = place
            else:
                metadata["properties"][key] = place

        self.change(lake, hostile)
        lake("table", "append", "ns.t", "rows.csv").failed(12, "catalog's own files")
        if key != "location":
            lake("table", "alter", "ns.t", "--unset-iceberg", key).ok()
            lake("table", "append", "ns.t", "rows.csv").ok()
        lake("ns", "create", "more").ok()

    def test_a_table_location_among_catalog_files_is_refused(self, lake: Run, tmp_path: Path) -> None:
        place = tmp_path / "lake" / root_path(4)
        words = ["table", "create", "ns.u", "--schema", "id long"]
        lake(*words, "--location", place).failed(12, "catalog's own files")
        lake(*words, "--property", f"write.metadata.path={place}").failed(12, "catalog's own files")
        lake("catalog", "alter", "--set", f"olympia.table-location={tmp_path}/lake/vn").ok()
        lake(*words).failed(12, "catalog's own files")
        lake("ns", "create", "more").ok()


class TestSources:
    def test_a_catalog_of_others_loads_no_code(
        self, run: Run, victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = SqlCatalog("old", uri=f"sqlite:///{tmp_path}/old.db", warehouse=f"file://{tmp_path}/old")
        source.create_namespace("a")
        location = source.create_table("a.t", Schema()).metadata_location.removeprefix("file://")
        source.engine.dispose()
        document = json.loads(Path(location).read_text())
        document["properties"]["py-io-impl"] = "shutil.rmtree"
        Path(location).write_text(json.dumps(document))
        loaded = []
        monkeypatch.setattr(shutil, "rmtree", lambda *args, **more: loaded.append(args))
        run("init", "lake").ok()
        words = ["--property", "type=sql", "--property", f"uri=sqlite:///{tmp_path}/old.db"]
        run("-c", "lake", "import", "iceberg", "old", *words).ok()
        assert loaded == []

    @pytest.mark.parametrize("folder", ["victim", "~", "", "/", "file://VICTIM%2F..", "file://VICTIM?"])
    def test_rebuild_looks_into_no_folder_that_a_location_does_not_name(
        self, run: Run, damageable: Sample, victim: Path, tmp_path: Path, folder: str
    ) -> None:
        """A location is read literally, and one that is relative or of a whole disk is none to go on from."""
        monkey = folder.replace("VICTIM", str(victim))
        location = f"{monkey}/00001-x.metadata.json"
        with damageable.catalog.transaction() as transaction:
            transaction.create_table(table("sales.followed"), location)
        metadata = {"format-version": 2, "location": MARK, "last-column-id": 1,
                    "metadata-log": [{"metadata-file": location}]}  # fmt: skip
        (Path(os.environ["HOME"]) / "00002-x.metadata.json").write_text(json.dumps(metadata))
        (victim / "00002-x.metadata.json").write_text(json.dumps(metadata))
        (tmp_path / "00002-x.metadata.json").write_text(json.dumps(metadata))
        shutil.rmtree(damageable.folder / "vn")
        done = run("-c", tmp_path / "new", "rebuild", damageable.folder, "--json")
        assert done.exit_code in (0, 3), done.stderr
        shown = run("-c", tmp_path / "new", "table", "show", "sales.followed", "--json").ok().json
        assert shown["metadata_location"] == location

    def test_a_link_in_a_folder_of_tables(self, run: Run, victim: Path, tmp_path: Path) -> None:
        metadata = {"format-version": 2, "location": MARK, "last-column-id": 1}
        (victim / "m.json").write_text(json.dumps(metadata))
        for folder in ("raw/a/linked", "raw/a/fine"):
            (tmp_path / folder / "metadata").mkdir(parents=True)
        os.symlink(victim / "m.json", tmp_path / "raw/a/linked/metadata/v1.metadata.json")
        (tmp_path / "raw/a/fine/metadata/v1.metadata.json").write_text(json.dumps(metadata))
        run("init", "lake").ok()
        done = run("-c", "lake", "import", "iceberg", "raw/", "--json")
        assert done.exit_code == 3
        assert [one["name"] for one in done.json["tables"]] == ["a.fine"]
        assert [one["what"] for one in done.json["problems"]] == ["a/linked"]

    def test_names_of_files_are_literal(self, run: Run, tmp_path: Path) -> None:
        """To a parser of URLs `a` and `a#b.parquet` are one file."""
        folder = tmp_path / "raw/a/t"
        folder.mkdir(parents=True)
        for name, rows in (("a#b.parquet", [1, 2]), ("a?b.parquet", [3]), ("a%20b.parquet", [4])):
            pq.write_table(pa.table({"id": rows}), folder / name)
        pq.write_table(pa.table({"salary": [1.5]}), folder / "a")
        run("init", "lake").ok()
        done = run("-c", "lake", "import", "parquet", "raw", "--json").ok().json
        assert [(one["name"], one["files"], one["rows"]) for one in done["tables"]] == [("a.t", 3, 4)]
        shown = run("-c", "lake", "table", "show", "a.t", "--schema").ok().stdout
        assert ("id" in shown, "salary" in shown) == (True, False)
        run("-c", "lake", "fsck", "--level", "data").ok()

    def test_metadata_is_verified_where_the_location_is(self, olympia: Run, tmp_path: Path) -> None:
        """`%20` is part of a name there."""
        metadata = {"format-version": 2, "location": "/t", "last-column-id": 1}
        (tmp_path / "a b").mkdir()
        (tmp_path / "a b/x.json").write_text(json.dumps(metadata))
        register = ["table", "register", "sales.v", "--verify", "--metadata-location"]
        olympia(*register, f"file://{tmp_path}/a%20b/x.json").failed(10, "no metadata at")
        olympia(*register, f"file://{tmp_path}/a b/x.json").ok()


def test_names_lead_nowhere(olympia: Run, sample: Sample, tmp_path: Path) -> None:
    """Names of objects and exports are parts of paths only when they are escaped."""
    before = set(files_in(tmp_path))
    for number, name in enumerate(("..", "../..", "/etc", "a/../../b", ".", "~", "\\..\\..")):
        olympia("ns", "create", name).ok()
        olympia("table", "register", f'"{name}"."{name}"', "--metadata-location", "s3://x/y.json").ok()
        olympia("table", "create", f'"{name}".real', "--schema", "id long").ok()
        olympia("export", "create", name, "--dest", tmp_path / f"copy-{number}").ok()
    came = set(files_in(tmp_path)) - before
    places = {path.partition("/")[0] for path in came}
    assert {place for place in places if not place.startswith("copy-")} == {"catalog"}
    assert all(part != ".." for path in came for part in path.split("/"))


def test_targets_of_dump_node_stay_in_the_catalog(olympia: Run, victim: Path) -> None:
    for target in (
        "vn/../../victim/secret.txt",
        "node/../../victim/secret.txt",
        "vn/",
        "node//etc/passwd",
        "vn/%2e%2e",
    ):
        done = olympia("dump-node", target)
        assert (done.exit_code in (2, 10, 40), MARK in done.stdout + done.stderr) == (True, False), target
