"""Entry point of the program `olympia`, also run by `python -m olympia_cli`."""

from __future__ import annotations

import gc
import sys

_MADE_AT_ONCE = 100_000


def main() -> int:
    """Run the program and return its exit code.

    Garbage collection is made rare, and skipped at exit: nearly every object lives as long as the process.
    """
    gc.set_threshold(_MADE_AT_ONCE)
    # pyarrow imports numpy if present, which is a third of the start-up time; see `cli/app.NEED_NUMPY`
    sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]
    from olympia_cli.cli.app import main as run

    try:
        return run()
    finally:
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
