"""A catalog that was written once reads today as it did then: see tests/golden/make.py."""

import json
from hashlib import sha256

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.format.definitions import CLASSES, Digest, check_digest, decode
from olympia_cli.format.node_file import decode_action_rows, decode_node
from olympia_cli.format.paths import FileKind, file_kind, parse_root_path
from olympia_cli.names import AtVersion, Kind, NamespaceName, TableName, ViewName
from olympia_cli.storage.local import LocalStore
from tests.golden.make import EXPECTED, FOLDER, as_dict, describe_version, rows
from tests.helpers.check import check_catalog, orphans, replay

GOLDEN = json.loads(EXPECTED.read_text())
STORE = LocalStore(FOLDER)
NAMES = {"namespace": lambda namespace, _: NamespaceName(namespace), "table": TableName, "view": ViewName}
KINDS = {"catalog": Kind.CATALOG, "ns": Kind.NAMESPACE, "table": Kind.TABLE, "view": Kind.VIEW}
NODES = sorted(GOLDEN["rows"])
DEFINITIONS = sorted(GOLDEN["definitions"])


def test_the_files_are_the_ones_that_were_written():
    found = {file.path: sha256(STORE.read(file.path)).hexdigest() for file in STORE.list()}
    assert found == GOLDEN["files"]


def test_every_kind_of_file_is_among_them():
    kinds = {file_kind(path) for path in GOLDEN["files"]}
    assert kinds == {FileKind.ROOT, FileKind.HINT, FileKind.NODE, FileKind.DEFINITION}
    assert {path.split("/")[1] for path in DEFINITIONS} == set(KINDS)


@pytest.mark.parametrize("version", range(len(GOLDEN["versions"])))
def test_every_version_reads_as_it_did(version):
    snapshot = Catalog.open(STORE).snapshot(AtVersion(version))
    assert describe_version(snapshot) == GOLDEN["versions"][version]
    assert as_dict(snapshot.definition) == GOLDEN["definitions"][snapshot.root.catalog_def]


@pytest.mark.parametrize("version", range(len(GOLDEN["versions"])))
def test_every_object_is_found_where_it_was(version):
    snapshot = Catalog.open(STORE).snapshot(AtVersion(version))
    for kind, namespace, name, path in GOLDEN["versions"][version]["objects"]:
        found = snapshot.get(NAMES[kind](namespace, name))
        assert found is not None
        assert found.path == path
        assert as_dict(found.definition) == GOLDEN["definitions"][path]


@pytest.mark.parametrize("path", NODES)
def test_every_node_is_verified_and_has_the_rows_it_had(path):
    data = STORE.read(path)
    assert rows(data) == GOLDEN["rows"][path]
    file = decode_node(data, path)
    assert file.verified
    system = [[key, value, None] for key, value in file.system.items()]
    children = list(file.node.children) or [None] * (len(file.node.keys) + 1)
    pivot = [[None, None, children[0]]]
    pivot += [list(row) for row in zip(file.node.keys, file.node.values, children[1:], strict=True)]
    actions = [[key, value, None] for key, value in decode_action_rows(data, path)]
    assert system + pivot + actions == GOLDEN["rows"][path]
    assert bool(actions) == (parse_root_path(path) is not None)


@pytest.mark.parametrize("path", DEFINITIONS)
def test_every_definition_is_verified_and_holds_what_it_held(path):
    data = STORE.read(path)
    definition = decode(CLASSES[KINDS[path.split("/")[1]]], data, path)
    assert check_digest(data, path) is Digest.VERIFIED
    assert as_dict(definition) == GOLDEN["definitions"][path]


def test_the_tree_has_several_levels():
    path = "vn/01" + "0" * 30
    root = Snapshot(STORE, RootFile(2, 32, STORE.read(path))).root
    assert not root.node.is_leaf
    child = decode_node(STORE.read(root.node.children[0]), root.node.children[0]).node
    assert not child.is_leaf


def test_the_rollback_says_where_it_came_from():
    five = GOLDEN["versions"][5]
    assert five["rollback_from_root"] == five["previous_root"] == "vn/001" + "0" * 29
    assert five["objects"] == GOLDEN["versions"][2]["objects"]


def test_the_catalog_is_sound_and_its_actions_tell_all():
    check_catalog(STORE)
    replay(STORE)
    assert orphans(STORE) == set()
