"""DeltaCAT catalogs come in: the same objects and rows that DeltaCAT shows, and none that it would not."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.importers.deltacat.checks import CODES
from tests.helpers.deltacat_catalog import LEGACY, SMALL, DeltacatWriter, numbered, table_body, unpack, version_body
from tests.helpers.json_schema import check

SCHEMA = numbered(("id", pa.int64()), ("name", pa.string()))
AFTER_ITEMS = "1794787399099219514_b9eae95f-0660-46ca-a310-3fa14a19cfa6"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The catalogs that DeltaCAT wrote, and what it says of them."""
    return {name: unpack(name, tmp_path_factory.mktemp("deltacat")) for name in (SMALL, LEGACY)}


@pytest.fixture
def made(tmp_path):
    return DeltacatWriter(tmp_path / "source")


@pytest.fixture
def bring(run, empty, tmp_path):
    """Import a source, the one that was made if no other is given."""
    return lambda *words, source=tmp_path / "source": run("-c", empty, "import", "deltacat", source, "--json", *words)


@pytest.fixture
def rows(empty):
    def rows(name):
        found = OlympiaCatalog("c", warehouse=str(empty)).load_table(name).scan().to_arrow()
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)

    return rows


def data(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{id}" for id in ids]}, schema=SCHEMA)


def tables(ran):
    return sorted((one["name"], one["files"], one["rows"]) for one in ran.json["tables"])


def skipped(ran, name):
    [found] = [one["skipped"] for one in ran.json["tables"] if one["name"] == name]
    assert ran.exit_code == (3 if found or ran.json["problems"] else 0)
    return {one["what"]: one["why"] for one in found}


def problems(ran):
    assert ran.exit_code == 3
    return {one["what"]: one["why"] for one in ran.json["problems"]}


def expected_tables(expected):
    """Return each table as DeltaCAT lists it: its id, its columns, and the numbers of files and rows."""
    for namespace in expected["namespaces"]:
        for table in namespace["tables"]:
            [version] = table["table_versions"]
            files = sum(
                len(delta["files"])
                for stream in version["streams"]
                for partition in stream["partitions"]
                for delta in partition["deltas"]
            )
            columns = [name for name, _ in version["columns"]]
            yield f"{namespace['name']}.{table['name']}", table["id"], columns, files, table["rows_read"]


# What DeltaCAT wrote


def test_import_of_a_real_catalog_agrees_with_deltacat(real, bring, rows, run, empty):
    folder, expected = real[SMALL]
    done = bring("-m", "adopted", source=folder).ok()
    listed = sorted(expected_tables(expected))
    assert tables(done) == [(name, files, count) for name, _, _, files, count in listed]
    assert (done.json["version"], done.json["namespaces"], done.json["problems"]) == (1, 3, [])
    catalog = OlympiaCatalog("c", warehouse=str(empty))
    for name, id, columns, _, count in listed:
        table = catalog.load_table(name)
        assert len(rows(name)) == count
        assert [(field.field_id, field.name) for field in table.schema().fields] == list(enumerate(columns))
        assert str(table.metadata.table_uuid) == id
        assert run("-c", empty, "table", "show", name, "--json").json["id"] == id
    for namespace in expected["namespaces"]:
        shown = run("-c", empty, "ns", "show", namespace["name"], "--json").json
        own = {key: value for key, value in shown["properties"].items() if not key.startswith("deltacat.")}
        assert (shown["id"], own) == (namespace["id"], {k: str(v) for k, v in (namespace["properties"] or {}).items()})
    assert run("-c", empty, "log", "-n", "1", "--json").json["versions"][0]["message"] == "adopted"
    assert run("-c", empty, "fsck", "--level", "data").ok()


def test_revisions_of_an_object_are_kept_in_its_properties(real, bring, run, empty):
    bring(source=real[SMALL][0]).ok()
    properties = run("-c", empty, "table", "show", "sales.customer_orders", "--json").json["properties"]
    history = json.loads(properties["deltacat.history"])
    assert [(one["revision"], one["operation"]) for one in history] == [(1, "create"), (2, "update")]
    assert history[1]["at"] == "2026-11-16T00:03:19.249Z"
    assert properties["deltacat.transaction"] == history[1]["transaction"]
    assert properties["deltacat.description"] == "all orders"
    assert properties["deltacat.table-version"] == "1"


def test_the_flat_layout_with_urls_of_another_place(real, bring, rows):
    folder, expected = real[LEGACY]
    done = bring(source=folder).ok()
    assert {name: count for name, _, count in tables(done)} == {
        f"{namespace}.{table}": count
        for namespace, inside in expected["namespaces"].items()
        for table, count in inside.items()
    }
    assert rows("ops.jobs")[0] == (0, "s0")


@pytest.mark.parametrize("name", [SMALL, LEGACY])
@pytest.mark.parametrize("first", [[], ["--history"]])
def test_running_it_again_changes_nothing(real, bring, name, first):
    folder, _ = real[name]
    before = bring(*first, source=folder).ok().json
    for words in ([], ["--history"], ["--dry-run"]):
        again = bring(*words, source=folder).ok().json
        assert (again["version"], again["tables"], again["namespaces"]) == (before["version"], [], 0)
        assert again["unchanged"] > 0


def test_a_history_is_one_commit_a_transaction(real, bring, run, empty, rows):
    folder, expected = real[SMALL]
    done = bring("--history", "-m", "moved", source=folder).ok()
    succeeded = expected["transactions"]["SUCCESS"]["count"]
    assert done.json["version"] == succeeded == 18
    versions = run("-c", empty, "log", "--json").json["versions"][:-1]
    ended = [one for one in expected["transaction_log"] if one["status"] == "SUCCESS"]
    ended.sort(key=lambda one: -one["end"])
    for version, transaction in zip(versions, ended, strict=True):
        assert transaction["id"] in version["message"]
        assert version["message"].startswith("moved\n" + (transaction["message"] or "transaction"))
    assert tables(done) == sorted((name, files, count) for name, _, _, files, count in expected_tables(expected))
    assert len(rows("raw.clicks")) == 9
    # 5 is before the table was renamed, and before it had more than its first file
    then = run("-c", empty, "table", "files", "sales.orders", "--at", "5", "--json").ok().json["files"]
    assert [one["records"] for one in then] == [10]
    assert run("-c", empty, "fsck", "--level", "data", "--all-versions").ok()


def test_at_a_time(real, bring, rows):
    folder, _ = real[SMALL]
    then = bring("--inspect", "--at", AFTER_ITEMS, source=folder).ok()
    assert tables(then) == [("sales.items", 1, 4), ("sales.orders", 3, 22)]
    states = {one["id"]: one["state"] for one in then.json["transactions"]}
    assert (len(states), states[AFTER_ITEMS]) == (8, "success")
    assert bring("--inspect", "--at", "2026-11-16T00:03:19Z", source=folder).ok().json["namespaces"] == 1
    assert bring("--inspect", "--at", "2026-11-15", source=folder).ok().json["transactions"] == []
    bring("--at", AFTER_ITEMS, source=folder).ok()
    done = bring(source=folder).ok().json
    names = {one["name"] for one in done["tables"]}
    assert names == {"raw.clicks", "raw.events", "sales.customer_orders", "sales.items"}
    assert (len(rows("sales.customer_orders")), len(rows("sales.items"))) == (22, 6)
    older = bring("--at", AFTER_ITEMS, source=folder).error
    assert "was imported already as it was at 2026-11-16" in older["message"]
    assert older["exit_code"] == 2


def test_inspect_shows_tables_and_a_log(real, run, empty):
    folder, expected = real[SMALL]
    found = run("-c", empty, "import", "deltacat", folder, "--inspect").ok()
    assert any(line.startswith("created\tsales.customer_orders\t3\t22\t") for line in found.lines), found.lines
    shown = run("-c", empty, "import", "deltacat", folder, "--inspect", "--json").ok().json
    counts = Counter(one["state"].upper() for one in shown["transactions"])
    assert counts == Counter({state: told["count"] for state, told in expected["transactions"].items()})
    check(shown, "import")
    messages = {one["id"]: one["message"] for one in shown["transactions"]}
    assert messages == {one["id"]: one["message"] for one in expected["transaction_log"]}
    assert run("-c", empty, "status", "--json").json["version"] == 0


def test_into_one_namespace(real, bring, rows, run, empty):
    folder, _ = real[SMALL]
    done = bring("--into", "old", source=folder).ok()
    assert [name for name, _, _ in tables(done)] == ["old.clicks", "old.customer_orders", "old.events", "old.items"]
    assert {"from": "sales.items", "to": "old.items"} in done.json["renamed"]
    assert bring("--into", "old", source=folder).ok().json["version"] == 1
    assert "was imported --into old before" in bring(source=folder).error["message"]


def test_a_source_is_followed(real, tmp_path, bring, rows, run, empty):
    """Changes at the source are imported, through renames and replaced streams; local changes stay."""
    folder, _ = real[SMALL]
    bring("--at", "1794787399263653840_aad81d32-cd16-4088-9675-4fc3ea9c79b1", source=folder).ok()
    assert len(rows("sales.items")) == 6
    OlympiaCatalog("c", warehouse=str(empty)).load_table("raw.events").append(
        pa.table({"id": [7], "name": ["here"], "amt": [1.0]})
    )
    done = bring(source=folder)
    assert problems(done) == {"table raw.events": "it was changed here"}
    assert tables(done) == [("raw.clicks", 1, 9)]
    assert len(rows("raw.events")) == 4


# What a writer of ours wrote


def test_renames_drops_and_replaced_streams_are_followed(made, bring, rows, run, empty):
    with made.transaction() as txn:
        first, second = txn.namespace("first"), txn.namespace("second")
        streams = {name: txn.table(first, name, SCHEMA) for name in ("a", "b", "c")}
        for at, stream in enumerate(streams.values()):
            txn.delta(txn.partition(stream), 1, data(at))
    bring().ok()
    with made.transaction() as txn:
        # a takes the name of b, which takes another, in a namespace that is renamed
        a, b, c = (stream[:2] for stream in streams.values())
        txn.put(a, table_body(a, "b"), "update")
        txn.put(b, table_body(b, "d"), "update")
        txn.put(c, table_body(c, "c"), "delete")
        txn.put(first, {"namespaceLocator": {"namespace": "renamed"}, "id": first[0]}, "update")
        txn.put(second, {"namespaceLocator": {"namespace": "second"}, "id": second[0]}, "delete")
        txn.put(streams["a"], {"streamLocator": {"format": "deltacat"}, "state": "committed"}, "delete")
        txn.delta(txn.partition(txn.stream(streams["a"][:3])), 1, data(5, 6))
    done = bring().ok()
    assert (tables(done), done.json["dropped"]) == ([("renamed.b", 1, 2), ("renamed.d", 1, 1)], 2)
    assert (rows("renamed.b"), rows("renamed.d")) == ([(5, "n5"), (6, "n6")], [(1, "n1")])
    assert [one["name"] for one in run("-c", empty, "ns", "ls", "--json").json["namespaces"]] == ["renamed"]
    assert bring().ok().json["version"] == 2
    assert run("-c", empty, "fsck", "--level", "data").ok()


def test_upserts_deletes_and_rows_they_may_change_are_skipped(made, bring, rows):
    """Rows before an upsert or delete may be changed by it; those after it are as they are."""
    with made.transaction() as txn:
        ns = txn.namespace("n")
        one = txn.partition(txn.table(ns, "upserts", SCHEMA))
        txn.delta(one, 1, data(1))
        txn.delta(one, 2, data(1, 2), type="upsert")
        txn.delta(one, 3, data(3))
        txn.delta(one, 484561799218899536, data(4), type="add")
        two = txn.partition(txn.table(ns, "deletes", SCHEMA))
        txn.delta(two, 1, data(1))
        txn.delta(two, 2, data(1), type="delete", entry_type="equality_delete")
        three = txn.partition(txn.table(ns, "formats", SCHEMA))
        txn.delta(three, 1, data(1))
        csv = txn.delta(three, 2, b"1,x\n", content_type="text/csv")
    done = bring()
    assert rows("n.upserts") == [(3, "n3")]
    assert skipped(done, "n.upserts") == {
        f"delta {one[-1]}/2": "it is an upsert, which plain files cannot say",
        f"delta {one[-1]}/1 and 1 more": "an upsert or delete changes its rows, which plain files cannot say",
    }
    assert rows("n.deletes") == []
    assert skipped(done, "n.deletes")[f"delta {two[-1]}/2"] == "it is a delete, which plain files cannot say"
    assert rows("n.formats") == [(1, "n1")]
    assert skipped(done, "n.formats") == {csv: "it is 'text/csv', and not plain Parquet"}
    again = bring()
    assert (again.json["version"], again.exit_code, len(again.json["problems"])) == (1, 3, 5)
    assert f"{csv} of table n.formats" in problems(again)


def test_skipped_deltas_name_the_command_that_imports_them(made, bring, empty):
    """The named command works where Spark is installed."""
    with made.transaction() as txn:
        partition = txn.partition(txn.table(txn.namespace("n"), "t", SCHEMA))
        txn.delta(partition, 1, data(1), type="upsert")
    command = f"olympia -c {empty} import deltacat --rewrite --into all {made.folder}"
    for done in (bring("--into", "all"), bring("--into", "all")):
        left = done.json["problems"] or done.json["tables"][0]["skipped"]
        assert [one["command"] for one in left] == [command]
        assert json.loads(done.stderr.splitlines()[-1])["error"]["hint"].endswith(command)


def test_rewriting_without_spark(made, bring, monkeypatch):
    with made.transaction() as txn:
        txn.namespace("n")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = bring("--rewrite")
    assert done.exit_code == 2
    assert "install olympia-cli[spark]" in done.stderr


@pytest.mark.parametrize(
    "words", [("--rewrite", "--history"), ("--rewrite", "--check"), ("--rewrite", "--inspect"), ("--master", "local")]
)
def test_options_that_do_not_go_together(made, bring, words):
    assert bring(*words).exit_code == 2


def test_identity_partitions_keep_their_values(made, bring, rows, empty):
    schema = numbered(("day", pa.date32()), ("n", pa.int64()), ("v", pa.int64()))
    day = datetime.date(2026, 11, 15)
    table = pa.table({"day": [day], "n": [1], "v": [2]}, schema=schema)
    keys = [
        {"key": ["day"], "transform": {"name": "identity"}},
        {"key": ["v"], "transform": {"name": "bucket", "parameters": {"numBuckets": 4}}},
        {"key": ["n"], "transform": None},
    ]
    with made.transaction() as txn:
        stream = txn.table(txn.namespace("n"), "t", schema, keys)
        txn.delta(txn.partition(stream, ["2026-11-15", 3, 1]), 1, table)
        wrong = txn.delta(txn.partition(stream, ["2026-11-15", 3, 7]), 1, table)
        odd = txn.delta(txn.partition(stream, ["someday", 3, 1]), 1, table)
    done = bring()
    assert skipped(done, "n.t") == {
        wrong: "its column 'n' has values that differ from its partition's",
        odd: "its partition has the value 'someday', and the column 'day' is date",
    }
    found = OlympiaCatalog("c", warehouse=str(empty)).load_table("n.t")
    assert [field.name for field in found.spec().fields] == ["day", "n"]
    assert found.scan(row_filter="day = '2026-11-15' and n = 1").to_arrow().num_rows == 1
    assert list(found.scan(row_filter="day = '2026-11-16'").plan_files()) == []


def test_files_stay_when_their_table_is_partitioned_in_another_way(made, bring, rows):
    with made.transaction() as txn:
        stream = txn.table(txn.namespace("n"), "t", SCHEMA, [{"key": ["id"], "transform": {"name": "identity"}}])
        txn.delta(txn.partition(stream, [1]), 1, data(1))
    bring().ok()
    with made.transaction() as txn:
        txn.version(stream[:2], "1", SCHEMA, operation="update")
        other = txn.delta(txn.partition(stream), 1, data(2))
    assert skipped(bring(), "n.t") == {other: "its table now has another partitioning"}
    assert rows("n.t") == [(1, "n1")]


def test_columns_are_found_by_their_ids(made, bring, rows):
    """A column that was renamed, one that is new, one that is gone: each file is read as what it is."""
    with made.transaction() as txn:
        stream = txn.table(txn.namespace("n"), "t", SCHEMA)
        partition = txn.partition(stream)
        txn.delta(partition, 1, data(1))
    bring().ok()
    new = numbered(("id", pa.int64()), ("title", pa.string()), ("extra", pa.int64()))
    foreign = pa.table({"x": [1], "id": ["1"]}, schema=numbered(("x", pa.int64()), ("id", pa.string())))
    with made.transaction() as txn:
        body = version_body("1", new)
        txn.put(stream[:3], body | {"schemas": [version_body("1", SCHEMA)["schema"], body["schema"]]}, "update")
        txn.delta(partition, 2, pa.table({"id": [2], "title": ["two"], "extra": [5]}, schema=new))
        other = txn.delta(partition, 3, foreign)
        txn.delta(partition, 4, pa.table({"title": ["three"], "id": [3]}))
        more = txn.delta(partition, 6, pa.table({"id": [3], "more": [1]}))
        texts = txn.delta(partition, 5, pa.table({"id": ["four"]}))
    done = bring()
    assert rows("n.t") == [(1, "n1", None), (2, "two", 5), (3, "three", None)]
    assert skipped(done, "n.t") == {
        other: "its column 'x' has the id of 'id'",
        texts: "its column 'id' is string, and the table's is long",
        more: "its columns have no ids, and the table has no column 'more'",
    }


def test_a_value_for_older_files_is_not_lost_in_silence(made, bring, rows):
    """Iceberg would show no value where DeltaCAT shows one."""
    new = SCHEMA.append(pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "2", "DELTACAT:past_default": b"\x07"}))
    with made.transaction() as txn:
        stream = txn.table(txn.namespace("n"), "t", SCHEMA)
        partition = txn.partition(stream)
        old = txn.delta(partition, 1, data(1))
    bring().ok()
    with made.transaction() as txn:
        txn.version(stream[:2], "1", new, operation="update")
        txn.delta(partition, 2, pa.table({"id": [2], "name": ["n2"], "n": [5]}, schema=new))
    why = (
        "it lacks the column 'n', which has a default value in the table; its table has this file, and was not changed"
    )
    for _ in range(2):
        assert problems(bring()) == {f"{old} of table n.t": why}
        assert rows("n.t") == [(1, "n1")]


