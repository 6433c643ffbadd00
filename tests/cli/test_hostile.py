"""Files that are absurdly large, far away or high in number: no command works on them for long."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from olympia_cli.format.paths import LATEST, MAX_VERSION, OLDEST, root_path
from tests.cli.conftest import Run, Sample
from tests.helpers.damage import rewrite_definition, rewrite_raw

TERABYTE = 2**40


@pytest.fixture
def hostile(run: Run, damageable: Sample) -> Run:
    """Run the program on a sample that a test breaks."""
    return lambda *args, **more: run("-c", damageable.uri, *args, **more)


class TestAVersionFarAway:
    """Work is proportional to the files that exist: no command counts to the highest version."""

    def test_an_empty_far_root_is_found_and_salvage_works(self, hostile, damageable, tmp_path):
        damageable.store.create(root_path(MAX_VERSION), b"")
        found = hostile("fsck", "--all-versions", "--json")
        assert found.exit_code == 50
        assert {finding["code"] for finding in found.json["findings"]} >= {"F101", "F202"}
        hostile("fsck", "--repair", "--yes").failed(12, "missing")
        assert hostile("fsck", "--salvage", tmp_path / "new", "--json").exit_code == 3
        hostile("log", "-n", "1").ok()

    @pytest.fixture
    def far(self, damageable) -> int:
        """The latest root as the last version but one, where the hint says it is; it names the version before it."""
        store, version = damageable.store, MAX_VERSION - 1
        store.create(root_path(version), store.read(root_path(7)))
        rewrite_raw(store, root_path(version), lambda raw: raw.set("previous_root", root_path(version - 1)))
        store.overwrite(LATEST, str(version).encode())
        return version

    def test_a_copy_of_the_latest_root_is_passed_over(self, hostile, damageable):
        store, version = damageable.store, MAX_VERSION - 1
        store.create(root_path(version), store.read(root_path(7)))
        store.overwrite(LATEST, str(version).encode())
        assert [entry["version"] for entry in hostile("log", "--json").ok().json["versions"]] == [*range(7, -1, -1)]
        hostile("ns", "create", "x").ok()
        hostile("fsck", "--repair", "--yes").ok()
        assert hostile("fsck", "--all-versions", "--json").ok().json["findings"] == []
        assert hostile("log", "-n", "1", "-o", "name").ok().lines == ["v8"]

    def test_the_log_tells_a_gap_and_goes_on_behind_it(self, hostile, far):
        entries = hostile("log", "--json").ok().json["versions"]
        assert [entry["version"] for entry in entries][-9:] == [8, *range(7, -1, -1)]
        assert len(entries) < 100
        assert f"versions 8 to {far - 65} are missing" in hostile("log").ok().stdout

    def test_a_history_passes_over_it(self, hostile, far):
        history = hostile("table", "history", "sales.orders_2025", "--json").ok().json["revisions"]
        assert [revision["version"] for revision in history][-1] == 2

    def test_export_of_a_far_version_lists_no_missing_roots(self, hostile, far, tmp_path):
        hostile("export", "create", "copy", "--dest", tmp_path / "copy").ok()


class TestLargeFiles:
    @pytest.mark.parametrize("hint", [LATEST, OLDEST])
    def test_a_hint_is_garbage_and_repaired(self, hostile, damageable, hint):
        damageable.store.overwrite(hint, b"7")
        os.truncate(damageable.folder / hint, TERABYTE)
        hostile("status").ok()
        found = hostile("fsck", "--json").ok().json["findings"]
        assert [(finding["code"], finding["path"]) for finding in found] == [
            ("F112" if hint == LATEST else "F115", hint)
        ]
        hostile("ns", "create", "more").ok()
        hostile("fsck", "--repair", "--yes").ok()
        assert hostile("fsck", "--json").ok().json["findings"] == []

    def test_an_enormous_root_is_reported_and_repaired(self, hostile, damageable):
        os.truncate(damageable.folder / root_path(7), TERABYTE)
        hostile("table", "ls").failed(40, "the limit is 268,435,456 bytes")
        hostile("table", "ls", "--at", "v5").ok()
        found = hostile("fsck", "--json")
        assert found.exit_code == 50
        assert [(finding["code"], finding["path"]) for finding in found.json["findings"]] == [("F205", root_path(7))]
        hostile("fsck", "--repair", "--yes").ok()
        hostile("table", "ls").ok()
        assert [entry["version"] for entry in hostile("log", "--json").ok().json["versions"]] == [*range(8, -1, -1)]

    @pytest.mark.parametrize("folder", ["def/table", "def/ns", "def/catalog", "dtxn", "ops"])
    def test_other_enormous_files_break_no_command(self, hostile, damageable, folder):
        hostile("fsck").ok()
        for path in (damageable.folder / folder).iterdir():
            if path.is_file():
                os.truncate(path, TERABYTE)
        for command in ("status", "txn ls", "table ls --output wide", "fsck --all-versions --level full", "expire -n"):
            assert hostile(*command.split()).exit_code in (0, 3, 40, 50, 51), command

    def test_it_can_be_salvaged_around(self, hostile, damageable, tmp_path):
        victim = next((damageable.folder / "def/table").glob("*orders*"))
        shutil.copy(victim, tmp_path)
        os.truncate(victim, TERABYTE)
        report = hostile("fsck", "--salvage", tmp_path / "new", "--json")
        assert report.exit_code in (0, 3)


class TestNumbers:
    """Numbers from names and files are taken only where they can be meant."""

    @pytest.mark.parametrize("number", [2**63, 10**10, 10**180])
    def test_a_save_with_an_absurd_number_is_unknown(self, hostile, damageable, number):
        path = f"dtxn/{damageable.transaction}.{number}.binpb"
        damageable.store.create(path, b"garbage")
        assert [row["id"] for row in hostile("txn", "ls", "--json").ok().json["transactions"]] == [
            damageable.transaction
        ]
        hostile("status").ok()
        found = hostile("fsck", "--all-versions", "--level", "full", "--json").ok().json["findings"]
        assert ("F903", path) in [(finding["code"], finding["path"]) for finding in found]
        hostile("txn", "commit", damageable.transaction).ok()

    @pytest.mark.parametrize("number", ["\u00b2", "\u0663", "-1", "1e3", "9" * 30, "0x10", ""])
    def test_a_number_of_keys_that_is_none(self, hostile, damageable, number, tmp_path):
        rewrite_raw(damageable.store, root_path(7), lambda raw: raw.set("n_keys", number))
        hostile("table", "ls").failed(40, "n_keys")
        assert hostile("fsck", "--all-versions", "--level", "full").exit_code == 50
        assert hostile("fsck", "--bundle", tmp_path / "bundle.zip").exit_code == 50
        hostile("dump-node", "latest").failed(40)
        hostile("fsck", "--repair", "--yes").ok()

    def test_name_sizes_that_no_catalog_has(self, hostile, damageable):
        def widen(definition: Any) -> None:
            definition.namespace_name_max_size_bytes = definition.table_name_max_size_bytes = 2**32 - 1

        for file in damageable.store.list("def/catalog/"):
            rewrite_definition(damageable.store, file.path, widen)
        # a root of another program does not say the sizes, so that the definition is asked
        rewrite_raw(damageable.store, root_path(7), lambda raw: raw.metadata.clear())
        hostile("table", "ls").failed(40, "out of range")
        for command in ("dump-node latest", "dump-node v3", "tree", "fsck", "status", "fsck --repair -n", "log -p"):
            assert hostile(*command.split()).exit_code in (0, 12, 40, 50), command

    def test_enums_of_a_newer_program(self, hostile, damageable):
        """Each is shown as its number."""
        for file in damageable.store.list("def/table/"):
            rewrite_definition(damageable.store, file.path, lambda table: setattr(table, "table_format", 99))
        assert "table_format: 99" in hostile("log", "-p").ok().stdout
        hostile("diff", "v0", "latest", "--json").ok()
        hostile("table", "show", "sales.orders_2025").ok()

    def test_toml_that_is_nested_too_deep(self, hostile, config):
        config("a = " + "[" * 100_000 + "]" * 100_000)
        hostile("--profile", "x", "status").failed(2, "config file")
