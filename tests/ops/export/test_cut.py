"""The power fails before any single write of an export, at either end.

The export is not recorded, no catalog opens at the destination, and the export can be resumed.
"""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.retained import find_export
from olympia_cli.errors import CatalogNotFound, Damaged, ExportNotFound, OlympiaError, StorageFailed
from olympia_cli.format.paths import root_path
from olympia_cli.names import AtVersion
from olympia_cli.ops.export.export import create_export, resume_export
from olympia_cli.ops.export.files import Mode, read_note, scope
from olympia_cli.ops.export.records import delete_files, drop_export, plan_deletion, unfinished_exports
from olympia_cli.ops.export.verify import note_of, verify_export
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog, orphans, replay
from tests.helpers.clock import FakeClock
from tests.helpers.expire import mark
from tests.helpers.exports import make_catalog, own_files
from tests.helpers.stores import AmbiguousStore, CountingStore, CuttingStore, PowerCut

pytestmark = pytest.mark.usefixtures("decoded_once")

SCOPES = {
    "full": scope(Mode.FULL),
    "minimal": scope(Mode.MINIMAL),
    "nodes": scope(Mode.PARTIAL, None, definitions=False),
}
AT = 4


def start() -> MemoryStore:
    """A catalog whose first versions are expired: a full export of it has a catalog definition of its own."""
    store = MemoryStore("source")
    mark(make_catalog(store, tables=3), 2)
    return store


def copy(store: MemoryStore) -> MemoryStore:
    return MemoryStore(store._name, dict(store._files))


@pytest.fixture(scope="module")
def begun() -> MemoryStore:
    return start()


def writes(source: MemoryStore, wanted: str) -> tuple[int, int]:
    """Return the numbers of writes of an export at the source and at the destination."""
    ours, theirs = CuttingStore(copy(source)), CuttingStore(MemoryStore("dest"))
    create_export(Catalog(ours, FakeClock()), theirs, "friday", SCOPES[wanted])
    return ours.writes, theirs.writes


def finish(source: MemoryStore, dest: MemoryStore, wanted: str) -> None:
    """Whatever was interrupted: go on, or begin, and all is as it should be."""
    catalog = Catalog(source, FakeClock())
    recorded = "friday" in catalog.snapshot().definition.exported_snapshots
    if read_note(dest) is None:
        assert not recorded
        with pytest.raises(ExportNotFound):
            resume_export(catalog, dest, "friday")
        create_export(catalog, dest, "friday", SCOPES[wanted])
    else:
        there = set(own_files(dest))
        counting = CountingStore(dest)
        resume_export(catalog, counting, "friday")
        assert not there & set(counting.paths("create", "create_many")), "what was there is not copied again"
    definition = catalog.snapshot().definition
    assert unfinished_exports(catalog.snapshot()) == []
    record = find_export("friday", definition)
    assert (record.version, record.mode) == (AT, SCOPES[wanted].mode)
    checked = verify_export(dest, note_of(dest, record), source)
    assert checked.findings == ()
    if wanted == "full":
        assert check_catalog(dest)[AT] == check_catalog(source)[AT]
    replay(source)


@pytest.mark.parametrize("wanted", SCOPES)
def test_at_the_destination(begun, wanted):
    total = writes(begun, wanted)[1]
    assert total >= 3
    for cut in range(total):
        source, dest = copy(begun), MemoryStore("dest")
        with pytest.raises(PowerCut):
            create_export(Catalog(source, FakeClock()), CuttingStore(dest, cut), "friday", SCOPES[wanted])
        assert "friday" not in Catalog(source, FakeClock()).snapshot().definition.exported_snapshots
        assert not dest.exists(root_path(AT))
        with pytest.raises(CatalogNotFound):
            Catalog.open(dest)
        finish(source, dest, wanted)


