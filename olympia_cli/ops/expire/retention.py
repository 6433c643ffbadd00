"""The versions that a policy keeps. A version goes only if number and age both permit it, and only after all older
ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.properties import DEFAULT_MAX_AGE, DEFAULT_MIN_VERSIONS, MAX_AGE, MIN_VERSIONS
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, InvalidReference, PathMissing, Refused, StoreError
from olympia_cli.format import definitions
from olympia_cli.format.actions import EXPIRES, action_types
from olympia_cli.format.codec import decode_action_rows, decode_root
from olympia_cli.format.node import Root
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import parse_duration, parse_moment

FLOOR_MILLIS = 3_600_000
"""The least grace period and quarantine while writers may be running."""


@dataclass(frozen=True, slots=True)
class Floors:
    """The minimum age of files to mark or delete, and the time that marks stay in quarantine."""

    grace_millis: int
    quarantine_millis: int
    offline: bool = False

    def __post_init__(self) -> None:
        if self.offline:
            return
        for what, millis in (("grace period", self.grace_millis), ("quarantine", self.quarantine_millis)):
            if millis < FLOOR_MILLIS:
                raise Refused(
                    f"a {what} below one hour could take files that a writer is about to use",
                    hint="choose 1h or more, or pass --offline if no writer is running",
                )


MAX_MILLIS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Policy:
    """The least number of versions to keep, and the time since which all are kept: a version stays if it was current at
    `cutoff_millis` or later.
    """

    keep_last: int
    cutoff_millis: int
    since: str
    """The age in words, for messages."""
    offline: bool = False
    """True if no writer is running, so that no transaction needs the version that it began at."""


def read_policy(
    definition: CatalogDef,
    now_millis: int,
    *,
    keep_last: int | None = None,
    older_than: str | None = None,
    offline: bool = False,
) -> Policy:
    """Return the catalog's policy, changed by the given options. Raise Refused if it is unsafe."""
    if keep_last is not None and keep_last < 1:
        raise Refused("a policy must keep at least one version", hint="use --keep-last 1 or more")
    age = older_than if older_than is not None else definition.properties.get(MAX_AGE, DEFAULT_MAX_AGE)
    try:
        cutoff, since = now_millis - parse_duration(age), f"less than {age} ago"
    except InvalidReference:
        if older_than is None:
            raise _unreadable(MAX_AGE, age, "--older-than") from None
        cutoff, since = parse_moment(age, now_millis), f"after {age}"
    if older_than is not None and not offline and now_millis - cutoff < definition.txn_ttl_millis:
        raise Refused(
            f"versions younger than a transaction's lifetime ({_hours(definition.txn_ttl_millis)}) may be in use",
            hint="choose a greater age, or pass --offline if no writer is running",
        )
    if keep_last is None:
        text = definition.properties.get(MIN_VERSIONS, DEFAULT_MIN_VERSIONS)
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
            raise _unreadable(MIN_VERSIONS, text, "--keep-last")
        keep_last = int(text)
    return Policy(keep_last, cutoff, since, offline)


def _unreadable(key: str, value: str, option: str) -> Refused:
    """Return the error for an unreadable setting. The default may keep much less than the setting was meant to."""
    return Refused(
        f"the catalog's property {key} is {value[:60]!a}, which is invalid",
        hint=f"pass {option}, or unset the property to use the default",
        command=("catalog", "alter", "--unset", key),
    )


@dataclass(frozen=True, slots=True)
class Past:
    """The times that decide about a version: when it was superseded, and the lifetime of its transactions.

    An unreadable version has the values of those neighbours that keep it longer.
    """

    version: int
    superseded_at_millis: int
    txn_ttl_millis: int
    superseded_on_store_millis: int = 0
    """The same by the store's clock. A writer that is suspended before its commit has fixed its own time much
    earlier.
    """


KnownRoots = Mapping[int, tuple[str, bytes]]
"""The path and the content of roots, by version."""


