"""Translate the exceptions of S3 clients.

The HTTP status has precedence. s3fs turns responses into OSErrors without it, and botocore's connection errors carry
less information than the aiohttp errors inside them.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
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
    InvalidOption,
    PathMissing,
    PathTaken,
    StorageDenied,
    StorageFailed,
    StorageFull,
)
from olympia_cli.storage.connections import shown, silence, unreachable, why
from olympia_cli.storage.settle import Failure, Fate

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