def test_a_file_that_cannot_be_read_now_stays_in_its_table(made, bring, rows):
    """Columns with a value for older files have known files read again, which may fail while the network does."""
    valued = numbered(("id", pa.int64()), ("name", pa.string()))
    valued = valued.set(0, valued.field(0).with_metadata({"PARQUET:field_id": "0", "DELTACAT:past_default": b"\x07"}))
    with made.transaction() as txn:
        partition = txn.partition(txn.table(txn.namespace("n"), "t", valued))
        known = txn.delta(partition, 1, data(1))
    bring().ok()
    content = (made.folder / known).read_bytes()
    (made.folder / known).write_bytes(bytes(len(content)))
    with made.transaction() as txn:
        txn.delta(partition, 2, data(2))
    why = "it is no Parquet file, or was not written to its end; its table has this file, and was not changed"
    assert problems(bring()) == {f"{known} of table n.t": why}
    (made.folder / known).write_bytes(content)
    assert rows("n.t") == [(1, "n1")]
    assert tables(bring().ok()) == [("n.t", 2, 2)]
    assert rows("n.t") == [(1, "n1"), (2, "n2")]


def test_files_that_contradict_their_manifest_are_skipped(made, bring, rows):
    plain = {"content_type": "application/parquet"}
    with made.transaction() as txn:
        partition = txn.partition(txn.table(txn.namespace("n"), "t", SCHEMA))
        txn.delta(partition, 1, data(1), meta=plain)
        short = txn.delta(partition, 2, data(2), meta={**plain, "record_count": 9})
        junk = txn.delta(partition, 3, b"PAR1 junk PAR1", meta=plain)
        packed = txn.delta(partition, 4, data(4), meta={**plain, "content_encoding": "gzip"})
        half = numbered(("id", pa.int64())).append(pa.field("name", pa.string()))
        some = txn.delta(partition, 5, pa.table({"id": [5], "name": ["x"]}, schema=half))
    told = skipped(bring(), "n.t")
    assert told == {
        short: "it has 1 of the 9 rows that its manifest says",
        junk: "it is no Parquet file, or was not written to its end",
        packed: "it is 'application/parquet' in 'gzip', and not plain Parquet",
        some: "some of its columns have ids, and some have none",
    }
    assert rows("n.t") == [(1, "n1")]


