"""`olympia expire`: policies, floors, plans, and a process that is killed half-way."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.retained import read_quarantine
from olympia_cli.errors import StorageDenied
from olympia_cli.format.paths import parse_root_path, root_path
from olympia_cli.names import parse_time
from olympia_cli.storage import memory
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.cli.conftest import Ran, Run, Sample
from tests.cli.killing import run_killed
from tests.helpers.big_catalog import add_versions
from tests.helpers.check import check_catalog, orphans
from tests.helpers.clock import DAY, HOUR, FakeClock
from tests.helpers.json_schema import check
from tests.helpers.names import location, ns, table
from tests.helpers.stores import FullStore, WrappedStore

NOW = ("--older-than", "0s", "--grace", "0s", "--quarantine", "0s", "--offline")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A catalog of ten versions, an hour apart, twenty days old by every clock."""
    folder = tmp_path / "old"
    now = time.time_ns() // 1_000_000
    clock = FakeClock(now - 20 * DAY)
    catalog = Catalog.create(LocalStore(folder, durable=False), clock=clock)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
    for number in range(8):
        clock.advance(HOUR)
        with catalog.transaction() as transaction:
            transaction.create_table(table(f"a.t{number}"), location(number))
    age(folder, 20)
    return folder


def age(folder: Path, days: float) -> None:
    """Set the age of all files, in days."""
    then = time.time() - days * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


def roots(folder: Path) -> list[int]:
    found = (parse_root_path(f"vn/{path.name}") for path in (folder / "vn").iterdir())
    return sorted(version for version in found if version is not None)


def test_a_cron_line_marks_and_a_day_later_purges(run: Run, old: Path):
    ran = run("-c", old, "expire", "--yes", "--json").ok()
    assert ran.stderr == ""
    assert ran.json["expired_versions"] == list(range(7))
    assert [kept["version"] for kept in ran.json["kept_versions"]] == [7, 8, 9]
    assert ran.json["oldest"] == 7
    assert ran.json["files"]["roots"] == 7
    assert ran.json["version"] == 10
    assert roots(old) == list(range(11))
    # what was just marked rests
    assert run("-c", old, "expire", "--yes", "--json").ok().json["purged"]["versions"] == []
    age(old, 2)
    ran = run("-c", old, "expire", "--yes", "--json").ok()
    assert ran.json["purged"]["versions"] == list(range(7))
    assert ran.json["purged"]["files"]["roots"] == 7
    assert roots(old)[0] == 7
    check_catalog(LocalStore(old))
    status = run("-c", old, "status", "--json").json
    assert status["last_expire"]["purged"]["versions"] == 7
    assert status["oldest_version"] == 7


def test_a_dry_run_changes_no_byte(run: Run, old: Path):
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    for more in ([], ["--explain"], ["--simulate"], ["--plan", "plan.json"]):
        ran = run("-c", old, "expire", "--dry-run", "--json", *more).ok()
        assert ran.json["dry_run"] is True
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    assert run("-c", old, "expire", "undo", "--dry-run").ok()
    assert run("-c", old, "expire", "purge", "--dry-run").ok()
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before


def test_explain_gives_each_kept_version_one_reason(run: Run, old: Path):
    ran = run("-c", old, "expire", "--explain", "--keep-last", "2").ok()
    assert [line.split("\t")[:2] for line in ran.lines] == [["8", "keep-last"], ["9", "latest"]]
    ran = run("-c", old, "expire", "--explain", "--older-than", "30d", "-o", "name").ok()
    assert ran.lines == [str(number) for number in range(10)]


def test_simulate_agrees_with_a_dry_run_of_each_policy(run: Run, old: Path):
    # a root as another program names it is nothing that an expire takes
    (old / root_path(1, 64)).write_bytes(b"not ours")
    age(old, 20)
    for row in run("-c", old, "expire", "--simulate", "--json").ok().json["policies"][1:]:
        done = run("-c", old, "expire", "--dry-run", "--json", *row["policy"].split()).ok().json
        assert (done["oldest"], done["bytes"]) == (row["oldest"], row["bytes"]), row


