"""Preserved catalogs of IOx become tables where their files are: states, columns, deletes, and what is wrong."""

from __future__ import annotations

import shlex
from uuid import UUID

import pyarrow as pa
import pytest

from olympia_cli.cli.iceberg_tables import need_pyiceberg
from olympia_cli.errors import IcebergMissing
from olympia_cli.iceberg import OlympiaCatalog
from tests.helpers.iox_catalog import IoxCatalog, encode, message, rows, text


@pytest.fixture
def iox(tmp_path):
    """A catalog at ./metrics whose first transaction is empty, as IOx makes it."""
    made = IoxCatalog(tmp_path / "metrics")
    made.commit()
    return made


@pytest.fixture
def look(run, empty, iox):
    """The same for people."""
    return lambda *words: run("-c", empty, "import", "iox", iox.folder, *words)


@pytest.fixture
def bring(look):
    return lambda *words: look("--json", *words)


@pytest.fixture
def table(empty):
    def table(name, at=None):
        catalog = OlympiaCatalog("c", warehouse=str(empty))
        return (catalog if at is None else catalog.at(at)).load_table(name)

    return table


@pytest.fixture
def read(table):
    """The rows of a table by their times, which are shown as whole numbers."""

    def read(name, at=None):
        found = table(name, at).scan().to_arrow_batch_reader().read_all()
        time = found["time"].cast(pa.int64())
        shown = found.set_column(found.column_names.index("time"), "time", time).to_pylist()
        return sorted(shown, key=lambda row: row["time"])

    return read


def told(ran):
    """Return the data that was left out: the problems, and the skipped parts of each table."""
    found = {one["what"]: one["why"] for one in ran.json["problems"]}
    found |= {f"{t['name']}: {one['what']}": one["why"] for t in ran.json["tables"] for one in t["skipped"]}
    assert ran.exit_code == (3 if found else 0), (ran.exit_code, found, ran.stderr)
    return found


def tables(ran):
    return [(one["name"], one["files"], one["rows"]) for one in ran.json["tables"]]


def test_tables_come_with_their_files_times_and_united_columns(bring, iox, read, table, run, empty):
    iox.commit(iox.add(iox.data("cpu", rows([1, 1_600_000_000_123_456_789], host=["a", "b"], usage=[1.5, 2.5]))))
    iox.commit(
        iox.add(iox.data("cpu", rows([2**62], host=["a"], busy=[True], n=[7]), "2022-01-02")),
        iox.add(iox.data("disk", rows([5], path=["/"]))),
    )
    done = bring("-m", "adopted")
    assert told(done) == {}
    assert tables(done) == [("metrics.cpu", 2, 3), ("metrics.disk", 1, 1)]
    assert done.json["source_version"] == 2
    assert read("metrics.cpu") == [
        {"host": "a", "usage": 1.5, "time": 1, "busy": None, "n": None},
        {"host": "b", "usage": 2.5, "time": 1_600_000_000_123_456_789, "busy": None, "n": None},
        {"host": "a", "usage": None, "time": 2**62, "busy": True, "n": 7},
    ]
    entry = run("-c", empty, "log", "-n", "1", "--json").json["versions"][0]
    assert entry["message"] == f"adopted\nrevision 2 of {iox.folder}, 2023-11-14T22:16:20.000Z"
    assert run("-c", empty, "fsck", "--level", "data").ok()
    again = bring()
    assert (told(again), again.json["version"], tables(again), again.json["unchanged"]) == ({}, 1, [], 2)


def test_statistics_of_the_catalog_prune_files(bring, iox, table):
    iox.commit(iox.add(iox.data("cpu", rows([1, 2], host=["a", "b"], v=[1.0, float("nan")]))))
    iox.commit(iox.add(iox.data("cpu", rows([9], host=["x" * 40], v=[5.0]), "2022-01-02")))
    bring().ok()
    found = table("metrics.cpu")
    assert len(list(found.scan(row_filter="host = 'a'").plan_files())) == 1
    assert len(list(found.scan(row_filter="v > 4").plan_files())) == 1
    assert len(list(found.scan(row_filter="host > 'y'").plan_files())) == 0
    sizes = {task.file.record_count: dict(task.file.null_value_counts) for task in found.scan().plan_files()}
    assert sizes == {2: {1: 0, 2: 0, 3: 0}, 1: {1: 0, 2: 0, 3: 0}}


