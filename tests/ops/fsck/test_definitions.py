"""The numbers of definitions that nodes name."""

from __future__ import annotations

from olympia_cli.names import Kind
from olympia_cli.ops.fsck.definitions import Definitions
from olympia_cli.ops.walk.facts import INNER_NODES, NodeFacts
from olympia_cli.ops.walk.files import Files
from olympia_cli.storage.memory import MemoryStore

TABLE, OTHER, VIEW = "def/table/a", "def/table/b", "def/view/c"


def new_definitions():
    return Definitions(Files(MemoryStore(), lambda: False), None, None, data=False)


def node(*names, readable=True, children=()):
    return NodeFacts("node/x", readable, names=names, children=children)


def test_a_path_has_one_number_for_each_kind_that_names_it():
    definitions = new_definitions()
    # the second name of a path comes before paths that are new, too
    names = [(TABLE, Kind.TABLE, "k1"), (TABLE, Kind.VIEW, "k2"), (OTHER, Kind.TABLE, "k3"), (VIEW, Kind.VIEW, "k4")]
    numbers = list(definitions.note(node(*names), level=2))
    assert sorted(numbers) == [0, 1, 2, 3] == list(range(len(definitions)))
    assert definitions.waiting == 4
    again = node(*reversed(names), ("def/table/d", Kind.TABLE, "k5"))
    assert list(definitions.note(again, level=3)) == [*reversed(numbers), 4]
    assert definitions.waiting == 5
    assert [*definitions.level] == [2, 2, 2, 2, 3]
    assert [definitions.number(path) for path in (TABLE, OTHER, VIEW)] == [numbers[0], numbers[2], numbers[3]]


def test_what_a_sound_node_names_is_not_doubtful_any_more():
    definitions = new_definitions()
    table, other = (TABLE, Kind.TABLE, "k1"), (OTHER, Kind.TABLE, "k2")
    assert list(definitions.note(node(table, other, readable=False, children=("node/a",)))) == [0, 1]
    assert definitions.doubtful == {0, 1}
    definitions.note(node(table, (VIEW, Kind.VIEW, "k3")))
    assert definitions.doubtful == {1}
    definitions.note(node(other, readable=False))
    assert definitions.doubtful == {1}
    # an inner node of another version, whose names are the damaged one's
    assert list(definitions.note(node(table, other, children=("node/b",)))) == [0, 1]
    assert definitions.doubtful == set()


def test_inner_nodes_are_remembered_while_they_are_few():
    definitions = new_definitions()
    nodes = [node((f"def/table/{at}", Kind.TABLE, "k"), children=("node/a",)) for at in range(2 * INNER_NODES + 1)]
    for _ in range(2):
        assert [list(definitions.note(one)) for one in nodes] == [[at] for at in range(len(nodes))]
    assert definitions.waiting == len(definitions) == len(nodes)
