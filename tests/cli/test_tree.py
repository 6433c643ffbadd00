"""tree: levels, fill and sizes of the node files, drawn and as data; damaged nodes stay in their place."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.output.tree import draw_tree
from olympia_cli.format.paths import root_path
from olympia_cli.names import AtVersion
from olympia_cli.ops.inspect import TreeNode, find_root, tree_shape
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.cli.conftest import Run
from tests.helpers.big_catalog import make_big_catalog
from tests.helpers.java_catalog import sample as java_sample
from tests.helpers.stores import CountingStore


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree") / "catalog"
    make_big_catalog(LocalStore(str(folder), durable=False), 4, 200, order=8)
    return folder


@pytest.fixture
def big(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "big")
    return tmp_path / "big"


def nodes_of(root: dict[str, Any]) -> list[dict[str, Any]]:
    return [root, *(node for child in root["children"] for node in nodes_of(child))]


def test_json(run: Run, big: Path) -> None:
    shape = run("-c", big, "tree", "--json", "--depth", "0").ok().json
    assert (shape["version"], shape["order"], shape["keys"], shape["damaged"]) == (1, 8, 4 + 4 * 200, 0)
    assert shape["depth"] == len(shape["levels"]) == 4
    assert [level["level"] for level in shape["levels"]] == [1, 2, 3, 4]
    nodes = nodes_of(shape["root"])
    assert len(nodes) == shape["nodes"] == sum(level["nodes"] for level in shape["levels"])
    assert len({node["path"] for node in nodes}) == len(nodes)
    files = [big / root_path(1), *(big / "node").iterdir()]
    assert shape["bytes"] == sum(file.stat().st_size for file in files)
    assert shape["bytes"] == sum(node["bytes"] for node in nodes)
    assert all(0 < level["fill_min"] <= level["fill"] <= level["fill_max"] <= 1 for level in shape["levels"])
    assert nodes[-1]["last"] == "table ns000003.table000199"
    assert shape["root"]["path"] == root_path(1)


def test_json_has_children_down_to_the_drawn_depth(run: Run, big: Path) -> None:
    shape = run("-c", big, "tree", "--json", "--depth", "2").ok().json
    assert shape["root"]["children"]
    assert all(not child["children"] and child["children_left_out"] for child in shape["root"]["children"])
    assert len(nodes_of(run("-c", big, "tree", "--json", "--depth", "1").ok().json["root"])) == 1
    cut = run("-c", big, "tree", "--json", "--max-children", "1").ok().json["root"]
    assert (len(cut["children"]), cut["children_left_out"]) == (1, len(shape["root"]["children"]) - 1)


def test_a_pipe_gets_a_node_a_line(run: Run, big: Path) -> None:
    done = run("-c", big, "tree").ok()
    shape = run("-c", big, "tree", "--json", "--depth", "0").ok().json
    rows = [line.split("\t") for line in done.lines]
    assert len(rows) == shape["nodes"]
    assert [int(row[0]) for row in rows] == sorted(int(row[0]) for row in rows)
    assert {row[1] for row in rows} == {node["path"] for node in nodes_of(shape["root"])}
    assert len(run("-c", big, "tree", "-o", "name").ok().lines) == shape["nodes"]
    assert len(run("-c", big, "tree", "--depth", "1").ok().lines) == 1
    table = list(csv.DictReader(io.StringIO(run("-c", big, "tree", "-o", "csv").ok().stdout)))
    lines = [json.loads(line) for line in run("-c", big, "tree", "-o", "jsonl").ok().lines]
    assert [row["path"] for row in table] == [line["path"] for line in lines] == [row[1] for row in rows]


def test_another_version(run: Run, big: Path) -> None:
    empty = run("-c", big, "tree", "--at", "v0", "--json").ok().json
    assert (empty["version"], empty["nodes"], empty["keys"], empty["depth"]) == (0, 1, 0, 1)
    assert (empty["root"]["first"], empty["root"]["children"]) == (None, [])
    run("-c", big, "tree", "--at", "v9").failed(10)
    run("-c", big, "tree", "--depth", "-1").failed(2)


def test_damaged_nodes_stay_in_their_place(run: Run, big: Path) -> None:
    before = run("-c", big, "tree", "--json", "--depth", "0").ok().json
    inner = before["root"]["children"][0]["children"]
    cut, gone = big / inner[0]["path"], big / inner[1]["path"]
    cut.write_bytes(cut.read_bytes()[:-50])
    gone.unlink()
    done = run("-c", big, "tree", "--json", "--depth", "0")
    assert done.exit_code == 40
    assert done.error["code"] == "Damaged"
    shape = done.json
    assert shape["damaged"] == 2
    [first, second, *rest] = shape["root"]["children"][0]["children"]
    assert first["path"] == inner[0]["path"]
    assert "cut short" in first["damaged"]
    assert second["damaged"] == "it is missing"
    assert (first["children"], first["keys"]) == ([], 0)
    assert rest == inner[2:]
    text = run("-c", big, "tree")
    text.failed(40, inner[0]["path"], "1 more")
    assert sum("damaged: " in line for line in text.lines) == 2


def test_a_damaged_root(run: Run, big: Path) -> None:
    root = big / root_path(1)
    root.write_bytes(root.read_bytes()[:500])
    done = run("-c", big, "tree", "--json")
    assert (done.exit_code, done.json["nodes"], done.json["damaged"]) == (40, 1, 1)
    assert "cut short" in done.json["root"]["damaged"]
    run("-c", big, "tree", "--at", "v0").ok()


def test_pointers_that_lead_in_a_circle_or_outside() -> None:
    from olympia_cli.catalog.versions import RootFile
    from olympia_cli.format.codec import encode_node, encode_root
    from olympia_cli.format.node import Node, Root, Sizes

    store = MemoryStore()
    own = "node/00000000-0000-4000-8000-000000000000.arrow"
    store.create(own, encode_node(Node((), (), (own,)), 1))
    top = Node(("B===a ", "B===b "), ("def/ns/1", "def/ns/2"), (own, own, "../outside"))
    data = encode_root(Root(top, "def/catalog/x", 1, sizes=Sizes(8, 2, 2, 2)), [])
    reasons: set[str] = set()
    file = RootFile.of(0, 32, data)
    shape = tree_shape(store, file, depth=None, max_children=None, on_node=lambda node: reasons.add(node.reason))
    assert len(shape.levels) <= 66
    assert any("outside" in reason for reason in reasons)
    assert any("deeper" in reason for reason in reasons)


def test_an_order_that_no_tree_has() -> None:
    from olympia_cli.catalog.versions import RootFile
    from olympia_cli.format import definitions
    from olympia_cli.format.codec import encode_root
    from olympia_cli.format.node import Node, Root
    from olympia_cli.format.pb.objects_pb2 import CatalogDef

    store, path = MemoryStore(), "def/catalog/x.binpb"
    store.create(path, definitions.encode(definitions.body(CatalogDef(id="x", order=1)), path))
    data = encode_root(Root(Node(("B===a ",), ("def/ns/1",)), path, 1), [])
    shape = tree_shape(store, RootFile.of(0, 32, data), depth=None, max_children=None)
    assert [(level["keys"], level["fill"]) for level in shape.describe()["levels"]] == [(1, None)]


def test_each_node_is_read_once() -> None:
    store = MemoryStore()
    make_big_catalog(store, 3, 100, order=8)
    counting = CountingStore(store)
    seen = []
    shape = tree_shape(counting, find_root(Catalog(store), AtVersion(1)), depth=1, max_children=0, on_node=seen.append)
    assert len(seen) == shape.nodes
    assert shape.root.children == []
    assert sorted(counting.paths("read_many")) == sorted(node.path for node in seen[1:])
    assert counting.calls["read_many"] == len(shape.levels) - 1


def test_a_wide_level_is_read_in_ordered_batches() -> None:
    store = MemoryStore()
    make_big_catalog(store, 3, 100, order=8)
    file = find_root(Catalog(store), AtVersion(1))
    whole: list[TreeNode] = []
    shape = tree_shape(store, file, depth=None, max_children=None, on_node=whole.append)
    counting, parts = CountingStore(store), list[TreeNode]()
    assert tree_shape(counting, file, depth=None, max_children=None, on_node=parts.append, batch=3) == shape
    assert [node.path for node in parts] != [node.path for node in whole]
    # on each level from left to right
    assert sorted(parts, key=lambda node: node.level) == whole
    assert len(counting.paths("read_many")) == len(whole) - 1
    assert counting.calls["read_many"] >= len(whole) / 3


def test_a_java_catalog(run: Run, tmp_path: Path) -> None:
    java_sample(tmp_path / "java")
    shape = run("-c", tmp_path / "java", "tree", "--json").ok().json
    assert (shape["version"], shape["depth"], shape["damaged"]) == (3, 2, 0)


@pytest.mark.parametrize("width", [20, 33, 40, 59, 60, 80, 110, 120, 200])
@pytest.mark.parametrize("damage", [False, True])
def test_any_width(width: int, damage: bool, big: Path) -> None:
    store = LocalStore(str(big))
    file = find_root(Catalog(store), AtVersion(1))
    if damage:
        (big / str(tree_shape(store, file, depth=2, max_children=2).root.children[1].path)).write_bytes(b"x")
    shape = tree_shape(store, file, depth=3, max_children=2)
    out = io.StringIO()
    draw_tree(Console(file=out, width=width, force_terminal=True, color_system=None), shape)
    text = out.getvalue()
    assert "TREE v1" in text
    assert "more" in text
    assert ("DAMAGED" in text) == damage
    lines = text.splitlines()
    if not damage:
        assert all(len(line) <= width for line in lines[1:])


def test_svg(run: Run, big: Path, tmp_path: Path) -> None:
    done = run("-c", big, "tree", "--svg", "tree.svg").ok()
    assert done.stdout == ""
    assert "wrote tree.svg" in done.stderr
    picture = (tmp_path / "tree.svg").read_text()
    assert picture.startswith("<svg")
    assert "node/" in picture
    assert "font-variant-ligatures" in picture
    assert run("-c", big, "tree", "--svg", "tree.svg", "--json", "-q").ok().json["nodes"]
    run("-c", big, "tree", "--svg", "no/such/folder/tree.svg").failed(30, "no/such/folder")