def test_a_compaction_at_the_source_takes_the_old_files_out(bring, iox, read, table, run, empty):
    old = [iox.data("cpu", rows([at], v=[float(at)]), f"2022-01-0{at}") for at in (1, 2)]
    iox.commit(*map(iox.add, old))
    bring().ok()
    before = table("metrics.cpu").metadata_location
    new = iox.data("cpu", rows([1, 2], v=[1.0, 2.0]), "all", chunk=77)
    iox.commit(*map(iox.remove, old), iox.add(new), iox.add(iox.data("cpu", rows([3], w=["x"]), "2022-01-03")))
    done = bring()
    assert (told(done), tables(done), done.json["version"]) == ({}, [("metrics.cpu", 2, 3)], 2)
    assert [(row["time"], row["w"]) for row in read("metrics.cpu")] == [(1, None), (2, None), (3, "x")]
    assert [row["time"] for row in read("metrics.cpu", at="v1")] == [1, 2]
    assert [one.metadata_file for one in table("metrics.cpu").metadata.metadata_log] == [before]
    head = run("-c", empty, "table", "head", "metrics.cpu", "-n", "9", "--json").ok().json["rows"]
    assert {"v": None, "time": "1970-01-01T00:00:00.000000003", "w": "x"} in head
    assert run("-c", empty, "fsck", "--level", "data").ok()
    # one more, and the rows keep their ids
    iox.commit(iox.add(iox.data("cpu", rows([4], v=[4.0]), "2022-01-04")))
    bring().ok()
    assert [row["time"] for row in read("metrics.cpu")] == [1, 2, 3, 4]
    # a table whose files are all gone stays, and is empty
    iox.commit(*map(iox.remove, list(iox.live.values())))
    assert tables(bring().ok()) == [("metrics.cpu", 0, 0)]
    assert read("metrics.cpu") == []
    assert bring().ok().json["version"] == 4


def test_deleted_rows_are_deleted_here(bring, iox, read, table, run, empty):
    first = iox.data("cpu", rows([10, 20, 30], host=["a", "b", None], v=[1, 2, 3]))
    gone = iox.data("cpu", rows([100, 110], host=["a", "b"], v=[1, 2]), "2022-01-02")
    whole = iox.data("cpu", rows([200], host=["a"], v=[1]), "2022-01-03")
    iox.commit(*map(iox.add, [first, gone, whole]))
    iox.commit(
        iox.delete([first, whole], 10, 31, ("host", "=", "b")),
        iox.delete([gone], 100, 111),
        iox.delete([whole], 0, 200),
    )
    done = bring()
    assert (told(done), tables(done)) == ({}, [("metrics.cpu", 2, 4)])
    assert [row["time"] for row in read("metrics.cpu")] == [10, 30, 200]
    assert run("-c", empty, "fsck", "--level", "data").ok()
    assert bring().ok().json["version"] == 1
    # != is true for no row without a value, and a column that a file does not have equals nothing
    iox.commit(
        iox.delete([first], 0, 100, ("host", "!=", "b"), ("v", "=", 1)),
        iox.delete([first], 0, 100, ("other", "!=", 1)),
        iox.delete([whole], 200, 201, ("v", "!=", 5), ("host", "=", "a")),
    )
    assert tables(bring().ok()) == [("metrics.cpu", 2, 4)]
    assert [row["time"] for row in read("metrics.cpu")] == [30]
    assert [row["time"] for row in read("metrics.cpu", at="v1")] == [10, 30, 200]
    assert table("metrics.cpu").current_snapshot().summary["total-position-deletes"] == "3"


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("version", range(14, 20))
def test_all_versions_are_read(run, tmp_path, version, older):
    iox = IoxCatalog(tmp_path / "metrics", version=version, older=older)
    file = iox.data("cpu", rows([1, 2, 3, 4], host=["a", "b", "c", "d"], v=[0.5, 1.5, 2.5, 3.5]), compressed=not older)
    iox.commit()
    iox.commit(iox.add(file))
    iox.commit(
        iox.delete([file], 0, 10, ("host", "=", "a")),
        iox.delete([file], 0, 10, ("v", "=", 1.5), ("host", "!=", "d")),
    )
    iox.checkpoint()
    shown = run("import", "iox", iox.folder, "--inspect", "--json").ok()
    assert (tables(shown), shown.json["dry_run"], shown.json["version"]) == ([("metrics.cpu", 1, 4)], True, 0)
    checked = run("import", "iox", iox.folder, "--check", "--json").ok().json
    assert (checked["findings"], checked["checked"]) == ([], {"transactions": 3, "checkpoints": 1, "files": 1})


