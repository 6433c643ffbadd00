"""A small S3 server that honours conditions to the letter, or on demand ignores them all.

One loop serves every request and nothing is awaited between checking a condition and storing the object, so
creation is exclusive. Path-style addresses, no signatures checked.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from urllib.parse import quote, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web

from tests.helpers.servers.running import Server, body_of

_PAGE = 1000
_LONGEST_KEY = 1024


@dataclass
class StoredObject:
    data: bytes
    modified: float = field(default_factory=time.time)

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data).hexdigest()}"'


class StrictS3(Server):
    """`requests` counts operations by name: PUT, GET, HEAD, LIST, DELETE, DELETE-MANY, MPU-CREATE, MPU-PART,
    MPU-COMPLETE, MPU-ABORT. `ignore_conditions` makes it a server that silently overwrites,
    `refuse_conditions` one that answers 501 to them. The access key `nobody` may do nothing, `reader` may not write;
    `kept` are keys that a bulk deletion may not delete.
    """

    def __init__(
        self, *, latency: float = 0.0, ignore_conditions: bool = False, refuse_conditions: bool = False
    ) -> None:
        super().__init__()
        self.latency = latency
        self.ignore_conditions = ignore_conditions
        self.refuse_conditions = refuse_conditions
        self.buckets: dict[str, dict[str, StoredObject]] = {}
        self.kept: set[str] = set()
        self.requests: Counter[str] = Counter()
        self.uploads: dict[str, tuple[str, str, dict[int, bytes]]] = {}

    def create_bucket(self, name: str) -> str:
        self.buckets.setdefault(name, {})
        return name

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await body_of(request)
        if "x-amz-decoded-content-length" in request.headers:
            body = _unchunked(body)
        if self.latency:
            await asyncio.sleep(self.latency)
        bucket, _, key = unquote(request.rel_url.raw_path).lstrip("/").partition("/")
        operation = _operation(request, key)
        self.requests[operation] += 1
        who = request.headers.get("Authorization", "")
        if "Credential=nobody/" in who or ("Credential=reader/" in who and operation not in ("GET", "HEAD", "LIST")):
            return _error(403, "AccessDenied", "Access Denied", request)
        if bucket not in self.buckets:
            return _error(404, "NoSuchBucket", "The specified bucket does not exist", request)
        if len(key.encode()) > _LONGEST_KEY:
            return _error(400, "KeyTooLongError", "Your key is too long", request)
        conditional = request.headers.get("If-None-Match") == "*"
        if conditional and self.refuse_conditions:
            return _error(501, "NotImplemented", "A header you provided is not implemented", request)
        objects = self.buckets[bucket]
        match operation:
            case "PUT":
                return self._store(objects, key, body, request)
            case "GET" | "HEAD":
                return _read(objects, key, request)
            case "LIST":
                return _listing(bucket, objects, request)
            case "DELETE":
                objects.pop(key, None)
                return web.Response(status=204)
            case "DELETE-MANY":
                return self._delete_many(objects, body)
            case _:
                return self._multipart(operation, bucket, key, body, request)

    def _store(self, objects: dict[str, StoredObject], key: str, data: bytes, request: web.BaseRequest) -> web.Response:
        if self._taken(objects, key, request):
            return _taken(request)
        objects[key] = StoredObject(data)
        return web.Response(headers={"ETag": objects[key].etag})

    def _taken(self, objects: dict[str, StoredObject], key: str, request: web.BaseRequest) -> bool:
        return request.headers.get("If-None-Match") == "*" and key in objects and not self.ignore_conditions

    def _delete_many(self, objects: dict[str, StoredObject], body: bytes) -> web.Response:
        root = ElementTree.fromstring(body)
        space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
        keys = [found.findtext(f"{space}Key") or "" for found in root.iter(f"{space}Object")]
        if len(keys) > _PAGE:
            return web.Response(status=400, body=b"<Error><Code>MalformedXML</Code></Error>")
        errors = ""
        for key in keys:
            if key in self.kept:
                errors += (
                    f"<Error><Key>{escape(key)}</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
                )
            else:
                objects.pop(key, None)
        return _xml(f"<DeleteResult>{errors}</DeleteResult>")

    def _multipart(self, operation: str, bucket: str, key: str, body: bytes, request: web.BaseRequest) -> web.Response:
        if operation == "MPU-CREATE":
            upload = f"upload-{len(self.uploads) + 1}-{self.requests['MPU-CREATE']}"
            self.uploads[upload] = (bucket, key, {})
            return _xml(
                f"<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>"
                f"<UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            )
        upload = request.query.get("uploadId", "")
        if upload not in self.uploads:
            return _error(404, "NoSuchUpload", "The specified upload does not exist", request)
        parts = self.uploads[upload][2]
        if operation == "MPU-PART":
            parts[int(request.query["partNumber"])] = body
            return web.Response(headers={"ETag": StoredObject(body).etag})
        if operation == "MPU-ABORT":
            del self.uploads[upload]
            return web.Response(status=204)
        objects = self.buckets[bucket]
        if self._taken(objects, key, request):
            return _taken(request)
        del self.uploads[upload]
        objects[key] = StoredObject(b"".join(parts[number] for number in sorted(parts)))
        return _xml(
            f"<CompleteMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>"
            f"<ETag>{escape(objects[key].etag)}</ETag></CompleteMultipartUploadResult>"
        )


def _unchunked(body: bytes) -> bytes:
    """Return the data of a chunked body, as the SDK for Java sends it.

    Before each chunk stands its size, and perhaps a signature. The text after the last, empty chunk is ignored.
    """
    parts, at = [], 0
    while True:
        head, _, _ = body[at:].partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            return b"".join(parts)
        at += len(head) + 2
        parts.append(body[at : at + size])
        at += size + 2


def _operation(request: web.BaseRequest, key: str) -> str:
    query, method = request.query, request.method
    if method == "POST":
        if "delete" in query:
            return "DELETE-MANY"
        return "MPU-CREATE" if "uploads" in query else "MPU-COMPLETE"
    if "uploadId" in query:
        return "MPU-PART" if method == "PUT" else "MPU-ABORT"
    return "LIST" if method == "GET" and not key else method


def _read(objects: dict[str, StoredObject], key: str, request: web.BaseRequest) -> web.Response:
    found = objects.get(key)
    if found is None:
        return _error(404, "NoSuchKey", "The specified key does not exist.", request)
    headers = {
        "ETag": found.etag,
        "Last-Modified": formatdate(found.modified, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    if request.method == "HEAD":
        return web.Response(headers=headers | {"Content-Length": str(len(found.data))})
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
    if not wanted:
        return web.Response(body=found.data, headers=headers, content_type="application/octet-stream")
    start, end = int(wanted[1]), min(int(wanted[2] or len(found.data)) + 1, len(found.data))
    if start >= len(found.data):
        return _error(416, "InvalidRange", "The requested range is not satisfiable", request)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(found.data)}"
    return web.Response(
        status=206, body=found.data[start:end], headers=headers, content_type="application/octet-stream"
    )


def _listing(bucket: str, objects: dict[str, StoredObject], request: web.BaseRequest) -> web.Response:
    prefix = request.query.get("prefix", "")
    after = request.query.get("continuation-token", request.query.get("start-after", ""))
    size = min(int(request.query.get("max-keys", _PAGE)), _PAGE)
    keys = sorted(key for key in objects if key.startswith(prefix) and key > after)
    page = keys[:size]
    shown = quote if request.query.get("encoding-type") == "url" else escape
    contents = "".join(
        f"<Contents><Key>{shown(key)}</Key><Size>{len(objects[key].data)}</Size>"
        f"<LastModified>{_iso(objects[key].modified)}</LastModified></Contents>"
        for key in page
    )
    more = len(keys) > size
    token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
    return _xml(
        f"<ListBucketResult><Name>{bucket}</Name><Prefix>{shown(prefix)}</Prefix>"
        f"<KeyCount>{len(page)}</KeyCount><EncodingType>url</EncodingType>"
        f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{contents}</ListBucketResult>"
    )


def _taken(request: web.BaseRequest) -> web.Response:
    extra = "<Condition>If-None-Match</Condition>"
    return _error(412, "PreconditionFailed", "At least one condition did not hold", request, extra)


def _error(status: int, code: str, message: str, request: web.BaseRequest, extra: str = "") -> web.Response:
    if request.method == "HEAD":
        return web.Response(status=status)
    return _xml(f"<Error><Code>{code}</Code><Message>{message}</Message>{extra}</Error>", status)


def _xml(text: str, status: int = 200) -> web.Response:
    body = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
    return web.Response(status=status, body=body, content_type="application/xml")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
