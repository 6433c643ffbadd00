"""A small Cloud Storage server (JSON API) that honours generations to the letter, or on demand ignores them.

One loop serves every request and nothing is awaited between checking a condition and storing the object, so
creation is exclusive. No credentials are checked.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import unquote

from aiohttp import web

from tests.helpers.servers.running import Server, body_of

_PAGE = 1000


@dataclass
class StoredObject:
    data: bytes
    generation: int
    modified: float = field(default_factory=time.time)


@dataclass
class Upload:
    bucket: str
    key: str
    condition: str | None
    data: bytes = b""


class SmallGcs(Server):
    """`requests` counts operations by name: UPLOAD, RESUMABLE, CHUNK, GET, META, LIST, DELETE.
    `ignore_conditions` makes it a server that silently overwrites; the token `nobody` may do nothing.
    """

    def __init__(self, *, latency: float = 0.0, ignore_conditions: bool = False) -> None:
        super().__init__()
        self.latency = latency
        self.ignore_conditions = ignore_conditions
        self.buckets: dict[str, dict[str, StoredObject]] = {}
        self.uploads: dict[str, Upload] = {}
        self.requests: Counter[str] = Counter()
        self._generation = 1_000_000

    def create_bucket(self, name: str) -> str:
        self.buckets.setdefault(name, {})
        return name

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await body_of(request)
        if self.latency:
            await asyncio.sleep(self.latency)
        path = request.rel_url.raw_path
        found = re.fullmatch(r"/(upload/|download/)?storage/v1/b/([^/]+)/o(?:/(.*))?", path)
        if not found:
            return _error(404, "notFound", "Not Found")
        kind, bucket, key = found[1] or "", unquote(found[2]), unquote(found[3] or "")
        operation = _operation(kind, key, request)
        self.requests[operation] += 1
        if request.headers.get("Authorization", "") == "Bearer nobody":
            return _error(403, "forbidden", "nobody does not have access to the bucket.")
        if bucket not in self.buckets:
            return _error(404, "notFound", "The specified bucket does not exist.")
        objects = self.buckets[bucket]
        match operation:
            case "UPLOAD":
                return self._upload(bucket, body, request)
            case "RESUMABLE":
                return self._begin(bucket, body, request)
            case "CHUNK":
                return self._chunk(body, request)
            case "LIST":
                return _listing(bucket, objects, request)
        if key not in objects:
            return _error(404, "notFound", f"No such object: {bucket}/{key}")
        if operation == "DELETE":
            del objects[key]
            return web.Response(status=204)
        if operation == "META":
            return _json(_shown(bucket, key, objects[key]))
        return _media(objects[key], request)

    def _upload(self, bucket: str, body: bytes, request: web.BaseRequest) -> web.Response:
        key, data = request.query.get("name", ""), body
        if request.query.get("uploadType") == "multipart":
            boundary = re.search(r'boundary="?([^";]+)"?', request.headers["Content-Type"])
            assert boundary is not None
            mark = b"--" + boundary[1].encode()
            about, content = body.split(mark)[1], body.split(mark, 2)[2].rpartition(b"\n" + mark)[0]
            key = json.loads(re.split(rb"\r?\n\r?\n", about, maxsplit=1)[1])["name"]
            data = re.split(rb"\r?\n\r?\n", content, maxsplit=1)[1]
        return self._store(bucket, key, data, request.query.get("ifGenerationMatch"))

    def _begin(self, bucket: str, body: bytes, request: web.BaseRequest) -> web.Response:
        key = request.query.get("name") or json.loads(body or b"{}")["name"]
        number = f"upload{self.requests['RESUMABLE']}"
        self.uploads[number] = Upload(bucket, key, request.query.get("ifGenerationMatch"))
        place = f"{self.url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={number}"
        return web.Response(headers={"Location": place})

    def _chunk(self, body: bytes, request: web.BaseRequest) -> web.Response:
        upload = self.uploads.get(request.query["upload_id"])
        if upload is None:
            return _error(410, "gone", "no such upload")
        if request.method == "DELETE":
            del self.uploads[request.query["upload_id"]]
            return web.Response(status=499)
        span = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", request.headers.get("Content-Range", ""))
        if span:
            upload.data = upload.data[: int(span[1])] + body
            if span[3] == "*" or len(upload.data) < int(span[3]):
                return web.Response(status=308, headers={"Range": f"bytes=0-{len(upload.data) - 1}"})
        else:
            upload.data = body
        del self.uploads[request.query["upload_id"]]
        return self._store(upload.bucket, upload.key, upload.data, upload.condition)

    def _store(self, bucket: str, key: str, data: bytes, condition: str | None) -> web.Response:
        objects = self.buckets[bucket]
        current = objects[key].generation if key in objects else 0
        if condition is not None and int(condition) != current and not self.ignore_conditions:
            return _error(412, "conditionNotMet", "At least one condition did not hold.")
        self._generation += 1
        objects[key] = StoredObject(data, self._generation)
        return _json(_shown(bucket, key, objects[key]))


def _operation(kind: str, key: str, request: web.BaseRequest) -> str:
    if kind == "upload/":
        if "upload_id" in request.query:
            return "CHUNK"
        return "RESUMABLE" if request.query.get("uploadType") == "resumable" else "UPLOAD"
    if request.method == "DELETE":
        return "DELETE"
    if not key:
        return "LIST"
    return "GET" if request.query.get("alt") == "media" else "META"


def _media(found: StoredObject, request: web.BaseRequest) -> web.Response:
    headers = {
        "X-Goog-Generation": str(found.generation),
        "X-Goog-Stored-Content-Length": str(len(found.data)),
        "X-Goog-Stored-Content-Encoding": "identity",
    }
    kind = "application/octet-stream"
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
    if not wanted:
        return web.Response(body=found.data, headers=headers, content_type=kind)
    start, end = int(wanted[1]), min(int(wanted[2] or len(found.data)) + 1, len(found.data))
    if start >= len(found.data):
        return _error(416, "requestedRangeNotSatisfiable", "Request range not satisfiable")
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(found.data)}"
    return web.Response(status=206, body=found.data[start:end], headers=headers, content_type=kind)


def _listing(bucket: str, objects: dict[str, StoredObject], request: web.BaseRequest) -> web.Response:
    prefix, after = request.query.get("prefix", ""), request.query.get("pageToken", "")
    size = min(int(request.query.get("maxResults", _PAGE)), _PAGE)
    start, end = request.query.get("startOffset", ""), request.query.get("endOffset")
    keys = sorted(key for key in objects if key.startswith(prefix) and key > after and key >= start)
    keys = keys if end is None else [key for key in keys if key < end]
    page: dict[str, object] = {"kind": "storage#objects"}
    if keys:
        page["items"] = [_shown(bucket, key, objects[key]) for key in keys[:size]]
    if len(keys) > size:
        page["nextPageToken"] = keys[size - 1]
    return _json(page)


def _shown(bucket: str, key: str, found: StoredObject) -> dict[str, str]:
    moment = datetime.fromtimestamp(found.modified, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return {
        "kind": "storage#object",
        "bucket": bucket,
        "name": key,
        "size": str(len(found.data)),
        "generation": str(found.generation),
        "metageneration": "1",
        "timeCreated": moment,
        "updated": moment,
    }


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=json.dumps(value).encode(), content_type="application/json")


def _error(status: int, reason: str, message: str) -> web.Response:
    errors = [{"domain": "global", "reason": reason, "message": message}]
    return _json({"error": {"code": status, "message": message, "errors": errors}}, status)