def test_versions_streams_and_partitions_that_do_not_count(made, bring, rows):
    with made.transaction() as txn:
        ns = txn.namespace("n")
        stream = txn.table(ns, "t", SCHEMA, version="2")
        txn.delta(txn.partition(stream), 1, data(1))
        txn.delta(txn.partition(stream, state="staged"), 1, data(2))
        txn.delta(txn.partition(stream, state="deprecated"), 1, data(3))
        txn.version(stream[:2], "1", SCHEMA)
        txn.version(stream[:2], "3", SCHEMA, state="unreleased")
        iceberg = txn.stream(stream[:3], "iceberg")
        txn.stream(stream[:3], state="staged")
    done = bring()
    assert rows("n.t") == [(1, "n1")]
    assert skipped(done, "n.t") == {
        "version 1": "version 2 is the latest active one",
        f"stream {iceberg[-1]}": "its format is 'iceberg'",
    }


def test_only_transactions_that_succeeded_count(made, bring):
    with made.transaction() as txn:
        ns = txn.namespace("n")
        txn.table(ns, "success", SCHEMA)
    for state in ("failed", "running", "paused", None, "success"):
        with made.transaction(state=state) as txn:
            txn.table(ns, f"not-{state}", SCHEMA)
    [log] = made.folder.glob(f"txn/success/*/*/*/*/*/{txn.id}/*")
    shutil.copy(log, log.with_name("1794000099000000000"))
    assert [name for name, _, _ in tables(bring().ok())] == ["n.success"]
    assert [name for name, _, _ in tables(bring("--inspect").ok())] == ["n.success"]