class Versions:
    """The roots from the oldest version to the one before the latest. Each is read once.

    `first_kept` consumes those that may go; `kept` yields the others.
    """

    def __init__(
        self,
        head: Snapshot,
        oldest: int,
        known_roots: KnownRoots | None = None,
        written: Mapping[int, int] | None = None,
    ) -> None:
        """`known_roots` were read earlier. `written` holds the times of roots by the store's clock."""
        self._written = written or {}
        self._head = head
        self._lifetimes = _Lifetimes(head)
        self._waiting: deque[tuple[int, str, bytes | Root | StoreError]] = deque()
        self._stream = self._read(range(oldest, head.version), known_roots or {})

    def _read(self, numbers: range, known_roots: KnownRoots) -> Iterator[tuple[int, str, bytes | StoreError]]:
        contents = iter(
            self._head.store.read_many(root_path(number) for number in numbers if number not in known_roots)
        )
        for number in numbers:
            if number in known_roots:
                yield number, *known_roots[number]
            else:
                yield number, *next(contents)

    def first_kept(self, policy: Policy, limits: Limits) -> int:
        """Return the oldest version to keep."""
        for past in self._pasts():
            if why_kept(past, policy, limits):
                return past.version
            self._waiting.popleft()
        return self._head.version

    def kept(self) -> Iterator[tuple[int, str, bytes | Root | StoreError]]:
        """Yield version, path and content of the kept roots, the oldest first, or the error of reading one."""
        while self._waiting:
            yield self._waiting.popleft()
        yield from self._stream
        yield self._head.version, self._head.file.path, self._head.root

    def pasts(self) -> Iterator[Past]:
        """Yield the times of each version, and forget its root."""
        for past in self._pasts():
            yield past
            self._waiting.popleft()

    def _pasts(self) -> Iterator[Past]:
        """Yield the times of each version, as far as the caller needs them."""
        open_versions: list[tuple[int, int]] = []
        for number, path, data in self._stream:
            if isinstance(data, Exception) and not isinstance(data, PathMissing):
                raise data
            try:
                root = decode_root(b"" if isinstance(data, Exception) else data, path)
                created, lifetime = root.created_at_millis, self._lifetimes.of(root.catalog_def)
            except Damaged:
                self._waiting.append((number, path, data))
                open_versions.append((number, self._lifetimes.longest))
                continue
            self._waiting.append((number, path, root))
            # an unreadable version ended when this one began at the latest
            yield from (self._past(waiting, created, ttl, number) for waiting, ttl in open_versions)
            open_versions = [(number, lifetime)]
        head = self._head
        yield from (self._past(waiting, head.created_at_millis, ttl, head.version) for waiting, ttl in open_versions)

    def _past(self, version: int, superseded_at: int, ttl: int, successor: int) -> Past:
        # a root that can be read but is not listed is younger than the listing, which may lag
        unlisted = MAX_MILLIS if self._written else 0
        return Past(version, superseded_at, ttl, self._written.get(successor, unlisted))


@dataclass(frozen=True, slots=True)
class Limits:
    """The first version that each reason keeps. All later versions stay too."""

    counted_from: int
    """The first of the last `keep_last` versions."""
    transactions_from: int
    exports_from: int
    plan_from: int
    aside_from: int
    """The oldest version that a promotion has kept aside. All versions stay until `promote --forget`."""
    now_millis: int
    store_now_millis: int

    def explain(self, reason: str, policy: Policy) -> str:
        return {
            "keep-last": f"one of the last {policy.keep_last}",
            "age": f"it was current {policy.since}",
            "transaction": f"a live transaction began at version {self.transactions_from}",
            "export": f"an export shares the files of version {self.exports_from}",
            "plan": "the plan keeps it",
            "kept-aside": "a copy replaced the catalog: promote --forget releases the former catalog",
        }.get(reason, "a transaction that began at it, or at an older kept version, may commit")


