"""Google Cloud Storage through gcsfs.

gcsfs provides the credentials and the session. The requests are made here, one each and sent once. gcsfs itself retries
six times over a minute, hides the HTTP status, and needs several requests to check whether a file exists.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

# zonal buckets use gRPC, and the check for one takes a minute on an emulator
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")

import aiohttp
import gcsfs.core
from google.auth.exceptions import GoogleAuthError
from yarl import URL

from olympia_cli.errors import (
    InvalidOption,
    PathMissing,
    PathTaken,
    StorageDenied,
    StorageFailed,
    StorageFull,
)
from olympia_cli.storage.bucket import (
    Bucket,
    Entry,
    check_options,
    read_within,
    shown,
    silence,
    size_seconds,
    unreachable,
    why,
)
from olympia_cli.storage.objects import ObjectStore
from olympia_cli.storage.protocol import LARGEST, TIME_ALLOWED, Between
from olympia_cli.storage.settle import Failure, Fate

_PAGE = 1000
# permanent errors; the outcome of a request with any other error status is unknown
_REFUSED_STATUSES = {400, 405, 411, 413, 414, 416, 501}
_RATE_LIMITS = ("rateLimitExceeded", "userRateLimitExceeded")


class GcsStore(ObjectStore):
    """A Store in a Cloud Storage bucket.

    `options` are those of gcsfs. Without a token, Google's default chain provides the credentials; an emulator needs
    none.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        options: Mapping[str, object] | None = None,
        *,
        time_allowed: float = TIME_ALLOWED,
    ) -> None:
        settings = _settings(options or {}, time_allowed)
        super().__init__(_GcsBucket(bucket, settings), prefix, time_allowed=time_allowed)


