"""The effects of each command on namespaces, tables, views and the catalog, and common behaviour of all commands."""

from __future__ import annotations

import os

import pytest

from olympia_cli import __version__
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.app import ALIASES
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import EMOJI
from tests.cli.racing import race
from tests.helpers.names import location, ns, table, view


def names(done) -> list[str]:
    return done.ok().lines


class TestInit:
    def test_options(self, run, tmp_path):
        run(
            *["init", tmp_path / "new", "--order", "16", "--namespace-name-max-bytes", "20"],
            *["--table-name-max-bytes", "30", "--view-name-max-bytes", "40", "--node-file-max-bytes", "100000"],
            *["--txn-ttl", "2h", "--isolation", "serializable", "--property", "owner=ann=1", "--property", "empty="],
            *["-m", "why not"],
        ).ok()
        shown = run("-c", tmp_path / "new", "catalog", "show", "--json").ok().json
        expected = {
            "order": 16,
            "namespace_name_max_bytes": 20,
            "table_name_max_bytes": 30,
            "view_name_max_bytes": 40,
            "node_file_max_bytes": 100_000,
            "txn_ttl_millis": 7_200_000,
            "isolation": "serializable",
            "properties": {"empty": "", "owner": "ann=1"},
        }
        assert {key: shown[key] for key in expected} == expected
        assert run("-c", tmp_path / "new", "log", "--json").ok().json["versions"][0]["message"] == "why not"
        run("-c", tmp_path / "new", "ns", "create", "n" * 21).failed(2)

    @pytest.mark.parametrize("value", ["olympia.retention.min-versions=none", "olympia.expire.oldest=3"])
    def test_it_refuses_the_properties_that_catalog_alter_refuses(self, run, tmp_path, value):
        run("init", tmp_path / "new", "--property", value).failed(2)

    def test_where(self, run, tmp_path, monkeypatch):
        """The argument, or -c, or the environment; the argument first."""
        run("init", "one", "-c", "two").ok()
        run("init", "-c", "two").ok()
        run("-c", "three", "init").ok()
        monkeypatch.setenv("OLYMPIA_CATALOG", "four")
        run("init").ok()
        run("init", "file://" + str(tmp_path / "fi%76e")).ok()
        assert {path.name for path in tmp_path.iterdir()} - {"home"} == {"one", "two", "three", "four", "five"}

    def test_if_not_exists(self, run, sample):
        assert run("init", sample.uri, "--if-not-exists").ok().stdout.startswith("v7  exists already")

    def test_a_home_folder(self, run):
        run("init", "~/mine").ok()
        assert os.path.isdir(os.path.expanduser("~/mine/vn"))
        run("-c", "~/mine", "ns", "ls").ok()


class TestNamespaces:
    def test_create_show_alter_rename_drop(self, olympia):
        assert olympia("ns", "create", "x", "--property", "a=1", "-m", "hello").ok().lines == [
            "v8  created namespace x"
        ]
        id = olympia("ns", "show", "x", "--json").ok().json["id"]
        olympia("ns", "alter", "x", "--set", "b=2", "--set", "c=x=y", "--unset", "a").ok()
        assert olympia("ns", "show", "x", "--json").ok().json["properties"] == {"b": "2", "c": "x=y"}
        assert olympia("ns", "rename", "x", "y").ok().lines == ["v10  renamed namespace x to y"]
        assert olympia("ns", "show", "y", "--json").ok().json["id"] == id
        assert olympia("ns", "drop", "y").ok().lines == ["v11  dropped namespace y"]
        assert names(olympia("ns", "ls")) == ["a.b", "sales", EMOJI]

    def test_the_argument_is_one_name_literally(self, olympia):
        for name in ('"a.b"', "a.b.c", "'", '"', "[red]", ":warning:", "%s", "*", "../..", "--x", "-n"):
            olympia("ns", "create", "--", name).ok()
            assert olympia("ns", "show", "--json", "--", name).ok().json["name"] == name
        olympia("ns", "show", '"a.b"').ok()

    def test_rename_of_a_namespace_keeps_its_tables_and_views(self, olympia):
        before = olympia("table", "show", "sales.lines", "--json").ok().json
        olympia("ns", "rename", "sales", "revenue").ok()
        after = olympia("table", "show", "revenue.lines", "--json").ok().json
        assert {**before, "namespace": "revenue", "version": 8} == after
        assert names(olympia("view", "ls", "-o", "name")) == ["revenue.open"]

    def test_cascade(self, olympia):
        done = olympia("ns", "drop", "sales", "--cascade", "--json").ok().json
        assert {one["type"] for one in done["actions"]} == {"TABLE_DROP", "VIEW_DROP", "NAMESPACE_DROP"}
        assert names(olympia("view", "ls")) == []

    def test_fields_for_a_pipe(self, olympia):
        lines = dict(line.split("\t") for line in olympia("ns", "show", "sales").ok().lines)
        assert (lines["name"], lines["properties.owner"], lines["version"]) == ("sales", "ann", "7")


