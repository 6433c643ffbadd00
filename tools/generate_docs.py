"""Writes completions/, man/, docs/json.md and the record of JSON shapes from the program:
`python tools/generate_docs.py [--check]`.

`--check` writes nothing, prints what differs and exits 1 when something does.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
JSON_PAGE = "docs/json.md"
JSON_SHAPES = "tests/golden/json-shapes.txt"
COMPLETIONS = {"bash": "olympia.bash", "zsh": "_olympia", "fish": "olympia.fish"}


def generate() -> dict[str, str]:
    """The files as they should be: path to content. A command that is not there yet is named and left out."""
    from olympia_cli.cli.app import COMMANDS
    from olympia_cli.cli.commands.completion import SCRIPTS
    from olympia_cli.cli.lazy import module_name
    from olympia_cli.cli.man_pages import command_page, file_name, program_page

    files = {f"completions/{COMPLETIONS[shell]}": script for shell, script in SCRIPTS.items()}
    files[f"man/{file_name()}"] = program_page()
    for path in COMMANDS:
        try:
            files[f"man/{file_name(path)}"] = command_page(path)
        except ModuleNotFoundError as error:
            if error.name != module_name(path):
                raise
            print(f"note: olympia {path} is not there yet: no page for it", file=sys.stderr)
    files[JSON_PAGE] = json_page()
    files[JSON_SHAPES] = json_shapes()
    return files


def json_page() -> str:
    """The reference of what commands print with --json."""
    from olympia_cli.cli.shapes import ON_STDERR, SHAPES, parts

    lines = [
        "# JSON",
        "",
        "What each command prints with `--json`, made from the schemas that the tests hold the commands to.",
        "`olympia schema COMMAND` prints one of them as a JSON Schema. Shapes only grow: what is always there stays,",
        "under its name and of its types; new values may come at any time, so unknown keys are to be ignored.",
        "With `-o jsonl` the items of a list come one a line. A time is RFC 3339 in UTC, a size is in bytes.",
        "",
        "| command | shapes |",
        "| --- | --- |",
    ]
    lines += [f"| `{path}` | {', '.join(f'[{name}](#{name})' for name in names)} |" for path, names in SHAPES.items()]
    lines += ["", "On stderr, from any command: an [error](#error) with `--json`, a [log-line](#log-line) with"]
    lines += ["`--log-format json`.", ""]
    for name in dict.fromkeys(name for names in (*SHAPES.values(), tuple(ON_STDERR.values())) for name in names):
        lines += [f"## {name}", "", "| value | type | |", "| --- | --- | --- |"]
        for part in parts(name):
            lines.append(f"| `{part.path}` | {' or '.join(part.types)} | {'' if part.always else 'sometimes'} |")
        lines.append("")
    return "\n".join(lines)


def json_shapes() -> str:
    """The record of all shapes that were ever promised: what is there stays, what is new is added."""
    from olympia_cli.cli.shapes import ON_STDERR, SHAPES, parts

    names = {name for names in (*SHAPES.values(), tuple(ON_STDERR.values())) for name in names}
    record = TOP / JSON_SHAPES
    lines = set(record.read_text(encoding="utf-8").splitlines()) if record.exists() else set()
    lines |= {f"{path}\t{name}" for path, names in SHAPES.items() for name in names}
    lines |= {
        f"{name}\t{part.path}\t{'|'.join(part.types)}\t{'always' if part.always else 'sometimes'}"
        for name in names
        for part in parts(name)
    }
    return "\n".join(sorted(lines)) + "\n"


def present() -> dict[str, str]:
    """The files as they are."""
    found = [file for folder in ("completions", "man") for file in (TOP / folder).glob("*") if file.is_file()]
    found += [file for name in (JSON_PAGE, JSON_SHAPES) if (file := TOP / name).exists()]
    return {file.relative_to(TOP).as_posix(): file.read_text(encoding="utf-8") for file in found}


def differences(expected: dict[str, str]) -> Iterator[str]:
    """Lines of a diff from the files as they are to the files as they should be."""
    found = present()
    for name in sorted(expected.keys() | found.keys()):
        yield from difflib.unified_diff(
            found.get(name, "").splitlines(),
            expected.get(name, "").splitlines(),
            f"{name} as it is",
            f"{name} from the program",
            lineterm="",
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Write what is made from the program.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when something differs")
    check = parser.parse_args().check
    expected = generate()
    if check:
        lines = list(differences(expected))
        print(*lines, sep="\n", end="\n" if lines else "")
        return 1 if lines else 0
    for name in present().keys() - expected.keys():
        (TOP / name).unlink()
    for name, content in expected.items():
        (TOP / name).parent.mkdir(exist_ok=True)
        (TOP / name).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
