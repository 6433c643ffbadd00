"""`fsck --repair` beside fsck: it mends the latest version when fsck blames it, and goes back to one that is sound."""

from __future__ import annotations

import re
from collections.abc import Iterator

from olympia_cli.errors import Refused
from olympia_cli.ops.repair.repair import plan_repair
from tests.agreement.catalogs import DamagedCatalog, shown
from tests.agreement.disagreements import Disagreement, say_the_same

NO_WAY = {"F101", "F103"}
"""Versions are missing, or none can be read: a repair is refused."""
LOST = "F114"
"""Versions after the latest are lost: that is mended on top of it, however whole it is."""


def test_repair_acts_exactly_where_fsck_reports_damage(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same(damaged_catalogs, _mending)


def test_repair_names_every_file_that_fsck_reports(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same(damaged_catalogs, _told_files)


def test_repair_goes_back_to_the_newest_version_that_fsck_does_not_blame(
    damaged_catalogs: tuple[DamagedCatalog, ...],
) -> None:
    say_the_same(damaged_catalogs, _going_back)


def _mending(damaged: DamagedCatalog) -> Iterator[Disagreement]:
    if damaged.error_codes & NO_WAY:
        return
    try:
        plan = plan_repair(damaged.store())
    except Refused as error:
        if damaged.report.last_sound_version is not None:
            yield Disagreement("refused, though a version is sound", damaged.name, shown(damaged.errors), str(error))
        return
    blame = damaged.errors_in(plan.head) + [one for one in damaged.errors if one.code == LOST]
    # which of two objects of one id is to stay is for people to say
    if bool(blame) != bool(plan.repair or plan.unmended):
        steps = "; ".join(step.text for step in plan.steps) or "nothing to do"
        codes = "|".join(sorted({one.code for one in blame}))
        kind = f"nothing to mend, fsck says {codes}" if blame else "something to mend that fsck does not blame"
        yield Disagreement(kind, damaged.name, shown(damaged.errors), steps)


def _told_files(damaged: DamagedCatalog) -> Iterator[Disagreement]:
    if damaged.error_codes & NO_WAY:
        return
    try:
        plan = plan_repair(damaged.store())
    except Refused:
        return
    if plan.repair is None:
        return
    details = plan.steps[0].details
    for error in damaged.errors_in(plan.head):
        if not any(detail.startswith(f"{error.path}: " if error.path else error.message) for detail in details):
            yield Disagreement(f"does not name {error.code}", damaged.name, shown([error]), "; ".join(details))


def _going_back(damaged: DamagedCatalog) -> Iterator[Disagreement]:
    if damaged.error_codes & NO_WAY:
        return
    target = None
    try:
        plan = plan_repair(damaged.store(), prefer="rollback")
        if plan.repair is None:
            return
        [text] = [step.text for step in plan.steps if step.kind == "rollback"]
        target = int(re.findall(r"go back to v(\d+)", text)[0])
    except Refused:
        pass
    older = damaged.sample.versions if LOST in damaged.error_codes else damaged.sample.versions[:-1]
    sound = [version for version in older if not damaged.errors_in(version)]
    newest = sound[-1] if sound else None
    if target != newest:
        codes = "none" if target is None else "|".join(sorted({one.code for one in damaged.errors_in(target)}))
        kind = f"goes back to a version with {codes}" if codes else "goes back further than it must"
        yield Disagreement(kind, damaged.name, f"v{newest} is sound: {shown(damaged.errors)}", f"v{target}")