class TestTables:
    def test_register_alter_rename_drop(self, olympia):
        register = ["table", "register", '"a.b".new', "--metadata-location"]
        assert olympia(*register, "s3://0", "--property", "k=v").ok().lines == ['v8  registered table "a.b".new']
        olympia("table", "alter", '"a.b".new', "--metadata-location", "s3://1", "--set", "x=y", "--unset", "k").ok()
        shown = olympia("table", "show", '"a.b".new', "--json").ok().json
        assert (shown["metadata_location"], shown["previous_metadata_location"]) == ("s3://1", "s3://0")
        assert shown["properties"] == {"x": "y"}
        olympia("table", "rename", '"a.b".new', "sales.new").ok()
        assert olympia("table", "show", "sales.new", "--json").ok().json["id"] == shown["id"]
        olympia("table", "drop", "sales.new").ok()
        assert "sales.new" not in names(olympia("table", "ls", "-o", "name"))

    def test_ls_of_a_namespace(self, olympia):
        assert names(olympia("table", "ls", "sales")) == ["sales\tlines", "sales\torders_2025"]
        assert len(names(olympia("table", "ls"))) == 5

    @pytest.mark.parametrize(
        "name", ['"a.b"."t.1"', '"a.b"."say""hi"""', f"{EMOJI}.表", '"sales".lines', '"sales"."lines"']
    )
    def test_names_in_quotes(self, olympia, name):
        olympia("table", "show", name).ok()
        olympia("table", "alter", name, "--set", "k=2").ok()
        olympia("table", "rename", name, "sales.renamed").ok()
        olympia("table", "drop", "sales.renamed").ok()

    @pytest.mark.parametrize("name", ["a.b.t", "a", ".t", "a.", '"a.b.t', '"a"b.t', "a..t", '"".t', 'a."b"c'])
    def test_names_that_are_none(self, olympia, name):
        olympia("table", "show", name).failed(2)


class TestViews:
    @pytest.fixture
    def plan(self, tmp_path):
        (tmp_path / "plan.binpb").write_bytes(b"\x00\xff plan")
        return "plan.binpb"

    def test_create_replace_alter_rename_drop(self, olympia, plan):
        olympia(
            *["view", "create", "sales.v", "--plan", plan, "--schema", "id long, name string?", "--schema-binding"],
            *["--refers-to", "sales.lines", "--refers-to", '"a.b"."t.1"', "--default-namespace", "sales"],
            *["--property", "k=v"],
        ).ok()
        shown = olympia("view", "show", "sales.v", "--json").ok().json
        assert shown["schema"] == [
            {"id": 1, "name": "id", "type": "int8", "nullable": False},
            {"id": 2, "name": "name", "type": "varchar", "nullable": True},
        ]
        assert shown["referenced_objects"] == [
            {"namespace": "sales", "name": "lines"},
            {"namespace": "a.b", "name": "t.1"},
        ]
        assert (shown["schema_binding"], shown["default_namespace"], shown["plan_bytes"]) == (True, "sales", 7)
        olympia("view", "replace", "sales.v", "--plan", "-", input=b"\xfe").ok()
        replaced = olympia("view", "show", "sales.v", "--json").ok().json
        assert (replaced["id"], replaced["plan_bytes"]) == (shown["id"], 1)
        assert (replaced["schema"], replaced["properties"]) == ([], {})
        olympia("view", "alter", "sales.v", "--set", "k=w").ok()
        olympia("view", "rename", "sales.v", '"a.b"."v.1"').ok()
        assert names(olympia("view", "ls", "a.b", "-o", "name")) == ['"a.b"."v.1"']
        olympia("view", "drop", '"a.b"."v.1"').ok()
        assert names(olympia("view", "ls")) == ["sales\topen"]

    @pytest.mark.parametrize("schema", ["id", "id long extra", "id nope", ",", "id long,", "id long?? x"])
    def test_a_schema_that_is_none(self, olympia, plan, schema):
        olympia("view", "create", "sales.v", "--plan", plan, "--schema", schema).failed(2)

    @pytest.mark.parametrize("option", [["--refers-to", "nodot"], ["--default-namespace", "a b"]])
    def test_names_that_are_none(self, olympia, plan, option):
        olympia("view", "create", "sales.v", "--plan", plan, *option).failed(2)


