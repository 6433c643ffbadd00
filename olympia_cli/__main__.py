"""The program `olympia`, which `python -m olympia_cli` is, too."""

from __future__ import annotations

import gc
import sys

_MADE_AT_ONCE = 100_000


def main() -> int:
    """Run the program; the exit code is the result. Nearly all that a command makes, and all that it imports, lives as
    long as it runs, so it is looked through for garbage seldom, and not once more at the end."""
    gc.set_threshold(_MADE_AT_ONCE)
    # pyarrow does without it and imports it where it can, which is a third of a start; see `lazy.NEED_NUMPY`
    sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]
    from olympia_cli.cli.app import main as run

    try:
        return run()
    finally:
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