def test_names_that_the_format_forbids(made, bring, rows):
    with made.transaction() as txn:
        txn.delta(txn.partition(txn.table(txn.namespace("a b"), "x\ny", SCHEMA)), 1, data(1))
    done = bring().ok()
    assert tables(done) == [("a%20b.x%0Ay", 1, 1)]
    assert done.json["renamed"] == [{"from": "a b", "to": "a%20b"}, {"from": "a b.x\ny", "to": "a%20b.x%0Ay"}]
    assert bring().ok().json["version"] == 1


def test_names_that_nothing_can_have(made, bring, rows):
    with made.transaction() as txn:
        nameless, ns = txn.namespace(""), txn.namespace("n")
        txn.table(nameless, "t", SCHEMA)
        empty = txn.table(ns, "", SCHEMA)
        txn.delta(txn.partition(txn.table(ns, "t", SCHEMA)), 1, data(1))
    (made.folder / b"odd-\xff".decode("utf-8", "surrogateescape")).write_bytes(b"")
    told = problems(bring())
    assert told[f"namespace {nameless[0]}"] == "it has no name"
    assert len(told) == 3
    assert empty
    assert rows("n.t") == [(1, "n1")]
    assert [one["path"] for one in bring("--check").json["findings"]] == ["'odd-\\udcff'"]


