"""Amazon S3 and compatible stores, through the client of s3fs.

s3fs provides credentials and session. Its file interface sends extra requests before a read. It also omits the
condition for an empty file, and hides which keys a bulk deletion failed to delete. So requests use its client directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import s3fs
from aiobotocore.httpsession import AIOHTTPSession  # type: ignore[import-untyped]
from botocore import exceptions as aws  # type: ignore[import-untyped]
from botocore.session import Session  # type: ignore[import-untyped]

from olympia_cli.errors import ExclusiveCreateUnsupported, StorageFailed
from olympia_cli.names import plural
from olympia_cli.storage.http_bucket import (
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
from olympia_cli.storage.protocol import TIME_ALLOWED, Between, FileInfo
from olympia_cli.storage.settle import Failure, Fate

PART_BYTES = 64 * 1024 * 1024
_CONNECTIONS = 64
_OURS = {"region", "bucket", "timeout"} | {"batch_size", "listings_expiry_time", "max_paths", "use_listings_cache"}
"""Valid options that are no parameters of s3fs: ours, and those of fsspec."""

_SERVICE = Service(
    scheme="s3",
    name="S3",
    credentials="AWS",
    credentials_hint="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or anon for a public bucket",
    credential_errors=(aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError),
    refused_statuses={301, 405, 411, 413, 414, 416, 501},
    refused_codes={"AuthorizationHeaderMalformed", "EntityTooLarge", "IllegalLocationConstraintException"}
    | {"InvalidArgument", "InvalidBucketName", "InvalidRequest", "InvalidURI", "KeyTooLongError", "MalformedXML"}
    | {"NotImplemented"},
    denied_codes={"AccessDenied", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"},
    # the upload of a completion with unknown outcome is gone, but the key may exist
    unclear_codes={"NoSuchUpload"},
    timeouts=(TimeoutError, aws.ReadTimeoutError, aws.ConnectTimeoutError),
    told_errors=(aws.BotoCoreError, TypeError, ValueError),
    place="the endpoint, the region",
    settings="the bucket, its region and the options",
)


class S3Store(ObjectStore):
    """A Store in an S3 bucket.

    `options` are those of s3fs, and `region` as a shorthand. Without keys, the SDK's default chain provides the
    credentials.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        options: Options | None = None,
        *,
        time_allowed: float = TIME_ALLOWED,
        part_bytes: int = PART_BYTES,
    ) -> None:
        settings = _settings(options or {}, time_allowed)
        super().__init__(_S3Bucket(bucket, settings, part_bytes), prefix, time_allowed=time_allowed)


class _SendOnce(AIOHTTPSession):  # type: ignore[misc]
    """Send each request once.

    aiohttp sends a PUT again when the connection drops, and then reports only the result of the second request. These
    are the only private members of a library here, checked with aiobotocore 3.10.0 and aiohttp 3.14.5.
    """

    async def _get_session(self, proxy_url: Any) -> Any:
        session = await super()._get_session(proxy_url)
        session._retry_connection = False
        return session


