"""The program starts, says what it is, and is quick about it."""

import subprocess
import sys

import pytest

from olympia_cli import __version__


def olympia(*args: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from olympia_cli.cli.app import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)


def test_version() -> None:
    run = olympia("--version")
    assert (run.returncode, run.stdout, run.stderr) == (0, f"olympia {__version__}\n", "")


def test_help_is_data() -> None:
    run = olympia("--help")
    assert run.returncode == 0
    assert "--version" in run.stdout
    assert run.stderr == ""


def test_without_a_command_the_help_is_talk() -> None:
    run = olympia()
    assert run.returncode == 2
    assert run.stdout == ""
    assert "--version" in run.stderr


def test_a_usage_error_is_one_line() -> None:
    run = olympia("--no-such-option")
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("argument", ["--help", "--version", "--no-such-option"])
def test_starting_imports_nothing_slow(argument: str) -> None:
    code = (
        "import sys; from olympia_cli.cli.app import main; main();"
        "slow = {'pyarrow', 'pydantic', 'google', 'fsspec', 's3fs', 'gcsfs', 'pyspark'};"
        "print(sorted(slow & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code, argument], capture_output=True, text=True)
    assert run.stdout.endswith("[]\n"), run.stdout + run.stderr