def test_a_name_that_is_taken_here(made, bring, run, empty):
    run("-c", empty, "ns", "create", "n").ok()
    run("-c", empty, "table", "register", "n.t", "--metadata-location", "s3://b/m.json").ok()
    with made.transaction() as txn:
        txn.delta(txn.partition(txn.table(txn.namespace("n"), "t", SCHEMA)), 1, data(1))
    assert problems(bring()) == {"table n.t": "another table has the name n.t here"}


def test_a_rename_waits_until_the_name_is_free(made, bring, run, empty, rows):
    with made.transaction() as txn:
        stream = txn.table(txn.namespace("n"), "a", SCHEMA)
        txn.delta(txn.partition(stream), 1, data(1))
    bring().ok()
    run("-c", empty, "table", "register", "n.b", "--metadata-location", "s3://b/m.json").ok()
    with made.transaction() as txn:
        txn.put(stream[:2], table_body(stream[:2], "b"), "update")
    for _ in range(2):
        assert problems(bring()) == {"table n.b": "another table has the name n.b here"}
        assert rows("n.a") == [(1, "n1")]
    run("-c", empty, "table", "drop", "n.b").ok()
    assert tables(bring().ok()) == [("n.b", 1, 1)]
    assert rows("n.b") == [(1, "n1")]


