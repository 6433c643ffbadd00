"""Mask secrets in URIs before a text is shown or stored.

Error classes mask their own text. All other code that prints a location calls `masked`.
"""

from __future__ import annotations

import re
from functools import partial

MASK = "***"

MARKS = frozenset("@?#;%:")
"""A text without any of these characters holds no secret."""

# patterns are compiled on first use, so that printing help starts fast
_IN_TEXT = r"""[^\s"'<>`]"""
_START = (
    r":/+(?:https?://)?"  # Kubernetes: a master URI has two schemes
    r"""|(?<![^\s"'(=])//+"""  # a URI without a scheme
    rf"|(?<![\w+.-])(?:s3|gs|https?):(?=(?!/){_IN_TEXT}{{1,200}}@)"  # a URI without slashes
)
"""The characters between the scheme of a URI and its hosts."""

_WHOLE = r"[A-Za-z][A-Za-z0-9+.-]*:/\S*"
_HOST = r"((\[[0-9A-Za-z:.%]+\]|(?:(?!%40|%3[Aa])[^:@])+)(:([0-9]+|(?i:port)))?)?"
_PARAMETER = r"([?#&;])([^?#&;=]*)(=?)([^?#&;]*)"
_BUCKETS = ("s3", "s3a", "s3n", "gs")
"""Schemes whose host is a bucket name, which has no port."""

_BUCKET = r"""(bucket (?:name:? )?)(["'])(?!arn:)[^"']*[:@][^"']*\2"""
"""A bucket name in an SDK's error message. The SDK may have cut it from a location, with user and password."""

_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")
"""Azure schemes, where the part before the @ is a container name."""


def masked(text: str) -> str:
    """Return the text with `***` for each secret that a URI in it may carry.

    Secrets are the user and password, the values of query and other parameters, and the fragment. A bare `?` or `#` in
    the path of a `file:` URI masks nothing.
    """
    return _masked(text, bare=True)


def carries_secret(location: str) -> bool:
    """Return True if the location holds a user, a password, or parameters with values.

    A bare `?` or `#` may be part of a key, and does not count.
    """
    return _masked(location, bare=False) != location


def _masked(text: str, *, bare: bool) -> str:
    # fast path: most texts hold none of these characters
    if not re.search(r"[@?#;]|%[34]|:[^/\s]", text):
        return text
    # a quote ends a URI inside a longer text, but may be part of the password of a URI on its own
    rest = r"\S" if re.fullmatch(_WHOLE, text) else _IN_TEXT
    text = re.sub(_BUCKET, rf"\1\2{MASK}\2", text)
    return re.sub(f"({_START})({rest}*)", partial(_hide, bare), text)


def _hide(bare: bool, found: re.Match[str]) -> str:
    start, rest = found[1], found[2].rstrip(":,.;)")
    after = found[2][len(rest) :]
    scheme = found.string[max(0, found.start() - 8) : found.start()].lower()
    if scheme.endswith("file") and start != "://":
        bare = False
    elif not _names_hosts(rest, scheme):
        # a password may hold any character, so the last @ ends it
        ends = [match.end() for match in re.finditer("@|%40", rest)]
        rest = f"{MASK}@{rest[ends[-1] :]}" if ends else MASK
    path = re.match(r"[^/;?#]*/?(?=;)|[^?#]*", rest)
    assert path is not None
    return start + path[0] + re.sub(_PARAMETER, partial(_hide_value, bare), rest[path.end() :]) + after


def _hide_value(bare: bool, found: re.Match[str]) -> str:
    separator, name, equals, value = found.groups()
    if equals:
        return f"{separator}{name}={MASK if value else ''}"
    return f"{separator}{MASK if bare and name else name}"


def _names_hosts(rest: str, scheme: str) -> bool:
    """Return True if the text after `://` begins with hosts and ports, without user or password."""
    hosts = re.split("[/?#;]", rest, maxsplit=1)[0]
    if scheme.endswith(_BUCKETS) and ":" in hosts:
        return False
    container, _, account = hosts.rpartition("@")
    if scheme.endswith(_CONTAINERS) and not re.search(":|%3a", container, re.IGNORECASE):
        hosts = account
    return all(re.fullmatch(_HOST, host) for host in hosts.split(","))
