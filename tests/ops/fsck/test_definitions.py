"""The numbers of definitions that nodes name."""

from __future__ import annotations

from olympia_cli.names import Kind
from olympia_cli.ops.fsck.definitions import Definitions
from olympia_cli.ops.walk.files import Files
from olympia_cli.storage.memory import MemoryStore

TABLE, OTHER, VIEW = "def/table/a", "def/table/b", "def/view/c"


def test_a_path_has_one_number_for_each_kind_that_names_it():
    definitions = Definitions(Files(MemoryStore(), lambda: False), None, None, data=False)
    # the second name of a path comes before paths that are new, too
    names = [(TABLE, Kind.TABLE, "k1"), (TABLE, Kind.VIEW, "k2"), (OTHER, Kind.TABLE, "k3"), (VIEW, Kind.VIEW, "k4")]
    numbers = list(definitions.note(names, level=2))
    assert sorted(numbers) == [0, 1, 2, 3] == list(range(len(definitions)))
    assert definitions.waiting == 4
    assert list(definitions.note([*reversed(names), ("def/table/d", Kind.TABLE, "k5")], level=3)) == [
        *reversed(numbers),
        4,
    ]
    assert definitions.waiting == 5
    assert [*definitions.level] == [2, 2, 2, 2, 3]
    assert [definitions.number(path) for path in (TABLE, OTHER, VIEW)] == [numbers[0], numbers[2], numbers[3]]


def test_what_a_sound_node_names_is_not_doubtful_any_more():
    definitions = Definitions(Files(MemoryStore(), lambda: False), None, None, data=False)
    assert list(definitions.note([(TABLE, Kind.TABLE, "k1"), (OTHER, Kind.TABLE, "k2")], doubtful=True)) == [0, 1]
    assert definitions.doubtful == {0, 1}
    definitions.note([(TABLE, Kind.TABLE, "k1"), (VIEW, Kind.VIEW, "k3")])
    assert definitions.doubtful == {1}
    definitions.note([(OTHER, Kind.TABLE, "k2")], doubtful=True)
    assert definitions.doubtful == {1}
