"""Catalogs of the Java SDK at the prompt: read as they are, refused with a way out, and brought in."""

from __future__ import annotations

import shlex
from urllib.parse import unquote

import pytest

from olympia_cli.importers.objects import FORMER_NAME, legal_name
from tests.helpers.sdk_catalogs import BULK, NAMES, ODD, SMALL, TXN, unpack


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("java")
    return {name: unpack(name, folder) for name in NAMES}


@pytest.fixture
def sdk(run, unpacked):
    """Run the program on a catalog of the SDK's."""
    return lambda name, *words: run("-c", unpacked[name][0], *words)


@pytest.fixture
def bring(run, empty, unpacked):
    """Import one into a new catalog."""
    return lambda name, *words: run("-c", empty, "import", "olympia", unpacked[name][0], *words)


@pytest.fixture
def here(run, empty):
    return lambda *words: run("-c", empty, *words)


class TestReading:
    def test_odd_names_are_shown(self, sdk, unpacked):
        expected = unpacked[ODD][1]["versions"][-1]
        for name in ("my table", "new\nline", "tab\there", "back\\slash", "s3://x/y", "Ａwide"):
            shown = sdk(ODD, "table", "show", f"plain.{name}", "--json").ok().json
            assert (shown["namespace"], shown["name"]) == ("plain", name)
            if f"plain\0{name}" in expected["tables"]:
                assert shown["id"] == expected["tables"][f"plain\0{name}"]["id"]
        assert sdk(ODD, "ns", "show", "my ns", "--json").ok().json["id"] == expected["namespaces"]["my ns"]["id"]
        assert sdk(ODD, "view", "show", "my ns.v", "--json").ok().json["default_namespace"] == "my ns"
        assert sdk(ODD, "table", "ls", "my ns", "-o", "name").ok().lines == ["my ns.x"]
        assert sdk(ODD, "table", "history", "plain.my table", "--json").ok().json["revisions"][0]["change"] == "created"

    def test_in_our_own_catalogs_they_are_no_names(self, here):
        here("table", "show", "plain.my table").failed(2, "U+0020")
        here("ns", "show", "my ns").failed(2, "U+0020")
        here("log", "my ns").failed(2, "U+0020")

    def test_the_log_filters_by_object_and_action_consistently(self, sdk):
        lines = sdk(SMALL, "log").ok().lines
        assert [line.split("\t")[0] for line in lines if line.endswith("hr.t4_renamed")] == ["v27"]
        by_object = sdk(SMALL, "log", "hr.t4_renamed", "--json").ok().json["versions"]
        assert [one["version"] for one in by_object] == [27, 2]
        by_action = sdk(SMALL, "log", "--action", "TABLE_RENAME", "--json").ok().json["versions"]
        assert [one["version"] for one in by_action] == [27]
        assert "> table hr.t4 to hr.t4_renamed" in sdk(SMALL, "log", "-p", "--action", "TABLE_RENAME").ok().stdout
        assert sdk(ODD, "log", "plain.my table", "-o", "name").ok().lines == ["v14", "v1"]

    def test_transactions(self, sdk):
        listed = sdk(TXN, "txn", "ls", "--json").ok().json["transactions"]
        # the one in the middle lived for a millisecond; the others end on a day that may be over
        assert [(one["id"], one["version"]) for one in listed] == [
            ("txn-committed", 2),
            ("txn-expired", 1),
            ("txn-open", 1),
        ]
        assert listed[1]["state"] == "expired"
        shown = sdk(TXN, "txn", "show", "txn-open", "--json").ok().json
        staged = [(one["type"], one["name"]) for one in shown["actions"]]
        assert staged == ([("TABLE_CREATE", "staged")] if shown["state"] == "open" else [])
        sdk(TXN, "txn", "show", "none").failed(10, "no transaction")
        status = sdk(TXN, "status", "--json").json
        assert status["open_transactions"] + status["stale_transactions"] == 3

    @pytest.mark.parametrize(
        "words",
        [
            "ns create x",
            "txn begin",
            "txn abort txn-open --yes",
            "txn commit txn-open",
            "rollback v1 --yes",
            "expire --keep-last 1 --yes",
            "export create e --dest elsewhere",
            "fsck --repair --yes",
            "fsck --salvage elsewhere",
        ],
    )
    def test_refused_changes_advise_commands_that_work(self, sdk, run, words, tmp_path):
        error = sdk(TXN, *words.split()).failed(41, "Java SDK").stderr.splitlines()[-1]
        advice, _, command = error.rpartition("read only: ")[2].partition(": ")
        assert advice == "create a new catalog (init NEW) and import this one"
        for line in ("olympia init NEW", command):
            run(*shlex.split(line.replace("NEW", str(tmp_path / "new")))[1:]).ok()
        assert run("-c", tmp_path / "new", "table", "ls", "-o", "name").ok().lines == ["n.t1", "n.t2"]