def test_older_versions_say_deletes_in_another_way(run, empty, tmp_path, read):
    iox = IoxCatalog(tmp_path / "metrics", version=15, older=True)
    file = iox.data("cpu", rows([1, 2, 3, 4], host=["a", "b", "c", "d"], v=[0.5, 1.5, 2.5, 3.5]))
    iox.commit(iox.add(file))
    iox.commit(iox.delete([file], 0, 10, ("host", "=", "a")), iox.delete([file], 0, 10, ("v", "=", 1.5)))
    run("-c", empty, "import", "iox", iox.folder).ok()
    assert [row["time"] for row in read("metrics.cpu")] == [3, 4]


def test_a_revision_or_a_time_of_it(bring, look, iox, read):
    for at in (1, 2, 3):
        iox.commit(iox.add(iox.data("cpu", rows([at], v=[at]), f"2022-01-0{at}")))
    iox.checkpoint()
    iox.commit(iox.add(iox.data("cpu", rows([4], v=[4]), "2022-01-04")))
    for at, files, revision in [
        ("1", 1, 1),
        ("v2", 2, 2),
        ("latest", 4, 4),
        ("latest~1", 3, 3),
        ("oldest", None, 0),
        ("2023-11-14T22:16:20Z", 2, 2),
        ("2023-11-14T22:17:19Z", 2, 2),
        ("1h", 4, 4),
    ]:
        found = bring("--inspect", "--at", at).ok().json
        assert ([one["files"] for one in found["tables"]], found["source_version"]) == (
            [files] if files else [],
            revision,
        )
        assert found["source_versions"] == {"oldest": 0, "latest": 4}
    look("--inspect", "--at", "9").failed(10, "there are those from 0 to 4")
    look("--inspect", "--at", "2020-01-01").failed(10, "begins after")
    look("--inspect", "--at", "nightly").failed(2, "is no revision")
    bring("--at", "2").ok()
    assert [row["time"] for row in read("metrics.cpu")] == [1, 2]
    bring().ok()
    look("--at", "2").failed(2, "revision 4 of that catalog was imported already")


def test_history_ends_at_the_requested_revision(bring, look, iox):
    for at in (1, 2):
        iox.commit(iox.add(iox.data("cpu", rows([at], v=[at]), f"2022-01-0{at}")))
    look("--history", "--at", "9").failed(10, "there is no revision 9")
    look("--history", "--at", "nightly").failed(2, "is no revision")
    assert bring("--history", "--at", "oldest").ok().json["source_version"] == 0
    assert bring("--history", "--at", "2023-11-14T22:15:20Z").ok().json["version"] == 2
    assert bring("--history", "--at", "latest~0").ok().json["version"] == 3


def test_every_revision_as_a_commit(bring, iox, read, run, empty):
    first = iox.data("cpu", rows([1], v=[1]), "2022-01-01")
    iox.commit(iox.add(first))
    iox.commit(iox.add(iox.data("disk", rows([2], v=[2]))))
    iox.commit(iox.remove(first), iox.add(iox.data("cpu", rows([1, 3], v=[1, 3]), "all", chunk=9)))
    done = bring("--history")
    assert (told(done), tables(done)) == (
        {},
        [("metrics.cpu", 1, 1), ("metrics.disk", 1, 1), ("metrics.cpu", 1, 2)],
    )
    assert (done.json["version"], done.json["source_version"]) == (4, 3)
    assert [len(read("metrics.cpu", at=f"v{at}")) for at in (2, 3, 4)] == [1, 1, 2]
    messages = [one["message"] for one in run("-c", empty, "log", "--json").json["versions"]]
    assert [text.partition(" of ")[0] for text in messages[:4]] == [f"revision {at}" for at in (3, 2, 1, 0)]
    again = bring("--history")
    assert (told(again), again.json["version"], again.json["unchanged"]) == ({}, 4, 2)
    iox.commit(iox.add(iox.data("cpu", rows([5], v=[5]), "2022-01-05")))
    iox.commit()
    assert bring("--history").ok().json["version"] == 6
    assert bring().ok().json["version"] == 6


