"""Write completions/, man/, docs/json.md and the record of JSON shapes from the program.

Usage: `python tools/generate_docs.py [--check]`. With `--check`, write nothing, print the differences, and exit with 1
if there is one.
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
    """Return the files as they should be: path to content."""
    from olympia_cli.cli.app import COMMANDS
    from olympia_cli.cli.commands.completion import SCRIPTS
    from olympia_cli.cli.commands.man import command_page, file_name, program_page

    files = {f"completions/{COMPLETIONS[shell]}": script for shell, script in SCRIPTS.items()}
    files[f"man/{file_name()}"] = program_page()
    files |= {f"man/{file_name(path)}": command_page(path) for path in COMMANDS}
    files[JSON_PAGE] = json_page()
    files[JSON_SHAPES] = json_shapes()
    return files


def json_page() -> str:
    """Return the reference of commands' output with --json."""
    from olympia_cli.cli.commands.schema import ON_STDERR, SHAPES, parts

    lines = [
        "# JSON",
        "",
        "The output of each command with `--json`. This page is generated from schemas, and tests check the",
        "output against them. `olympia schema COMMAND` prints the JSON Schema of a command. Shapes only grow:",
        "a value that is always present keeps its name and its types. New values may be added at any time, so",
        "ignore unknown keys. `-o jsonl` prints one item of a list per line. Times are RFC 3339 in UTC, sizes",
        "are bytes.",
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
    """Return the record of all shapes ever promised: existing lines stay, new ones are added."""
    from olympia_cli.cli.commands.schema import ON_STDERR, SHAPES, parts

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
    """Return the files as they are."""
    found = [file for folder in ("completions", "man") for file in (TOP / folder).glob("*") if file.is_file()]
    found += [file for name in (JSON_PAGE, JSON_SHAPES) if (file := TOP / name).exists()]
    return {file.relative_to(TOP).as_posix(): file.read_text(encoding="utf-8") for file in found}


def differences(expected: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a diff from the present files to the expected ones."""
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
    parser = argparse.ArgumentParser(description="Write the files that are generated from the program.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit with 1 if a file differs")
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
