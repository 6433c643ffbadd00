"""Run the peers in their own environment: python peers.py make|talk|plot …

`make FOLDER FINAL TABLES` makes their catalogs. `talk FOLDER` runs the tasks in lines of JSON, and answers with the
seconds. `plot RESULTS FOLDER` draws. Nothing of Olympia is imported here.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

NAMESPACE, TABLES_A_NAMESPACE = "ns000000", 100_000
KINDS = ("sql", "boring")


def open_catalog(kind: str, folder: Path) -> Any:
    if kind == "boring":
        from boringcatalog import BoringCatalog

        # Boring Catalog lacks PyIceberg's methods for views, which are not called here
        BoringCatalog.__abstractmethods__ = frozenset()
        return BoringCatalog("boring", uri=str(folder / "boring.json"), warehouse=str(folder))
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("default", uri=f"sqlite:///{folder}/sql.db", warehouse=f"file://{folder}")


def installed() -> list[str]:
    return [kind for kind in KINDS if kind == "sql" or importlib.util.find_spec("boringcatalog")]


def make(folder: Path, final: Path, tables: int) -> None:
    """Make the peers' catalogs. `final` is where the folder will be. Tables are written directly, because creating them
    is not measured."""
    import pyarrow as pa
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import insert
    from sqlalchemy.orm import Session

    folder.mkdir()
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(20)])
    catalog = open_catalog("sql", folder)
    names = [(f"ns{at // TABLES_A_NAMESPACE:06}", f"table{at % TABLES_A_NAMESPACE:06}") for at in range(tables)]
    for namespace in dict(names):
        catalog.create_namespace(namespace)
    made = catalog.create_table("ns000000.made", schema).metadata_location
    location = str(final / "metadata.json")
    (folder / "metadata.json").write_bytes(Path(made.removeprefix("file://")).read_bytes())
    catalog.drop_table("ns000000.made")
    with Session(catalog.engine) as session:
        session.execute(insert(IcebergTables), [catalog._create_table_row(*name, location) for name in names])
        session.commit()
    boring = {
        "catalog_name": "boring",
        "namespaces": {namespace: {"properties": {"exists": "true"}} for namespace in dict(names)},
        "tables": {
            f"{namespace}.{name}": {"namespace": namespace, "name": name, "metadata_location": location}
            for namespace, name in names
        },
    }
    (folder / "boring.json").write_text(json.dumps(boring, indent=2))


def talk(folder: Path) -> None:
    catalogs: dict[str, Any] = {}
    location = str(folder / "metadata.json")
    for line in sys.stdin:
        task = json.loads(line)
        if task["do"] == "kinds":
            print(json.dumps(installed()), flush=True)
            continue
        kind = task["kind"]
        catalog = catalogs.get(kind) or catalogs.setdefault(kind, open_catalog(kind, folder))
        took = 0.0
        for at in range(number := task.get("number", 1)):
            name = (NAMESPACE, task.get("name", f"new-{at}"))
            start = time.perf_counter()
            if task["do"] == "list":
                assert len(catalog.list_tables(NAMESPACE)) == task["tables"]
            elif task["do"] == "load":
                catalog.load_table(name)
            else:
                catalog.register_table(name, location)
            took += time.perf_counter() - start
            if task["do"] == "register":
                catalog.drop_table(name)
        print(json.dumps(took / number), flush=True)


def plot(results: Path, folder: Path) -> None:
    """Draw a picture per kind of growth: the time against the size, both as logarithms."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams.update({"svg.hashsalt": "olympia", "svg.fonttype": "none", "font.size": 9})
    for name, panels in json.loads(results.read_text()).items():
        figure, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.6), squeeze=False)
        for axis, panel in zip(axes[0], panels, strict=True):
            for line in panel["lines"]:
                label = f"{line['who']}: {line['law']}"
                axis.plot(panel["sizes"][: len(line["values"])], line["values"], marker="o", markersize=3, label=label)
            axis.set(xscale="log", yscale="log", xlabel=panel["over"], ylabel=panel["unit"], title=panel["what"])
            axis.grid(True, alpha=0.3)
            axis.legend(fontsize=7)
        figure.tight_layout()
        figure.savefig(folder / f"benchmark-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "make":
        make(Path(words[0]), Path(words[1]), int(words[2]))
    elif what == "talk":
        talk(Path(words[0]))
    else:
        plot(Path(words[0]), Path(words[1]))