class TestImporting:
    def test_all_of_it_is_one_commit_with_the_same_ids(self, bring, here, unpacked):
        done = bring(BULK, "--json", "-m", "adopted").ok().json
        expected = unpacked[BULK][1]["versions"][-1]
        assert (done["version"], done["namespaces"], len(done["tables"])) == (1, 1, len(expected["tables"]))
        shown = here("table", "show", "n.t0042", "--json").json
        assert shown["id"] == expected["tables"]["n\0t0042"]["id"]
        assert shown["properties"] == expected["tables"]["n\0t0042"]["properties"]
        message = here("log", "-n", "1", "--json").json["versions"][0]["message"]
        assert message.splitlines()[0] == "adopted"
        again = bring(BULK, "--json").ok().json
        assert (again["version"], again["tables"], again["unchanged"]) == (1, [], 1 + len(expected["tables"]))

    def test_forbidden_names_are_renamed_by_a_rule(self, bring, here):
        done = bring(ODD, "--json").ok().json
        renamed = {one["from"]: one["to"] for one in done["renamed"]}
        assert renamed == {
            "my ns": "my%20ns",
            "plain.my table": "plain.my%20table",
            "plain.new\nline": "plain.new%0Aline",
            "plain.tab\there": "plain.tab%09here",
        }
        shown = here("table", "show", "plain.my%20table", "--json").json
        assert shown["properties"] == {"n": "my table", FORMER_NAME: "plain.my table"}
        view = here("view", "show", "my%20ns.v", "--json").json
        assert view["referenced_objects"] == [{"namespace": "my%20ns", "name": "x"}]
        assert view["default_namespace"] == "my%20ns"
        assert bring(ODD, "--json").ok().json["version"] == 1

    def test_history_is_a_commit_for_each_version(self, bring, here, unpacked):
        done = bring(SMALL, "--history", "--json")
        assert done.exit_code == 3
        assert done.json["version"] == 34
        assert [one["what"] for one in done.json["problems"]] == ["view gone.gv"]
        for version in unpacked[SMALL][1]["versions"]:
            shown = here("time-travel", f"v{version['version'] + 1}", "--json").ok().json
            assert [one["name"] for one in shown["namespaces"]] == version["show_namespaces"]
            tables = sorted((one["namespace"], one["name"]) for one in shown["tables"])
            assert tables == sorted((ns, name) for ns, names in version["show_tables"].items() for name in names)
        renames = here("log", "--action", "TABLE_RENAME", "--json").json["versions"]
        assert [one["version"] for one in renames] == [28]
        assert bring(SMALL, "--history", "--json").json["version"] == 34

    def test_repeated_import_follows_changes_of_the_source(self, bring, here):
        """From version 20 to 33: alters, a rename, drops, views, and a namespace that came and went."""
        bring(SMALL, "--at", "v20").ok()
        done = bring(SMALL, "--json")
        assert done.exit_code == 3
        assert [one["name"] for one in done.json["tables"]] == [
            "hr.t19",
            "sales.t18",
            "sales.t3",
            "hr.t4_renamed",
            "sales.t0",
        ]
        assert done.json["dropped"] == 2
        assert here("ns", "show", "ops", "--json").json["properties"] == {"empty": "", "k": "w"}
        assert bring(SMALL, "--json").json["version"] == 2
        bring(SMALL, "--at", "v20").failed(2, "33 of that catalog was imported already")

    def test_local_changes_survive_a_repeated_import(self, bring, here):
        bring(SMALL, "--at", "v20").ok()
        here("table", "alter", "sales.t0", "--set", "mine=1").ok()
        here("table", "drop", "ops.t5").ok()
        here("table", "rename", "hr.t4", "hr.mine").ok()
        done = bring(SMALL, "--json").json
        assert [one for one in done["problems"] if one["what"].startswith("table")] == [
            {"what": "table hr.t4_renamed", "why": "it was changed here"},
            {"what": "table sales.t0", "why": "it was changed here"},
        ]
        assert here("table", "show", "sales.t0", "--json").json["properties"]["mine"] == "1"
        assert "hr.mine" in here("table", "ls", "-o", "name").lines

    def test_a_name_that_is_taken(self, bring, here):
        here("ns", "create", "n", "--property", "owner=me").ok()
        here("table", "register", "n.t1", "--metadata-location", "s3://b/mine.json").ok()
        done = bring(TXN, "--json")
        assert done.exit_code == 3
        assert done.json["problems"] == [{"what": "table n.t1", "why": "another table has that name here"}]
        assert [one["name"] for one in done.json["tables"]] == ["n.t2"]
        assert here("ns", "show", "n", "--json").json["properties"] == {"owner": "me"}
        here("table", "rename", "n.t1", "n.mine").ok()
        assert [one["name"] for one in bring(TXN, "--json").ok().json["tables"]] == ["n.t1"]

    def test_into_one_namespace(self, bring, here):
        done = bring(ODD, "--into", "old", "--json")
        assert done.exit_code == 3
        assert {one["name"].partition(".")[0] for one in done.json["tables"]} == {"old"}
        # three namespaces have a table x and a view v
        assert sorted(one["what"] for one in done.json["problems"]) == [
            "table é漢.x",
            "table \U0001f600.x",
            "view é漢.v",
            "view \U0001f600.v",
        ]
        assert here("table", "show", "old.x", "--json").json["properties"][FORMER_NAME] == "my ns.x"
        bring(ODD).failed(2, "imported --into old before")

    def test_looking_first(self, bring, here, run, unpacked):
        inspected = run("import", "olympia", unpacked[ODD][0], "--inspect", "--json").ok().json
        dry = bring(ODD, "--dry-run", "--json").ok().json
        assert inspected["tables"] == dry["tables"]
        assert (dry["version"], dry["source_version"]) == (0, 33)
        assert here("ns", "ls", "--json").json == {"version": 0, "namespaces": []}
        assert run("import", "olympia", unpacked[SMALL][0], "--check").ok().lines[-1].startswith("SOUND")
        bring(ODD, "--dry-run", "--inspect").failed(2, "do not go together")

    def test_a_table_with_an_unreadable_definition_is_skipped(self, here, empty, run, tmp_path):
        folder, _ = unpack(TXN, tmp_path)
        [lost] = (folder / "def" / "table").glob("*-n-t1.binpb")
        lost.write_bytes(b"")
        done = run("-c", empty, "import", "olympia", folder, "--json")
        assert done.exit_code == 3
        assert [one["what"] for one in done.json["problems"]] == ["table n.t1"]
        assert [one["name"] for one in done.json["tables"]] == ["n.t2"]

    def test_an_unreadable_version_of_the_history_is_a_problem(self, empty, run, tmp_path):
        folder, _ = unpack(SMALL, tmp_path)
        (folder / "vn" / f"{5:064b}"[::-1]).write_bytes(b"junk")
        done = run("-c", empty, "import", "olympia", folder, "--history", "--at", "v9", "--json")
        assert done.exit_code == 3
        assert [one["what"] for one in done.json["problems"]] == ["v5"]
        assert done.json["version"] == 9

    def test_import_refuses_an_unsuitable_source(self, bring, here, run, empty, tmp_path):
        run("-c", empty, "import", "olympia", tmp_path / "none").failed(10, "there is no catalog")
        run("-c", empty, "import", "olympia", empty).failed(2, "is the catalog itself")
        run("-c", tmp_path / "none", "import", "olympia", empty).failed(10)
        (tmp_path / "junk").mkdir()
        (tmp_path / "junk" / "file").write_text("x")
        run("-c", empty, "import", "olympia", tmp_path / "junk").failed(10, "there is no catalog")

    def test_one_of_ours(self, run, empty, sample):
        run("-c", empty, "import", "olympia", sample.uri).ok()
        for words in ("table ls --json", "view ls --json", "ns ls --json"):
            shown = [run("-c", uri, *words.split()).ok().json for uri in (empty, sample.uri)]
            assert [value for key, value in shown[0].items() if key != "version"] == [
                value for key, value in shown[1].items() if key != "version"
            ]

    def test_renames_follow_each_other(self, run, empty, sample):
        """A namespace is renamed with its tables, and a table gets the name that another one gave up."""
        bring = lambda: run("-c", empty, "import", "olympia", sample.uri, "--json").ok().json  # noqa: E731
        bring()
        for words in (
            "ns rename sales trade",
            "table rename trade.lines trade.older",
            "table rename trade.orders_2025 trade.lines",
            "table register trade.orders_2025 --metadata-location s3://b/new.json",
        ):
            run("-c", sample.uri, *words.split()).ok()
        done = bring()
        assert done["problems"] == []
        names = [run("-c", uri, "table", "ls", "-o", "name").ok().lines for uri in (empty, sample.uri)]
        assert names[0] == names[1]
        ids = [run("-c", uri, "table", "show", "trade.lines", "--json").json["id"] for uri in (empty, sample.uri)]
        assert ids[0] == ids[1]
        assert bring()["version"] == done["version"]


