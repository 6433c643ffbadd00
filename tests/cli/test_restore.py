"""Bringing back what was dropped: namespaces with all that was in them, tables, views."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run


def names(olympia: Run, *more: str) -> list[str]:
    return [line for kind in ("ns", "table", "view") for line in olympia(kind, "ls", "-o", "name", *more).ok().lines]


def ids(olympia: Run, *more: str) -> list[str]:
    tables = olympia("table", "ls", "-o", "name", *more).ok().lines
    return [olympia("table", "show", name, "--json", *more).ok().json["id"] for name in tables]


def test_a_namespace_comes_back_with_all_that_was_in_it(olympia):
    before, known = names(olympia), ids(olympia)
    dropped = olympia("ns", "drop", "sales", "--cascade").ok()
    assert dropped.stdout == "v8  dropped namespace sales\n"
    lines = dropped.stderr.splitlines()
    assert lines[:-1] == [
        "  - table sales.lines",
        "  - table sales.orders_2025",
        "  - view sales.open",
        "  - namespace sales",
    ]
    assert lines[-1].endswith("ns restore --at v7 sales")
    assert names(olympia) != before
    done = olympia("ns", "restore", "sales", "--at", "v7", "--json").ok().json
    assert (done["version"], done["left_out"]) == (9, [])
    assert [one["type"] for one in done["actions"]] == [
        "NAMESPACE_RESTORE",
        "TABLE_RESTORE",
        "TABLE_RESTORE",
        "VIEW_RESTORE",
    ]
    assert (names(olympia), ids(olympia)) == (before, known)
    assert olympia("ns", "show", "sales", "--json").ok().json["properties"] == {"owner": "ann"}
    assert olympia("ns", "restore", "sales", "--at", "v7").ok().stdout == "v9  nothing to do\n"


def test_restore_of_a_namespace_keeps_renamed_and_new_tables(olympia):
    olympia("table", "rename", "sales.lines", '"a.b".lines').ok()
    olympia("ns", "drop", "sales", "--cascade", "-q").ok()
    done = olympia("ns", "restore", "sales", "--at", "v7").ok()
    assert done.stderr == 'not restored: table sales.lines is "a.b".lines now\n'
    olympia("table", "register", "sales.new", "--metadata-location", "s3://new").ok()
    olympia("table", "drop", "sales.orders_2025").ok()
    olympia("ns", "alter", "sales", "--set", "owner=bob").ok()
    done = olympia("ns", "restore", "sales", "--at", "v7", "--json").ok().json
    assert [(one["type"], one["name"]) for one in done["actions"]] == [
        ("NAMESPACE_RESTORE", "sales"),
        ("TABLE_RESTORE", "orders_2025"),
    ]
    assert [one["lives_as"]["namespace"] for one in done["left_out"]] == ["a.b"]
    assert "sales.new" in names(olympia)


def test_restore_of_a_renamed_namespace_is_refused(olympia):
    olympia("ns", "rename", "sales", "-revenue").failed(2)
    olympia("ns", "rename", "--", "sales", "-revenue").ok()
    olympia("ns", "restore", "sales", "--at", "v7").failed(11, "lives as -revenue now", "ns rename -- -revenue sales")


def test_another_namespace_of_the_name_is_in_the_way(olympia):
    olympia("ns", "drop", "sales", "--cascade", "-q").ok()
    olympia("ns", "create", "sales").ok()
    olympia("ns", "restore", "sales", "--at", "v7").failed(11, "the namespace sales exists already")
    olympia("ns", "restore", "sales", "--at", "v0").failed(10, "there is no namespace sales in version 0")


@pytest.mark.parametrize(("kind", "name"), [("table", "sales.orders_2025"), ("view", "sales.open")])
def test_restore_of_an_object_needs_its_namespace(olympia, kind, name):
    shown = olympia(kind, "show", name, "--json").ok().json
    olympia("ns", "drop", "sales", "--cascade", "-q").ok()
    olympia(kind, "restore", name, "--at", "v7").failed(10, "there is no namespace sales", "ns restore --at v7 sales")
    olympia("ns", "create", "sales").ok()
    assert olympia(kind, "restore", name, "--at", "v7").ok().stdout == f"v10  restored {kind} {name} from v7\n"
    again = olympia(kind, "show", name, "--json").ok().json
    assert (again["id"], again["properties"]) == (shown["id"], shown["properties"])
    assert names(olympia, "--at", "v10").count(name) == 1


def test_inside_a_distributed_transaction(olympia, sample):
    olympia("ns", "drop", "sales", "--cascade", "--txn", sample.transaction).ok()
    refused = olympia("table", "restore", "sales.lines", "--at", "v7", "--txn", sample.transaction)
    refused.failed(10, f"ns restore --at v7 --txn {sample.transaction} sales")
    olympia("ns", "restore", "sales", "--at", "v7", "--txn", sample.transaction).ok()
    before = names(olympia)
    olympia("txn", "commit", sample.transaction).ok()
    assert set(names(olympia)) - set(before) == {"staged"}
