"""Commands that look at the past, or bring it back: log, diff, time-travel, rollback, restore, history."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import parse_moment, time_text
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import run_here
from tests.cli.test_hints import suggested
from tests.helpers.clock import DAY, HOUR, FakeClock
from tests.helpers.names import ns


def versions(done) -> list[int]:
    return [one["version"] for one in done.ok().json["versions"]]


def beginning_of(word: str) -> str:
    """The beginning of a day as the log writes times."""
    return time_text(parse_moment(word, int(time.time() * 1000)))


@pytest.fixture
def aged(tmp_path: Path) -> Path:
    """Versions 0 to 5, a day between them, the last one an hour ago."""
    clock = FakeClock(wall=int(time.time() * 1000) - HOUR - 5 * DAY)
    catalog = Catalog.create(LocalStore(str(tmp_path / "aged")), clock=clock)
    for number in range(1, 6):
        clock.advance(DAY)
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns(f"n{number}"))
    return tmp_path / "aged"


class TestLog:
    @pytest.mark.parametrize(
        ("args", "expected"),
        [
            (["-n", "2"], [7, 6]),
            (["--number", "1"], [7]),
            (["-n", "0"], []),
            (["-n", "99999999999999999999"], [7, 6, 5, 4, 3, 2, 1, 0]),
            (["--since", "v5"], [7, 6, 5]),
            (["--until", "latest~5"], [2, 1, 0]),
            (["--since", "2", "--until", "v3"], [3, 2]),
            (["--since", "v5", "--until", "v3"], []),
            (["--since", "oldest", "-n", "1"], [7]),
            (["--until", "v3", "-n", "2"], [3, 2]),
            (["--by", "bob@ci"], [4, 3]),
            (["--by", "bob"], [4, 3]),
            (["--by", "bo"], []),
            (["--by", "bob", "-n", "1"], [4]),
            (["--action", "TABLE_DROP"], [5]),
            (["--action", "table drop"], [5]),
            (["--action", "table-drop", "--action", "catalog_rollback"], [6, 5]),
            (["--action", "TABLE_DROP", "--by", "bob"], []),
            (["sales"], [7, 5, 4, 3, 2, 1]),
            (["sales.lines"], [5, 2, 1]),
            (["--object", "sales.lines"], [5, 2, 1]),
            (["sales.orders"], [7, 4, 2, 1]),
            (["sales.orders_2025"], [7, 1]),
            (['"a.b"."t.1"'], [2, 1]),
            (['"a.b"'], [2, 1]),
            (["sales.lines", "--action", "TABLE_DROP"], [5]),
        ],
        ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else "",
    )
    def test_filters(self, olympia, args, expected):
        assert versions(olympia("log", *args, "--json")) == expected

    @pytest.mark.parametrize("name", ["nope", "sales.nope", "nope.t", "sales.order_2025"])
    def test_a_name_that_no_version_knows(self, olympia, name):
        """The advised commands exist."""
        failed = olympia("log", name).failed(10)
        assert failed.stdout == ""
        if "did you mean" in failed.stderr:
            olympia("log", failed.stderr.rpartition("mean ")[2].strip("?\n")).ok()
        else:
            run_here(*suggested(failed.stderr)).ok()

    def test_a_name_that_some_version_knows(self, olympia):
        olympia("table", "drop", "sales.lines").ok()
        olympia("log", "sales.lines").ok()
        olympia("log", "sales.orders").ok()
        done = olympia("log", "sales.lines", "--until", "v1", "--action", "TABLE_DROP").ok()
        assert (done.stdout, done.stderr) == ("", "no version matches\n")

    def test_log_of_an_object_shows_its_actions_alone(self, olympia):
        [found] = [one for one in olympia("log", "sales.lines", "--json").ok().json["versions"] if one["version"] == 2]
        assert [one["name"] for one in found["actions"]] == ["lines"]

    def test_times(self, run, aged):
        log = ["-c", aged, "log", "--json"]
        assert versions(run(*log, "--since", "2h")) == [5]
        assert versions(run(*log, "--since", "3d")) == [5, 4, 3]
        assert versions(run(*log, "--until", "2h")) == [4, 3, 2, 1, 0]
        assert versions(run(*log, "--since", "3d", "--until", "25h")) == [4, 3]
        times = {one["version"]: one["created_at"] for one in run(*log).ok().json["versions"]}
        assert versions(run(*log, "--since", times[3])) == [5, 4, 3]
        assert versions(run(*log, "--until", times[3])) == [3, 2, 1, 0]
        assert versions(run(*log, "--since", times[3][:10])) == [5, 4, 3]
        assert versions(run(*log, "--since", "2999-01-01")) == []
        assert versions(run(*log, "--since", "1970-01-01", "-n", "2")) == [5, 4]

    def test_days(self, run, aged):
        log = ["-c", aged, "log", "--json"]
        times = {one["version"]: one["created_at"] for one in run(*log).ok().json["versions"]}
        before = [number for number, at in times.items() if at < beginning_of("yesterday")]
        assert versions(run(*log, "--until", "yesterday")) == before
        assert versions(run(*log, "--since", "yesterday")) == [number for number in times if number not in before]
        for command in (["ns", "ls", "--at", "yesterday 00:00"], ["fsck", "--at", "Yesterday"]):
            found = run("-c", aged, *command, "--json").ok().json
            assert found.get("version", found.get("last_sound_version")) == before[0]
        run("-c", aged, "ns", "ls", "--at", "monday noon").failed(2, "write 'monday 09:00'")

    def test_an_export_name_beats_a_day_of_that_name(self, olympia):
        olympia("export", "create", "friday", "--dest", "friday", "--at", "v2").ok()
        for text in ("friday", "v2"):
            assert olympia("ns", "ls", "--at", text, "--json").ok().json["version"] == 2
            assert versions(olympia("log", "--since", text, "--json"))[-1] == 2
            assert olympia("fsck", "--at", text, "--json").ok().json["last_sound_version"] == 2

    def test_for_a_pipe_the_columns_stay_where_they_are(self, olympia):
        lines = {line.split("\t")[0]: line.split("\t") for line in olympia("log").ok().lines}
        assert lines["v4"][2:] == [
            "bob@ci",
            "nightly",
            "",
            "~ table sales.orders  tier; metadata → 00009.metadata.json",
        ]
        assert lines["v5"][2:] == ["ann@laptop", "tidy up", "undone by v6", "- table sales.lines"]
        assert lines["v6"][5] == "~ rollback"
        assert lines["v7"][5] == "> table sales.orders to sales.orders_2025"
        assert lines["v2"][5] == f"+ table {'smile😀'}.表"

    def test_stat_and_patch(self, olympia):
        counts = [line.split("\t")[5] for line in olympia("log", "--stat").ok().lines]
        assert counts == [">1", "~1", "-1", "~1", "+1", "+5", "+3", "+1"]
        patch = olympia("log", "-p", "--since", "v4", "--until", "v4").ok().lines
        assert [line.split("\t")[2] for line in patch] == ["bob@ci", "", "", "", ""], (
            "what follows belongs to the first"
        )
        assert [line.rpartition("\t")[2].strip() for line in patch] == [
            "~ table sales.orders",
            "- iceberg_metadata_location: s3://bucket/table/metadata/00000.metadata.json",
            "+ iceberg_metadata_location: s3://bucket/table/metadata/00009.metadata.json",
            "+ properties.tier: gold",
            "+ iceberg_previous_metadata_location: s3://bucket/table/metadata/00000.metadata.json",
        ]

    def test_the_patch_of_a_rollback_shows_only_restored_objects(self, olympia):
        patch = olympia("log", "-p", "--until", "v6", "-n", "1").ok().lines
        lines = [line.rpartition("\t")[2] for line in patch[1:]]
        assert lines[0] == "+ table sales.lines"
        assert all(line.startswith("  + ") for line in lines[1:]), "all fields of what came back, and nothing else"

    def test_a_message_of_several_lines_stays_in_its_column(self, olympia):
        olympia("ns", "create", "x", "-m", "first\nsecond\tthird").ok()
        [line] = olympia("log", "-n", "1").ok().lines
        assert line.split("\t")[3] == "first\\nsecond\\tthird"
        assert olympia("log", "-n", "1", "--json").ok().json["versions"][0]["message"] == "first\nsecond\tthird"

    def test_a_graph_of_rollbacks_after_each_other_and_within_each_other(self, run, empty):
        def do(*args):
            run("-c", empty, *args, "-q").ok()

        for number in range(1, 4):
            do("ns", "create", f"n{number}")
        do("rollback", "v1", "--yes")
        do("ns", "create", "n5")
        do("rollback", "v4", "--yes", "-m", "to a rollback")
        graph = [line[:7].rstrip() for line in run("-c", empty, "log", "--graph").ok().lines]
        assert graph == ["●─┐ v6", "│ ○ v5", "●─┤ v4", "│ ○ v3", "│ ○ v2", "●─┘ v1", "●   v0"]
        do("rollback", "v2", "--yes", "-m", "over both")
        graph = [line[:7].rstrip() for line in run("-c", empty, "log", "--graph", "--oneline").ok().lines]
        assert graph == ["●─┐ v7", "│ ○ v6", "│ ○ v5", "│ ○ v4", "│ ○ v3", "●─┘ v2", "●   v1", "●   v0"]
        undone = {one["version"]: one["undone_by"] for one in run("-c", empty, "log", "--json").ok().json["versions"]}
        assert undone == {7: None, 6: 7, 5: 7, 4: 7, 3: 7, 2: None, 1: None, 0: None}
        until = run("-c", empty, "log", "--until", "v6", "--json").ok().json["versions"]
        assert {one["version"]: one["undone_by"] for one in until}[5] == 6

    def test_oneline(self, olympia):
        lines = olympia("log", "--oneline").ok().lines
        assert len(lines) == 8
        assert lines[1].startswith("v6 ")
        assert "rollback v5 → v4  bad idea  ann@laptop" in lines[1]
        assert "(undone by v6)" in lines[2]

    def test_many_like_actions_are_one_line_for_people_and_many_for_programs(self, olympia):
        olympia("apply", "-", input="".join(f'{{"do": "ns create", "name": "n{i}"}}\n' for i in range(30))).ok()
        assert len(olympia("log", "-n", "1").ok().lines) == 30
        assert len(olympia("log", "-n", "1", "--json").ok().json["versions"][0]["actions"]) == 30


class TestDiff:
    def changes(self, done) -> list[tuple[str, str, str]]:
        return [(one["change"], one["type"], one["name"]) for one in done.ok().json["changes"]]

    def test_without_references_it_is_the_last_version(self, olympia):
        done = olympia("diff", "--json")
        assert (done.json["from"], done.json["to"]) == (6, 7)
        assert self.changes(done) == [("renamed", "table", "orders_2025")]
        assert done.json["changes"][0]["detail"] == {"from": {"namespace": "sales", "name": "orders"}}

    @pytest.mark.parametrize("args", [["v5", "v6"], ["v5..v6"], ["5", "latest~1"], ["latest~2..latest~1"]])
    def test_ways_to_say_it(self, olympia, args):
        done = olympia("diff", *args, "--json")
        assert (done.json["from"], done.json["to"]) == (5, 6)
        assert self.changes(done) == [("created", "table", "lines")]

    @pytest.mark.parametrize(("args", "pair"), [(["v3"], (3, 7)), (["v3.."], (3, 7)), (["..v3"], (6, 3))])
    def test_one_reference(self, olympia, args, pair):
        done = olympia("diff", *args, "--json").ok()
        assert (done.json["from"], done.json["to"]) == pair

    def test_backwards_a_creation_is_a_drop(self, olympia):
        assert self.changes(olympia("diff", "v6", "v5", "--json")) == [("dropped", "table", "lines")]

    def test_fields(self, olympia):
        [change] = olympia("diff", "v3", "v4", "--json").ok().json["changes"]
        assert change["detail"]["fields"]["properties.tier"] == {"from": None, "to": "gold"}
        assert change["detail"]["fields"]["iceberg_metadata_location"]["to"].endswith("00009.metadata.json")
        [line] = olympia("diff", "v3", "v4").ok().lines
        assert line.startswith("~ table sales.orders\t")
        assert "+ properties.tier: gold" in line.split("\t")

    def test_renames(self, olympia):
        """A table is renamed with its namespace, and so is one that was altered as well."""
        olympia("ns", "rename", "sales", "revenue").ok()
        olympia("table", "alter", "revenue.lines", "--set", "k=w").ok()
        found = self.changes(olympia("diff", "v7", "--json"))
        assert found == [
            ("renamed", "namespace", "revenue"),
            ("renamed", "table", "lines"),
            ("renamed", "table", "orders_2025"),
            ("renamed", "view", "open"),
        ]
        lines = olympia("diff", "v7").ok().lines
        assert lines[0] == "> namespace sales to revenue"
        assert lines[1] == "> table sales.lines to revenue.lines\t- properties.k: v\t+ properties.k: w"

    def test_another_table_under_the_same_name(self, olympia):
        olympia("table", "drop", "sales.lines").ok()
        olympia("table", "register", "sales.lines", "--metadata-location", "s3://new").ok()
        assert self.changes(olympia("diff", "v7", "--json")) == [
            ("dropped", "table", "lines"),
            ("created", "table", "lines"),
        ]

    def test_the_catalog_itself(self, olympia):
        olympia("catalog", "alter", "--set", "k=v").ok()
        done = olympia("diff", "--json").ok()
        assert done.json["catalog"] == {"properties.k": {"from": None, "to": "v"}}
        assert olympia("diff").ok().lines == ["~ catalog", "    + properties.k: v"]

    def test_nothing(self, olympia):
        done = olympia("diff", "latest", "latest").ok()
        assert (done.stdout, done.stderr) == ("", "v7 and v7 have the same content\n")

    def test_the_first_version(self, run, empty):
        assert run("-c", empty, "diff", "--json").ok().json == {"from": 0, "to": 0, "changes": []}

    def test_stat_and_names(self, olympia):
        assert olympia("diff", "v0", "--stat").ok().lines == [
            "3\tcreated namespace",
            "5\tcreated table",
            "1\tcreated view",
        ]
        assert olympia("diff", "v5", "-o", "name").ok().lines == ["sales.lines", "sales.orders_2025"]

    def test_all_fields_with_a_patch(self, olympia):
        """With the patch, created and dropped objects show their fields, too."""
        [line] = olympia("diff", "v5", "v6").ok().lines
        assert line == "+ table sales.lines"
        [line] = olympia("diff", "-p", "v5", "v6").ok().lines
        first, *fields = line.split("\t")
        assert first == "+ table sales.lines"
        assert "+ properties.k: v" in fields
        [line] = olympia("diff", "--patch", "v6", "v5").ok().lines
        assert "- properties.k: v" in line.split("\t")
        assert olympia("diff", "-p", "v3", "v4").ok().stdout == olympia("diff", "v3", "v4").ok().stdout


class TestTimeTravel:
    @pytest.mark.parametrize("form", [[], ["--json"], ["-o", "name"], ["-o", "csv"]])
    def test_at_means_the_same_as_the_argument(self, olympia, form):
        for reference in ("v2", "latest~1"):
            done = olympia("time-travel", "--at", reference, *form).ok()
            assert done.stdout == olympia("time-travel", reference, *form).ok().stdout
        olympia("time-travel", "v2", "--at", "v2").failed(2, "do not go together")
        olympia("time-travel").failed(2, "no version is named")
        olympia("time-travel", "").failed(2)
        olympia("time-travel", "--at", "").failed(2)

    def test_every_command_that_lists_or_shows_objects_takes_at(self, olympia):
        """README says so."""
        commands = [f"{kind} {verb}" for kind in ("ns", "table", "view") for verb in ("ls", "show")]
        names = {"ns show": "sales", "table show": "sales.orders", "view show": "sales.open"}
        for command in (*commands, "catalog show", "table files sales.orders", "table history sales.orders", "tree"):
            words = [*command.split(), *([names[command]] if command in names else [])]
            assert olympia(*words, "--at", "v4", "--json").json["version"] == 4, command

    @pytest.mark.parametrize(
        ("reference", "version"),
        [("v3", 3), ("3", 3), ("latest", 7), ("latest~4", 3), ("oldest", 0), ("2999-12-31", 7), ("0s", 7)],
    )
    def test_references(self, olympia, reference, version):
        done = olympia("time-travel", reference, "--json").ok()
        assert (done.json["version"], done.json["requested"]) == (version, reference)

    def test_times(self, run, aged):
        for reference, version in (("2h", 4), ("25h", 4), ("3d", 2), ("0s", 5)):
            assert run("-c", aged, "time-travel", reference, "--json").ok().json["version"] == version
        moment = run("-c", aged, "time-travel", "v3", "--json").ok().json["created_at"]
        assert run("-c", aged, "at", moment, "--json").ok().json["version"] == 3
        run("-c", aged, "time-travel", "30d").failed(10, "oldest version, 0")

    def test_a_pipe_gets_the_version_and_then_the_objects(self, olympia):
        lines = [line.split("\t") for line in olympia("time-travel", "v3").ok().lines]
        assert lines[0][0] == "v3"
        assert lines[1][:2] == ["namespace", "a.b"]
        assert ["view", "sales", "open"] in lines
        assert len(lines) == 1 + 3 + 5 + 1

    @pytest.mark.parametrize("command", [["ns", "ls"], ["table", "ls"], ["view", "ls"]])
    def test_the_same_with_at_on_every_reading_command(self, olympia, command):
        key = {"ns": "namespaces", "table": "tables", "view": "views"}[command[0]]
        for version in range(8):
            whole = olympia("time-travel", f"v{version}", "--json").ok().json
            part = olympia(*command, "--at", f"v{version}", "--json").ok().json
            assert part == {"version": version, key: whole[key]}

    def test_at_on_show(self, olympia):
        assert olympia("table", "show", "sales.orders", "--at", "v3", "--json").ok().json["properties"] == {}
        assert olympia("table", "show", "sales.orders", "--at", "v4", "--json").ok().json["properties"] == {
            "tier": "gold"
        }
        olympia("ns", "alter", "sales", "--set", "owner=eve").ok()
        assert olympia("ns", "show", "sales", "--at", "latest~1", "--json").ok().json["properties"] == {"owner": "ann"}
        assert olympia("catalog", "show", "--at", "v0", "--json").ok().json["version"] == 0


class TestRollback:
    def test_it_is_a_new_version_with_the_old_content(self, olympia):
        before = olympia("time-travel", "v2", "--json").ok().json
        done = olympia("rollback", "v2", "--yes", "-m", "back", "--json").ok().json
        assert (done["version"], done["rolled_back_from"], done["rolled_back_to"]) == (8, 7, 2)
        after = olympia("time-travel", "latest", "--json").ok().json
        assert [after[key] for key in ("namespaces", "tables", "views")] == [
            before[key] for key in ("namespaces", "tables", "views")
        ]
        assert olympia("log", "-n", "1", "--json").ok().json["versions"][0]["message"] == "back"
        olympia("rollback", "v7", "--yes").ok()
        assert olympia("diff", "v7", "--json").ok().json["changes"] == []

    def test_a_dry_run_shows_the_plan_and_does_nothing(self, olympia):
        done = olympia("rollback", "v5", "--dry-run").ok()
        assert done.lines == ["v7  would roll back from v7 to v5"]
        plan, suggested = done.stderr.splitlines()[:-1], done.stderr.splitlines()[-1]
        assert plan == [
            "  - table sales.lines",
            "  > table sales.orders_2025 to sales.orders",
            "v7 → content of v5: 2 changes",
        ]
        assert suggested.startswith("to do it: olympia -c "), "with the location that was given"
        assert suggested.endswith("catalog rollback v5")
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v7"]

    def test_a_long_plan_is_cut(self, olympia):
        namespaces = [f'{{"do": "ns create", "name": "n{number}"}}\n' for number in range(80)]
        # in namespaces of their own they are not alike
        table = '{"do": "table register", "metadata_location": "x", "name": "n%d.t"}\n'
        olympia("apply", "-", input="".join([*namespaces, *(table % number for number in range(80))])).ok()
        done = olympia("rollback", "v7", "-n").ok()
        assert len(done.stderr.splitlines()) == 53
        assert "  … and 31 more" in done.stderr

    def test_to_itself_it_is_refused(self, olympia):
        assert olympia("rollback", "latest", "--yes").exit_code in (2, 10)
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v7"]

    def test_a_rollback_to_a_missing_definition_writes_nothing(self, run, damageable):
        shown = run("-c", damageable.uri, "table", "show", "sales.orders", "--at", "v3", "--json").ok().json
        (damageable.folder / shown["definition"]).unlink()
        run("-c", damageable.uri, "rollback", "v3", "--yes").failed(40, shown["definition"])
        assert run("-c", damageable.uri, "log", "-n", "1", "-o", "name").ok().lines == ["v7"]


class TestRestore:
    def test_a_dropped_table_comes_back_with_its_id(self, olympia):
        before = olympia("table", "show", "sales.lines", "--json").ok().json
        olympia("table", "drop", "sales.lines").ok()
        done = olympia("table", "restore", "sales.lines", "--at", "latest~1", "--json").ok().json
        assert done["actions"][0]["type"] == "TABLE_RESTORE"
        after = olympia("table", "show", "sales.lines", "--json").ok().json
        assert (after["id"], after["properties"]) == (before["id"], {"k": "v"})

    def test_an_older_state_of_a_table(self, olympia):
        olympia("table", "alter", "sales.lines", "--set", "k=w").ok()
        olympia("table", "restore", "sales.lines", "--from", "v7").ok()
        assert olympia("table", "show", "sales.lines", "--json").ok().json["properties"] == {"k": "v"}

    def test_its_namespace_must_exist(self, olympia):
        olympia("ns", "drop", "sales", "--cascade").ok()
        done = olympia("table", "restore", "sales.lines", "--at", "v7", "--json")
        assert (done.exit_code, done.error["code"]) == (10, "NamespaceNotFound")

    def test_one_that_lives_under_another_name_does_not_come_twice(self, olympia):
        olympia("table", "restore", "sales.orders", "--at", "v6").failed(11, "sales.orders_2025")


class TestHistory:
    def revisions(self, done) -> list[tuple[int, str, str]]:
        found = done.ok().json["revisions"]
        return [(one["version"], one["change"], f"{one['namespace']}.{one['name']}") for one in found]

    def test_through_a_rename(self, olympia):
        assert self.revisions(olympia("table", "history", "sales.orders_2025", "--json")) == [
            (7, "renamed", "sales.orders_2025"),
            (4, "altered", "sales.orders"),
            (2, "created", "sales.orders"),
        ]

    def test_through_a_drop_and_the_rollback_that_undid_it(self, olympia):
        assert self.revisions(olympia("table", "history", "sales.lines", "--json")) == [
            (6, "rolled back", "sales.lines"),
            (5, "dropped", "sales.lines"),
            (2, "created", "sales.lines"),
        ]

    def test_through_renames_of_the_namespace_and_rollbacks_over_them(self, olympia):
        olympia("ns", "rename", "sales", "revenue").ok()
        olympia("table", "rename", "revenue.lines", '"a.b".rows').ok()
        olympia("table", "alter", '"a.b".rows', "--set", "k=w").ok()
        olympia("rollback", "v8", "--yes").ok()
        olympia("rollback", "v10", "--yes").ok()
        assert self.revisions(olympia("table", "history", '"a.b".rows', "--json")) == [
            (12, "rolled back", "a.b.rows"),
            (11, "rolled back", "revenue.lines"),
            (10, "altered", "a.b.rows"),
            (9, "renamed", "a.b.rows"),
            (8, "renamed", "revenue.lines"),
            (6, "rolled back", "sales.lines"),
            (5, "dropped", "sales.lines"),
            (2, "created", "sales.lines"),
        ]

    def test_history_of_a_dropped_table_starts_at_its_drop(self, olympia):
        olympia("table", "drop", "sales.orders_2025").ok()
        assert self.revisions(olympia("table", "history", "sales.orders_2025", "--json"))[0] == (
            8,
            "dropped",
            "sales.orders_2025",
        )

    def test_another_table_under_the_name_is_another_history(self, olympia):
        olympia("table", "drop", "sales.lines").ok()
        olympia("table", "register", "sales.lines", "--metadata-location", "s3://new").ok()
        assert self.revisions(olympia("table", "history", "sales.lines", "--json")) == [(9, "created", "sales.lines")]

    def test_history_at_an_older_version_ends_there(self, olympia):
        done = olympia("table", "history", "sales.orders", "--at", "v3", "--json")
        assert self.revisions(done) == [(2, "created", "sales.orders")]

    def test_as_lines(self, olympia):
        lines = [line.split("\t") for line in olympia("table", "history", "sales.orders_2025").ok().lines]
        assert [line[0] for line in lines] == ["v7", "v4", "v2"]
        assert lines[1][4] == "00009.metadata.json"
        assert olympia("table", "history", "sales.orders_2025", "-o", "name").ok().lines == ["v7", "v4", "v2"]
        assert json.loads(olympia("table", "history", "sales.lines", "-o", "jsonl").ok().lines[0])["version"] == 6


def test_unset_of_a_missing_property_is_not_logged(olympia):
    for command in (["ns", "alter", "sales"], ["table", "alter", "sales.lines"], ["catalog", "alter"]):
        olympia(*command, "--set", "a=b", "--unset", "never").ok()
        [action] = olympia("log", "-n", "1", "--json").ok().json["versions"][0]["actions"]
        assert (action["detail"]["set"], action["detail"].get("unset")) == (["a"], None)
        assert "nothing to do" in olympia(*command, "--unset", "never").ok().stdout


def test_a_schema_that_was_probably_meant(olympia):
    olympia("schema", "tabel", "show").failed(2, "did you mean table show?")
