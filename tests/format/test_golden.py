"""A catalog that was written once reads today as it did then: see tests/golden/make.py for the catalogs."""

import json
from hashlib import sha256

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.format.codec import decode_action_rows, decode_node
from olympia_cli.format.definitions import CLASSES, Digest, check_digest, decode
from olympia_cli.format.paths import FileKind, file_kind, parse_root_path
from olympia_cli.names import AtVersion, Kind, NamespaceName, TableName, ViewName
from olympia_cli.storage.local import LocalStore
from tests.golden.make import CATALOGS, HERE, as_dict, describe_version, rows
from tests.helpers.check import check_catalog, orphans, replay

GOLDEN = {name: json.loads((HERE / f"{name}.json").read_text()) for name in CATALOGS}
STORES = {name: LocalStore(HERE / name) for name in CATALOGS}
NAMES = {"namespace": lambda namespace, _: NamespaceName(namespace), "table": TableName, "view": ViewName}
KINDS = {"catalog": Kind.CATALOG, "ns": Kind.NAMESPACE, "table": Kind.TABLE, "view": Kind.VIEW}
VERSIONS = [(name, version) for name in CATALOGS for version in range(len(GOLDEN[name]["versions"]))]
NODES = [(name, path) for name in CATALOGS for path in sorted(GOLDEN[name]["rows"])]
DEFINITIONS = [(name, path) for name in CATALOGS for path in sorted(GOLDEN[name]["definitions"])]

every_catalog = pytest.mark.parametrize("name", CATALOGS)
every_version = pytest.mark.parametrize(("name", "version"), VERSIONS)


@every_catalog
def test_the_files_are_the_ones_that_were_written(name):
    found = {file.path: sha256(STORES[name].read(file.path)).hexdigest() for file in STORES[name].list()}
    assert found == GOLDEN[name]["files"]


@every_catalog
def test_every_kind_of_file_is_among_them(name):
    kinds = {file_kind(path) for path in GOLDEN[name]["files"]}
    assert kinds == {FileKind.ROOT, FileKind.HINT, FileKind.NODE, FileKind.DEFINITION}
    assert {path.split("/")[1] for path in GOLDEN[name]["definitions"]} == set(KINDS)


@every_version
def test_every_version_reads_as_it_did(name, version):
    snapshot = Catalog.open(STORES[name]).snapshot(AtVersion(version))
    assert describe_version(snapshot) == GOLDEN[name]["versions"][version]
    assert as_dict(snapshot.definition) == GOLDEN[name]["definitions"][snapshot.root.catalog_def]


@every_version
def test_every_object_keeps_its_recorded_path_and_definition(name, version):
    snapshot = Catalog.open(STORES[name]).snapshot(AtVersion(version))
    for kind, namespace, own_name, path in GOLDEN[name]["versions"][version]["objects"]:
        found = snapshot.get(NAMES[kind](namespace, own_name))
        assert found is not None
        assert found.path == path
        assert as_dict(found.definition) == GOLDEN[name]["definitions"][path]


@pytest.mark.parametrize(("name", "path"), NODES)
def test_every_node_is_verified_and_has_the_rows_it_had(name, path):
    data = STORES[name].read(path)
    assert rows(data) == GOLDEN[name]["rows"][path]
    file = decode_node(data, path)
    assert file.verified
    system = [[key, value, None] for key, value in file.system.items()]
    children = list(file.node.children) or [None] * (len(file.node.keys) + 1)
    pivot = [[None, None, children[0]]]
    pivot += [list(row) for row in zip(file.node.keys, file.node.values, children[1:], strict=True)]
    actions = [[key, value, None] for key, value in decode_action_rows(data, path)]
    assert system + pivot + actions == GOLDEN[name]["rows"][path]
    assert bool(actions) == (parse_root_path(path) is not None)


@pytest.mark.parametrize(("name", "path"), DEFINITIONS)
def test_every_definition_is_verified_and_has_its_recorded_content(name, path):
    data = STORES[name].read(path)
    definition = decode(CLASSES[KINDS[path.split("/")[1]]], data, path)
    assert check_digest(data, path) is Digest.VERIFIED
    assert as_dict(definition) == GOLDEN[name]["definitions"][path]


@every_catalog
def test_the_tree_has_several_levels(name):
    path = "vn/01" + "0" * 30
    root = Snapshot(STORES[name], RootFile.of(2, 32, STORES[name].read(path))).root
    assert not root.node.is_leaf
    child = decode_node(STORES[name].read(root.node.children[0]), root.node.children[0]).node
    assert not child.is_leaf


@every_catalog
def test_the_rollback_says_where_it_came_from(name):
    five = GOLDEN[name]["versions"][5]
    assert five["rollback_from_root"] == five["previous_root"] == "vn/001" + "0" * 29
    assert five["objects"] == GOLDEN[name]["versions"][2]["objects"]


@every_catalog
def test_the_catalog_is_sound_and_its_actions_tell_all(name):
    check_catalog(STORES[name])
    replay(STORES[name])
    assert orphans(STORES[name]) == set()