class TestTheRule:
    @pytest.mark.parametrize(
        ("name", "legal"),
        [
            ("plain", "plain"),
            ("100%", "100%"),
            ("a b", "a%20b"),
            ("a%20b", "a%2520b"),
            ("% ", "%%20"),
            ("%2\t", "%2%09"),
            ("\x7f", "%7F"),
            ("été 漢", "été%20漢"),
            ("%ff", "%25ff"),
        ],
    )
    def test_it_can_be_undone(self, name, legal):
        assert legal_name(name, 100) == legal
        assert unquote(legal) == name

    def test_a_long_name_is_cut_and_still_its_own(self):
        first, second = legal_name("é" * 60, 40), legal_name("é" * 61, 40)
        assert first != second
        assert {len(name.encode()) for name in (first, second)} <= {39, 40}
        assert legal_name("a" * 22 + " " + "b" * 40, 40).startswith("a" * 22 + "~")


class TestExporting:
    def test_a_copy_that_the_sdk_reads(self, run, sample, tmp_path):
        shown = (
            run("-c", sample.uri, "export", "create", "x", "--dest", "java", "--for", "java-sdk", "--json").ok().json
        )
        assert (shown["for"], shown["at_version"], shown["version"]) == ("java-sdk", 7, 7)
        assert run("-c", sample.uri, "export", "ls", "--json").ok().json["exports"] == []
        assert run("-c", "java", "status", "--json").ok().json["read_only"] is True
        for words in ("table ls", "view ls", "ns ls"):
            names = [run("-c", uri, *words.split(), "-o", "name").ok().lines for uri in ("java", sample.uri)]
            assert sorted(names[0]) == sorted(names[1])

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("--for other", "there are no copies for"),
            ("--for java-sdk --mode minimal", "shares nothing"),
            ("--for java-sdk --expires 1d", "does not expire"),
            ("--for java-sdk --engine spark", "always made locally"),
        ],
    )
    def test_export_for_java_sdk_refuses_incompatible_options(self, run, sample, words, said):
        run("-c", sample.uri, "export", "create", "x", "--dest", "java", *words.split()).failed(2, said)
