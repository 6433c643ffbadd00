"""The page and the bundle that fsck writes: for a colleague, and for support."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.output.fsck import report_page
from olympia_cli.format.paths import root_path
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.ops.fsck import make_bundle
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.fsck import everything, fsck, make
from tests.helpers.names import ns


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore("fsck")
    make(store)
    return store


EVIL = '<script>alert("x")</script>&\u202etxt'


def evil_catalog() -> MemoryStore:
    store = MemoryStore("evil")
    catalog = Catalog.create(store, properties={"owner": "secret-owner"})
    transaction = catalog.begin()
    transaction.create_namespace(ns(EVIL), {"mail": "ann@secret.example"})
    transaction.create_namespace(ns("payroll"))
    transaction.create_table(TableName("payroll", "salaries2026"), "s3://secret-bucket/salaries/metadata.json")
    transaction.create_table(TableName(EVIL, "t"), "s3://secret-bucket/other/metadata.json", {"k": "secret-value"})
    catalog.commit(transaction, "message-that-is-secret", by="secret-user@host")
    return store


def test_the_page_shows_values_as_data():
    store = evil_catalog()
    path = Catalog(store).snapshot().find(NamespaceName(EVIL))
    assert path is not None
    store.delete_many([path])
    store.create("<b>odd</b>", b"")
    page = report_page(everything(store), 's3://x/"><img src=http://evil>', 0)
    assert "<script" not in page
    assert "<img" not in page
    assert "<b>odd" not in page
    assert "\u202e" not in page
    assert "\\u202e" in page
    assert "&lt;script&gt;" in page
    assert "src=" not in page.replace("src=http://evil&gt;", "")
    assert "href" not in page
    assert "default-src 'none'" in page


def test_a_page_of_a_sound_catalog(store):
    page = report_page(fsck(store), store.uri, 0)
    assert "Sound" in page
    assert "Nothing was found" in page


def test_the_bundle_holds_no_name_of_the_catalog():
    store = evil_catalog()
    for path in (Catalog(store).snapshot().find(NamespaceName("payroll")), root_path(1)):
        assert path is not None
        store.overwrite(path, store.read(path)[:-30])
    store.create("payroll-backup/salaries2026.bak", b"")
    report = everything(store)
    assert report.damaged
    data = make_bundle(store, report)
    with zipfile.ZipFile(BytesIO(data)) as archive:
        text = b"".join(archive.read(name) for name in archive.namelist()).decode()
        document = json.loads(archive.read("report.json"))
        lines = [json.loads(line) for line in archive.read("structure.jsonl").splitlines()]
    for secret in ("payroll", "salaries", "secret", "script", "ann@", "alert", "%3C", "s3://", "memory://"):
        assert secret not in text.lower(), secret
    assert [one["code"] for one in document["findings"]] == [one.code for one in report.findings]
    assert {one["path"] for one in lines} >= {root_path(0), root_path(1)}
    pivot = next(one for one in lines if one["path"] == root_path(1))["rows"]
    assert len(pivot) > 1


def test_pseudonyms_stay_within_a_bundle_and_differ_between_two():
    store = evil_catalog()
    report = everything(store)

    def names() -> list[str]:
        with zipfile.ZipFile(BytesIO(make_bundle(store, report))) as archive:
            lines = [json.loads(line) for line in archive.read("structure.jsonl").splitlines()]
        keys = [row["key"] for line in lines for row in line["rows"] if isinstance(row["key"], dict)]
        return [key["namespace"] for key in keys]

    one, other = names(), names()
    assert len(one) == 4
    assert len(set(one)) == 2
    assert not set(one) & set(other)
