"""A zip file for support: the report and the structure of node files, without any names or values of the user.

Names, locations, users, messages and property values become pseudonyms. Within a bundle the same name has the same
pseudonym. The salt is discarded, so pseudonyms cannot be reversed. No file of the catalog is included unchanged.
"""

from __future__ import annotations

import io
import json
import re
import secrets
import zipfile
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from olympia_cli import __version__
from olympia_cli.errors import OlympiaError, StoreError
from olympia_cli.format.codec import CREATED_AT_MILLIS, N_KEYS, PREVIOUS_ROOT, ROLLBACK_FROM_ROOT
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec
from olympia_cli.format.paths import FileKind, file_kind, parse_root_path
from olympia_cli.format.salvage import Salvage, salvage
from olympia_cli.names import ObjectName
from olympia_cli.ops.fsck.findings import CODES, Finding, Report, describe_finding, describe_report
from olympia_cli.ops.walk import Sections, descend, number_in, system_rows
from olympia_cli.storage.protocol import Store

MOST_FILES = 500
"""The largest number of node files: first those of findings, then the newest roots, then the nodes below."""

_README = """The findings of olympia fsck about a catalog.

report.json   the findings
structure.jsonl   one line per examined node file: its system rows, keys, pointers and problems
files.json   the number and the total size of the files of each kind

Names of namespaces, tables and views, locations, users, messages and property values are not included. They are
replaced by pseudonyms such as name-3f9a2c1e. A pseudonym stands for the same name in the whole file, and cannot be
reversed.
"""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SYSTEM = frozenset({CREATED_AT_MILLIS, N_KEYS, PREVIOUS_ROOT, ROLLBACK_FROM_ROOT, CATALOG_DEF})


_NUMBERS = frozenset({"F101", "F113", "F114", "F204", "F211"})
"""The codes whose messages quote only numbers."""


def make_bundle(store: Store, report: Report) -> bytes:
    """Return the bytes of the zip file."""
    redact = _Redact()
    files, kinds = _list(store)
    keys = _codec(store, files)
    document = describe_report(report)
    document["findings"] = [redact.finding(finding) for finding in report.findings]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.txt", _README)
        archive.writestr("report.json", json.dumps({"program": f"olympia {__version__}", **document}, indent=1))
        archive.writestr("files.json", json.dumps(kinds, indent=1))
        lines = (json.dumps(finding) for finding in _structure(store, report, files, keys, redact))
        archive.writestr("structure.jsonl", "\n".join(lines) + "\n")
    return out.getvalue()


class _Redact:
    """The pseudonyms of one bundle."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(16)

    def word(self, text: str, what: str = "name") -> str:
        if not text:
            return ""
        return f"{what}-{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=4, key=self._salt).hexdigest()}"

    def path(self, path: str) -> str:
        """Return the path without the parts that show names. A path that is not of the format becomes a pseudonym."""
        kind = file_kind(path)
        if kind is FileKind.DEFINITION:
            folder, _, name = path.rpartition("/")
            uuid = _UUID.match(name)
            if uuid:
                return f"{folder}/{uuid[0]}.binpb"
        if kind in (FileKind.UNKNOWN, FileKind.DATA) or path.startswith("def/dtxn/"):
            return self.word(path, "path")
        return path if kind is not FileKind.TEMPORARY else self.word(path, "temporary")

    def object(self, name: ObjectName) -> dict[str, str]:
        return {
            "type": name.kind.word,
            "namespace": self.word(name.namespace),
            "name": self.word(name.name or name.namespace),
        }

    def finding(self, finding: Finding) -> dict[str, Any]:
        """Describe a finding. Its message may quote anything, so only the code's description and numbers are kept."""
        described = describe_finding(finding)
        described["path"] = self.path(finding.path) if finding.path not in ("", "vn/") else finding.path
        described["message"] = self.message(finding)
        described["objects"] = [self.object(name) for name in finding.objects]
        described["hint"] = ""
        return described

    def message(self, finding: Finding) -> str:
        numbers = re.findall(r"\b[0-9][0-9,]*\b", finding.message) if finding.code in _NUMBERS else []
        return CODES.get(finding.code, "") + (f" ({', '.join(numbers[:8])})" if numbers else "")


def _list(store: Store) -> tuple[list[str], dict[str, dict[str, int]]]:
    kinds: dict[str, dict[str, int]] = {}
    roots: list[str] = []
    for file in store.list(temporary=True):
        kind = file_kind(file.path)
        counted = kinds.setdefault(kind.value, {"files": 0, "bytes": 0, "empty": 0})
        counted["files"] += 1
        counted["bytes"] += file.size
        counted["empty"] += not file.size
        if kind is FileKind.ROOT:
            roots.append(file.path)
    roots.sort(key=lambda path: parse_root_path(path) or 0, reverse=True)
    return roots, kinds


def _codec(store: Store, roots: Iterable[str]) -> KeyCodec | None:
    """Return the codec for the name sizes of the newest root that has them."""
    for path in list(roots)[:20]:
        try:
            sizes = salvage(store.read(path)).sizes
        except OlympiaError:
            continue
        if sizes is not None:
            return KeyCodec.of(sizes)
    return None


def _structure(
    store: Store, report: Report, roots: list[str], keys: KeyCodec | None, redact: _Redact
) -> list[dict[str, Any]]:
    hit = [finding.path for finding in report.findings if file_kind(finding.path) in (FileKind.NODE, FileKind.ROOT)]
    paths = dict.fromkeys([*hit, *roots[: MOST_FILES // 4]])
    lines: list[dict[str, Any]] = []

    def visit(path: str, data: bytes | StoreError) -> Iterator[str]:
        if isinstance(data, Exception):
            lines.append({"path": redact.path(path), "error": type(data).__name__})
            return
        remains = salvage(data)
        lines.append(_node(path, len(data), remains, keys, redact))
        for _, _, child in remains.rows:
            if isinstance(child, str) and file_kind(child) is FileKind.NODE and child not in paths:
                paths[child] = None
                yield child

    for _ in descend(list(paths), lambda level: store.read_many(level[: MOST_FILES - len(lines)]), visit, at_once=None):
        pass
    return lines


def _node(path: str, size: int, remains: Salvage, keys: KeyCodec | None, redact: _Redact) -> dict[str, Any]:
    parts = Sections.of(remains.rows, keys is not None and keys.java)
    system = {
        key: value if number_in(value) is not None else redact.path(value)
        for key, value in system_rows(remains.rows[: parts.start]).items()
        if key in _SYSTEM
    }
    rows = [
        {"key": _key(key, keys, redact), "value": _cell(value, redact), "pnode": _cell(child, redact)}
        for key, value, child in remains.rows[parts.start : parts.end]
    ]
    return {
        "path": redact.path(path),
        "bytes": size,
        "system": system,
        "rows": rows,
        "action_rows": len(remains.rows) - parts.end,
        "digest": remains.digest is not None,
        "record_batches": remains.batches,
        "problems": [
            {
                "offset": problem.offset,
                "batch": problem.batch,
                "row": problem.row,
                "what": redact.word(problem.message, "problem"),
            }
            for problem in remains.problems
        ],
    }


def _cell(value: Any, redact: _Redact) -> str | None:
    return redact.path(value) if isinstance(value, str) else None if value is None else "lost"


def _key(key: Any, keys: KeyCodec | None, redact: _Redact) -> Any:
    if not isinstance(key, str):
        return None if key is None else "lost"
    name = keys.name(key) if keys is not None else None
    return redact.word(key, "key") if name is None else redact.object(name)
