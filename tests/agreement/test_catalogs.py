"""The measure itself: what there is to ask about, and that fsck is asked about what it is meant to be."""

from __future__ import annotations

from tests.agreement.catalogs import DamagedCatalog, small_sample


def test_a_sound_catalog_is_sound() -> None:
    assert not DamagedCatalog("sound", small_sample(), small_sample().files).errors


def test_damaged_catalogs_are_many_and_cover_every_error_code(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    sound = sum(not one.report.damaged for one in damaged_catalogs)
    assert len(damaged_catalogs) > 1200
    assert 100 < sound < len(damaged_catalogs) / 2
    codes = set().union(*(one.error_codes for one in damaged_catalogs))
    kinds = {f"F1{at:02}" for at in range(1, 6)} | {f"F2{at:02}" for at in range(1, 16)}
    kinds |= {f"F30{at}" for at in range(1, 8)} | {"F401", "F501", "F502", "F503", "F504"}
    assert kinds <= codes, sorted(kinds - codes)
