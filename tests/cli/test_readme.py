"""What README says, typed as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import olympia_cli
from tests.helpers.servers.s3 import StrictS3

README = (Path(olympia_cli.__file__).parent.parent / "README.md").read_text()


@pytest.fixture
def readme_profile(config, monkeypatch):
    """README's own config file, but for the address of its server, and credentials from the SDK's chain."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    text = re.search(r"```toml\n(.*?)```", README, re.DOTALL)
    with StrictS3() as server:
        for bucket in ("lake", "backup"):
            server.create_bucket(bucket)
        config(text[1].replace("https://minio.example.com", server.url))
        yield server


def lines(*beginnings: str) -> list[list[str]]:
    """The commands of README that begin like this, as a shell splits them."""
    commands = re.findall(r"^olympia (.+)$", README, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in commands if line.startswith(beginnings)]


def test_the_commands_under_its_own_profile(run, readme_profile):
    for words in lines("init", "ns create", "table register", "export create", "export verify"):
        assert "--dest-profile" not in words
        run(*words).ok()
    keys = {bucket: len(objects) for bucket, objects in readme_profile.buckets.items()}
    assert keys["lake"] > 4
    assert keys["backup"] > 4


def test_the_same_catalog_named_by_a_flag_and_a_variable(run, readme_profile, monkeypatch):
    run("init").ok()
    run("-c", "s3://lake/catalog", "ns", "create", "flag").ok()
    monkeypatch.setenv("OLYMPIA_CATALOG", "s3://lake/catalog")
    assert run("ns", "ls").ok().lines == ["flag"]
