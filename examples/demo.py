"""A tour of one minute on the command line: create a catalog, change it, read an old version, and roll back.

    python examples/demo.py [FOLDER]

The same from Python is in `library.py`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

CHANGES = [
    {"do": "ns create", "name": "finance"},
    *(
        {
            "do": "table register",
            "name": f"finance.ledger_{number:02}",
            "metadata_location": f"s3://lake/fin/{number}.json",
        }
        for number in range(12)
    ),
]

TOUR = """
# create a catalog: a folder is enough
init
# a namespace and two tables, each a commit
ns create sales --property owner=ann
table register sales.orders --metadata-location s3://lake/orders/metadata/00000.json
table register sales.lines --metadata-location s3://lake/lines/metadata/00000.json
# many changes as one commit
apply changes.jsonl -m 'adopt the finance warehouse'
table ls finance -o name
# a new version of a table, and a mistake
table alter sales.lines --metadata-location s3://lake/lines/metadata/00001.json -m 'nightly load'
table drop sales.orders -m 'tidy up'
# what changed?
diff latest~2
# look at the catalog as it was
table show sales.orders --at latest~1
# put it back: a new version with the old content
rollback latest~1 --yes -m 'that was too tidy'
table ls sales
log
log --oneline --graph
# the root of the tree, as it is on disk
dump-node
status
"""


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "changes.jsonl").write_text("".join(json.dumps(change) + "\n" for change in CHANGES))
    environment = {**os.environ, "OLYMPIA_CATALOG": "catalog", "COLUMNS": "110"}
    for line in TOUR.strip().splitlines():
        if line.startswith("#"):
            print(f"\n{line}", flush=True)
            continue
        print(f"$ olympia {line}", flush=True)
        command = [sys.executable, "-m", "olympia_cli", *shlex.split(line)]
        done = subprocess.run(command, cwd=folder, env=environment, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(Path(temporary)))