class _S3Bucket(HttpBucket):
    service = _SERVICE
    delete_batch = 1000

    def __init__(self, name: str, settings: Mapping[str, Any], part_bytes: int) -> None:
        super().__init__(name, settings)
        self._part_bytes = part_bytes

    def put(self, key: str, data: bytes, *, exclusive: bool, seconds: float) -> None:
        condition = {"IfNoneMatch": "*"} if exclusive else {}
        try:
            self._run(lambda fs: self._put(fs, key, data, condition), key, seconds)
        except Failure as failure:
            if exclusive and (answer := self._answer(failure.__cause__)) is not None and answer.status == 501:
                unsupported = ExclusiveCreateUnsupported(f"{self.uri} does not know conditional writes")
                raise Failure(Fate.REFUSED, unsupported) from failure.__cause__
            raise

    def head(self, key: str, seconds: float) -> FileInfo:
        async def head(fs: Any) -> FileInfo:
            found = await self._call(fs, "head_object", Key=key)
            return FileInfo(key, found["ContentLength"], _millis(found))

        return self._run(head, key, seconds)

    def page(self, prefix: str, token: str | None, between: Between, seconds: float) -> Page:
        begin = {"ContinuationToken": token} if token else {"StartAfter": between[0]} if between[0] else {}

        async def list_page(fs: Any) -> Page:
            page = await self._call(fs, "list_objects_v2", Prefix=prefix, **begin)
            entries = [FileInfo(found["Key"], found["Size"], _millis(found)) for found in page.get("Contents", ())]
            return entries, page["NextContinuationToken"] if page.get("IsTruncated") else None

        return self._run(list_page, prefix, seconds)

    def delete(self, keys: list[str], seconds: float) -> dict[str, Failure]:
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        where = plural(len(keys), "file")
        reply = self._run(lambda fs: self._call(fs, "delete_objects", Delete=wanted), where, seconds)
        failed = {}
        for error in reply.get("Errors", ()):
            if error.get("Code") not in ("NoSuchKey", "NoSuchVersion"):
                # these errors have a code but no status
                answer = Answer(500, error.get("Code", ""), error.get("Message", ""))
                failed[error["Key"]] = self._meaning(answer, f"{self.uri}/{error['Key']}")
        return failed

    async def _call(self, fs: Any, operation: str, **wanted: object) -> Any:
        """Send one request, with the parameters that the options of s3fs add to it."""
        client = await fs.get_s3(self._name)
        method = getattr(client, operation)
        shape = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[operation]).input_shape
        more = {key: value for key, value in (fs.s3_additional_kwargs | fs.req_kw).items() if key in shape.members}
        return await method(**{**more, "Bucket": self._name, **wanted})

    async def _get(self, fs: Any, key: str, limit: int, seconds: float, wanted: str | None = None) -> bytes:
        more = {} if wanted is None else {"Range": wanted}
        async with asyncio.timeout(seconds) as timeout:
            reply = await self._call(fs, "get_object", Key=key, **more)
            expected = reply.get("ContentLength")
            timeout.reschedule((timeout.when() or 0.0) + size_seconds(expected or 0))
            async with reply["Body"] as body:
                data = await read_within(expected, body.read, key, limit)
        check_body(data, expected, wanted, reply.get("ContentRange"))
        return data

    async def _put(self, fs: Any, key: str, data: bytes, condition: Mapping[str, str]) -> None:
        """Send the content, in parts if it is large. The condition is then on the completion, the only request that
        makes the file visible.
        """
        if len(data) <= self._part_bytes:
            await self._call(fs, "put_object", Key=key, Body=data, **condition)
            return
        target = {"Key": key, "UploadId": (await self._call(fs, "create_multipart_upload", Key=key))["UploadId"]}
        try:
            parts = []
            for number, start in enumerate(range(0, len(data), self._part_bytes), 1):
                part = data[start : start + self._part_bytes]
                sent = await self._call(fs, "upload_part", **target, PartNumber=number, Body=part)
                parts.append({"PartNumber": number, "ETag": sent["ETag"]})
            await self._call(fs, "complete_multipart_upload", **target, MultipartUpload={"Parts": parts}, **condition)
        except Exception as error:
            # unfinished parts cost money, so abort the upload, unless the completion may still succeed
            if (answer := self._answer(error)) is not None and answer.status < 500:
                await asyncio.gather(self._call(fs, "abort_multipart_upload", **target), return_exceptions=True)
            raise

    def _new_client(self) -> Any:
        return s3fs.S3FileSystem(**self._settings)

    async def _open_session(self, fs: Any) -> Any:
        return await fs.set_session()

    def _answer(self, error: BaseException | None) -> Answer | None:
        response = getattr(error, "response", None)
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
        if not isinstance(response, dict) or not isinstance(status, int):
            return None
        said = response.get("Error", {})
        return Answer(status, said.get("Code", ""), said.get("Message", ""))

    def _endpoint(self) -> str:
        # the endpoint may come from the environment or the SDK's own configuration
        client = self._session
        return str(client.meta.endpoint_url if client is not None else self._settings.get("endpoint_url") or "")

    def _refusal(self, error: Exception, where: str, endpoint: str) -> StorageFailed | None:
        if isinstance(error, aws.ParamValidationError):
            return StorageFailed(f"{where} is not a name that S3 takes", hint="")
        if isinstance(error, KeyError):
            said = f"{where}: the answer of {endpoint} does not say {error}"
            return StorageFailed(said, hint="check that the endpoint is S3's")
        return None


def _settings(options: Options, time_allowed: float) -> dict[str, Any]:
    """Return s3fs's arguments: the user's options, with our defaults."""
    settings: dict[str, Any] = dict(options)
    # s3fs passes options that it does not know to its session
    check_options("s3", settings, [s3fs.S3FileSystem.__init__, Session.__init__], _OURS)
    if isinstance(anon := settings.get("anon"), str):
        settings["anon"] = anon.lower() in ("1", "true", "yes")
    client = dict(settings.get("client_kwargs") or {})
    if region := settings.pop("region", None):
        client["region_name"] = region
    connect, read = timeouts(time_allowed)
    config = {
        "max_pool_connections": _CONNECTIONS,
        "connect_timeout": connect,
        "read_timeout": read,
        "http_session_cls": _SendOnce,
        **dict(settings.get("config_kwargs") or {}),
        "retries": {"total_max_attempts": 1},
    }
    return settings | {"client_kwargs": client, "config_kwargs": config}


def _millis(found: Mapping[str, Any]) -> int:
    return round(float(found["LastModified"].timestamp()) * 1000)
