"""URIs are shown without the secrets that they carry, in every spelling; what carries none is shown as it is."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olympia_cli.errors import InvalidLocation, OlympiaError, quoted
from olympia_cli.masking import MARKS, carries_secret, masked

SECRET = "S3KRET"

SECRETIVE = {
    "s3://AKIA:S3KRET@lake/x": "s3://***@lake/x",
    "S3://AKIA:S3KRET@lake": "S3://***@lake",
    "s3a://AKIA:S3KRET@lake/x": "s3a://***@lake/x",
    "gs://AKIA:S3KRET@lake/x": "gs://***@lake/x",
    "memory://AKIA:S3KRET@lake/x": "memory://***@lake/x",
    "file://ann:S3KRET@host/x": "file://***@host/x",
    "https://ann:S3KRET@host:80/x": "https://***@host:80/x",
    "https://ann:S3KRET@[::1]:80/x": "https://***@[::1]:80/x",
    "any+thing://ann:S3KRET@host/x": "any+thing://***@host/x",
    "jdbc:postgresql://ann:S3KRET@host/db?password=S3KRET": "jdbc:postgresql://***@host/db?password=***",
    "k8s://https://ann:S3KRET@host:443": "k8s://https://***@host:443",
    # without a user, without a password
    "s3://:S3KRET@lake/x": "s3://***@lake/x",
    "https://S3KRET@host/x": "https://***@host/x",
    # the secret keys of AWS hold slashes, and passwords anything
    "s3://AKIA:ab/S3KRET+x=@lake/x": "s3://***@lake/x",
    "s3://AKIA:ab@S3KRET@lake/x": "s3://***@lake/x",
    "s3://AKIA:ab@S3/S3KRET@lake/x": "s3://***@lake/x",
    "s3://AKIA:12/S3KRET@lake/x": "s3://***@lake/x",
    "s3://AKIA:/S3KRET@lake/x": "s3://***@lake/x",
    "https://ann:a?S3KRET#b@host/x": "https://***@host/x",
    "s3://AKIA:ab'S3KRET@lake/x": "s3://***@lake/x",
    # percent-encoded
    "s3://AKIA%3AS3KRET%40lake/x": "s3://***@lake/x",
    "s3://AKIA%3aS3KRET@lake/x": "s3://***@lake/x",
    # cut, or not to the end
    "s3://AKIA:S3KRET": "s3://***",
    "s3://AKIA:ab/S3KRET": "s3://***",
    "s3://AKIA%3AS3KRET": "s3://***",
    # a slash too few, or no scheme
    "s3:/AKIA:S3KRET@lake/x": "s3:/***@lake/x",
    "s3:AKIA:S3KRET@lake/x": "s3:***@lake/x",
    "://AKIA:S3KRET@lake/x": "://***@lake/x",
    "//AKIA:S3KRET@lake/x": "//***@lake/x",
    # Azure has the name of a container there, and may have more
    "abfss://c:S3KRET@account.dfs.core.windows.net/x": "abfss://***@account.dfs.core.windows.net/x",
    # parameters
    "s3://lake/x?X-Amz-Signature=S3KRET&X-Amz-Date=1": "s3://lake/x?X-Amz-Signature=***&X-Amz-Date=***",
    "https://a.blob.core.windows.net/c?sv=1&sig=ab%2FS3KRET%3D": "https://a.blob.core.windows.net/c?sv=***&sig=***",
    "https://host/x?a=1#access_token=S3KRET": "https://host/x?a=***#access_token=***",
    "file:///lake/x?token=S3KRET": "file:///lake/x?token=***",
    "sc://host:15002/;token=ab/S3KRET;use_ssl=true": "sc://host:15002/;token=***;use_ssl=***",
    "sc://host:15002;token=S3KRET": "sc://host:15002;token=***",
    "jdbc:sqlserver://host:1;user=ann;password=S3KRET": "jdbc:sqlserver://host:1;user=***;password=***",
}
BARE = {"https://host/x?S3KRET": "https://host/x?***", "s3://lake/x#S3KRET": "s3://lake/x#***"}
HARMLESS = [
    "/lake/x",
    "./day:1@noon/x",
    "C:\\lake",
    "s3://lake/x",
    "s3://lake/a@b",
    "s3://lake/a:b@c/d",
    "s3://lake/day=1;hour=2/x",
    "hdfs://namenode:8020/user/ann@host",
    "spark://one:7077,two:7077",
    "http://[::1]:8080/x",
    "k8s://https://host:443",
    "abfss://container@account.dfs.core.windows.net/x",
    "file:///home/ann/c#/what?/x",
    "file:/home/ann/c#/x",
    "memory://x",
    "arn:aws:s3:::lake/x",
    "ann@laptop at 12:30:00",
    "use local[*], spark://host:port, yarn or k8s://https://host:port",
    "a folder, or file://, s3://, gs:// or memory://",
    "write s3://bucket/prefix; credentials and endpoints are options",
    "no file s3://lake/x: check the location",
    "cannot reach http://127.0.0.1:9 for s3://lake/x: connection refused",
]


@pytest.mark.parametrize(("uri", "shown"), {**SECRETIVE, **BARE}.items())
def test_secrets_of_a_uri_are_masked(uri, shown):
    assert masked(uri) == shown
    assert masked(shown) == shown
    inside = ["no file {}: check it", "'{}'", '{{"uri": "{}", "by": "ann@host"}}', "--catalog={}", "({})"]
    # where nothing else does, the beginning of a word says that it is one
    inside += ["-c{}"] if "://" in uri else []
    for text in inside if "'" not in uri else ():
        assert masked(text.format(uri)) == text.format(shown)


@pytest.mark.parametrize("text", HARMLESS)
def test_text_without_secrets_is_shown_unchanged(text):
    assert masked(text) == text
    assert not carries_secret(text)


def test_secrets_in_bucket_names_of_sdk_messages_are_masked():
    """SDKs repeat a part of the location that is no URI."""
    assert (
        masked('Invalid bucket name "AKIA:S3KRET": Bucket name must') == 'Invalid bucket name "***": Bucket name must'
    )
    assert masked("Invalid bucket name: 'S3KRET@lake'") == "Invalid bucket name: '***'"
    assert masked("key 'x' in bucket 'AKIA:S3KRET': AWS") == "key 'x' in bucket '***': AWS"
    for text in (
        'no bucket "lake": create it',
        'Invalid bucket name "arn:aws:s3:::lake:x"',
        "write bucket 'a', or 'b@c'",
    ):
        assert masked(text) == text


def test_secrets_in_a_uri_are_recognized():
    """A bare `?` or `#` is hidden, but may be part of a key, so that a location with one is taken."""
    assert all(carries_secret(uri) for uri in SECRETIVE)
    assert not any(carries_secret(uri) for uri in BARE)


def test_any_password_in_any_place():
    draw = random.Random(17)
    alphabet = "abAB01+/=@:?#%&;,.~!$*()[]{}|\\^-_\u00e4\u2603"
    for _ in range(20_000):
        scheme = draw.choice(["s3", "gs", "https", "sc", "x-y.z+1", "postgresql"])
        words = [SECRET, *("".join(draw.choices(alphabet, k=draw.randint(0, 6))) for _ in range(2))]
        draw.shuffle(words)
        password = "".join(words)
        if scheme not in ("s3", "gs") and re.match("[0-9]+(,[^:@]*)?[/?#;]", password):
            continue  # reads as the port of a host, and a path with an @ in it
        user = draw.choice(["ann", "", "AKIA0"])
        uri = f"{scheme}://{user}:{password}@host/{draw.choice(['', 'x', 'a/b'])}"
        assert SECRET not in masked(uri), uri
        assert SECRET not in masked(f"no file {uri}: check it"), uri
        assert masked(masked(uri)) == masked(uri), uri


def test_a_long_text_takes_no_long_time():
    """A text that is all beginnings of URIs is looked through once; with a careless pattern each takes minutes."""
    for part in ("s3:", "://", "s3://a:b@", "//", "?a=b", "http://x?a&", "%40", "a"):
        masked(part * 100_000)


def test_errors_mask_themselves():
    uri = "s3://AKIA:S3KRET@lake/x?sig=S3KRET"
    error = InvalidLocation(f"no {uri}", hint=f"see {uri}", command=("-c", uri, "fsck"))
    for text in (str(error), repr(error), error.message, error.hint):
        assert SECRET not in text
    assert SECRET not in InvalidLocation("nothing", hint=f"see {uri}").hint
    assert "olympia -c 's3://***@lake/x?sig=***' fsck" in error.hint
    assert SECRET not in quoted(uri, 24)
    assert isinstance(error, OlympiaError)


@given(st.text(alphabet=st.characters(exclude_characters="@?#;%:")))
def test_a_text_without_marks_is_not_masked(text):
    assert MARKS.isdisjoint(text)
    assert masked(text) == text