def test_status_and_expire_agree_on_reclaimable_bytes(run: Run, old: Path):
    bytes = run("-c", old, "expire", "--dry-run", "--json").ok().json["bytes"]
    assert run("-c", old, "status", "--full", "--json").json["reclaimable_bytes"] == bytes > 0


def test_simulate_compares_policies(run: Run, old: Path):
    found = run("-c", old, "expire", "--simulate", "--json").ok().json["policies"]
    by_name = {row["policy"]: row for row in found}
    assert by_name["--keep-last 1"]["versions"] == 9
    assert by_name["as asked"]["versions"] == 7
    assert by_name["--older-than 30d"]["versions"] == 0
    assert by_name["--keep-last 1"]["bytes"] > by_name["as asked"]["bytes"] > 0
    assert by_name["as asked"]["bytes"] == run("-c", old, "expire", "--dry-run", "--json").json["bytes"]


class TestRefused:
    def test_expire_without_terminal_needs_yes(self, run: Run, old: Path):
        run("-c", old, "expire").failed(12, "--yes")
        assert oldest_version(Catalog(LocalStore(old)).snapshot()) == 0

    @pytest.mark.parametrize(
        "policy",
        [["--older-than", "1h"], ["--grace", "59m"], ["--quarantine", "0s"], ["--keep-last", "0"]],
    )
    def test_below_the_floors(self, run: Run, old: Path, policy: list[str]):
        run("-c", old, "expire", "--yes", *policy).failed(12)

    @pytest.mark.parametrize("action", ["undo", "purge"])
    @pytest.mark.parametrize(
        "option",
        [
            ["--keep-last", "3"],
            ["--older-than", "30d"],
            ["--grace", "2d"],
            ["--explain"],
            ["--simulate"],
            ["--plan", "p"],
        ],
    )
    def test_policy_options_with_undo_or_purge(self, run: Run, old: Path, action: str, option: list[str]):
        run("-c", old, "expire", action, *option).failed(2, option[0])
        run("-c", old, "expire", *option, action).failed(2, option[0])

    def test_another_word(self, run: Run, old: Path):
        run("-c", old, "expire", "everything").failed(2)

    def test_a_policy_that_is_none(self, run: Run, old: Path):
        run("-c", old, "expire", "--older-than", "yesterday-ish").failed(2)

    def test_a_plan_that_is_none(self, run: Run, old: Path, tmp_path: Path):
        (tmp_path / "no.json").write_text('{"format": 1}')
        run("-c", old, "expire", "--apply", "no.json").failed(2)
        run("-c", old, "expire", "--apply", "nowhere.json").failed(2)
        run("-c", old, "expire", "--apply", "no.json", "--keep-last", "3").failed(2)

    def test_a_catalog_that_cannot_be_read(self, run: Run, old: Path):
        victim = next((old / "def" / "table").iterdir())
        victim.write_bytes(b"")
        ran = run("-c", old, "expire", "--yes").failed(40, victim.name)
        assert "fsck" in ran.stderr or "rollback" in ran.stderr
        assert roots(old) == list(range(10))

    def test_no_catalog(self, run: Run, tmp_path: Path):
        run("-c", tmp_path / "nowhere", "expire", "--yes").failed(10)


