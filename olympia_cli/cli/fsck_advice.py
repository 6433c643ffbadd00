"""Advice on the findings of fsck, as complete commands for this catalog."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from olympia_cli.cli.context import Session
from olympia_cli.errors import OlympiaError
from olympia_cli.names import plural

if TYPE_CHECKING:
    from olympia_cli.ops.fsck.fsck import Report
    from olympia_cli.ops.fsck.last_fsck import FsckRun
    from olympia_cli.ops.repair.advice import Places

PLACES = 9
"""Number of names to try for an empty place beside the catalog."""


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command that can be pasted; it may ask before it changes anything."""

    argv: tuple[str, ...]
    loses: int | None
    why: str
    leaves_versions: int = 0

    @property
    def line(self) -> str:
        return shlex.join(self.argv)

    @property
    def loss(self) -> str:
        if self.loses is None:
            return "its losses are unknown"
        if self.leaves_versions:
            objects = plural(self.loses, "object") if self.loses else "no object"
            return f"loses {objects}, and leaves {plural(self.leaves_versions, 'older version')} behind"
        return "loses nothing" if not self.loses else f"loses {plural(self.loses, 'object')}"

    def describe(self) -> dict[str, Any]:
        described = {"command": list(self.argv), "loses": self.loses, "why": self.why}
        return {**described, "leaves_versions": self.leaves_versions}


def next_commands(session: Session, report: Report, options: Sequence[str]) -> list[NextCommand]:
    """Return the commands that repair the damage, the one that loses least first. `options` are those of the fsck."""
    from olympia_cli.ops.fsck.fsck import Level
    from olympia_cli.ops.repair.advice import advise

    data = data_checks(session) if report.level is Level.DATA else None
    with session.progress() as progress:
        advice = advise(session.store, report, options, lambda: _places(session), progress, data)
    here, elsewhere = session.program, session.program_elsewhere
    programs = (here if each.catalog is None else (*elsewhere, "-c", each.catalog) for each in advice)
    return [
        NextCommand((*program, *each.words), each.loses, each.why, each.leaves_versions)
        for program, each in zip(programs, advice, strict=True)
    ]


def data_checks(session: Session) -> Any:
    """Return the checks of table data, with the storage options of the catalog."""
    from olympia_cli.iceberg.data_checks import IcebergDataChecks

    scheme, separator, _ = session.location.uri.partition("://")
    return IcebergDataChecks(session.location.options or None, scheme if separator else "")


def with_commands(session: Session, report: Report, commands: Sequence[NextCommand] | None) -> Report:
    """Return the report with complete commands as advice, including the location of the catalog.

    Findings that advise a repair or a salvage get the best of the commands instead, so that all agree. Without
    commands they keep their advice.
    """
    from olympia_cli.ops.fsck.findings import REPAIR, SALVAGE

    repairing = {"--repair", "--salvage", "promote", "resume"}
    best = next((each.line for each in commands or () if repairing & set(each.argv)), "")

    def whole(hint: str) -> str:
        return best if commands is not None and hint in (REPAIR, SALVAGE) else session.command(hint)

    findings = (replace(finding, hint=whole(finding.hint)) if finding.hint else finding for finding in report.findings)
    return replace(report, findings=tuple(findings))


def say_next(session: Session, commands: Sequence[NextCommand]) -> None:
    for number, command in enumerate(commands):
        session.say(f"{'or' if number else 'next'}: {command.line}  ({command.loss})")
        session.say(f"      {command.why}")


def say_standing(session: Session, runs: Sequence[FsckRun]) -> None:
    """Name the damage of deeper fscks that `status` still shows, because no equally deep fsck has run since."""
    for run in runs:
        again = session.command(shlex.join(run.words()))
        session.say(f"status shows damage of an earlier fsck until it is checked again: {again}")


def _places(session: Session) -> Places:
    """Return an empty place for a new catalog, and the finished salvages at the places before it."""
    from olympia_cli.ops.repair.advice import Places
    from olympia_cli.ops.repair.salvage import salvage_source
    from olympia_cli.storage.open import open_store

    empty, salvages = _empty_place(session), {}
    for place in _names(session):
        if place == empty:
            break
        with suppress(OlympiaError):
            store = open_store(place, session.options_for(place))
            source = salvage_source(store)
            store.close()
            if source is not None:
                salvages[place] = source
    return Places(empty, salvages)


def _empty_place(session: Session) -> str:
    """Return an empty place for a new catalog beside this one, or in this folder if the catalog is a whole bucket."""
    from olympia_cli.ops.repair.salvage import check_free
    from olympia_cli.storage.open import open_store

    base, *others = _names(session)
    for place in (base, *others):
        try:
            store = open_store(place, session.options_for(place))
            check_free(store, session.store.uri)
            store.close()
            return place
        except OlympiaError:
            continue
    return base


def _names(session: Session) -> list[str]:
    """Return the candidate places for a new catalog."""
    from olympia_cli.storage.open import BUCKET_SCHEMES, scheme_of

    uri = session.location.uri.rstrip("/")
    bucket = scheme_of(uri) in BUCKET_SCHEMES and "/" not in uri.partition("://")[2]
    base = "salvaged" if bucket else f"{uri}-salvaged"
    return [base, *(f"{base}-{number}" for number in range(2, PLACES))]
