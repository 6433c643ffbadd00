"""The meaning of locations, and the cost of opening them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from olympia_cli.errors import InvalidLocation, InvalidOption, OlympiaError
from olympia_cli.storage.open import open_store

ENDPOINT = "http://127.0.0.1:1"


@pytest.mark.parametrize("timeout", ["45s", 45, 45.0, "45", "45.0"])
def test_a_timeout(timeout):
    """The forms are those of a user, of a profile and of Spark."""
    for uri in ("s3://bucket", "gs://bucket"):
        store = open_store(uri, {"endpoint_url": "http://127.0.0.1:1", "timeout": timeout})
        assert store._time_allowed == 45.0
    open_store("memory://test-open", {"timeout": timeout})


@pytest.mark.parametrize(
    "timeout",
    ["soon", "", "0", 0, -1, True, float("inf"), float("nan"), 10**400, [3], None],
    ids=lambda timeout: repr(timeout)[:20],
)
def test_a_timeout_that_makes_no_sense(timeout):
    with pytest.raises(OlympiaError) as caught:
        open_store("s3://bucket", {"timeout": timeout})
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("meant", "endpoint"),
    [("lake", ENDPOINT), ("raw, lake", ENDPOINT), ("raw,lake", ENDPOINT), ("raw", None), ("la", None), ("", None)],
)
def test_options_for_some_buckets(meant, endpoint):
    store = open_store("s3://lake/x", {"endpoint_url": ENDPOINT, "bucket": meant, "timeout": 5})
    assert store._bucket._settings.get("endpoint_url") == endpoint
    assert store._time_allowed == 5.0
    with pytest.raises(InvalidOption, match="bucket"):
        open_store("s3://lake/x", {"bucket": ["lake"]})


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_local_folder(tmp_path, form):
    from olympia_cli.storage.local import LocalStore

    store = open_store(form.format(tmp_path / "catalog"))
    assert isinstance(store, LocalStore)
    store.create("a", b"1")
    assert (tmp_path / "catalog" / "a").read_bytes() == b"1"


def test_local_folder_with_escapes(tmp_path):
    open_store(f"file://{tmp_path}/a%20b").create("x", b"1")
    assert (tmp_path / "a b" / "x").exists()
    open_store(f"{tmp_path}/c%20d").create("x", b"1")
    assert (tmp_path / "c%20d" / "x").exists()


def test_relative_folder_with_a_colon(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_store("day:1").create("x", b"1")
    assert (tmp_path / "day:1" / "x").exists()


def test_memory_is_one_place_a_name():
    open_store("memory://test-open").overwrite("a", b"1")
    assert open_store("memory://test-open").read("a") == b"1"
    assert not open_store("memory://test-open-2").exists("a")


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("S3://my.bucket-1/a b", "s3://my.bucket-1/a b"),
        ("gs://bucket", "gs://bucket"),
        ("gs://bucket/a", "gs://bucket/a"),
    ],
)
def test_buckets(uri, shown):
    store = open_store(uri, {"endpoint_url": "http://127.0.0.1:1"})
    assert store.uri == shown
    store.close()


@pytest.mark.parametrize("uri", ["hdfs://host/a", "https://host/a", "s3a://bucket/a", "abfs://x"])
def test_an_unknown_scheme_error_lists_known_schemes(uri):
    with pytest.raises(InvalidLocation) as caught:
        open_store(uri)
    for scheme in ("file://", "s3://", "gs://", "memory://"):
        assert scheme in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "  ",
        "a\0b",
        "s3://",
        "s3:///a",
        "s3:bucket/a",
        "s3:/bucket",
        "gs:bucket",
        "file:catalog",
        "file://host/a",
        "file://",
        "s3://bucket/../other",
        "s3://bucket/a//b",
        "gs://bucket/./a",
        "s3://bu cket/a",
    ],
)
def test_garbled(uri):
    with pytest.raises(InvalidLocation):
        open_store(uri)


def test_credentials_in_a_location_are_refused_and_not_repeated():
    with pytest.raises(InvalidLocation) as caught:
        open_store("s3://AKIA:hush@bucket/a")
    assert "hush" not in str(caught.value)


def test_options_that_the_store_does_not_use_are_refused(tmp_path):
    for uri in (str(tmp_path), "memory://test-open"):
        with pytest.raises(InvalidOption):
            open_store(uri, {"endpoint_url": "http://127.0.0.1:1"})
    with pytest.raises(InvalidOption):
        open_store("gs://bucket", {"endpoint": "http://127.0.0.1:1"})


def test_local_catalog_loads_no_sdk(tmp_path):
    code = (
        "import sys\n"
        "from olympia_cli.storage.open import open_store\n"
        f"store = open_store({str(tmp_path / 'catalog')!r})\n"
        "store.create('a', b'1')\n"
        "assert store.read('a') == b'1'\n"
        "loaded = {'fsspec', 's3fs', 'gcsfs', 'aiohttp', 'botocore', 'google.auth'} & set(sys.modules)\n"
        "sys.exit(', '.join(loaded) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