@pytest.mark.parametrize("wanted", SCOPES)
def test_at_the_source(begun, wanted):
    total = writes(begun, wanted)[0]
    assert total == (6 if wanted == "full" else 7)
    for cut in range(total):
        source, dest = copy(begun), MemoryStore("dest")
        with pytest.raises(PowerCut):
            create_export(Catalog(CuttingStore(source, cut), FakeClock()), dest, "friday", SCOPES[wanted])
        check_catalog(source)
        recorded = "friday" in Catalog(source, FakeClock()).snapshot().definition.exported_snapshots
        assert recorded is (cut >= total - 3), "only the hint was missing, or the notes for status"
        finish(source, dest, wanted)
        # what the interrupted commit left behind: a definition, and perhaps a pin
        assert len(orphans(source)) <= 3


@pytest.mark.parametrize("wanted", SCOPES)
def test_again_and_again(begun, wanted):
    """Each run gets one write further than the one before."""
    source, dest = copy(begun), MemoryStore("dest")
    runs = 0
    while True:
        runs += 1
        catalog, cutting = Catalog(source, FakeClock()), CuttingStore(dest, 4)
        try:
            if read_note(dest) is None:
                create_export(catalog, cutting, "friday", SCOPES[wanted])
            else:
                resume_export(catalog, cutting, "friday")
            break
        except PowerCut:
            assert runs < 100
    finish(source, dest, wanted)
    assert runs >= 2 or wanted == "minimal"


@pytest.mark.parametrize("mode", ["lost_reply", "lost_request"])
@pytest.mark.parametrize("wanted", SCOPES)
def test_an_answer_is_lost(begun, wanted, mode):
    ours, theirs = writes(begun, wanted)
    for at in range(theirs):
        source, dest = copy(begun), MemoryStore("dest")
        catalog = Catalog(source, FakeClock())
        try:
            create_export(catalog, AmbiguousStore(dest, at, mode), "friday", SCOPES[wanted])
        except OlympiaError:
            assert "friday" not in catalog.snapshot().definition.exported_snapshots
        finish(source, dest, wanted)
    for at in range(ours):
        source, dest = copy(begun), MemoryStore("dest")
        try:
            create_export(Catalog(AmbiguousStore(source, at, mode), FakeClock()), dest, "friday", SCOPES[wanted])
        except OlympiaError:
            check_catalog(source)
        finish(source, dest, wanted)


def test_a_lost_answer_while_files_are_copied_says_how_to_go_on(begun):
    source, dest = copy(begun), MemoryStore("dest")
    # 0 and 1 are the question whether the store creates files exclusively, 2 its end, 3 the note
    with pytest.raises(StorageFailed, match="resume"):
        create_export(Catalog(source, FakeClock()), AmbiguousStore(dest, 5, "lost_reply"), "friday", SCOPES["full"])


def test_while_an_export_is_deleted(begun):
    """The record goes first, then the root: what is left is of no catalog, and nothing else is touched."""
    made, place = copy(begun), MemoryStore("dest")
    create_export(Catalog(made, FakeClock()), place, "friday", SCOPES["full"])
    total = len(place._files)
    for cut in range(total):
        source, dest = copy(made), copy(place)
        catalog = Catalog(source, FakeClock())
        cutting = CuttingStore(dest, cut)
        snapshot = catalog.snapshot()
        record, id = find_export("friday", snapshot.definition), snapshot.definition.id
        plan = plan_deletion(cutting, record, id, made.uri)
        drop_export(catalog, "friday")
        with pytest.raises(PowerCut):
            delete_files(plan)
        if cut:
            with pytest.raises(CatalogNotFound):
                Catalog.open(dest)
        assert read_note(dest) is not None
        check_catalog(source)


def test_a_damaged_version_leaves_a_destination_that_does_not_open(begun):
    source, dest = copy(begun), MemoryStore("dest")
    bad = max(path for path in source._files if path.startswith("def/table"))
    source.overwrite(bad, b"")
    with pytest.raises(Damaged):
        create_export(Catalog(source, FakeClock()), dest, "friday", SCOPES["full"], at=AtVersion(2))
    with pytest.raises(CatalogNotFound):
        Catalog.open(dest)