class _Answer(Exception):
    """An error response."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.message = ""
        self.reason = ""
        try:
            error = json.loads(body)["error"]
            self.message = str(error.get("message", ""))
            self.reason = str(error["errors"][0].get("reason", ""))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            self.message = self.message or body[:200].decode(errors="replace").strip()
        super().__init__(f"{status} {self.reason}: {self.message}")


class _GcsBucket(Bucket):
    # batch deletion takes 100 keys and counts as 100 requests; parallel single requests are as fast
    delete_batch = 1

    @property
    def uri(self) -> str:
        return f"gs://{self._name}"

    def put(self, key: str, data: bytes, *, exclusive: bool, seconds: float) -> None:
        # a single request for any size: no upload to resume, no unfinished parts to clean up
        params = {"uploadType": "media", "name": key} | ({"ifGenerationMatch": "0"} if exclusive else {})
        headers = {"Content-Type": "application/octet-stream"}

        async def put(fs: Any) -> None:
            await _ask(fs, "POST", f"upload/storage/v1/b/{_quoted(self._name)}/o", seconds, params, headers, data)

        self._run(put, key)

    def head(self, key: str, seconds: float) -> Entry:
        async def head(fs: Any) -> Entry:
            _, body = await _ask(fs, "GET", self._object(key), seconds, {"fields": "name,size,updated"})
            return _entry(json.loads(body))

        return self._run(head, key)

    def page(self, prefix: str, token: str | None, between: Between, seconds: float) -> tuple[list[Entry], str | None]:
        params = {
            "prefix": prefix,
            "maxResults": str(_PAGE),
            "fields": "nextPageToken,items(name,size,updated)",
        }
        if token:
            params["pageToken"] = token
        if between[0]:
            params["startOffset"] = between[0]
        if between[1] is not None:
            # `endOffset` is exclusive
            params["endOffset"] = between[1] + "\0"

        async def page(fs: Any) -> dict[str, Any]:
            _, body = await _ask(fs, "GET", f"storage/v1/b/{_quoted(self._name)}/o", seconds, params)
            return dict(json.loads(body))

        found = self._run(page, prefix)
        return [_entry(item) for item in found.get("items", ())], found.get("nextPageToken")

    def delete(self, keys: list[str], seconds: float) -> dict[str, Failure]:
        failed = {}
        for key in keys:
            try:
                self._delete(key, seconds)
            except Failure as failure:
                if failure.fate is not Fate.MISSING:
                    failed[key] = failure
        return failed

    def _delete(self, key: str, seconds: float) -> None:
        self._run(lambda fs: _ask(fs, "DELETE", self._object(key), seconds), key)

    def _object(self, key: str) -> str:
        return f"storage/v1/b/{_quoted(self._name)}/o/{_quoted(key)}"

    async def _get(self, fs: Any, key: str, limit: int, seconds: float, wanted: str | None = None) -> bytes:
        headers = {} if wanted is None else {"Range": wanted}
        # aiohttp raises an error if the body is shorter than its header says
        found, data = await _ask(fs, "GET", self._object(key), seconds, {"alt": "media"}, headers, key=key, limit=limit)
        stored = found.get("X-Goog-Stored-Content-Length")
        if headers and "Content-Range" not in found:
            raise aiohttp.ClientPayloadError("the server ignored the range and sent the whole file")
        plain = found.get("X-Goog-Stored-Content-Encoding", "identity") == "identity"
        if not headers and stored and plain and int(stored) != len(data):
            raise aiohttp.ClientPayloadError(f"received {len(data)} of {stored} bytes")
        return data

    def _new_client(self) -> Any:
        return gcsfs.core.GCSFileSystem(**self._settings)

    async def _make_ready(self, fs: Any) -> None:
        await fs._set_session()

    def _session(self, fs: Any) -> Any:
        return fs._session

    def _status(self, error: BaseException | None) -> int | None:
        return error.status if isinstance(error, _Answer) else None

    def _cause(self, error: Exception, ready: bool) -> BaseException | None:
        # errors during set-up may contain a token
        return error if ready else None

    def _explain(self, error: Exception, key: str, ready: bool) -> Failure:
        where = f"{self.uri}/{key}"
        if isinstance(error, _Answer):
            return self._meaning(error, where)
        if isinstance(error, GoogleAuthError):
            hint = "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS"
            return Failure(Fate.REFUSED, StorageDenied(f"no usable Google credentials for {self.uri}", hint=hint))
        fs = self._fs  # may be None: another thread may close the store
        endpoint = shown(str(fs._location), "Cloud Storage") if fs is not None else "Cloud Storage"
        if isinstance(error, aiohttp.ClientConnectorError):
            # aiohttp does not send a POST twice, so no byte was sent
            return unreachable(error.os_error, endpoint, where, "check the endpoint and the network")
        if isinstance(error, TimeoutError):
            return silence(endpoint, where)
        if isinstance(error, aiohttp.InvalidURL):
            return Failure(Fate.REFUSED, InvalidOption(f"cannot open {self.uri}: the endpoint is not a URL"))
        if not ready:
            said = str(error) if isinstance(error, TypeError | ValueError) else type(error).__name__
            return Failure(Fate.REFUSED, InvalidOption(f"cannot open {self.uri}: {said}"))
        return Failure(Fate.UNCLEAR, StorageFailed(f"{where}: the connection to {endpoint} failed: {why(error)}"))

    def _meaning(self, answer: _Answer, where: str) -> Failure:
        status = answer.status
        detail = " ".join(part for part in (str(status), answer.reason) if part)
        said = f"{where}: {answer.message.rstrip('.') or 'refused'} ({detail})"
        if status == 404 and "bucket does not exist" in answer.message:
            hint = "create the bucket, or check its name and the endpoint"
            return Failure(Fate.REFUSED, StorageFailed(f"there is no bucket {self._name}", hint=hint))
        if status == 404:
            return Failure(Fate.MISSING, PathMissing(f"no file {where}"))
        if status in (401, 403) and answer.reason not in _RATE_LIMITS:
            return Failure(Fate.REFUSED, StorageDenied(said))
        if status == 507:
            return Failure(Fate.REFUSED, StorageFull(said))
        if status in _REFUSED_STATUSES:
            return Failure(Fate.REFUSED, StorageFailed(said, hint="check the bucket and the options"))
        if status == 412:
            return Failure(Fate.UNCLEAR, PathTaken(f"{where} is taken"))
        return Failure(Fate.UNCLEAR, StorageFailed(said))


async def _ask(
    fs: Any,
    method: str,
    path: str,
    seconds: float,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    data: bytes | None = None,
    key: str = "",
    limit: int = LARGEST,
) -> tuple[Mapping[str, str], bytes]:
    """Send one request with gcsfs's session and credentials. Return the response's headers and body."""
    url = URL(f"{fs._location}/{path}", encoded=True)
    async with (
        asyncio.timeout(seconds) as timeout,
        fs.session.request(
            method,
            url,
            params=fs._get_params(dict(params or {})),
            headers=fs._get_headers(dict(headers or {})),
            data=None if data is None else io.BytesIO(data),
            timeout=fs.requests_timeout,
        ) as reply,
    ):
        timeout.reschedule((timeout.when() or 0.0) + size_seconds(reply.content_length or 0))
        body = await read_within(reply.content_length, reply.content.read, key, limit)
        if reply.status >= 300:
            raise _Answer(reply.status, body)
        return reply.headers, body


def _settings(options: Mapping[str, object], time_allowed: float) -> dict[str, Any]:
    """Return gcsfs's arguments: the user's options, with our defaults."""
    settings: dict[str, Any] = dict(options)
    check_options("gs", settings, [gcsfs.core.GCSFileSystem.__init__], {"timeout", "bucket"})
    endpoint = str(settings.get("endpoint_url") or os.environ.get("STORAGE_EMULATOR_HOST") or "")
    if endpoint and "googleapis.com" not in endpoint:
        settings.setdefault("token", "anon")
    if settings.get("endpoint_url"):
        settings["endpoint_url"] = str(settings["endpoint_url"]).rstrip("/")
    connect, read = min(5.0, time_allowed), min(15.0, time_allowed / 2)
    settings.setdefault("requests_timeout", aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read))
    # fsspec's caches outlive the store and miss what other programs write
    return settings | {"use_listings_cache": False, "skip_instance_cache": True}


def _entry(item: Mapping[str, Any]) -> Entry:
    updated = datetime.fromisoformat(item["updated"])
    return Entry(item["name"], int(item["size"]), round(updated.timestamp() * 1000))


def _quoted(part: str) -> str:
    return quote(part, safe="")