class TestPlans:
    def make(self, run: Run, old: Path) -> None:
        run("-c", old, "expire", "--keep-last", "3", "--plan", "plan.json").ok()

    def test_apply_of_a_plan_expires_the_planned_versions(self, run: Run, old: Path):
        self.make(run, old)
        run("-c", old, "expire", "--apply", "plan.json").failed(12, "--yes")
        assert run("-c", old, "expire", "--apply", "plan.json", "--yes", "--json").ok().json["oldest"] == 7

    def test_new_commits_are_no_obstacle(self, run: Run, old: Path):
        self.make(run, old)
        run("-c", old, "ns", "create", "later").ok()
        ran = run("-c", old, "expire", "--apply", "plan.json", "--yes", "--json").ok()
        assert ran.json["oldest"] == 7
        assert ran.json["files"]["roots"] == 7

    def test_nothing_goes_that_was_not_planned(self, run: Run, old: Path):
        self.make(run, old)
        stray = old / "node" / "00000000-0000-4000-8000-000000000000.arrow"
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"stray")
        age(old, 20)
        assert run("-c", old, "expire", "--dry-run", "--json").json["files"]["nodes"] == 1
        assert run("-c", old, "expire", "--apply", "plan.json", "--yes", "--json").ok().json["files"]["nodes"] == 0

    def test_apply_is_refused_when_a_transaction_needs_planned_versions(self, run: Run, old: Path):
        self.make(run, old)
        # as if it had begun when version 4 was the latest
        from olympia_cli.catalog import distributed

        store = LocalStore(old)
        held = {number: store.read(root_path(number)) for number in range(5, 10)}
        store.delete_many([*(root_path(number) for number in held), "vn/latest"])
        distributed.begin(Catalog(store))
        for number, data in held.items():
            store.create(root_path(number), data)
        run("-c", old, "expire", "--apply", "plan.json", "--yes").failed(12, "version 4 would now be kept")

    def test_an_undo_since_is_drift(self, run: Run, old: Path):
        run("-c", old, "expire", "--keep-last", "8", "--yes").ok()
        run("-c", old, "expire", "--keep-last", "5", "--plan", "plan.json").ok()
        run("-c", old, "expire", "undo", "--yes").ok()
        run("-c", old, "expire", "--apply", "plan.json", "--yes").failed(12, "oldest version is now 0")

    def test_apply_purges_only_versions_that_the_plan_showed(self, run: Run, old: Path):
        """A plan never purges more than it showed."""
        run("-c", old, "expire", "--keep-last", "8", "--yes").ok()
        age(old, 10)
        run("-c", old, "expire", "--keep-last", "6", "--yes", "--quarantine", "20d").ok()
        run("-c", old, "expire", "--keep-last", "5", "--plan", "plan.json").ok()
        planned = json.loads((old.parent / "plan.json").read_text())
        age(old, 10)
        ran = run("-c", old, "expire", "--apply", "plan.json", "--yes", "--json").ok()
        assert ran.json["purged"]["versions"] == list(range(planned["purge"]["purged"])) == [0, 1]
        assert "brought back v2" in run("-c", old, "expire", "undo", "--yes").ok().stdout

    def test_apply_of_an_offline_plan_needs_offline_again(self, run: Run, old: Path):
        run("-c", old, "expire", "--offline", "--older-than", "1h", "--plan", "plan.json").ok()
        run("-c", old, "expire", "--apply", "plan.json", "--yes").failed(12, "--offline")
        run("-c", old, "expire", "--apply", "plan.json", "--yes", "--offline").ok()

    def test_the_suggested_command_works_when_typed(self, run: Run, old: Path):
        ran = run("-c", old, "expire", "--plan", "my plan.json").ok()
        line = next(line for line in ran.stderr.splitlines() if line.startswith("to do it: olympia "))
        run(*shlex.split(line.removeprefix("to do it: olympia ")), "--yes").ok()

    @pytest.mark.parametrize("value", ["0", "-3", "1e400", "NaN", '1, "keep_last": 3', str(2**64)])
    def test_a_plan_that_was_edited(self, run: Run, old: Path, value: str):
        self.make(run, old)
        path = old.parent / "plan.json"
        path.write_text(path.read_text().replace('"keep_last": 3', f'"keep_last": {value}'))
        run("-c", old, "expire", "--apply", "plan.json", "--yes").failed(2, "not a plan")

    def test_a_plan_of_another_catalog(self, run: Run, old: Path, sample: Sample):
        self.make(run, old)
        run("-c", sample.uri, "expire", "--apply", "plan.json", "--yes").failed(12, "another catalog")


