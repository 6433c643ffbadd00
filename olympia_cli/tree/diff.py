"""The difference of two trees. Shared subtrees are skipped unread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from olympia_cli.format.node import Child, Node
from olympia_cli.tree.load import NodeReader, bounds, check_depth, check_range
from olympia_cli.tree.search import depth


@dataclass(frozen=True, slots=True)
class Change:
    """A key with different values. None means that the key is absent."""

    key: str
    old: str | None
    new: str | None


def diff(old_reader: NodeReader, old: Node, new_reader: NodeReader, new: Node) -> Iterator[Change]:
    """Yield the changes from the old tree to the new one, in key order."""
    left = _Cursor(old_reader, old, depth(old_reader, old))
    right = _Cursor(new_reader, new, depth(new_reader, new))
    while (a := left.head) is not None and (b := right.head) is not None:
        if isinstance(a, _Entry) and isinstance(b, _Entry):
            if a.key < b.key:
                yield from left.removed()
            elif a.key > b.key:
                yield from right.added()
            else:
                if a.value != b.value:
                    yield Change(a.key, a.value, b.value)
                left.skip()
                right.skip()
        elif isinstance(a, _Entry):
            assert isinstance(b, _Subtree)
            if b.low is not None and a.key <= b.low:
                yield from left.removed()
            else:
                right.expand()
        elif isinstance(b, _Entry):
            if a.low is not None and b.key <= a.low:
                yield from right.added()
            else:
                left.expand()
        elif a.child == b.child:
            left.skip()
            right.skip()
        else:
            _expand_either(left, a, right, b)
    while left.head is not None:
        yield from left.removed()
    while right.head is not None:
        yield from right.added()


def _expand_either(left: _Cursor, a: _Subtree, right: _Cursor, b: _Subtree) -> None:
    """Expand the higher subtree, or the one that begins lower, so that shared subtrees meet on both sides."""
    if a.height != b.height:
        (left if a.height > b.height else right).expand()
    elif (a.low or "") != (b.low or ""):
        (left if (a.low or "") < (b.low or "") else right).expand()
    else:
        left.expand()
        right.expand()


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class _Subtree:
    child: Child
    height: int
    low: str | None
    high: str | None


class _Cursor:
    """The unread rest of a tree: a stack of keys and unopened subtrees, the next one on top."""

    def __init__(self, reader: NodeReader, root: Node, height: int) -> None:
        self._reader = reader
        self._stack: list[_Entry | _Subtree] = []
        self._open(root, height, None, None)

    @property
    def head(self) -> _Entry | _Subtree | None:
        return self._stack[-1] if self._stack else None

    def skip(self) -> None:
        self._stack.pop()

    def expand(self) -> None:
        """Replace the subtree on top by its keys and children."""
        subtree = self._stack.pop()
        assert isinstance(subtree, _Subtree)
        check_depth(-subtree.height, subtree.child)
        node = self._reader.node(subtree.child)
        check_range(node, subtree.child, subtree.low, subtree.high)
        self._open(node, subtree.height, subtree.low, subtree.high)

    def removed(self) -> Iterator[Change]:
        """Take the top entry, which is absent from the other tree, and yield its removal. Expand a subtree instead."""
        return self._alone(lambda key, value: Change(key, value, None))

    def added(self) -> Iterator[Change]:
        """Take the top entry, which is absent from the other tree, and yield its addition. Expand a subtree instead."""
        return self._alone(lambda key, value: Change(key, None, value))

    def _alone(self, change: _MakeChange) -> Iterator[Change]:
        if isinstance(self.head, _Subtree):
            self.expand()
            return
        entry = self._stack.pop()
        assert isinstance(entry, _Entry)
        if entry.value is not None:
            yield change(entry.key, entry.value)

    def _open(self, node: Node, height: int, low: str | None, high: str | None) -> None:
        for at in range(len(node.keys), -1, -1):
            if at < len(node.keys):
                self._stack.append(_Entry(node.keys[at], node.values[at]))
            if node.children:
                self._stack.append(_Subtree(node.children[at], height - 1, *bounds(node, at, low, high)))


_MakeChange = Callable[[str, str], Change]
