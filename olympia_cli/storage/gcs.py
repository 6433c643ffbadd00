"""Google Cloud Storage, through the session and the credentials of gcsfs.

The requests are made here, one each and sent once. gcsfs itself retries six times over a minute, hides the HTTP status,
and needs several requests to check whether a file exists.
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

from olympia_cli.storage.http_bucket import (
    NO_BUCKET,
    Answer,
    HttpBucket,
    Options,
    Service,
    check_body,
    check_options,
    read_within,
    timeouts,
)
from olympia_cli.storage.objects import ObjectStore, Page, size_seconds
from olympia_cli.storage.protocol import LARGEST, TIME_ALLOWED, Between, FileInfo
from olympia_cli.storage.settle import Failure, Fate

_PAGE = 1000
_API = "storage/v1/"

_SERVICE = Service(
    scheme="gs",
    name="Cloud Storage",
    credentials="Google",
    credentials_hint="run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS",
    credential_errors=(GoogleAuthError,),
    refused_statuses={400, 405, 411, 413, 414, 416, 501},
    passing_codes={"rateLimitExceeded", "userRateLimitExceeded"},
)


class GcsStore(ObjectStore):
    """A Store in a Cloud Storage bucket.

    `options` are those of gcsfs. Without a token, Google's default chain provides the credentials; an emulator needs
    none.
    """

    def __init__(
        self, bucket: str, prefix: str = "", options: Options | None = None, *, time_allowed: float = TIME_ALLOWED
    ) -> None:
        settings = _settings(options or {}, time_allowed)
        super().__init__(_GcsBucket(bucket, settings), prefix, time_allowed=time_allowed)


class _Refused(Exception):
    """An error response."""

    def __init__(self, status: int, body: bytes) -> None:
        message = code = ""
        try:
            error = json.loads(body)["error"]
            message = str(error.get("message", ""))
            code = str(error["errors"][0].get("reason", ""))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            message = message or body[:200].decode(errors="replace").strip()
        if status == 404 and "bucket does not exist" in message:
            code = NO_BUCKET
        self.answer = Answer(status, code, message)
        super().__init__(f"{status} {code}: {message}")


class _GcsBucket(HttpBucket):
    service = _SERVICE
    # batch deletion takes 100 keys and counts as 100 requests; parallel single requests are as fast
    delete_batch = 1

    def put(self, key: str, data: bytes, *, exclusive: bool, seconds: float) -> None:
        # a single request for any size: no upload to resume, no unfinished parts to clean up
        params = {"uploadType": "media", "name": key} | ({"ifGenerationMatch": "0"} if exclusive else {})
        headers = {"Content-Type": "application/octet-stream"}
        path = f"upload/{self._objects}"
        self._run(lambda fs: _ask(fs, "POST", path, seconds, params, headers, data), key)

    def head(self, key: str, seconds: float) -> FileInfo:
        async def head(fs: Any) -> FileInfo:
            _, body = await _ask(fs, "GET", self._object(key), seconds, {"fields": "name,size,updated"})
            return _entry(json.loads(body))

        return self._run(head, key)

    def page(self, prefix: str, token: str | None, between: Between, seconds: float) -> Page:
        fields = "nextPageToken,items(name,size,updated)"
        params = {"prefix": prefix, "maxResults": str(_PAGE), "fields": fields}
        if token:
            params["pageToken"] = token
        if between[0]:
            params["startOffset"] = between[0]
        if between[1] is not None:
            # `endOffset` is exclusive
            params["endOffset"] = between[1] + "\0"

        async def page(fs: Any) -> Page:
            _, body = await _ask(fs, "GET", self._objects, seconds, params)
            found = json.loads(body)
            return [_entry(item) for item in found.get("items", ())], found.get("nextPageToken")

        return self._run(page, prefix)

    def delete(self, keys: list[str], seconds: float) -> dict[str, Failure]:
        [key] = keys
        try:
            self._run(lambda fs: _ask(fs, "DELETE", self._object(key), seconds), key)
        except Failure as failure:
            return {} if failure.fate is Fate.MISSING else {key: failure}
        return {}

    @property
    def _objects(self) -> str:
        return f"{_API}b/{_quoted(self._name)}/o"

    def _object(self, key: str) -> str:
        return f"{self._objects}/{_quoted(key)}"

    async def _get(self, fs: Any, key: str, limit: int, seconds: float, wanted: str | None = None) -> bytes:
        headers = {} if wanted is None else {"Range": wanted}
        # aiohttp raises an error if the body is shorter than its header says
        found, data = await _ask(fs, "GET", self._object(key), seconds, {"alt": "media"}, headers, key=key, limit=limit)
        stored = found.get("X-Goog-Stored-Content-Length")
        is_plain = found.get("X-Goog-Stored-Content-Encoding", "identity") == "identity"
        expected = int(stored) if stored and is_plain and wanted is None else None
        check_body(data, expected, wanted, found.get("Content-Range"))
        return data

    def _new_client(self) -> Any:
        return gcsfs.core.GCSFileSystem(**self._settings)

    async def _open_session(self, fs: Any) -> Any:
        # loads the client certificate, too; the only private member of gcsfs here, checked with version 2026.10.1
        return await fs._set_session()

    def _endpoint(self) -> str:
        fs = self._fs
        return "" if fs is None else str(fs.base.removesuffix(f"/{_API}"))

    def _answer(self, error: BaseException | None) -> Answer | None:
        return error.answer if isinstance(error, _Refused) else None


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
    url = URL(f"{fs.base.removesuffix(_API)}{path}", encoded=True)
    payer = fs.requester_pays if isinstance(fs.requester_pays, str) else fs.project
    signed = dict(headers or {})
    fs.credentials.apply(signed)
    async with (
        asyncio.timeout(seconds) as timeout,
        fs.session.request(
            method,
            url,
            params={**(params or {}), **({"userProject": payer} if fs.requester_pays else {})},
            headers=signed,
            data=None if data is None else io.BytesIO(data),
            timeout=fs.requests_timeout,
        ) as reply,
    ):
        timeout.reschedule((timeout.when() or 0.0) + size_seconds(reply.content_length or 0))
        body = await read_within(reply.content_length, reply.content.read, key, limit)
        if reply.status >= 300:
            raise _Refused(reply.status, body)
        return reply.headers, body


def _settings(options: Options, time_allowed: float) -> dict[str, Any]:
    """Return gcsfs's arguments: the user's options, with our defaults."""
    settings: dict[str, Any] = dict(options)
    check_options("gs", settings, [gcsfs.core.GCSFileSystem.__init__], {"timeout", "bucket"})
    endpoint = str(settings.get("endpoint_url") or os.environ.get("STORAGE_EMULATOR_HOST") or "")
    if endpoint and "googleapis.com" not in endpoint:
        settings.setdefault("token", "anon")
    if settings.get("endpoint_url"):
        settings["endpoint_url"] = str(settings["endpoint_url"]).rstrip("/")
    connect, read = timeouts(time_allowed)
    settings.setdefault("requests_timeout", aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read))
    return settings


def _entry(item: Mapping[str, Any]) -> FileInfo:
    updated = datetime.fromisoformat(item["updated"])
    return FileInfo(item["name"], int(item["size"]), round(updated.timestamp() * 1000))


def _quoted(part: str) -> str:
    return quote(part, safe="")