def test_history_continues_past_unreadable_revisions(bring, iox, read):
    iox.commit(iox.add(iox.data("cpu", rows([1], v=[1]))))
    lost = iox.commit(iox.add(iox.data("cpu", rows([2], v=[2]), "2022-01-02")))
    iox.commit(iox.add(iox.data("cpu", rows([3], v=[3]), "2022-01-03")))
    iox.checkpoint()
    iox.commit(iox.add(iox.data("cpu", rows([4], v=[4]), "2022-01-04")))
    lost.unlink()
    lost.parent.rmdir()
    done = bring("--history")
    assert list(told(done)) == ["revisions 2 to 2"]
    assert (done.json["version"], [row["time"] for row in read("metrics.cpu")]) == (4, [1, 2, 3, 4])


def test_a_local_object_under_the_name_is_kept(bring, iox, read, run, empty, tmp_path):
    iox.commit(iox.add(iox.data("cpu", rows([1], v=[1]))), iox.add(iox.data("disk", rows([1], v=[1]), chunk=50)))
    bring().ok()
    run("-c", empty, "table", "drop", "metrics.disk").ok()
    run("-c", empty, "table", "create", "metrics.disk", "--schema", "id int").ok()
    iox.commit(iox.add(iox.data("disk", rows([2], v=[1]), "2022-01-02")))
    iox.commit(iox.add(iox.data("mem", rows([2], v=[1]))))
    (tmp_path / "plan").write_bytes(b"plan")
    run("-c", empty, "view", "create", "metrics.mem", "--plan", "plan", "--schema", "id int").ok()
    assert told(bring()) == {
        "table disk": "another table has the name metrics.disk",
        "table mem": "a view has the name metrics.mem",
    }
    assert read("metrics.cpu") == [{"v": 1, "time": 1}]


def test_files_that_do_not_go_with_their_table(bring, iox, read):
    good = iox.data("cpu", rows([1], v=[1], u=pa.array([2**63 + 5], pa.uint64())), "2022-01-01")
    text = iox.data("cpu", rows([2], v=["x"]), "2022-01-02", chunk=2)
    other = iox.data("cpu", rows([3], v=[3]), "2022-01-03", chunk=3, says="disk")
    lost = iox.data("cpu", rows([4], v=[4]), "2022-01-04", chunk=4, write=False)
    size = iox.data("cpu", rows([5], v=[5]), "2022-01-05", chunk=5)
    (iox.folder / size.path).write_bytes(b"PAR1")
    junk = iox.data("cpu", rows([6], v=[6]), "2022-01-06", chunk=6)
    junk.footer = junk.footer[:-20]
    date = iox.data("cpu", rows([7], v=[7], d=pa.array([1], pa.date32())), "2022-01-07", chunk=7)
    iox.commit(*map(iox.add, [good, text, other, lost, size, junk, date]))
    done = bring()
    reasons = {what.rpartition("cpu/")[2].partition("/")[0]: why for what, why in told(done).items()}
    assert reasons.pop("2022-01-06").startswith("its footer cannot be read: it cannot be unpacked: ")
    assert reasons == {
        "2022-01-02": "the column 'v' is string here, and long in files before it",
        "2022-01-03": "its footer says that it is of the table 'disk'",
        "2022-01-04": "it is not there",
        "2022-01-05": f"it has 4 bytes, and the catalog says {size.size:,}",
        "2022-01-07": "its column 'd' is of a type that IOx does not write: Parquet's 1, 6",
        "metrics.cpu: column u": "it is uint64, which Iceberg does not have",
    }
    assert read("metrics.cpu") == [{"v": 1, "time": 1}]
    again = bring()
    assert (len(told(again)), again.json["version"], again.json["unchanged"]) == (7, 1, 1)


