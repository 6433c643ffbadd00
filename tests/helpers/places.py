"""Fresh, empty locations on the servers of the tests."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import pytest

from olympia_cli.storage.protocol import Store

BUCKET = "catalogs"


def s3_options(url: str, key: str = "key") -> dict[str, object]:
    # the SDK makes a name for each request, twice
    cheap = {"session": _session(), "config_kwargs": {"user_agent": "tests"}}
    return {"endpoint_url": url, "key": key, "secret": "secret", "region": "us-east-1", **cheap}


@cache
def _session() -> object:
    """Return one session for all clients, because each session reads botocore's large service descriptions.

    The parser of times is cached, because each answer has a time.
    """
    from aiobotocore.session import AioSession
    from botocore.utils import parse_timestamp

    session = AioSession()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=cache(parse_timestamp))
    return session


def gcs_options(url: str) -> dict[str, object]:
    return {"endpoint_url": url, "token": "anon", "project": "test"}


@dataclass
class Place:
    """A fresh, empty location. Each `open` is an independent client of it; `open_behind` goes past the proxy
    that stands before it, if one does.
    """

    name: str
    make: Callable[..., Store]
    make_behind: Callable[..., Store] | None = None
    opened: list[Store] = field(default_factory=list)

    def open(self, **more: object) -> Store:
        return self._keep(self.make(**more))

    def open_behind(self) -> Store:
        return self._keep((self.make_behind or self.make)())

    def close(self) -> None:
        for store in self.opened:
            store.close()

    def _keep(self, store: Store) -> Store:
        self.opened.append(store)
        return store


def s3_place(url: str, name: str = "s3-strict", *, behind: str | None = None) -> Place:
    from olympia_cli.storage.s3 import S3Store

    prefix = f"at/{uuid.uuid4()}"
    return Place(
        name,
        lambda **more: S3Store(BUCKET, prefix, s3_options(url), **more),
        lambda: S3Store(BUCKET, prefix, s3_options(behind or url)),
    )


def gcs_place(url: str, name: str = "gcs", *, behind: str | None = None) -> Place:
    from olympia_cli.storage.gcs import GcsStore

    prefix = f"at/{uuid.uuid4()}"
    return Place(
        name,
        lambda **more: GcsStore(BUCKET, prefix, gcs_options(url), **more),
        lambda: GcsStore(BUCKET, prefix, gcs_options(behind or url)),
    )


def quiet_environment(patch: pytest.MonkeyPatch) -> None:
    """Keep the SDKs off the network and off this machine's own settings when they look for credentials."""
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        patch.setenv(name, "/dev/null")
    for name in ("AWS_EC2_METADATA_DISABLED", "NO_GCE_CHECK"):
        patch.setenv(name, "true")
    for name in (
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "STORAGE_EMULATOR_HOST",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ):
        patch.delenv(name, raising=False)
