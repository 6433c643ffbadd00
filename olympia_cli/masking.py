"""Mask the secrets that URIs carry. Every text that is shown or written down passes here.

An error masks its own text when it is made. All other code that prints a location calls `masked`.
"""

from __future__ import annotations

import re
from functools import partial

MASK = "***"

# patterns are compiled when they are first used: a program that only prints help starts faster
_IN_TEXT = r"""[^\s"'<>`]"""
_START = (
    r":/+(?:https?://)?"  # of Kubernetes, the two schemes of its master
    r"""|(?<![^\s"'(=])//+"""  # a URI without its scheme
    rf"|(?<![\w+.-])(?:s3|gs|https?):(?=(?!/){_IN_TEXT}{{1,200}}@)"  # one without slashes
)
"""The characters between the scheme of a URI and its hosts."""

_WHOLE = r"[A-Za-z][A-Za-z0-9+.-]*:/\S*"
_HOST = r"((\[[0-9A-Za-z:.%]+\]|(?:(?!%40|%3[Aa])[^:@])+)(:([0-9]+|(?i:port)))?)?"
_PARAMETER = r"([?#&;])([^?#&;=]*)(=?)([^?#&;]*)"
_BUCKETS = ("s3", "s3a", "s3n", "gs")
"""Schemes whose hosts are buckets, which have no port."""

_BUCKET = r"""(bucket (?:name:? )?)(["'])(?!arn:)[^"']*[:@][^"']*\2"""
"""The name of a bucket in an error of an SDK. With a user and password in it, it was cut out of a location."""

_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes of Azure, where the name before an @ is that of a container."""


def masked(text: str) -> str:
    """Return the text with `***` for each secret that a URI in it may carry: the user and password, the values of the
    query and of other parameters, and the fragment. A bare `?` or `#` in the path of a local file hides nothing.
    """
    return _masked(text, bare=True)


def carries_secret(location: str) -> bool:
    """Whether a location holds a user, a password, or parameters with values. A bare `?` or `#` may be of a key."""
    return _masked(location, bare=False) != location


def _masked(text: str, *, bare: bool) -> str:
    # fast path: most texts hold no such character
    if not re.search(r"[@?#;]|%[34]|:[^/\s]", text):
        return text
    # a quote ends a URI in a longer text, and may be part of the password in a URI by itself
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
    """Whether what follows `://` begins with hosts and ports alone."""
    hosts = re.split("[/?#;]", rest, maxsplit=1)[0]
    if scheme.endswith(_BUCKETS) and ":" in hosts:
        return False
    container, _, account = hosts.rpartition("@")
    if scheme.endswith(_CONTAINERS) and not re.search(":|%3a", container, re.IGNORECASE):
        hosts = account
    return all(re.fullmatch(_HOST, host) for host in hosts.split(","))