def test_a_skipped_file_is_imported_once_it_is_sound(made, bring, rows):
    with made.transaction() as txn:
        partition = txn.partition(txn.table(txn.namespace("n"), "t", SCHEMA))
        txn.delta(partition, 1, data(1))
        lost = txn.delta(partition, 2, data(2))
    file = made.folder / lost
    content = file.read_bytes()
    for broken, why in ((None, "it is missing"), (b"PAR1", "it is no Parquet file, or was not written to its end")):
        file.unlink() if broken is None else file.write_bytes(broken)
        done = bring()
        assert done.exit_code == 3
        assert [
            one["why"] for one in [*done.json["problems"], *(one for t in done.json["tables"] for one in t["skipped"])]
        ] == [why]
    file.write_bytes(content)
    assert tables(bring().ok()) == [("n.t", 2, 2)]
    assert rows("n.t") == [(1, "n1"), (2, "n2")]
    assert bring().ok().json["tables"] == []


# What is wrong


@pytest.mark.parametrize("words", [[], ["--inspect"], ["--check"], ["--history"]])
def test_a_source_without_a_catalog_is_not_found(tmp_path, bring, words):
    (tmp_path / "source").mkdir()
    assert bring(*words).error["code"] == "CatalogNotFound"
    (tmp_path / "source" / "notes.txt").write_text("hello")
    assert bring(*words).error["exit_code"] == 10
    assert bring(*words, source=tmp_path / "nowhere").exit_code == 10


@pytest.mark.parametrize("words", [[], ["--inspect"], ["--check"]])
def test_the_folder_above_a_catalog_is_none(tmp_path, bring, words):
    unpack(SMALL, tmp_path / "above" / "catalog")
    said = bring(*words, source=tmp_path / "above").error
    assert (said["exit_code"], said["hint"]) == (10, "name the folder that txn/ is in")


def test_an_empty_catalog(made, bring):
    made.write("version/2.0.0.post4.1", b"")
    assert bring().ok().json["tables"] == []
    assert bring("--check").ok().json["findings"] == []


def test_only_one_of_the_looks(bring, made):
    made.write("version/2.0.0.post4.1", b"")
    assert bring("--inspect", "--check").error["message"] == "--inspect and --check do not go together"
    assert bring("--at", "latest").error["message"] == "'latest' is no time"
    assert "has succeeded" in bring("--at", AFTER_ITEMS).error["message"]