def test_undo_and_purge(run: Run, old: Path):
    run("-c", old, "expire", "--yes").ok()
    run("-c", old, "table", "ls", "--at", "v3").failed(10)
    assert "7 versions" in run("-c", old, "expire", "undo", "--yes").ok().stdout
    assert run("-c", old, "table", "ls", "--at", "v3").ok().lines
    assert "nothing is in quarantine" in run("-c", old, "expire", "undo", "--yes").ok().stdout
    run("-c", old, "expire", "--yes").ok()
    assert "nothing to purge" in run("-c", old, "expire", "purge", "--yes").ok().stdout
    ran = run("-c", old, "expire", "--offline", "purge", "--yes", "--json").ok()
    assert len(ran.json["expired_versions"]) == 7
    assert not orphans(LocalStore(old))
    types = [
        action["type"] for entry in run("-c", old, "log", "--json").json["versions"] for action in entry["actions"]
    ]
    assert types[:2] == ["CATALOG_EXPIRE_PURGE", "CATALOG_EXPIRE_MARK"]


def test_expire_names_unknown_files_and_keeps_them(run: Run, old: Path):
    (old / "notes.txt").write_text("mine")
    age(old, 20)
    ran = run("-c", old, "expire", "--yes").ok()
    assert "notes.txt" in ran.stderr
    assert (old / "notes.txt").exists()


def test_killed_in_the_middle_it_is_finished_by_the_next_run(run: Run, tmp_path: Path):
    folder = tmp_path / "many"
    store = LocalStore(folder, durable=False)
    Catalog.create(store)
    add_versions(store, 60)
    run("-c", folder, "expire", "--yes", "--keep-last", "2", *NOW).ok()
    before = len(roots(folder))
    run_killed("-c", folder, "expire", "purge", "--offline", "--yes", event="os.remove", below="/vn/", number=11)
    left = len(roots(folder))
    assert before - 20 < left < before, "it was killed while it deleted roots"
    run("-c", folder, "status").ok()
    assert len(run("-c", folder, "log", "--oneline").ok().lines) == 4
    ran = run("-c", folder, "expire", "purge", "--offline", "--yes").ok()
    assert f"leftovers of an earlier purge: {left - 4:,} files" in ran.stdout
    assert len(roots(folder)) == 4
    assert not list((folder / "ops" / "expire").iterdir())


def test_output_for_programs(run: Run, old: Path):
    found = json.loads(run("-c", old, "expire", "--dry-run", "-o", "jsonl").ok().stdout)
    assert set(found) >= {"dry_run", "oldest", "expired_versions", "kept_versions", "files", "bytes"}
    assert set(found["files"]) >= {"roots", "nodes", "definitions", "transactions"}


