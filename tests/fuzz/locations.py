"""`python -m tests.fuzz.locations [COUNT [SEED]]`: locations that a client with a token for one namespace might try.

A server on loopback gets each location through every entry point that takes one. Then the disk is compared with its
earlier state. No file outside of the namespace's folder may change, disappear or appear, and no answer may contain the
content of one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from olympia_cli.storage.local import LocalStore
from tests.helpers.serving import Served, serving

MARK = "content-that-is-not-yours"
TOKEN = "secret-of-sales"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
VERSION = {
    "version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "default-namespace": ["sales"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}  # fmt: skip
LONG = "x" * 300
"""A name that no file system takes: writing there fails after the location was accepted."""

SCHEMES = (
    "", "", "file:", "file:", "file:/", "file://", "file://", "file://", "FILE://", "File:", "file://localhost",
    "file:////", "file://127.0.0.1", "file://u:p@", "local://", "s3://bucket", "s3a://u@bucket", "memory://x", " ",
    "\t",
)  # fmt: skip
CUTS = (
    "?", "#", "?x=#", "%3F", "%23", ";", "\\", "\0", "%00", "\n", "\t", "\u007f", "\uff1f", "\uff03", " ", "::", "*",
    "[a]",
)  # fmt: skip
UPS = ("..", "..", "%2e%2e", "%2E.", "%252e%252e", "..%2f..", "..\\..", "\uff0e\uff0e", ".", "", "x/../..")


@dataclass
class World:
    """A catalog with two namespaces, files beside it, and a server with a token for one of the namespaces."""

    top: Path
    served: Served
    table: dict[str, Any]
    view: dict[str, Any]
    before: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def catalog(self) -> str:
        return str(self.top / "catalog")

    @property
    def own(self) -> str:
        """The folder where the token may write."""
        return f"{self.catalog}/data/sales"

    def post(self, path: str, body: object) -> httpx.Response:
        return self.served.post(path, body, Authorization=f"Bearer {TOKEN}")

    def get(self, path: str) -> httpx.Response:
        return self.served.http.get(path, headers={"Authorization": f"Bearer {TOKEN}"})

    def harm(self) -> list[str]:
        """The files outside that went, changed or came since the last look."""
        found = _digests(self.top)
        known, self.before = self.before, found
        harm = [f"gone: {path}" for path in known.keys() - found.keys()]
        harm += [f"changed: {path}" for path in known.keys() & found.keys() if known[path] != found[path]]
        # commits of the catalog itself
        places = (f"{self.catalog}/{name}/" for name in ("vn", "def", "node"))
        allowed = tuple(places)
        return sorted(harm + [f"came: {path}" for path in found.keys() - known.keys() if not path.startswith(allowed)])


@contextmanager
def world(**settings: Any) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="locations-") as folder:
        top = Path(folder).resolve()
        (top / "victim").mkdir()
        (top / "victim/secret.txt").write_text(MARK)
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        admin = hashlib.sha256(b"admin").hexdigest()
        (top / "tokens.toml").write_text(
            f'[[token]]\nname = "sales"\nsha256 = "{digest}"\nscopes = ["read", "write"]\nnamespaces = ["sales"]\n'
            f'[[token]]\nname = "admin"\nsha256 = "{admin}"\nscopes = ["read", "write"]\n'
        )
        store = LocalStore(top / "catalog", durable=False)
        with serving(store, tokens=str(top / "tokens.toml"), **settings) as served:
            whole = {"Authorization": "Bearer admin"}
            for name in ("sales", "hr"):
                served.post("/v1/namespaces", {"namespace": [name]}, **whole)
            hidden = {"name": "t", "schema": SCHEMA, "properties": {"comment": MARK}}
            served.post("/v1/namespaces/hr/tables", hidden, **whole)
            found = World(top, served, {}, {})
            found.table.update(found.post("/v1/namespaces/sales/tables", {"name": "t", "schema": SCHEMA}).json())
            view = {"name": "w", "schema": SCHEMA, "view-version": VERSION, "properties": {}}
            found.view.update(found.post("/v1/namespaces/sales/views", view).json())
            found.before = _digests(top)
            yield found


def _digests(top: Path) -> dict[str, str]:
    """Return the checksums of files that the token may not change. Commits rewrite hints."""
    found = {}
    own, hints = str(top / "catalog/data/sales"), {str(top / f"catalog/vn/{name}") for name in ("latest", "oldest")}
    for folder, folders, names in os.walk(top):
        if folder == own:
            folders.clear()
            continue
        for name in names:
            path = f"{folder}/{name}"
            status = os.lstat(path)
            found[path] = "" if path in hints else f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
    return found


def spellings(world: World, seed: int) -> Iterator[str]:
    """Yield locations without end, most of them of another user's file."""
    dice = random.Random(seed)
    hr = next((world.top / "catalog/data/hr").rglob("*.metadata.json"))
    targets = [f"{world.top}/victim/secret.txt", str(hr), str(hr.parents[1]), f"{world.catalog}/vn/latest",
               f"{world.top}/tokens.toml", f"{world.top}/victim", "/etc/passwd"]  # fmt: skip
    while True:
        target, own = dice.choice(targets), f"{world.own}/{dice.choice(('t', 'new', 'a b'))}"
        relative = os.path.relpath(target, own)
        ups = "/".join(dice.choice(UPS) for _ in range(relative.count("..") + dice.randrange(2)))
        spelled = f"{own}/{ups}/{relative.replace('../', '')}"
        away = dice.choice((target, f"{own}/{relative}", f"{own}/{relative}", spelled))
        cut, tail = dice.choice((*"?#?#?#", *CUTS)), dice.choice(("x", LONG, LONG, ""))
        # up to the root, and back to where the token may write
        back = dice.choice((f"{40 * '/..'}{own}/{tail}", f"/{tail}", tail))
        parts = (f"{away}{cut}{back}", f"{away}{cut}{back}", f"{own}{cut}/{relative}", away, f"{own}/{cut}{tail}", own)
        text = dice.choice(parts)
        if dice.random() < 0.2:
            at = dice.randrange(len(text))
            text = text[:at] + dice.choice((*CUTS, *UPS, chr(dice.randrange(1, 0x2FFF)))) + text[at:]
        yield dice.choice(SCHEMES) + text


