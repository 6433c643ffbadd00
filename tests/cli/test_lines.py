"""Lines for a pipe: many rows are looked at together, and each comes out as it would alone."""

import io
from itertools import product

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.output import visible
from olympia_cli.cli.output.render import write_lines, write_pairs
from olympia_cli.errors import Damaged
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.storage.local import LocalStore

ODD = ("a\tb", "a\nb", "\x1b[31m", "é", "\u202e", "", "a b")
NUMBERS = (0, 1, 255, 256, 257, 600)


def written(rows):
    out = io.StringIO()
    write_lines(out, rows)
    return out.getvalue()


def one_by_one(rows):
    return "".join("\t".join(map(visible, row)) + "\n" for row in rows)


def test_rows_written_together_equal_rows_written_singly():
    for number in NUMBERS:
        plain = [(f"ns{at % 7}", f"table{at}") for at in range(number)]
        assert written(plain) == one_by_one(plain)
        for at, odd in product({0, number // 2, number}, ODD):
            rows = [*plain[:at], (odd, "x"), ("x", odd), *plain[at:]]
            assert written(rows) == one_by_one(rows), (number, at, odd)


@pytest.mark.parametrize("first", ["ns", *ODD])
def test_so_are_pairs(first):
    for number, odd in product((1, 3), ("plain", *ODD)):
        cells = [odd, *(f"table{at}" for at in range(1, number))]
        out = io.StringIO()
        write_pairs(out, [(first, cells), ("next", ["one"])])
        assert out.getvalue() == one_by_one([*((first, cell) for cell in cells), ("next", "one")])


def test_rows_before_an_error_are_written():
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


def test_piped_lists_of_tables_and_views_are_complete(run, tmp_path):
    place = ("-c", tmp_path / "lines")
    catalog = Catalog.create(LocalStore(tmp_path / "lines", durable=False))
    names = [("a", f"t{number:03}") for number in range(300)] + [("a", "ü"), ("b", "t"), ("ü", "t")]
    transaction = catalog.begin()
    for namespace in ("a", "b", "ü"):
        transaction.create_namespace(NamespaceName(namespace))
    for namespace, name in names:
        transaction.create_table(TableName(namespace, name), "file:/nowhere")
        transaction.create_view(ViewName(namespace, name), ViewDef())
    catalog.commit(transaction)
    lines = ["\t".join(name) for name in names]
    for kind in ("table", "view"):
        assert run(*place, kind, "ls").ok().lines == lines
        assert run(*place, kind, "ls", "b").ok().lines == ["b\tt"]
    txn = run(*place, "txn", "begin", "--json").ok().json["id"]
    run(*place, "table", "drop", "a.ü", "--txn", txn).ok()
    for kind, expected in (("table", [line for line in lines if line != "a\tü"]), ("view", lines)):
        assert run(*place, kind, "ls", "--txn", txn).ok().lines == expected