def test_a_column_that_iceberg_does_not_have_comes_later(bring, iox, read):
    iox.commit(iox.add(iox.data("cpu", rows([1], v=[1]), "2022-01-01")))
    bring().ok()
    iox.commit(iox.add(iox.data("cpu", rows([2], v=[2], u=pa.array([5], pa.uint64())), "2022-01-02")))
    assert list(told(bring())) == ["metrics.cpu: column u"]
    assert read("metrics.cpu") == [{"v": 1, "time": 1}, {"v": 2, "time": 2}]


def test_a_file_with_deletes_that_cannot_be_read(look, iox):
    file = iox.data("cpu", rows([1, 2], v=[1, 2]))
    (iox.folder / file.path).write_bytes(bytes(file.size))
    iox.commit(iox.add(file))
    iox.commit(iox.delete([file], 0, 2))
    look().failed(40, "some of its rows are deleted, and it cannot be read", file.path)


def test_files_with_overlapping_times_are_reported(bring, iox):
    iox.commit(
        iox.add(iox.data("cpu", rows([1, 5], host=["a", "a"]), chunk=1, order=1)),
        iox.add(iox.data("cpu", rows([5, 9], host=["a", "a"]), chunk=2, order=2)),
        iox.add(iox.data("cpu", rows([10], host=["a"]), chunk=3, order=3)),
        iox.add(iox.data("cpu", rows([5], host=["a"]), "other", chunk=4)),
    )
    assert list(told(bring())) == ["metrics.cpu: overwriting between 2 files whose times overlap"]


def test_names_that_the_format_forbids(bring, look, iox, read, run, empty, table):
    iox.commit(iox.add(iox.data("my table/ü%20", rows([1], v=[1]), "2022 01/01")))
    done = bring("--into", "old")
    assert told(done) == {}
    assert tables(done) == [("old.my%20table/ü%2520", 1, 1)]
    assert done.json["renamed"] == [{"from": "metrics.my table/ü%20", "to": "old.my%20table/ü%2520"}]
    assert read(("old", "my%20table/ü%2520")) == [{"v": 1, "time": 1}]
    found = table(("old", "my%20table/ü%2520")).properties["olympia.import.name"]
    assert found == "metrics.my table/ü%20"
    assert bring("--into", "old").ok().json["version"] == 1
    look().failed(2, "imported --into old before")
    assert run("-c", empty, "fsck", "--level", "data").ok()


def test_a_dry_run_of_an_import_changes_nothing(bring, look, iox, empty):
    iox.commit(iox.add(iox.data("cpu", rows([1], v=[1]))))
    done = bring("--dry-run").ok()
    assert (tables(done), done.json["dry_run"], done.json["version"]) == ([("metrics.cpu", 1, 1)], True, 0)
    assert not (empty / "data").exists()
    look("--dry-run", "--inspect").failed(2, "do not go together")