Door = Callable[[World, str], httpx.Response]


def _table(**more: object) -> Door:
    def door(world: World, location: str) -> httpx.Response:
        filled = {key: _filled(value, location) for key, value in more.items()}
        body = {"name": f"t{next(world.numbers)}", "schema": SCHEMA, **filled}
        return world.post("/v1/namespaces/sales/tables", body)

    return door


def _filled(value: object, location: str) -> object:
    if isinstance(value, dict):
        return {key: _filled(inside, location) for key, inside in value.items()}
    return location if value == "LOCATION" else value


def _updates(*updates: dict[str, object]) -> Door:
    def door(world: World, location: str) -> httpx.Response:
        return world.post(
            "/v1/namespaces/sales/tables/t",
            {"requirements": [], "updates": [_filled(update, location) for update in updates]},
        )

    return door


def _view(world: World, location: str) -> httpx.Response:
    body = {"name": f"v{next(world.numbers)}", "schema": SCHEMA, "view-version": VERSION, "properties": {}}
    return world.post("/v1/namespaces/sales/views", {**body, "location": location})


def _replaced_view(world: World, location: str) -> httpx.Response:
    body = {"requirements": [], "updates": [{"action": "set-location", "location": location}]}
    return world.post("/v1/namespaces/sales/views/w", body)


def _register(kind: str) -> Door:
    def door(world: World, location: str) -> httpx.Response:
        body = {"name": f"r{next(world.numbers)}", "metadata-location": location}
        return world.post(f"/v1/namespaces/sales/{kind}", body)

    return door


