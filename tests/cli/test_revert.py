"""The command that takes versions back."""

from __future__ import annotations

import json

import pytest


def test_revert_takes_back_a_version_and_keeps_later_changes(olympia):
    olympia("table", "drop", "sales.lines").ok()
    olympia("ns", "create", "later").ok()
    plan = olympia("revert", "v8", "--dry-run").ok()
    assert (plan.stdout, plan.stderr) == ("v9  would take back v8 in a new version\n", "  + table sales.lines\n")
    olympia("revert", "v8").failed(12, "--yes")
    done = olympia("revert", "v8", "--yes", "-m", "was needed", "--json").ok().json
    assert (done["version"], done["reverts"], done["dry_run"]) == (10, {"first": 8, "last": 8}, False)
    assert [(one["type"], one["name"]) for one in done["actions"]] == [("TABLE_RESTORE", "lines")]
    assert "later" in olympia("ns", "ls").ok().lines
    newest, _, reverted, *_ = olympia("log", "--json").ok().json["versions"]
    assert (newest["reverts"], newest["message"]) == ([{"first": 8, "last": 8}], "was needed")
    assert (reverted["version"], reverted["reverted_by"], reverted["reverts"]) == (8, 10, [])
    lines = {line.split("\t")[0]: line.split("\t")[4] for line in olympia("log").ok().lines}
    assert (lines["v10"], lines["v8"], lines["v9"]) == ("reverts v8", "reverted by v10", "")
    assert "(reverts v8)" in olympia("log", "--oneline", "-n", "1").ok().stdout
    assert olympia("revert", "v8", "--yes").ok().stdout == "v10  nothing to do\n"


def test_the_log_distinguishes_altered_objects_from_restored_ones(olympia):
    """An object that is there is altered, also by a restore; one that was dropped comes back."""
    olympia("ns", "alter", "sales", "--set", "owner=bob").ok()
    olympia("table", "alter", "sales.lines", "--set", "tier=silver").ok()
    olympia("revert", "v8..v9", "--yes").ok()
    olympia("table", "restore", "sales.lines", "--at", "v9").ok()
    olympia("table", "drop", "sales.lines").ok()
    olympia("revert", "latest", "--yes").ok()
    actions = {}
    for line in olympia("log", "--since", "v10").ok().lines:
        cells = line.split("\t")
        actions.setdefault(cells[0], []).append(cells[5])
    assert actions == {
        "v10": ["~ namespace sales from v7", "~ table sales.lines from v7"],
        "v11": ["~ table sales.lines from v9"],
        "v12": ["- table sales.lines"],
        "v13": ["+ table sales.lines from v11"],
    }
    assert [line.split()[2] for line in olympia("log", "--since", "v10", "--oneline").ok().lines] == [
        "+1",
        "-1",
        "~1",
        "~2",
    ]
    [restored] = olympia("log", "-n", "1", "--json").ok().json["versions"][0]["actions"]
    assert restored["detail"]["replaces"] is False


@pytest.mark.parametrize("words", [["v8..v9"], ["v8", "--to", "latest"], ["v8.."]])
def test_a_range_in_three_ways(olympia, words):
    olympia("ns", "create", "x").ok()
    olympia("ns", "alter", "sales", "--set", "owner=bob").ok()
    assert olympia("revert", *words, "--yes").ok().stdout == "v10  took back v8 to v9\n"
    assert olympia("diff", "v7", "latest", "--json").ok().json["changes"] == []
    assert "reverts v8…v9" in olympia("log", "-n", "1").ok().stdout


def test_conflicts_are_all_named(olympia):
    olympia("ns", "alter", "sales", "--set", "owner=bob").ok()
    olympia("ns", "alter", "sales", "--set", "owner=cid").ok()
    refused = olympia("revert", "v8", "--yes").failed(20, "v8 cannot be reverted", "diff v8..latest")
    assert refused.stderr.splitlines()[0] == "  ! namespace sales  altered since (v9)"
    error = json.loads(olympia("revert", "v8", "--dry-run", "--json").stderr)["error"]
    assert (error["code"], error["exit_code"]) == ("RevertConflict", 20)
    assert error["conflicts"] == [
        {"object": "namespace", "namespace": "sales", "name": "sales", "why": "altered since", "version": 9}
    ]
    assert error["command"][-2:] == ["diff", "v8..latest"]
    assert olympia("ns", "show", "sales", "--json").ok().json["version"] == 9


def test_revert_refuses_rollbacks_exports_and_the_first_version(olympia):
    olympia("revert", "v6").failed(12, "v6 is a rollback to v4", "rollback v5")
    olympia("revert", "v0").failed(12, "v0 created the catalog")
    olympia("revert", "v7..v5").failed(2, "v7 came after v5")
    olympia("revert", "v5..v6", "--to", "v6").failed(2)
    olympia("revert", "v99").failed(10)
    olympia("export", "create", "out", "--dest", "out").ok()
    olympia("revert", "latest").failed(12, "recorded an export", "export drop out")


def test_inside_a_distributed_transaction(olympia, sample):
    done = olympia("revert", "v7", "--txn", sample.transaction, "--json").ok().json
    assert (done["version"], done["transaction"]) == (None, sample.transaction)
    assert [one["type"] for one in done["actions"]] == ["TABLE_RENAME"]
    staged = olympia("txn", "show", sample.transaction, "--json").ok().json["actions"]
    assert [one["type"] for one in staged] == ["NAMESPACE_CREATE", "TABLE_RENAME"]
    olympia("txn", "commit", sample.transaction).ok()
    assert olympia("log", "-n", "1", "--json").ok().json["versions"][0]["reverts"] == [{"first": 7, "last": 7}]
    assert "sales.orders" in olympia("table", "ls", "-o", "name").ok().lines


def test_a_long_plan_is_folded(olympia):
    lines = "".join(f'{{"do": "ns create", "name": "n{number:03}"}}\n' for number in range(70))
    olympia("apply", "-", input=lines).ok()
    for command in (["revert", "latest"], ["rollback", "latest~1"]):
        said = olympia(*command, "--dry-run").ok().stderr.splitlines()
        assert said[0] == "  - 70 namespaces  n000 … n069"


def test_the_plan_shows_the_change_of_each_field(olympia):
    olympia("ns", "alter", "sales", "--set", "owner=bob", "--set", "tier=gold").ok()
    olympia("catalog", "alter", "--set", "olympia.retention.min-versions=5").ok()
    expected = ["  ~ namespace sales", "      - properties.owner: bob", "      + properties.owner: ann"]
    expected += ["      - properties.tier: gold", "  ~ catalog", "      - properties.olympia.retention.min-versions: 5"]
    said = olympia("revert", "v8..v9", "--dry-run").ok()
    assert said.stderr.splitlines() == expected
    assert said.stdout == "v9  would take back v8 to v9 in a new version\n"
    assert olympia("rollback", "v7", "--dry-run").ok().stderr.splitlines()[: len(expected)] == expected
