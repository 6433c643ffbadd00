"""One version by itself, judged as fsck judges it: for whoever copies a version, or goes back to one."""

from __future__ import annotations

from collections.abc import Sequence

from olympia_cli.ops.fsck.chain import Chain
from olympia_cli.ops.fsck.examined import FULL, Engine, Examined, Lost, OutOfPlace, new_examined
from olympia_cli.ops.fsck.findings import Finding, Severity
from olympia_cli.ops.fsck.local import LocalEngine
from olympia_cli.ops.fsck.sound import compare_with_log
from olympia_cli.ops.fsck.verdict import Verdict
from olympia_cli.ops.walk.files import Files

TRIES = 3
"""So often is an engine asked once more that lost what it kept."""


def examine_version(files: Files, chain: Chain, version: int, engine: Engine) -> tuple[Examined, Verdict]:
    """All that a version reaches, read and judged; the chain says what the catalog is and which logs there are."""
    with files:
        examined = _examined(files, chain, version, engine, TRIES)
    compare_with_log(examined)
    return examined, Verdict(examined, [version])


def _examined(files: Files, chain: Chain, version: int, engine: Engine, tries: int) -> Examined:
    examined, catalogs = new_examined(files, chain, FULL), dict(chain.catalogs)
    try:
        engine.examine(examined, [version], None, tuple)
        return examined
    except OutOfPlace:
        engine = LocalEngine()
    except Lost as lost:
        if not tries:
            raise lost.error from None
    files.forget()
    chain.catalogs = catalogs
    return _examined(files, chain, version, engine, tries - 1)


def errors_of(verdict: Verdict, *, objects: bool = False) -> Sequence[Finding]:
    """What makes a version damaged, the most important first; nothing when it is whole."""
    findings = verdict.with_hints(verdict.findings(objects=objects))
    return [finding for finding in findings if finding.severity is Severity.ERROR]