class TestIfExists:
    """Not being there, or being there already, is no error; also when another writer does it at that moment."""

    CREATE = (
        (["ns", "create", "new"], lambda t: t.create_namespace(ns("new"))),
        (
            ["table", "register", "sales.new", "--metadata-location", "s3://x"],
            lambda t: t.create_table(table("sales.new"), location(7)),
        ),
        (
            ["view", "create", "sales.new", "--plan", "plan"],
            lambda t: t.create_view(view("sales.new"), ViewDef(substrait_read_rel=b"theirs")),
        ),
    )
    DROP = (
        (["ns", "drop", "sales", "--cascade"], lambda t: t.drop_namespace(ns("sales"), cascade=True)),
        (["table", "drop", "sales.lines"], lambda t: t.drop_table(table("sales.lines"))),
        (["view", "drop", "sales.open"], lambda t: t.drop_view(view("sales.open"))),
    )

    @pytest.fixture(autouse=True)
    def plan(self, tmp_path):
        (tmp_path / "plan").touch()

    @pytest.mark.parametrize("args", [args for args, _ in CREATE], ids=" ".join)
    def test_twice(self, olympia, args):
        assert olympia(*args, "--if-not-exists").ok().stdout.startswith("v8")
        done = olympia(*args, "--if-not-exists", "--json").ok().json
        assert done == {"version": 8, "actions": []}
        assert "nothing to do" in olympia(*args, "--if-not-exists").ok().stdout
        olympia(*args).failed(11)

    @pytest.mark.parametrize("args", [args for args, _ in DROP], ids=" ".join)
    def test_drop_twice(self, olympia, args):
        olympia(*args, "--if-exists").ok()
        assert olympia(*args, "--if-exists", "--json").ok().json == {"version": 8, "actions": []}
        olympia(*args).failed(10)

    @pytest.mark.parametrize(("args", "theirs"), CREATE, ids=["ns", "table", "view"])
    def test_while_another_writer_creates_it(self, olympia, monkeypatch, args, theirs):
        race(monkeypatch, theirs)
        assert olympia(*args, "--if-not-exists", "--json").ok().json == {"version": 8, "actions": []}

    @pytest.mark.parametrize(("args", "theirs"), CREATE, ids=["ns", "table", "view"])
    def test_without_it_that_is_a_conflict(self, olympia, monkeypatch, args, theirs):
        race(monkeypatch, theirs)
        olympia(*args).failed(20)

    @pytest.mark.parametrize(("args", "theirs"), DROP, ids=["ns", "table", "view"])
    def test_while_another_writer_drops_it(self, olympia, monkeypatch, args, theirs):
        race(monkeypatch, theirs)
        assert olympia(*args, "--if-exists", "--json").ok().json["actions"] == []
        olympia(*args).failed(10)

    def test_while_another_writer_drops_it_and_creates_another(self, olympia, monkeypatch):
        def another(t):
            t.drop_table(table("sales.lines"))
            t.create_table(table("sales.lines"), location(8))

        race(monkeypatch, another)
        olympia("table", "drop", "sales.lines", "--if-exists").ok()
        assert "sales.lines" not in names(olympia("table", "ls", "-o", "name"))


