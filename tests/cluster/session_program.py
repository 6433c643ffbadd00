"""Asks masters for a session in a process of its own, one after the other, each with a patience of its own; prints what
each of them failed with as JSON."""

from __future__ import annotations

import json
import sys


def main() -> None:
    from olympia_cli.errors import OlympiaError
    from olympia_cli.spark.session import spark_session

    said = []
    for master, wait in json.loads(sys.argv[1]):
        try:
            with spark_session(master=master, wait=wait):
                said.append("a session")
        except OlympiaError as error:
            said.append(f"{error.name}: {error}")
    print(json.dumps(said))


if __name__ == "__main__":
    main()