def _registered(kind: str, shown: str, key: str) -> Door:
    """Metadata of the client's own making, at an innocent place, that names the location."""

    def door(world: World, location: str) -> httpx.Response:
        metadata = {**getattr(world, shown)["metadata"]}
        if key == "location":
            metadata["location"] = location
        else:
            metadata["properties"] = {key: location}
        number = next(world.numbers)
        path = Path(world.own) / f"made-{number}.metadata.json"
        path.write_text(json.dumps(metadata), errors="surrogateescape")
        body = {"name": f"m{number}", "metadata-location": str(path)}
        made = world.post(f"/v1/namespaces/sales/{kind}", body)
        if made.status_code == 200 and shown == "table":
            # a later change writes where that metadata says
            return world.post(f"/v1/namespaces/sales/tables/m{number}", _CHANGE)
        return made

    return door


def _changed(kind: str, shown: str, key: str) -> Door:
    """Metadata that was innocent when it was registered, and names the location since."""

    def door(world: World, location: str) -> httpx.Response:
        metadata = {**getattr(world, shown)["metadata"]}
        number = next(world.numbers)
        path = Path(world.own) / f"changed-{number}.metadata.json"
        path.write_text(json.dumps(metadata))
        world.post(f"/v1/namespaces/sales/{kind}", {"name": f"c{number}", "metadata-location": str(path)})
        if key == "location":
            metadata["location"] = location
        else:
            metadata["properties"] = {key: location}
        path.write_text(json.dumps(metadata), errors="surrogateescape")
        return world.post(f"/v1/namespaces/sales/{shown}s/c{number}", _CHANGE)

    return door


def _namespace(world: World, location: str) -> httpx.Response:
    return world.post("/v1/namespaces/sales/properties", {"updates": {"location": location}})


_CHANGE = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
_SNAPSHOT = {
    "snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 2**42, "manifest-list": "LOCATION",
    "summary": {"operation": "append"}, "schema-id": 0,
}  # fmt: skip
_STATISTICS = {
    "snapshot-id": 1, "statistics-path": "LOCATION", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1,
    "blob-metadata": [],
}  # fmt: skip

DOORS: dict[str, Door] = {
    "the location of a new table": _table(location="LOCATION"),
    "the location of a table that is staged": _table(location="LOCATION", **{"stage-create": True}),
    "write.metadata.path of a new table": _table(properties={"write.metadata.path": "LOCATION"}),
    "write.data.path of a new table": _table(properties={"write.data.path": "LOCATION"}),
    "set-location": _updates({"action": "set-location", "location": "LOCATION"}),
    "write.metadata.path of a table": _updates(
        {"action": "set-properties", "updates": {"write.metadata.path": "LOCATION"}}
    ),
    "a manifest list": _updates({"action": "add-snapshot", "snapshot": _SNAPSHOT}),
    "statistics": _updates({"action": "set-statistics", "snapshot-id": 1, "statistics": _STATISTICS}),
    "the location of a new view": _view,
    "set-location of a view": _replaced_view,
    "register": _register("register"),
    "register-view": _register("register-view"),
    "the location in metadata that is registered": _registered("register", "table", "location"),
    "write.metadata.path in metadata that is registered": _registered("register", "table", "write.metadata.path"),
    "the location in a view that is registered": _registered("register-view", "view", "location"),
    "the location of a namespace": _namespace,
    "the location in metadata that was changed": _changed("register", "table", "location"),
    "write.metadata.path in metadata that was changed": _changed("register", "table", "write.metadata.path"),
    "the location in a view that was changed": _changed("register-view", "view", "location"),
}


def main(count: int, seed: int) -> int:
    done, failed = 0, False
    while done < count and not failed:
        # a server that caches nothing reads metadata that was changed since
        with world(cache_bytes=0) if seed % 2 else world() as here:
            # commits make a world slow
            for location in itertools.islice(spellings(here, seed), min(2_000, count - done)):
                name = list(DOORS)[done % len(DOORS)]
                answer = DOORS[name](here, location)
                done += 1
                problems = here.harm() if answer.status_code not in (400, 403) or done % 20 == 0 else []
                if MARK in answer.text:
                    problems.append("its answer shows the content of a file")
                if problems or answer.status_code == 500:
                    failed = True
                    print(f"seed {seed}: {name}: {location!a}: {answer.status_code} {answer.text[:300]}: {problems}")
        print(f"seed {seed}: {done:,} locations", flush=True)
        seed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    sys.exit(main(given[0] if given else 100_000, given[1] if len(given) > 1 else int(time.time())))