class TestCatalog:
    def test_alter(self, olympia):
        olympia("catalog", "alter", "--txn-ttl", "1d", "--isolation", "SERIALIZABLE", "--set", "k=v").ok()
        shown = olympia("catalog", "show", "--json").ok().json
        assert (shown["txn_ttl_millis"], shown["isolation"], shown["properties"]) == (
            86_400_000,
            "serializable",
            {"k": "v"},
        )
        olympia("catalog", "alter", "--unset", "k", "--set", "olympia.retention.max-version-age=30d").ok()
        shown = olympia("catalog", "show", "--json").ok().json
        assert shown["retention"] == {"max_version_age": "30d", "min_versions": "3"}

    @pytest.mark.parametrize(
        "value",
        [
            "olympia.retention.max-version-age=long",
            "olympia.retention.min-versions=0",
            "olympia.retention.min-versions=٣",
            "olympia.retention.min-versions=" + "9" * 5000,
            "olympia.txn.max-actions=-1",
            "olympia.required-features=x",
            "olympia.export.x=y",
        ],
        ids=lambda value: value[:40],
    )
    def test_properties_that_it_could_not_read(self, olympia, value):
        olympia("catalog", "alter", "--set", value).failed(2)

    @pytest.mark.parametrize(
        "args",
        [
            ["catalog", "alter", "--unset", "nope"],
            ["ns", "alter", "sales", "--set", "owner=ann"],
            ["table", "alter", "sales.lines", "--set", "k=v", "--unset", "nope"],
            ["table", "restore", "sales.lines", "--at", "v2"],
            ["view", "alter", "sales.open", "--unset", "nope"],
            ["apply", "-"],
        ],
        ids=" ".join,
    )
    def test_a_command_without_changes_makes_no_version(self, olympia, args):
        lines = '{"do": "ns alter", "name": "sales", "set": {"owner": "ann"}}'
        assert olympia(*args, input=lines).ok().stdout == "v7  nothing to do\n"
        done = olympia(*args, "--json", input=lines).ok().json
        assert (done["version"], done["actions"]) == (7, [])

    def test_a_setting_that_is_misspelt(self, olympia):
        args = ["catalog", "alter", "--set", "olympia.retention.min-version=5"]
        olympia(*args).failed(2, "did you mean olympia.retention.min-versions?")
        olympia("apply", "-", input='{"do": "ns create", "name": "x", "properties": {"olympia.x": ""}}').failed(2)

    def test_compact(self, run, tmp_path):
        folder = tmp_path / "tall"
        run("init", folder, "--order", "4").ok()
        for start in range(0, 60, 20):
            lines = "".join(f'{{"do": "ns create", "name": "n{i:02}"}}\n' for i in range(start, start + 20))
            run("-c", folder, "apply", "-", input=lines).ok()
        before = run("-c", folder, "ns", "ls").ok().lines
        dry = run("-c", folder, "compact", "--fill", "100", "--dry-run", "--json").ok().json
        assert dry["version"] == 3
        assert dry["nodes_after"] < dry["nodes_before"]
        done = run("-c", folder, "compact", "--fill", "100", "-m", "tidy", "--json").ok().json
        assert (done["version"], done["nodes_after"]) == (4, dry["nodes_after"])
        assert run("-c", folder, "ns", "ls").ok().lines == before
        assert run("-c", folder, "diff", "--json").ok().json["changes"] == []
        assert "tidy\t\t~ compact" in run("-c", folder, "log", "-n", "1").ok().stdout
        for more in ([], ["--dry-run"]):
            again = run("-c", folder, "compact", "--fill", "100", *more, "--json").ok().json
            assert (again["version"], again["actions"], again["nodes_after"]) == (4, [], again["nodes_before"])
            assert run("-c", folder, "compact", "--fill", "100", *more).ok().stdout == "v4  nothing to do\n"

    def test_status_for_prometheus(self, olympia, sample):
        lines = olympia("status", "--prometheus").ok().lines
        assert f'olympia_version{{catalog="{sample.uri}"}} 7' in lines
        assert f'olympia_open_transactions{{catalog="{sample.uri}"}} 1' in lines
        assert sum(line.startswith("# TYPE ") for line in lines) == sum(not line.startswith("#") for line in lines)
        full = olympia("status", "--prometheus", "--full").ok().stdout
        assert "olympia_reclaimable_bytes{" in full

    def test_prometheus_labels_are_escaped(self, run, tmp_path):
        run("init", tmp_path / 'a"b\\c').ok()
        text = run("-c", tmp_path / 'a"b\\c', "status", "--prometheus").ok().stdout
        assert 'a\\"b\\\\c"} 0' in text

    def test_status_in_full_counts_files(self, olympia, sample):
        full = olympia("status", "--full", "--json").ok().json
        assert full["files"]["root"]["files"] == 8
        total = sum(one["bytes"] for one in full["files"].values())
        assert total == sum(path.stat().st_size for path in sample.folder.rglob("*") if path.is_file())
        assert full["open_transactions"] == 1

    def test_reading_writes_nothing(self, olympia, sample):
        def files() -> dict[str, bytes]:
            return {str(path): path.read_bytes() for path in sample.folder.rglob("*") if path.is_file()}

        before = files()
        for args in (
            "ns ls",
            "table ls",
            "log -p",
            "diff v0",
            "status --full",
            "time-travel v2",
            "txn ls",
            "catalog show",
        ):
            olympia(*args.split()).ok()
        olympia("rollback", "v2", "--dry-run").ok()
        olympia("compact", "--dry-run").ok()
        olympia("apply", "-", "--dry-run", input='{"do": "ns create", "name": "x"}').ok()
        olympia("txn", "abort", sample.transaction, "--dry-run").ok()
        olympia("txn", "show", sample.transaction).ok()
        olympia("table", "ls", "--txn", sample.transaction).ok()
        assert files() == before