def test_unreadable_objects_are_skipped_and_found_by_check(made, bring, rows):
    with made.transaction() as txn:
        ns, lost = txn.namespace("n"), txn.namespace("lost")
        streams = {name: txn.table(ns, name, SCHEMA) for name in ("whole", "table", "version", "stream", "delta")}
        txn.table(lost, "inside", SCHEMA)
        partitions = {name: txn.partition(stream) for name, stream in streams.items()}
        for partition in partitions.values():
            txn.delta(partition, 1, data(1))
        unnamed = txn.delta(partitions["delta"], 2, data(2))
        txn.delta(partitions["delta"], 3, data(3))
        txn.table(ns, "schemaless", None)
        txn.table(ns, "unsigned", numbered(("u", pa.uint64())))
        idle = (*ns, "11111111-1111-4111-8111-111111111111")
        txn.put(idle, table_body(idle, "idle", None))
        txn.name(ns, "idle", idle[-1])

    def file(*object):
        [found] = made.folder.joinpath(*object, "rev").rglob("*.mpk")
        return found

    file(*streams["table"][:2]).write_bytes(b"")
    file(*streams["version"][:3]).write_bytes(file(*streams["version"][:3]).read_bytes()[:-9])
    file(*streams["stream"]).write_bytes(b"\x80")
    file(*partitions["delta"], "2").write_bytes(b"garbage")
    file(*lost).unlink()
    done = bring()
    told = problems(done)
    assert told == {
        f"table {streams['table'][1]}": told[f"table {streams['table'][1]}"],
        "table n.version": "its active version '1' cannot be read: it is cut short",
        "table n.stream": f"its stream {streams['stream'][-1]} cannot be read: it is of a foreign thing, "
        "and its folder is that of a stream",
        "table n.schemaless": "it has no schema",
        "table n.unsigned": "it has a column of the type uint64, which Iceberg does not have",
        "table n.idle": "none of its versions is active",
    }
    assert told[f"table {streams['table'][1]}"].endswith("it is empty")
    # a delta that cannot be read may have been an upsert
    assert (rows("n.whole"), rows("n.delta")) == ([(1, "n1")], [(3, "n3")])
    found = bring("--check")
    assert found.exit_code == 50
    codes = {(one["code"], one["path"].partition("/rev/")[0].rpartition("/")[2]) for one in found.json["findings"]}
    assert codes == {
        ("D105", lost[0]),
        ("D201", streams["table"][1]),
        ("D201", "1"),
        ("D201", streams["stream"][-1]),
        ("D201", "2"),
        ("D203", streams["version"][1]),
        ("D203", streams["stream"][1]),
        ("D203", idle[1]),
        ("D902", unnamed.rpartition("/")[2]),
    } | {one for one in codes if one[0] == "D301"}


def test_damage_at_the_source_takes_nothing_away_here(made, bring, rows):
    """A file, a delta or a whole transaction that is lost there later: what came before stays, and it is told."""
    with made.transaction() as txn:
        ns = txn.namespace("n")
        partitions = {name: txn.partition(txn.table(ns, name, SCHEMA)) for name in ("file", "delta", "torn")}
        paths = {name: txn.delta(partition, 1, data(1)) for name, partition in partitions.items()}
    with made.transaction() as lost:
        lost.delta(lost.partition(lost.table(ns, "lost", SCHEMA)), 1, data(1))
    bring().ok()
    (made.folder / paths["file"]).unlink()
    [log] = made.folder.glob(f"txn/success/*/*/*/*/*/{lost.id}/*")
    log.unlink()
    with made.transaction() as txn:
        for partition in partitions.values():
            second = txn.delta(partition, 2, data(2))
    (made.folder / second).unlink()
    [torn] = made.folder.joinpath(*partitions["torn"], "1", "rev").rglob("*.mpk")
    torn.write_bytes(b"torn")
    done = bring()
    told = problems(done)
    assert told.pop("table n.lost") == "it is not at the source, and was not dropped there"
    assert told == {
        f"delta {partitions['torn'][-1]}/1 of table n.torn": "it cannot be read: 3 bytes follow its end",
        f"{second} of table n.torn": "it is missing",
    }
    assert tables(done) == [("n.delta", 2, 2), ("n.file", 2, 2)]
    assert skipped(done, "n.file") == {paths["file"]: "it is missing"}
    assert (rows("n.delta"), rows("n.torn"), rows("n.lost")) == ([(1, "n1"), (2, "n2")], [(1, "n1")], [(1, "n1")])


