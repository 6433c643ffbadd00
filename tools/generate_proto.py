"""Write olympia_cli/format/pb from proto/: `python tools/generate_proto.py [--check]`.

With `--check`, write nothing, print the differences, and exit with 1 if the generated code is out of date.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PROTO = TOP / "proto"
PACKAGE = TOP / "olympia_cli" / "format" / "pb"
INIT = '"""The messages of proto/, as protoc writes them. Made by `make proto`."""\n'


def generate() -> dict[str, str]:
    """Return the package as it should be: file name to content."""
    # imported here because it is slow, and the only import outside of the standard library
    from grpc_tools import protoc

    sources = sorted(PROTO.glob("*.proto"))
    with tempfile.TemporaryDirectory() as out:
        # The include root is the top, not proto/. The pool of descriptors is shared by the whole process and keyed by
        # file name; `proto/objects.proto` is less likely to collide than `objects.proto`.
        status = protoc.main(
            [
                "protoc",
                f"--proto_path={TOP}",
                f"--python_out={out}",
                f"--pyi_out={out}",
                *(str(source.relative_to(TOP)) for source in sources),
            ]
        )
        if status != 0:
            sys.exit(status)
        files = {file.name: at_home(file.read_text()) for file in sorted((Path(out) / "proto").iterdir())}
    return {"__init__.py": INIT, **files}


def at_home(code: str) -> str:
    """Replace the source folder, which protoc takes for the Python package, by the real package.

    The second replacement is the module name in messages, which pickling needs.
    """
    return code.replace("from proto import ", "from olympia_cli.format.pb import ").replace(
        "(DESCRIPTOR, 'proto.", "(DESCRIPTOR, 'olympia_cli.format.pb."
    )


def differences() -> Iterator[str]:
    """Yield the lines of a diff from the present package to the expected one."""
    expected = generate()
    present = {file.name: file.read_text() for file in PACKAGE.glob("*.py*") if file.is_file()}
    for name in sorted(expected.keys() | present.keys()):
        yield from difflib.unified_diff(
            present.get(name, "").splitlines(),
            expected.get(name, "").splitlines(),
            f"{name} as it is",
            f"{name} from proto/",
            lineterm="",
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Write olympia_cli/format/pb from proto/.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit with 1 if a file differs")
    if parser.parse_args().check:
        lines = list(differences())
        print(*lines, sep="\n", end="\n" if lines else "")
        return 1 if lines else 0

    expected = generate()
    PACKAGE.mkdir(parents=True, exist_ok=True)
    for file in PACKAGE.glob("*.py*"):
        if file.name not in expected:
            file.unlink()
    for name, content in expected.items():
        (PACKAGE / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