class TestLs:
    def test_expire_ls_shows_each_mark_in_quarantine(self, run: Run, old: Path):
        assert run("-c", old, "expire", "ls", "--json").ok().json == {"version": 9, "marks": []}
        expired = run("-c", old, "expire", "--yes", "--json").ok().json
        listed = run("-c", old, "expire", "ls", "--json").ok().json
        check(listed, "expire-ls")
        [mark] = listed["marks"]
        assert (mark["version"], mark["expired_versions"]) == (10, expired["expired_versions"])
        assert (mark["files"], mark["bytes"]) == (sum(expired["files"].values()), expired["bytes"])
        assert parse_time(mark["purge_after"]) - parse_time(mark["marked_at"]) == DAY
        shorter = run("-c", old, "expire", "ls", "--quarantine", "2h", "--json").ok().json["marks"][0]
        assert parse_time(shorter["purge_after"]) - parse_time(mark["marked_at"]) == 2 * HOUR
        table = run("-c", old, "expire", "ls").ok().stdout
        assert "v0…v6 (7 versions)" in table
        assert run("-c", old, "expire", "ls", "-o", "name").ok().stdout == "10\n"

    def test_a_deadline_is_when_a_purge_takes_it(self, run: Run, old: Path):
        run("-c", old, "expire", "--yes").ok()
        age(old, 1.01)
        deadline = run("-c", old, "expire", "ls", "--json").ok().json["marks"][0]["purge_after"]
        assert parse_time(deadline) < time.time() * 1000
        assert run("-c", old, "expire", "purge", "--yes", "--json").ok().json["expired_versions"] == list(range(7))
        assert run("-c", old, "expire", "ls", "--json").ok().json["marks"] == []

    def test_a_manifest_that_is_lost_hides_no_mark(self, run: Run, old: Path):
        run("-c", old, "expire", "--yes").ok()
        for path in (old / "ops/expire").iterdir():
            path.unlink()
        listed = run("-c", old, "expire", "ls", "--json").ok().json
        check(listed, "expire-ls")
        [mark] = listed["marks"]
        assert (mark["expired_versions"], mark["files"]) == (list(range(7)), None)
        assert "missing" in mark["problem"]

    @pytest.mark.parametrize("option", [("--keep-last", "3"), ("--simulate",), ("--engine", "local")])
    def test_expire_ls_refuses_options_of_an_expire(self, run: Run, old: Path, option: tuple[str, ...]):
        assert run("-c", old, "expire", "ls", *option).exit_code == 2


