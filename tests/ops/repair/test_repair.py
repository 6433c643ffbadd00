"""Damage real catalogs in every way, plan a repair, do it, and look at what is there: what the plan said, no less."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.retained import purged_before, read_quarantine
from olympia_cli.catalog.snapshot import expired_before
from olympia_cli.errors import (
    CatalogNotFound,
    CommitConflict,
    Damaged,
    OlympiaError,
    Refused,
    StorageFailed,
    Unsupported,
)
from olympia_cli.format import definitions
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.format.paths import FileKind, file_kind, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, RepairDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef, TableDef
from olympia_cli.names import AtVersion, Kind, NamespaceName, ObjectName
from olympia_cli.ops.expire import undo
from olympia_cli.ops.fsck import Level, Severity
from olympia_cli.ops.repair.content import put_together
from olympia_cli.ops.repair.files import ReadNode, RepairFiles
from olympia_cli.ops.repair.repair import RepairPlan, apply_repair, plan_repair
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.helpers import damage
from tests.helpers.check import check_catalog, check_versions, plain
from tests.helpers.clock import DAY, HOUR, START, FakeClock
from tests.helpers.damage_sample import Sample, make_sample, older_definitions, read_tree
from tests.helpers.expire import mark
from tests.helpers.fsck import fsck
from tests.helpers.java_catalog import sample as java_sample
from tests.helpers.names import location, ns, select, table, view
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut, WrappedStore
from tests.ops.expire.test_expire import Place

pytestmark = pytest.mark.usefixtures("decoded_once")

Objects = dict[ObjectName, dict[str, Any]]
AUTHOR = Author(by="mender@test")
CLOCK = FakeClock(START + 100 * HOUR)


@pytest.fixture(scope="module")
def sample() -> Sample:
    return make_sample()


@pytest.fixture(scope="module")
def expired() -> Sample:
    return make_sample(expired=True)


@pytest.fixture(params=["memory", "local"])
def make(request, tmp_path) -> Callable[[Sample], Store]:
    def to(sample: Sample) -> Store:
        if request.param == "memory":
            return sample.store()
        store = LocalStore(tmp_path / "catalog", durable=False)
        store.create_many(sample.files)
        return store

    return to


def files_of(store: Store) -> dict[str, bytes]:
    return {file.path: store.read(file.path) for file in store.list()}


def whole(store: Store) -> Objects:
    """Return the content of the latest version, which must be sound, without transactions: no repair mends those."""
    copy = MemoryStore()
    copy.create_many({path: data for path, data in files_of(store).items() if not path.startswith("dtxn/")})
    contents = check_catalog(copy, all_versions=False)
    return {name: plain(found) for name, found in contents[max(contents)].items()}


def latest(sample: Sample) -> Objects:
    return whole(sample.store())


def plan(store: Store, **how: Any) -> RepairPlan:
    """Plan, and see that nothing at all was written."""
    before = files_of(store)
    made = plan_repair(store, **how)
    assert files_of(store) == before
    made.describe()
    return made


def apply(store: Store, made: RepairPlan) -> int | None:
    """Do it, and see that no file that was there is another one now, hints apart."""
    before = files_of(store)
    version = apply_repair(store, CLOCK, made, AUTHOR)
    after = files_of(store)
    for path, data in before.items():
        if file_kind(path) is not FileKind.HINT:
            assert after[path] == data, f"{path} was overwritten"
    assert plan_repair(store).nothing_to_do, "a second look finds nothing more"
    check_by_fsck(store)
    return version


def check_by_fsck(store: Store) -> None:
    """Check that fsck finds no damage in the repaired version."""
    report = fsck(store, level=Level.FULL)
    hit = [
        finding
        for finding in report.findings
        if finding.severity is Severity.ERROR
        and any(first <= report.version <= last for first, last in finding.versions)
    ]
    assert not hit
    assert report.last_sound_version == report.version


def check_losses(before: Objects, after: Objects, made: RepairPlan) -> None:
    """Check that the lost, changed and new objects are exactly those of the plan."""
    loses, reverts = set(made.loses), {name for step in made.steps for name in step.reverts}
    ranges = [one for step in made.steps for one in step.lost_ranges]
    gone = before.keys() - after.keys()
    for name in gone - loses:
        assert ranges, f"{name} is gone, and the plan did not say so"
    assert loses & after.keys() == set(), "the plan said that it loses what is there"
    assert loses <= before.keys(), "the plan said that it loses what never was"
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    assert changed <= reverts | {name for name in changed if isinstance(name, NamespaceName)}, "changed unsaid"
    doubtful = {name for step in made.steps for name in step.doubtful}
    doubtful |= {NamespaceName(name.namespace) for name in doubtful}
    for name in (after.keys() - before.keys()) - reverts - doubtful:
        raise AssertionError(f"{name} is new")


def mend(store: Store, before: Objects, **how: Any) -> RepairPlan:
    made = plan(store, **how)
    assert made.steps, "the damage is not seen"
    head = made.head
    assert apply(store, made) == head + 1
    check_losses(before, whole(store), made)
    return made


def names(made: RepairPlan) -> set[str]:
    return {f"{name.kind.word} {name}" for name in made.loses}


# A sound catalog


def test_a_sound_catalog_needs_nothing(make, sample):
    store = make(sample)
    made = plan(store)
    assert made.nothing_to_do
    assert made.repair is None
    assert not made.unmended
    before = files_of(store)
    assert apply_repair(store, CLOCK, made, AUTHOR) is None
    assert files_of(store) == before


def test_a_repair_without_a_catalog_is_refused():
    with pytest.raises(CatalogNotFound):
        plan_repair(MemoryStore())


def test_a_java_catalog_is_not_written_to(tmp_path):
    java_sample(tmp_path)
    with pytest.raises(Unsupported):
        plan_repair(LocalStore(tmp_path))


# Any single file of the latest version


def every_file(sample: Sample, how: str) -> list[str]:
    """The root, all nodes, the catalog definition and some of the definitions of the latest version."""
    definitions_of_objects = sorted(
        path for path in sample.tree().files if path.startswith(("def/ns", "def/t", "def/v"))
    )
    left_out = set(definitions_of_objects) - set(definitions_of_objects[::4])
    if how == "missing":
        left_out.add(root_path(sample.latest))  # then the version before is the latest; see below
    return sorted(sample.tree().files - left_out)


def _reads(store: Store, path: str) -> bool:
    kind = {"catalog": Kind.CATALOG, "ns": Kind.NAMESPACE, "table": Kind.TABLE, "view": Kind.VIEW}[path.split("/")[1]]
    try:
        definitions.decode(definitions.CLASSES[kind], store.read(path), path)
    except Damaged:
        return False
    return True


@pytest.mark.parametrize("how", damage.FILE_DAMAGE)
def test_any_single_file_can_go_and_with_all_of_history_nothing_is_lost(sample, how):
    """All of history is there, so what a file held can always be put together again, from the log if need be."""
    before = latest(sample)
    for path in every_file(sample, how):
        store = sample.store()
        damage.spoil(store, path, how)
        try:
            made = mend(store, before)
        except Exception as error:
            error.add_note(f"{how} {path}")
            raise
        assert made.loses == (), (how, path)
        reverted = {str(name) for step in made.steps for name in step.reverts}
        if path != root_path(sample.latest):
            assert whole(store) == before, (how, path)
            assert reverted == set(), (how, path)


def without_roots_at_rest(sample: Sample) -> MemoryStore:
    """A purge has deleted the roots of what was in quarantine, and with them the log."""
    store = sample.store()
    store.delete_many([root_path(version) for version in range(sample.oldest)])
    return store


def test_a_repair_uses_versions_in_quarantine(expired):
    store = expired.store()
    path, _ = entry(expired, table("a.t00"))
    store.delete_many([path])
    made = mend(store, latest(expired))
    assert not made.loses
    assert whole(store) == latest(expired)


@pytest.mark.parametrize("how", damage.FILE_DAMAGE)
def test_any_single_file_can_go_after_an_expire(expired, how):
    """The log does not reach back to the beginning, so some of it is lost: then the plan names it."""
    before = latest(expired)
    lost = 0
    for path in every_file(expired, how):
        store = without_roots_at_rest(expired)
        damage.spoil(store, path, how)
        try:
            made = mend(store, before)
        except Exception as error:
            error.add_note(f"{how} {path}")
            raise
        lost += len(made.loses)
    assert lost, "a definition that only the expired versions' log has is lost"


def test_a_cut_definition_is_detected_through_the_log(make):
    """The definition can be parsed, and has no checksum, like those of other programs."""
    sample = make_sample(older=4)
    before = latest(sample)
    store = make(sample)
    path, _ = entry(sample, table("b.t03"))
    data = store.read(path)
    store.overwrite(path, damage.cut_behind_id(data))
    assert _reads(store, path)
    made = mend(store, before)
    [what, origin] = made.steps[0].details
    assert what == f"{path}: it has no digest, and contradicts the log"
    assert "as the log of v4 has it" in origin
    assert whole(store) == before


@pytest.mark.parametrize("how", ["truncated", "empty", "flipped", "parquet", "missing"])
def test_two_files_at_once_on_any_store(make, sample, how):
    before = latest(sample)
    store = make(sample)
    tree = sample.tree()
    for path in (tree.leaves[0], tree.entries[sample.keys.encode(table("b.t03"))][0]):
        damage.spoil(store, path, how)
    mend(store, before)
    assert whole(store) == before


def test_all_nodes_can_go(make, sample):
    before = latest(sample)
    store = make(sample)
    store.delete_many([file.path for file in store.list("node/")])
    mend(store, before)
    assert whole(store) == before


def test_all_definitions_can_go(make, sample):
    before = latest(sample)
    store = make(sample)
    store.delete_many([file.path for file in store.list("def/")])
    made = mend(store, before)
    assert made.loses == ()
    assert whole(store) == before


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_to_several_files(sample, seed):
    """Whatever it is: the repair is refused, or what it leaves is sound and what it loses was said."""
    chosen = random.Random(seed)
    store = sample.store()
    paths = sorted(path for path in sample.files if path.startswith(("vn/0", "vn/1", "node/", "def/")))
    newest = [root_path(version) for version in range(sample.latest - 4, sample.latest + 1)]
    for _ in range(chosen.choice([2, 3, 5, 12])):
        path = chosen.choice(newest if chosen.random() < 0.3 else paths)
        how = chosen.choice(damage.FILE_DAMAGE[:-1] if path in newest else damage.FILE_DAMAGE)
        if store.exists(path):
            with contextlib.suppress(ValueError):  # damaged before: no bit of it matters any more
                damage.spoil(store, path, how)
    try:
        made = plan(store)
    except Refused:
        return
    apply(store, made)
    check_losses(latest(sample), whole(store), made)


# The shape of the tree


def entry(sample: Sample, name: ObjectName) -> tuple[str, str]:
    """The path of its definition, and the node that holds its key."""
    return sample.tree().entries[sample.keys.encode(name)]


def leaf_of_tables(sample: Sample) -> str:
    tree = sample.tree()
    return next(path for path in tree.leaves if all(key.startswith("C===a") for key in tree.nodes[path].keys))


SHAPES: dict[str, Callable[[Node], Node]] = {
    "keys out of order": damage.reversed_keys,
    "a key twice": damage.doubled_key,
    "no keys": damage.no_keys,
    "a pointer outside": damage.with_value(0, "../../secret"),
    "a key that no object has": damage.with_key(0, "C===zz"),
    "a key of no known type": damage.with_key(0, "Z===a"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_leaf_with_impossible_content_is_repaired(make, sample, shape):
    before = latest(sample)
    store = make(sample)
    damage.rewrite_node(store, leaf_of_tables(sample), SHAPES[shape])
    made = plan(store)
    apply(store, made)
    after = whole(store)
    if shape.startswith("a key "):
        # the file is sound and its checksum is correct: no program can know that the key was another one
        assert before.keys() - after.keys() <= before.keys()
    if shape != "a key that no object has" and shape != "a key of no known type":
        assert after == before


def test_wrong_n_keys(make, sample):
    before = latest(sample)
    for wrong in ("0", "1", "99", "many", None):
        store = sample.store()
        damage.rewrite_raw(store, leaf_of_tables(sample), lambda raw, wrong=wrong: raw.set("n_keys", wrong))
        mend(store, before)
        assert whole(store) == before


def test_a_cycle(make, sample):
    before = latest(sample)
    store = make(sample)
    tree = sample.tree()
    inner = tree.inner[0]
    damage.rewrite_node(store, inner, damage.with_child(1, inner))
    mend(store, before)
    assert whole(store) == before
    other = sample.store()
    damage.rewrite_node(other, inner, damage.with_child(1, root_path(sample.latest)))
    mend(other, before)
    assert whole(other) == before


def test_a_node_under_two_parents(make, sample):
    before = latest(sample)
    store = make(sample)
    tree = sample.tree()
    first, second = (path for path in tree.inner[:2])
    shared = str(tree.nodes[first].children[0])
    damage.rewrite_node(store, second, damage.with_child(0, shared))
    mend(store, before)
    assert whole(store) == before


def test_keys_outside_the_range_of_their_parent(make, sample):
    before = latest(sample)
    store = make(sample)
    tree = sample.tree()
    children = tree.root.node.children
    damage.rewrite_node(store, tree.path, damage.with_children(reversed([str(child) for child in children])))
    mend(store, before)
    assert whole(store) == before


def test_a_leaf_on_the_wrong_level(make, sample):
    before = latest(sample)
    store = make(sample)
    tree = sample.tree()
    parent = tree.inner[0]
    leaf = str(tree.nodes[parent].children[0])
    lower = damage.add_node(store, tree.nodes[leaf])
    node = tree.nodes[leaf]
    middle = damage.add_node(store, Node(node.keys[:1], node.values[:1], (lower, lower)))
    damage.rewrite_node(store, parent, damage.with_child(0, middle))
    mend(store, before)
    assert whole(store) == before


def test_leaves_that_are_too_deep_but_hide_nothing(make, sample):
    """A subtree is a level deeper than its neighbours: all keys can be read, and the tree is rebuilt."""
    before = latest(sample)
    store = make(sample)
    tree = sample.tree()
    path = next(path for path in tree.leaves if len(tree.nodes[path].keys) == 3)
    node = tree.nodes[path]
    left = damage.add_node(store, Node(node.keys[:1], node.values[:1]))
    right = damage.add_node(store, Node(node.keys[2:], node.values[2:]))
    damage.rewrite_node(store, path, lambda node: Node(node.keys[1:2], node.values[1:2], (left, right)))
    made = mend(store, before)
    assert "has 2 levels, and its siblings 1" in " ".join(made.steps[0].details)
    assert whole(store) == before


def test_overfull_and_underfull_nodes(make, sample):
    before = latest(sample)
    tree = sample.tree()
    store = make(sample)
    damage.rewrite_node(store, tree.path, lambda node: replace(node, keys=(), values=(), children=node.children[:1]))
    made = plan(store)
    assert "it is a root with a single child" in " ".join(made.steps[0].details)
    apply(store, made)
    whole(store)
    other = sample.store()
    damage.rewrite_node(other, leaf_of_tables(sample), damage.crowded(sample.keys, 4))
    made = plan(other)
    assert "keys, and a node of order 4 at most 3" in " ".join(made.steps[0].details)
    assert not made.unmended
    apply_repair(other, CLOCK, made, AUTHOR)
    assert whole(other) == before, "no commit made the new keys, which have the definition of another"


@pytest.mark.parametrize("has_log", [True, False], ids=["with the log", "without a part of it"])
def test_the_log_has_the_keys_that_a_node_lacks(has_log):
    catalog = Catalog.create(MemoryStore(), order=8)
    store = catalog.store
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
    with catalog.transaction() as transaction:
        for number in range(40):
            transaction.create_table(table(f"a.t{number:02}"), location(number))
    before = whole(store)
    leaf = catalog.snapshot().root.node.children[0]
    damage.rewrite_node(store, leaf, lambda node: Node(node.keys[:1], node.values[:1]))
    if not has_log:
        damage.spoil(store, root_path(1), "zeros")
    made = plan(store)
    assert [bool(step.lost_ranges) for step in made.steps] == [not has_log]
    apply(store, made)
    after = whole(store)
    assert after == before if has_log else after


def test_a_table_without_its_namespace_gets_one(make, sample):
    before = latest(sample)
    store = make(sample)
    key = sample.keys.encode(ns("a"))
    _, holder = entry(sample, ns("a"))
    damage.rewrite_node(store, holder, lambda node: _renamed(node, key, sample.keys.encode(ns("aa"))))
    made = plan(store)
    apply(store, made)
    after = whole(store)
    assert after.keys() - before.keys() == {ns("aa")}
    assert before.keys() - after.keys() == set()
    assert after[ns("a")].keys() == {"id"}, "created again, without properties"
    assert "namespace a: created again" in " ".join(made.steps[0].details)


def _renamed(node: Node, old: str, new: str) -> Node:
    return replace(node, keys=tuple(new if key == old else key for key in node.keys))


def test_two_objects_with_one_id_are_reported_and_left(make, sample):
    store = make(sample)
    path, _ = entry(sample, table("b.t00"))
    other, _ = entry(sample, table("b.t01"))
    id = definitions.decode(definitions.CLASSES[table("b.t00").kind], store.read(path), path).id
    damage.rewrite_definition(store, other, lambda found: setattr(found, "id", id))
    made = plan(store)
    assert made.nothing_to_do
    assert len(made.unmended) == 1
    assert "b.t00" in made.unmended[0]
    assert "b.t01" in made.unmended[0]


@pytest.mark.parametrize("change", ["no id", "not parsed"])
def test_definitions_that_are_none(make, sample, change):
    before = latest(sample)
    store = make(sample)
    path, _ = entry(sample, table("a.t02"))
    if change == "no id":
        damage.rewrite_definition(store, path, lambda found: found.ClearField("id"))
    else:
        store.overwrite(path, b"\xff\xff\xff")
    mend(store, before)
    assert whole(store) == before


# The root


def test_a_root_that_does_not_name_the_version_before(make, sample):
    before = latest(sample)
    for wrong in (root_path(3), root_path(sample.latest), None, "nonsense"):
        store = sample.store()
        damage.rewrite_raw(store, root_path(sample.latest), lambda raw, wrong=wrong: raw.set("previous_root", wrong))
        mend(store, before)
        assert whole(store) == before


def test_action_rows_that_do_not_decode(make, sample):
    before = latest(sample)
    store = make(sample)
    damage.rewrite_raw(store, root_path(sample.latest), damage.with_action("!!!"))
    made = mend(store, before)
    assert "its action row for 'B===a' cannot be decoded" in " ".join(made.steps[0].details)
    assert whole(store) == before


def test_a_definition_of_another_catalog(make, sample):
    before = latest(sample)
    store = make(sample)
    path = sample.tree().root.catalog_def
    old = sample.tree(sample.latest - 1).root.catalog_def
    fresh = "def/catalog/11111111-1111-4111-8111-111111111111.binpb"
    found = CatalogDef.FromString(store.read(path))
    found.id = "22222222-2222-4222-8222-222222222222"
    store.create(fresh, definitions.encode(definitions.body(found), fresh))
    damage.rewrite_raw(store, root_path(sample.latest), lambda raw: raw.set("catalog_def", fresh))
    mend(store, before)
    assert check_versions(_without_transactions(store), all_versions=False)[0].catalog.id == _catalog(store, old).id


def _catalog(store: Store, path: str) -> Any:
    return CatalogDef.FromString(store.read(path))


def _without_transactions(store: Store) -> Store:
    copy = MemoryStore()
    copy.create_many({path: data for path, data in files_of(store).items() if not path.startswith("dtxn/")})
    return copy


def test_a_restored_catalog_definition_keeps_exports_and_expire_state(make, expired):
    before = latest(expired)
    store = make(expired)
    was = _catalog(store, expired.tree().root.catalog_def)
    for version in (expired.latest, expired.latest - 1, expired.latest - 2):
        store.delete_many([expired.tree(version).root.catalog_def])
    mend(store, before)
    [version] = check_versions(_without_transactions(store), all_versions=False)
    assert plain(version.catalog) == plain(was)


@pytest.mark.parametrize("lost", [1, 2], ids=["purge", "mark and purge"])
def test_a_repair_does_not_revive_purged_versions(lost):
    place = Place()
    place.namespace()
    for keep_last in (8, 4):
        for number in range(10):
            place.commit(f"a.t{keep_last}{number}")
        place.clock.advance(20 * DAY)
        place.mark(keep_last=keep_last)
        place.clock.advance(25 * HOUR)
        place.purge()
    [oldest, *_, head] = place.roots
    for version in range(head - lost + 1, head + 1):
        damage.spoil(place.store, root_path(version), "empty")
    apply(place.store, plan(place.store))
    definition = place.head.definition
    assert (expired_before(definition), purged_before(definition)) == (oldest, oldest)
    assert read_quarantine(definition) == []
    assert undo(place.catalog) is None
    report = fsck(place.store, all_versions=True, clock=place.clock)
    assert "F101" not in {finding.code for finding in report.findings}


@pytest.mark.parametrize("lose", [(), ("root",), ("manifest",)], ids=["whole", "root", "manifest"])
def test_the_quarantine_stays_if_it_is_whole(lose):
    """The lost commit changed the definition of the catalog, and no log tells how."""
    place = Place()
    place.namespace()
    for number in range(10):
        place.commit(f"a.t{number}")
    place.clock.advance(20 * DAY)
    place.mark(keep_last=4)
    [mark] = read_quarantine(place.head.definition)
    place.clock.advance(2 * DAY)
    with place.catalog.transaction() as transaction:
        transaction.alter_catalog({"k": "v"})
    head = place.head.version
    place.store.delete_many([root_path(head)])
    place.store.delete_many([{"root": root_path(3), "manifest": mark.manifest}[what] for what in lose])
    planned = plan(place.store)
    apply(place.store, planned)
    marks, told = read_quarantine(place.head.definition), planned.steps[0].text
    if lose:
        assert marks == []
        assert "leave quarantine, and no undo can bring them back" in told
        assert planned.leaves_versions == mark.oldest - ("root" in lose)
    else:
        # its time begins again: the lost commit may have needed the files
        assert marks == [replace(mark, version=place.head.version)]
        place.clock.advance(DAY // 2)
        assert place.purge().is_empty
        assert f"v0 to v{mark.oldest - 1} stay in quarantine" in told
        assert undo(place.catalog) is not None
        assert place.catalog.snapshot(AtVersion(2)).version == 2
    assert not fsck(place.store, all_versions=True, clock=place.clock).damaged


def test_the_repair_is_in_the_log(make, sample):
    store = make(sample)
    damage.spoil(store, root_path(sample.latest), "truncated")
    apply(store, plan(store))
    [version] = check_versions(_without_transactions(store), all_versions=False)
    [action] = [action for action in version.actions if action.type == ActionType.CATALOG_REPAIR]
    assert "cut short" in action.parse_payload(RepairDef).description
    assert version.info.by == "mender@test"
    assert version.info.began_at_version == sample.latest
    assert version.root.previous_root == root_path(sample.latest)
    assert version.root.created_at_millis >= sample.tree(sample.latest - 1).root.created_at_millis


def test_time_never_runs_backwards(sample):
    store = sample.store()
    damage.spoil(store, leaf_of_tables(sample), "empty")
    made = plan_repair(store, prefer="auto")
    apply_repair(store, FakeClock(5), made, AUTHOR)
    assert Catalog(store).snapshot().created_at_millis == sample.tree().root.created_at_millis


# Hints


HINTS = {
    "latest missing": ("vn/latest", None, b"13"),
    "latest garbage": ("vn/latest", b"\xff\x00twelve", b"13"),
    "latest behind": ("vn/latest", b"2", b"13"),
    "oldest missing": ("vn/oldest", None, b"6"),
    "oldest garbage": ("vn/oldest", b"six", b"6"),
    "oldest leads": ("vn/oldest", b"9", b"6"),
    "oldest beyond latest": ("vn/oldest", b"99", b"6"),
}


@pytest.mark.parametrize("case", HINTS)
def test_a_repair_rewrites_damaged_hints(make, expired, case):
    path, wrong, right = HINTS[case]
    store = make(expired)
    if wrong is None:
        store.delete_many([path])
    else:
        store.overwrite(path, wrong)
    made = plan(store)
    assert [step.kind for step in made.steps] == [f"hint {path.removeprefix('vn/')}"]
    assert made.loses == ()
    assert apply(store, made) is None
    assert store.read(path) == right
    whole(store)


def test_an_oldest_that_lags_is_fine(make, expired):
    store = make(expired)
    store.overwrite("vn/oldest", b"3")
    assert plan(store).nothing_to_do


def test_without_an_expire_the_first_version_is_the_oldest(make, sample):
    store = make(sample)
    assert not store.exists("vn/oldest")
    store.overwrite("vn/oldest", b"5")
    apply(store, plan(store))
    assert store.read("vn/oldest") == b"0"


def test_hints_and_tree_at_once(make, expired):
    before = latest(expired)
    store = make(expired)
    store.overwrite("vn/latest", b"junk")
    store.overwrite("vn/oldest", b"junk")
    damage.spoil(store, leaf_of_tables(expired), "empty")
    made = mend(store, before)
    assert [step.kind for step in made.steps] == ["rebuild", "hint latest", "hint oldest"]
    assert (store.read("vn/latest"), store.read("vn/oldest")) == (b"14", b"6")


# Gaps


def test_a_repair_over_a_gap_is_refused(make, sample):
    for missing in ([11], [3], [5, 6, 7]):
        store = sample.store()
        store.delete_many([root_path(version) for version in missing])
        with pytest.raises(Refused, match=root_path(sample.latest)) as refused:
            plan(store)
        assert "fsck --salvage" in refused.value.hint
        assert str(missing[0]) in refused.value.message


def test_roots_below_the_oldest_are_no_gap(make, expired):
    store = make(expired)
    store.delete_many([root_path(version) for version in (1, 2, 5)])
    assert plan(store).nothing_to_do


# Which way


def broken_at_the_end(sample: Sample) -> Store:
    """The last two versions cannot be read, nor can what they did."""
    store = sample.store()
    for version in (sample.latest, sample.latest - 1):
        damage.spoil(store, root_path(version), "empty")
    return store


def test_a_repair_loses_only_changes_of_unreadable_versions(sample):
    before = latest(sample)
    store = broken_at_the_end(sample)
    old = sample.tree(sample.latest - 2)
    store.delete_many(
        {path for version in (11, 12) for path in sample.tree(version).files if path.startswith(("node/", "def/"))}
        - old.files
    )
    made = plan(store)
    apply(store, made)
    after = whole(store)
    assert before.keys() - after.keys() == {table("d.second"), view("d.v")}
    [one] = made.steps[0].lost_ranges
    assert one.as_of == sample.latest - 2
    assert "all of the catalog: as of v10" in str(one)


def test_a_rollback_on_request(make, sample):
    before = latest(sample)
    store = make(sample)
    damage.spoil(store, root_path(sample.latest), "truncated")
    made = mend(store, before, prefer="rollback")
    assert made.steps[0].kind == "rollback"
    assert "go back to v11" in made.steps[0].text
    assert [step.kind for step in made.alternatives] == ["rebuild"]
    assert whole(store) == whole_at(sample, 11)


def whole_at(sample: Sample, version: int) -> Objects:
    store = sample.store()
    snapshot = Catalog(store).snapshot(AtVersion(version))
    return {
        name: plain(next(snapshot.read_objects([(name, path)])).definition)
        for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
        for name, path in snapshot.scan(kind)
    }


def test_a_rollback_repair_lists_its_losses(sample):
    store = sample.store()
    tree, older = sample.tree(), sample.tree(10)
    shared = sample.tree(11).nodes.keys() & tree.nodes.keys()
    damage.spoil(store, next(path for path in sorted(shared) if path not in older.nodes), "empty")
    made = plan(store, prefer="rollback")
    loses = names(made)
    assert "table d.second" in loses
    assert "view d.v" in loses
    apply(store, made)
    assert table("d.second") not in whole(store)
    check_losses(latest(sample), whole(store), made)


def test_a_rollback_needs_a_sound_version(sample):
    store = sample.store()
    store.delete_many([file.path for file in store.list("def/")])
    with pytest.raises(Refused, match="no sound version"):
        plan(store, prefer="rollback")


def test_auto_chooses_the_repair_that_loses_less(expired):
    """A definition that is lost everywhere: a rollback cannot bring it back either, unless a version is without it."""
    store = without_roots_at_rest(expired)
    path, _ = entry(expired, table("a.t00"))
    store.delete_many([path])
    made = plan(store)
    assert made.steps[0].kind == "rebuild"
    assert names(made) == {"table a.t00"}
    assert plan(store, prefer="rebuild").steps == made.steps
    apply(store, made)
    assert table("a.t00") not in whole(store)


def test_a_way_that_is_none(sample):
    with pytest.raises(OlympiaError, match="not a way to repair"):
        plan_repair(sample.store(), prefer="magic")  # type: ignore[arg-type]


# What fsck says of the latest version, a repair says too


@pytest.mark.parametrize("owner", [ns("c"), table("b.t00")], ids=str)
def test_an_object_with_the_id_of_the_catalog_is_reported_and_left(sample, owner):
    store = sample.store()
    path, _ = entry(sample, owner)
    id = _catalog(store, sample.tree().root.catalog_def).id
    damage.rewrite_definition(store, path, lambda found: setattr(found, "id", id))
    made = plan(store)
    assert made.nothing_to_do
    assert made.unmended == (
        f"{owner.kind.word} {owner} has the id {id} of the catalog: drop it and register it again",
    )


def test_a_log_that_fsck_cannot_read_is_mended(sample):
    """The rows are whole, and their digest says so; what frames them is not."""
    before = latest(sample)
    path = root_path(sample.latest)
    data = sample.files[path]
    for at in range(len(data) - 1, 0, -7):
        store = sample.store()
        store.overwrite(path, data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :])
        codes = {finding.code for finding in fsck(store, level=Level.FULL).findings}
        if codes == {"F401"}:
            mend(store, before)
            assert whole(store) == before
            break
    else:
        pytest.fail("no such byte")


@pytest.mark.parametrize("change", ["id", "sizes", "no sizes"])
def test_several_versions_with_a_definition_of_another_catalog(sample, change):
    """The definition that most versions have is right, although the newest ones agree on another."""
    before = latest(sample)
    store = sample.store()
    path = sample.tree().root.catalog_def
    old = sample.tree(9).root.catalog_def
    assert sample.tree(10).root.catalog_def == sample.tree(11).root.catalog_def == path

    def lie(found: Any) -> None:
        if change == "id":
            found.id = "22222222-2222-4222-8222-222222222222"
        else:
            found.table_name_max_size_bytes = 77 if change == "sizes" else 0

    damage.rewrite_definition(store, path, lie)
    [step] = plan(store, prefer="rollback").steps
    assert "go back to v9," in step.text
    mend(store, before)
    assert check_versions(_without_transactions(store), all_versions=False)[0].catalog.id == _catalog(store, old).id


@pytest.mark.parametrize(
    ("older", "told"),
    [
        (lambda: older_definitions(4), "contradicts the log"),
        (lambda: older_definitions(8), "its checksum is missing"),
        (contextlib.nullcontext, "truncated: "),
    ],
)
def test_a_cut_catalog_definition_is_detected(older, told):
    store = MemoryStore("cut")
    with older():
        catalog = Catalog.create(store, properties={"team": "data"})
        with catalog.transaction() as t:
            t.alter_catalog({"team": "other"})
    path = catalog.snapshot().root.catalog_def
    data = store.read(path)
    short = data[: data.index(b"team") - 4]
    store.overwrite(path, short)
    assert not CatalogDef.FromString(short).properties
    made = plan(store)
    assert told in made.steps[0].details[0]
    apply(store, made)
    assert catalog.snapshot().definition.properties["team"] == "other"


def test_a_version_with_two_objects_of_one_id_is_none_to_go_back_to(sample):
    store = sample.store()
    id = TableDef.FromString(store.read(entry(sample, table("b.t00"))[0])).id
    other = sample.tree(11).entries[sample.keys.encode(table("b.t01"))][0]
    damage.rewrite_definition(store, other, lambda found: setattr(found, "id", id))
    damage.spoil(store, root_path(sample.latest), "empty")
    [step] = plan(store, prefer="rollback").steps
    sound = fsck(store, level=Level.FULL).last_sound_version
    assert sound < 11
    assert f"go back to v{sound}," in step.text


def test_a_version_with_a_cut_definition_is_none_to_go_back_to(sample):
    store = sample.store()
    path, _ = entry(sample, table("b.t03"))
    store.overwrite(path, damage.cut_behind_id(store.read(path)))
    [step] = plan(store, prefer="rollback").steps
    sound = fsck(store, level=Level.FULL).last_sound_version
    assert sound < 4
    assert f"go back to v{sound}," in step.text


def test_a_definition_that_a_pointer_takes_for_a_node_is_still_whole(sample):
    before = latest(sample)
    store = sample.store()
    path, _ = entry(sample, table("a.t03"))
    damage.rewrite_node(store, sample.tree().path, damage.with_child(0, path))
    [step] = plan(store, prefer="rollback").steps
    assert "go back to v11," in step.text
    mend(store, before)
    assert whole(store) == before


def test_a_gap_of_all_versions_is_refused_at_once(sample):
    store = sample.store()
    store.create(root_path(2**32 - 1), store.read(root_path(sample.latest)))
    damage.rewrite_raw(store, root_path(2**32 - 1), lambda raw: raw.set("previous_root", root_path(2**32 - 2)))
    with pytest.raises(Refused, match=r"versions 13, 14, 15, 16, 17, … of up to 4294967295 are missing"):
        plan(store)


# Others, and failures


def test_a_commit_between_plan_and_apply_is_a_conflict(make, sample):
    store = make(sample)
    damage.spoil(store, leaf_of_tables(sample), "empty")
    made = plan(store)
    # another one was faster
    apply_repair(store, CLOCK, plan(store), AUTHOR)
    before = files_of(store)
    with pytest.raises(CommitConflict, match="since this was planned"):
        apply_repair(store, CLOCK, made, AUTHOR)
    assert files_of(store) == before
    whole(store)


def test_a_commit_at_the_last_moment_is_a_conflict_too(sample):
    store = sample.store()
    damage.spoil(store, leaf_of_tables(sample), "empty")
    made, other = plan(store), plan(store)

    class Racing(WrappedStore):
        def create(self, path: str, data: bytes) -> None:
            if file_kind(path) is FileKind.ROOT:
                apply_repair(self.inner, CLOCK, other, AUTHOR)
            super().create(path, data)

    with pytest.raises(CommitConflict):
        apply_repair(Racing(store), CLOCK, made, AUTHOR)
    assert Catalog(store).snapshot().version == sample.latest + 1
    whole(store)


def test_a_commit_between_plan_and_apply_of_hints_is_a_conflict(make, sample):
    store = make(sample)
    store.overwrite("vn/latest", b"junk")
    made = plan(store)
    with Catalog(store).transaction() as transaction:
        transaction.create_namespace(ns("new"))
    with pytest.raises(CommitConflict):
        apply_repair(store, CLOCK, made, AUTHOR)
    assert store.read("vn/latest") == b"13"


@pytest.mark.parametrize("damaged", ["root", "leaf", "definition", "hints", "rollback"])
def test_a_power_cut_at_any_write(make, sample, damaged, tmp_path):
    """Afterwards the catalog is as it was or repaired, and the next run finishes."""
    before = latest(sample)

    def damaged_store(to: Store) -> Store:
        if damaged in ("root", "rollback"):
            damage.spoil(to, root_path(sample.latest), "truncated")
        elif damaged == "leaf":
            damage.spoil(to, leaf_of_tables(sample), "empty")
        elif damaged == "definition":
            damage.spoil(to, entry(sample, table("a.t02"))[0], "missing")
        to.overwrite("vn/latest", b"junk")
        to.overwrite("vn/oldest", b"junk")
        return to

    prefer: Any = "rollback" if damaged == "rollback" else "auto"
    counting = CountingStore(damaged_store(sample.store()))
    apply_repair(counting, CLOCK, plan_repair(counting, prefer=prefer), AUTHOR)
    for number in range(counting.writes):
        store = make(sample) if number == 0 else sample.store()
        damaged_store(store)
        was = files_of(store)
        made = plan_repair(store, prefer=prefer)
        with pytest.raises(PowerCut):
            apply_repair(CuttingStore(store, number), CLOCK, made, AUTHOR)
        now = files_of(store)
        assert {path: now[path] for path in was if file_kind(path) is not FileKind.HINT} == {
            path: data for path, data in was.items() if file_kind(path) is not FileKind.HINT
        }
        again = plan_repair(store, prefer=prefer)
        if not again.nothing_to_do:
            apply_repair(store, CLOCK, again, AUTHOR)
        after = whole(store)
        assert after == (whole_at(sample, 11) if damaged == "rollback" else after)
        if damaged in ("leaf", "definition", "hints"):
            assert after == before
        assert plan_repair(store).nothing_to_do


def test_a_store_that_fails_is_no_damage(sample):
    """A network that fails must not make a repair throw away what is there."""
    store = sample.store()
    damage.spoil(store, leaf_of_tables(sample), "empty")
    path, _ = entry(sample, table("b.t00"))

    class Failing(WrappedStore):
        def read_many(self, paths: Any) -> Any:
            for one, data in self.inner.read_many(paths):
                yield one, StorageFailed("no answer") if one == path else data

    before = files_of(store)
    with pytest.raises(StorageFailed):
        plan_repair(Failing(store))
    assert files_of(store) == before


def test_a_transaction_that_was_open_conflicts_with_a_repair(sample):
    store = sample.store()
    catalog = Catalog(store, FakeClock(START + 20 * HOUR))
    transaction = catalog.begin()
    transaction.create_namespace(ns("meanwhile"))
    damage.spoil(store, leaf_of_tables(sample), "empty")
    apply(store, plan(store))
    with pytest.raises(CommitConflict, match="CATALOG_REPAIR"):
        catalog.commit(transaction)
    assert ns("meanwhile") not in whole(store)


def test_life_goes_on_after_a_repair(make, sample):
    store = make(sample)
    damage.spoil(store, root_path(sample.latest), "empty")
    apply(store, plan(store))
    catalog = Catalog(store, FakeClock(START + 200 * HOUR))
    with catalog.transaction() as transaction:
        transaction.create_table(table("a.after"), location())
        transaction.create_view(view("a.after"), select())
    assert {table("a.after"), view("a.after")} <= whole(store).keys()
    again = catalog.begin()
    again.roll_back(10)
    catalog.commit(again)
    assert whole(store) == whole_at(sample, 10)


# Cost


class CountingFiles(RepairFiles):
    """Counts the nodes that are asked for, remembered or not."""

    asked = 0

    def nodes(self, paths: Sequence[str]) -> list[ReadNode]:
        self.asked += len(paths)
        return super().nodes(paths)


class CountingCodec(KeyCodec):
    encoded = 0

    def encode(self, name: ObjectName) -> str:
        CountingCodec.encoded += 1
        return super().encode(name)


def cost(versions: int, bad: int) -> tuple[int, int]:
    """Return the cost of assembling a version with unreadable leaves: nodes requested, keys made."""
    store = MemoryStore()
    catalog = Catalog.create(store, order=4)
    with catalog.transaction() as t:
        t.create_namespace(ns("a"))
        for number in range(100):
            t.create_table(table(f"a.t{number:02}"), location(number))
    for number in range(versions):
        with catalog.transaction() as t:
            t.alter_table(table("a.t00"), {"k": str(number)})
    tree = read_tree(store, root_path(versions + 1))
    for path in sorted(tree.leaves, key=lambda path: tree.nodes[path].keys)[-bad:]:
        store.overwrite(path, b"")
    definition = catalog.snapshot().definition
    sizes = sizes_of(definition)
    codec = CountingCodec(sizes.namespace, sizes.table, sizes.view)
    CountingCodec.encoded = 0
    files = CountingFiles(store)
    content = put_together(files, range(versions + 2), codec, definition)
    assert len(content.notes) == bad
    return files.asked, CountingCodec.encoded


def test_a_bad_node_is_not_looked_for_in_every_version_that_shares_it():
    assert cost(40, 5)[0] == cost(10, 5)[0]


def test_a_repair_applies_each_action_only_to_affected_leaves():
    actions = 101 + 10
    assert cost(10, 8)[1] <= 2 * actions


def _cut(store, path: str) -> None:
    """Cut a table's definition, so that the rest can be parsed."""
    store.overwrite(path, TableDef(id=TableDef.FromString(store.read(path)).id).SerializeToString())


