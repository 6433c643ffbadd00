"""Writes completions/ and man/ from the program: `python tools/generate_docs.py [--check]`.

`--check` writes nothing, prints what differs and exits 1 when something does.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
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
    return files


def present() -> dict[str, str]:
    """The files as they are."""
    found = (file for folder in ("completions", "man") for file in (TOP / folder).glob("*") if file.is_file())
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
    parser = argparse.ArgumentParser(description="Write completions/ and man/ from the program.")
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
