"""The location of the catalog: flags beat the environment, which beats the config file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from olympia_cli.cli.session import Session
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.s3 import S3Store
from tests.cli.conftest import Run


@pytest.fixture
def three(run: Run, tmp_path: Path) -> dict[str, str]:
    """Catalogs that each hold one namespace: their own name."""
    places = {}
    for name in ("flag", "environment", "file"):
        places[name] = str(tmp_path / name)
        run("init", places[name]).ok()
        run("-c", places[name], "ns", "create", name).ok()
    return places


def opened(run: Run, *args: str) -> str:
    return run(*args, "ns", "ls").ok().stdout.strip()


def test_flags_beat_the_environment_which_beats_the_file(run, three, config, monkeypatch):
    config(f'[default]\ncatalog = "{three["file"]}"\n')
    assert opened(run) == "file"
    monkeypatch.setenv("OLYMPIA_CATALOG", three["environment"])
    assert opened(run) == "environment"
    assert opened(run, "-c", three["flag"]) == "flag"


def test_profiles(run, three, config, monkeypatch):
    config("".join(f'[{name}]\ncatalog = "{uri}"\n' for name, uri in three.items()))
    assert opened(run, "--profile", "file") == "file"
    monkeypatch.setenv("OLYMPIA_PROFILE", "environment")
    assert opened(run) == "environment"
    assert opened(run, "--profile", "flag") == "flag"
    assert opened(run, "-c", three["file"]) == "file"


def test_without_profile_and_default_no_catalog_is_given(run, three, config):
    config(f'[prod]\ncatalog = "{three["file"]}"\n')
    run("ns", "ls").failed(2, "no catalog is given")
    config("")
    run("ns", "ls").failed(2, "no catalog is given")


def test_an_unknown_profile(run, three, config, monkeypatch):
    config(f'[prod]\ncatalog = "{three["file"]}"\n[test]\ncatalog = "x"\n')
    run("--profile", "dev", "ns", "ls").failed(2, "'dev'", "prod, test")
    monkeypatch.setenv("OLYMPIA_PROFILE", "dev")
    run("ns", "ls").failed(2, "'dev'")
    run("-c", three["flag"], "ns", "ls").failed(2, "'dev'")


def test_a_profile_without_a_file(run):
    run("--profile", "dev", "ns", "ls").failed(2, "no config file")


def test_another_file(run, three, config, monkeypatch, tmp_path):
    config(f'[default]\ncatalog = "{three["flag"]}"\n')
    other = tmp_path / "other.toml"
    other.write_text(f'[default]\ncatalog = "{three["file"]}"\n')
    monkeypatch.setenv("OLYMPIA_CONFIG", str(other))
    assert opened(run) == "file"
    monkeypatch.setenv("OLYMPIA_CONFIG", str(tmp_path / "missing.toml"))
    run("ns", "ls").failed(2, "missing.toml")
    assert opened(run, "-c", three["flag"]) == "flag"


def test_the_file_in_the_home_folder(run, three, monkeypatch, settings):
    monkeypatch.delenv("XDG_CONFIG_HOME")
    folder = Path.home() / ".config" / "olympia"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[default]\ncatalog = "{three["file"]}"\n')
    assert opened(run) == "file"


@pytest.mark.parametrize(
    "text",
    [
        "[default",
        "catalog = ",
        "default = 3",
        "[default]\ncatalog = 3",
        '[default]\ncatalog = "x"\nstorage = "y"',
        "[default]\ncatalog = ['x']",
    ],
)
def test_a_broken_file(run, config, text):
    path = config(text)
    run("ns", "ls").failed(2, str(path))


def test_a_file_that_is_not_text_or_not_a_file(run, config):
    path = config("")
    for content in (b"\xff\xfe", b"x = " + b"9" * 5000, b"x = " + b"[" * 5000):
        path.write_bytes(content)
        run("ns", "ls").failed(2, "cannot be read")
    path.unlink()
    path.mkdir()
    run("ns", "ls").failed(2, "cannot be read")


def test_config_file_is_read_as_utf8_in_any_locale(program, three, config):
    config(f'# Käse\n[default]\ncatalog = "{three["file"]}"\n')
    program("ns", "ls", env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}).ok()


def test_storage_options_reach_the_store(run, config, monkeypatch):
    config(
        '[prod]\ncatalog = "s3://bucket/catalog"\n'
        '[prod.storage]\nendpoint_url = "http://127.0.0.1:9"\nanon = true\nretries = 3\n'
    )
    seen = []

    class Seen(MemoryStore):
        def __init__(self, bucket, prefix, options, *, time_allowed):
            seen.append((bucket, prefix, options))
            super().__init__()

    monkeypatch.setattr("olympia_cli.storage.s3.S3Store", Seen)
    options = {"endpoint_url": "http://127.0.0.1:9", "anon": True, "retries": 3}
    run("--profile", "prod", "ns", "ls").failed(10)
    assert seen.pop() == ("bucket", "catalog", options)
    run("--profile", "prod", "-c", "s3://other/x", "ns", "ls").failed(10)
    assert seen.pop() == ("other", "x", options), "a flag names another catalog of the same store"
    run("-c", "s3://other/x", "ns", "ls").failed(10)
    assert seen.pop() == ("other", "x", {}), "no profile was asked for, and there is no default"


class TestStorageOptions:
    """Options of the profile apply to every location on the same kind of store, however it was given."""

    STORAGE = '[default.storage]\nendpoint_url = "http://127.0.0.1:9"\n'

    @pytest.fixture
    def opened(self, run, monkeypatch) -> Callable[..., list[Any]]:
        """The buckets, endpoints and times of the stores that a command opens."""
        seen: list[Any] = []

        class Seen(MemoryStore):
            def __init__(self, bucket, prefix, options, *, time_allowed):
                seen.append((bucket, options.get("endpoint_url"), time_allowed))
                super().__init__()

        monkeypatch.setattr("olympia_cli.storage.s3.S3Store", Seen)

        def of(*args: str) -> list[Any]:
            seen.clear()
            assert run(*args).exit_code in (0, 10)
            return list(seen)

        return of

    @pytest.mark.parametrize("catalog", ['catalog = "s3://lake/c"\n', ""])
    def test_of_the_default_profile_with_a_flag_or_a_variable(self, opened, config, monkeypatch, catalog):
        config(f"[default]\n{catalog}{self.STORAGE}")
        expected = [("other", "http://127.0.0.1:9", 30.0)]
        assert opened("-c", "s3://other/x", "ns", "ls") == expected
        monkeypatch.setenv("OLYMPIA_CATALOG", "s3://other/x")
        assert opened("ns", "ls") == expected
        assert opened("-c", "S3://other/x", "ns", "ls") == expected

    def test_of_another_kind_of_store(self, run, opened, config, three):
        config(f'[default]\ncatalog = "gs://lake/c"\n{self.STORAGE}')
        assert opened("-c", "s3://other/x", "ns", "ls") == [("other", None, 30.0)]
        config(f'[default]\ncatalog = "s3://lake/c"\n{self.STORAGE}')
        run("-c", three["flag"], "ns", "ls").ok()
        run("--profile", "default", "-c", three["flag"], "ns", "ls").ok()

    def test_for_the_buckets_that_they_name(self, opened, config):
        config(f'[default]\ncatalog = "s3://lake/c"\n{self.STORAGE}bucket = "lake, raw"\n')
        assert opened("ns", "ls") == [("lake", "http://127.0.0.1:9", 30.0)]
        assert opened("-c", "s3://raw/x", "ns", "ls") == [("raw", "http://127.0.0.1:9", 30.0)]
        assert opened("-c", "s3://other/x", "ns", "ls") == [("other", None, 30.0)]

    def test_the_timeout(self, run, opened, config, three, monkeypatch):
        config('[default]\ncatalog = "s3://lake/c"\n[default.storage]\ntimeout = "2m"\n')
        assert opened("ns", "ls") == [("lake", None, 120.0)]
        monkeypatch.setenv("OLYMPIA_TIMEOUT", "50s")
        assert opened("ns", "ls") == [("lake", None, 50.0)]
        assert opened("ns", "ls", "--timeout", "1h") == [("lake", None, 3600.0)]
        run("-c", three["flag"], "--timeout", "1s", "ns", "ls").ok()
        for words in ("soon", "0s", "-1s", "5"):
            run("-c", three["flag"], "--timeout", words, "ns", "ls").failed(2)

    def test_a_config_file_that_cannot_be_read(self, run, opened, config, three):
        """A folder needs none; what is in a bucket may need it."""
        path = config("[default")
        run("-c", three["flag"], "ns", "ls").ok()
        run("-c", "s3://other/x", "ns", "ls").failed(2, str(path))


def test_storage_options_that_make_no_sense(run, config, three):
    config(f'[a]\ncatalog = "{three["file"]}"\n[a.storage]\nregion = "x"\n')
    run("--profile", "a", "ns", "ls").failed(2, "region")
    config('[b]\ncatalog = "s3://bucket/x"\n[b.storage]\nnonsense = 1\n')
    run("--profile", "b", "ns", "ls").failed(2, "nonsense")


def test_secrets_are_never_printed(run, config):
    config(
        '[prod]\ncatalog = "s3://bucket/catalog"\n[prod.storage]\n'
        'endpoint_url = "http://127.0.0.1:9"\nkey = "AKIA-hush"\nsecret = "hush-hush"\n'
    )
    done = run("--profile", "prod", "init", "--timeout", "1s")
    assert done.exit_code == 30
    assert "hush" not in done.stdout + done.stderr


def test_a_flag_that_is_empty_does_not_lead_to_another_catalog(run, three, monkeypatch):
    """A script with an unset variable runs such a command: `-c "$CATALOG" ns drop …`."""
    monkeypatch.setenv("OLYMPIA_CATALOG", three["environment"])
    run("-c", "", "ns", "ls").failed(2, "--catalog is empty")
    run("--profile", "", "ns", "ls").failed(2, "--profile is empty")
    monkeypatch.setenv("OLYMPIA_CATALOG", "")
    run("ns", "ls").failed(2, "no catalog is given")


def test_no_color_progress_and_verbose_are_taken_everywhere(olympia):
    for flags in (["--no-color"], ["--no-progress"], ["--verbose"]):
        olympia(*flags, "ns", "ls", *flags).ok()


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({}, "olympia log"),
        ({"olympia.catalog": "./my catalog"}, "olympia -c './my catalog' log"),
        ({"olympia.profile": "prod"}, "olympia --profile prod log"),
        ({"olympia.catalog": "s3://b/$x", "olympia.profile": "p"}, "olympia -c 's3://b/$x' --profile p log"),
    ],
)
def test_a_suggested_command_repeats_where_the_catalog_is(given, command):
    context: Any = SimpleNamespace(meta=given)
    assert Session(context).command("log") == command


class TestKeysThatAreNone:
    """A typing error in the config file is refused, and never ignored."""

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('[default]\ncatalgo = "x"\n', ["catalgo", "did you mean catalog?"]),
            ('[default]\ncatalog = "x"\n[default.storag]\nanon = true\n', ["storag", "did you mean storage?"]),
            ('[default]\ncatalog = "x"\nendpoint_url = "y"\n', ["endpoint_url", "write it in [default.storage]"]),
            ('[default]\ncatalog = "x"\nhush = "hush-hush"\n', ["hush", "catalog and storage"]),
            ('[default]\nuri = "hush-hush"\n', ["uri", "did you mean catalog?"]),
            ('[prod]\nlocation = "hush-hush"\n', ["location", "the profile prod", "did you mean catalog?"]),
            ('catalog = "x"\n', ["catalog", "outside of a profile", "write it in [default]"]),
            ('endpoint_url = "y"\n[default]\ncatalog = "x"\n', ["endpoint_url", "write it in [default]"]),
        ],
    )
    def test_refused(self, run, config, text, words):
        path = config(text)
        for command in (["ns", "ls"], ["config", "show"]):
            done = run(*command).failed(2, str(path), *words)
            assert "hush-hush" not in done.stderr
        done = run("doctor", "--json")
        assert done.exit_code == 2
        assert words[0] in done.json["next"]["why"]

    def test_of_another_profile(self, run, config, three):
        """Commands with another profile still work; `config show` reads all profiles."""
        path = config(f'[default]\ncatalog = "{three["file"]}"\n[prod]\nuri = "x"\n')
        run("ns", "ls").ok()
        run("--profile", "prod", "ns", "ls").failed(2, str(path), "uri")
        run("config", "show").failed(2, str(path), "the profile prod", "uri")

    def test_a_folder_needs_no_file(self, run, config, three):
        config('[default]\ncatalgo = "x"\n')
        run("-c", three["flag"], "ns", "ls").ok()

    @pytest.mark.parametrize(
        ("scheme", "option", "meant"),
        [
            ("s3", "endpont_url", "endpoint_url"),
            ("s3", "regoin", "region"),
            ("gs", "tokn", "token"),
            ("gs", "timout", "timeout"),
        ],
    )
    def test_storage_options(self, run, config, scheme, option, meant):
        config(f'[default]\ncatalog = "{scheme}://lake/c"\n[default.storage]\n{option} = "hush-hush"\n')
        done = run("ns", "ls", "--timeout", "1s").failed(2, f"{scheme}://", option, f"did you mean {meant}?")
        assert "hush-hush" not in done.stderr

    def test_every_option_of_s3fs_and_its_session_is_taken(self):
        for option in ("anon", "profile", "use_ssl", "version_aware", "cache_regions", "listings_expiry_time"):
            S3Store("bucket", "", {option: None}).close()


class TestNoDefault:
    def test_it_names_the_profiles(self, run, config, three):
        config(f'[prod]\ncatalog = "{three["file"]}"\n')
        error = run("ns", "ls", "--json").error
        assert (error["exit_code"], error["message"]) == (2, "no catalog is given")
        assert "--profile prod" in error["hint"]
        run("--profile", "prod", "ns", "ls").ok()
        config(f'[prod]\ncatalog = "{three["file"]}"\n[test]\ncatalog = "x"\n')
        assert "--profile prod or test" in run("ns", "ls", "--json").error["hint"]

    def test_a_default_without_a_catalog(self, run, config, three):
        path = config('[default.storage]\nregion = "eu"\n')
        run("ns", "ls").failed(2, "no catalog is given", f"the profile default in {path} has none")
        run("-c", three["flag"], "ns", "ls").ok()

    def test_without_a_file(self, run):
        assert "create a profile" in run("ns", "ls", "--json").error["hint"]