class TestTwoAtOnce:
    """Two runs of cron that overlap: the second plans, the first does it all, the second goes on."""

    NAME = "overlapping"

    @pytest.fixture
    def store(self, old: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
        store = MemoryStore(self.NAME)
        store.create_many({str(path.relative_to(old)): path.read_bytes() for path in old.rglob("*") if path.is_file()})
        monkeypatch.setitem(memory._shared, self.NAME, store)
        return store

    def overlap(self, monkeypatch: pytest.MonkeyPatch, store: MemoryStore, path: str, first: Callable[[], object]):
        """From now on `first` runs just before the first file is created whose path begins so."""

        class Overtaken(WrappedStore):
            done = False

            def create(self, name: str, data: bytes) -> None:
                if name.startswith(path) and not self.done:
                    self.done = True
                    first()
                self.inner.create(name, data)

        monkeypatch.setitem(memory._shared, self.NAME, Overtaken(store))

    def expire(self, run: Run, *words: str) -> Ran:
        return run("-c", f"memory://{self.NAME}", "expire", *words, *NOW, "--keep-last", "3", "--yes", "--json")

    @pytest.mark.parametrize("path", ["ops/expire/", "vn/"])
    def test_a_mark(self, run: Run, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, path: str):
        ran: list[Ran] = []
        self.overlap(monkeypatch, store, path, lambda: ran.append(self.expire(run)))
        last = self.expire(run).ok().json
        assert ran[0].ok().json["expired_versions"] == list(range(7))
        assert (last["expired_versions"], last["purged"]["versions"]) == ([], list(range(7)))
        check_catalog(store)

    def test_a_purge_and_a_mark(self, run: Run, store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
        self.expire(run).ok()
        with Catalog(store).transaction() as transaction:
            transaction.create_namespace(ns("newer"))
        self.overlap(monkeypatch, store, "vn/", lambda: self.expire(run).ok())
        self.expire(run).ok()
        check_catalog(store)
        monkeypatch.setitem(memory._shared, self.NAME, store)
        self.expire(run).ok()
        assert not orphans(store)

    def test_a_purge(self, run: Run, store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
        words = ("-c", f"memory://{self.NAME}", "expire", "purge", "--offline", "--yes", "--json")
        self.expire(run).ok()
        self.overlap(monkeypatch, store, "vn/", lambda: run(*words).ok())
        assert run(*words).ok().json["expired_versions"] == []
        check_catalog(store)

    def test_an_expire_overtaken_by_an_undo_is_a_conflict(
        self, run: Run, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ):
        self.expire(run).ok()
        undo = ("-c", f"memory://{self.NAME}", "expire", "undo", "--yes")
        self.overlap(monkeypatch, store, "vn/", lambda: run(*undo).ok())
        assert self.expire(run).error["exit_code"] == 20
        assert oldest_version(Catalog(store).snapshot()) == 0
        assert read_quarantine(Catalog(store).snapshot().definition) == []


class TestQuarantineIsNoDeadEnd:
    def test_a_version_that_rests_says_how_it_comes_back(self, run: Run, old: Path):
        run("-c", old, "expire", "--yes").ok()
        deadline = run("-c", old, "expire", "ls", "--json").ok().json["marks"][0]["purge_after"]
        for words in (["table", "ls", "--at", "v3"], ["rollback", "v3", "--yes"], ["fsck", "--at", "v3"]):
            error = run("-c", old, *words).failed(10, "version 3", "quarantine", "expire undo")
            assert words[0] == "fsck" or deadline in error.stderr
        run("-c", old, "expire", "undo", "--yes").ok()
        assert run("-c", old, "table", "ls", "--at", "v3").ok().lines

    def test_a_version_that_is_purged_does_not(self, run: Run, old: Path):
        run("-c", old, "expire", "--yes").ok()
        run("-c", old, "expire", "purge", "--offline", "--yes").ok()
        error = run("-c", old, "table", "ls", "--at", "v3").failed(10)
        assert "undo" not in error.stderr


class TestFullDisk:
    NAME = "full"

    @pytest.fixture
    def store(self, old: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> FullStore:
        """A full disk, with versions in quarantine that have not rested yet."""
        run("-c", old, "expire", "--yes").ok()
        store = FullStore(MemoryStore(self.NAME))
        store.create_many({str(path.relative_to(old)): path.read_bytes() for path in old.rglob("*") if path.is_file()})
        store.free = 0
        monkeypatch.setitem(memory._shared, self.NAME, store)
        return store

    def test_the_way_out(self, run: Run, store: FullStore):
        place = ("-c", f"memory://{self.NAME}")
        run(*place, "ns", "create", "b").failed(30, "no space left")
        ran = run(*place, "expire", "purge", "--offline", "--yes").ok()
        assert "purge   v0…v6 (7 versions): " in ran.stderr
        assert "to be deleted for good" in ran.stderr
        assert ran.lines[-1].startswith("v11  purged 7 versions: ")
        assert store.free > 0
        run(*place, "ns", "create", "b").ok()
        check_catalog(store)

    def test_an_expire_names_it(self, run: Run, store: FullStore):
        place = ("-c", f"memory://{self.NAME}")
        hint = run(*place, "expire", "--keep-last", "1", "--yes", "--json").error["hint"]
        words = shlex.split(hint[hint.index("olympia ") :])[1:]
        assert words == [*place, "expire", "purge", "--offline"]
        run(*words).failed(12, "--yes")
        run(*words, "--yes").ok()

    def test_purge_without_permission_reports_no_deletion(
        self, run: Run, store: FullStore, monkeypatch: pytest.MonkeyPatch
    ):
        """A purge that could not delete anything has not said that it did."""

        class Stuck(FullStore):
            def delete_many(self, paths: Iterable[str]) -> None:
                raise StorageDenied("no permission to delete")

        before = {file.path for file in store.list()}
        monkeypatch.setitem(memory._shared, self.NAME, Stuck(store.inner, 0))
        ran = run("-c", f"memory://{self.NAME}", "expire", "purge", "--offline", "--yes")
        assert ran.exit_code == 31
        assert ran.stdout == ""
        assert "to be deleted for good" in ran.stderr
        assert "error: no permission to delete" in ran.stderr
        assert {file.path for file in store.list()} == before