def test_cut_definition_is_found_by_id_after_a_rename():
    """The log names the namespace that it was written in, which has another name by now."""
    store = MemoryStore("renamed")
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        transaction.create_table(table("a.t"), location(1))
    with catalog.transaction() as transaction:
        transaction.rename_namespace(ns("a"), ns("z"))
    _cut(store, catalog.snapshot().table(table("z.t")).path)
    assert "F304" in {one.code for one in fsck(store, level=Level.FULL).findings}
    plan = plan_repair(store)
    assert [step.kind for step in plan.steps] == ["rebuild"]
    apply_repair(store, FakeClock(), plan, Author())
    assert catalog.snapshot().table(table("z.t")).definition.iceberg_metadata_location == location(1)


def test_the_log_of_versions_in_quarantine_tells_too():
    store, clock = MemoryStore("resting"), FakeClock()
    catalog = Catalog.create(store, clock=clock)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        transaction.create_table(table("a.t"), location(1))
    for name in "bc":
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns(name))
    mark(catalog, 3)
    _cut(store, catalog.snapshot().table(table("a.t")).path)
    assert "F304" in {one.code for one in fsck(store, level=Level.FULL, clock=clock).findings}
    apply_repair(store, clock, plan_repair(store), Author())
    assert catalog.snapshot().table(table("a.t")).definition.iceberg_metadata_location == location(1)
