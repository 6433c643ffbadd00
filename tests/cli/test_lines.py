"""Lines for a pipe: many rows are looked at together, and each comes out as it would alone."""

import io
from itertools import product

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.escape import visible
from olympia_cli.cli.render import write_lines
from olympia_cli.errors import Damaged
from olympia_cli.names import NamespaceName
from olympia_cli.storage.local import LocalStore

ODD = ("a\tb", "a\nb", "\x1b[31m", "é", "\u202e", "", "a b")
NUMBERS = (0, 1, 255, 256, 257, 600)


def written(rows):
    out = io.StringIO()
    write_lines(out, rows)
    return out.getvalue()


def one_by_one(rows):
    return "".join("\t".join(map(visible, row)) + "\n" for row in rows)


def test_rows_are_what_each_is_alone():
    for number in NUMBERS:
        plain = [(f"ns{at % 7}", f"table{at}") for at in range(number)]
        assert written(plain) == one_by_one(plain)
        for at, odd in product({0, number // 2, number}, ODD):
            rows = [*plain[:at], (odd, "x"), ("x", odd), *plain[at:]]
            assert written(rows) == one_by_one(rows), (number, at, odd)


def test_what_came_before_an_error_is_written():
    def rows(number):
        yield from (("ns", str(at)) for at in range(number))
        raise Damaged("F205", "node/x", "it is damaged")

    for number in NUMBERS:
        out = io.StringIO()
        with pytest.raises(Damaged):
            write_lines(out, rows(number))
        assert out.getvalue() == one_by_one(("ns", str(at)) for at in range(number))


def test_a_list_in_a_pipe_has_every_name(run, tmp_path):
    catalog = Catalog.create(LocalStore(tmp_path / "lines", durable=False))
    names = [*(f"n{number:03}" for number in range(300)), "ü"]
    transaction = catalog.begin()
    for name in names:
        transaction.create_namespace(NamespaceName(name))
    catalog.commit(transaction)
    assert run("-c", tmp_path / "lines", "ns", "ls").ok().lines == names
