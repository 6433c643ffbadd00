"""Amazon S3 and compatible stores, through s3fs.

Requests use s3fs's client directly. Its file interface sends extra requests before a read. It also omits the condition
for an empty file, and hides which keys a bulk deletion failed to delete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import botocore.session  # type: ignore[import-untyped]
import s3fs
from aiobotocore.httpsession import AIOHTTPSession  # type: ignore[import-untyped]
from botocore.exceptions import (  # type: ignore[import-untyped]
    BotoCoreError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ReadTimeoutError,
)

from olympia_cli.errors import (
    ExclusiveCreateUnsupported,
    InvalidOption,
    PathMissing,
    PathTaken,
    StorageDenied,
    StorageFailed,
    StorageFull,
)
from olympia_cli.names import plural
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
from olympia_cli.storage.protocol import TIME_ALLOWED, Between
from olympia_cli.storage.settle import Failure, Fate

# Translate the exceptions of S3 clients.
#
# The HTTP status has precedence. s3fs turns responses into OSErrors without it, and botocore's connection errors carry
# less information than the aiohttp errors inside them.

_DENIED_CODES = {"AccessDenied", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"}
# permanent errors; the outcome of a request with any other error status is unknown
_REFUSED_STATUSES = {301, 405, 411, 413, 414, 416, 501}
_REFUSED_CODES = {
    "AuthorizationHeaderMalformed",
    "EntityTooLarge",
    "IllegalLocationConstraintException",
    "InvalidArgument",
    "InvalidBucketName",
    "InvalidRequest",
    "InvalidURI",
    "KeyTooLongError",
    "MalformedXML",
    "NotImplemented",
}


def explain(error: Exception, bucket: str, key: str, endpoint: str, ready: bool) -> Failure:
    """Translate an exception. `ready` is False if the client's set-up failed, so no request was sent."""
    origin = cause(error)
    where, endpoint = f"s3://{bucket}/{key}", shown(endpoint, "S3")
    if (answered := status(origin)) is not None:
        answer = getattr(origin, "response", {}).get("Error", {})
        return _meaning(answered, answer.get("Code", ""), answer.get("Message", ""), where, bucket)
    if isinstance(origin, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        hint = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or anon for a public bucket"
        return Failure(Fate.REFUSED, StorageDenied(f"no usable AWS credentials for s3://{bucket}", hint=hint))
    # botocore uses the same classes for connections that were never established and for those that broke
    inside = getattr(origin, "kwargs", {}).get("error") or origin
    if isinstance(inside, aiohttp.ClientConnectorError):
        return unreachable(inside.os_error, endpoint, where, "check the endpoint, the region and the network")
    if isinstance(origin, TimeoutError | ReadTimeoutError | ConnectTimeoutError):
        return silence(endpoint, where)
    if isinstance(origin, ParamValidationError):
        return Failure(Fate.REFUSED, StorageFailed(f"{where} is not a name that S3 takes", hint=""))
    if isinstance(origin, KeyError) and ready:
        said = f"{where}: the answer of {endpoint} does not say {origin}"
        return Failure(Fate.REFUSED, StorageFailed(said, hint="check that the endpoint is S3's"))
    if not ready:
        said = str(origin) if isinstance(origin, BotoCoreError | TypeError | ValueError) else ""
        return Failure(Fate.REFUSED, InvalidOption(f"cannot open s3://{bucket}: {said or type(origin).__name__}"))
    return Failure(Fate.UNCLEAR, StorageFailed(f"{where}: the connection to {endpoint} failed: {why(inside)}"))


def explain_listed(error: Mapping[str, str], bucket: str) -> Failure:
    """Translate an entry of the response to a bulk deletion, which has a code but no status."""
    where = f"s3://{bucket}/{error['Key']}"
    return _meaning(500, error.get("Code", ""), error.get("Message", ""), where, bucket)


def cause(error: BaseException) -> BaseException:
    """Return the client's own exception. s3fs wraps it in an OSError."""
    inner = error.__cause__
    return inner if inner is not None and hasattr(inner, "response") else error


def status(error: BaseException | None) -> int | None:
    """Return the HTTP status of the response inside an exception, or None if there was no response."""
    response = getattr(cause(error), "response", None) if error is not None else None
    if not isinstance(response, dict):
        return None
    found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return found if isinstance(found, int) else None


def _meaning(answered: int, code: str, message: str, where: str, bucket: str) -> Failure:
    detail = " ".join(part for part in (str(answered), code if code != str(answered) else "") if part)
    said = f"{where}: {message.rstrip('.') or 'refused'} ({detail})"
    if code == "NoSuchBucket":
        hint = "create the bucket, or check its name and the endpoint"
        return Failure(Fate.REFUSED, StorageFailed(f"there is no bucket {bucket}", hint=hint))
    if answered in (401, 403) or code in _DENIED_CODES:
        return Failure(Fate.REFUSED, StorageDenied(said))
    # NoSuchUpload: the upload of a completion with unknown outcome is gone, but the key may exist
    if answered == 404 and code != "NoSuchUpload":
        return Failure(Fate.MISSING, PathMissing(f"no file {where}"))
    if answered == 507:
        return Failure(Fate.REFUSED, StorageFull(said))
    if answered in _REFUSED_STATUSES or code in _REFUSED_CODES:
        hint = "check the bucket, its region and the options"
        return Failure(Fate.REFUSED, StorageFailed(said, hint=hint))
    if answered == 412:
        return Failure(Fate.UNCLEAR, PathTaken(f"{where} is taken"))
    return Failure(Fate.UNCLEAR, StorageFailed(said))


PART_BYTES = 64 * 1024 * 1024
_CONNECTIONS = 64
_OURS = {"region", "bucket", "timeout"} | {"batch_size", "listings_expiry_time", "max_paths", "use_listings_cache"}
"""Valid options that are no parameters of s3fs: ours, and those of fsspec."""


class S3Store(ObjectStore):
    """A Store in an S3 bucket.

    `options` are those of s3fs, and `region` as a shorthand. Without keys, the SDK's default chain provides the
    credentials.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        options: Mapping[str, object] | None = None,
        *,
        time_allowed: float = TIME_ALLOWED,
        part_bytes: int = PART_BYTES,
    ) -> None:
        settings = _settings(options or {}, time_allowed)
        super().__init__(_S3Bucket(bucket, settings, part_bytes), prefix, time_allowed=time_allowed)


class _SendOnce(AIOHTTPSession):  # type: ignore[misc]
    """Send each request once.

    aiohttp sends a PUT again when the connection drops, and then reports only the result of the second request.
    """

    async def _get_session(self, proxy_url: Any) -> Any:
        session = await super()._get_session(proxy_url)
        session._retry_connection = False
        return session


class _S3Bucket(Bucket):
    delete_batch = 1000

    def __init__(self, name: str, settings: Mapping[str, Any], part_bytes: int) -> None:
        super().__init__(name, settings)
        self._part_bytes = part_bytes

    @property
    def uri(self) -> str:
        return f"s3://{self._name}"

    def put(self, key: str, data: bytes, *, exclusive: bool, seconds: float) -> None:
        condition = {"IfNoneMatch": "*"} if exclusive else {}
        put = self._put if len(data) <= self._part_bytes else self._put_parts
        try:
            self._run(lambda fs: put(fs, key, data, condition), key, seconds)
        except Failure as failure:
            if exclusive and status(failure.__cause__) == 501:
                unsupported = ExclusiveCreateUnsupported(f"{self.uri} does not know conditional writes")
                raise Failure(Fate.REFUSED, unsupported) from failure.__cause__
            raise

    def head(self, key: str, seconds: float) -> Entry:
        async def head(fs: Any) -> Entry:
            found = await fs._call_s3("head_object", Bucket=self._name, Key=key)
            return Entry(key, found["ContentLength"], _millis(found))

        return self._run(head, key, seconds)

    def page(self, prefix: str, token: str | None, between: Between, seconds: float) -> tuple[list[Entry], str | None]:
        begin = {"ContinuationToken": token} if token else {"StartAfter": between[0]} if between[0] else {}
        wanted = {"Bucket": self._name, "Prefix": prefix, **begin}

        async def list_page(fs: Any) -> tuple[list[Entry], str | None]:
            page = await fs._call_s3("list_objects_v2", **wanted)
            entries = [Entry(found["Key"], found["Size"], _millis(found)) for found in page.get("Contents", ())]
            return entries, page["NextContinuationToken"] if page.get("IsTruncated") else None

        return self._run(list_page, prefix, seconds)

    def delete(self, keys: list[str], seconds: float) -> dict[str, Failure]:
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        reply = self._run(
            lambda fs: fs._call_s3("delete_objects", Bucket=self._name, Delete=wanted),
            plural(len(keys), "file"),
            seconds,
        )
        return {
            error["Key"]: explain_listed(error, self._name)
            for error in reply.get("Errors", ())
            if error.get("Code") not in ("NoSuchKey", "NoSuchVersion")
        }

    async def _get(self, fs: Any, key: str, limit: int, seconds: float, wanted: str | None = None) -> bytes:
        more = {} if wanted is None else {"Range": wanted}
        async with asyncio.timeout(seconds) as timeout:
            reply = await fs._call_s3("get_object", Bucket=self._name, Key=key, **more)
            expected = reply.get("ContentLength")
            timeout.reschedule((timeout.when() or 0.0) + size_seconds(expected or 0))
            async with reply["Body"] as body:
                data = await read_within(expected, body.read, key, limit)
        if expected is not None and len(data) != expected:
            raise aiohttp.ClientPayloadError(f"received {len(data)} of {expected} bytes")
        if more and "ContentRange" not in reply:
            raise aiohttp.ClientPayloadError("the server ignored the range and sent the whole file")
        return data

    async def _put(self, fs: Any, key: str, data: bytes, condition: Mapping[str, str]) -> None:
        await fs._call_s3("put_object", Bucket=self._name, Key=key, Body=data, **condition)

    async def _put_parts(self, fs: Any, key: str, data: bytes, condition: Mapping[str, str]) -> None:
        """Upload in parts. The condition is on the completion, the only request that makes the file visible."""
        target = {"Bucket": self._name, "Key": key}
        target["UploadId"] = (await fs._call_s3("create_multipart_upload", **target))["UploadId"]
        try:
            parts = []
            for number, start in enumerate(range(0, len(data), self._part_bytes), 1):
                part = data[start : start + self._part_bytes]
                sent = await fs._call_s3("upload_part", **target, PartNumber=number, Body=part)
                parts.append({"PartNumber": number, "ETag": sent["ETag"]})
            await fs._call_s3("complete_multipart_upload", **target, MultipartUpload={"Parts": parts}, **condition)
        except Exception as error:
            # unfinished parts cost money, so abort the upload, unless the completion may still succeed
            if (status(error) or 500) < 500:
                await asyncio.gather(fs._call_s3("abort_multipart_upload", **target), return_exceptions=True)
            raise

    async def _make_ready(self, fs: Any) -> None:
        await fs.set_session()

    def _session(self, fs: Any) -> Any:
        return fs._s3

    def _status(self, error: BaseException | None) -> int | None:
        return status(error)

    def _explain(self, error: Exception, key: str, ready: bool) -> Failure:
        return explain(error, self._name, key, self._endpoint(), ready)

    def _cause(self, error: Exception, ready: bool) -> BaseException | None:
        return cause(error)

    def _endpoint(self) -> str:
        """Return the endpoint in use, which may come from the environment or the SDK's own configuration."""
        fs = self._fs  # may be None: another thread may close the store
        client = fs._s3 if fs is not None else None
        return str(client.meta.endpoint_url if client is not None else self._settings.get("endpoint_url") or "")

    def _new_client(self) -> Any:
        fs = s3fs.S3FileSystem(**self._settings)
        fs.retries = 1
        return fs


def _settings(options: Mapping[str, object], time_allowed: float) -> dict[str, Any]:
    """Return s3fs's arguments: the user's options, with our defaults."""
    settings: dict[str, Any] = dict(options)
    # s3fs passes options that it does not know to its session
    check_options("s3", settings, [s3fs.S3FileSystem.__init__, botocore.session.Session.__init__], _OURS)
    if isinstance(anon := settings.get("anon"), str):
        settings["anon"] = anon.lower() in ("1", "true", "yes")
    client = dict(settings.get("client_kwargs") or {})
    if region := settings.pop("region", None):
        client["region_name"] = region
    config = {
        "max_pool_connections": _CONNECTIONS,
        "connect_timeout": min(5.0, time_allowed),
        "read_timeout": min(15.0, time_allowed / 2),
        "http_session_cls": _SendOnce,
        **dict(settings.get("config_kwargs") or {}),
        "retries": {"total_max_attempts": 1},
    }
    settings |= {"client_kwargs": client, "config_kwargs": config}
    # fsspec's caches outlive the store and miss what other programs write
    return settings | {"use_listings_cache": False, "skip_instance_cache": True}


def _millis(found: Mapping[str, Any]) -> int:
    return round(float(found["LastModified"].timestamp()) * 1000)