class TestEverywhere:
    @pytest.mark.parametrize(
        ("alias", "real"),
        [
            (["namespace", "ls"], ["ns", "ls"]),
            (["ns", "list"], ["ns", "ls"]),
            (["namespace", "list"], ["ns", "ls"]),
            (["table", "list"], ["table", "ls"]),
            (["txn", "list"], ["txn", "ls"]),
            (["ns", "describe", "sales"], ["ns", "show", "sales"]),
            (["table", "describe", "sales.lines"], ["table", "show", "sales.lines"]),
            (["catalog", "describe"], ["catalog", "show"]),
            (["at", "v2"], ["time-travel", "v2"]),
        ],
        ids=" ".join,
    )
    def test_aliases(self, olympia, alias, real):
        assert olympia(*alias, "--json").ok().json == olympia(*real, "--json").ok().json

    def test_aliases_that_change(self, olympia):
        olympia("table", "mv", "sales.lines", "sales.rows").ok()
        olympia("table", "rm", "sales.rows").ok()
        olympia("view", "rm", "sales.open", "--if-exists").ok()
        olympia("ns", "mv", EMOJI, "plain").ok()
        olympia("ns", "rm", "sales", "--cascade").ok()
        assert names(olympia("ns", "ls")) == ["a.b", "plain"]

    def test_aliases_are_not_shown(self, run):
        for group in ([], ["ns"], ["table"]):
            shown = run(*group, "--help").ok().stdout.partition("Commands:")[2]
            assert not {line.split()[0] for line in shown.splitlines() if line.strip()} & set(ALIASES)

    def test_global_options_before_and_after(self, run, sample):
        expected = run("-c", sample.uri, "--json", "ns", "ls").ok().json
        for args in (
            ["ns", "-c", sample.uri, "--json", "ls"],
            ["ns", "ls", "-c", sample.uri, "--json"],
            ["--json", "ns", "--catalog", sample.uri, "ls"],
            ["-o", "json", "ns", "ls", f"--catalog={sample.uri}"],
            ["-c", "nowhere", "ns", "ls", "-c", sample.uri, "--json"],
        ):
            assert run(*args).ok().json == expected, args

    def test_the_output_option_after_the_command_wins(self, olympia):
        assert olympia("-o", "csv", "ns", "ls", "-o", "name").ok().lines == ["a.b", "sales", EMOJI]
        assert olympia("-o", "name", "ns", "-o", "csv", "ls").ok().lines[0] == "name"

    @pytest.mark.parametrize("flag", ["-h", "--help"])
    @pytest.mark.parametrize("words", [[], ["ns"], ["table", "show"], ["apply"]], ids=" ".join)
    def test_help(self, run, words, flag):
        done = run(*words, flag).ok()
        assert done.stdout.startswith(f"Usage: {' '.join(['olympia', *words])} ")
        assert done.stderr == ""
        if len(words) == 2 or words == ["apply"]:
            assert "Examples:\n" in done.stdout

    def test_version(self, run):
        assert run("--version").ok().stdout == f"olympia {__version__}\n"

    @pytest.mark.parametrize(("wrong", "right"), [("tabel", "table"), ("statsu", "status"), ("rolback", "rollback")])
    def test_did_you_mean(self, run, wrong, right):
        assert right in run(wrong).failed(2).stderr

    def test_messages_reach_the_log(self, olympia):
        for args in (
            ["ns", "create", "x"],
            ["ns", "rename", "x", "y"],
            ["catalog", "alter", "--set", "k=v"],
            ["rollback", "latest~1", "--yes"],
            ["apply", "-"],
        ):
            message = f"because of {args}"
            olympia(*args, "-m", message, input='{"do": "ns create", "name": "z"}').ok()
            assert olympia("log", "-n", "1", "--json").ok().json["versions"][0]["message"] == message

    def test_an_error_of_a_name_shows_it_harmless(self, olympia):
        done = olympia("ns", "show", "x\x9b31m\u202e")
        assert done.exit_code == 10
        assert "\x9b" not in done.stderr
        assert "\u202e" not in done.stderr

    def test_memory(self, run):
        """A catalog that lives as long as the process."""
        run("-c", "memory://test-commands", "init").ok()
        run("-c", "memory://test-commands", "ns", "create", "x").ok()
        assert run("-c", "memory://test-commands", "ns", "ls").ok().lines == ["x"]

    def test_commits_of_other_writers_are_visible(self, olympia, sample):
        with Catalog(LocalStore(sample.uri)).transaction() as transaction:
            transaction.create_namespace(ns("theirs"))
        assert "theirs" in names(olympia("ns", "ls"))