class TestCheck:
    """Each thing that goes wrong in the wild, and what is said of it."""

    @pytest.fixture
    def check(self, run, iox):
        def check(code):
            found = run("import", "iox", iox.folder, "--check", "--json")
            assert found.exit_code == code, found.stdout + found.stderr
            return [
                (one["code"], one["path"].rpartition("/")[2], one["version_ranges"]) for one in found.json["findings"]
            ]

        return check

    @pytest.fixture
    def filled(self, iox):
        """Revisions 1 to 4 add a file each, and 3 has a checkpoint."""
        made = []
        for at in (1, 2, 3, 4):
            made.append(iox.commit(iox.add(iox.data("cpu", rows([at], v=[at]), f"2022-01-0{at}"))))
            if at == 3:
                iox.checkpoint()
        return made

    def test_a_sound_one(self, check, look, filled):
        assert check(0) == []
        assert look("--check").ok().lines == ["SOUND  5 transactions, 1 checkpoint, 4 files; 0 findings"]

    def test_a_fork(self, check, bring, look, iox, filled, read, run):
        iox.write(2, UUID(int=7), UUID(int=1001), [])
        assert check(50) == [("I101", f"{2:020}", [[2, 2]])]
        # after the checkpoint there is one line, and that there was another is told
        assert list(told(bring())) == ["revision 2"]
        assert len(read("metrics.cpu")) == 4
        iox.write(4, UUID(int=8), UUID(int=1003), [])
        # what one of its lines adds is named, and in no state that is known
        assert [code for code, _, _ in check(50)] == ["I101", "I101", "I903"]
        advice = look().failed(40, "a fork").stderr.rpartition(": list all damage: ")[2]
        program, *words = shlex.split(advice)
        assert (program, run(*words).exit_code) == ("olympia", 50)
        assert len(run(*words, "-o", "jsonl").lines) == 3
        look("--at", "3").failed(2, "revision 4 of that catalog was imported already")

    def test_a_gap(self, check, bring, look, filled):
        filled[1].unlink()
        assert check(50) == [("I102", f"{2:020}", [[2, 2]])]
        look("--inspect", "--at", "2").failed(40, "a gap")
        assert told(bring()) == {}

    def test_a_gap_after_the_last_checkpoint(self, check, bring, look, iox, filled):
        iox.commit()
        filled[3].unlink()
        look().failed(40, "a gap")
        assert check(50)[0] == ("I102", f"{4:020}", [[4, 4]])
        assert told(bring("--at", "3")) == {}

    def test_a_broken_link(self, check, look, iox, filled):
        path = iox.write(4, UUID(int=1004), UUID(int=9), [])
        assert check(50)[0] == ("I103", path.name, [[4, 4]])
        look().failed(40, "its predecessor is")

    def test_another_transaction_than_the_path_says(self, check, look, iox, filled):
        path = iox.write(4, UUID(int=1004), UUID(int=1003), [], said=(5, UUID(int=1004)))
        assert check(50)[0] == ("I104", path.name, [[4, 4]])
        look().failed(40, "it holds another transaction than its path says: revision 5")

    def test_a_checkpoint_that_is_none(self, check, look, iox, filled):
        path = iox.write(4, UUID(int=1004), UUID(int=1003), [], encoding=2)
        assert check(50)[0] == ("I105", path.name, [[4, 4]])
        iox.write(4, UUID(int=1004), UUID(int=1003), [], encoding=0)
        look().failed(40, "disagree whether it is a checkpoint")

    @pytest.mark.parametrize(
        ("cut", "reason"), [(0, "it is empty"), (30, "it is cut short"), (-1, "it is cut short")], ids=str
    )
    def test_half_a_transaction(self, check, look, filled, cut, reason):
        filled[3].write_bytes(filled[3].read_bytes()[:cut])
        assert check(50)[0] == ("I106", filled[3].name, [[4, 4]])
        look().failed(40, reason)

    def test_something_else(self, check, look, filled):
        filled[3].write_bytes(b"PAR1" * 100)
        assert check(50)[0][:2] == ("I106", filled[3].name)
        look().failed(40, "it is not a transaction")

    def test_a_path_that_leads_elsewhere(self, check, look, iox, filled):
        file = iox.data("cpu", rows([9], v=[9]), chunk=99)
        for path in ("data/cpu/../../../x.parquet", "data/../etc/passwd", "other/cpu/x/y.parquet", "data/x.parquet"):
            file.path = path
            written = iox.write(4, UUID(int=1004), UUID(int=1003), [iox.add(file)])
            assert ("I106", written.name, [[4, 4]]) in check(50)
            look().failed(40, "file")

    def test_a_file_that_comes_twice_or_goes_unknown(self, check, look, iox, filled):
        file = iox.data("cpu", rows([9], v=[9]), chunk=99)
        path = iox.write(4, UUID(int=1004), UUID(int=1003), [iox.add(file), iox.add(file)])
        assert check(50)[0] == ("I107", path.name, [[4, 4]])
        look().failed(40, "it adds a file that is there already")
        iox.write(4, UUID(int=1004), UUID(int=1003), [iox.remove(file)])
        assert check(50)[0] == ("I107", path.name, [[4, 4]])
        look().failed(40, "it removes a file that is not there")

    @pytest.mark.parametrize("version", [0, 13, 20])
    def test_unknown_transaction_format_is_refused(self, check, look, iox, filled, version):
        path = iox.write(4, UUID(int=1004), UUID(int=1003), [], version=version)
        assert check(50)[0] == ("I108", path.name, [[4, 4]])
        look().failed(41, f"it is of version {version}")

    def test_an_upgrade(self, check, look, iox, filled):
        path = iox.write(4, UUID(int=1004), UUID(int=1003), [message(1, text(1, "delta"))])
        assert check(50)[0] == ("I108", path.name, [[4, 4]])
        look().failed(41, "to another format: 'delta'")

    def test_a_checkpoint_that_differs(self, check, iox, filled):
        path = iox.write(3, UUID(int=1003), None, [], is_full=True)
        assert check(50)[0] == ("I109", path.name, [[3, 3]])

    def test_footers(self, check, iox):
        junk = iox.data("cpu", rows([1], v=[1]), chunk=1)
        junk.footer = b"(\xb5/\xfd junk"
        plain = iox.data("cpu", rows([1], v=[1]), chunk=2, compressed=False)
        plain.footer = b"\x15" * 50
        other = iox.data("cpu", rows([1], v=[1]), chunk=3, says="disk")
        iox.commit(*map(iox.add, [junk, plain, other]))
        assert [code for code, _, _ in check(50)] == ["I201", "I201", "I202"]

    def test_data_files(self, check, bring, iox, filled):
        """Files that the catalog needs, files that only its history needs, and orphans are told apart."""
        first, second, third, fourth = iox.live.values()
        iox.commit(iox.remove(first), iox.remove(second))
        (iox.folder / second.path).unlink()
        (iox.folder / third.path).unlink()
        (iox.folder / fourth.path).write_bytes(b"short")
        orphan = iox.data("cpu", rows([1], v=[1]), chunk=99)
        (iox.folder / "transactions-old").mkdir()
        (iox.folder / "transactions-old" / "x.txn").touch()
        (iox.folder / "transactions" / "notes.txt").touch()
        names = [file.path.rpartition("/")[2] for file in (first, second, third, fourth, orphan)]
        assert check(50) == [
            ("I301", names[2], []),
            ("I302", names[3], []),
            ("I303", names[1], []),
            ("I901", names[4], []),
            ("I902", "x.txn", []),
            ("I902", "notes.txt", []),
            ("I903", names[0], []),
        ]

    def test_orphans_beside_damaged_transactions_are_reported_as_uncertain(self, run, iox, filled):
        """An operator once wiped a catalog that did not load, and then deleted its 'orphans'."""
        filled[3].write_bytes(b"")
        found = run("import", "iox", iox.folder, "--check", "--json").json["findings"]
        assert found[-1]["message"] == "no readable transaction names it; an unreadable one may"
        # what a line of a fork names is named
        filled[3].write_bytes(encode(19, 4, UUID(int=1004), UUID(int=1003), 0, [], 1))
        extra = iox.data("cpu", rows([9], v=[9]), chunk=98)
        iox.write(4, UUID(int=77), UUID(int=1003), [iox.add(extra)])
        found = run("import", "iox", iox.folder, "--check", "--json").json["findings"]
        assert extra.path not in [one["path"] for one in found if one["code"] == "I901"]

    def test_a_pruned_catalog_is_sound(self, check, bring, look, iox, filled, read):
        for path in filled[:3]:
            path.unlink()
        iox.path(0, UUID(int=1000)).unlink()
        assert check(0) == []
        look("--inspect", "--at", "2").failed(10, "there are those from 3 to 4")
        assert told(bring("--history")) == {}
        assert len(read("metrics.cpu")) == 4

    def test_deletes_in_unknown_chunks(self, check, iox, filled):
        iox.commit(iox.delete([iox.data("cpu", rows([1], v=[1]), chunk=99, write=False)], 0, 1))
        assert check(0) == [("I904", "", [])]

    def test_check_prints_findings_and_a_verdict(self, look, filled):
        filled[3].unlink()
        filled[0].write_bytes(b"")
        lines = look("--check").lines
        assert lines[0].startswith("error\tI106\ttransactions/")
        assert lines[-1].startswith("DAMAGED  4 transactions, 1 checkpoint, 3 files; 2 findings")


