"""The catalog for PyIceberg as it was."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from olympia_cli import AtVersion, VersionNotFound
from olympia_cli.iceberg import OlympiaCatalog

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def history(catalog: OlympiaCatalog) -> OlympiaCatalog:
    """v1 the namespace, v2 the table, v3 three rows, v4 six, v5 renamed."""
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    catalog.rename_table("ns.t", "ns.u")
    return catalog


@pytest.mark.parametrize("reference", ["v3", "3", AtVersion(3), "latest~2"])
def test_all_tables_as_of_a_version(history: OlympiaCatalog, reference: Any) -> None:
    then = history.at(reference)
    assert then.version == 3
    assert then.list_tables("ns") == [("ns", "t")]
    table = then.load_table("ns.t")
    history.create_table("ns.later", ROWS.schema)
    # a version stays what it is
    assert table.refresh().scan().to_arrow().num_rows == 3
    assert not then.table_exists("ns.later")


def test_as_of_a_time_and_an_export(history: OlympiaCatalog) -> None:
    millis = history.store_catalog.snapshot(AtVersion(4)).created_at_millis
    from olympia_cli import AtTime

    assert history.at(AtTime(millis)).load_table("ns.t").scan().to_arrow().num_rows == 6
    with pytest.raises(VersionNotFound):
        history.at("v99")


def test_nothing_is_changed_through_it(history: OlympiaCatalog) -> None:
    then = history.at("v3")
    writes: list[Any] = [
        lambda: then.create_namespace("new"),
        lambda: then.drop_namespace("ns"),
        lambda: then.update_namespace_properties("ns", updates={"a": "1"}),
        lambda: then.create_table("ns.new", ROWS.schema),
        lambda: then.create_table_transaction("ns.new", ROWS.schema),
        lambda: then.drop_table("ns.t"),
        lambda: then.purge_table("ns.t"),
        lambda: then.rename_table("ns.t", "ns.x"),
        lambda: then.register_table("ns.x", then.load_table("ns.t").metadata_location),
        lambda: then.load_table("ns.t").append(ROWS),
        lambda: then.drop_view("ns.v"),
        lambda: then.transaction().__enter__(),
    ]
    before = history.version
    for write in writes:
        with pytest.raises(ValueError, match="as of version 3"):
            write()
    assert history.version == before