def codes(ran):
    check(ran.json, "deltacat-check")
    assert ran.exit_code == (50 if ran.json["damaged"] else 0)
    return sorted({one["code"] for one in ran.json["findings"]})


def test_the_guide_has_every_code():
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "adopting.md").read_text()
    assert re.findall(r"\| (D\d+) \| (\w+): (.*) \|", guide) == [
        (code, str(severity), text) for code, (severity, text) in CODES.items()
    ]


def test_the_real_catalogs_are_sound(real, bring):
    found = bring("--check", source=real[SMALL][0]).ok()
    # the failed transaction left the one
    assert codes(found) == ["D902"]
    assert found.json["checked"] == {"transactions": 19, "revisions": 65, "names": 31, "data_files": 12}
    assert codes(bring("--check", source=real[LEGACY][0]).ok()) == ["D404"]


def test_each_thing_that_goes_wrong_has_a_code(made, bring, rows):
    with made.transaction() as txn:
        ns = txn.namespace("n")
        stream = txn.table(ns, "t", SCHEMA)
        partition = txn.partition(stream)
        kept = txn.delta(partition, 1, data(1))
        gone = txn.delta(partition, 2, data(2))
    assert codes(bring("--check").ok()) == []
    table = stream[:2]

    def found(code):
        ran = bring("--check")
        assert code in codes(ran)
        return [one["path"] for one in ran.json["findings"] if one["code"] == code]

    # a rename that crashed: the object, the old name, the new name
    numbers = dict(made.numbers)
    with made.transaction(state=None) as txn:
        leftover = txn.put(table, table_body(table, "u"), "update")
        names = [txn.name(ns, "t", table[1], "delete"), txn.name(ns, "u", table[1])]
    assert found("D901") == [leftover.relative_to(made.folder).as_posix()]
    assert sorted(found("D303")) == sorted(name.relative_to(made.folder).as_posix() for name in names)
    # and another transaction took the same number after it
    made.numbers = numbers
    with made.transaction() as txn:
        txn.put(table, table_body(table, "t", description="kept"), "update")
    assert found("D205") == [leftover.relative_to(made.folder).as_posix()]
    assert [name for name, _, _ in tables(bring().ok())] == ["n.t"]
    with made.transaction(state="running") as txn:
        txn.delta(partition, 3, data(3))
    [running] = found("D103")
    assert running.startswith("txn/running/")
    with made.transaction(state="paused"):
        pass
    with made.transaction(state="failed") as txn:
        lost = txn.delta(partition, 4, data(4))
    assert lost in found("D902")
    assert found("D104")
    made.write("n/notes.txt", b"")
    assert found("D903") == ["n/notes.txt"]
    with made.transaction() as txn:
        txn.delta(partition, 5, data(5), url="/srv/lake/made/" + kept)
        txn.delta(partition, 6, data(5), url="/somewhere/else.pq")
        txn.delta(partition, 7, data(5), url="../../outside.pq")
    assert len(found("D404")) == 1
    assert len(found("D403")) == 2
    (made.folder / gone).unlink()
    assert found("D401") == [gone]
    (made.folder / kept).write_bytes(b"PAR1")
    assert found("D402") == [kept, kept]
    with made.transaction() as txn:
        twin = txn.namespace("n")
    assert len(found("D302")) == 1
    assert found("D301")
    made.numbers[twin] = 994
    with made.transaction() as txn:
        txn.put(twin, {"namespaceLocator": {"namespace": "n"}, "id": twin[0]}, "update")
    assert len(found("D206")) == 1
    with made.transaction() as txn:
        same = txn.put(twin, {"namespaceLocator": {"namespace": "n"}, "id": twin[0]}, "update")
    made.numbers[twin] -= 1
    with made.transaction() as txn:
        txn.put(twin, {"namespaceLocator": {"namespace": "n"}, "id": twin[0]}, "update")
    assert same.relative_to(made.folder).as_posix() in found("D204")
    with made.transaction() as txn:
        written = txn.put(twin, {"namespaceLocator": {"namespace": "n"}, "id": twin[0]}, "update")
    written.write_bytes(b"\x81")
    with made.transaction() as txn:
        txn.put(twin, {"namespaceLocator": {"namespace": "n"}, "id": twin[0]}, "update")
    assert found("D202") == [written.relative_to(made.folder).as_posix()]
    written.unlink()
    assert found("D105") == [written.relative_to(made.folder).as_posix()]
    [log] = made.folder.glob(f"txn/success/*/*/*/*/*/{txn.id}/*")
    log.write_bytes(b"")
    assert found("D102") == [log.relative_to(made.folder).as_posix()]
    shutil.copy(log, log.with_name("1794000099000000000"))
    assert len(found("D101")) == 1