def why_kept(past: Past, policy: Policy, limits: Limits) -> str:
    """Return the first reason to keep a version, or an empty string if it may go."""
    if past.version >= limits.counted_from:
        return "keep-last"
    if past.superseded_at_millis > policy.cutoff_millis:
        return "age"
    for reason, version in (
        ("transaction", limits.transactions_from),
        ("export", limits.exports_from),
        ("plan", limits.plan_from),
        ("kept-aside", limits.aside_from),
    ):
        if past.version >= version:
            return reason
    lifetime = past.txn_ttl_millis + HALF_AN_HOUR_MILLIS
    in_use = (
        past.superseded_at_millis + lifetime > limits.now_millis
        or past.superseded_on_store_millis + lifetime > limits.store_now_millis
    )
    return "in-use" if in_use and not policy.offline else ""


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A kept version, and the first reason for it."""

    version: int
    reason: str
    detail: str


def explain_kept(created: Iterable[tuple[int, int]], policy: Policy, limits: Limits) -> Iterator[KeptVersion]:
    """Yield the reason for each kept version, given their creation times. The last one is the latest version."""
    before: int | None = None
    for version, millis in created:
        if before is not None:
            reason = why_kept(Past(before, millis, 0, 0), policy, limits) or "in-use"
            yield KeptVersion(before, reason, limits.explain(reason, policy))
        before = version
    if before is not None:
        yield KeptVersion(before, "latest", "the latest version")


class CountedVersions:
    """Count versions back from the latest. Commits of expire do not count: they hold no new data, and would displace
    versions that the policy is to keep.
    """

    KNOWN_BYTES = 256 * 2**20

    def __init__(self, head: Snapshot, oldest: int) -> None:
        self._head = head
        self._oldest = oldest
        self._counted: list[int] = [] if _is_housekeeping(head.file.data, head.file.path) else [head.version]
        self._next = head.version - 1
        self.known_roots: dict[int, tuple[str, bytes]] = {}
        """Roots that were read here, within a limit, so that they need not be read again."""
        self._room = self.KNOWN_BYTES

    def first_of_last(self, number: int) -> int:
        """Return the first of the last `number` versions."""
        while len(self._counted) < number and self._next >= self._oldest:
            versions = range(self._next, max(self._next - min(number, 64), self._oldest - 1), -1)
            roots = self._head.store.read_many([root_path(version) for version in versions])
            for version, (path, data) in zip(versions, roots, strict=True):
                if isinstance(data, bytes) and len(data) <= self._room:
                    self.known_roots[version] = path, data
                    self._room -= len(data)
                if not (isinstance(data, bytes) and _is_housekeeping(data, path)):
                    self._counted.append(version)
            self._next = versions[-1] - 1
        if len(self._counted) >= number:
            return self._counted[number - 1]
        return self._oldest


def _is_housekeeping(data: bytes, path: str) -> bool:
    """Return whether the version has only actions of expire. False if it cannot be read."""
    try:
        types = action_types(decode_action_rows(data, path), path)
    except Damaged:
        return False
    return bool(types & EXPIRES) and types <= EXPIRES | {ActionType.COMMIT_INFO}


class _Lifetimes:
    """Transaction lifetimes by catalog definition. Few versions change them, so few files are read."""

    def __init__(self, head: Snapshot) -> None:
        self._store = head.store
        self.longest = head.definition.txn_ttl_millis
        self._lifetimes = {head.root.catalog_def: self.longest}

    def of(self, path: str) -> int:
        if path not in self._lifetimes:
            try:
                lifetime = definitions.decode(CatalogDef, self._store.read(path), path).txn_ttl_millis
            except (Damaged, PathMissing):
                lifetime = self.longest
            self._lifetimes[path] = lifetime
            self.longest = max(self.longest, lifetime)
        return self._lifetimes[path]


def _hours(millis: int) -> str:
    hours = millis / 3_600_000
    return f"{hours / 24:g}d" if hours >= 48 else f"{hours:g}h"