def test_places_without_a_catalog(run, empty, tmp_path):
    (tmp_path / "none").mkdir()
    run("-c", empty, "import", "iox", "none").failed(10, "holds no preserved catalog of IOx", "holds transactions/")
    IoxCatalog(tmp_path / "server" / "1" / "metrics").commit()
    run("-c", empty, "import", "iox", "server").failed(10, "name one of those below it: 1/metrics")
    run("-c", empty, "import", "iox", "missing").failed(10, "holds no preserved catalog")


def test_import_follows_a_catalog_that_was_wiped_and_recreated(bring, iox, read):
    kept = iox.data("cpu", rows([1], v=[1]))
    iox.commit(iox.add(kept))
    iox.commit()
    bring().ok()
    for path in sorted((iox.folder / "transactions").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    iox.head = None
    iox.commit(iox.add(kept), iox.add(iox.data("cpu", rows([2], v=[2]), "2022-01-02", chunk=55)), uuid=5)
    done = bring()
    assert (told(done), [row["time"] for row in read("metrics.cpu")]) == ({}, [1, 2])


def test_too_old_pyiceberg_is_refused():
    need_pyiceberg(12)
    with pytest.raises(IcebergMissing, match=r"this needs PyIceberg 0\.999, and 0\."):
        need_pyiceberg(999)


@pytest.mark.parametrize("history", [(), ("--history",)])
@pytest.mark.parametrize("suffix", [".txn", ".ckpt"])
def test_a_transaction_or_its_checkpoint_suffices_for_import(bring, iox, read, suffix, history):
    """If either the transaction or its checkpoint is damaged, the other one is used, and no data is left out."""
    iox.commit(iox.add(iox.data("cpu", rows([1], v=[1]))))
    iox.commit(iox.add(iox.data("cpu", rows([2], v=[2]))))
    iox.checkpoint()
    [file] = (iox.folder / "transactions" / f"{2:020}").glob(f"*{suffix}")
    file.write_bytes(bytes(file.stat().st_size))
    version = bring(*history).ok().json["version"]
    assert (read("metrics.cpu"), version) == ([{"v": 1, "time": 1}, {"v": 2, "time": 2}], 3 if history else 1)
    again = bring(*history).ok().json
    assert (again["version"], again["tables"]) == (version, [])


def test_skipped_revisions_name_the_damaged_file_that_ends_history(bring, iox):
    """And not the checkpoint that it was begun without."""
    files = {}
    for number in range(1, 6):
        iox.commit(iox.add(iox.data("cpu", rows([number], v=[number]))))
        if number in (2, 5):
            iox.checkpoint()
        files[number] = sorted((iox.folder / "transactions" / f"{number:020}").iterdir())
    bring("--history", "--at", "2").ok()
    for damaged in (next(file for file in files[2] if file.suffix == ".ckpt"), *files[4]):
        damaged.write_bytes(bytes(damaged.stat().st_size))
    [(what, why)] = told(bring("--history")).items()
    assert (what, files[4][0].name in why) == ("revisions 4 to 4", True)


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_history_that_goes_on_with_a_checkpoint_takes_files_out_too(bring, iox, read, is_damaged):
    """Each version is what its revision was, also for tables of which the checkpoint says nothing."""
    gone = iox.data("mem", rows([1], v=[1]))
    iox.commit(iox.add(iox.data("cpu", rows([1], v=[1]))), iox.add(gone))
    iox.commit(iox.remove(gone))
    iox.checkpoint()
    iox.commit(iox.add(iox.data("cpu", rows([2], v=[2]))))
    if is_damaged:
        [damaged] = (iox.folder / "transactions" / f"{2:020}").glob("*.txn")
        damaged.write_bytes(bytes(damaged.stat().st_size))
    else:
        bring("--history", "--at", "1").ok()
    assert bring("--history").ok().json["version"] == 4
    assert [len(read("metrics.mem", at)) for at in ("2", "3", "4")] == [1, 0, 0]
